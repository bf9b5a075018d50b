//! `ModelSource` objects as they come and go: listed and watched, and again whenever events may be lost, for ever.

use super::MODEL_SOURCE;
use super::resource::Resource;
use crate::controller::backoff::Backoff;
use crate::controller::sources::SourceKey;
use stator_cluster::cluster::kube::Kube;
use stator_cluster::cluster::{Cluster as _, ClusterError, WatchEvent};
use stator_core::object::Object;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;

/// Pauses between tries.
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

/// What is new.
#[derive(Debug)]
pub(super) enum News {
    /// All there are, of one namespace or of all.
    Listed(Option<String>, Vec<Resource>),
    /// One as it is now.
    Set(Box<Resource>),
    /// One is gone: its name and uid.
    Gone(SourceKey, String),
    /// They cannot be listed: why, with what to do.
    Trouble(Option<String>, String),
}

/// Follows the objects of one namespace, or of all, until nobody listens.
pub(super) async fn follow(kube: Kube, namespace: Option<String>, news: mpsc::Sender<News>) {
    let mut backoff = Backoff::new(FIRST, LONGEST);
    loop {
        match once(&kube, namespace.as_deref(), &news, &mut backoff).await {
            // Events were lost: they are listed again.
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(namespace = namespace.as_deref(), "sources are not listed: {error}");
                if news.send(News::Trouble(namespace.clone(), sentence(&error))).await.is_err() {
                    return;
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.pause()) => {}
            () = news.closed() => return,
        }
    }
}

fn sentence(error: &ClusterError) -> String {
    if let ClusterError::UnknownKind { .. } = error {
        return "the cluster has no kind ModelSource: apply crds/stator.dev_modelsources.yaml, or install the chart"
            .to_owned();
    }
    format!("ModelSource objects cannot be listed: {error}; {}", error.help())
}

async fn once(
    kube: &Kube,
    namespace: Option<&str>,
    news: &mpsc::Sender<News>,
    backoff: &mut Backoff,
) -> Result<(), ClusterError> {
    // The watch comes first, so that nothing falls between both; what it tells again is passed over by its version.
    let mut events = kube.watch(&[MODEL_SOURCE], namespace).await?;
    let listed = kube.list(&MODEL_SOURCE, namespace, &BTreeMap::new()).await?;
    let mut seen: BTreeMap<SourceKey, u64> = listed.iter().map(|object| (key(object), version(object))).collect();
    let resources = listed.into_iter().map(Resource::new).collect();
    if news.send(News::Listed(namespace.map(str::to_owned), resources)).await.is_err() {
        return Ok(());
    }
    backoff.reset();
    while let Some(event) = events.recv().await {
        let told = match event {
            WatchEvent::Resync => break,
            WatchEvent::Applied(object) if is_news(&mut seen, &object) => News::Set(Box::new(Resource::new(object))),
            WatchEvent::Deleted(object) if is_news(&mut seen, &object) => {
                let key = key(&object);
                seen.remove(&key);
                News::Gone(key, object.uid().unwrap_or_default().to_owned())
            }
            WatchEvent::Applied(_) | WatchEvent::Deleted(_) => continue,
        };
        if news.send(told).await.is_err() {
            break;
        }
    }
    Ok(())
}

fn key(object: &Object) -> SourceKey {
    SourceKey::new(object.namespace(), object.name())
}

/// What Kubernetes counts versions with is a number that goes up; one that is none is news whenever it comes.
fn version(object: &Object) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or(u64::MAX)
}

/// Whether an event is newer than what is known of its object.
fn is_news(seen: &mut BTreeMap<SourceKey, u64>, object: &Object) -> bool {
    let version = version(object);
    let known = seen.entry(key(object)).or_default();
    let news = version > *known || version == u64::MAX;
    if news {
        *known = version;
    }
    news
}
