//! One attempt: a commit's files, rendered, planned against what is live, and carried out.

use super::aside::Aside;
use super::judge::{Before, Judged, Next, judge};
use super::keep::Unspoken;
use super::measure::{Marks, Watched};
use super::progress::{TELL, Waiting, log};
use super::ready::{Planned, planned};
use super::{Head, Unit, is_ours};
use crate::controller::cache::drift_detector::DriftDetector;
use crate::controller::cache::{CachedCluster, NamespaceCacheGuard};
use crate::controller::metrics::{Ending, Stage as Timed};
use crate::controller::mirror_handle::GitError;
use crate::controller::report::commit_ledger::{CommitStage, CommitVerdict, FirstFinding, ModelVerdict};
use crate::controller::report::commit_reporter::CommitReporter;
use crate::controller::sources::manual_requests::ALLOW;
use crate::controller::sources::registry::{
    ModelHealthCounts, PlanSummary, ProblemReason, RevisionHold, SourcePhase, SourceProblem, TimestampedRevision,
};
use crate::controller::sources::tenancy::ForeignNamespaceError;
use futures_util::FutureExt as _;
use futures_util::future::Either;
use stator_cluster::cluster::ClusterError;
use stator_cluster::cluster::kube::Fence;
use stator_cluster::sync::incremental::{FilteredCluster, IncrementalPlanner};
use stator_cluster::sync::{
    self, CancelReason, DesiredState, GatherError, PlanParameters, SyncOptions, SyncProgress, SyncReport,
};
use stator_core::finding::Finding;
use stator_core::object::ObjectIdentity;
use stator_git::forge::StatusState;
use stator_model::intent::EnvironmentError;
use stator_model::plan::{self, Action, HoldKind, Plan, PlanScope, PlanStep, Record};
use stator_model::render::RenderTarget;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tracing::Instrument as _;

/// What an attempt came to.
#[derive(Debug)]
pub(super) enum Attempt {
    /// It ended.
    Done {
        next: Next,
        /// False when the commit, the cluster or anything else is not as it should be.
        well: bool,
    },
    /// A newer commit came, or the process ends.
    Cancelled,
    /// Somebody deleted what the sync waited for.
    Lost,
}

/// What came of carrying a commit out.
enum Carried {
    /// A verdict, and how many writes it took.
    Judged(Judged, usize),
    /// Nothing is to be done, and the commit had its verdict before.
    Known { well: bool, health: bool },
    /// See [`Attempt::Cancelled`].
    Cancelled,
    /// See [`Attempt::Lost`].
    Lost,
}

/// Why an attempt got nowhere. Nothing was written.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) verdict: CommitVerdict,
    /// What to do about it.
    help: String,
    may_pass: bool,
    /// In a word, where the verdict does not say it.
    reason: Option<ProblemReason>,
}

impl Stop {
    pub(super) fn fault(message: impl Into<String>, help: impl Into<String>, may_pass: bool) -> Self {
        Self { verdict: CommitVerdict::Error { message: message.into() }, help: help.into(), may_pass, reason: None }
    }
}

impl From<ForeignNamespaceError> for Stop {
    fn from(foreign: ForeignNamespaceError) -> Self {
        let reason = Some(ProblemReason::AccessDenied);
        Self { reason, ..Self::fault(format!("the environment: {foreign}"), foreign.help(), false) }
    }
}

impl From<GitError> for Stop {
    fn from(error: GitError) -> Self {
        Self::fault(error.to_string(), error.help(), error.may_pass().is_some())
    }
}

impl From<GatherError> for Stop {
    fn from(error: GatherError) -> Self {
        let may_pass = error.cause.retry_delay().is_some();
        Self::fault(error.to_string(), error.cause.help().into_owned(), may_pass)
    }
}

/// What an attempt may do.
#[derive(Clone, Debug, Default)]
pub(super) struct Pass {
    /// The guards that somebody let go for this commit.
    pub(super) allow: BTreeSet<HoldKind>,
    /// Whether drift is put back, and not only told.
    pub(super) heal: bool,
}

/// What is known of a commit that has had its verdict.
#[derive(Debug)]
pub(super) struct Known {
    commit: String,
    /// Whether statuses matter for it.
    health: bool,
    well: bool,
    /// What could not be touched when it was judged: somebody may take more, or give some back.
    blocked: BTreeSet<ObjectIdentity>,
}

