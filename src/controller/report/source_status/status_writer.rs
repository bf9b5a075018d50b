//! Writes how sources stand into the `status` of their objects: what differs from what is there, and nothing else.
//!
//! A task a source, so that one object that the API server will not take is nobody else's matter. What changes while a
//! write is under way, or within a second after it, is one write. A source at rest is never written, and neither is one
//! that a new process finds as an old one left it.

use super::{SourceStatusInput, build_rejected_status, build_status};
use crate::controller::sources::objects::{
    CONTROLLER_FIELD_MANAGER, MODEL_SOURCE, ModelSourceObject, ModelSourceStore, model_source_api,
};
use crate::controller::sources::registry::SourceRegistry;
use crate::controller::sources::resolved_source::SourceKey;
use crate::controller::waiting::sleep_until_some;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Client, Error};
use serde_json::{Value, json};
use stator_cluster::cluster::Fence;
use stator_cluster::random::random_bits;
use stator_core::retry::Backoff;
use stator_git::source::model_source::status::ModelSourceStatus;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How far apart two writes of one source are at least.
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// How long a watch may take to show what was written.
const WATCH_LAG: Duration = Duration::from_secs(60);
/// How long one write may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);
/// Pauses between tries.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(120);

/// Keeps the statuses of all sources up, for as long as the process lives.
pub async fn run_status_writer(
    client: Client,
    board: Arc<SourceRegistry>,
    resources: Arc<ModelSourceStore>,
    ending: CancellationToken,
) {
    let mut tasks = JoinSet::new();
    let mut running: BTreeMap<SourceKey, AbortHandle> = BTreeMap::new();
    let (mut boards, mut objects) = (board.changes(), resources.changes());
    loop {
        boards.mark_unchanged();
        objects.mark_unchanged();
        let held = board.rejected();
        let here = |key: &SourceKey| board.entry(key).is_some() || held.contains_key(key);
        let wanted: Vec<SourceKey> =
            resources.all().iter().map(|one| one.key.clone()).filter(|key| here(key)).collect();
        running.retain(|key, task| {
            let stays = wanted.contains(key) && !task.is_finished();
            if !stays {
                task.abort();
            }
            stays
        });
        for key in wanted {
            running.entry(key.clone()).or_insert_with(|| {
                let one = SourceStatusWriter {
                    client: client.clone(),
                    board: Arc::clone(&board),
                    resources: Arc::clone(&resources),
                    key,
                    last_written: None,
                };
                tasks.spawn(one.run())
            });
        }
        tokio::select! {
            () = ending.cancelled() => return,
            Ok(()) = boards.changed() => {}
            Ok(()) = objects.changed() => {}
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                if let Err(error) = ended && error.is_panic() {
                    tracing::error!("a status could not be built and is retried: {error}");
                    tokio::time::sleep(INITIAL_BACKOFF).await;
                }
            }
        }
    }
}

/// One source's status.
struct SourceStatusWriter {
    client: Client,
    board: Arc<SourceRegistry>,
    resources: Arc<ModelSourceStore>,
    key: SourceKey,
    /// What the API server answered last, until the watch shows it.
    last_written: Option<WrittenStatus>,
}

/// A status that was written and that the watch does not show yet.
#[derive(Clone, Debug)]
struct WrittenStatus {
    /// The object's resource version, as a number.
    version: u64,
    status: ModelSourceStatus,
    /// Until then it is believed rather than what the watch shows. A watch lags behind by seconds; one that shows an older
    /// version for longer is of a store that was restored.
    believed_until: Instant,
}

/// What a status is to be, and for which object.
struct SourceStatusPatch {
    resource: Arc<ModelSourceObject>,
    fence: Option<Fence>,
    status: ModelSourceStatus,
}

/// Why a write came to nothing.
enum StatusWriteError {
    /// This replica may not hold the source any more: whoever does writes its status.
    Fenced,
    /// The object is another one, or gone: what comes of it is seen.
    Gone,
    /// Another try may go well.
    Retry(String),
}

