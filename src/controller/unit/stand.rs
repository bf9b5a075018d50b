//! How a unit says how it stands: in one place, so that every change of it is seen, and told.

use super::attempt::Memory;
use super::judge::Judged;
use super::{Head, Unit};
use crate::controller::report::commit_ledger::{CommitVerdict, MAX_MODEL_STATUSES};
use crate::controller::report::commit_reporter::CommitReporter;
use crate::controller::sources::registry::source_events::{self, ModelName};
use crate::controller::sources::registry::{
    ProblemScope, RevisionVerdict, ShownStatus, SourcePhase, SourceProblem, SourceState, StatusPostingState,
    TimestampedRevision,
};
use jiff::Timestamp;
use tokio::sync::watch;

impl Unit {
    /// Changes how the source stands. What that means to people is told at once; a change that changes nothing is none.
    pub(super) fn stand(&self, change: impl FnOnce(&mut SourceState)) {
        self.standing.send_if_modified(|standing| {
            let before = standing.clone();
            change(standing);
            let differs = before != *standing;
            if differs {
                for news in source_events::diff_states(&self.source.key, &before, standing) {
                    self.board.publish_event(news);
                }
            }
            differs
        });
    }

    pub(super) fn phase(&self, phase: SourcePhase) {
        self.stand(|standing| standing.phase = phase);
    }

    /// Says how a commit ended, and what else is known with that.
    pub(super) fn judged(
        &self,
        commit: &str,
        verdict: CommitVerdict,
        problem: Option<SourceProblem>,
        more: impl FnOnce(&mut SourceState),
    ) {
        self.stand(|standing| {
            let same =
                standing.verdict.as_ref().is_some_and(|known| known.revision == commit && known.verdict == verdict);
            if !same {
                standing.verdict = Some(RevisionVerdict { revision: commit.to_owned(), verdict, at: Timestamp::now() });
            }
            match &problem {
                Some(_) => standing.failures = standing.failures.saturating_add(1),
                None => {
                    if !standing.problems.contains_key(&ProblemScope::Repository) {
                        standing.failures = 0;
                    }
                    standing.last_known_good = None;
                    if standing.applied.as_ref().is_none_or(|applied| applied.commit != commit) {
                        standing.applied = Some(TimestampedRevision::now(commit));
                    }
                }
            }
            standing.set_problem(ProblemScope::Commit, problem);
            more(standing);
        });
    }

    /// Tells of models whose end is another one than it was. Of many at once, the first by name.
    pub(super) fn tell_models(&self, head: &Head, judged: &Judged, memory: &mut Memory) {
        memory.told.retain(|model, _| judged.models.iter().any(|(name, _)| name == model));
        for (name, verdict) in judged.models.iter().take(MAX_MODEL_STATUSES) {
            if memory.told.get(name) == Some(verdict) {
                continue;
            }
            memory.told.insert(name.clone(), verdict.clone());
            let model = ModelName { namespace: memory.namespace.clone(), name: name.clone() };
            if let Some(news) = source_events::model_event(&self.source.key, &head.commit, model, verdict) {
                self.board.publish_event(news);
            }
        }
    }

    /// Keeps what is known of commit statuses up with the git host, for as long as it is polled.
    pub(super) async fn tell_statuses(&self, report: &Posted) {
        let Some(mut state) = report.state.clone() else { return std::future::pending().await };
        loop {
            let now = state.borrow_and_update().clone();
            let newest = self.standing.borrow().seen.as_ref().map(|seen| seen.commit.clone());
            let shown = newest.and_then(|commit| {
                let status = report.wanted.posted_status(&commit)?;
                Some(ShownStatus { revision: commit, status })
            });
            self.stand(|standing| {
                let shown = shown.or(standing.statuses.shown.take());
                standing.statuses =
                    StatusPostingState { shown, pending: now.pending, given_up: now.given_up, problem: now.stopped };
            });
            if state.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// What is posted, to be watched.
pub(super) struct Posted {
    wanted: crate::controller::report::commit_reporter::DesiredStatuses,
    state: Option<watch::Receiver<crate::controller::report::status_poster::PosterState>>,
}

impl Posted {
    pub(super) fn of(report: &CommitReporter) -> Self {
        Self { wanted: report.desired_statuses(), state: report.host().map(|host| host.poster.state()) }
    }
}
