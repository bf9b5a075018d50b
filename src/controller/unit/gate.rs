//! What may keep the newest commit from being synced at all: a source that is suspended, a signature, a window.

use super::{Head, UNNAMED, Unit};
use crate::controller::metrics::Operation;
use crate::controller::report::commit_ledger::{CommitStage, CommitVerdict, commit_label};
use crate::controller::report::commit_reporter::CommitReporter;
use crate::controller::sources::manual_requests::ManualRequests;
use crate::controller::sources::registry::{ProblemReason, ProblemScope, SourcePhase, SourceProblem};
use crate::controller::sources::sync_windows::{self, SyncWindowState};
use jiff::Timestamp;
use stator_git::source::signature::SignatureError;
use stator_model::intent::Workspace;
use std::sync::Arc;
use std::time::Duration;

/// Whether a sync may run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// It may.
    Free,
    /// No window is open, and somebody asked for this commit all the same.
    Outside,
    /// It may not, for so long; for ever when there is nothing to wait for.
    Closed(Option<Duration>),
}

impl Unit {
    /// Says that nothing is done, as the source is suspended.
    pub(super) fn suspended(&self, head: &Head, report: &mut CommitReporter) {
        self.stand(|standing| {
            standing.phase = SourcePhase::Suspended;
            standing.next_window = None;
        });
        report.report_progress(&head.commit, CommitStage::Suspended);
    }

    /// Says that the commit is not to be rendered.
    pub(super) async fn refused(&self, head: &Head, report: &mut CommitReporter, error: &SignatureError) {
        let verdict = CommitVerdict::Unsigned { message: error.to_string() };
        let known = self
            .standing
            .borrow()
            .verdict
            .as_ref()
            .is_some_and(|known| known.revision == head.commit && known.verdict == verdict);
        if !known {
            let good = self.good(head).map(|good| format!("; what runs is kept as {} says", commit_label(&good)));
            let help = format!("{}{}", error.help(), good.unwrap_or_default());
            let problem = SourceProblem::permanent(ProblemReason::VerificationFailed, verdict.sentence(), help);
            tracing::warn!(source = %self.source.key, revision = head.short(), "{problem}");
            if !report.has_environment() {
                report.set_environment(&self.environment_at(&head.commit).await).await;
            }
            self.judged(&head.commit, verdict.clone(), Some(problem), |standing| standing.hold = None);
        }
        report.report_verdict(&head.commit, verdict);
        self.phase(SourcePhase::Idle);
    }

    /// The only environment of a commit that is not to be rendered: its name is all that is taken from there.
    async fn environment_at(&self, commit: &str) -> String {
        let (commit, folder) = (commit.to_owned(), self.source.folder.clone());
        let read = self.git.with(Operation::Read, move |mirror| mirror.tree(&commit, &folder)).await;
        let named = tokio::task::spawn_blocking(move || {
            let mut tree = read.ok()?;
            tree.files.retain(|file| file.path == "stator.yaml");
            Workspace::parse(&tree).resolve_environment(None).ok().map(|selection| selection.name)
        });
        named.await.ok().flatten().unwrap_or_else(|| UNNAMED.to_owned())
    }

    /// What the windows say. Windows that open every minute take a while to look through, and nobody else waits for that.
    pub(super) async fn gate(&self, now: Timestamp) -> SyncWindowState {
        if self.source.windows.is_empty() {
            return SyncWindowState::Open;
        }
        let source = Arc::clone(&self.source);
        let looked = tokio::task::spawn_blocking(move || sync_windows::evaluate_windows(&source.windows, now)).await;
        // In doubt nothing is let in; the next look tells.
        looked.unwrap_or(SyncWindowState::Closed(None))
    }

    /// Whether a sync of the commit may run now by the source's windows, and by what somebody asked for.
    /// With `settling`, a sync of it has just been through, and only what came of it is to be seen.
    pub(super) async fn leave(
        &self,
        head: &Head,
        asked: &ManualRequests,
        settling: bool,
        report: &mut CommitReporter,
    ) -> Leave {
        let now = Timestamp::now();
        let opens = match self.gate(now).await {
            SyncWindowState::Open => {
                self.stand(|standing| (standing.next_window, standing.outside_windows) = (None, None));
                return Leave::Free;
            }
            SyncWindowState::Closed(opens) => opens,
        };
        let meant = asked.outside_windows.as_ref().is_some_and(|revision| head.commit.starts_with(revision));
        // What was let through once is through: drift of it waits for a window as anything else.
        let through = self.standing.borrow().applied.as_ref().is_some_and(|applied| applied.commit == head.commit);
        if meant && (settling || !through) {
            if self.standing.borrow().outside_windows.as_ref() != Some(&head.commit) {
                tracing::warn!(source = %self.source.key, revision = head.short(), "synced outside the sync windows, as somebody asked for");
            }
            report.report_outside_windows(&head.commit);
            self.stand(|standing| {
                (standing.next_window, standing.outside_windows) = (opens, Some(head.commit.clone()))
            });
            return Leave::Outside;
        }
        if self.standing.borrow().phase != SourcePhase::WindowClosed {
            tracing::info!(source = %self.source.key, opens = ?opens.map(|at| at.to_string()), "no window is open");
        }
        report.report_progress(&head.commit, CommitStage::WindowClosed { opens: opens.map(|at| at.to_string()) });
        self.stand(|standing| {
            standing.phase = SourcePhase::WindowClosed;
            standing.next_window = opens;
            standing.outside_windows = None;
            if standing.verdict.as_ref().is_some_and(|known| known.revision != head.commit) {
                standing.verdict = None;
                standing.hold = None;
                standing.set_problem(ProblemScope::Commit, None);
            }
        });
        Leave::Closed(opens.and_then(|at| Duration::try_from(at.duration_since(now)).ok()))
    }
}
