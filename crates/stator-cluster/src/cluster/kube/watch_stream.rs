//! Watches that survive their connections: each is opened again at the last resource version that was seen, bookmarks
//! included, and gives up with [`WatchEvent::Resync`] only when events are lost for certain.

use super::KubeConnection;
use super::api_client::{self, ApiPayload, ApiUrl};
use super::api_error::{self, ApiCall};
use crate::cluster::{ClusterError, WatchEvent};
use ::kube::client::Body;
use http::Method;
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::Value;
use stator_core::dynamo::kinds::ObjectKind;
use stator_core::object::Object;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The longest event: an object is at most 3 MiB.
const MAX_LINE_LENGTH: usize = 16 << 20;
/// A watch without a word for so long is dead: the server sends a bookmark every minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(150);
/// How often in a row a watch is opened again before the caller is told to list, and so hears what is wrong.
pub(super) const MAX_REOPENS: u32 = 6;
/// The pauses between these.
const REOPEN_BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// Where a watch stands.
pub(super) struct WatchCursor {
    pub(super) kind: ObjectKind,
    pub(super) namespace: Option<String>,
    pub(super) resource_version: String,
}

/// One line of a watch.
#[derive(Debug)]
pub(super) enum WatchLine {
    /// Something changed.
    Event(WatchEvent),
    /// Nothing did, up to here: a bookmark.
    Bookmark,
}

/// Who is told of each line. Says false when nobody listens any more.
pub(super) type WatchLineHandler<'a> = &'a (dyn Fn(WatchLine, &str) -> bool + Send + Sync);

/// Opens the watches and leaves a task behind that follows them until the receiver is dropped.
pub(super) async fn start_watches(
    inner: &Arc<KubeConnection>,
    kinds: &[ObjectKind],
    namespace: Option<&str>,
) -> Result<mpsc::Receiver<WatchEvent>, ClusterError> {
    let (queue, receiver) = mpsc::channel(inner.options.watch_capacity.max(1) + 1);
    let mut feeds = JoinSet::new();
    for kind in kinds {
        let resource_version = match latest_resource_version(inner, kind, namespace).await {
            Ok(resource_version) => resource_version,
            // There is nothing of a kind that is not served, and so nothing to hear of.
            Err(ClusterError::UnknownKind { .. }) => continue,
            Err(error) => return Err(error),
        };
        let place = WatchCursor { kind: *kind, namespace: namespace.map(str::to_owned), resource_version };
        let body = open_watch(inner, &place).await?;
        feeds.spawn(follow_watch(inner.clone(), place, body, queue.clone()));
    }
    // The last place is kept for the word that events were lost.
    let last = queue.clone().try_reserve_owned().map_err(|_| ClusterError::transient("a new queue is full already"))?;
    tokio::spawn(async move {
        tokio::select! {
            () = queue.closed() => return,
            Some(_) = feeds.join_next() => {}
        }
        feeds.shutdown().await;
        last.send(WatchEvent::Resync);
    });
    Ok(receiver)
}

/// The resource version that everything of a kind stands at.
async fn latest_resource_version(
    inner: &KubeConnection,
    kind: &ObjectKind,
    namespace: Option<&str>,
) -> Result<String, ClusterError> {
    #[derive(Deserialize)]
    struct PartialObjectList {
        metadata: PartialListMeta,
    }
    let url = ApiUrl::of_kind(kind, namespace).query("limit", "1");
    let asked = ApiCall { verb: "list", kind, namespace, object: None, config: None, conditional: false };
    let request = api_client::build_request(Method::GET, &url, ApiPayload::None, api_client::ACCEPT_METADATA_LIST)?;
    let answer = inner.send(request, inner.options.deadlines.list).await?;
    if !answer.status.is_success() {
        return Err(api_error::to_cluster_error(&asked, &answer, &[]));
    }
    Ok(answer.json::<PartialObjectList>(&url)?.metadata.resource_version)
}

#[derive(Deserialize)]
struct PartialListMeta {
    #[serde(rename = "resourceVersion", default)]
    resource_version: String,
}

/// Opens one watch where it stands.
pub(super) async fn open_watch(inner: &KubeConnection, place: &WatchCursor) -> Result<Body, ClusterError> {
    let WatchCursor { kind, namespace, resource_version } = place;
    let seconds = inner.options.deadlines.watch.as_secs().max(1);
    let url = ApiUrl::of_kind(kind, namespace.as_deref())
        .query("watch", "true")
        .query("allowWatchBookmarks", "true")
        .query("resourceVersion", resource_version)
        .query("timeoutSeconds", &seconds.to_string());
    let mut request = api_client::build_request(Method::GET, &url, ApiPayload::None, api_client::ACCEPT_JSON)?;
    // A watch is compressed an event at a time, which decoders take for the end after the first.
    request.headers_mut().insert(http::header::ACCEPT_ENCODING, http::HeaderValue::from_static("identity"));
    let patience = inner.options.deadlines.list;
    let response = match tokio::time::timeout(patience, inner.client.send(request)).await {
        Ok(response) => response.map_err(|error| api_client::connection_error(&inner.server, &error))?,
        Err(_) => {
            return Err(ClusterError::transient(format!("{} did not open a watch of {}", inner.server, kind.plural)));
        }
    };
    if response.status().is_success() {
        return Ok(response.into_body());
    }
    let answer = api_client::read_response(&inner.server, "a watch", response).await?;
    let asked = ApiCall {
        verb: "watch",
        kind,
        namespace: namespace.as_deref(),
        object: None,
        config: None,
        conditional: false,
    };
    Err(api_error::to_cluster_error(&asked, &answer, &[]))
}

