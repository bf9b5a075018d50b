//! Writes how sources stand into the `status` of their objects: what differs from what is there, and nothing else.
//!
//! A task a source, so that one object that the API server will not take is nobody else's matter. What changes while a
//! write is under way, or within a second after it, is one write. A source at rest is never written, and neither is one
//! that a new process finds as an old one left it.

use super::{About, status_of, status_of_not_run};
use crate::controller::backoff::Backoff;
use crate::controller::board::Board;
use crate::controller::resources::{MODEL_SOURCE, Resource, Resources};
use crate::controller::sources::SourceKey;
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Client, Error};
use serde_json::{Value, json};
use stator_cluster::cluster::kube::Fence;
use stator_git::source::model_source::status::ModelSourceStatus;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

/// Who writes it, as the API server keeps it.
pub const MANAGER: &str = "stator-controller";
/// How far apart two writes of one source are at least.
const APART: Duration = Duration::from_secs(1);
/// How long one write may take.
const DEADLINE: Duration = Duration::from_secs(15);
/// Pauses between tries.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(120);

/// Keeps the statuses of all sources up, for as long as the process lives.
pub async fn write(client: Client, board: Arc<Board>, resources: Arc<Resources>, ending: CancellationToken) {
    let mut tasks = JoinSet::new();
    let mut running: BTreeMap<SourceKey, AbortHandle> = BTreeMap::new();
    let (mut boards, mut objects) = (board.changes(), resources.changes());
    loop {
        boards.mark_unchanged();
        objects.mark_unchanged();
        let held = board.held();
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
                let one = One {
                    client: client.clone(),
                    board: Arc::clone(&board),
                    resources: Arc::clone(&resources),
                    key,
                    known: None,
                };
                tasks.spawn(one.keep())
            });
        }
        tokio::select! {
            () = ending.cancelled() => return,
            Ok(()) = boards.changed() => {}
            Ok(()) = objects.changed() => {}
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                if let Err(error) = ended && error.is_panic() {
                    tracing::error!("a status could not be made and is tried again: {error}");
                    tokio::time::sleep(FIRST).await;
                }
            }
        }
    }
}

/// One source's status.
struct One {
    client: Client,
    board: Arc<Board>,
    resources: Arc<Resources>,
    key: SourceKey,
    /// What the API server answered last, and of which version of the object.
    known: Option<(u64, ModelSourceStatus)>,
}

/// What a status is to be, and for which object.
struct Wanted {
    resource: Arc<Resource>,
    fence: Option<Fence>,
    status: ModelSourceStatus,
}

/// Why a write came to nothing.
enum Refused {
    /// This replica may not hold the source any more: whoever does writes its status.
    Fenced,
    /// The object is another one, or gone: what comes of it is seen.
    Gone,
    /// Another try may go well.
    Again(String),
}

impl One {
    async fn keep(mut self) {
        let mut backoff = Backoff::new(FIRST, LONGEST);
        let (mut boards, mut objects) = (self.board.changes(), self.resources.changes());
        let mut gone: Option<Arc<Resource>> = None;
        loop {
            boards.mark_unchanged();
            objects.mark_unchanged();
            let mut standing = self.board.entry(&self.key).map(|entry| entry.standing);
            if let Some(standing) = &mut standing {
                standing.mark_unchanged();
            }
            let wanted =
                self.wanted().filter(|wanted| gone.as_ref().is_none_or(|gone| !Arc::ptr_eq(gone, &wanted.resource)));
            if let Some(wanted) = wanted {
                match self.write(&wanted).await {
                    Ok(()) => backoff.reset(),
                    Err(Refused::Gone) => gone = Some(wanted.resource),
                    Err(Refused::Fenced) => {
                        let _ = boards.changed().await;
                    }
                    Err(Refused::Again(problem)) => {
                        tracing::warn!(source = %self.key, "its status cannot be written: {problem}");
                        tokio::time::sleep(backoff.pause()).await;
                        continue;
                    }
                }
                tokio::time::sleep(APART).await;
                continue;
            }
            let known = self.resources.get(&self.key);
            loop {
                tokio::select! {
                    () = changed(standing.as_mut()) => break,
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
    fn wanted(&self) -> Option<Wanted> {
        let resource = self.resources.get(&self.key)?;
        let stored = ModelSourceStatus::read(resource.object.value());
        let version = version(resource.object.resource_version());
        // What the watch shows may be older than what the API server answered.
        let previous = match &self.known {
            Some((known, status)) if *known > version => status.clone(),
            Some(_) | None => stored,
        };
        let remarks = self.board.remarks(&self.key);
        let about = About {
            key: &self.key,
            generation: resource.generation,
            previous: &previous,
            remarks: &remarks,
            now: Timestamp::now(),
        };
        let entry = self.board.entry(&self.key);
        let status = match (self.board.held().get(&self.key), &entry) {
            (Some(held), _) => status_of_not_run(held, &about),
            (None, Some(entry)) => status_of(&entry.standing.borrow(), &about),
            (None, None) => return None,
        };
        let fence = entry.and_then(|entry| entry.fence);
        (status != previous).then_some(Wanted { resource, fence, status })
    }

    async fn write(&mut self, wanted: &Wanted) -> Result<(), Refused> {
        // A replica that lost its shard leaves the status to the one that has it.
        if wanted.fence.as_ref().is_some_and(|fence| !fence.holds()) {
            return Err(Refused::Fenced);
        }
        let kind = ApiResource {
            group: MODEL_SOURCE.group.to_owned(),
            version: MODEL_SOURCE.version.to_owned(),
            api_version: MODEL_SOURCE.api_version(),
            kind: MODEL_SOURCE.kind.to_owned(),
            plural: MODEL_SOURCE.plural.to_owned(),
        };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.key.namespace, &kind);
        let status = serde_json::to_value(&wanted.status).unwrap_or_default();
        let body = body(&self.key, &wanted.resource.uid, status);
        let parameters = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(&body);
        let sent = api.patch_status(&self.key.name, &parameters, &patch);
        match tokio::time::timeout(DEADLINE, sent).await {
            Ok(Ok(object)) => {
                let stored = json!({"status": object.data.get("status")});
                let version = version(object.metadata.resource_version.as_deref());
                self.known = Some((version, ModelSourceStatus::read(&stored)));
                Ok(())
            }
            // Not there, or another one of that name: its uid is not the one that this is about.
            Ok(Err(Error::Api(status))) if status.code == 404 || status.code == 409 => Err(Refused::Gone),
            Ok(Err(Error::Api(status))) => Err(Refused::Again(status.message)),
            Ok(Err(error)) => Err(Refused::Again(error.to_string())),
            Err(_) => Err(Refused::Again(format!("the API server did not answer in {} s", DEADLINE.as_secs()))),
        }
    }
}

/// The uid keeps the write from making an object, or from meeting another one of the name.
fn body(key: &SourceKey, uid: &str, status: Value) -> Value {
    json!({
        "apiVersion": MODEL_SOURCE.api_version(),
        "kind": MODEL_SOURCE.kind,
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid},
        "status": status,
    })
}

/// Resource versions of one kind are numbers that grow, as Kubernetes has it since 1.35 and has done all along.
fn version(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

async fn changed<T>(standing: Option<&mut watch::Receiver<T>>) {
    let news = match standing {
        Some(standing) => standing.changed().await.is_ok(),
        None => false,
    };
    if !news {
        std::future::pending::<()>().await;
    }
}
