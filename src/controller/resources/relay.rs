//! Deliveries for sources that another process runs: what they hint at goes into an annotation of the source, at most once
//! a second and source.

use super::book::Relayed;
use super::note::{Batch, Note};
use super::{FIELD_MANAGER, MODEL_SOURCE};
use crate::controller::backoff::Backoff;
use crate::controller::board::{Board, Inbox};
use crate::controller::hints::{Hints, Taken};
use crate::controller::requests;
use crate::controller::schedule::jittered;
use crate::controller::sources::SourceKey;
use ::kube::Api;
use ::kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use jiff::Timestamp;
use serde_json::json;
use stator_cluster::cluster::kube::Kube;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};

/// What comes within this time is one patch.
const GATHERED: Duration = Duration::from_millis(20);
/// At most one patch a source in this time.
const SPACING: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(10);
/// Pauses between tries.
const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);

/// The tasks that hand hints on, one a source.
#[derive(Debug)]
pub(super) struct Relay {
    kube: Kube,
    inboxes: BTreeMap<SourceKey, (Arc<Hints>, AbortHandle)>,
    tasks: JoinSet<()>,
    /// How many are at it.
    busy: Arc<AtomicUsize>,
}

impl Relay {
    pub(super) fn new(kube: Kube) -> Self {
        Self { kube, inboxes: BTreeMap::new(), tasks: JoinSet::new(), busy: Arc::default() }
    }

    /// Makes these the sources whose deliveries are handed on.
    pub(super) fn set(&mut self, relayed: Vec<Relayed>, board: &Board) {
        let mut before = std::mem::take(&mut self.inboxes);
        let mut inboxes = Vec::with_capacity(relayed.len());
        for Relayed { key, forge, secret } in relayed {
            let (hints, task) = before.remove(&key).unwrap_or_else(|| {
                let hints = Arc::new(Hints::default());
                let task = self.tasks.spawn(hand_on(
                    self.kube.clone(),
                    key.clone(),
                    Arc::clone(&hints),
                    Arc::clone(&self.busy),
                ));
                (hints, task)
            });
            inboxes.push(Inbox { key: key.clone(), forge, secret, hints: Arc::clone(&hints) });
            self.inboxes.insert(key, (hints, task));
        }
        board.relay(inboxes);
        before.into_values().for_each(|(_, task)| task.abort());
        while self.tasks.try_join_next().is_some() {}
    }

    /// Waits until all that came is handed on, but not longer than that.
    pub(super) async fn flushed(&self, deadline: Duration) {
        let empty = || self.inboxes.values().all(|(hints, _)| hints.refs.is_empty() && hints.pulls.is_empty());
        let done = async {
            while !empty() || self.busy.load(Ordering::SeqCst) > 0 {
                tokio::time::sleep(GATHERED).await;
            }
        };
        if tokio::time::timeout(deadline, done).await.is_err() {
            tracing::warn!(
                "a webhook's hint was not handed on in time; the next look at its source finds what it was about"
            );
        }
    }
}

/// Counts while it is there.
struct Busy(Arc<AtomicUsize>);

impl Busy {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn hand_on(kube: Kube, key: SourceKey, hints: Arc<Hints>, busy: Arc<AtomicUsize>) {
    loop {
        let (refs, pulls) = tokio::select! {
            refs = hints.refs.next() => (refs, Taken::default()),
            pulls = hints.pulls.next() => (Taken::default(), pulls),
        };
        let at_it = Busy::new(&busy);
        tokio::time::sleep(GATHERED).await;
        let (refs, pulls) = (joined(refs, hints.refs.take()), joined(pulls, hints.pulls.take()));
        let id = uuid::Uuid::new_v4().simple().to_string();
        let Some(batch) = Batch::new(id, Timestamp::now(), refs, pulls) else { continue };
        let mut backoff = Backoff::new(FIRST, LONGEST);
        loop {
            let written = tokio::time::timeout(DEADLINE, write(&kube, &key, &batch)).await;
            match written {
                Ok(Ok(())) => break,
                // Whoever deleted it asks for no look.
                Ok(Err(::kube::Error::Api(status))) if status.code == 404 => break,
                // Somebody wrote to the object meanwhile: its annotation is read again.
                Ok(Err(::kube::Error::Api(status))) if status.code == 409 => {}
                Ok(Err(error)) => tracing::warn!(source = %key, "a webhook's hint is not handed on yet: {error}"),
                Err(_) => tracing::warn!(source = %key, "a webhook's hint is not handed on yet: no answer in time"),
            }
            tokio::time::sleep(backoff.pause()).await;
        }
        tracing::debug!(source = %key, "a webhook's hint was handed on");
        drop(at_it);
        tokio::time::sleep(jittered(SPACING) + SPACING / 10).await;
    }
}

fn joined<T: Ord>(one: Taken<T>, other: Taken<T>) -> Taken<T> {
    let mut items = one.items;
    items.extend(other.items);
    Taken { items, everything: one.everything || other.everything }
}

/// Adds a batch to what the annotation says now.
async fn write(kube: &Kube, key: &SourceKey, batch: &Batch) -> Result<(), ::kube::Error> {
    let kind = ApiResource {
        group: MODEL_SOURCE.group.to_owned(),
        version: MODEL_SOURCE.version.to_owned(),
        api_version: MODEL_SOURCE.api_version(),
        kind: MODEL_SOURCE.kind.to_owned(),
        plural: MODEL_SOURCE.plural.to_owned(),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(kube.client(), &key.namespace, &kind);
    let now = api.get_metadata(&key.name).await?.metadata;
    let text = now.annotations.as_ref().and_then(|all| all.get(requests::HINTS)).map(String::as_str);
    let text = Note::read(text.unwrap_or_default()).with(batch.clone());
    let patch = json!({
        "metadata": {"resourceVersion": now.resource_version, "annotations": {requests::HINTS: text}},
    });
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    api.patch_metadata(&key.name, &params, &Patch::Merge(patch)).await.map(drop)
}