/// What a unit keeps from one attempt to the next.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) sentinel: DriftDetector,
    /// The namespace that the sentinel watches.
    pub(super) namespace: String,
    /// That namespace, remembered.
    pub(super) held: Option<NamespaceCacheGuard>,
    /// What the environment left in other namespaces, as of the first attempt in this one: only a warning hangs from it.
    pub(super) strays: Option<(RenderTarget, Vec<Record>)>,
    /// What need not be looked at again.
    pub(super) steady: IncrementalPlanner,
    /// Repository and environment, as labels of live objects have them.
    pub(super) labels: Option<(String, String)>,
    /// The commit that has had its verdict, and what that stands on.
    pub(super) judged: Option<Known>,
    /// Statuses changed that matter.
    closely: bool,
    /// What the newest commit does not speak for.
    pub(super) unspoken: Option<Unspoken>,
    /// Models that the newest commit does not speak for, and that drifted and are left as they are.
    pub(super) kept_drifted: usize,
    /// What was told last of models, by name.
    pub(super) told: BTreeMap<String, ModelVerdict>,
    /// What was measured.
    marks: Marks,
}

impl Memory {
    /// The next attempt looks at health, also when it has nothing to write.
    pub(super) fn look_closely(&mut self) {
        self.closely = true;
    }
}

impl Unit {
    /// Brings the cluster to where a commit wants it. Ends early when a newer commit is there or the process ends: at once
    /// before anything is written, between two writes then.
    pub(super) async fn attempt(
        &self,
        head: &Head,
        pass: Pass,
        heads: &watch::Receiver<Option<Head>>,
        report: &mut CommitReporter,
        memory: &mut Memory,
    ) -> Attempt {
        let started = Instant::now();
        self.stand(|standing| {
            standing.phase = SourcePhase::Reading;
            if standing.attempted.as_ref().is_none_or(|attempted| attempted.commit != head.commit) {
                standing.attempted = Some(TimestampedRevision::now(&head.commit));
            }
        });
        let (mut span, about) = self.begin(head);
        let done = self.carry_out(head, pass, heads.clone(), report, memory).instrument(about.clone()).await;
        let _about = about.enter();
        let took = started.elapsed();
        let cancelled = || self.metrics.record_sync(&self.source.key, Ending::Cancelled, 0, took);
        if self.is_fenced_off() {
            tracing::warn!(source = %self.source.key, revision = head.short(), "{}", ClusterError::Fenced);
            let refused = self.fence.as_ref().map_or(0, Fence::take_refused_writes);
            (0..refused).for_each(|_| self.metrics.record_fenced_write());
            cancelled();
            return Attempt::Cancelled;
        }
        match done {
            Ok(Carried::Judged(judged, writes)) => {
                if judged.verdict.state() != StatusState::Success {
                    span.set_error(&judged.verdict.sentence());
                }
                self.conclude(head, report, judged, writes, took)
            }
            // A look that found all as it was says nothing new.
            Ok(Carried::Known { well, health }) => Attempt::Done { next: Next::Await { health }, well },
            Ok(Carried::Cancelled) => {
                cancelled();
                Attempt::Cancelled
            }
            Ok(Carried::Lost) => {
                cancelled();
                Attempt::Lost
            }
            Err(stop) => {
                memory.unspoken = Some(Unspoken::All);
                span.set_error(&stop.verdict.sentence());
                self.stopped(head, report, stop, took)
            }
        }
    }

