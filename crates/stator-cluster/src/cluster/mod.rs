//! Where live objects are: the trait, and its two implementations.
//!
//! Both behave as a Kubernetes API server does under server-side apply; `tests/integration/cluster/` says how.

mod any;
mod api_conventions;
pub mod embedded;
mod error;
mod fence;
pub mod kube;
mod watch_queue;

pub use any::AnyCluster;
pub use error::{ClusterError, FieldConflict, InvalidField};
pub use fence::{ClockReading, Fence};
pub use watch_queue::{NoEvent, WatchReceiver, WatchSender, watch_queue};

use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::kinds::ObjectKind;
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use stator_core::fields::OwnershipTransfer;
use stator_core::object::{Object, ObjectRef, ObjectText};
use std::collections::BTreeMap;
use std::future::Future;

/// A cluster. Every call has its own deadline inside; none of them retries.
pub trait Cluster: Send + Sync {
    /// What to call it in one line: `embedded cluster in .stator/cluster`.
    fn describe(&self) -> String;

    /// What the cluster runs and has, as far as it can tell; what it cannot tell is left out. A cluster that simulates
    /// Dynamo is of the release that is `stated` of it first.
    fn platform(&self, stated: &Platform) -> impl Future<Output = Result<Platform, ClusterError>> + Send;

    /// Objects of one kind, in one namespace or in all, that carry all the labels. Sorted by reference.
    fn list(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> impl Future<Output = Result<Vec<Object>, ClusterError>> + Send;

    /// The same as [`Cluster::list`] as texts, for who looks into few of many. Whoever can do without trees of all says so
    /// in place of this.
    fn list_texts(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> impl Future<Output = Result<Vec<ObjectText>, ClusterError>> + Send {
        async move {
            let objects = self.list(kind, namespace, labels).await?;
            Ok(objects.into_iter().map(ObjectText::from).collect())
        }
    }

    /// One object, `None` when there is none of that name.
    fn get(&self, object: &ObjectRef) -> impl Future<Output = Result<Option<Object>, ClusterError>> + Send;

    /// Server-side apply.
    fn apply(&self, request: &ApplyRequest) -> impl Future<Output = Result<ApplyResponse, ClusterError>> + Send;

    /// Deletes in the background. An object with finalizers stays until they are gone.
    fn delete(
        &self,
        object: &ObjectRef,
        preconditions: &Preconditions,
    ) -> impl Future<Output = Result<DeleteOutcome, ClusterError>> + Send;

    /// What the frontend of a graph serves, as far as it is asked here and answers.
    fn served_models(&self, frontend: &FrontendService) -> impl Future<Output = FrontendAnswer> + Send;

    /// Changes of the kinds from now on, until the receiver is dropped. A reader that is behind is told the last state of
    /// each object. Where events are lost the stream ends with [`WatchEvent::Resync`], and the caller lists again.
    fn watch(
        &self,
        kinds: &[ObjectKind],
        namespace: Option<&str>,
    ) -> impl Future<Output = Result<WatchReceiver, ClusterError>> + Send;
}

/// A resource version that no object has. A server compares it with that of an object that is there, and ignores it
/// where there is none: so an apply that has it only ever creates. It fits the 63 bits that etcd counts with.
pub(crate) const NO_OBJECTS_VERSION: &str = "9223372036854775807";

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
    /// Ownership that passes to the manager first, on the condition that nobody writes the object in between. A dry run, which
    /// cannot move it, forces in place of it.
    pub transfer: Option<OwnershipTransfer>,
}

impl ApplyRequest {
    /// An apply of the main resource, without force, for real.
    pub fn new(object: Object, manager: impl Into<String>) -> Self {
        Self { object, manager: manager.into(), force: false, dry_run: false, status: false, transfer: None }
    }
}

/// What an apply did.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplyResponse {
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
pub enum DeleteOutcome {
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
