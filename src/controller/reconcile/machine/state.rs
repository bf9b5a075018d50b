//! What a reconciler knows: the phase that it is in, and what lasts over phases.

use super::effect::{AttemptPass, RecheckScope, RejectedRequest};
use crate::controller::reconcile::attempt_report::{HeldPlan, UncoveredModels};
use crate::controller::reconcile::commit::PolledCommit;
use crate::controller::reconcile::drift_repairs::DriftRepairs;
use crate::controller::sources::manual_requests::ManualRequests;
use stator_core::retry::Backoff;
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
    /// The commit is being synced.
    Reconciling {
        /// What the attempt may do.
        pass: AttemptPass,
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

/// What lasts over phases.
#[derive(Clone, Debug)]
pub(super) struct ReconcileMemory {
    /// The newest commit that was found.
    pub(super) newest: Option<PolledCommit>,
    /// The newest commit that was taken up.
    pub(super) current: Option<PolledCommit>,
    /// Whether no sync has taken the current commit up yet, in this process or an earlier one.
    pub(super) is_new: bool,
    /// What is requested by now.
    pub(super) requests: ManualRequests,
    /// What was requested when the current round began.
    pub(super) taken_requests: ManualRequests,
    /// The sync request that the current round answers.
    pub(super) answering: Option<String>,
    /// The sync request that was answered last.
    pub(super) handled_request: Option<String>,
    /// The sync request that was known before the last poll that is over.
    pub(super) polled_request: Option<String>,
    /// What is said of the last sync request for as long as it is so.
    pub(super) rejected_sync: Option<RejectedRequest>,
    /// See [`ReconcileEvent::PollingEnded`](super::ReconcileEvent::PollingEnded).
    pub(super) polling_ended: bool,
    pub(super) is_stopping: bool,
    /// The commit that this process last synced well.
    pub(super) applied: Option<String>,
    /// The commit that an earlier process last synced well.
    pub(super) previously_applied: Option<String>,
    /// How many people have to approve what is held back.
    pub(super) approvers: usize,
    /// What guards hold back, and of which commit.
    pub(super) held: Option<HeldRevisionPlan>,
    /// The commit of the last verdict.
    pub(super) concluded: Option<String>,
    /// What the last attempt left uncovered.
    pub(super) uncovered: Option<UncoveredModels>,
    /// Whether uncovered models may have drifted since they were last restored.
    pub(super) restore_due: bool,
    /// Restoring failed: not before then is it tried again.
    pub(super) restore_not_before: Duration,
    /// Whether the current commit waited for a window.
    pub(super) was_outside_window: bool,
    /// When the next window opens, where none was open when the windows were last asked.
    pub(super) window_opens_at: Option<Duration>,
    /// Whether the last attempt wrote something, and the next sees what came of it.
    pub(super) is_settling: bool,
    /// What the next attempt looks at although its plan changes nothing.
    pub(super) recheck: RecheckScope,
    /// Whether live objects are watched for drift.
    pub(super) is_watched: bool,
    /// Pauses after faults.
    pub(super) retries: Backoff,
    /// Pauses after refusals.
    pub(super) refusals: Backoff,
    /// Pauses between attempts of which each writes something that is no drift.
    pub(super) settles: Backoff,
    /// Pauses after a watch that was lost, and when that last was.
    pub(super) losses: Backoff,
    pub(super) watch_lost_at: Option<Duration>,
    /// Which objects drifted lately, and when each may be put back again.
    pub(super) repairs: DriftRepairs,
    /// Attempts at the current commit.
    pub(super) attempts: u32,
}

impl ReconcileMemory {
    pub(super) fn new(start: ReconcilerStart) -> Self {
        let backoff = |first: Duration, salt: u64| Backoff::new(first, LONGEST_PAUSE, start.seed.wrapping_add(salt));
        Self {
            newest: None,
            current: None,
            is_new: false,
            taken_requests: start.requests.clone(),
            requests: start.requests,
            answering: None,
            handled_request: start.handled_request,
            polled_request: None,
            rejected_sync: None,
            polling_ended: false,
            is_stopping: false,
            applied: start.applied,
            previously_applied: start.previously_applied,
            approvers: start.approvers,
            held: start.held,
            concluded: start.concluded,
            uncovered: None,
            restore_due: false,
            restore_not_before: Duration::ZERO,
            was_outside_window: false,
            window_opens_at: None,
            is_settling: false,
            recheck: RecheckScope::Nothing,
            is_watched: false,
            retries: backoff(FIRST_PAUSE, 1),
            refusals: backoff(FIRST_REFUSAL_PAUSE, 2),
            settles: backoff(FIRST_PAUSE, 3),
            losses: backoff(FIRST_PAUSE, 5),
            watch_lost_at: None,
            repairs: DriftRepairs::new(start.seed.wrapping_add(4)),
            attempts: 0,
        }
    }

    /// The commit that was last synced well, where that is known and not the current one.
    pub(super) fn last_good(&self) -> Option<&String> {
        let good = self.applied.as_ref().or(self.previously_applied.as_ref());
        good.filter(|good| self.current.as_ref().is_none_or(|current| current.commit != **good))
    }

    /// The sync request that is not answered yet.
    pub(super) fn pending_request(&self) -> Option<&String> {
        self.requests.requested_at.as_ref().filter(|request| self.handled_request.as_ref() != Some(*request))
    }

    /// Whether an earlier process took the commit up, as far as anybody knows.
    pub(super) fn was_taken_up(&self, commit: &PolledCommit) -> bool {
        let before = self.applied.as_ref().or(self.previously_applied.as_ref()).or(commit.previous.as_ref());
        before == Some(&commit.commit)
    }

    /// What is known is not what the current round began with.
    pub(super) fn is_overtaken(&self) -> bool {
        self.newest != self.current || self.requests != self.taken_requests
    }
}