    fn conclude(
        &self,
        head: &Head,
        report: &mut CommitReporter,
        judged: Judged,
        writes: usize,
        took: Duration,
    ) -> Attempt {
        let name = &self.source.key;
        let state = judged.verdict.state();
        let sentence = judged.verdict.sentence();
        let ending = match state {
            StatusState::Success | StatusState::Pending => Ending::Success,
            StatusState::Failure => Ending::Failure,
            StatusState::Error => Ending::Error,
        };
        self.metrics.record_sync(name, ending, writes, took);
        let well = state == StatusState::Success;
        if well {
            self.metrics.record_success(name, jiff::Timestamp::now());
            tracing::info!(source = %name, revision = head.short(), writes, "{sentence}");
        } else {
            tracing::warn!(source = %name, revision = head.short(), writes, "{sentence}");
        }
        let may_pass = judged.next == Next::Retry;
        let held =
            (!judged.held.is_empty()).then(|| RevisionHold { guards: judged.held, revision: head.commit.clone() });
        let help = match &held {
            Some(held) => self.release(held),
            None => String::new(),
        };
        // A host's page has no room for more than the command.
        let told = match (&judged.verdict, &held) {
            (CommitVerdict::Held { guard, message }, Some(held)) if self.in_cluster => CommitVerdict::Held {
                guard: guard.clone(),
                message: format!("{message}: {}", held.release_command(&self.source.key)),
            },
            (verdict, _) => verdict.clone(),
        };
        let problem = ProblemReason::from_verdict(&judged.verdict).map(|reason| SourceProblem {
            reason,
            message: sentence,
            help,
            is_transient: may_pass,
        });
        let (models, healthy, not_healthy) = (judged.models_in_all, judged.well, judged.not_well);
        self.judged(&head.commit, judged.verdict.clone(), problem, |standing| {
            standing.counts = ModelHealthCounts { models, healthy, not_healthy, drifted: judged.drifted };
            standing.hold = held;
        });
        report.report_models(&head.commit, judged.models);
        report.report_verdict(&head.commit, told);
        Attempt::Done { next: judged.next, well }
    }

    fn stopped(&self, head: &Head, report: &mut CommitReporter, stop: Stop, took: Duration) -> Attempt {
        let name = &self.source.key;
        let sentence = stop.verdict.sentence();
        tracing::warn!(source = %name, revision = head.short(), "{sentence}; {}", stop.help);
        let ending = match stop.verdict.state() {
            StatusState::Success | StatusState::Pending | StatusState::Failure => Ending::Failure,
            StatusState::Error => Ending::Error,
        };
        self.metrics.record_sync(name, ending, 0, took);
        let reason = stop
            .reason
            .or_else(|| ProblemReason::from_verdict(&stop.verdict))
            .unwrap_or(ProblemReason::ReconciliationFailed);
        let problem = SourceProblem { reason, message: sentence, help: stop.help, is_transient: stop.may_pass };
        self.judged(&head.commit, stop.verdict.clone(), Some(problem), |standing| standing.hold = None);
        report.report_verdict(&head.commit, stop.verdict);
        let next = if stop.may_pass { Next::Retry } else { Next::Await { health: false } };
        Attempt::Done { next, well: false }
    }

    /// How what is held back is let go, by whoever may.
    fn release(&self, held: &RevisionHold) -> String {
        if self.in_cluster {
            let (command, approval) = (held.release_command(&self.source.key), held.approval_annotation());
            format!(
                "check that git says what you mean, then run `{command}`, or annotate the source with {ALLOW}={approval}"
            )
        } else {
            format!("check that git says what you mean, then sync it once by hand with --allow {}", held.guard_list())
        }
    }