impl SourceStatusWriter {
    async fn run(mut self) {
        let mut backoff = Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF, random_bits());
        let (mut boards, mut objects) = (self.board.changes(), self.resources.changes());
        let mut gone: Option<Arc<ModelSourceObject>> = None;
        loop {
            boards.mark_unchanged();
            objects.mark_unchanged();
            let mut state = self.board.entry(&self.key).map(|entry| entry.state);
            if let Some(state) = &mut state {
                state.mark_unchanged();
            }
            let wanted = self
                .desired_patch()
                .filter(|wanted| gone.as_ref().is_none_or(|gone| !Arc::ptr_eq(gone, &wanted.resource)));
            if let Some(wanted) = wanted {
                match self.apply_patch(&wanted).await {
                    Ok(()) => backoff.reset(),
                    Err(StatusWriteError::Gone) => gone = Some(wanted.resource),
                    Err(StatusWriteError::Fenced) => {
                        let _ = boards.changed().await;
                    }
                    Err(StatusWriteError::Retry(problem)) => {
                        tracing::warn!(source = %self.key, "its status cannot be written: {problem}");
                        tokio::time::sleep(backoff.next_delay()).await;
                        continue;
                    }
                }
                tokio::time::sleep(MIN_WRITE_INTERVAL).await;
                continue;
            }
            let known = self.resources.get(&self.key);
            let believed_until = self.last_written.as_ref().map(|written| written.believed_until);
            loop {
                tokio::select! {
                    () = sleep_until_some(believed_until) => break,
                    () = wait_for_change(state.as_mut()) => break,
                    Ok(()) = boards.changed() => break,
                    Ok(()) = objects.changed() => {
                        // Most changes are of others.
                        let now = self.resources.get(&self.key);
                        let same = match (&known, &now) {
                            (Some(known), Some(now)) => Arc::ptr_eq(known, now),
                            (None, None) => true,
                            (Some(_), None) | (None, Some(_)) => false,
                        };
                        if !same {
                            break;
                        }
                    }
                    else => return,
                }
            }
        }
    }

    /// What the status should be, where it is not.
    fn desired_patch(&mut self) -> Option<SourceStatusPatch> {
        let resource = self.resources.get(&self.key)?;
        let stored = ModelSourceStatus::read(resource.object.value());
        let version = parse_resource_version(resource.object.resource_version());
        // What the watch shows may be older than what the API server answered.
        self.last_written = self.last_written.take().filter(|written| written.is_ahead_of(version, Instant::now()));
        let previous = self.last_written.as_ref().map_or(stored, |written| written.status.clone());
        let remarks = self.board.remarks(&self.key);
        let about = SourceStatusInput {
            key: &self.key,
            generation: resource.generation,
            previous: &previous,
            remarks: &remarks,
            now: Timestamp::now(),
        };
        let entry = self.board.entry(&self.key);
        let status = match (self.board.rejected().get(&self.key), &entry) {
            (Some(held), _) => build_rejected_status(held, &about),
            (None, Some(entry)) => build_status(&entry.state.borrow(), &about),
            (None, None) => return None,
        };
        let fence = entry.and_then(|entry| entry.fence);
        (status != previous).then_some(SourceStatusPatch { resource, fence, status })
    }

    async fn apply_patch(&mut self, wanted: &SourceStatusPatch) -> Result<(), StatusWriteError> {
        // A replica that lost its shard leaves the status to the one that has it.
        if wanted.fence.as_ref().is_some_and(|fence| !fence.is_valid()) {
            return Err(StatusWriteError::Fenced);
        }
        let api = model_source_api(self.client.clone(), &self.key.namespace);
        let status = serde_json::to_value(&wanted.status).unwrap_or_default();
        let body = patch_body(&self.key, &wanted.resource.uid, status);
        let parameters = PatchParams::apply(CONTROLLER_FIELD_MANAGER).force();
        let patch = Patch::Apply(&body);
        let sent = api.patch_status(&self.key.name, &parameters, &patch);
        match tokio::time::timeout(WRITE_TIMEOUT, sent).await {
            Ok(Ok(object)) => {
                let stored = json!({"status": object.data.get("status")});
                let version = parse_resource_version(object.metadata.resource_version.as_deref());
                let (status, believed_until) = (ModelSourceStatus::read(&stored), Instant::now() + WATCH_LAG);
                self.last_written = Some(WrittenStatus { version, status, believed_until });
                Ok(())
            }
            // Not there, or another one of that name: its uid is not the one that this is about.
            Ok(Err(Error::Api(status))) if status.code == 404 || status.code == 409 => Err(StatusWriteError::Gone),
            Ok(Err(Error::Api(status))) => Err(StatusWriteError::Retry(status.message)),
            Ok(Err(error)) => Err(StatusWriteError::Retry(error.to_string())),
            Err(_) => {
                Err(StatusWriteError::Retry(format!("the API server did not answer in {} s", WRITE_TIMEOUT.as_secs())))
            }
        }
    }
}

impl WrittenStatus {
    /// Whether this is later than what the watch shows of that version.
    fn is_ahead_of(&self, version: u64, now: Instant) -> bool {
        self.version > version && now < self.believed_until
    }
}

/// The uid keeps the write from making an object, or from meeting another one of the name.
fn patch_body(key: &SourceKey, uid: &str, status: Value) -> Value {
    json!({
        "apiVersion": MODEL_SOURCE.api_version(),
        "kind": MODEL_SOURCE.kind,
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid},
        "status": status,
    })
}

/// Resource versions of one kind are numbers that grow, as Kubernetes has it since 1.35 and has done all along.
fn parse_resource_version(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

async fn wait_for_change<T>(state: Option<&mut watch::Receiver<T>>) {
    let news = match state {
        Some(state) => state.changed().await.is_ok(),
        None => false,
    };
    if !news {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row D5 of the review: after a restore of the API server's store, what was written before was believed for ever.
    #[tokio::test(start_paused = true)]
    async fn a_status_that_was_written_is_believed_until_the_watch_shows_it_and_not_for_ever() {
        let (version, status) = (150, ModelSourceStatus::default());
        let written = WrittenStatus { version, status, believed_until: Instant::now() + WATCH_LAG };
        assert!(written.is_ahead_of(149, Instant::now()));
        assert!(!written.is_ahead_of(150, Instant::now()) && !written.is_ahead_of(151, Instant::now()));
        tokio::time::advance(WATCH_LAG).await;
        assert!(!written.is_ahead_of(90, Instant::now()), "a store that was restored shows an older version for long");
    }
}
