//! The inputs of a reconciler.

use crate::controller::cache::drift_detector::DriftSignal;
use crate::controller::reconcile::attempt_report::{AttemptReport, AttemptSummary};
use crate::controller::reconcile::commit::PolledCommit;
use crate::controller::reconcile::drift_repairs::DriftFindings;
use crate::controller::sources::manual_requests::ManualRequests;
use jiff::Timestamp;
use stator_core::object::ObjectIdentity;
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
    /// The answer to [`StartAttempt`](super::ReconcileEffect::StartAttempt), cancelled or not.
    AttemptFinished {
        /// What came of it.
        outcome: AttemptOutcome,
        /// Whether live objects are watched for drift now.
        is_watched: bool,
    },
    /// The answer to [`RestoreLastGood`](super::ReconcileEffect::RestoreLastGood), cancelled or not.
    RestoreFinished {
        /// What came of it.
        outcome: RestoreOutcome,
        /// What it found of drift.
        drift: DriftFindings,
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

/// How an attempt to sync a commit ended.
#[derive(Clone, Debug)]
pub(in crate::controller::reconcile) enum AttemptOutcome {
    /// It has a verdict.
    Concluded(Box<AttemptReport>),
    /// Nothing was to be done, and what is known of the commit is what it was.
    Unchanged(AttemptSummary),
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