    async fn carry_out(
        &self,
        head: &Head,
        pass: Pass,
        mut heads: watch::Receiver<Option<Head>>,
        report: &mut CommitReporter,
        memory: &mut Memory,
    ) -> Result<Carried, Stop> {
        report.report_progress(&head.commit, CommitStage::Reading);
        let prepared = async {
            let ready = self.ready(&head.commit, Some(report), std::mem::take(&mut memory.steady)).await?;
            report.report_progress(&head.commit, CommitStage::Planning);
            let live = self.live(&ready, memory).await?;
            Ok::<_, Stop>((ready, live))
        }
        .boxed();
        let (ready, live) = tokio::select! {
            prepared = prepared => prepared?,
            () = overtaken(head, &mut heads) => return Ok(Carried::Cancelled),
            () = self.ending.cancelled() => return Ok(Carried::Cancelled),
        };
        let faulty = faulty(&ready.desired);
        let findings: Vec<Finding> = ready.desired.findings.clone();
        let aim = PlanParameters {
            revision: head.commit.clone(),
            folder: self.folder(ready.named),
            allow: pass.allow,
            prune: self.source.spec.prune.unwrap_or(true),
            scope: PlanScope::All,
        };
        let planning = planned(ready, live, aim, self.cluster.is_cached(&memory.namespace));
        let Planned { mut plan, records, portion, steady } = self.staged(Timed::Plan, planning).await?;
        memory.steady = steady;
        let summary = PlanSummary::from_summary(&head.commit, &plan.summary);
        let drifted = plan::drifted_models(&plan, &records);
        let drifting = drifted.len() + memory.kept_drifted;
        if drifting > self.standing.borrow().counts.drifted {
            self.metrics.record_drift(&self.source.key);
        }
        let left: BTreeSet<String> = if pass.heal { BTreeSet::new() } else { drifted.keys().cloned().collect() };
        self.surveyed(&plan, &portion.unchanged, &left, &mut memory.marks);
        let aside = if pass.heal { Aside::default() } else { Aside::take(&mut plan, &left) };
        let disputed = drifted.values().filter(|heals| !**heals && pass.heal).count();
        self.stand(|standing| standing.counts.drifted = drifting);
        let before = Before::of(&plan, portion.unchanged.models);
        memory.unspoken = before.unspoken(&faulty);
        if memory.unspoken.is_none() {
            memory.kept_drifted = 0;
        }
        // What is blocked is never left out of a plan, so these are all of them.
        let blocked = plan.changes.iter().filter(|change| change.action == Action::Blocked);
        let blocked: BTreeSet<ObjectIdentity> = blocked.map(|change| change.object.identity()).collect();
        let known = memory.judged.as_ref().filter(|known| known.commit == head.commit);
        let closely = std::mem::take(&mut memory.closely);
        if let (0, Some(known), false) = (before.changing(), known, closely)
            && known.blocked == blocked
        {
            return Ok(Carried::Known { well: known.well, health: known.health });
        }
        if drifted.len() > disputed && pass.heal {
            self.metrics.record_drift_repair(&self.source.key);
        }
        // The plan that finds all done says nothing of what was.
        if !summary.is_empty() || summary.blocked > 0 || known.is_none() {
            self.stand(|standing| standing.plan = Some(summary));
        }
        let going =
            plan.changes.iter().filter(|change| matches!(change.step, PlanStep::Delete(_) | PlanStep::Replace { .. }));
        let meant: BTreeSet<ObjectIdentity> = going.map(|change| change.object.identity()).collect();
        tracing::info!(source = %self.source.key, revision = head.short(), changing = before.changing(), "syncing");
        self.phase(SourcePhase::Syncing);
        let labels = memory.labels.clone();
        let namespace = memory.namespace.clone();
        let mut shown = FilteredCluster::new(&self.cluster, &namespace, portion.listed_objects.as_ref());
        shown.include(plan.changes.iter().map(|change| &change.object));
        let watched = self.watched();
        let work = self.sync(head, heads, report, &shown, (plan, records), (&before, &watched));
        let work = self.staged(Timed::Sync, work).boxed();
        let gone =
            memory.sentinel.wait_for_unexpected_deletion(|object| is_ours(object, labels.as_ref()), &meant).boxed();
        let outcome = match futures_util::future::select(work, gone).await {
            Either::Left((outcome, _)) => outcome,
            // Between two writes as between any: the next attempt finds what is left.
            Either::Right((object, work)) => {
                tracing::info!(source = %self.source.key, revision = head.short(), "{object} was deleted meanwhile");
                drop(work);
                return Ok(Carried::Lost);
            }
        };
        if outcome.cancelled {
            return Ok(Carried::Cancelled);
        }
        let mut judged = judge(&before, &findings, &faulty, &outcome);
        aside.count(&mut judged);
        judged.drifted += memory.kept_drifted + disputed;
        self.tell_models(head, &judged, memory);
        let well = judged.verdict.state() == StatusState::Success;
        self.measured(head, &watched, &outcome, well, &mut memory.marks);
        memory.judged = match judged.next {
            Next::Retry => None,
            Next::Settle | Next::Await { .. } => {
                Some(Known { commit: head.commit.clone(), health: judged.health, well, blocked })
            }
        };
        Ok(Carried::Judged(judged, outcome.writes))
    }

