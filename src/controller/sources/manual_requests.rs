//! What people ask of a source beside what git says: look now, let a held plan go, sync outside the windows.
//!
//! Asked by annotations of the `ModelSource`, so that whoever may edit a source may ask, and the audit log of the cluster
//! says who did. A request names the revision that it is about where it lets something through: what was approved for one
//! commit is not approved for the next.

use stator_model::plan::HoldKind;
use std::collections::{BTreeMap, BTreeSet};

/// Asks for a look and a sync now: any value that is not the one before, by convention the time.
pub const REQUESTED_AT_ANNOTATION: &str = "stator.dev/requestedAt";
/// Flux's name for the same, as its users' fingers know it.
pub const FLUX_REQUESTED_AT_ANNOTATION: &str = "reconcile.fluxcd.io/requestedAt";
/// Lets what guards hold back go: `mass-delete,replace@<commit>`.
pub const ALLOW: &str = "stator.dev/allow";
/// Lets one commit be synced although no window is open: `<commit>`.
pub const OUTSIDE_WINDOWS_ANNOTATION: &str = "stator.dev/outside-windows";
/// What a webhook hinted at, put there by a `stator server` for the controller: see `controller::resources`.
pub const HINTS_ANNOTATION: &str = "stator.dev/hints";

/// The shortest commit that a request may name.
const SHORTEST: usize = 7;

/// What is asked of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManualRequests {
    /// The last request for a look and a sync; another value is another request.
    pub requested_at: Option<String>,
    /// What is let go.
    pub allow: Option<HoldApproval>,
    /// The commit that may be synced outside the windows, in full or its first digits.
    pub outside_windows: Option<String>,
}

/// What is let go, and of which commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldApproval {
    /// What.
    pub kinds: BTreeSet<HoldKind>,
    /// The commit, in full or its first digits, at least seven.
    pub revision: String,
}

/// Why an annotation says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManualRequestError {
    /// No revision, or too little of one.
    #[error("the annotation `{annotation}` has no commit: write {form}, with at least {SHORTEST} digits of the commit")]
    NoRevision {
        /// Which.
        annotation: &'static str,
        /// How it is written.
        form: &'static str,
    },
    /// A word that is no guard's.
    #[error("the annotation `{ALLOW}` names `{word}`; known: replace, delete, adopt, move, mass-delete and max-gpus")]
    UnknownGuard {
        /// The word, cut and without control characters.
        word: String,
    },
}

impl ManualRequests {
    /// What a source's annotations ask, and what in them says nothing.
    pub fn from_annotations(annotations: &BTreeMap<String, String>) -> (Self, Vec<ManualRequestError>) {
        let mut faults = Vec::new();
        let of = |name: &str| annotations.get(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let both = [of(REQUESTED_AT_ANNOTATION), of(FLUX_REQUESTED_AT_ANNOTATION)];
        let at = both.iter().any(Option::is_some).then(|| both.into_iter().flatten().collect::<Vec<_>>().join(" "));
        let allow = of(ALLOW).and_then(|text| parse_approval(&text).map_err(|found| faults.extend(found)).ok());
        let outside_windows = of(OUTSIDE_WINDOWS_ANNOTATION).and_then(|text| {
            let fault = ManualRequestError::NoRevision { annotation: OUTSIDE_WINDOWS_ANNOTATION, form: "`<commit>`" };
            parse_revision(&text).ok_or(fault).map_err(|fault| faults.push(fault)).ok()
        });
        (Self { requested_at: at, allow, outside_windows }, faults)
    }
}

impl HoldApproval {
    /// What is let go of this commit: nothing, where it is about another one.
    pub fn approved_kinds(&self, commit: &str) -> BTreeSet<HoldKind> {
        if commit.starts_with(&self.revision) { self.kinds.clone() } else { BTreeSet::new() }
    }

    /// What is let go, in the words of `--allow`.
    pub fn guard_words(&self) -> String {
        self.kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(",")
    }

    /// As the annotation has it.
    pub fn to_annotation(&self) -> String {
        format!("{}@{}", self.guard_words(), self.revision)
    }
}

fn parse_approval(text: &str) -> Result<HoldApproval, Vec<ManualRequestError>> {
    let (words, commit) = text.rsplit_once('@').unwrap_or((text, ""));
    let mut faults = Vec::new();
    let mut kinds = BTreeSet::new();
    for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        match parse_hold_kind(word) {
            Some(kind) => drop(kinds.insert(kind)),
            None => faults.push(ManualRequestError::UnknownGuard {
                word: word.chars().filter(|c| !c.is_control()).take(40).collect(),
            }),
        }
    }
    match parse_revision(commit) {
        Some(revision) if faults.is_empty() => return Ok(HoldApproval { kinds, revision }),
        Some(_) => {}
        None => {
            faults.push(ManualRequestError::NoRevision { annotation: ALLOW, form: "`mass-delete,replace@<commit>`" })
        }
    }
    Err(faults)
}

/// A commit, in full or its first digits; `None` for what is none, or too little of one.
pub fn parse_commit(text: &str) -> Option<String> {
    parse_revision(text)
}

fn parse_revision(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    let fits = (SHORTEST..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    fits.then_some(text)
}

/// The guard of a word.
pub fn parse_hold_kind(word: &str) -> Option<HoldKind> {
    use HoldKind::{Adopt, Delete, MassDelete, MaxGpus, Move, Replace};
    [Replace, Delete, Adopt, Move, MassDelete, MaxGpus].into_iter().find(|kind| kind.as_str() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> (ManualRequests, String) {
        let annotations = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let (requests, faults) = ManualRequests::from_annotations(&annotations);
        (requests, faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn what_is_approved_is_approved_for_one_commit() {
        let (requests, faults) = read(&[(ALLOW, "mass-delete, replace@3F2C1AB"), (REQUESTED_AT_ANNOTATION, "now")]);
        assert_eq!((faults.as_str(), requests.requested_at.as_deref()), ("", Some("now")));
        let approval = requests.allow.unwrap();
        assert_eq!(approval.to_annotation(), "replace,mass-delete@3f2c1ab");
        assert_eq!(approval.approved_kinds("3f2c1ab99").len(), 2);
        assert!(approval.approved_kinds("4f2c1ab99").is_empty());
    }

    #[test]
    fn every_fault_is_told_and_approves_nothing() {
        let (requests, faults) = read(&[(ALLOW, "everything,replace"), (OUTSIDE_WINDOWS_ANNOTATION, "main")]);
        assert_eq!(requests, ManualRequests::default());
        insta::assert_snapshot!(faults, @r"
        the annotation `stator.dev/allow` names `everything`; known: replace, delete, adopt, move, mass-delete and max-gpus
        the annotation `stator.dev/allow` has no commit: write `mass-delete,replace@<commit>`, with at least 7 digits of the commit
        the annotation `stator.dev/outside-windows` has no commit: write `<commit>`, with at least 7 digits of the commit
        ");
    }

    #[test]
    fn both_names_of_a_request_count() {
        let ask = |pairs: &[(&str, &str)]| read(pairs).0.requested_at;
        assert_ne!(
            ask(&[(REQUESTED_AT_ANNOTATION, "1")]),
            ask(&[(REQUESTED_AT_ANNOTATION, "1"), (FLUX_REQUESTED_AT_ANNOTATION, "2")])
        );
        assert_eq!(ask(&[(REQUESTED_AT_ANNOTATION, " ")]), None);
    }
}
