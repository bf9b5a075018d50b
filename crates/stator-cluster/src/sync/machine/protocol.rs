//! The inputs of the machine, and the effects that it asks for.

use crate::cluster::{ApplyRequest, ApplyResponse, ClusterError, DeleteOutcome, Preconditions};
use crate::sync::{CancelReason, SyncProgress};
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use stator_core::object::{Object, ObjectRef, ObjectText};
use stator_model::plan::{Journal, Record, SourceIdentity};
use std::collections::BTreeSet;
use std::time::Duration;

/// What a sync is to do besides the plan.
#[derive(Clone, Debug)]
pub struct MachineSettings {
    /// Waits until everything is Healthy, and applies adapters when their graph is.
    pub wait: bool,
    /// Deletes what the plan says is to go.
    pub prune: bool,
    /// Leaves what records say of models' files: the plan is of an earlier commit, whose files are not those of today.
    pub keeps_file_faults: bool,
    /// Ends the wait for a model that shows no progress for this long.
    pub progress_deadline: Duration,
    /// Ends everything.
    pub timeout: Option<Duration>,
    /// Calls to the cluster at a time, at least 1.
    pub concurrency: usize,
    /// Tries of one call while it fails in a way that may pass, at least 1.
    pub attempts: u32,
    /// Wall time at the start, for the records' history.
    pub started: jiff::Timestamp,
    /// Where the jitter of backoffs comes from.
    pub seed: u64,
    /// What somebody approved of the plan.
    pub approval: Option<SyncApproval>,
}

/// What guards held back of a plan, and somebody released: the records of these models say so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncApproval {
    /// What was released, and by whom: `replace by alice`.
    pub text: String,
    /// The models that something was released of.
    pub models: BTreeSet<String>,
}

/// What happened, and when: time since the start, from a clock that never goes back.
#[derive(Clone, Debug)]
pub struct MachineInput {
    /// Since the start.
    pub now: Duration,
    /// What.
    pub event: MachineEvent,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum MachineEvent {
    /// The sync begins.
    Start,
    /// The call that a model had in flight came back.
    CallFinished {
        /// The model.
        model: String,
        /// With what.
        answer: CallResult,
    },
    /// The call about a journal came back.
    JournalFinished {
        /// Which, as the effect counted them.
        part: usize,
        /// With what.
        result: Result<JournalWriteResult, ClusterError>,
    },
    /// A watch shows an object.
    Observed(Object),
    /// A watch shows that an object is gone.
    Gone(ObjectRef),
    /// Everything there is of the watched kinds.
    Listed(Vec<ObjectText>),
    /// Time has passed: [`wake_at`](super::SyncMachine::wake_at) said when to say so.
    Tick,
    /// Stop between two writes.
    Cancel(CancelReason),
}

/// What a call came back with.
#[derive(Clone, Debug)]
pub enum CallResult {
    /// A record was written or deleted.
    Recorded(Result<RecordWriteResult, ClusterError>),
    /// An object was applied.
    Applied(Result<ApplyResponse, ClusterError>),
    /// An object was deleted.
    Deleted(Result<DeleteOutcome, ClusterError>),
    /// An object was read.
    Read(Result<Option<Object>, ClusterError>),
    /// Pods were read, as far as the cluster lets us.
    Pods(Vec<Object>),
    /// A frontend was asked.
    Served(FrontendService, FrontendAnswer),
}

/// What came of writing or deleting a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordWriteResult {
    /// How many writes the cluster carried out.
    pub writes: usize,
    /// The object's generation after them, where one is left.
    pub generation: Option<i64>,
    /// The uid of that object, where the answer says.
    pub uid: Option<String>,
}

/// What came of writing or deleting a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalWriteResult {
    /// How many writes the cluster carried out.
    pub writes: usize,
    /// The uid of the object that is there now.
    pub uid: Option<String>,
}

/// What must be in the place of a record when it is written.
#[derive(Clone, Debug, PartialEq)]
pub enum ExpectedRecord {
    /// Nothing.
    Absent,
    /// The record that was read, or that an earlier write of this sync made.
    Present {
        /// Its uid; `None` where nobody saw it.
        uid: Option<String>,
        /// Its resource version; `None` once it was written since it was read.
        resource_version: Option<String>,
        /// Whom it belonged to when it was read.
        owner: Option<SourceIdentity>,
    },
    /// Something that was looked at and cannot be read: it is written over.
    Unreadable,
}

/// What the driver must do.
#[derive(Clone, Debug)]
pub enum MachineEffect {
    /// Call the cluster, and answer with [`MachineEvent::CallFinished`].
    Call {
        /// For which model. It has no other call in flight.
        model: String,
        /// What.
        call: ClusterCall,
    },
    /// Create a journal, and answer with [`MachineEvent::JournalFinished`].
    WriteJournal {
        /// Which.
        part: usize,
        /// What it says.
        journal: Box<Journal>,
    },
    /// Delete a journal, and answer with [`MachineEvent::JournalFinished`].
    DeleteJournal {
        /// Which.
        part: usize,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Only if it is this one.
        uid: Option<String>,
    },
    /// Open a watch on everything that has health, then list it ([`MachineEvent::Listed`]).
    Watch,
    /// Tell somebody.
    Report(SyncProgress),
}

/// A call to the cluster.
#[derive(Clone, Debug)]
pub enum ClusterCall {
    /// Write a model's record.
    WriteRecord {
        /// What it is to say. Its generation is the one that the cluster has.
        record: Box<Record>,
        /// What it is written over; anything else is left as it is.
        expected: ExpectedRecord,
        /// Whether the object itself is written. It goes first.
        object: bool,
        /// Whether the status is written.
        status: bool,
    },
    /// Delete the record of a model that is gone.
    DeleteRecord(Box<Record>),
    /// Server-side apply.
    Apply(ApplyRequest),
    /// Delete in the background.
    Delete {
        /// Which.
        object: ObjectRef,
        /// Only if.
        preconditions: Preconditions,
    },
    /// Read one object.
    Read(ObjectRef),
    /// Read the pods of graphs and downloads that keep a wait from ending.
    ReadPods(Vec<ObjectRef>),
    /// Ask a frontend what it serves, for an adapter that is loaded.
    AskFrontend(FrontendService),
}
