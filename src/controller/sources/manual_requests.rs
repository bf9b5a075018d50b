//! What people ask of a source beside what git says: look now, let a held plan go, sync outside the windows.
//!
//! Asked by annotations of the `ModelSource`, so that whoever may edit a source may ask, and the audit log of the cluster
//! says who did. A request names what it is about where it lets something through, in full: what was approved for one commit and
//! one plan is not approved for the next.

use stator_core::commit::short_commit;
use stator_git::source::model_source::status::truncate_line;
use stator_model::plan::HoldKind;
use std::collections::{BTreeMap, BTreeSet};

/// Asks for a look and a sync now: any value that is not the one before, by convention the time.
pub const REQUESTED_AT_ANNOTATION: &str = "stator.dev/requestedAt";
/// Flux's name for the same, as its users' fingers know it.
pub const FLUX_REQUESTED_AT_ANNOTATION: &str = "reconcile.fluxcd.io/requestedAt";
/// Lets what guards hold back go: `mass-delete,replace@<commit>:<plan>`.
pub const ALLOW: &str = "stator.dev/allow";
/// Who wrote [`ALLOW`]. The admission policy of the chart lets nobody name another than themselves.
pub const ALLOWED_BY_ANNOTATION: &str = "stator.dev/allowed-by";
/// Lets one commit be synced although no window is open: `<commit>`.
pub const OUTSIDE_WINDOWS_ANNOTATION: &str = "stator.dev/outside-windows";
/// What a webhook hinted at, put there by a `stator server` for the controller: see `controller::resources`.
pub const HINTS_ANNOTATION: &str = "stator.dev/hints";

/// The fewest digits of a commit that a person may type; what is written into an annotation has all of them.
const SHORTEST: usize = 7;
/// The longest name of a person or account that is repeated.
const MAX_PERSON_LENGTH: usize = 253;

/// What is asked of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManualRequests {
    /// The last request for a look and a sync; another value is another request.
    pub requested_at: Option<String>,
    /// What is let go.
    pub allow: Option<HoldApproval>,
    /// The commit that may be synced outside the windows, in full.
    pub outside_windows: Option<String>,
}

/// What is let go, of which commit and plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldApproval {
    /// What.
    pub kinds: BTreeSet<HoldKind>,
    /// The commit, in full.
    pub revision: String,
    /// The digest of what is held back of it: [`HeldChanges::digest`](stator_model::plan::HeldChanges::digest).
    pub plan: String,
    /// Who approved, where that was written down: names with commas between them.
    pub by: Option<String>,
}

/// Why an annotation says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManualRequestError {
    /// No revision, or not all of what it is about.
    #[error("the annotation `{annotation}` {lack}: write {form}")]
    NoRevision {
        /// Which.
        annotation: &'static str,
        /// What is missing.
        lack: &'static str,
        /// How it is written.
        form: &'static str,
    },
    /// A word that is no guard's.
    #[error(
        "the annotation `{ALLOW}` names `{word}`; known: replace, delete, adopt, move, mass-delete, max-gpus and rollback"
    )]
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
        let by = of(ALLOWED_BY_ANNOTATION).map(|name| truncate_line(&name, MAX_PERSON_LENGTH));
        let allow = of(ALLOW).and_then(|text| parse_approval(&text, by).map_err(|found| faults.extend(found)).ok());
        let outside_windows = of(OUTSIDE_WINDOWS_ANNOTATION).and_then(|text| {
            let fault = ManualRequestError::NoRevision {
                annotation: OUTSIDE_WINDOWS_ANNOTATION,
                lack: "names no commit in full",
                form: "`<commit>`, with all its digits",
            };
            parse_full_commit(&text).ok_or(fault).map_err(|fault| faults.push(fault)).ok()
        });
        (Self { requested_at: at, allow, outside_windows }, faults)
    }
}

impl HoldApproval {
    /// What is let go, in the words of `--allow`.
    pub fn guard_words(&self) -> String {
        self.kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(",")
    }

    /// What was let go and who approved it, in words.
    pub fn sentence(&self) -> String {
        let guards: Vec<&str> = self.kinds.iter().map(|kind| kind.as_str()).collect();
        let commit = short_commit(&self.revision);
        format!("{} of {commit} was approved{}", guards.join(", "), self.by_words())
    }

    /// ` by` whoever approved, where that was written down.
    pub fn by_words(&self) -> String {
        self.by.as_deref().map_or_else(String::new, |by| format!(" by {by}"))
    }

    /// Who approved, each once. Names have no commas: the admission policy sees to that.
    pub fn approvers(&self) -> BTreeSet<&str> {
        let names = self.by.as_deref().unwrap_or_default().split(',').map(str::trim);
        names.filter(|name| !name.is_empty()).collect()
    }

    /// Who has approved once this person does: whoever approved the same before stays named.
    #[must_use]
    pub fn approved_by(self, person: &str, annotations: &BTreeMap<String, String>) -> Self {
        let same = annotations.get(ALLOW).is_some_and(|known| *known == self.to_annotation());
        let before = annotations.get(ALLOWED_BY_ANNOTATION).filter(|before| same && !before.is_empty());
        let by = match before {
            Some(before) if before.split(',').any(|name| name == person) => before.clone(),
            Some(before) => format!("{before},{person}"),
            None => person.to_owned(),
        };
        Self { by: Some(by), ..self }
    }

