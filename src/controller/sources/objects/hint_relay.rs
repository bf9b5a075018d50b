//! Deliveries for sources that another process runs: what they hint at goes into an annotation of the source, at most once
//! a second and source.

use super::hint_annotation::{HintAnnotation, HintBatch};
use super::source_index::RelayedSource;
use super::{CONTROLLER_FIELD_MANAGER, model_source_api};
use crate::controller::sources::hints::{DrainedHints, SourceHints};
use crate::controller::sources::manual_requests;
use crate::controller::sources::registry::{SourceRegistry, WebhookInbox};
use crate::controller::sources::resolved_source::SourceKey;
use crate::controller::waiting::jittered;
use ::kube::api::{Patch, PatchParams};
use jiff::Timestamp;
use serde_json::json;
use stator_cluster::cluster::kube::KubeCluster;
use stator_cluster::random::random_bits;
use stator_core::retry::Backoff;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};

/// What comes within this time is one patch.
const BATCH_DELAY: Duration = Duration::from_millis(20);
/// At most one patch a source in this time.
const MIN_PATCH_INTERVAL: Duration = Duration::from_secs(1);
const PATCH_TIMEOUT: Duration = Duration::from_secs(10);
/// Pauses between tries.
const INITIAL_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// The tasks that hand hints on, one a source.
#[derive(Debug)]
pub(super) struct HintRelay {
    kube: KubeCluster,
    inboxes: BTreeMap<SourceKey, (Arc<SourceHints>, AbortHandle)>,
    tasks: JoinSet<()>,
    /// How many are at it.
    tasks_in_progress: Arc<AtomicUsize>,
}

impl HintRelay {
    pub(super) fn new(kube: KubeCluster) -> Self {
        Self { kube, inboxes: BTreeMap::new(), tasks: JoinSet::new(), tasks_in_progress: Arc::default() }
    }

    /// Makes these the sources whose deliveries are handed on.
    pub(super) fn set_sources(&mut self, relayed: Vec<RelayedSource>, board: &SourceRegistry) {
        let mut before = std::mem::take(&mut self.inboxes);
        let mut inboxes = Vec::with_capacity(relayed.len());
        for RelayedSource { key, forge, secret } in relayed {
            let (hints, task) = before.remove(&key).unwrap_or_else(|| {
                let hints = Arc::new(SourceHints::default());
                let task = self.tasks.spawn(relay_hints(
                    self.kube.clone(),
                    key.clone(),
                    Arc::clone(&hints),
                    Arc::clone(&self.tasks_in_progress),
                ));
                (hints, task)
            });
            inboxes.push(WebhookInbox { key: key.clone(), forge, secret, hints: Arc::clone(&hints) });
            self.inboxes.insert(key, (hints, task));
        }
        board.set_relayed(inboxes);
        before.into_values().for_each(|(_, task)| task.abort());
        while self.tasks.try_join_next().is_some() {}
    }

    /// Waits until all that came is handed on, but not longer than that.
    pub(super) async fn flush(&self, deadline: Duration) {
        let empty = || self.inboxes.values().all(|(hints, _)| hints.refs.is_empty() && hints.pulls.is_empty());
        let done = async {
            while !empty() || self.tasks_in_progress.load(Ordering::SeqCst) > 0 {
                tokio::time::sleep(BATCH_DELAY).await;
            }
        };
        if tokio::time::timeout(deadline, done).await.is_err() {
            tracing::warn!("a webhook hint was not forwarded in time; the next poll of its source finds the change");
        }
    }
}

/// Counts while it is there.
struct RelayBusyGuard(Arc<AtomicUsize>);

impl RelayBusyGuard {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for RelayBusyGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn relay_hints(kube: KubeCluster, key: SourceKey, hints: Arc<SourceHints>, busy: Arc<AtomicUsize>) {
    loop {
        let (refs, pulls) = tokio::select! {
            refs = hints.refs.next() => (refs, DrainedHints::default()),
            pulls = hints.pulls.next() => (DrainedHints::default(), pulls),
        };
        let at_it = RelayBusyGuard::new(&busy);
        tokio::time::sleep(BATCH_DELAY).await;
        let (refs, pulls) = (merge_hints(refs, hints.refs.take()), merge_hints(pulls, hints.pulls.take()));
        let id = uuid::Uuid::new_v4().simple().to_string();
        let Some(batch) = HintBatch::new(id, Timestamp::now(), refs, pulls) else { continue };
        let mut backoff = Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF, random_bits());
        loop {
            let written = tokio::time::timeout(PATCH_TIMEOUT, patch_annotation(&kube, &key, &batch)).await;
            match written {
                Ok(Ok(())) => break,
                // Whoever deleted it asks for no look.
                Ok(Err(::kube::Error::Api(status))) if status.code == 404 => break,
                // Somebody wrote to the object meanwhile: its annotation is read again.
                Ok(Err(::kube::Error::Api(status))) if status.code == 409 => {}
                Ok(Err(error)) => tracing::warn!(source = %key, "a webhook hint is not forwarded yet: {error}"),
                Err(_) => tracing::warn!(source = %key, "a webhook hint is not forwarded yet: no answer in time"),
            }
            tokio::time::sleep(backoff.next_delay()).await;
        }
        tracing::debug!(source = %key, "a webhook hint was forwarded");
        drop(at_it);
        tokio::time::sleep(jittered(MIN_PATCH_INTERVAL) + MIN_PATCH_INTERVAL / 10).await;
    }
}

fn merge_hints<T: Ord>(one: DrainedHints<T>, other: DrainedHints<T>) -> DrainedHints<T> {
    let mut items = one.items;
    items.extend(other.items);
    DrainedHints { items, everything: one.everything || other.everything }
}

/// Adds a batch to what the annotation says now.
async fn patch_annotation(kube: &KubeCluster, key: &SourceKey, batch: &HintBatch) -> Result<(), ::kube::Error> {
    let api = model_source_api(kube.client(), &key.namespace);
    let now = api.get_metadata(&key.name).await?.metadata;
    let text = now.annotations.as_ref().and_then(|all| all.get(manual_requests::HINTS_ANNOTATION)).map(String::as_str);
    let text = HintAnnotation::parse(text.unwrap_or_default()).append_batch(batch.clone());
    let patch = json!({
        "metadata": {"resourceVersion": now.resource_version, "annotations": {manual_requests::HINTS_ANNOTATION: text}},
    });
    let params = PatchParams { field_manager: Some(CONTROLLER_FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    api.patch_metadata(&key.name, &params, &Patch::Merge(patch)).await.map(drop)
}
