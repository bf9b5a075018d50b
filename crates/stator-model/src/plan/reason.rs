//! Why a plan does with an object what it does, as data. What a person reads of it is in [`wording`].

mod kept;
mod wording;

pub use kept::{KeptBy, LeftBehindCause, OwnershipDoubt};
pub(super) use wording::describe_unread;

use super::names::{AddressMove, NewGraphObstacle};
use super::{HoldKind, RequestGpuBudget, UnlistedKind, UntriedCause};
use serde::{Serialize, Serializer};
use stator_core::deployment_tools::DeploymentTool;
use stator_core::dynamo::disruption::DisruptionNote;
use stator_core::object::{FieldPath, Object, ObjectRef};

/// Why a change is what it is: one line below it. In JSON it is its sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeReason {
    /// git has it, and the cluster does not.
    NotInCluster,
    /// The revision that is compared with does not have it.
    NewInRevision,
    /// git wants something else than what was applied last.
    ChangedInGit,
    /// What was applied last is what git wants still, and the cluster has something else.
    Drifted,
    /// It is as git wants it, and no record names it.
    RecordMissing,
    /// A record or a journal names it, and the record does not have its uid.
    RecordIncomplete,
    /// Its label still names the model that had it before.
    MovedFrom {
        /// That model.
        model: String,
    },
    /// Nothing but the ApplySet's label is missing.
    LabelMissing,
    /// Nothing differs but the labels that say whose it is.
    OwnerLabels,
    /// It was somebody else's, and `--allow move` was given.
    Moved {
        /// Whose.
        from: ForeignOwner,
    },
    /// stator's field manager is not among those of the live object any more.
    OwnershipLost,
    /// Replica counts are left to whoever scales them from now on.
    ReplicasReleased {
        /// The components that have them.
        components: Vec<String>,
    },
    /// The scaling adapters of components go in a write of its own, and their counts change in the next.
    TwoWrites {
        /// The components.
        components: Vec<String>,
    },
    /// Fields that others own are taken, as `spec.takeOver` says.
    FieldsTaken {
        /// The field managers that lose them.
        managers: Vec<String>,
    },
    /// It is managed by nobody, and `--allow adopt` was given.
    Adopted,
    /// It is managed by nobody, and `--allow adopt` was not given.
    Unmanaged,
    /// It is marked by another tool, and `--allow adopt` was given.
    AdoptedFrom {
        /// The tool.
        tool: DeploymentTool,
    },
    /// It is marked by another tool, and `--allow adopt` was not given.
    ManagedByTool {
        /// The tool.
        tool: DeploymentTool,
        /// The label or annotation by which it is known.
        mark: String,
    },
    /// Other field managers own what the intent declares, and lose it to stator; no value changes by that.
    OwnershipMoves {
        /// The field managers.
        managers: Vec<String>,
    },
    /// What the change does to running pods.
    Disrupts(DisruptionNote),
    /// The workers would change while a rolling update of theirs goes on.
    MidRollout {
        /// The graph.
        object: ObjectRef,
    },
    /// A guard holds the write back.
    Held(HoldKind),
    /// An adapter is loaded into running workers only.
    WaitsForWorkload {
        /// The graph or the request that is to be Ready first.
        workload: ObjectRef,
    },
    /// The Job downloads weights.
    DownloadsWeights {
        /// Which, as `weights.source` names them.
        source: String,
    },
    /// It serves weights that are downloaded first.
    WaitsForDownload {
        /// The Job that downloads them.
        job: ObjectRef,
        /// It serves other weights until then.
        serves_old: bool,
    },
    /// The Job has downloaded what the graph no longer serves.
    DownloadSuperseded {
        /// The graph: once that is Healthy the Job goes.
        graph: ObjectRef,
    },
    /// What a request does with GPUs.
    GpuSearch(RequestGpuBudget),
    /// The request has failed.
    RequestFailed {
        /// What its health says.
        message: String,
    },
    /// The model's files have errors.
    ModelFaulty,
    /// The model's files had errors in the revision that is compared with.
    ModelWasFaulty,
    /// The model's files have errors, and the revision that is compared with has the object.
    FateUnknown,
    /// Another tool holds the model's record.
    RecordForeign {
        /// Which, and what to do.
        message: String,
    },
    /// The cluster has it, and it cannot be read.
    Unreadable {
        /// What is wrong with it.
        message: String,
    },
    /// Objects of its kind cannot be listed, so that nobody knows whether it is there.
    KindUnlisted(UnlistedKind),
    /// The model has something that goes first, and that cannot be applied.
    Needs {
        /// What goes first.
        object: ObjectRef,
    },
    /// It belongs to somebody else.
    Foreign(ForeignOwner),
    /// The cluster gives it in a version without a bundled schema.
    UnknownVersion {
        /// That version.
        api_version: String,
    },
    /// What the object says of its field owners cannot be read.
    FieldOwnersDamaged {
        /// What is wrong with it.
        message: String,
    },
    /// An apply would be refused.
    ApplyRefused {
        /// As the API server words it.
        message: String,
    },
    /// An apply would leave an object without a name.
    NameLost,
    /// Somebody else owns fields that would change.
    FieldConflict {
        /// That field manager.
        manager: String,
        /// The fields.
        paths: Vec<FieldPath>,
        /// `spec.takeOver` names the manager, and not all that own the fields.
        is_named: bool,
    },
    /// stator put it back more than once, and each time somebody set the same fields again.
    RepairUndone {
        /// The fields.
        paths: Vec<String>,
        /// Who sets them, as `managedFields` names it; `None` where nobody is named there.
        writer: Option<String>,
    },
    /// It was deleted again soon after stator made it again.
    DeletedAgain,
    /// Dynamo forbids the change in place.
    Immutable {
        /// What it forbids.
        message: String,
        /// What to do about it.
        advice: ImmutableAdvice,
    },
    /// A new graph comes up first, under another name.
    NewGraphFirst {
        /// That graph; `None` where no cluster says which of its names is free.
        graph: Option<ObjectRef>,
        /// Where clients have to go.
        moves: AddressMove,
    },
    /// A guard holds back what moves a model's address.
    AddressHeld,
    /// A new graph should come up first, and cannot.
    NoNewGraph(NewGraphObstacle),
    /// It is made again while another graph of the model keeps serving.
    ServedMeanwhile {
        /// That graph.
        graph: ObjectRef,
        /// Where clients have to go afterwards.
        moves: AddressMove,
    },
    /// It holds another content of a file that is there.
    FileContent {
        /// The file's name in `spec.files`.
        file: String,
        /// Where it lies, from the folder of the `model.yaml`; `None` for text.
        source: Option<String>,
    },
    /// Another ConfigMap holds what its file has become.
    FileSuperseded {
        /// That ConfigMap.
        by: ObjectRef,
    },
    /// Components mount files whose content is another one.
    FilesChanged {
        /// The files, sorted by name.
        files: Vec<MountedChange>,
    },
    /// Another graph takes its place, and both are there.
    ReplacedBy {
        /// That graph.
        graph: ObjectRef,
        /// Where clients have to go.
        moves: AddressMove,
    },
    /// The cluster refuses to create what is to take its place.
    ReplacementRefused {
        /// In the cluster's words.
        message: String,
    },
    /// It is being deleted.
    Deleting {
        /// Since when, RFC 3339 in UTC; empty where the object does not say.
        since: String,
        /// What its end waits for.
        finalizers: Vec<String>,
        /// What comes after that.
        then: DeletionSequel,
    },
    /// Another request follows, and it goes once that has succeeded.
    FollowedBy {
        /// That request's name.
        request: String,
    },
    /// Nobody knows what the cluster makes of the write.
    NotTried(UntriedCause),
    /// git has its model under another name.
    RenamedTo {
        /// That name.
        model: String,
        /// Whether it stays until that model serves.
        waits: bool,
        /// Where clients have to go.
        moves: AddressMove,
    },
    /// It takes the place of a model of another name.
    RenamedFrom {
        /// That name.
        model: String,
    },
    /// It goes once a graph of another model, which names it no longer, is Healthy.
    UsedUntil {
        /// That graph.
        by: ObjectRef,
    },
    /// Another model renders the same claim, or the same download.
    SharedObject {
        /// The model that applies it.
        owner: String,
    },
    /// Other models render the same object.
    Disputed {
        /// Those, with their sources.
        others: Vec<String>,
    },
    /// git no longer has it.
    NoLongerInGit,
    /// The model no longer has it.
    NoLongerInModel,
    /// git no longer has its model.
    ModelGone {
        /// That model.
        model: String,
    },
    /// The graph that a deleted request made stays: Dynamo gives it no owner.
    GraphStays {
        /// The graph.
        graph: ObjectRef,
    },
    /// Nothing in git is about it any more.
    LeftBehind {
        /// Why.
        cause: LeftBehindCause,
        /// The command that deletes it.
        delete: String,
    },
    /// git no longer has it, and something keeps it.
    Kept(KeptBy),
}

