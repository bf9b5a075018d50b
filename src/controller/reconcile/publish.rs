//! Says what a reconciler found: to the source's state, which conditions, events and metrics are made of, to the statuses of
//! commits, and to the log.

use super::attempt_cache::ReportedFindings;
use super::attempt_report::{AttemptReport, FailureDetails, ModelFindings};
use super::commit::{CommitRefusal, PolledCommit};
use super::context::ReconcileContext;
use super::gather::UNNAMED_ENVIRONMENT;
use super::lineage::FollowedBranch;
use super::machine::{ReconcileEffect, RejectedRequest, ReportedWindow};
use super::planned::Planned;
use super::source_board::SourceBoard;
use crate::controller::commit_trials::TrialRefusal;
use crate::controller::report::commit_statuses::ledger::MAX_MODEL_STATUSES;
use crate::controller::sources::manual_requests::{ALLOW, HoldApproval};
use crate::controller::sources::registry::ModelHealthCounts;
use crate::controller::sources::registry::source_events::{self, ModelName};
use crate::controller::sources::registry::{
    ProblemReason, ProblemScope, RevisionHold, RevisionVerdict, SourcePhase, SourceProblem, SourceState,
    TimestampedRevision,
};
use crate::controller::status_wording::{CommitStage, CommitVerdict, commit_label};
use futures_util::FutureExt as _;
use jiff::Timestamp;
use stator_model::plan::rules;
use stator_model::present::pluralize;
use std::collections::BTreeSet;

impl ReconcileContext {
    /// Carries out an effect that says something.
    pub(super) async fn publish(&self, effect: ReconcileEffect, reported: &mut ReportedFindings) {
        match effect {
            ReconcileEffect::AnnounceCommit { commit, is_first } => {
                self.board
                    .statuses
                    .report_commit(&commit.commit, &self.board.commits_before(&commit), is_first)
                    .boxed()
                    .await;
            }
            ReconcileEffect::ReopenCommit(commit) => self.board.statuses.reopen_commit(&commit),
            ReconcileEffect::ReportSuspended(commit) => {
                self.board.report_stage(&commit, CommitStage::Suspended, |state| state.next_window = None);
            }
            ReconcileEffect::ReportRefusal { commit, last_known_good } => {
                self.report_refusal(&commit, last_known_good.as_deref()).boxed().await;
            }
            ReconcileEffect::ReportWindow { commit, window } => self.board.report_window(&commit, window),
            ReconcileEffect::PublishVerdict { commit, report } => {
                self.board.publish_verdict(&commit, *report, reported);
            }
            ReconcileEffect::AnswerRequests { handled, rejected } => self.board.answer_requests(handled, &rejected),
            ReconcileEffect::SetLastKnownGood(good) => self.board.update_state(|state| state.last_known_good = good),
            ReconcileEffect::SetPhase(phase) => self.board.update_state(|state| state.phase = phase),
            ReconcileEffect::ReportDrift(commit) => {
                let revision = commit_label(&commit);
                tracing::info!(source = %self.source.key, revision, "live objects were changed");
            }
            ReconcileEffect::AcceptApproval(approval) => self.board.accept_approval(approval),
            // Work, its plan and the end are the runner's.
            ReconcileEffect::CheckGate { .. }
            | ReconcileEffect::StartAttempt { .. }
            | ReconcileEffect::ReleaseHolds(_)
            | ReconcileEffect::ReportPlan { .. }
            | ReconcileEffect::ExecutePlan { .. }
            | ReconcileEffect::CancelWork(_)
            | ReconcileEffect::RestoreLastGood { .. }
            | ReconcileEffect::Finish(_) => {}
        }
    }

    async fn report_refusal(&self, commit: &PolledCommit, good: Option<&str>) {
        let Some(refusal) = &commit.refusal else { return };
        let (verdict, reason, what_to_do) = match refusal {
            CommitRefusal::Signature(error) => (
                CommitVerdict::Unsigned { message: error.to_string() },
                ProblemReason::VerificationFailed,
                error.help().to_string(),
            ),
            CommitRefusal::Trial(error) => (
                CommitVerdict::Error { message: format!("trial: {error}") },
                ProblemReason::Trial,
                TrialRefusal::help().to_owned(),
            ),
        };
        let known = |known: &RevisionVerdict| known.revision == commit.commit && known.verdict == verdict;
        let is_known = self.board.state.borrow().verdict.as_ref().is_some_and(known);
        if !is_known {
            let kept = good.map(|good| format!("; live objects stay at {}", commit_label(good)));
            let help = format!("{what_to_do}{}", kept.unwrap_or_default());
            let problem = SourceProblem::permanent(reason, verdict.sentence(), help);
            tracing::warn!(source = %self.source.key, revision = commit.short(), "{problem}");
            if !self.board.statuses.has_environment() {
                let settings = match refusal {
                    CommitRefusal::Signature(_) => self.settings_at(&commit.commit).await,
                    // Nothing of it is read, and the source names no environment.
                    CommitRefusal::Trial(_) => None,
                };
                let environment = settings.as_ref().map_or(UNNAMED_ENVIRONMENT, |settings| &settings.name);
                self.board.statuses.set_environment(environment).await;
            }
            self.board.record_verdict(&commit.commit, verdict.clone(), Some(problem), |state| state.hold = None);
        }
        self.board.statuses.report_verdict(&commit.commit, verdict);
    }
}

