//! Why an attempt ended before it wrote anything, and when it is worth trying again.

use super::attempt_report::{AttemptReport, AttemptSummary, FailureDetails, NextStep, UncoveredModels};
use super::drift_repairs::DriftFindings;
use crate::controller::mirror_handle::GitError;
use crate::controller::sources::registry::ProblemReason;
use crate::controller::sources::tenancy::ForeignNamespaceError;
use crate::controller::status_wording::{CommitVerdict, FirstFinding};
use stator_cluster::cluster::ClusterError;
use stator_cluster::cluster::kube::PreflightProblem;
use stator_cluster::sync::GatherError;
use stator_core::finding::Finding;
use stator_model::intent::EnvironmentError;
use std::collections::BTreeMap;
use std::time::Duration;

/// An attempt that got nowhere.
#[derive(Debug)]
pub(super) struct AttemptFailure {
    pub(super) verdict: CommitVerdict,
    /// What to do about it.
    help: String,
    retry: RetryPolicy,
    /// The reason, where the verdict does not say it.
    reason: Option<ProblemReason>,
}

/// When a failed attempt is made again by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryPolicy {
    /// After seconds, growing: it may pass by itself.
    Soon,
    /// After minutes, growing: somebody has to grant or install something, and nobody tells when that is done.
    Slowly,
    /// Not before the commit or the source changes, which starts an attempt anyway.
    OnChange,
}

impl AttemptFailure {
    /// stator could not do its work.
    pub(super) fn error(message: impl Into<String>, help: impl Into<String>, retry: RetryPolicy) -> Self {
        let verdict = CommitVerdict::Error { message: message.into() };
        Self { verdict, help: help.into(), retry, reason: None }
    }

    /// Something took longer than it may.
    pub(super) fn timeout(what: &str, limit: Duration) -> Self {
        let message = format!("{what} in {} minutes", limit.as_secs() / 60);
        Self::error(message, "stator retries; check whether the API server is slow", RetryPolicy::Soon)
    }

    /// The cluster would drop a part of what is written to it.
    pub(super) fn unfit_cluster(problem: PreflightProblem) -> Self {
        Self::error(format!("nothing is written: {}", problem.message), problem.fix, RetryPolicy::Slowly)
    }

    /// The cluster could not be asked whether it keeps what is written to it.
    pub(super) fn unknown_fitness(cause: ClusterError) -> Self {
        Self::from(GatherError { what: "the definitions of Dynamo's kinds".to_owned(), cause })
    }

    /// A thread panicked.
    pub(super) fn panicked(what: &str) -> Self {
        Self::error(format!("{what} ended unexpectedly"), "report it, with the log", RetryPolicy::Soon)
    }

    /// The repository has no such environment, or says nothing valid of any.
    pub(super) fn no_environment(error: &EnvironmentError, findings: &[Finding]) -> Self {
        let verdict = match FirstFinding::from_findings(findings) {
            Some(first) => CommitVerdict::Invalid(first),
            None => CommitVerdict::Error { message: error.to_string() },
        };
        let help = match error {
            EnvironmentError::Unknown { .. } | EnvironmentError::Ambiguous { .. } => {
                "set `spec.environment` of the source to an environment of the root stator.yaml"
            }
            EnvironmentError::Unreadable { .. } => "fix the root stator.yaml",
        };
        Self { verdict, help: help.to_owned(), retry: RetryPolicy::OnChange, reason: None }
    }

    /// As the end of an attempt that took so long: nothing of the commit is synced.
    pub(super) fn into_report(self, took: Duration) -> AttemptReport {
        let next = match self.retry {
            RetryPolicy::Soon => NextStep::Retry,
            RetryPolicy::Slowly => NextStep::RetrySlowly,
            RetryPolicy::OnChange => NextStep::Watch { statuses: false },
        };
        let uncovered = Some(UncoveredModels::All);
        let is_transient = self.retry == RetryPolicy::Soon;
        AttemptReport {
            summary: AttemptSummary { next, is_success: false, held: None, uncovered, drift: DriftFindings::default() },
            verdict: self.verdict,
            failure: Some(FailureDetails { reason: self.reason, help: self.help, is_transient }),
            models: None,
            watches_statuses: false,
            holds: BTreeMap::new(),
            held_plan: String::new(),
            writes: 0,
            took,
        }
    }
}

/// What may not pass by itself is tried again all the same: who grants a right tells nobody.
fn retry_policy(retry_delay: Option<Duration>) -> RetryPolicy {
    if retry_delay.is_some() { RetryPolicy::Soon } else { RetryPolicy::Slowly }
}

impl From<ForeignNamespaceError> for AttemptFailure {
    fn from(error: ForeignNamespaceError) -> Self {
        let failure = Self::error(format!("the environment: {error}"), error.help(), RetryPolicy::OnChange);
        Self { reason: Some(ProblemReason::AccessDenied), ..failure }
    }
}

impl From<GitError> for AttemptFailure {
    fn from(error: GitError) -> Self {
        let failure = Self::error(error.to_string(), error.help(), retry_policy(error.may_pass()));
        if !matches!(error, GitError::Trial(_)) {
            return failure;
        }
        Self { reason: Some(ProblemReason::Trial), retry: RetryPolicy::OnChange, ..failure }
    }
}

impl From<GatherError> for AttemptFailure {
    fn from(error: GatherError) -> Self {
        let retry = retry_policy(error.cause.retry_delay());
        Self::error(error.to_string(), error.cause.help().into_owned(), retry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row D1 of the review: rights granted later, and kinds installed later, were never seen.
    #[test]
    fn what_the_cluster_refuses_at_a_look_is_tried_again() {
        let kind = "Model".to_owned();
        let of = |cause: ClusterError| {
            let failure = AttemptFailure::from(GatherError { what: kind.clone(), cause });
            failure.into_report(Duration::ZERO).summary.next
        };
        let message = "no".to_owned();
        assert_eq!(
            [
                of(ClusterError::Forbidden { message: message.clone(), fix: String::new() }),
                of(ClusterError::Refused { message: message.clone(), fix: String::new() }),
                of(ClusterError::UnknownKind {
                    api_version: "stator.dev/v1alpha1".to_owned(),
                    kind: "Model".to_owned()
                }),
                of(ClusterError::transient("down")),
            ],
            [NextStep::RetrySlowly, NextStep::RetrySlowly, NextStep::RetrySlowly, NextStep::Retry]
        );
    }
}
