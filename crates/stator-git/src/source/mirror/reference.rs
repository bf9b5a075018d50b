//! From what a source follows to the commit that it leads to.

use super::advert::{Advert, is_sound};
use super::range::Range;
use super::{MirrorError, Tip};
use crate::source::git::printable;
use crate::source::model_source::Reference;
use git2::Oid;
use semver::Version;

/// Where a reference leads.
pub(super) fn resolve(reference: &Reference, advert: &Advert) -> Result<Tip, MirrorError> {
    match reference {
        Reference::Branch(branch) => {
            let name = ref_name("refs/heads/", branch, "branch")?;
            tip(&name, advert).ok_or_else(|| {
                if advert.refs.is_empty() {
                    return MirrorError::Empty;
                }
                MirrorError::NoBranch { branch: branch.clone(), default: advert.default_branch() }
            })
        }
        Reference::Tag(tag) => {
            let name = ref_name("refs/tags/", tag, "tag")?;
            tip(&name, advert).ok_or_else(|| {
                if advert.refs.is_empty() { MirrorError::Empty } else { MirrorError::NoTag { tag: tag.clone() } }
            })
        }
        Reference::Commit(commit) => Ok(Tip { name: String::new(), commit: full(commit)?.to_string(), tag: None }),
        Reference::Semver(range) => highest(range, advert),
    }
}

/// A commit by all its digits: what is short today is ambiguous tomorrow.
pub(super) fn full(commit: &str) -> Result<Oid, MirrorError> {
    let bad = || MirrorError::BadName { name: printable(commit.as_bytes()), what: "commit" };
    if commit.len() != 40 || !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(bad());
    }
    Oid::from_str(commit).ok().filter(|oid| !oid.is_zero()).ok_or_else(bad)
}

/// The whole name of a ref, as git allows it.
pub(super) fn ref_name(prefix: &str, name: &str, what: &'static str) -> Result<String, MirrorError> {
    let whole = format!("{prefix}{name}");
    if is_sound(&whole) { Ok(whole) } else { Err(MirrorError::BadName { name: printable(name.as_bytes()), what }) }
}

pub(super) fn tip(name: &str, advert: &Advert) -> Option<Tip> {
    let target = advert.refs.get(name)?;
    let (commit, tag) = match advert.peeled.get(name) {
        Some(end) => (end, Some(target.to_string())),
        None => (target, None),
    };
    Some(Tip { name: name.to_owned(), commit: commit.to_string(), tag })
}

/// The tag with the highest version in the range. Of two tags that are the same version, `v1.0.0` comes over `1.0.0`, so
/// that every reader picks the same.
fn highest(text: &str, advert: &Advert) -> Result<Tip, MirrorError> {
    let range = Range::parse(text).map_err(|reason| MirrorError::BadRange { range: text.to_owned(), reason })?;
    let tags = || advert.refs.keys().filter_map(|name| name.strip_prefix("refs/tags/"));
    let versions = tags().filter_map(|tag| {
        let version = Version::parse(tag.strip_prefix('v').unwrap_or(tag)).ok()?;
        Some((version, tag))
    });
    let order = |(a, a_tag): &(Version, &str), (b, b_tag): &(Version, &str)| {
        a.cmp_precedence(b).then_with(|| a.cmp(b)).then_with(|| a_tag.cmp(b_tag))
    };
    let best = versions.clone().filter(|(version, _)| range.matches(version)).max_by(order);
    let found = best.and_then(|(_, tag)| tip(&format!("refs/tags/{tag}"), advert));
    found.ok_or_else(|| {
        if advert.refs.is_empty() {
            return MirrorError::Empty;
        }
        let newest = versions.max_by(order).map(|(_, tag)| tag.to_owned());
        MirrorError::NoVersion { range: text.to_owned(), tags: tags().count(), newest }
    })
}
