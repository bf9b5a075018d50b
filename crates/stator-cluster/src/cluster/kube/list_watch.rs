//! Following all objects of a kind in a namespace: a list, page by page, and a watch from there on, for as long as
//! somebody wants to know. Where events are lost for certain, it lists again.

use super::kube_cluster::KubeCluster;
use super::paged_list::{self, ListProgress};
use super::watch_stream::{self, WatchCursor, WatchUpdate, WatchUpdateHandler};
use crate::cluster::ClusterError;
use crate::random::random_bits;
use stator_core::dynamo::kinds::ObjectKind;
use stator_core::retry::Backoff;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;
use tokio::sync::Notify;

/// The longest delay before the first retry of a list that the server refused.
const FIRST_REFUSAL_DELAY: Duration = Duration::from_secs(5);
/// The longest delay between retries of a list that is refused for missing rights or credentials. Nothing in Kubernetes
/// tells when a right was granted, so the list itself has to find out; a refused one costs the server next to nothing.
const MAX_REFUSAL_DELAY: Duration = Duration::from_secs(60);
/// The longest delay between retries of a list of a kind that is not served. Some clusters never serve every kind.
const MAX_UNSERVED_DELAY: Duration = Duration::from_secs(300);

/// The delays before a list is tried again, by why the one before failed.
struct ListRetries {
    /// After faults that may pass by themselves.
    transient: Backoff,
    /// While the server refuses.
    refused: Backoff,
    /// While the kind is not served.
    unserved: Backoff,
}

impl ListRetries {
    fn new() -> Self {
        Self {
            transient: watch_stream::reopen_backoff(),
            refused: Backoff::new(FIRST_REFUSAL_DELAY, MAX_REFUSAL_DELAY, random_bits()),
            unserved: Backoff::new(FIRST_REFUSAL_DELAY, MAX_UNSERVED_DELAY, random_bits()),
        }
    }

    fn next_delay(&mut self, error: &ClusterError) -> Duration {
        if let Some(asked) = error.retry_delay() {
            return asked.max(self.transient.next_delay());
        }
        if let ClusterError::UnknownKind { .. } = error {
            return self.unserved.next_delay();
        }
        self.refused.next_delay()
    }

    /// The server answered with a list: whatever it refused before is over.
    fn end_refusals(&mut self) {
        self.refused.reset();
        self.unserved.reset();
    }
}

impl KubeCluster {
    /// Follows the objects of a kind in a namespace that carry all the labels, until it is dropped. One that loses a label is
    /// reported as deleted. A list that fails is tried again after a growing delay, within
    /// a minute where rights are missing, or at once when `nudge` is notified.
    pub async fn list_and_watch(
        &self,
        kind: &ObjectKind,
        namespace: &str,
        labels: &BTreeMap<String, String>,
        nudge: &Notify,
        on_update: WatchUpdateHandler<'_>,
    ) {
        let mut retries = ListRetries::new();
        loop {
            let inner = &self.inner;
            let page = |progress: ListProgress| match progress {
                ListProgress::Started(version) => on_update(WatchUpdate::ListStarted(version)),
                ListProgress::Page(objects) => {
                    objects.into_iter().for_each(|object| on_update(WatchUpdate::Listed(object)))
                }
            };
            match paged_list::list_pages(inner, kind, Some(namespace), labels, page).await {
                Ok(resource_version) => {
                    retries.end_refusals();
                    on_update(WatchUpdate::ListComplete);
                    let from = resource_version.clone();
                    let mut cursor = WatchCursor {
                        kind: *kind,
                        namespace: Some(namespace.to_owned()),
                        labels: labels.clone(),
                        resource_version,
                    };
                    let forward = |update: WatchUpdate| {
                        on_update(update);
                        ControlFlow::Continue(())
                    };
                    watch_stream::watch_until_lost(inner, &mut cursor, None, &forward).await;
                    // A list after every watch without an event would list without end.
                    let delay = (cursor.resource_version == from).then(|| retries.transient.next_delay());
                    on_update(WatchUpdate::WatchFailed(ClusterError::transient(format!(
                        "events of {} were lost",
                        kind.plural
                    ))));
                    match delay {
                        Some(delay) => tokio::time::sleep(delay).await,
                        None => retries.transient.reset(),
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, kind = kind.kind, namespace, "nothing can be listed");
                    let delay = retries.next_delay(&error);
                    on_update(WatchUpdate::ListFailed(error));
                    tokio::select! {
                        () = tokio::time::sleep(delay) => {}
                        () = nudge.notified() => {}
                    }
                }
            }
        }
    }
}
