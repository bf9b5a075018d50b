//! How the sync of a model or of a commit ended, and what that is called in each place where people read it.
//!
//! The sync gives one to each model, a verdict has one for its commit, and everything that is reported follows from it:
//! `status.result` of a record, the word that `stator sync` prints, the state that a git host shows, the reason of a
//! condition or an event, the label of a metric.

use serde::{Serialize, Serializer};
use std::fmt;

/// How a sync ended. The sync of one model never ends as `Invalid` or `Unsigned`: these are said of it, or of its commit, from
/// what else is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
pub enum SyncOutcome {
    /// Everything is applied; health was not waited for.
    Synced,
    /// Everything was applied already, and nothing was written; health was not waited for.
    Unchanged,
    /// Everything is applied, and Healthy at the generation applied.
    Healthy,
    /// Adapters wait for their graph, or a graph for its weights, and were left for a later sync. Nothing is wrong.
    Deferred,
    /// Everything is applied, and something whose deletion was asked for is not gone yet. Nothing is wrong.
    Deleting,
    /// Git no longer has the model, and its objects are gone.
    Deleted,
    /// Its files have errors.
    Invalid,
    /// Its signature is missing or not trusted.
    Unsigned,
    /// A guard holds it back until somebody approves.
    Held,
    /// Something must not be touched: a conflict, an object of somebody else. No approval helps.
    Blocked,
    /// Everything is applied, and did not become Healthy in time. Trying again changes nothing before the cluster does.
    #[strum(serialize = "Failed")]
    Unhealthy,
    /// Something failed, by stator, the cluster or the network.
    Failed,
    /// A person or the end of the process stopped the sync.
    Cancelled,
    /// A newer commit came before the end of the sync.
    Superseded,
}

/// Outcomes by what is to be done about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
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
    pub fn metric_label(self) -> &'static str {
        self.into()
    }
}

impl SyncOutcome {
    /// What is to be done about it.
    pub const fn class(self) -> OutcomeClass {
        match self {
            Self::Synced | Self::Unchanged | Self::Healthy | Self::Deferred | Self::Deleting | Self::Deleted => {
                OutcomeClass::Success
            }
            Self::Invalid | Self::Unsigned | Self::Held | Self::Blocked | Self::Unhealthy => OutcomeClass::Failure,
            Self::Failed => OutcomeClass::Error,
            Self::Cancelled | Self::Superseded => OutcomeClass::Cancelled,
        }
    }

    /// Whether this is what was asked for. Deferred adapters are: the message says what to run.
    pub fn is_success(self) -> bool {
        self.class() == OutcomeClass::Success
    }

    /// The one word for it, wherever people and programs read it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// `status.history[].result` of a record whose sync ended so; `is_waiting` while health is waited for yet.
    pub fn record_word(self, is_waiting: bool) -> &'static str {
        if is_waiting && self.is_success() { "Progressing" } else { self.as_str() }
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
            Blocked, Cancelled, Deferred, Deleted, Deleting, Failed, Healthy, Held, Invalid, Superseded, Synced,
            Unchanged, Unhealthy, Unsigned,
        };
        let all = [
            Synced, Unchanged, Healthy, Deferred, Deleting, Deleted, Invalid, Unsigned, Held, Blocked, Unhealthy,
            Failed, Cancelled, Superseded,
        ];
        let lines: Vec<String> = all
            .iter()
            .map(|outcome| {
                let words = [outcome.record_word(false), outcome.record_word(true), outcome.class().metric_label()];
                format!("{outcome:?}: {outcome} {}", words.join(" "))
            })
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @"
        Synced: Synced Synced Progressing success
        Unchanged: Unchanged Unchanged Progressing success
        Healthy: Healthy Healthy Progressing success
        Deferred: Deferred Deferred Progressing success
        Deleting: Deleting Deleting Progressing success
        Deleted: Deleted Deleted Progressing success
        Invalid: Invalid Invalid Invalid failure
        Unsigned: Unsigned Unsigned Unsigned failure
        Held: Held Held Held failure
        Blocked: Blocked Blocked Blocked failure
        Unhealthy: Failed Failed Failed failure
        Failed: Failed Failed Failed error
        Cancelled: Cancelled Cancelled Cancelled cancelled
        Superseded: Superseded Superseded Superseded cancelled
        ");
    }
}
