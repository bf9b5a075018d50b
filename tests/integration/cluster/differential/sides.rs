//! The two clusters that a sequence is run on.

use super::compare::{self, Answer, Seen, Shown};
use super::steps::{Meant, Sequence, Step, Subject, Which};
use crate::testbed::eventually;
use serde_json::{Value, json};
use stator_cluster::cluster::embedded::{EmbeddedCluster, EmbeddedOptions, ObjectPart};
use stator_cluster::cluster::{ApplyOutcome, ApplyRequest, Cluster, Preconditions};
use stator_core::dynamo::kinds::{CLAIM, ObjectKind};
use stator_core::object::{Object, ObjectRef};
use std::future::Future;

/// A cluster that objects can also be edited on.
pub trait Side {
    type Cluster: Cluster;

    /// Whether something keeps claims alive with a finalizer of its own, and puts that back when a write takes it away.
    const PROTECTS_CLAIMS: bool;

    fn cluster(&self) -> &Self::Cluster;

    /// A JSON merge patch, as `kubectl patch --type merge` sends it.
    fn merge(
        &self,
        object: &ObjectRef,
        manager: &'static str,
        patch: &Value,
        status: bool,
    ) -> impl Future<Output = Answer>;
}

pub struct Folder {
    cluster: EmbeddedCluster,
    _dir: tempfile::TempDir,
}

impl Folder {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cluster = EmbeddedCluster::open(dir.path(), EmbeddedOptions::default()).unwrap();
        Self { cluster: crate::cluster::scenario::oldest(cluster), _dir: dir }
    }
}

impl Side for Folder {
    type Cluster = EmbeddedCluster;

    const PROTECTS_CLAIMS: bool = false;

    fn cluster(&self) -> &EmbeddedCluster {
        &self.cluster
    }

    async fn merge(&self, object: &ObjectRef, manager: &'static str, patch: &Value, status: bool) -> Answer {
        let part = if status { ObjectPart::Status } else { ObjectPart::Main };
        let patch = patch.clone();
        match self.cluster.update(object, part, manager, move |value| merge_patch(value, &patch)).await {
            Ok(Some(done)) => Answer::Merged(Box::new(Shown::of(&done.object))),
            Ok(None) => Answer::Absent,
            Err(error) => compare::refused(&error),
        }
    }
}

/// RFC 7386.
fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge_patch(&mut target[name.as_str()], value);
        }
    }
}

/// Runs a sequence on one object of that name, and says what each step came to.
pub async fn run(side: &impl Side, sequence: &Sequence, namespace: &str, name: &str) -> Vec<Seen> {
    let kind = sequence.subject.kind();
    let reference = kind.reference(namespace, name);
    let mut seen = Vec::new();
    let mut before = None;
    // Whether the metadata may be stored with something empty that no reader sees.
    let mut hidden = false;
    for step in &sequence.steps {
        let answer = take(side, kind, &reference, before.as_ref(), step).await;
        let after = settled(side, &reference).await;
        let gone = answer == Answer::Pending && after.is_none();
        let answer = if gone { Answer::Gone } else { answer };
        let version = |object: &Option<Object>| object.as_ref().and_then(Object::resource_version).map(str::to_owned);
        let live = after.as_ref().map(Shown::of);
        let shown_before = before.as_ref().map(Shown::of);
        // An API server compares bytes, so that it may write where nothing that can be read differs, and say so by a
        // resource version and nothing else. Files hold only what can be read: there, these are no writes.
        // - A claim that was applied is encoded anew by the next write, once.
        // - An empty map or list that was applied to the metadata is stored and never read back: the next write without
        //   it moves the version once, and each apply with it does so every time.
        hidden |= step.empties_metadata();
        let encoded = sequence.subject == Subject::Claim && unversioned(&before) == unversioned(&after);
        let unseen = hidden || encoded || matches!(step, Step::Merge { .. });
        let answer = match answer {
            Answer::Applied(ApplyOutcome::Updated, shown)
                if (hidden || encoded) && Some(&*shown) == shown_before.as_ref() =>
            {
                Answer::Applied(ApplyOutcome::Unchanged, shown)
            }
            Answer::Applied(..)
            | Answer::Merged(_)
            | Answer::Gone
            | Answer::Pending
            | Answer::Absent
            | Answer::Conflict(_)
            | Answer::Precondition
            | Answer::Invalid(_)
            | Answer::Denied
            | Answer::Other(_) => answer,
        };
        let wrote = version(&before) != version(&after) && !(unseen && live == shown_before);
        seen.push(Seen { answer, live, wrote });
        before = after;
    }
    seen
}

/// The object without its resource version; its times are still there.
fn unversioned(object: &Option<Object>) -> Option<Value> {
    let mut value = object.as_ref()?.value().clone();
    value["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    Some(value)
}

/// The object, once the API server's own protection of claims has let go of one that is being deleted, and is back on
/// one that is not.
async fn settled<S: Side>(side: &S, reference: &ObjectRef) -> Option<Object> {
    eventually(&format!("{reference} comes to rest"), async || {
        let live = side.cluster().get(reference).await.unwrap();
        let is_protected = live.as_ref().is_some_and(|live| live.finalizers().contains(&compare::PROTECTION));
        let is_kept = live.as_ref().is_some_and(|live| !live.is_deleting());
        (is_protected == (S::PROTECTS_CLAIMS && reference.kind == CLAIM.kind && is_kept)).then_some(live)
    })
    .await
}

async fn take(
    side: &impl Side,
    kind: &ObjectKind,
    reference: &ObjectRef,
    live: Option<&Object>,
    step: &Step,
) -> Answer {
    match step {
        Step::Apply { manager, config, force, dry_run, status, meant } => {
            let mut value = config.clone();
            value["apiVersion"] = json!(kind.api_version());
            value["kind"] = json!(kind.kind);
            value["metadata"]["name"] = json!(reference.name);
            value["metadata"]["namespace"] = json!(reference.namespace);
            let (uid, version) = preconditions(live, *meant);
            if let Some(uid) = uid {
                value["metadata"]["uid"] = json!(uid);
            }
            if let Some(version) = version {
                value["metadata"]["resourceVersion"] = json!(version);
            }
            let request = ApplyRequest {
                object: Object::from_value(value).unwrap(),
                manager: (*manager).to_owned(),
                force: *force,
                dry_run: *dry_run,
                status: *status,
                transfer: None,
            };
            compare::applied(side.cluster().apply(&request).await, manager, *status)
        }
        Step::Merge { manager, patch, status } => side.merge(reference, manager, patch, *status).await,
        Step::Delete { meant } => {
            let (uid, resource_version) = preconditions(live, *meant);
            let answer = side.cluster().delete(reference, &Preconditions { uid, resource_version }).await;
            compare::deleted(answer)
        }
    }
}

fn preconditions(live: Option<&Object>, meant: Meant) -> (Option<String>, Option<String>) {
    let of = |which: Which, live: Option<&str>, other: &str| match which {
        Which::Any => None,
        Which::Live => Some(live.unwrap_or(other).to_owned()),
        Which::Other => Some(other.to_owned()),
    };
    (
        of(meant.uid, live.and_then(Object::uid), "11111111-1111-4111-8111-111111111111"),
        of(meant.version, live.and_then(Object::resource_version), "4000000000"),
    )
}