impl SourceBoard {
    fn report_window(&self, commit: &str, window: ReportedWindow) {
        let source = &self.source.key;
        match window {
            ReportedWindow::Open => {
                self.update_state(|state| (state.next_window, state.outside_windows) = (None, None));
            }
            ReportedWindow::Overridden { opens } => {
                if self.state.borrow().outside_windows.as_deref() != Some(commit) {
                    let revision = commit_label(commit);
                    tracing::warn!(%source, revision, "synced outside the sync windows, as requested");
                }
                self.statuses.update_ledger(|ledger| ledger.mark_outside_windows(commit));
                self.update_state(|state| {
                    (state.next_window, state.outside_windows) = (opens, Some(commit.to_owned()));
                });
            }
            ReportedWindow::Closed { opens } => {
                if self.state.borrow().phase != SourcePhase::WindowClosed {
                    tracing::info!(%source, opens = ?opens.map(|at| at.to_string()), "no sync window is open");
                }
                let stage = CommitStage::WindowClosed { opens: opens.map(|at| at.to_string()) };
                self.report_stage(commit, stage, |state| {
                    state.next_window = opens;
                    state.outside_windows = None;
                    if state.verdict.as_ref().is_some_and(|known| known.revision != commit) {
                        state.verdict = None;
                        state.hold = None;
                        state.set_problem(ProblemScope::Commit, None);
                    }
                });
            }
        }
    }

    fn accept_approval(&self, approval: HoldApproval) {
        if self.state.borrow().approval.as_ref() != Some(&approval) {
            let revision = commit_label(&approval.revision);
            tracing::warn!(source = %self.source.key, revision, "{}", approval.sentence());
        }
        self.update_state(|state| state.approval = Some(approval));
    }

    /// What a plan says before it is carried out; `is_news` whether it is shown although it says nothing.
    pub(super) fn publish_plan(&self, planned: &Planned, is_news: bool, reported: &mut ReportedFindings) {
        let facts = &planned.facts;
        for taken_over in facts.findings.iter().filter(|finding| finding.rule == rules::TAKEN_OVER) {
            tracing::info!("{}", taken_over.message);
        }
        self.report_disputes(&planned.commit_plan.plan, reported);
        let drifting = facts.drifted.all().len() + facts.drifted_uncovered;
        if drifting > self.state.borrow().counts.drifted {
            self.metrics.record_drift(&self.source.key);
        }
        self.measure_plan(&facts.measured, &mut reported.measured);
        self.update_state(|state| {
            state.counts.drifted = drifting;
            if is_news {
                state.plan = Some(facts.summary.clone());
            }
        });
    }

    fn publish_verdict(&self, commit: &PolledCommit, report: AttemptReport, reported: &mut ReportedFindings) {
        let (source, revision) = (&self.source.key, commit.short());
        let AttemptReport { summary: _, verdict, failure, models, watches_statuses: _, holds, held_plan, writes, took } =
            report;
        let outcome = verdict.outcome();
        let sentence = verdict.sentence();
        self.metrics.record_sync(source, outcome.class(), writes, took);
        let hold = (!holds.is_empty()).then(|| RevisionHold {
            guards: holds,
            revision: commit.commit.clone(),
            plan: held_plan,
        });
        let counts = models.as_ref().map(|models| models.counts);
        let drift = drift_note(hold.as_ref(), counts);
        if outcome.is_success() {
            self.metrics.record_success(source, Timestamp::now());
            tracing::info!(%source, revision, writes, "{sentence}");
        } else if let Some(failure) = &failure {
            tracing::warn!(%source, revision, writes, "{sentence}; {}", failure.help);
        } else {
            tracing::warn!(%source, revision, writes, "{sentence}{drift}");
        }
        let help = match (&failure, &hold) {
            (Some(failure), _) => failure.help.clone(),
            (None, Some(hold)) => self.release_help(hold),
            (None, None) => String::new(),
        };
        // A host's page has no room for more than the command.
        let posted = match (&verdict, &hold) {
            (CommitVerdict::Held { by, message }, Some(hold)) if self.in_cluster => {
                CommitVerdict::Held { by: *by, message: format!("{message}: {}", hold.release_command(source)) }
            }
            (verdict, _) => verdict.clone(),
        };
        let problem = problem_reason(&verdict, failure.as_ref()).map(|reason| SourceProblem {
            reason,
            message: format!("{sentence}{drift}"),
            help,
            is_transient: failure.as_ref().is_some_and(|failure| failure.is_transient),
        });
        self.record_verdict(&commit.commit, verdict, problem, |state| {
            if let Some(counts) = counts {
                state.counts = counts;
            }
            state.hold = hold;
        });
        if let Some(models) = models {
            self.publish_models(commit, &models, reported);
            self.statuses.report_models(&commit.commit, models.verdicts);
        }
        self.statuses.report_verdict(&commit.commit, posted);
    }