/// Why reading a watch ended.
pub(super) enum WatchEnd {
    /// The connection is over, as connections are; it goes on at the next.
    Connection {
        /// Whether anything came.
        received: bool,
    },
    /// Events are lost, or nobody listens any more.
    Lost,
}

/// Follows one kind. Returns when events were lost for certain.
async fn follow_watch(inner: Arc<KubeConnection>, mut place: WatchCursor, body: Body, queue: mpsc::Sender<WatchEvent>) {
    let mut body = Some(body);
    let mut failures = 0;
    let tell = |heard: WatchLine, _: &str| match heard {
        WatchLine::Event(event) => queue.try_send(event).is_ok(),
        WatchLine::Bookmark => true,
    };
    loop {
        if let Some(body) = body.take() {
            match read_watch(&inner, &mut place, body, &tell).await {
                WatchEnd::Lost => return,
                WatchEnd::Connection { received: true } => failures = 0,
                WatchEnd::Connection { received: false } => failures += 1,
            }
        } else {
            failures += 1;
        }
        if failures > MAX_REOPENS {
            return;
        }
        if failures > 0 {
            tokio::time::sleep(jittered_backoff(failures)).await;
        }
        match open_watch(&inner, &place).await {
            Ok(opened) => body = Some(opened),
            Err(error) => match error.retry_delay() {
                Some(pause) => tokio::time::sleep(pause).await,
                // 410 among them: the version is too old to go on from.
                None => {
                    tracing::debug!(%error, kind = place.kind.kind, "a watch ends");
                    return;
                }
            },
        }
    }
}

/// Somewhere in the upper half of a pause that doubles, so that watchers do not come back all at once.
pub(super) fn jittered_backoff(failures: u32) -> Duration {
    let most = REOPEN_BACKOFF.1.min(REOPEN_BACKOFF.0 * 2u32.saturating_pow(failures.saturating_sub(1).min(16)));
    // A random uid is all the chance that is needed here.
    let chance = uuid::Uuid::new_v4().as_u128() % 1000;
    most / 2 + most / 2 * u32::try_from(chance).unwrap_or_default() / 1000
}

#[derive(Deserialize)]
struct RawWatchEvent {
    r#type: String,
    object: Value,
}

/// Reads one connection to its end.
pub(super) async fn read_watch(
    inner: &KubeConnection,
    place: &mut WatchCursor,
    mut body: Body,
    tell: WatchLineHandler<'_>,
) -> WatchEnd {
    let mut line = Vec::new();
    let mut heard = false;
    loop {
        let frame = match tokio::time::timeout(IDLE_TIMEOUT, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(_)) | None) | Err(_) => return WatchEnd::Connection { received: heard },
        };
        let Ok(bytes) = frame.into_data() else { continue };
        let mut rest = bytes.as_ref();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (before, after) = rest.split_at(end);
            line.extend_from_slice(before);
            rest = after.get(1..).unwrap_or_default();
            if !line.iter().all(u8::is_ascii_whitespace) {
                if !handle_line(inner, place, &line, tell) {
                    return WatchEnd::Lost;
                }
                heard = true;
            }
            line.clear();
        }
        line.extend_from_slice(rest);
        if line.len() > MAX_LINE_LENGTH {
            return WatchEnd::Lost;
        }
    }
}

/// One event. False when the watch cannot go on.
fn handle_line(inner: &KubeConnection, place: &mut WatchCursor, line: &[u8], tell: WatchLineHandler<'_>) -> bool {
    let Ok(RawWatchEvent { r#type, object }) = serde_json::from_slice::<RawWatchEvent>(line) else { return false };
    let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str).map(str::to_owned);
    let heard = match r#type.as_str() {
        "BOOKMARK" => WatchLine::Bookmark,
        // An object that cannot be read is not passed over in silence: the list that follows names it.
        "ADDED" | "MODIFIED" | "DELETED" => match Object::from_value(object) {
            Ok(object) if r#type == "DELETED" => {
                inner.versions.insert_absent(object.reference().identity());
                WatchLine::Event(WatchEvent::Deleted(object))
            }
            Ok(object) => {
                inner.versions.insert_object(&object);
                WatchLine::Event(WatchEvent::Applied(object))
            }
            Err(_) => return false,
        },
        // 410 and the like.
        _ => return false,
    };
    if let Some(version) = version.filter(|version| !version.is_empty()) {
        place.resource_version = version;
    }
    tell(heard, &place.resource_version)
}
