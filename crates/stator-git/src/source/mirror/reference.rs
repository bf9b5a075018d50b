//! From what a source follows to the commit that it leads to.

use super::error::MirrorError;
use super::range::VersionRange;
use super::remote_refs::{RemoteRefs, is_valid_ref_name};
use crate::source::git::printable;
use crate::source::model_source::Reference;
use git2::Oid;
use semver::Version;

/// Where a reference leads at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedRef {
    /// The whole name of the ref: `refs/heads/main`, `refs/tags/v1.2.0`. Empty where the source names a commit.
    pub name: String,
    /// The commit, in full.
    pub commit: String,
    /// The tag object, in full, where the ref is an annotated tag.
    pub tag: Option<String>,
}

/// Where a reference leads.
pub(super) fn resolve_reference(reference: &Reference, advert: &RemoteRefs) -> Result<ResolvedRef, MirrorError> {
    match reference {
        Reference::Branch(branch) => {
            let name = full_ref_name("refs/heads/", branch, "branch")?;
            find_ref(&name, advert).ok_or_else(|| {
                if advert.refs.is_empty() {
                    return MirrorError::Empty;
                }
                MirrorError::NoBranch { branch: branch.clone(), default: advert.default_branch() }
            })
        }
        Reference::Tag(tag) => {
            let name = full_ref_name("refs/tags/", tag, "tag")?;
            find_ref(&name, advert).ok_or_else(|| {
                if advert.refs.is_empty() { MirrorError::Empty } else { MirrorError::NoTag { tag: tag.clone() } }
            })
        }
        Reference::Commit(commit) => {
            Ok(ResolvedRef { name: String::new(), commit: parse_full_commit(commit)?.to_string(), tag: None })
        }
        Reference::Semver(range) => highest_version(range, advert),
    }
}

/// A commit by all its digits: what is short today is ambiguous tomorrow.
pub(super) fn parse_full_commit(commit: &str) -> Result<Oid, MirrorError> {
    let bad = || MirrorError::BadName { name: printable(commit.as_bytes()), what: "commit" };
    if commit.len() != 40 || !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(bad());
    }
    Oid::from_str(commit).ok().filter(|oid| !oid.is_zero()).ok_or_else(bad)
}

/// The whole name of a ref, as git allows it.
pub(super) fn full_ref_name(prefix: &str, name: &str, what: &'static str) -> Result<String, MirrorError> {
    let whole = format!("{prefix}{name}");
    if is_valid_ref_name(&whole) {
        Ok(whole)
    } else {
        Err(MirrorError::BadName { name: printable(name.as_bytes()), what })
    }
}

pub(super) fn find_ref(name: &str, advert: &RemoteRefs) -> Option<ResolvedRef> {
    let target = advert.refs.get(name)?;
    let (commit, tag) = match advert.peeled.get(name) {
        Some(end) => (end, Some(target.to_string())),
        None => (target, None),
    };
    Some(ResolvedRef { name: name.to_owned(), commit: commit.to_string(), tag })
}

/// The tag with the highest version in the range. Of two tags that are the same version, `v1.0.0` comes over `1.0.0`, so
/// that every reader picks the same.
fn highest_version(text: &str, advert: &RemoteRefs) -> Result<ResolvedRef, MirrorError> {
    let range = VersionRange::parse(text).map_err(|reason| MirrorError::BadRange { range: text.to_owned(), reason })?;
    let tags = || advert.refs.keys().filter_map(|name| name.strip_prefix("refs/tags/"));
    let versions = tags().filter_map(|tag| {
        let version = Version::parse(tag.strip_prefix('v').unwrap_or(tag)).ok()?;
        Some((version, tag))
    });
    let order = |(a, a_tag): &(Version, &str), (b, b_tag): &(Version, &str)| {
        a.cmp_precedence(b).then_with(|| a.cmp(b)).then_with(|| a_tag.cmp(b_tag))
    };
    let best = versions.clone().filter(|(version, _)| range.matches(version)).max_by(order);
    let found = best.and_then(|(_, tag)| find_ref(&format!("refs/tags/{tag}"), advert));
    found.ok_or_else(|| {
        if advert.refs.is_empty() {
            return MirrorError::Empty;
        }
        let newest = versions.max_by(order).map(|(_, tag)| tag.to_owned());
        MirrorError::NoVersion { range: text.to_owned(), tags: tags().count(), newest }
    })
}
