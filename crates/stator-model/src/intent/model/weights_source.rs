//! Where weights are downloaded from: each scheme with what pins it.

use sha2::{Digest as _, Sha256};

/// How many hex digits of a source's digest are part of a folder's name.
const DIGEST_LENGTH: usize = 10;

/// What is downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WeightsSource {
    /// A repository of Hugging Face at a revision.
    HuggingFace {
        /// `ORG/NAME`, or a name alone for the oldest ones.
        repository: String,
        /// Which state of it.
        revision: WeightsRevision,
    },
    /// Anything else that an image of the user's downloads: the URI as it is written, of checked characters.
    Other {
        /// `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `oci://REPOSITORY@sha256:DIGEST`.
        uri: String,
    },
}

/// A state of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WeightsRevision {
    /// A commit: 40 hex digits.
    Commit(String),
    /// A branch or a tag, which may move.
    Moving(String),
}

impl WeightsRevision {
    /// As it is written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Commit(text) | Self::Moving(text) => text,
        }
    }
}

/// Why a source cannot be downloaded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WeightsSourceFault {
    /// No such scheme.
    UnknownScheme {
        /// The one that is written.
        scheme: String,
    },
    /// There is no revision, or it is a branch or a tag, which moves.
    NotPinned {
        /// The repository.
        repository: String,
        /// What is written in its place.
        revision: Option<String>,
    },
    /// An image by its tag.
    NoDigest,
    /// Something in it that no repository or bucket has.
    Malformed {
        /// What is allowed.
        expected: &'static str,
    },
}

impl WeightsSource {
    /// The source, where what it names cannot change.
    ///
    /// # Errors
    /// When it is a branch or a tag.
    pub fn pinned(self) -> Result<Self, WeightsSourceFault> {
        match self {
            Self::HuggingFace { repository, revision: WeightsRevision::Moving(revision) } => {
                Err(WeightsSourceFault::NotPinned { repository, revision: Some(revision) })
            }
            Self::HuggingFace { repository: _, revision: WeightsRevision::Commit(_) } | Self::Other { uri: _ } => {
                Ok(self)
            }
        }
    }

    /// Reads a source.
    ///
    /// # Errors
    /// When it names no revision, or is not one.
    pub fn parse(uri: &str) -> Result<Self, WeightsSourceFault> {
        let Some((scheme, rest)) = uri.split_once("://") else {
            return Err(WeightsSourceFault::UnknownScheme { scheme: String::new() });
        };
        match scheme {
            "hf" => parse_hugging_face(rest),
            "s3" | "gs" => {
                let expected =
                    "a bucket and a prefix of letters, digits, `-`, `_`, `.`, `=`, `+` and `/`, without credentials";
                if is_path_of(rest, "-_.=+/") {
                    Ok(Self::Other { uri: uri.to_owned() })
                } else {
                    Err(WeightsSourceFault::Malformed { expected })
                }
            }
            "oci" => parse_image(uri, rest),
            _ => Err(WeightsSourceFault::UnknownScheme { scheme: scheme.to_owned() }),
        }
    }

    /// The URI, as annotations say it.
    pub fn uri(&self) -> String {
        match self {
            Self::HuggingFace { repository, revision } => format!("hf://{repository}@{}", revision.as_str()),
            Self::Other { uri } => uri.clone(),
        }
    }

    /// The folder that the weights are in, from the root of the volume. It differs with the revision, so that a new one is
    /// beside the old one while that is served. Of Hugging Face it is where its cache keeps the snapshot of a commit, in
    /// which files that both revisions have are stored once.
    pub fn folder(&self) -> String {
        match self {
            Self::HuggingFace { repository, revision } => {
                format!("hub/models--{}/snapshots/{}", repository.replace('/', "--"), revision.as_str())
            }
            Self::Other { uri } => {
                let mut digest = hex::encode(Sha256::digest(uri.as_bytes()));
                digest.truncate(DIGEST_LENGTH);
                format!("weights-{digest}")
            }
        }
    }

