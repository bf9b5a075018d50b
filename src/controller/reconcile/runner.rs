//! Carries out what the [machine](super::machine) wants, and tells it what happens. It makes no choice of its own.
//!
//! One piece of work is under way at a time. It owns the [`ReconcileTools`] for as long as it runs and hands it back, also when
//! it is cancelled: nothing that is remembered is lost with it.

use super::attempt::CancelReceiver;
use super::context::{ReconcileContext, ReconcileTools};
use super::machine::{AttemptOutcome, ReconcileEffect, ReconcileEvent, ReconcileResult, SourceReconciler};
use super::planned::Planned;
use super::triggers::ReconcileTriggers;
use crate::controller::cache::drift_detector::DriftSignal;
use crate::controller::waiting::{or_pending, sleep_until_some};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use stator_cluster::sync::CancelReason;
use std::future::pending;
use tokio::sync::watch;
use tokio::time::Instant;

/// Work that is over.
struct FinishedWork {
    /// The tools, where it had them.
    tools: Option<ReconcileTools>,
    /// A plan that is ready.
    planned: Option<Box<Planned>>,
    /// What the machine is to hear.
    event: ReconcileEvent,
}

impl FinishedWork {
    /// Planning is over.
    fn of_planning(tools: ReconcileTools, planned: Result<Planned, AttemptOutcome>) -> Self {
        let is_watched = tools.watch.detector.is_open();
        let (planned, event) = match planned {
            Ok(planned) => {
                let plan = Box::new(planned.plan_findings());
                (Some(Box::new(planned)), ReconcileEvent::AttemptPlanned { plan, is_watched })
            }
            Err(outcome) => (None, ReconcileEvent::AttemptFinished { outcome, is_watched }),
        };
        Self { tools: Some(tools), planned, event }
    }
}

/// The machine, and what is under way for it.
pub(super) struct ReconcileRunner<'a> {
    context: &'a ReconcileContext,
    machine: SourceReconciler,
    /// Not here while work has it.
    tools: Option<ReconcileTools>,
    work: Option<BoxFuture<'a, FinishedWork>>,
    /// A plan that is ready, until the machine has heard of it: what it does not want carried out then is of no use.
    planned: Option<Box<Planned>>,
    cancel: watch::Sender<Option<CancelReason>>,
    /// Ends when the cluster can be read again, while that is waited for.
    access: Option<BoxFuture<'a, ()>>,
    /// Where the machine's clock began.
    origin: Instant,
    result: Option<ReconcileResult>,
}

impl<'a> ReconcileRunner<'a> {
    /// Before anything happened.
    pub(super) fn new(context: &'a ReconcileContext, once: bool) -> Self {
        Self {
            context,
            machine: SourceReconciler::new(context.reconciler_start(once)),
            tools: Some(ReconcileTools::default()),
            work: None,
            planned: None,
            cancel: watch::channel(None).0,
            access: None,
            origin: Instant::now(),
            result: None,
        }
    }

    /// Works until the source is finished.
    pub(super) async fn run(mut self, mut triggers: ReconcileTriggers) -> ReconcileResult {
        loop {
            let event = self.next_event(&mut triggers).await;
            for effect in self.machine.step(self.origin.elapsed(), event) {
                self.carry_out(effect).await;
            }
            self.planned = None;
            if let Some(result) = self.result {
                return result;
            }
            self.await_access();
        }
    }

    async fn next_event(&mut self, triggers: &mut ReconcileTriggers) -> ReconcileEvent {
        let due = self.machine.wake_at().map(|at| self.origin + at);
        let interest = self.machine.drift_interest();
        let finished = tokio::select! {
            biased;
            event = triggers.next_event() => return event,
            finished = or_pending(self.work.as_mut()) => finished,
            () = or_pending(self.access.as_mut()) => {
                self.access = None;
                tracing::info!("missing rights were granted: reading the source again");
                return ReconcileEvent::AccessRestored;
            }
            signal = next_drift(self.tools.as_mut(), interest.map(|interest| interest.statuses)) => {
                return ReconcileEvent::Drifted(signal);
            }
            () = sleep_until_some(due) => return ReconcileEvent::TimerDue,
        };
        self.work = None;
        let FinishedWork { tools, planned, event } = finished;
        self.tools = tools.or(self.tools.take());
        self.planned = planned;
        event
    }

    /// Waits for the cluster as long as the machine does.
    fn await_access(&mut self) {
        if !self.machine.awaits_access() {
            self.access = None;
        } else if self.access.is_none()
            && let Some(tools) = &self.tools
        {
            self.access = Some(self.context.target.cluster.wait_for_access(tools.watch.namespace.clone()).boxed());
        }
    }

