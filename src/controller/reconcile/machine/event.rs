//! The inputs of a reconciler.

use crate::controller::cache::drift_detector::DriftSignal;
use crate::controller::reconcile::attempt_report::{AttemptReport, UncoveredModels, VerdictBasis};
use crate::controller::reconcile::commit::PolledCommit;
use crate::controller::reconcile::drift_repairs::DriftFindings;
use crate::controller::sources::manual_requests::ManualRequests;
use jiff::Timestamp;
use stator_core::object::ObjectIdentity;
use stator_model::plan::HeldChanges;
use std::time::Duration;

/// Something that happened. Time comes beside it: see [`SourceReconciler::step`](super::SourceReconciler::step).
#[derive(Clone, Debug)]
pub(in crate::controller::reconcile) enum ReconcileEvent {
    /// The source's reference points at this commit now, or its signature is verified anew.
    CommitFound(PolledCommit),
    /// All that people request of the source by now.
    RequestsChanged(ManualRequests),
    /// A poll of the repository is over, whatever came of it. A commit that it found was reported before.
    PollFinished {
        /// The sync request that was known when the poll began.
        request: Option<String>,
    },
    /// Nobody polls any more: what is known is all that there will be.
    PollingEnded,
    /// The answer to [`CheckGate`](super::ReconcileEffect::CheckGate).
    GateChecked(GateDecision),
    /// The answer to [`StartAttempt`](super::ReconcileEffect::StartAttempt) and to
    /// [`ReleaseHolds`](super::ReconcileEffect::ReleaseHolds): a plan is ready, and nothing is written yet.
    AttemptPlanned {
        /// What it says.
        plan: Box<PlanFindings>,
        /// Whether live objects are watched for drift now.
        is_watched: bool,
    },
    /// The answer to [`ExecutePlan`](super::ReconcileEffect::ExecutePlan), cancelled or not; and to what comes before it
    /// where that got nowhere.
    AttemptFinished {
        /// What came of it.
        outcome: AttemptOutcome,
        /// Whether live objects are watched for drift now.
        is_watched: bool,
    },
    /// The answer to [`RestoreLastGood`](super::ReconcileEffect::RestoreLastGood), cancelled or not.
    RestoreFinished {
        /// What came of it.
        report: RestoreReport,
        /// Whether live objects are watched for drift now.
        is_watched: bool,
    },
    /// Live objects are not as they were planned by. Only while
    /// [`drift_interest`](super::SourceReconciler::drift_interest) asks for it.
    Drifted(DriftSignal),
    /// The cluster does not refuse any more what it refused before: rights were granted, kinds installed.
    AccessRestored,
    /// [`wake_at`](super::SourceReconciler::wake_at) has come.
    TimerDue,
    /// The source is to end: the process does, or somebody else has it.
    Shutdown,
}

/// What the sync windows say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller::reconcile) enum GateDecision {
    /// Writes may be made now.
    Open,
    /// They may not.
    Closed {
        /// When the next window opens, by the wall clock; `None` where none was found.
        opens: Option<Timestamp>,
        /// How long that is from now.
        opens_in: Option<Duration>,
        /// Whose windows are closed.
        owner: WindowOwner,
    },
}

/// Whose windows keep a sync out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller::reconcile) enum WindowOwner {
    /// The source's own, which somebody may let one commit through.
    Source,
    /// Those of an administrators' policy, which nobody opens.
    Policy,
}

/// What of a plan decides whether and how it is carried out.
#[derive(Clone, Debug, Default)]
pub(in crate::controller::reconcile) struct PlanFindings {
    /// Of how many models something changes.
    pub(in crate::controller::reconcile) changing: usize,
    /// What guards hold back.
    pub(in crate::controller::reconcile) held: HeldChanges,
    /// What a verdict stands on beside that.
    pub(in crate::controller::reconcile) basis: VerdictBasis,
    /// The models that the commit has nothing valid to say of.
    pub(in crate::controller::reconcile) uncovered: Option<UncoveredModels>,
    /// What it puts back of drift, and what it leaves.
    pub(in crate::controller::reconcile) drift: DriftFindings,
    /// Whether it says nothing at all.
    pub(in crate::controller::reconcile) is_empty: bool,
}

/// How an attempt to sync a commit ended.
#[derive(Clone, Debug)]
pub(in crate::controller::reconcile) enum AttemptOutcome {
    /// It has a verdict.
    Concluded(Box<AttemptReport>),
    /// It was asked to stop, and did between two writes.
    Cancelled,
    /// Somebody deleted this object, which the sync waited for.
    ObjectLost(ObjectIdentity),
    /// Somebody changed this object while the sync waited for others.
    ObjectChanged(ObjectIdentity),
    /// Another replica may be at work on this source by now: nothing that was found counts.
    FencedOff,
}

/// How restoring the last good commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller::reconcile) enum RestoreOutcome {
    /// What had drifted is as that commit has it, or nothing had.
    Restored,
    /// It was asked to stop, and did between two writes.
    Cancelled,
    /// It could not be done.
    Failed,
}

/// What came of restoring the last good commit.
#[derive(Clone, Debug)]
pub(in crate::controller::reconcile) struct RestoreReport {
    /// How it ended.
    pub(in crate::controller::reconcile) outcome: RestoreOutcome,
    /// What it found of drift.
    pub(in crate::controller::reconcile) drift: DriftFindings,
    /// How many models drifted and are left as they are, where that was looked at.
    pub(in crate::controller::reconcile) left_drifted: Option<usize>,
}
