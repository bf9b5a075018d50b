//! `ModelSource` objects as they come and go: listed and watched, and again whenever events may be lost, for ever.

use super::MODEL_SOURCE;
use super::object_store::ModelSourceObject;
use crate::controller::sources::resolved_source::SourceKey;
use stator_cluster::cluster::kube::KubeCluster;
use stator_cluster::cluster::{Cluster as _, ClusterError, WatchEvent};
use stator_cluster::random::random_bits;
use stator_core::object::Object;
use stator_core::retry::Backoff;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;

/// Pauses between tries.
const INITIAL_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// What is new.
#[derive(Debug)]
pub(super) enum SourceObjectEvent {
    /// All there are, of one namespace or of all.
    Listed(Option<String>, Vec<ModelSourceObject>),
    /// One as it is now.
    Set(Box<ModelSourceObject>),
    /// One is gone: its name and uid.
    Deleted(SourceKey, String),
    /// They cannot be listed: why, with what to do.
    ListFailed(Option<String>, String),
}

/// Follows the objects of one namespace, or of all, until nobody listens.
pub(super) async fn watch_objects(kube: KubeCluster, namespace: Option<String>, news: mpsc::Sender<SourceObjectEvent>) {
    let mut backoff = Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF, random_bits());
    loop {
        match list_and_watch(&kube, namespace.as_deref(), &news, &mut backoff).await {
            // Events were lost: they are listed again.
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(namespace = namespace.as_deref(), "sources are not listed: {error}");
                if news
                    .send(SourceObjectEvent::ListFailed(namespace.clone(), describe_list_error(&error)))
                    .await
                    .is_err()
                {
                    return;
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next_delay()) => {}
            () = news.closed() => return,
        }
    }
}

fn describe_list_error(error: &ClusterError) -> String {
    if let ClusterError::UnknownKind { .. } = error {
        return "the cluster has no kind ModelSource: apply crds/stator.dev_modelsources.yaml, or install the chart"
            .to_owned();
    }
    format!("ModelSource objects cannot be listed: {error}; {}", error.help())
}

async fn list_and_watch(
    kube: &KubeCluster,
    namespace: Option<&str>,
    news: &mpsc::Sender<SourceObjectEvent>,
    backoff: &mut Backoff,
) -> Result<(), ClusterError> {
    // The watch comes first, so that nothing falls between both; what it tells again is passed over by its version.
    let mut events = kube.watch(&[MODEL_SOURCE], namespace).await?;
    let listed = kube.list(&MODEL_SOURCE, namespace, &BTreeMap::new()).await?;
    let mut seen: BTreeMap<SourceKey, u64> =
        listed.iter().map(|object| (source_key(object), resource_version(object))).collect();
    let resources = listed.into_iter().map(ModelSourceObject::new).collect();
    if news.send(SourceObjectEvent::Listed(namespace.map(str::to_owned), resources)).await.is_err() {
        return Ok(());
    }
    backoff.reset();
    while let Some(event) = events.recv().await {
        let event = match event {
            WatchEvent::Resync => break,
            WatchEvent::Applied(object) if is_newer(&mut seen, &object) => {
                SourceObjectEvent::Set(Box::new(ModelSourceObject::new(object)))
            }
            WatchEvent::Deleted(object) if is_newer(&mut seen, &object) => {
                let key = source_key(&object);
                seen.remove(&key);
                SourceObjectEvent::Deleted(key, object.uid().unwrap_or_default().to_owned())
            }
            WatchEvent::Applied(_) | WatchEvent::Deleted(_) => continue,
        };
        if news.send(event).await.is_err() {
            break;
        }
    }
    Ok(())
}

fn source_key(object: &Object) -> SourceKey {
    SourceKey::new(object.namespace(), object.name())
}

/// What Kubernetes counts versions with is a number that goes up; one that is none is news whenever it comes.
fn resource_version(object: &Object) -> u64 {
    object.version_number().unwrap_or(u64::MAX)
}

/// Whether an event is newer than what is known of its object.
fn is_newer(seen: &mut BTreeMap<SourceKey, u64>, object: &Object) -> bool {
    let version = resource_version(object);
    let known = seen.entry(source_key(object)).or_default();
    let news = version > *known || version == u64::MAX;
    if news {
        *known = version;
    }
    news
}
