//! A commit that a poll found.

use crate::controller::commit_trials::TrialRefusal;
use crate::telemetry::traces::TraceContext;
use jiff::Timestamp;
use stator_git::source::signature::SignatureError;

/// Why a commit may not be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommitRefusal {
    /// Its signature.
    Signature(SignatureError),
    /// Reading it ended the process.
    Trial(TrialRefusal),
}

/// A commit that the source's reference points at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PolledCommit {
    /// In full.
    pub(super) commit: String,
    /// What the same reference pointed at before, for an earlier process perhaps.
    pub(super) previous: Option<String>,
    /// Its first parent: another replica may have begun with that one.
    pub(super) parent: Option<String>,
    /// Why it may not be rendered.
    pub(super) refusal: Option<CommitRefusal>,
    /// When it began, as latencies are measured.
    pub(super) began: Timestamp,
    /// Whether it was pushed while the source was polled: only then is it measured how long it takes.
    pub(super) is_fresh: bool,
    /// The poll that found it.
    pub(super) origin: TraceContext,
}

impl PolledCommit {
    /// As people name it.
    pub(super) fn short(&self) -> &str {
        stator_core::commit::short_commit(&self.commit)
    }
}

#[cfg(test)]
impl PolledCommit {
    /// A commit without a past.
    pub(super) fn for_test(commit: &str, is_refused: bool) -> Self {
        Self {
            commit: commit.to_owned(),
            previous: None,
            parent: None,
            refusal: is_refused
                .then(|| CommitRefusal::Signature(SignatureError::Unsigned { object: format!("commit {commit}") })),
            began: Timestamp::UNIX_EPOCH,
            is_fresh: false,
            origin: TraceContext::default(),
        }
    }
}