    /// Says how a commit ended, and what else is known with that.
    fn record_verdict(
        &self,
        commit: &str,
        verdict: CommitVerdict,
        problem: Option<SourceProblem>,
        more: impl FnOnce(&mut SourceState),
    ) {
        self.update_state(|state| {
            let is_known = |known: &RevisionVerdict| known.revision == commit && known.verdict == verdict;
            if !state.verdict.as_ref().is_some_and(is_known) {
                state.verdict = Some(RevisionVerdict { revision: commit.to_owned(), verdict, at: Timestamp::now() });
            }
            match &problem {
                Some(_) => state.failures = state.failures.saturating_add(1),
                None => {
                    if !state.problems.contains_key(&ProblemScope::Repository) {
                        state.failures = 0;
                    }
                    state.last_known_good = None;
                    if state.applied.as_ref().is_none_or(|applied| applied.commit != commit) {
                        state.applied = Some(TimestampedRevision::now(commit));
                    }
                    state.applied_from = FollowedBranch::of_source(&self.source).map(|branch| branch.to_string());
                }
            }
            state.set_problem(ProblemScope::Commit, problem);
            more(state);
        });
    }

    /// How what is held back is released, by whoever may.
    fn release_help(&self, hold: &RevisionHold) -> String {
        if self.in_cluster {
            let (command, approval) = (hold.release_command(&self.source.key), hold.approval_annotation());
            format!("check that this is intended, then run `{command}`, or annotate the source with {ALLOW}={approval}")
        } else {
            let guards = hold.guard_list();
            format!(
                "check that this is intended, then sync it once by hand with --allow {guards}, or approve it on its page (--web)"
            )
        }
    }

    /// Tells of models that ended another way than before. Of many at once, the first by name.
    fn publish_models(&self, commit: &PolledCommit, models: &ModelFindings, reported: &mut ReportedFindings) {
        let reported = &mut reported.models;
        reported.retain(|model, _| models.verdicts.iter().any(|(name, _)| name == model));
        for (name, verdict) in models.verdicts.iter().take(MAX_MODEL_STATUSES) {
            if reported.get(name) == Some(verdict) {
                continue;
            }
            reported.insert(name.clone(), verdict.clone());
            let model = ModelName { namespace: models.namespace.clone(), name: name.clone() };
            if let Some(event) = source_events::model_event(&self.source.key, &commit.commit, model, verdict) {
                self.registry.publish_event(event);
            }
        }
    }

    fn answer_requests(&self, handled: Option<String>, rejected: &BTreeSet<RejectedRequest>) {
        let rejected: BTreeSet<String> = rejected.iter().map(ToString::to_string).collect();
        self.update_state(|state| {
            for sentence in rejected.difference(&state.rejected_requests) {
                tracing::warn!(source = %self.source.key, "{sentence}");
            }
            state.rejected_requests = rejected;
            if handled.is_some() {
                state.handled_request = handled;
            }
        });
    }
}

/// What is in the way; nothing where all is well.
fn problem_reason(verdict: &CommitVerdict, failure: Option<&FailureDetails>) -> Option<ProblemReason> {
    let of_verdict = ProblemReason::from_outcome(verdict.outcome());
    match failure {
        Some(failure) => failure.reason.or(of_verdict).or(Some(ProblemReason::ReconciliationFailed)),
        None => of_verdict,
    }
}

/// What is held back of drift is drift as well: nobody puts it back until somebody releases it.
fn drift_note(hold: Option<&RevisionHold>, counts: Option<ModelHealthCounts>) -> String {
    match (hold, counts) {
        (Some(_), Some(counts)) if counts.drifted > 0 => {
            let models = pluralize(counts.drifted, "model", "models");
            format!("; live objects of {models} drifted and are not healed")
        }
        (Some(_) | None, Some(_) | None) => String::new(),
    }
}
