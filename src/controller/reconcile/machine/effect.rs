//! What a reconciler wants done.

use crate::controller::reconcile::attempt_report::{ApprovedChanges, AttemptReport, UncoveredModels};
use crate::controller::reconcile::commit::PolledCommit;
use crate::controller::reconcile::drift_repairs::RepairLimits;
use crate::controller::sources::manual_requests::HoldApproval;
use crate::controller::sources::registry::SourcePhase;
use jiff::Timestamp;
use stator_cluster::sync::CancelReason;
use stator_model::plan::HoldKind;
use std::collections::BTreeSet;

/// Something to be done, in the order given. Only the answers that an effect names come back as events.
#[derive(Clone, Debug)]
pub(in crate::controller::reconcile) enum ReconcileEffect {
    /// A commit is the newest from here on: commits before it that have no verdict are superseded.
    AnnounceCommit {
        /// Which.
        commit: PolledCommit,
        /// Whether it is the first since this process took the source on: what the git host shows is read then.
        is_first: bool,
    },
    /// A commit that had a verdict is taken up again, as somebody changed something for it.
    ReopenCommit(String),
    /// Nothing is done for a commit, as the source is suspended.
    ReportSuspended(String),
    /// A commit's signature is refused: this is its verdict.
    ReportRefusal {
        /// Which.
        commit: PolledCommit,
        /// The commit that what runs is kept at.
        last_known_good: Option<String>,
    },
    /// Ask the sync windows; answered with [`GateChecked`](super::ReconcileEvent::GateChecked).
    CheckGate {
        /// The commit that is to be written.
        commit: String,
    },
    /// What the windows say of a commit.
    ReportWindow {
        /// Which.
        commit: String,
        /// What they say.
        window: ReportedWindow,
    },
    /// Read a commit and plan it; answered with [`AttemptPlanned`](super::ReconcileEvent::AttemptPlanned), or with
    /// [`AttemptFinished`](super::ReconcileEvent::AttemptFinished) where that got nowhere.
    StartAttempt {
        /// Which.
        commit: PolledCommit,
        /// What the attempt may do.
        pass: AttemptPass,
    },
    /// Somebody approved what the plan holds back, or it is what is left of that.
    AcceptApproval(HoldApproval),
    /// Release these guards in the plan that is ready; answered as [`StartAttempt`](Self::StartAttempt) is.
    ReleaseHolds(BTreeSet<HoldKind>),
    /// What the plan that is ready says, for people.
    ReportPlan {
        /// Whether it is shown although it says nothing: the plan that finds all done says nothing of what was.
        is_news: bool,
    },
    /// Carry the plan out that is ready; answered with [`AttemptFinished`](super::ReconcileEvent::AttemptFinished).
    ExecutePlan {
        /// What was approved of it, for the records of its models.
        approval: Option<ApprovedChanges>,
        /// Whether the commit had a verdict: it begins anew then where somebody changes an object meanwhile.
        had_verdict: bool,
    },
    /// End the attempt, or the restoring, that is under way: between two writes. It is answered all the same.
    CancelWork(CancelReason),
    /// Put back what drifted of models that the newest commit has nothing valid to say of; answered with
    /// [`RestoreFinished`](super::ReconcileEvent::RestoreFinished).
    RestoreLastGood {
        /// The commit that was last synced successfully.
        commit: String,
        /// Of which models.
        uncovered: UncoveredModels,
        /// What of it may not be put back yet.
        limits: RepairLimits,
    },
    /// An attempt's verdict is the commit's verdict.
    PublishVerdict {
        /// Which commit.
        commit: PolledCommit,
        /// The verdict, and what was found on the way to it.
        report: Box<AttemptReport>,
    },
    /// What became of what people requested.
    AnswerRequests {
        /// The sync request that is answered by this.
        handled: Option<String>,
        /// What could not be done, as of now.
        rejected: BTreeSet<RejectedRequest>,
    },
    /// The commit that uncovered models are kept at, where there are any.
    SetLastKnownGood(Option<String>),
    /// What the source is doing, for its status.
    SetPhase(SourcePhase),
    /// Live objects of a commit were changed by somebody else, for the log.
    ReportDrift(String),
    /// The source is finished; no event counts any more.
    Finish(ReconcileResult),
}

/// What an attempt may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::controller::reconcile) struct AttemptPass {
    /// What somebody approved of this commit; of which plan, whoever carries it out compares.
    pub(in crate::controller::reconcile) approval: Option<HoldApproval>,
    /// Whether drift is put back, and not only reported.
    pub(in crate::controller::reconcile) heal: bool,
    /// What is looked at although the plan changes nothing.
    pub(in crate::controller::reconcile) recheck: RecheckScope,
    /// Drift that may not be put back yet.
    pub(in crate::controller::reconcile) limits: RepairLimits,
    /// How many uncovered models drifted and are left as they are.
    pub(in crate::controller::reconcile) drifted_uncovered: usize,
}

/// What is looked at although a plan changes nothing, the smallest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::controller::reconcile) enum RecheckScope {
    /// Nothing: what was known stays so.
    #[default]
    Nothing,
    /// The health of models.
    Health,
    /// Everything: the commit gets a verdict anew.
    Everything,
}

/// What the windows say, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller::reconcile) enum ReportedWindow {
    /// One is open, or the source has none.
    Open,
    /// None is open, and somebody asked for this commit all the same.
    Overridden {
        /// When the next one opens.
        opens: Option<Timestamp>,
    },
    /// None is open.
    Closed {
        /// When the next one opens.
        opens: Option<Timestamp>,
    },
}

/// Something that was requested and cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::controller::reconcile) enum RejectedRequest {
    /// An approval names another commit than the newest.
    StaleApproval {
        /// As the annotation has it.
        approval: String,
        /// The newest commit.
        newest: String,
    },
    /// An approval names another plan of the newest commit than the one that is held back.
    StalePlanApproval {
        /// As the annotation has it.
        approval: String,
    },
    /// Others have to approve the same.
    TooFewApprovers {
        /// As the annotation has it.
        approval: String,
        /// How many did.
        given: usize,
        /// How many have to.
        needed: usize,
    },
    /// A sync outside the windows was requested for another commit than the newest.
    StaleWindowOverride {
        /// The commit that was named.
        revision: String,
        /// The newest commit.
        newest: String,
    },
    /// A sync was requested of a source that is suspended.
    SyncWhileSuspended,
    /// A sync was requested while no window is open.
    SyncWithoutWindow,
    /// A sync was requested while the windows of a policy are closed.
    SyncWithoutPolicyWindow,
}

/// How a source ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller) enum ReconcileResult {
    /// The newest commit is applied and healthy.
    Synced,
    /// It is not.
    NotSynced,
    /// It was stopped before that was known.
    Stopped,
}
