//! What a reconciler knows: the phase that it is in with its own data, and what lasts over phases, by what it is of.

use super::DriftInterest;
use super::effect::{AttemptPass, RejectedRequest};
use crate::controller::reconcile::attempt_report::{
    ApprovedChanges, AttemptSummary, HeldPlan, UncoveredModels, VerdictBasis,
};
use crate::controller::reconcile::commit::PolledCommit;
use crate::controller::reconcile::drift_repairs::DriftRepairs;
use crate::controller::sources::manual_requests::{HoldApproval, ManualRequests};
use stator_core::retry::Backoff;
use stator_model::plan::HeldChanges;
use std::time::Duration;

/// Pauses after a fault that may pass, and between writes that nothing explains.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Pauses after a refusal: with their jitter, one to ten minutes.
const FIRST_REFUSAL_PAUSE: Duration = Duration::from_secs(120);

/// What a source's spec and its past say when a reconciler starts.
#[derive(Clone, Debug, Default)]
pub(in crate::controller::reconcile) struct ReconcilerStart {
    /// `spec.suspend`.
    pub(in crate::controller::reconcile) is_suspended: bool,
    /// `spec.selfHeal`.
    pub(in crate::controller::reconcile) self_heal: bool,
    /// Whether it ends once the newest commit has a verdict.
    pub(in crate::controller::reconcile) once: bool,
    /// Whether the source's spec was changed since its last reconciler: the newest commit is taken up again then.
    pub(in crate::controller::reconcile) is_changed: bool,
    /// What is requested by now.
    pub(in crate::controller::reconcile) requests: ManualRequests,
    /// How many people have to approve what is held back; 0 where nobody has to be named.
    pub(in crate::controller::reconcile) approvers: usize,
    /// The sync request that was answered last.
    pub(in crate::controller::reconcile) handled_request: Option<String>,
    /// The commit that this process last synced well.
    pub(in crate::controller::reconcile) applied: Option<String>,
    /// The commit that an earlier process last synced well.
    pub(in crate::controller::reconcile) previously_applied: Option<String>,
    /// What guards hold back, and of which commit.
    pub(in crate::controller::reconcile) held: Option<HeldRevisionPlan>,
    /// The commit of the last verdict.
    pub(in crate::controller::reconcile) concluded: Option<String>,
    /// Where the jitter of pauses comes from.
    pub(in crate::controller::reconcile) seed: u64,
}

/// What guards hold back of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller::reconcile) struct HeldRevisionPlan {
    /// The commit, in full.
    pub(in crate::controller::reconcile) revision: String,
    /// What waits.
    pub(in crate::controller::reconcile) plan: HeldPlan,
}

/// What a reconciler is doing. Times are those of the clock that events come with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller::reconcile) enum ReconcilePhase {
    /// No commit is known.
    AwaitingCommit,
    /// A sync was requested: the repository is polled first, so that what is synced is what it holds by then.
    AwaitingPoll {
        /// The request.
        request: String,
    },
    /// `spec.suspend`.
    Suspended,
    /// The commit's signature is refused; live objects are watched, and kept at the last good commit.
    Refused {
        /// When drift is looked for although nobody reported any.
        next_look: Option<Duration>,
    },
    /// No sync window is open.
    OutsideWindow {
        /// When the windows are asked again.
        next_look: Duration,
    },
    /// The sync windows are being asked. Nothing is written without going through here.
    CheckingGate {
        /// What is to be written.
        reason: GateReason,
    },
    /// What drifted of uncovered models is being put back.
    RestoringLastGood {
        /// Whether it was asked to stop.
        is_cancelled: bool,
    },
    /// The commit is read and held against what is live: nothing is written yet.
    Planning {
        /// What the attempt may do.
        pass: AttemptPass,
        /// Whether guards were released already for what somebody approved.
        is_released: bool,
        /// Whether it was asked to stop.
        is_cancelled: bool,
    },
    /// The commit's plan is carried out.
    Executing {
        /// What the attempt may do.
        pass: AttemptPass,
        /// What its verdict will stand on.
        basis: VerdictBasis,
        /// Whether it was asked to stop.
        is_cancelled: bool,
    },
    /// Something was written; what came of it is looked at after a pause.
    Settling {
        /// The pause's end.
        until: Duration,
    },
    /// The commit is waiting to retry.
    BackingOff {
        /// The pause's end.
        until: Duration,
    },
    /// The commit has its verdict; live objects are watched.
    Watching {
        /// Whether a change of a status matters.
        statuses: bool,
        /// Whether the cluster refused what the attempt needs.
        is_refused: bool,
        /// When the next attempt is made although nobody reported anything.
        next_look: Option<Duration>,
    },
    /// Live objects changed; more changes are waited for, as one hand makes several.
    GatheringDrift {
        /// The pause's end.
        until: Duration,
    },
    /// It is over.
    Finished,
}

