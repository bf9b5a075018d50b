//! What one model does, one task after the other.

use stator_core::fields::OwnershipTransfer;
use stator_core::object::{ObjectIdentity, ObjectRef, ObjectText};
use stator_model::plan::{DeleteStep, InventoryEntry};
use stator_model::render::ApplyStage;

/// One thing that a model does. The front of the queue is what it is at.
#[derive(Clone, Debug)]
pub(super) enum SyncTask {
    /// Apply an object.
    Apply(ApplyTask),
    /// Delete an object, pruned or about to be replaced.
    Delete(DeleteTask),
    /// Look until an object is really gone.
    AwaitGone {
        object: ObjectRef,
        uid: String,
        /// What is to be said in the history once it is gone.
        since: Option<std::time::Duration>,
    },
    /// Look whether a Job has downloaded the weights that the graph is to serve.
    CheckDownload(ObjectRef),
    /// Wait until it has, for the graph to be applied.
    AwaitDownload(ObjectRef),
    /// Look whether a graph is Ready, so that its adapters may be applied at once.
    CheckGraph(ObjectRef),
    /// Wait until every model has applied what it can, but for those that wait until something is gone; and until what
    /// takes the model's place is applied.
    Barrier,
    /// Write the record as it is now.
    WriteRecord,
    /// Delete the record: the model is gone.
    DeleteRecord,
    /// Wait until the graph is Healthy, for adapters to be applied.
    AwaitGraph,
    /// Wait until everything is Healthy.
    AwaitHealth,
}

/// One server-side apply.
#[derive(Clone, Debug)]
pub(super) struct ApplyTask {
    pub object: ObjectText,
    pub manager: &'static str,
    pub force: bool,
    /// Ownership that passes to the manager first.
    pub transfer: Option<OwnershipTransfer>,
    pub stage: ApplyStage,
    /// The graphs that must be Healthy before it: of an adapter the model's own, of a route those that it newly leads to.
    pub after_graphs: Vec<ObjectRef>,
    /// What the inventory says of it; uid and generation come with the answer.
    pub entry: InventoryEntry,
    /// The line for the history; `None` for the second and third apply of one change.
    pub history_line: Option<String>,
    /// Takes the uid that an earlier apply of this sync gave, so that it cannot create.
    pub follows: bool,
    /// Nothing was there when it was planned: it must not change what somebody else has created since.
    pub creates: bool,
    /// Something is there all the same: look whether an earlier try of this sync, or one like it, created it.
    pub recheck: bool,
    /// How often it was looked.
    pub rechecks: u32,
}

/// One delete.
#[derive(Clone, Debug)]
pub(super) struct DeleteTask {
    pub step: DeleteStep,
    pub purpose: DeletePurpose,
    pub history_line: String,
    /// A precondition failed: look what is there now before anything else.
    pub recheck: bool,
    /// How often it was looked.
    pub rechecks: u32,
}

/// Why something is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeletePurpose {
    /// git no longer has it.
    Prune,
    /// It is made again afterwards.
    Replace,
    /// This graph has taken its place: it goes only while that is seen to be Healthy, and the adapters with it.
    ReplacedBy(ObjectRef),
}

/// When an object is applied, by its kind.
pub(super) fn stage_of(object: &ObjectRef) -> ApplyStage {
    ApplyStage::of_kind(&object.kind)
}

/// When a task is done, by the object that it is about.
pub(super) fn task_stage(task: &SyncTask) -> ApplyStage {
    task.object().map_or(ApplyStage::Adapter, |object| stage_of(&object))
}

impl SyncTask {
    /// What it writes or deletes.
    pub(super) fn object(&self) -> Option<ObjectRef> {
        match self {
            Self::Apply(task) => Some(task.object.reference().clone()),
            Self::Delete(task) => Some(task.step.object.clone()),
            Self::AwaitGone { object, .. } => Some(object.clone()),
            Self::CheckDownload(_)
            | Self::AwaitDownload(_)
            | Self::CheckGraph(_)
            | Self::Barrier
            | Self::WriteRecord
            | Self::DeleteRecord
            | Self::AwaitGraph
            | Self::AwaitHealth => None,
        }
    }

    /// The delete that it is, where it is one.
    pub(super) fn deletion(&self) -> Option<&DeleteTask> {
        if let Self::Delete(task) = self { Some(task) } else { None }
    }

    /// The object that it applies, or deletes to apply it anew, and at which stage.
    pub(super) fn created_object(&self) -> Option<(ObjectRef, ApplyStage)> {
        match self {
            Self::Apply(task) => Some((task.object.reference().clone(), task.stage)),
            Self::Delete(DeleteTask { step, purpose: DeletePurpose::Replace, .. }) => {
                Some((step.object.clone(), step.stage))
            }
            Self::Delete(DeleteTask { purpose: DeletePurpose::Prune | DeletePurpose::ReplacedBy(_), .. })
            | Self::AwaitGone { .. }
            | Self::CheckDownload(_)
            | Self::AwaitDownload(_)
            | Self::CheckGraph(_)
            | Self::Barrier
            | Self::WriteRecord
            | Self::DeleteRecord
            | Self::AwaitGraph
            | Self::AwaitHealth => None,
        }
    }

    /// Whether it writes or deletes this object.
    pub(super) fn is_about(&self, identity: &ObjectIdentity) -> bool {
        self.object().is_some_and(|object| object.identity() == *identity)
    }
}
