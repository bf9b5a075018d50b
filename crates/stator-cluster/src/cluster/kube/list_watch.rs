//! Following all objects of a kind in a namespace: a list, page by page, and a watch from there on, for as long as
//! somebody wants to know. Where events are lost for certain, it lists again.

use super::api_client::ApiUrl;
use super::api_error::ApiCall;
use super::watch_stream::{self, WatchCursor, WatchEnd, WatchLine};
use super::{KubeCluster, KubeConnection, ListPage};
use crate::cluster::{ClusterError, WatchEvent};
use stator_core::dynamo::kinds::ObjectKind;
use stator_core::object::Object;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What is told of a kind. Versions are resource versions.
#[derive(Debug)]
pub enum WatchUpdate {
    /// A list begins, as of that version: every object comes as [`WatchUpdate::Listed`], until [`WatchUpdate::ListComplete`]. A list that
    /// breaks off begins anew.
    ListStarted(String),
    /// One object of a list.
    Listed(Object),
    /// The list is whole: what it did not show is not there.
    ListComplete,
    /// A change, as the watch shows it.
    Event(WatchEvent, String),
    /// Nothing happened up to that version.
    Bookmark(String),
    /// The watch is open: everything is told as it happens.
    WatchOpened,
    /// The watch cannot be opened at the moment: there may be news that nobody has heard of.
    WatchFailed(ClusterError),
    /// No list is to be had.
    ListFailed(ClusterError),
}

impl WatchUpdate {
    /// The version that it is about, where it has one.
    pub fn resource_version(&self) -> Option<&str> {
        match self {
            Self::ListStarted(version) | Self::Event(_, version) | Self::Bookmark(version) => Some(version),
            Self::Listed(object) => Some(object.resource_version().unwrap_or_default()),
            Self::ListComplete | Self::WatchOpened | Self::WatchFailed(_) | Self::ListFailed(_) => None,
        }
    }
}

/// Who is told.
pub type WatchUpdateHandler<'a> = &'a (dyn Fn(WatchUpdate) + Send + Sync);

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
        let mut failures = 0;
        loop {
            let inner = &self.inner;
            match list_all_pages(inner, kind, namespace, tell).await {
                Ok(resource_version) => {
                    let mut place =
                        WatchCursor { kind: *kind, namespace: Some(namespace.to_owned()), resource_version };
                    // A list after every watch that told nothing would be a list without end.
                    failures = if watch_until_lost(inner, &mut place, tell).await { 0 } else { failures + 1 };
                    tell(WatchUpdate::WatchFailed(ClusterError::transient(format!(
                        "events of {} were lost",
                        kind.plural
                    ))));
                    if failures > 0 {
                        tokio::time::sleep(watch_stream::jittered_backoff(failures)).await;
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, kind = kind.kind, namespace, "nothing can be listed");
                    failures += 1;
                    let pause = match error.retry_delay() {
                        Some(pause) => pause.max(watch_stream::jittered_backoff(failures)),
                        None => PERMANENT_FAILURE_DELAY,
                    };
                    tell(WatchUpdate::ListFailed(error));
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = nudge.notified() => {}
                    }
                }
            }
        }
    }
}

/// Lists everything, one page in memory at a time. Gives the version that it is of.
async fn list_all_pages(
    inner: &KubeConnection,
    kind: &ObjectKind,
    namespace: &str,
    tell: WatchUpdateHandler<'_>,
) -> Result<String, ClusterError> {
    let asked =
        ApiCall { verb: "list", kind, namespace: Some(namespace), object: None, config: None, conditional: false };
    let url = ApiUrl::of_kind(kind, Some(namespace));
    let limit = inner.options.page_size.to_string();
    let end = Instant::now() + inner.options.deadlines.list;
    let mut next = url.clone().query("limit", &limit);
    let mut begun: Option<String> = None;
    loop {
        let Some(ListPage { objects, resource_version: version, continue_token: token }) =
            inner.list_page(&asked, &next, end, begun.is_some()).await?
        else {
            // The first page is too old to go on from: everything at once.
            (next, begun) = (url.clone(), None);
            continue;
        };
        if begun.is_none() {
            tell(WatchUpdate::ListStarted(version.clone()));
            begun = Some(version);
        }
        for object in objects {
            inner.versions.insert_object(&object);
            tell(WatchUpdate::Listed(object));
        }
        match token {
            Some(token) => next = url.clone().query("limit", &limit).query("continue", &token),
            None => break,
        }
    }
    inner.versions.mark_list_complete(kind.group, kind.kind, namespace);
    tell(WatchUpdate::ListComplete);
    Ok(begun.unwrap_or_default())
}

/// Watches from there on. Returns when events are lost, and whether there were any before.
async fn watch_until_lost(inner: &KubeConnection, place: &mut WatchCursor, tell: WatchUpdateHandler<'_>) -> bool {
    let heard = |heard: WatchLine, version: &str| {
        tell(match heard {
            WatchLine::Event(event) => WatchUpdate::Event(event, version.to_owned()),
            WatchLine::Bookmark => WatchUpdate::Bookmark(version.to_owned()),
        });
        true
    };
    let mut failures = 0;
    let from = place.resource_version.clone();
    loop {
        if failures > watch_stream::MAX_REOPENS {
            return place.resource_version != from;
        }
        if failures > 0 {
            tokio::time::sleep(watch_stream::jittered_backoff(failures)).await;
        }
        match watch_stream::open_watch(inner, place).await {
            Ok(body) => {
                tell(WatchUpdate::WatchOpened);
                match watch_stream::read_watch(inner, place, body, &heard).await {
                    WatchEnd::Lost => return place.resource_version != from,
                    WatchEnd::Connection { received: true } => failures = 0,
                    WatchEnd::Connection { received: false } => failures += 1,
                }
            }
            Err(error) => {
                let pause = error.retry_delay();
                tell(WatchUpdate::WatchFailed(error));
                // 410 among what cannot pass: the version is too old to go on from.
                let Some(pause) = pause else { return place.resource_version != from };
                tokio::time::sleep(pause).await;
                failures += 1;
            }
        }
    }
}
