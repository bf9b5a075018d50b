//! Following all objects of a kind in a namespace: a list, page by page, and a watch from there on, for as long as
//! somebody wants to know. Where events are lost for certain, it lists again.

use super::kube_cluster::KubeCluster;
use super::paged_list::{self, ListProgress};
use super::watch_stream::{self, WatchCursor};
use super::watch_update::{WatchUpdate, WatchUpdateHandler};
use crate::cluster::ClusterError;
use stator_core::dynamo::kinds::ObjectKind;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;
use tokio::sync::Notify;

/// How long after a list that failed for good, rights or a kind that is not served, another is tried unasked.
const PERMANENT_FAILURE_DELAY: Duration = Duration::from_secs(600);

impl KubeCluster {
    /// Follows a kind in a namespace until it is dropped. What fails is tried again after a while, or at once when
    /// `nudge` is notified.
    pub async fn list_and_watch(
        &self,
        kind: &ObjectKind,
        namespace: &str,
        nudge: &Notify,
        tell: WatchUpdateHandler<'_>,
    ) {
        let mut backoff = watch_stream::reopen_backoff();
        loop {
            let inner = &self.inner;
            let page = |progress: ListProgress| match progress {
                ListProgress::Started(version) => tell(WatchUpdate::ListStarted(version)),
                ListProgress::Page(objects) => objects.into_iter().for_each(|object| tell(WatchUpdate::Listed(object))),
            };
            match paged_list::list_pages(inner, kind, Some(namespace), &BTreeMap::new(), page).await {
                Ok(resource_version) => {
                    tell(WatchUpdate::ListComplete);
                    let from = resource_version.clone();
                    let mut cursor =
                        WatchCursor { kind: *kind, namespace: Some(namespace.to_owned()), resource_version };
                    let forward = |update: WatchUpdate| {
                        tell(update);
                        ControlFlow::Continue(())
                    };
                    watch_stream::watch_until_lost(inner, &mut cursor, None, &forward).await;
                    // A list after every watch without an event would list without end.
                    let delay = (cursor.resource_version == from).then(|| backoff.next_delay());
                    tell(WatchUpdate::WatchFailed(ClusterError::transient(format!(
                        "events of {} were lost",
                        kind.plural
                    ))));
                    match delay {
                        Some(delay) => tokio::time::sleep(delay).await,
                        None => backoff.reset(),
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, kind = kind.kind, namespace, "nothing can be listed");
                    let delay = match error.retry_delay() {
                        Some(asked) => asked.max(backoff.next_delay()),
                        None => PERMANENT_FAILURE_DELAY,
                    };
                    tell(WatchUpdate::ListFailed(error));
                    tokio::select! {
                        () = tokio::time::sleep(delay) => {}
                        () = nudge.notified() => {}
                    }
                }
            }
        }
    }
}