    /// What a person would call it: the last part of its path.
    pub fn short_name(&self) -> &str {
        let path = match self {
            Self::HuggingFace { repository, revision: _ } => repository,
            Self::Other { uri } => uri.split('@').next().unwrap_or_default().trim_end_matches('/'),
        };
        path.rsplit('/').next().unwrap_or_default()
    }
}

impl WeightsSourceFault {
    /// What is wrong, and what to do.
    pub fn describe(&self) -> (String, String) {
        match self {
            Self::UnknownScheme { scheme } => (
                format!("`{scheme}://` is not a source of weights"),
                "Use `hf://`, `s3://`, `gs://` or `oci://`; or leave `source` out, and fill the claim yourself."
                    .to_owned(),
            ),
            Self::NotPinned { repository, revision } => {
                let what = match revision {
                    Some(revision) => {
                        format!("`{revision}` is not the 40 hex digits of a commit: a branch or a tag may move")
                    }
                    None => "the source names no revision, and the default branch may change".to_owned(),
                };
                let help = format!(
                    "Write `hf://{repository}@COMMIT`, or `load: model` for workers that find it by its name. `git ls-remote https://huggingface.co/{repository} HEAD` prints the \
                     newest commit; the page of the repository lists all of them under `Files and versions`."
                );
                (what, help)
            }
            Self::NoDigest => (
                "the image has no digest: a tag may move".to_owned(),
                "Write `oci://REPOSITORY@sha256:DIGEST`, with the digest that the registry shows for the tag."
                    .to_owned(),
            ),
            Self::Malformed { expected } => {
                (format!("the source is malformed; expected {expected}"), "Correct it.".to_owned())
            }
        }
    }
}

fn parse_hugging_face(rest: &str) -> Result<WeightsSource, WeightsSourceFault> {
    let (repository, revision) = match rest.split_once('@') {
        Some((repository, revision)) => (repository, Some(revision)),
        None => (rest, None),
    };
    let parts: Vec<&str> = repository.split('/').collect();
    // The rules of `huggingface_hub.utils.validate_repo_id`.
    let is_name = |part: &&str| {
        part.len() <= 96
            && is_path_of(part, "-_.")
            && !part.contains("--")
            && !part.starts_with(['-', '.'])
            && !part.ends_with(['-', '.'])
    };
    if parts.len() > 2 || !parts.iter().all(is_name) {
        let expected = "`ORG/NAME@REVISION` with names of letters, digits, `-`, `_` and `.`";
        return Err(WeightsSourceFault::Malformed { expected });
    }
    let is_commit =
        |text: &&str| text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let Some(revision) = revision else {
        return Err(WeightsSourceFault::NotPinned { repository: repository.to_owned(), revision: None });
    };
    let repository = repository.to_owned();
    if is_commit(&revision) {
        return Ok(WeightsSource::HuggingFace { repository, revision: WeightsRevision::Commit(revision.to_owned()) });
    }
    let is_ref = revision.len() <= 128 && is_path_of(revision, "-_./") && !revision.starts_with('-');
    if !is_ref {
        let expected = "a revision of letters, digits, `-`, `_`, `.` and `/`";
        return Err(WeightsSourceFault::Malformed { expected });
    }
    Ok(WeightsSource::HuggingFace { repository, revision: WeightsRevision::Moving(revision.to_owned()) })
}

fn parse_image(uri: &str, rest: &str) -> Result<WeightsSource, WeightsSourceFault> {
    let Some((repository, digest)) = rest.split_once("@sha256:") else { return Err(WeightsSourceFault::NoDigest) };
    let is_digest = digest.len() == 64 && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_digest && is_path_of(repository, "-_./:") {
        return Ok(WeightsSource::Other { uri: uri.to_owned() });
    }
    Err(WeightsSourceFault::Malformed { expected: "`oci://REPOSITORY@sha256:` and 64 hex digits" })
}