/// What is to be written when the gate is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller::reconcile) enum GateReason {
    /// The newest commit, and before it what drifted of uncovered models.
    SyncCommit,
    /// Only what drifted: the newest commit is refused.
    KeepLastGood,
}

/// What a phase waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct PhaseWait {
    /// What is under way meanwhile.
    pub(super) activity: Activity,
    /// When it ends by itself.
    pub(super) until: Option<Duration>,
    /// Which changes of live objects end it.
    pub(super) drift: Option<DriftInterest>,
    /// Whether rights or kinds that the cluster lacked end it.
    pub(super) access: bool,
}

/// What is under way in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// Nothing.
    None,
    /// The gate is asked, which takes no time worth to be cancelled.
    Gate,
    /// Work that ends early when it is asked to.
    Work,
    /// Nothing, and nothing will be.
    Finished,
}

impl ReconcilePhase {
    /// What it waits for.
    pub(super) fn wait(&self) -> PhaseWait {
        let none = PhaseWait { activity: Activity::None, until: None, drift: None, access: false };
        match self {
            Self::AwaitingCommit | Self::AwaitingPoll { .. } | Self::Suspended => none,
            Self::Refused { next_look } => {
                PhaseWait { until: *next_look, drift: Some(DriftInterest { statuses: false }), ..none }
            }
            Self::OutsideWindow { next_look: until } | Self::Settling { until } | Self::GatheringDrift { until } => {
                PhaseWait { until: Some(*until), ..none }
            }
            Self::BackingOff { until } => PhaseWait { until: Some(*until), access: true, ..none },
            Self::Watching { statuses, is_refused, next_look } => PhaseWait {
                until: *next_look,
                drift: Some(DriftInterest { statuses: *statuses }),
                access: *is_refused,
                ..none
            },
            Self::CheckingGate { .. } => PhaseWait { activity: Activity::Gate, ..none },
            Self::RestoringLastGood { .. } | Self::Planning { .. } | Self::Executing { .. } => {
                PhaseWait { activity: Activity::Work, ..none }
            }
            Self::Finished => PhaseWait { activity: Activity::Finished, ..none },
        }
    }

    /// Whether the work that is under way was asked to stop; `None` where none is.
    pub(super) fn cancellation(&mut self) -> Option<&mut bool> {
        match self {
            Self::RestoringLastGood { is_cancelled }
            | Self::Planning { is_cancelled, .. }
            | Self::Executing { is_cancelled, .. } => Some(is_cancelled),
            Self::AwaitingCommit
            | Self::AwaitingPoll { .. }
            | Self::Suspended
            | Self::Refused { .. }
            | Self::OutsideWindow { .. }
            | Self::CheckingGate { .. }
            | Self::Settling { .. }
            | Self::BackingOff { .. }
            | Self::Watching { .. }
            | Self::GatheringDrift { .. }
            | Self::Finished => None,
        }
    }
}

/// The commits of a source, and what became of them.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownCommits {
    /// The newest commit that was found.
    pub(super) newest: Option<PolledCommit>,
    /// The newest commit that was taken up.
    pub(super) current: Option<CurrentCommit>,
    /// The commit that this process last synced well.
    pub(super) applied: Option<String>,
    /// The commit that an earlier process last synced well.
    pub(super) previously_applied: Option<String>,
    /// What guards hold back, and of which commit.
    pub(super) held: Option<HeldRevisionPlan>,
    /// What was approved of a commit, and is not through yet.
    pub(super) approved: Option<ApprovedChanges>,
    /// The commit of the last verdict.
    pub(super) concluded: Option<String>,
}

/// The commit that was taken up, and how far it is.
#[derive(Clone, Debug)]
pub(super) struct CurrentCommit {
    /// What was found.
    pub(super) found: PolledCommit,
    /// Whether no sync has taken it up yet, in this process or an earlier one.
    pub(super) is_new: bool,
    /// Whether it waited for a window.
    pub(super) was_outside_window: bool,
    /// Whether the last attempt wrote something, and the next sees what came of it.
    pub(super) is_settling: bool,
    /// Attempts at it.
    pub(super) attempts: u32,
    /// Its verdict, where an attempt that finds the same has nothing new to say.
    pub(super) verdict: Option<KnownVerdict>,
}