    async fn sync(
        &self,
        head: &Head,
        mut heads: watch::Receiver<Option<Head>>,
        report: &mut CommitReporter,
        cluster: &FilteredCluster<'_, CachedCluster>,
        (plan, records): (Plan, Vec<Record>),
        (before, watched): (&Before, &Watched),
    ) -> SyncReport {
        let (cancel, cancelled) = watch::channel(None);
        let mut options = SyncOptions::new(jiff::Timestamp::now(), seed());
        options.wait = true;
        options.prune = self.source.spec.prune.unwrap_or(true);
        options.timeout = self.source.timeout;
        report.report_progress(&head.commit, CommitStage::Applying { models: before.changing() });
        let name = &self.source.key;
        let waiting: Mutex<Waiting> = Mutex::default();
        let sink = |event: SyncProgress| {
            log(name, head, &event);
            self.saw(watched, &event);
            waiting.lock().unwrap_or_else(PoisonError::into_inner).tell(event);
        };
        let mut work = sync::run_sync(cluster, plan, records, options, &sink, cancelled).boxed();
        let mut told = tokio::time::interval(TELL);
        told.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut stopping = false;
        loop {
            tokio::select! {
                outcome = &mut work => return outcome,
                () = self.ending.cancelled(), if !stopping => {
                    stopping = true;
                    let _ = cancel.send(Some(CancelReason::Interrupted));
                }
                () = overtaken(head, &mut heads), if !stopping => {
                    stopping = true;
                    let revision = heads.borrow().as_ref().map(|now| now.commit.clone()).unwrap_or_default();
                    tracing::info!(source = %name, revision = head.short(), "a newer commit is there: stopping");
                    let _ = cancel.send(Some(CancelReason::Superseded { revision }));
                }
                _ = told.tick() => {
                    let stage = waiting.lock().unwrap_or_else(PoisonError::into_inner).stage(before.models());
                    if let Some(stage) = stage {
                        report.report_progress(&head.commit, stage);
                    }
                }
            }
        }
    }
}

/// Waits until another commit is the newest. One whose signature is refused overtakes nothing: what it came upon is
/// brought to its end.
pub(super) async fn overtaken(head: &Head, heads: &mut watch::Receiver<Option<Head>>) {
    let newer = |now: &Head| now.commit != head.commit && now.unsigned.is_none();
    let gone = heads.wait_for(|now| now.as_ref().is_some_and(newer)).await.is_err();
    if gone {
        std::future::pending::<()>().await;
    }
}

/// The models that have errors, with their `model.yaml`.
fn faulty(desired: &DesiredState) -> BTreeMap<String, String> {
    let broken = desired.selection.broken.iter();
    let broken = broken.map(|one| (one.name.clone().unwrap_or_else(|| one.source.clone()), one.source.clone()));
    let refused = desired.rendered.iter().filter(|one| one.findings.iter().any(Finding::is_error));
    broken.chain(refused.map(|one| (one.model.clone(), one.source.clone()))).collect()
}

pub(super) fn without_environment(error: &EnvironmentError, findings: &[Finding]) -> Stop {
    let verdict = match FirstFinding::from_findings(findings) {
        Some(first) => CommitVerdict::Invalid(first),
        None => CommitVerdict::Error { message: error.to_string() },
    };
    let help = match error {
        EnvironmentError::Unknown { .. } | EnvironmentError::Ambiguous { .. } => {
            "set `spec.environment` of the source to one that the root stator.yaml has"
        }
        EnvironmentError::Unreadable { .. } => "mend the root stator.yaml",
    };
    Stop { verdict, help: help.to_owned(), may_pass: false, reason: None }
}

pub(super) fn too_slow(what: &str, limit: Duration) -> Stop {
    let message = format!("{what} in {} minutes", limit.as_secs() / 60);
    Stop::fault(message, "it is tried again; see whether the API server is slow", true)
}

pub(super) fn panicked(what: &str) -> Stop {
    Stop::fault(format!("{what} came to an unexpected end"), "report it, with the log", true)
}

/// Where the jitter of retries comes from.
pub(in crate::controller) fn seed() -> u64 {
    u64::try_from(uuid::Uuid::new_v4().as_u128() & u128::from(u64::MAX)).unwrap_or_default()
}