    async fn carry_out(&mut self, effect: ReconcileEffect) {
        let context = self.context;
        match effect {
            ReconcileEffect::CheckGate { commit } => {
                let gate = async move {
                    let event = ReconcileEvent::GateChecked(context.check_gate(&commit).await);
                    FinishedWork { tools: None, planned: None, event }
                };
                self.work = Some(gate.boxed());
            }
            ReconcileEffect::StartAttempt { commit, pass } => self.begin_work(|mut tools, cancelled| async move {
                let planned = context.plan_attempt(commit, pass, cancelled, &mut tools).await;
                FinishedWork::of_planning(tools, planned)
            }),
            ReconcileEffect::ReleaseHolds(kinds) => {
                let Some(planned) = self.planned.take() else { return };
                self.begin_work(|tools, _| async move {
                    FinishedWork::of_planning(tools, context.release_holds(*planned, kinds).await)
                });
            }
            ReconcileEffect::ReportPlan { is_news } => {
                if let (Some(planned), Some(tools)) = (&self.planned, &mut self.tools) {
                    context.board.publish_plan(planned, is_news, &mut tools.reported);
                }
            }
            ReconcileEffect::ExecutePlan { approval, had_verdict } => {
                let Some(planned) = self.planned.take() else { return };
                self.begin_work(|mut tools, cancelled| async move {
                    let verdict = (approval, had_verdict);
                    let outcome = context.execute_plan(*planned, verdict, cancelled, &mut tools).await;
                    let is_watched = tools.watch.detector.is_open();
                    let event = ReconcileEvent::AttemptFinished { outcome, is_watched };
                    FinishedWork { tools: Some(tools), planned: None, event }
                });
            }
            ReconcileEffect::RestoreLastGood { commit, uncovered, limits } => {
                self.begin_work(|mut tools, cancelled| async move {
                    let report = context.restore_last_good(&commit, (uncovered, limits), cancelled, &mut tools).await;
                    let is_watched = tools.watch.detector.is_open();
                    let event = ReconcileEvent::RestoreFinished { report, is_watched };
                    FinishedWork { tools: Some(tools), planned: None, event }
                });
            }
            ReconcileEffect::CancelWork(reason) => {
                if let CancelReason::Superseded { revision } = &reason {
                    tracing::info!(source = %context.source.key, newer = revision, "a newer commit was found: \
                                                                                    stopping");
                }
                self.cancel.send_replace(Some(reason));
            }
            ReconcileEffect::Finish(result) => self.result = Some(result),
            effect @ (ReconcileEffect::AnnounceCommit { .. }
            | ReconcileEffect::ReopenCommit(_)
            | ReconcileEffect::ReportSuspended(_)
            | ReconcileEffect::ReportRefusal { .. }
            | ReconcileEffect::ReportWindow { .. }
            | ReconcileEffect::AcceptApproval(_)
            | ReconcileEffect::PublishVerdict { .. }
            | ReconcileEffect::AnswerRequests { .. }
            | ReconcileEffect::SetLastKnownGood(_)
            | ReconcileEffect::SetPhase(_)
            | ReconcileEffect::ReportDrift(_)) => {
                if let Some(tools) = &mut self.tools {
                    context.publish(effect, &mut tools.reported).await;
                }
            }
        }
    }

    /// Lends the tools to work that can be cancelled.
    fn begin_work<W: Future<Output = FinishedWork> + Send + 'a>(
        &mut self,
        work: impl FnOnce(ReconcileTools, CancelReceiver) -> W,
    ) {
        let Some(tools) = self.tools.take() else { return };
        self.cancel.send_replace(None);
        self.work = Some(work(tools, self.cancel.subscribe()).boxed());
    }
}

/// The next drift that matters. `statuses` says whether those do; `None` that nothing does.
async fn next_drift(tools: Option<&mut ReconcileTools>, statuses: Option<bool>) -> DriftSignal {
    let (Some(ReconcileTools { watch, .. }), Some(statuses)) = (tools, statuses) else { return pending().await };
    let labels = watch.labels.clone();
    loop {
        match watch.detector.next_signal(|object| super::is_ours(object, labels.as_ref())).await {
            DriftSignal::Status if !statuses => {}
            signal @ (DriftSignal::Drift(_) | DriftSignal::Status | DriftSignal::Lost) => return signal,
        }
    }
}
