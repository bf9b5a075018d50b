//! One attempt: a commit's files, rendered, planned against what is live, and carried out.

use super::judge::{Before, Judged, Next, judge};
use super::{Head, UNNAMED, Unit, is_ours};
use crate::controller::board::Phase;
use crate::controller::git::GitError;
use crate::controller::metrics::Ending;
use crate::controller::report::Report;
use crate::controller::sentinel::Sentinel;
use crate::controller::verdicts::{FirstFinding, Stage, Verdict};
use crate::finding::Finding;
use crate::forge::StatusState;
use crate::intent::{EnvironmentError, Selection, Workspace};
use crate::object::ObjectIdentity;
use crate::plan::{self, Scope, Step};
use crate::sync::{self, Aim, Cancel, Desired, GatherError, Progress, SyncOptions, SyncReport};
use futures_util::FutureExt as _;
use futures_util::future::Either;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

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
struct Stop {
    verdict: Verdict,
    /// What to do about it.
    help: String,
    may_pass: bool,
}

impl Stop {
    fn fault(message: impl Into<String>, help: impl Into<String>, may_pass: bool) -> Self {
        Self { verdict: Verdict::Fault { message: message.into() }, help: help.into(), may_pass }
    }
}

impl From<GitError> for Stop {
    fn from(error: GitError) -> Self {
        Self::fault(error.to_string(), error.help(), error.may_pass().is_some())
    }
}

impl From<GatherError> for Stop {
    fn from(error: GatherError) -> Self {
        let may_pass = error.cause.may_pass().is_some();
        Self::fault(error.to_string(), error.cause.help().into_owned(), may_pass)
    }
}

/// A commit, rendered.
struct Ready {
    desired: Desired,
    /// Whether the repository has a name of its own.
    named: bool,
}

