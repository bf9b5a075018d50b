//! How the sync of a model or of a commit ended, and what that is called in each place where people read it.
//!
//! The sync gives one to each model, a verdict has one for its commit, and everything that is reported follows from it:
//! `status.result` of a record, the word that `stator sync` prints, the state that a git host shows, the reason of a
//! condition or an event, the label of a metric.

use serde::{Serialize, Serializer};
use std::fmt;

/// How a sync ended. The sync of one model never ends as `Removed`, `Invalid`, `Unsigned` or `Held`: these are said of it, or
/// of its commit, from what else is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyncOutcome {
    /// Everything is applied; health was not waited for.
    Synced,
    /// Everything is applied, and Healthy at the generation applied.
    Healthy,
    /// Adapters wait for their graph, or a graph for its weights, and were left for a later sync. Nothing is wrong.
    Deferred,
    /// Everything is applied, and something whose deletion was asked for is not gone yet. Nothing is wrong.
    Deleting,
    /// The model is gone, as git wishes.
    Removed,
    /// Its files have errors.
    Invalid,
    /// Its signature is missing or not trusted.
    Unsigned,
    /// A guard holds it back until somebody approves.
    Held,
    /// Something must not be touched: a conflict, an object of somebody else. No approval helps.
    Blocked,
    /// Everything is applied, and did not become Healthy in time. Trying again changes nothing before the cluster does.
    Unhealthy,
    /// Something failed, by stator, the cluster or the network.
    Failed,
    /// The sync was cancelled before its end: a newer commit came, or the process ended.
    Cancelled,
}

/// Outcomes by what is to be done about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutcomeClass {
    /// Nothing: this is what was asked for.
    Success,
    /// Git, or whoever approves, has to change something.
    Failure,
    /// Nothing in git is at fault: stator, the cluster or the network is.
    Error,
    /// Nothing: something else follows.
    Cancelled,
}

impl OutcomeClass {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Success, Self::Failure, Self::Error, Self::Cancelled];

    /// The label `result` of `stator_syncs_total`.
    pub const fn metric_label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

impl SyncOutcome {
    /// What is to be done about it.
    pub const fn class(self) -> OutcomeClass {
        match self {
            Self::Synced | Self::Healthy | Self::Deferred | Self::Deleting | Self::Removed => OutcomeClass::Success,
            Self::Invalid | Self::Unsigned | Self::Held | Self::Blocked | Self::Unhealthy => OutcomeClass::Failure,
            Self::Failed => OutcomeClass::Error,
            Self::Cancelled => OutcomeClass::Cancelled,
        }
    }

    /// Whether this is what was asked for. Deferred adapters are: the message says what to run.
    pub fn is_success(self) -> bool {
        self.class() == OutcomeClass::Success
    }

    /// The word of `stator sync`, as text and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Synced => "Synced",
            Self::Healthy => "Healthy",
            Self::Deferred => "Deferred",
            Self::Deleting => "Deleting",
            Self::Removed => "Removed",
            Self::Invalid => "Invalid",
            Self::Unsigned => "Unsigned",
            Self::Held => "Held",
            Self::Blocked => "Blocked",
            Self::Unhealthy | Self::Failed => "Failed",
            Self::Cancelled => "Cancelled",
        }
    }

    /// `status.history[].result` of a record whose sync ended so; `is_waiting` while health is waited for yet.
    pub const fn record_word(self, is_waiting: bool) -> &'static str {
        match self.class() {
            OutcomeClass::Success if is_waiting || matches!(self, Self::Deleting) => "Progressing",
            OutcomeClass::Success => "Succeeded",
            OutcomeClass::Failure | OutcomeClass::Error => "Failed",
            OutcomeClass::Cancelled => "Superseded",
        }
    }
}

impl fmt::Display for SyncOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for SyncOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records, JSON and metrics of installed versions have these words: none may change.
    #[test]
    fn each_outcome_has_its_word_in_each_place() {
        use SyncOutcome::{
            Blocked, Cancelled, Deferred, Deleting, Failed, Healthy, Held, Invalid, Removed, Synced, Unhealthy,
            Unsigned,
        };
        let all = [
            Synced, Healthy, Deferred, Deleting, Removed, Invalid, Unsigned, Held, Blocked, Unhealthy, Failed,
            Cancelled,
        ];
        let lines: Vec<String> = all
            .iter()
            .map(|outcome| {
                let words = [outcome.record_word(false), outcome.record_word(true), outcome.class().metric_label()];
                format!("{outcome:?}: {outcome} {}", words.join(" "))
            })
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @"
        Synced: Synced Succeeded Progressing success
        Healthy: Healthy Succeeded Progressing success
        Deferred: Deferred Succeeded Progressing success
        Deleting: Deleting Progressing Progressing success
        Removed: Removed Succeeded Progressing success
        Invalid: Invalid Failed Failed failure
        Unsigned: Unsigned Failed Failed failure
        Held: Held Failed Failed failure
        Blocked: Blocked Failed Failed failure
        Unhealthy: Failed Failed Failed failure
        Failed: Failed Failed Failed error
        Cancelled: Cancelled Superseded Superseded cancelled
        ");
    }
}