/// A file whose content is another one, and who mounts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedChange {
    /// Its name in `spec.files`.
    pub file: String,
    /// Where it lies, from the folder of the `model.yaml`; `None` for text.
    pub source: Option<String>,
    /// The components that mount it, sorted.
    pub components: Vec<String>,
}

/// Whose an object is, when it is not stator's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForeignOwner {
    /// Another deployment tool marks it.
    Tool {
        /// The tool.
        tool: DeploymentTool,
        /// The label or annotation by which it is known.
        mark: String,
    },
    /// A request made it.
    Request {
        /// The request's name.
        request: String,
    },
    /// Its first owner reference names another object.
    Owner {
        /// That object's kind.
        kind: String,
        /// That object's name.
        name: String,
    },
    /// Another source, or another environment of this one.
    Source {
        /// For a person, as its record says.
        owner: String,
        /// The environment.
        environment: String,
    },
    /// Another repository or environment, as names say.
    Repository {
        /// The repository.
        repository: String,
        /// The environment; empty where no label says.
        environment: String,
    },
    /// Somebody that its label names, and that no name or record tells.
    OwnerLabel {
        /// The label's value.
        id: String,
    },
    /// Another ApplySet.
    ApplySet,
}

/// What to do about a change that Dynamo forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImmutableAdvice {
    /// The message says it.
    InMessage,
    /// Something is going on that ends by itself.
    Wait,
    /// Only an object of stator's own is made again.
    NotOurs,
    /// The object is never deleted by stator.
    NeverDeleted,
}

/// What comes after an object that is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionSequel {
    /// Nothing: git no longer has it.
    Nothing,
    /// It is not stator's, so that it is only waited for.
    Wait,
    /// It is made again.
    Recreate,
}

impl ChangeReason {
    /// That a live object is being deleted.
    pub(super) fn deleting(live: &Object, then: DeletionSequel) -> Self {
        let since = live.str_at("/metadata/deletionTimestamp").unwrap_or_default().to_owned();
        Self::Deleting { since, finalizers: live.finalizers().iter().map(ToString::to_string).collect(), then }
    }
}

impl Serialize for ChangeReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The sentences of several reasons in one line.
pub fn join_reasons(reasons: &[ChangeReason]) -> String {
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