/// What a unit keeps from one attempt to the next.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) sentinel: Sentinel,
    /// The namespace that the sentinel watches.
    namespace: String,
    /// Repository and environment, as labels of live objects have them.
    pub(super) labels: Option<(String, String)>,
    /// The commit that has had its verdict, and whether statuses matter for it.
    judged: Option<(String, bool, bool)>,
    /// Statuses changed that matter.
    closely: bool,
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
        heads: &watch::Receiver<Option<Head>>,
        report: &mut Report,
        memory: &mut Memory,
    ) -> Attempt {
        let started = Instant::now();
        self.standing.send_modify(|standing| {
            standing.phase = Phase::Reading;
            standing.attempted = Some(head.commit.clone());
        });
        let done = self.carry_out(head, heads.clone(), report, memory).await;
        let took = started.elapsed();
        let cancelled = || self.metrics.synced(&self.source.name, Ending::Cancelled, 0, took);
        match done {
            Ok(Carried::Judged(judged, writes)) => self.conclude(head, report, judged, writes, took),
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
            Err(stop) => self.stopped(head, report, stop, took),
        }
    }

    fn conclude(&self, head: &Head, report: &mut Report, judged: Judged, writes: usize, took: Duration) -> Attempt {
        let name = &self.source.name;
        let state = judged.verdict.state();
        let sentence = judged.verdict.sentence();
        let ending = match state {
            StatusState::Success | StatusState::Pending => Ending::Success,
            StatusState::Failure => Ending::Failure,
            StatusState::Error => Ending::Error,
        };
        self.metrics.synced(name, ending, writes, took);
        self.metrics.models(name, judged.well, judged.not_well);
        let well = state == StatusState::Success;
        if well {
            tracing::info!(source = name, revision = head.short(), writes, "{sentence}");
        } else {
            tracing::warn!(source = name, revision = head.short(), writes, "{sentence}");
        }
        self.standing.send_modify(|standing| {
            standing.problem = (!well).then(|| sentence.clone());
            if well {
                standing.applied = Some(head.commit.clone());
            }
        });
        report.models(&head.commit, judged.models);
        report.ended(&head.commit, judged.verdict);
        Attempt::Done { next: judged.next, well }
    }

    fn stopped(&self, head: &Head, report: &mut Report, stop: Stop, took: Duration) -> Attempt {
        let name = &self.source.name;
        let sentence = stop.verdict.sentence();
        tracing::warn!(source = name, revision = head.short(), "{sentence}; {}", stop.help);
        let ending = match stop.verdict.state() {
            StatusState::Success | StatusState::Pending | StatusState::Failure => Ending::Failure,
            StatusState::Error => Ending::Error,
        };
        self.metrics.synced(name, ending, 0, took);
        self.standing.send_modify(|standing| standing.problem = Some(format!("{sentence}; {}", stop.help)));
        report.ended(&head.commit, stop.verdict);
        let next = if stop.may_pass { Next::Retry } else { Next::Await { health: false } };
        Attempt::Done { next, well: false }
    }

    async fn carry_out(
        &self,
        head: &Head,
        mut heads: watch::Receiver<Option<Head>>,
        report: &mut Report,
        memory: &mut Memory,
    ) -> Result<Carried, Stop> {
        report.progress(&head.commit, Stage::Reading);
        let prepared = async {
            let ready = self.ready(head, report).await?;
            report.progress(&head.commit, Stage::Planning);
            let target = &ready.desired.target;
            if memory.namespace != target.namespace {
                memory.sentinel.close();
                memory.namespace = target.namespace.clone();
            }
            memory.labels = Some((target.repository.clone(), target.environment.clone()));
            memory.sentinel.open(&self.cluster, &memory.namespace).await;
            let live = ready.desired.look(&self.cluster).boxed().await?;
            memory.sentinel.remember(&live.live);
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
        let aim = Aim {
            revision: head.commit.clone(),
            folder: (!ready.named).then(|| format!("{}#{}", self.source.url, self.source.folder)),
            allow: Default::default(),
            prune: self.source.spec.prune.unwrap_or(true),
            scope: Scope::All,
        };
        let planned = tokio::task::spawn_blocking(move || {
            let input = ready.desired.input(live, aim);
            let plan = plan::plan(&input);
            let PlanRecords { records } = PlanRecords::of(input);
            (plan, records)
        });
        let (plan, records) = planned.await.map_err(|_| panicked("planning"))?;
        let before = Before::of(&plan);
        let known = memory.judged.as_ref().filter(|(commit, _, _)| *commit == head.commit);
        let closely = std::mem::take(&mut memory.closely);
        if let (0, Some((_, health, well)), false) = (before.changing(), known, closely) {
            return Ok(Carried::Known { well: *well, health: *health });
        }
        if known.is_some() && before.changing() > 0 {
            self.metrics.repaired(&self.source.name);
        }
        let going = plan.changes.iter().filter(|change| matches!(change.step, Step::Delete(_) | Step::Replace { .. }));
        let meant: BTreeSet<ObjectIdentity> = going.map(|change| change.object.identity()).collect();
        tracing::info!(source = self.source.name, revision = head.short(), changing = before.changing(), "syncing");
        self.standing.send_modify(|standing| standing.phase = Phase::Syncing);
        let labels = memory.labels.clone();
        let work = self.sync(head, heads, report, plan, records, &before).boxed();
        let gone = memory.sentinel.lost(|object| is_ours(object, labels.as_ref()), &meant).boxed();
        let outcome = match futures_util::future::select(work, gone).await {
            Either::Left((outcome, _)) => outcome,
            // Between two writes as between any: the next attempt finds what is left.
            Either::Right((object, work)) => {
                tracing::info!(source = self.source.name, revision = head.short(), "{object} was deleted meanwhile");
                drop(work);
                return Ok(Carried::Lost);
            }
        };
        if outcome.cancelled {
            return Ok(Carried::Cancelled);
        }
        let judged = judge(&before, &findings, &faulty, &outcome);
        let well = judged.verdict.state() == StatusState::Success;
        memory.judged = match judged.next {
            Next::Retry => None,
            Next::Settle | Next::Await { .. } => Some((head.commit.clone(), judged.health, well)),
        };
        Ok(Carried::Judged(judged, outcome.writes))
    }

    /// Reads and renders a commit.
    async fn ready(&self, head: &Head, report: &mut Report) -> Result<Ready, Stop> {
        let (commit, folder) = (head.commit.clone(), self.source.folder.clone());
        let tree = self.git.with(move |mirror| mirror.tree(&commit, &folder)).boxed().await?;
        let environment = self.source.spec.environment.as_ref().map(ToString::to_string);
        let selected = tokio::task::spawn_blocking(move || {
            let workspace = Workspace::parse(&tree);
            let selection = workspace.environment(environment.as_deref());
            (selection, workspace.is_named(), workspace.findings)
        });
        let (selection, named, findings) = selected.await.map_err(|_| panicked("reading the files"))?;
        let mut selection = match selection {
            Ok(selection) => selection,
            Err(error) => {
                report.named(UNNAMED).await;
                return Err(without_environment(&error, &findings));
            }
        };
        report.named(&selection.name).boxed().await;
        self.settle(&mut selection)?;
        sync::desired::learn(&self.cluster, &mut selection).await;
        let rendered = tokio::task::spawn_blocking(move || Desired::of(selection));
        let desired = rendered.await.map_err(|_| panicked("rendering"))?;
        Ok(Ready { desired, named })
    }

    /// What the source says goes over what the repository says.
    fn settle(&self, selection: &mut Selection) -> Result<(), Stop> {
        let spec = &self.source.spec;
        if let (Some(asked), Some(refusal)) = (&selection.environment.context, &self.implied) {
            return Err(Stop::fault(
                format!("the environment is for the context `{asked}`, and this controller works on {refusal}"),
                "start the controller with --context, or with --cluster to say that it is meant",
                false,
            ));
        }
        if let Some(namespace) = &spec.target_namespace {
            selection.environment.namespace = namespace.clone();
        }
        if let Some(guards) = &spec.guards {
            selection.guards.max_deletions = guards.max_deletions.or(selection.guards.max_deletions);
            selection.guards.max_gpus = guards.max_gpus.or(selection.guards.max_gpus);
        }
        Ok(())
    }

    async fn sync(
        &self,
        head: &Head,
        mut heads: watch::Receiver<Option<Head>>,
        report: &mut Report,
        plan: plan::Plan,
        records: Vec<plan::Record>,
        before: &Before,
    ) -> SyncReport {
        let (cancel, cancelled) = watch::channel(None);
        let mut options = SyncOptions::new(jiff::Timestamp::now(), seed());
        options.wait = true;
        options.prune = self.source.spec.prune.unwrap_or(true);
        options.timeout = self.source.timeout;
        report.progress(&head.commit, Stage::Applying { models: before.changing() });
        let name = self.source.name.as_str();
        let waiting: Mutex<Waiting> = Mutex::default();
        let sink = |event: Progress| {
            log(name, head, &event);
            waiting.lock().unwrap_or_else(PoisonError::into_inner).tell(event);
        };
        let mut work = sync::run(&self.cluster, plan, records, options, &sink, cancelled).boxed();
        let mut told = tokio::time::interval(TELL);
        told.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut stopping = false;
        loop {
            tokio::select! {
                outcome = &mut work => return outcome,
                () = self.ending.cancelled(), if !stopping => {
                    stopping = true;
                    let _ = cancel.send(Some(Cancel::Interrupted));
                }
                () = overtaken(head, &mut heads), if !stopping => {
                    stopping = true;
                    let revision = heads.borrow().as_ref().map(|now| now.commit.clone()).unwrap_or_default();
                    tracing::info!(source = name, revision = head.short(), "a newer commit is there: stopping");
                    let _ = cancel.send(Some(Cancel::Superseded { revision }));
                }
                _ = told.tick() => {
                    let stage = waiting.lock().unwrap_or_else(PoisonError::into_inner).stage(before.models());
                    if let Some(stage) = stage {
                        report.progress(&head.commit, stage);
                    }
                }
            }
        }
    }
}