/// Whether a text is letters, digits and these characters, is not empty, and no part between slashes leads elsewhere.
fn is_path_of(text: &str, further: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || further.contains(letter))
        && text.split('/').all(|part| part != "." && part != "..")
        && !text.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COMMIT: &str = "b5c939de8f754692c1647ca79fbf85e8c1e70f8a";

    fn judge(uri: &str) -> String {
        match WeightsSource::parse(uri) {
            Ok(source) => match source.pinned() {
                Ok(source) => format!("{} in {}", source.short_name(), source.folder()),
                Err(fault) => fault.describe().0,
            },
            Err(fault) => fault.describe().0,
        }
    }

    #[test]
    fn every_scheme_is_read_with_what_pins_it() {
        let digest = "0123456789abcdef".repeat(4);
        let sources = [
            format!("hf://openai/gpt-oss-120b@{COMMIT}"),
            format!("hf://gpt2@{COMMIT}"),
            "hf://openai/gpt-oss-120b".to_owned(),
            "hf://openai/gpt-oss-120b@main".to_owned(),
            format!("hf://openai/gpt-oss-120b@{}", COMMIT.to_uppercase()),
            format!("hf://a/b/c@{COMMIT}"),
            format!("hf://../b@{COMMIT}"),
            format!("hf://a/$(id)@{COMMIT}"),
            "s3://weights/llama/v3".to_owned(),
            "gs://weights/llama/".to_owned(),
            "s3://key:word@weights/llama".to_owned(),
            "s3://weights/../other".to_owned(),
            format!("oci://registry.example.com:5000/weights/llama@sha256:{digest}"),
            "oci://registry.example.com/weights/llama:v3".to_owned(),
            "ftp://weights".to_owned(),
        ];
        insta::assert_snapshot!(sources.iter().map(|uri| judge(uri)).collect::<Vec<_>>().join("\n"), @"
        gpt-oss-120b in hub/models--openai--gpt-oss-120b/snapshots/b5c939de8f754692c1647ca79fbf85e8c1e70f8a
        gpt2 in hub/models--gpt2/snapshots/b5c939de8f754692c1647ca79fbf85e8c1e70f8a
        the source names no revision, and the default branch may change
        `main` is not the 40 hex digits of a commit: a branch or a tag may move
        `B5C939DE8F754692C1647CA79FBF85E8C1E70F8A` is not the 40 hex digits of a commit: a branch or a tag may move
        the source is malformed; expected `ORG/NAME@REVISION` with names of letters, digits, `-`, `_` and `.`
        the source is malformed; expected `ORG/NAME@REVISION` with names of letters, digits, `-`, `_` and `.`
        the source is malformed; expected `ORG/NAME@REVISION` with names of letters, digits, `-`, `_` and `.`
        v3 in weights-c25f8301d6
        llama in weights-47fbb8fd2f
        the source is malformed; expected a bucket and a prefix of letters, digits, `-`, `_`, `.`, `=`, `+` and `/`, without credentials
        the source is malformed; expected a bucket and a prefix of letters, digits, `-`, `_`, `.`, `=`, `+` and `/`, without credentials
        llama in weights-b467fc820a
        the image has no digest: a tag may move
        `ftp://` is not a source of weights
        ");
    }

    proptest! {
        /// Whatever is read is safe where it goes: an environment variable that Kubernetes expands, and a path.
        #[test]
        fn what_is_read_expands_to_nothing_and_leads_nowhere_else(rest in ".{0,40}", scheme in "hf|s3|gs|oci") {
            for uri in [format!("{scheme}://{rest}"), format!("{scheme}://{rest}@{COMMIT}")] {
                if let Ok(source) = WeightsSource::parse(&uri) {
                    prop_assert!(!source.uri().contains(['$', '`', '"', '\'', '\\', ' ', '\n']));
                    prop_assert!(source.folder().split('/').all(|part| !part.is_empty() && part != ".."));
                }
            }
        }
    }
}
