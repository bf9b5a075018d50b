//! Writes how sources stand into the `status` of their objects: what differs from what is there, and nothing else.
//!
//! A task a source, so that one object that the API server will not take is nobody else's matter. What changes while a
//! write is under way, or within a second after it, is one write. A source at rest is never written, and neither is one
//! that a new process finds as an old one left it.

use super::{SourceStatusInput, build_rejected_status, build_status};
use crate::controller::report::retried_write::{RetryPolicy, WriteOutcome, write_with_retry};
use crate::controller::sources::objects::{
    CONTROLLER_FIELD_MANAGER, MODEL_SOURCE, ModelSourceObject, ModelSourceStore, model_source_api,
};
use crate::controller::sources::registry::SourceRegistry;
use crate::controller::sources::resolved_source::SourceKey;
use crate::controller::waiting::{sleep_until_some, wait_for_change};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Client, Error};
use serde_json::{Value, json};
use stator_cluster::cluster::Fence;
use stator_git::source::model_source::status::ModelSourceStatus;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How far apart two writes of one source are at least.
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// How long a watch may take to show what was written.
const WATCH_LAG: Duration = Duration::from_secs(60);
const RETRIES: RetryPolicy = RetryPolicy {
    first_pause: Duration::from_secs(1),
    longest_pause: Duration::from_secs(120),
    max_attempts: None,
    attempt_timeout: Duration::from_secs(15),
    timeout_message: "the API server did not answer in 15 s",
};

/// Keeps the statuses of all sources up, for as long as the process lives.
pub async fn run_status_writer(
    client: Client,
    registry: Arc<SourceRegistry>,
    resources: Arc<ModelSourceStore>,
    ending: CancellationToken,
) {
    let mut tasks = JoinSet::new();
    let mut running: BTreeMap<SourceKey, AbortHandle> = BTreeMap::new();
    let (mut registry_changes, mut object_changes) = (registry.changes(), resources.changes());
    loop {
        registry_changes.mark_unchanged();
        object_changes.mark_unchanged();
        let held = registry.rejected();
        let here = |key: &SourceKey| registry.entry(key).is_some() || held.contains_key(key);
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
                    registry: Arc::clone(&registry),
                    resources: Arc::clone(&resources),
                    key,
                    last_written: None,
                };
                tasks.spawn(one.run())
            });
        }
        tokio::select! {
            () = ending.cancelled() => return,
            Ok(()) = registry_changes.changed() => {}
            Ok(()) = object_changes.changed() => {}
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                if let Err(error) = ended && error.is_panic() {
                    tracing::error!("a status could not be built and is retried: {error}");
                    tokio::time::sleep(RETRIES.first_pause).await;
                }
            }
        }
    }
}

/// One source's status.
struct SourceStatusWriter {
    client: Client,
    registry: Arc<SourceRegistry>,
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

/// What an attempt ended with.
enum StatusWrite {
    /// The object has the status now.
    Written(Box<WrittenStatus>),
    /// It has it already, or there is none to write.
    Unneeded,
    /// This replica may not hold the source any more: whoever does writes its status.
    Fenced,
    /// The object is another one, or gone: what comes of it is seen.
    Gone(Arc<ModelSourceObject>),
}

impl SourceStatusWriter {
    async fn run(mut self) {
        let (mut registry_changes, mut object_changes) = (self.registry.changes(), self.resources.changes());
        let mut gone: Option<Arc<ModelSourceObject>> = None;
        loop {
            registry_changes.mark_unchanged();
            object_changes.mark_unchanged();
            let mut state = self.registry.entry(&self.key).map(|entry| entry.state);
            if let Some(state) = &mut state {
                state.mark_unchanged();
            }
            let attempt = || self.attempt_write(gone.as_ref());
            let report = |why: &str| tracing::warn!(source = %self.key, "its status cannot be written: {why}");
            match write_with_retry(&RETRIES, &CancellationToken::new(), attempt, report).await {
                WriteOutcome::Done(StatusWrite::Written(written)) => self.last_written = Some(*written),
                WriteOutcome::Done(StatusWrite::Gone(object)) => gone = Some(object),
                WriteOutcome::Done(StatusWrite::Fenced) => {
                    let _ = registry_changes.changed().await;
                }
                WriteOutcome::Refused(_) | WriteOutcome::Failed(..) => {}
                WriteOutcome::Done(StatusWrite::Unneeded) => {
                    let known = self.resources.get(&self.key);
                    let believed_until = self.last_written.as_ref().map(|written| written.believed_until);
                    let believed_until = believed_until.filter(|until| *until > Instant::now());
                    loop {
                        tokio::select! {
                            () = sleep_until_some(believed_until) => break,
                            () = wait_for_change(state.as_mut()) => break,
                            Ok(()) = registry_changes.changed() => break,
                            Ok(()) = object_changes.changed() => {
                                // Most changes are of others.
                                let now = self.resources.get(&self.key);
                                if now.as_ref().map(Arc::as_ptr) != known.as_ref().map(Arc::as_ptr) {
                                    break;
                                }
                            }
                            else => return,
                        }
                    }
                    continue;
                }
            }
            tokio::time::sleep(MIN_WRITE_INTERVAL).await;
        }
    }