/// How often a status says how far a sync is. Each change of it is a post, and hosts count those.
const TELL: Duration = Duration::from_secs(30);

/// Which models are waited for.
#[derive(Debug, Default)]
struct Waiting {
    open: BTreeMap<String, ()>,
    healthy: usize,
    any: bool,
}

impl Waiting {
    fn tell(&mut self, event: Progress) {
        match event {
            Progress::Waiting { model, .. } => {
                self.any = true;
                self.open.insert(model, ());
            }
            Progress::Finished(outcome) => {
                self.open.remove(&outcome.name);
                self.healthy += usize::from(outcome.result.is_success());
            }
            Progress::Applied { .. } | Progress::Deleted { .. } | Progress::Retrying { .. } => {}
        }
    }

    fn stage(&self, models: usize) -> Option<Stage> {
        let first = self.open.keys().next().cloned();
        self.any.then_some(Stage::Waiting { healthy: self.healthy, models, first })
    }
}

fn log(source: &str, head: &Head, event: &Progress) {
    let revision = head.short();
    match event {
        Progress::Applied { model, object } => tracing::info!(source, revision, model, "applied {object}"),
        Progress::Deleted { model, object } => tracing::info!(source, revision, model, "deleted {object}"),
        Progress::Retrying { model, message } => tracing::warn!(source, revision, model, "trying again: {message}"),
        Progress::Waiting { model, message } => tracing::debug!(source, revision, model, "{message}"),
        Progress::Finished(outcome) if outcome.result.is_success() => {
            tracing::debug!(source, revision, model = outcome.name, "{}", outcome.result);
        }
        Progress::Finished(outcome) => {
            tracing::warn!(source, revision, model = outcome.name, "{}: {}", outcome.result, outcome.message);
        }
    }
}

