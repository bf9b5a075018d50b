//! Where live objects are: the trait, and its makes.
//!
//! A make behaves as a Kubernetes API server does under server-side apply; `tests/integration/cluster/` says how.

pub mod embedded;

use crate::dynamo::kinds::Kind;
use crate::object::{FieldPath, Object, ObjectRef};
use std::collections::BTreeMap;
use std::future::Future;

/// A cluster. Every call has its own deadline inside; none of them retries.
pub trait Cluster: Send + Sync {
    /// What to call it in one line: `embedded cluster in .stator/cluster`.
    fn describe(&self) -> String;

    /// Objects of one kind, in one namespace or in all, that carry all the labels. Sorted by reference.
    fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> impl Future<Output = Result<Vec<Object>, ClusterError>> + Send;

    /// One object, `None` when there is none of that name.
    fn get(&self, object: &ObjectRef) -> impl Future<Output = Result<Option<Object>, ClusterError>> + Send;

    /// Server-side apply.
    fn apply(&self, request: &ApplyRequest) -> impl Future<Output = Result<Applied, ClusterError>> + Send;

    /// Deletes in the background. An object with finalizers stays until they are gone.
    fn delete(
        &self,
        object: &ObjectRef,
        preconditions: &Preconditions,
    ) -> impl Future<Output = Result<Deleted, ClusterError>> + Send;

    /// Changes of the kinds from now on, until the receiver is dropped. The queue is bounded; on overflow the stream
    /// ends with [`WatchEvent::Resync`] first, and the caller lists again.
    fn watch(
        &self,
        kinds: &[Kind],
        namespace: Option<&str>,
    ) -> impl Future<Output = Result<tokio::sync::mpsc::Receiver<WatchEvent>, ClusterError>> + Send;
}

/// One server-side apply.
#[derive(Clone, Debug)]
pub struct ApplyRequest {
    /// What the manager wants, and nothing else. `metadata.uid` or `metadata.resourceVersion` in it are preconditions.
    pub object: Object,
    /// The field manager.
    pub manager: String,
    /// Takes disputed fields from every other manager.
    pub force: bool,
    /// Runs everything but the write.
    pub dry_run: bool,
    /// Writes the status subresource in place of the rest.
    pub status: bool,
}

impl ApplyRequest {
    /// An apply of the main resource, without force, for real.
    pub fn new(object: Object, manager: impl Into<String>) -> Self {
        Self { object, manager: manager.into(), force: false, dry_run: false, status: false }
    }
}

/// What an apply did.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The object as the cluster now holds it.
    pub object: Object,
    /// Whether anything was written.
    pub outcome: ApplyOutcome,
}

/// Whether anything was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// The object is new.
    Created,
    /// It changed.
    Updated,
    /// Nothing was written: the resource version is the old one.
    Unchanged,
}

/// What must still be true when a delete arrives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The object is still that one.
    pub uid: Option<String>,
    /// Nobody wrote it since.
    pub resource_version: Option<String>,
}

/// What a delete did.
#[derive(Clone, Debug, PartialEq)]
pub enum Deleted {
    /// It is gone.
    Gone,
    /// It waits for its finalizers.
    Pending(Object),
    /// There was none.
    Absent,
}

/// One change, as a watch tells it.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent {
    /// Created or changed.
    Applied(Object),
    /// Gone; the last state known.
    Deleted(Object),
    /// Events were lost: list again.
    Resync,
}

/// Why a cluster said no. What to do about it hangs from the variant.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClusterError {
    /// Another manager owns fields that the apply would change (409).
    #[error("{object}: {}", conflict_text(.conflicts))]
    Conflict {
        /// Which object.
        object: ObjectRef,
        /// Manager and path of each field in dispute.
        conflicts: Vec<FieldConflict>,
    },
    /// The object is not the one that was meant, or was written since (409).
    #[error("{object}: {message}")]
    Precondition {
        /// Which object.
        object: ObjectRef,
        /// Which precondition failed, and how.
        message: String,
    },
    /// The schema or a validation rule refuses the object (422, or 400/500 for fields that are not declared).
    #[error("{object} is invalid: {}", .causes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid {
        /// Which object.
        object: ObjectRef,
        /// Each fault.
        causes: Vec<InvalidField>,
    },
    /// Admission or authorization refuses it (403).
    #[error("{object}: {message}")]
    Denied {
        /// Which object.
        object: ObjectRef,
        /// The reason given.
        message: String,
    },
    /// The kind is not served there (404 for the resource).
    #[error("the cluster does not serve {kind}")]
    UnknownKind {
        /// The kind.
        kind: String,
    },
    /// What the cluster holds cannot be read: a damaged file of the embedded cluster.
    #[error("{path}: {message}")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// The store cannot be read or written: permissions, a full disk.
    #[error("{message}")]
    Storage {
        /// What failed, with the path.
        message: String,
    },
    /// It may work in a moment: timeouts, 429, 5xx, a webhook that does not answer.
    #[error("{message}")]
    Transient {
        /// What happened.
        message: String,
    },
}

/// One field that an apply would change and another manager owns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldConflict {
    /// The manager that owns it.
    pub manager: String,
    /// The field.
    pub path: FieldPath,
}

/// One field that the schema refuses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InvalidField {
    /// The field.
    pub path: FieldPath,
    /// What is wrong, in the API server's words where it has some.
    pub message: String,
}

impl std::fmt::Display for InvalidField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

fn conflict_text(conflicts: &[FieldConflict]) -> String {
    let list: Vec<String> = conflicts.iter().map(|c| format!("{} is owned by {}", c.path, c.manager)).collect();
    list.join("; ")
}