    /// What the status should be, where it is not.
    fn desired_patch(&self) -> Option<SourceStatusPatch> {
        let resource = self.resources.get(&self.key)?;
        let stored = ModelSourceStatus::read(resource.object.value());
        let version = parse_resource_version(resource.object.resource_version());
        // What the watch shows may be older than what the API server answered.
        let ahead = self.last_written.as_ref().filter(|written| written.is_ahead_of(version, Instant::now()));
        let previous = ahead.map_or(stored, |written| written.status.clone());
        let remarks = self.registry.remarks(&self.key);
        let about = SourceStatusInput {
            key: &self.key,
            generation: resource.generation,
            previous: &previous,
            remarks: &remarks,
            now: Timestamp::now(),
        };
        let entry = self.registry.entry(&self.key);
        let status = match (self.registry.rejected().get(&self.key), &entry) {
            (Some(held), _) => build_rejected_status(held, &about),
            (None, Some(entry)) => build_status(&entry.state.borrow(), &about),
            (None, None) => return None,
        };
        let fence = entry.and_then(|entry| entry.fence);
        (status != previous).then_some(SourceStatusPatch { resource, fence, status })
    }

    /// Reads again what the status should be, and writes it. Nothing is written to an object that is `gone`.
    async fn attempt_write(&self, gone: Option<&Arc<ModelSourceObject>>) -> WriteOutcome<StatusWrite> {
        let is_gone = |wanted: &SourceStatusPatch| gone.is_some_and(|gone| Arc::ptr_eq(gone, &wanted.resource));
        let Some(wanted) = self.desired_patch().filter(|wanted| !is_gone(wanted)) else {
            return WriteOutcome::Done(StatusWrite::Unneeded);
        };
        // A replica that lost its shard leaves the status to the one that has it.
        if wanted.fence.as_ref().is_some_and(|fence| !fence.is_valid()) {
            return WriteOutcome::Done(StatusWrite::Fenced);
        }
        let api = model_source_api(self.client.clone(), &self.key.namespace);
        let status = serde_json::to_value(&wanted.status).unwrap_or_default();
        let body = patch_body(&self.key, &wanted.resource.uid, status);
        let parameters = PatchParams::apply(CONTROLLER_FIELD_MANAGER).force();
        match api.patch_status(&self.key.name, &parameters, &Patch::Apply(&body)).await {
            Ok(object) => {
                let stored = json!({"status": object.data.get("status")});
                let version = parse_resource_version(object.metadata.resource_version.as_deref());
                let (status, believed_until) = (ModelSourceStatus::read(&stored), Instant::now() + WATCH_LAG);
                WriteOutcome::Done(StatusWrite::Written(Box::new(WrittenStatus { version, status, believed_until })))
            }
            // Not there, or another one of that name: its uid is not the one that this is about.
            Err(Error::Api(status)) if status.code == 404 || status.code == 409 => {
                WriteOutcome::Done(StatusWrite::Gone(wanted.resource))
            }
            Err(error) => match WriteOutcome::from_kube_error(error) {
                // A right may be granted, and what else is in the way may go.
                WriteOutcome::Refused(why) => WriteOutcome::Failed(why, None),
                outcome @ (WriteOutcome::Done(_) | WriteOutcome::Failed(..)) => outcome,
            },
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
