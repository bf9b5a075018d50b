//! Images, and the version of the runtime that is in them.

use super::{AdmissionCollector, AdmissionOutcome, rules};
use crate::dynamo::release::Behaviour;
use crate::object::FieldPath;
use regex::Regex;
use std::sync::LazyLock;

/// Why no version can be read from an image's tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageTagFault {
    /// The image has no tag.
    Missing,
    /// The tag is `latest`.
    Latest,
    /// The tag is something else that is not a version.
    NotVersion,
}

/// A semantic version with an optional `v`: three numbers without leading zeros, then what may follow them. Source: the
/// operator's `internal/runtimeversion`, and 60 verdicts on tags in `tests/data/dynamo/1.5/oracle/creates.jsonl`.
static TAG: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let number = "(?:0|[1-9][0-9]*)";
    let before = format!("(?:{number}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)");
    let build = "[0-9A-Za-z-]+";
    let text =
        format!(r"^[vV]?({number}\.{number}\.{number})(?:-{before}(?:\.{before})*)?(?:\+{build}(?:\.{build})*)?$");
    Regex::new(&text).ok()
});

/// The version that Dynamo reads from an image's tag, without what follows its three numbers: `1.4.0` of
/// `registry/vllm-runtime:v1.4.0-efa`. `None` where there is no tag, or one that is no semantic version.
pub fn version_in_tag(image: &str) -> Option<String> {
    let found = TAG.as_ref()?.captures(image_tag(image)?)?;
    Some(found.get(1)?.as_str().to_owned())
}

/// Whether a text is what `runtimeVersionOverride` takes: three numbers of at most four digits, without leading zeros.
pub fn is_runtime_version(text: &str) -> bool {
    let number = |part: &str| {
        (1..=4).contains(&part.len())
            && part.bytes().all(|digit| digit.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    text.split('.').count() == 3 && text.split('.').all(number)
}

/// The tag of an image reference, none with a digest alone or no tag. Blanks around it count for nothing.
fn image_tag(image: &str) -> Option<&str> {
    let image = image.trim();
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    // A colon before the last slash belongs to the registry's port.
    let last = name.rsplit_once('/').map_or(name, |(_, last)| last);
    last.split_once(':').map(|(_, tag)| tag.trim()).filter(|tag| !tag.is_empty())
}

/// The runtime's version can be read from the image, or is `given` beside it.
pub(super) fn check_version(
    image: &str,
    given: bool,
    path: FieldPath,
    words: impl Into<String>,
    faults: &mut AdmissionCollector<'_>,
) {
    if given || version_in_tag(image).is_some() {
        return;
    }
    let (fault, found) = match image_tag(image) {
        Some("latest") => (ImageTagFault::Latest, "tag `latest` is not a version".to_owned()),
        Some(tag) => (ImageTagFault::NotVersion, format!("tag `{tag}` is not a version")),
        None if image.contains('@') => (ImageTagFault::Missing, "there is a digest and no tag".to_owned()),
        None => (ImageTagFault::Missing, "there is no tag".to_owned()),
    };
    let reads = faults.has(Behaviour::RuntimeVersionRead);
    let since = Behaviour::RuntimeVersionRead.since();
    let (outcome, message, help, words) = if reads {
        (
            AdmissionOutcome::Denied,
            format!("`{image}`: {found}, and Dynamo {since} and later refuse an image without one"),
            "give `runtimeVersion: 1.4.0` beside the image, with the version of Dynamo that is in it; or use a tag such as \
             `1.4.0`",
            Some(words.into()),
        )
    } else {
        (
            AdmissionOutcome::WouldFail,
            format!(
                "`{image}`: {found}; Dynamo {since} and later read the runtime's version from it and refuse others"
            ),
            "use a tag such as `1.2.0`; or give `runtimeVersion` beside the image",
            None,
        )
    };
    faults.push(rules::IMAGE_VERSION, path, message, help.to_owned(), outcome, words);
    if let Some(finding) = faults.findings.last_mut() {
        finding.image_tag = Some(fault);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_a_tag_as_dynamo_reads_it() {
        let read = |tag: &str| version_in_tag(&format!("registry.example:5000/dynamo/vllm-runtime:{tag}"));
        for (tag, version) in [
            ("1.2.0", "1.2.0"),
            ("v1.2.0", "1.2.0"),
            ("V1.4.0", "1.4.0"),
            ("0.0.0", "0.0.0"),
            ("12345.0.0", "12345.0.0"),
            ("2024.1.15", "2024.1.15"),
            ("1.2.0-rc1", "1.2.0"),
            ("1.2.0-rc.1", "1.2.0"),
            ("1.2.0-0a", "1.2.0"),
            ("1.2.0-0", "1.2.0"),
            ("1.2.0--", "1.2.0"),
            ("1.2.0-efa-amd64", "1.2.0"),
            ("1.5.0-nemotron-3.5-lightning-dev.1", "1.5.0"),
            ("1.2.0+cu13", "1.2.0"),
            ("1.2.0+01.a", "1.2.0"),
            ("1.2.0-rc.1+cu13", "1.2.0"),
            ("1.2.0 ", "1.2.0"),
            ("1.2.0@sha256:00", "1.2.0"),
        ] {
            assert_eq!(read(tag).as_deref(), Some(version), "{tag}");
        }
        for tag in [
            "1",
            "1.2",
            "1.2.x",
            "1.2.3.4",
            "01.2.3",
            "1.02.3",
            "1.2.03",
            "2024.01",
            "2024.01.15",
            "vv1.2.0",
            "v",
            "",
            "1.2.0rc1",
            "1.2.0-",
            "1.2.0+",
            "1.2.0-01",
            "1.4.0-rc.01",
            "1.2.0-rc..1",
            "1.2.0-a_b",
            "1.2.0_cu13",
            "1.2.0.post1",
            "cuda13-1.2.0",
            "sha-0123abc",
            "latest",
            "main",
            "-1.2.0",
            "1.2.0-rc.1+",
            "１.2.0",
        ] {
            assert_eq!(read(tag), None, "{tag}");
        }
        for image in ["vllm-runtime", "registry:5000/vllm-runtime", "vllm-runtime@sha256:1.2.0", "", ":", "@", "a:b/c"]
        {
            assert_eq!(version_in_tag(image), None, "{image}");
        }
    }

    #[test]
    fn an_override_is_three_numbers() {
        for text in ["1.4.0", "0.0.0", "9999.9999.9999"] {
            assert!(is_runtime_version(text), "{text}");
        }
        for text in ["", "1.4", "1.4.0.0", "v1.4.0", "01.4.0", "12345.0.0", "1.4.0-rc.1", " 1.4.0", "1..0", "1.4.٣"] {
            assert!(!is_runtime_version(text), "{text}");
        }
    }
}