/// A verdict, and what it stands on.
#[derive(Clone, Debug)]
pub(super) struct KnownVerdict {
    /// What follows from an attempt that finds nothing new.
    pub(super) summary: AttemptSummary,
    /// What is to be as it was.
    pub(super) basis: VerdictBasis,
}

impl KnownCommits {
    /// The name of the commit that was taken up.
    pub(super) fn current_name(&self) -> Option<&String> {
        self.current.as_ref().map(|current| &current.found.commit)
    }

    /// The commit that was last synced well, where that is known and not the current one.
    pub(super) fn last_good(&self) -> Option<&String> {
        let good = self.applied.as_ref().or(self.previously_applied.as_ref());
        good.filter(|good| self.current_name().is_none_or(|current| current != *good))
    }

    /// Whether an earlier process took the commit up, as far as anybody knows.
    pub(super) fn was_taken_up(&self, commit: &PolledCommit) -> bool {
        let before = self.applied.as_ref().or(self.previously_applied.as_ref()).or(commit.previous.as_ref());
        before == Some(&commit.commit)
    }

    /// Whether what a plan holds back is what was approved, or what is left of it: an attempt that was interrupted has less
    /// left, and needs no approval of its own.
    pub(super) fn accept_approval(&mut self, approval: &HoldApproval, held: &HeldChanges) -> bool {
        if held.digest() == approval.plan {
            self.approved = Some(ApprovedChanges { approval: approval.clone(), changes: held.clone() });
            return true;
        }
        let is_rest = |one: &ApprovedChanges| one.approval == *approval && held.is_part_of(&one.changes);
        self.approved.as_ref().is_some_and(is_rest)
    }
}

/// What people request, and what was answered.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestState {
    /// What is requested by now.
    pub(super) known: ManualRequests,
    /// What was requested when the current round began.
    pub(super) taken: ManualRequests,
    /// The sync request that the current round answers.
    pub(super) answering: Option<String>,
    /// The sync request that was answered last.
    pub(super) handled: Option<String>,
    /// The sync request that was known before the last poll that is over.
    pub(super) polled: Option<String>,
    /// What is said of the last sync request for as long as it is so.
    pub(super) rejected_sync: Option<RejectedRequest>,
    /// See [`ReconcileEvent::PollingEnded`](super::ReconcileEvent::PollingEnded).
    pub(super) polling_ended: bool,
}

impl RequestState {
    /// The sync request that is not answered yet.
    pub(super) fn pending(&self) -> Option<&String> {
        self.known.requested_at.as_ref().filter(|request| self.handled.as_ref() != Some(*request))
    }
}

/// What the newest commit has nothing valid to say of.
#[derive(Clone, Debug, Default)]
pub(super) struct UncoveredState {
    /// What the last attempt left uncovered.
    pub(super) models: Option<UncoveredModels>,
    /// How many of them drifted and are left as they are.
    pub(super) drifted: usize,
    /// Whether they may have drifted since they were last restored.
    pub(super) restore_due: bool,
    /// Restoring failed: not before then is it tried again.
    pub(super) restore_not_before: Duration,
}

/// How long is waited before something is tried again.
#[derive(Clone, Debug)]
pub(super) struct ReconcilePauses {
    /// After faults.
    pub(super) retries: Backoff,
    /// After refusals.
    pub(super) refusals: Backoff,
    /// Between attempts of which each writes something that is no drift.
    pub(super) settles: Backoff,
    /// After a watch that was lost, and when that last was.
    pub(super) losses: Backoff,
    pub(super) watch_lost_at: Option<Duration>,
    /// Which objects drifted lately, and when each may be put back again.
    pub(super) repairs: DriftRepairs,
}

impl ReconcilePauses {
    pub(super) fn new(seed: u64) -> Self {
        let backoff = |first: Duration, salt: u64| Backoff::new(first, LONGEST_PAUSE, seed.wrapping_add(salt));
        Self {
            retries: backoff(FIRST_PAUSE, 1),
            refusals: backoff(FIRST_REFUSAL_PAUSE, 2),
            settles: backoff(FIRST_PAUSE, 3),
            losses: backoff(FIRST_PAUSE, 5),
            watch_lost_at: None,
            repairs: DriftRepairs::new(seed.wrapping_add(4)),
        }
    }

    /// Something new is tried.
    pub(super) fn reset(&mut self) {
        self.reset_faults();
        self.settles.reset();
        self.repairs.clear();
    }

    /// Something went through.
    pub(super) fn reset_faults(&mut self) {
        self.retries.reset();
        self.refusals.reset();
    }
}
