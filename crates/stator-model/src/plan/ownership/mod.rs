//! Whose a record is to a plan.
//! What becomes its source's is reported.

pub(super) mod repository_address;
pub(super) mod source_identity;

use super::{SourceIdentity, rules};
use crate::plan::{OwnerRelation, SourceClaim};
use stator_core::finding::{Finding, Location};
use std::collections::{BTreeMap, HashSet};

/// What a plan says of the records that it was made from, for the sync that writes them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanOwnership {
    /// What records are to belong to; see [`crate::plan::PlanInput::owner`].
    pub owner: Option<SourceIdentity>,
    /// Models with lines in the plan whose record belongs to somebody else, and is not touched. Sorted.
    pub foreign: Vec<String>,
    /// Models whose record cannot be read: the next one is written over it. Sorted.
    pub damaged: Vec<String>,
}

/// Whose a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordOwnership {
    /// The source's own.
    Own,
    /// It says another owner, or none, and is the source's from now on.
    TakenOver(TakeoverCause),
    /// Another folder's, where neither has a name: it is shown, and left alone.
    Elsewhere,
    /// Somebody else's.
    Foreign,
}

/// Why a record with another owner, or none, becomes the source's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TakeoverCause {
    /// An earlier stator wrote it, and its names are those of the source.
    NoOwner,
    /// The content comes from the same place, and reaches the cluster in another way.
    SameOrigin,
    /// The `ModelSource` was made again.
    Recreated,
    /// The model's file is the same one, read from a root above or below, or from before the folder was in a repository.
    SameFile,
    /// Somebody allowed it.
    Moved,
}

/// What of a record tells whose it is.
pub(super) struct RecordFacts<'a> {
    pub(super) model: &'a str,
    pub(super) repository: &'a str,
    pub(super) environment: &'a str,
    pub(super) source: &'a str,
    pub(super) folder: Option<&'a str>,
    pub(super) owner: Option<&'a SourceIdentity>,
}

/// Judges records by what a plan is made for.
pub(super) struct OwnershipJudge<'a> {
    pub(super) claim: Option<&'a SourceClaim>,
    pub(super) repository: &'a str,
    pub(super) environment: &'a str,
    /// The folder, where it has no name.
    pub(super) folder: Option<&'a str>,
    /// Models that git has, rendered or not.
    pub(super) wanted: HashSet<&'a str>,
    /// Their files, by every text that a record of another owner may have for them.
    pub(super) files: HashSet<String>,
    /// Models that may be taken over from anybody.
    pub(super) movable: HashSet<&'a str>,
}

impl OwnershipJudge<'_> {
    pub(super) fn judge(&self, record: &RecordFacts<'_>) -> RecordOwnership {
        let is_wanted = self.wanted.contains(record.model);
        let has_names = record.repository == self.repository && record.environment == self.environment;
        let is_nameless_other = || {
            let here = self.folder;
            has_names && !is_wanted && here.is_some() && record.folder != here
        };
        let otherwise = || {
            if is_nameless_other() {
                RecordOwnership::Elsewhere
            } else if self.movable.contains(record.model) {
                RecordOwnership::TakenOver(TakeoverCause::Moved)
            } else {
                RecordOwnership::Foreign
            }
        };
        let (claim, recorded) = match (self.claim, record.owner) {
            (Some(claim), Some(recorded)) => (claim, recorded),
            (claim, None) if has_names => {
                return match claim {
                    Some(_) | None if is_nameless_other() => RecordOwnership::Elsewhere,
                    Some(_) => RecordOwnership::TakenOver(TakeoverCause::NoOwner),
                    None => RecordOwnership::Own,
                };
            }
            (None, Some(_)) if has_names && !is_nameless_other() => return RecordOwnership::Own,
            (Some(_) | None, None) | (None, Some(_)) => return otherwise(),
        };
        if record.environment != self.environment {
            return otherwise();
        }
        match claim.identity.relation_to(recorded) {
            OwnerRelation::Same => RecordOwnership::Own,
            OwnerRelation::SameOrigin => RecordOwnership::TakenOver(TakeoverCause::SameOrigin),
            OwnerRelation::Recreated => RecordOwnership::TakenOver(TakeoverCause::Recreated),
            // A source beside this one that follows the same repository is somebody else, whatever it reads.
            OwnerRelation::Foreign if recorded.origin() == claim.identity.origin() => otherwise(),
            OwnerRelation::Foreign if self.files.contains(&recorded.origin().file(record.source)) => {
                RecordOwnership::TakenOver(TakeoverCause::SameFile)
            }
            OwnerRelation::Foreign => otherwise(),
        }
    }
}

/// The names of models that one line has space for.
const MAX_NAMES: usize = 5;

/// One line for each owner that records had before, of models with the owner that their record names.
pub(in crate::plan) fn takeover_findings<'a>(
    models: impl Iterator<Item = (TakeoverCause, Option<&'a SourceIdentity>, &'a str)>,
) -> Vec<Finding> {
    let mut by_owner: BTreeMap<(TakeoverCause, String), Vec<&str>> = BTreeMap::new();
    for (cause, owner, model) in models {
        let owner = owner.map(SourceIdentity::describe).unwrap_or_default();
        by_owner.entry((cause, owner)).or_default().push(model);
    }
    let finding = |((cause, owner), models): ((TakeoverCause, String), Vec<&str>)| {
        let noun = if models.len() == 1 { "model" } else { "models" };
        let names = list_names(&models);
        let what = match cause {
            TakeoverCause::NoOwner => format!(
                "taking over {noun} {names}: an earlier stator synced these names without recording their source"
            ),
            TakeoverCause::SameOrigin => {
                format!("taking over {noun} {names}, last synced from the same place by {owner}")
            }
            TakeoverCause::Recreated => {
                format!("taking over {noun} {names}: {owner} was created again under the same name")
            }
            TakeoverCause::SameFile => format!("taking over {noun} {names}: same files, last synced from {owner}"),
            TakeoverCause::Moved => format!("taking over {noun} {names} from {owner}, as allowed"),
        };
        let help = "no restart: stator writes only records and labels; see docs/reference/record.md";
        Finding::warning(rules::TAKEN_OVER, Location::default(), what, help)
    };
    by_owner.into_iter().map(finding).collect()
}

fn list_names(models: &[&str]) -> String {
    let shown = models.get(..MAX_NAMES.min(models.len())).unwrap_or_default().join(", ");
    match models.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        left => format!("{shown} and {left} more"),
    }
}

#[cfg(test)]
mod tests;