/// Waits until another commit is the newest.
async fn overtaken(head: &Head, heads: &mut watch::Receiver<Option<Head>>) {
    let gone = heads.wait_for(|now| now.as_ref().is_some_and(|now| now.commit != head.commit)).await.is_err();
    if gone {
        std::future::pending::<()>().await;
    }
}

/// The models that have errors, with their `model.yaml`.
fn faulty(desired: &Desired) -> BTreeMap<String, String> {
    let broken = desired.selection.broken.iter();
    let broken = broken.map(|one| (one.name.clone().unwrap_or_else(|| one.source.clone()), one.source.clone()));
    let refused = desired.rendered.iter().filter(|one| one.findings.iter().any(Finding::is_error));
    broken.chain(refused.map(|one| (one.model.clone(), one.source.clone()))).collect()
}

/// The records that a sync starts from: those of the plan's environment.
struct PlanRecords {
    records: Vec<plan::Record>,
}

impl PlanRecords {
    fn of(input: plan::PlanInput) -> Self {
        let own =
            |record: &plan::Record| record.repository == input.repository && record.environment == input.environment;
        let records = input.records.iter().filter(|record| own(record)).cloned().collect();
        Self { records }
    }
}

fn without_environment(error: &EnvironmentError, findings: &[Finding]) -> Stop {
    let verdict = match FirstFinding::of(findings) {
        Some(first) => Verdict::Invalid(first),
        None => Verdict::Fault { message: error.to_string() },
    };
    let help = match error {
        EnvironmentError::Unknown { .. } | EnvironmentError::Ambiguous { .. } => {
            "set `spec.environment` of the source to one that the root stator.yaml has"
        }
        EnvironmentError::Unreadable { .. } => "mend the root stator.yaml",
    };
    Stop { verdict, help: help.to_owned(), may_pass: false }
}

fn panicked(what: &str) -> Stop {
    Stop::fault(format!("{what} came to an unexpected end"), "report it, with the log", true)
}

/// Where the jitter of retries comes from.
pub(in crate::controller) fn seed() -> u64 {
    u64::try_from(uuid::Uuid::new_v4().as_u128() & u128::from(u64::MAX)).unwrap_or_default()
}