    /// As the annotation has it.
    pub fn to_annotation(&self) -> String {
        format!("{}@{}:{}", self.guard_words(), self.revision, self.plan)
    }
}

fn parse_approval(text: &str, by: Option<String>) -> Result<HoldApproval, Vec<ManualRequestError>> {
    let (words, about) = text.rsplit_once('@').unwrap_or((text, ""));
    let (commit, plan) = about.split_once(':').unwrap_or((about, ""));
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
    match (parse_full_commit(commit), parse_digits(plan, &[64])) {
        (Some(revision), Some(plan)) if faults.is_empty() => return Ok(HoldApproval { kinds, revision, plan, by }),
        (Some(_), Some(_)) => {}
        (None, _) | (_, None) => faults.push(ManualRequestError::NoRevision {
            annotation: ALLOW,
            lack: "names no commit and plan in full",
            form: "`mass-delete,replace@<commit>:<plan>` as `status.held` has both, or use `stator sync --source`",
        }),
    }
    Err(faults)
}

/// A commit, in full or its first digits; `None` for what is none, or too little of one.
pub fn parse_commit(text: &str) -> Option<String> {
    let lengths: Vec<usize> = (SHORTEST..=64).collect();
    parse_digits(text, &lengths)
}

/// A commit with all its digits: SHA-1 or SHA-256.
pub fn parse_full_commit(text: &str) -> Option<String> {
    parse_digits(text, &[40, 64])
}

fn parse_digits(text: &str, lengths: &[usize]) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    let fits = lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    fits.then_some(text)
}

/// The guard of a word.
pub fn parse_hold_kind(word: &str) -> Option<HoldKind> {
    use HoldKind::{Adopt, Delete, MassDelete, MaxGpus, Move, Replace, Rollback};
    [Replace, Delete, Adopt, Move, MassDelete, MaxGpus, Rollback].into_iter().find(|kind| kind.as_str() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> (ManualRequests, String) {
        let annotations = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let (requests, faults) = ManualRequests::from_annotations(&annotations);
        (requests, faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    /// S13: an approval names a commit and a plan with all their digits, and nothing less.
    #[test]
    fn what_is_approved_is_approved_for_one_commit_and_plan() {
        let (commit, plan) = ("3f2c1ab".repeat(6)[..40].to_owned(), "d".repeat(64));
        let text = format!("mass-delete, replace@{}:{plan}", commit.to_uppercase());
        let (requests, faults) =
            read(&[(ALLOW, &text), (ALLOWED_BY_ANNOTATION, "alice"), (REQUESTED_AT_ANNOTATION, "now")]);
        assert_eq!((faults.as_str(), requests.requested_at.as_deref()), ("", Some("now")));
        let approval = requests.allow.unwrap();
        assert_eq!(approval.to_annotation(), format!("replace,mass-delete@{commit}:{plan}"));
        assert_eq!(approval.by.as_deref(), Some("alice"));
        for short in [
            format!("replace@{}", &commit[..7]),
            format!("replace@{commit}"),
            format!("replace@{}:{plan}", &commit[..39]),
            format!("replace@{commit}:{}", &plan[..63]),
            format!("replace:{plan}"),
        ] {
            let (requests, faults) = read(&[(ALLOW, &short)]);
            assert!(
                requests.allow.is_none() && faults.contains("names no commit and plan in full"),
                "{short}: {faults}"
            );
        }
    }

    /// Four eyes: whoever approves the same is named behind those who did, once; whoever approves something else stands alone.
    #[test]
    fn several_people_approve_one_plan() {
        let plan = |digit: &str| {
            let text = format!("replace@{}:{}", "a".repeat(40), digit.repeat(64));
            read(&[(ALLOW, &text)]).0.allow.unwrap()
        };
        let annotations = |approval: &HoldApproval| {
            let by = approval.by.clone().unwrap_or_default();
            BTreeMap::from([(ALLOW.to_owned(), approval.to_annotation()), (ALLOWED_BY_ANNOTATION.to_owned(), by)])
        };
        let first = plan("c").approved_by("alice", &BTreeMap::new());
        let again = plan("c").approved_by("alice", &annotations(&first));
        let second = plan("c").approved_by("bob", &annotations(&first));
        let other = plan("d").approved_by("bob", &annotations(&first));
        assert_eq!([&first, &again, &second, &other].map(|one| one.approvers().len()), [1, 1, 2, 1]);
        assert_eq!(second.by.as_deref(), Some("alice,bob"));
        let forged = HoldApproval { by: Some("alice, alice ,,".to_owned()), ..second };
        assert_eq!(forged.approvers().len(), 1);
    }

    #[test]
    fn every_fault_is_told_and_approves_nothing() {
        let (requests, faults) = read(&[(ALLOW, "everything,replace"), (OUTSIDE_WINDOWS_ANNOTATION, "3f2c1ab")]);
        assert_eq!(requests, ManualRequests::default());
        insta::assert_snapshot!(faults, @r"
        the annotation `stator.dev/allow` names `everything`; known: replace, delete, adopt, move, mass-delete, max-gpus and rollback
        the annotation `stator.dev/allow` names no commit and plan in full: write `mass-delete,replace@<commit>:<plan>` as `status.held` has both, or use `stator sync --source`
        the annotation `stator.dev/outside-windows` names no commit in full: write `<commit>`, with all its digits
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
