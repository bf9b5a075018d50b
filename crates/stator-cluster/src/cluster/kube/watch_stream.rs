//! Watches that survive their connections: each is opened again at the last resource version that was seen, bookmarks
//! included, and gives up with [`WatchEvent::Resync`] only when events are lost for certain.

use super::api_client::{self, ApiPayload, ApiUrl};
use super::api_error::{self, ApiCall};
use super::connection::KubeConnection;
use super::paged_list;
use crate::cluster::{ClusterError, WatchEvent, WatchReceiver, WatchSender, watch_queue};
use crate::random::random_bits;
use ::kube::client::Body;
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::Method;
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::Value;
use stator_core::dynamo::kinds::ObjectKind;
use stator_core::fields::PackedObject;
use stator_core::object::Object;
use stator_core::retry::Backoff;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};
use tokio_util::io::StreamReader;

/// The longest event: an object is at most 3 MiB.
const MAX_LINE_LENGTH: usize = 16 << 20;
/// A watch without a word for so long is dead: the server sends a bookmark every minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(150);
/// How often in a row a watch is opened again before the caller has to list, and so sees what is wrong.
const MAX_REOPENS: u32 = 6;
/// The longest delay before the first of these, and before any.
const FIRST_REOPEN_DELAY: Duration = Duration::from_millis(250);
const MAX_REOPEN_DELAY: Duration = Duration::from_secs(10);

/// Where a watch stands.
pub(super) struct WatchCursor {
    pub(super) kind: ObjectKind,
    pub(super) namespace: Option<String>,
    /// What the objects carry that it tells of; all, where empty.
    pub(super) labels: BTreeMap<String, String>,
    pub(super) resource_version: String,
}

impl WatchCursor {
    fn advance(&mut self, version: &str) {
        if !version.is_empty() {
            version.clone_into(&mut self.resource_version);
        }
    }
}

/// The receiver of a watch. Breaks when it is closed.
pub(super) type WatchListener<'a> = &'a (dyn Fn(WatchUpdate) -> ControlFlow<()> + Send + Sync);

/// Opens the watches and leaves a task behind that follows them until the receiver is dropped.
pub(super) async fn start_watches(
    inner: &Arc<KubeConnection>,
    kinds: &[ObjectKind],
    namespace: Option<&str>,
) -> Result<WatchReceiver, ClusterError> {
    let (queue, receiver) = watch_queue();
    let mut feeds = JoinSet::new();
    for kind in kinds {
        let resource_version = match paged_list::latest_resource_version(inner, kind, namespace).await {
            Ok(resource_version) => resource_version,
            // There is nothing of a kind that is not served, and so nothing to hear of.
            Err(ClusterError::UnknownKind { .. }) => continue,
            // Whoever needs such a kind has listed it before, and knows.
            Err(ClusterError::Forbidden { .. }) if !kind.is_required() => continue,
            Err(error) => return Err(error),
        };
        let place = WatchCursor {
            kind: *kind,
            namespace: namespace.map(str::to_owned),
            labels: BTreeMap::new(),
            resource_version,
        };
        let body = open_watch(inner, &place).await?;
        feeds.spawn(follow_watch(inner.clone(), place, body, queue.clone()));
    }
    tokio::spawn(async move {
        tokio::select! {
            () = queue.closed() => return,
            Some(_) = feeds.join_next() => {}
        }
        feeds.shutdown().await;
        queue.lose();
    });
    Ok(receiver)
}

/// Opens one watch where it stands.
async fn open_watch(inner: &KubeConnection, place: &WatchCursor) -> Result<Body, ClusterError> {
    let WatchCursor { kind, namespace, labels, resource_version } = place;
    let seconds = inner.options.deadlines.watch.as_secs().max(1);
    let url = ApiUrl::of_kind(kind, namespace.as_deref())
        .query("watch", "true")
        .query("allowWatchBookmarks", "true")
        .query("resourceVersion", resource_version)
        .query("timeoutSeconds", &seconds.to_string());
    let url = paged_list::select_labels(url, labels);
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
    let asked = ApiCall::on_kind("watch", kind, namespace.as_deref());
    Err(api_error::to_cluster_error(&asked, &answer, &[]))
}

/// Why reading a watch ended.
enum WatchEnd {
    /// The connection is over, as connections are; it goes on at the next.
    Connection {
        /// Whether anything came.
        received: bool,
    },
    /// Events are lost, or nobody listens any more.
    Lost,
}

/// Follows one kind into a queue, until events are lost for certain.
async fn follow_watch(inner: Arc<KubeConnection>, mut cursor: WatchCursor, body: Body, queue: WatchSender) {
    let forward = |update: WatchUpdate| match update {
        WatchUpdate::Event(event, _) => {
            queue.send(event);
            if queue.is_closed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        WatchUpdate::Bookmark(_)
        | WatchUpdate::WatchOpened
        | WatchUpdate::WatchFailed(_)
        | WatchUpdate::ListStarted(_)
        | WatchUpdate::Listed(_)
        | WatchUpdate::ListComplete
        | WatchUpdate::ListFailed(_) => ControlFlow::Continue(()),
    };
    watch_until_lost(&inner, &mut cursor, Some(body), &forward).await;
}

/// Watches from the cursor on, over as many connections as that takes; `opened` is the first of them where it is open
/// already. Returns when events are lost for certain, when the server stays away, or when nobody listens any more.
pub(super) async fn watch_until_lost(
    inner: &KubeConnection,
    cursor: &mut WatchCursor,
    mut opened: Option<Body>,
    on_update: WatchListener<'_>,
) {
    let mut backoff = reopen_backoff();
    loop {
        let opening = match opened.take() {
            Some(body) => Ok(body),
            None => open_watch(inner, cursor).await,
        };
        match opening {
            Ok(body) => {
                if on_update(WatchUpdate::WatchOpened).is_break() {
                    return;
                }
                match read_watch(inner, cursor, body, on_update).await {
                    WatchEnd::Lost => return,
                    WatchEnd::Connection { received: true } => {
                        backoff.reset();
                        continue;
                    }
                    WatchEnd::Connection { received: false } => {}
                }
            }
            Err(error) => {
                tracing::debug!(%error, kind = cursor.kind.kind, "a watch is not opened");
                let delay = error.retry_delay();
                // 410 among what cannot pass: the version is too old to go on from.
                let (ControlFlow::Continue(()), Some(delay)) = (on_update(WatchUpdate::WatchFailed(error)), delay)
                else {
                    return;
                };
                tokio::time::sleep(delay).await;
            }
        }
        if backoff.attempts() >= MAX_REOPENS {
            return;
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
}

/// The delays between attempts to open a watch, or to list anew where watches on_update nothing.
pub(super) fn reopen_backoff() -> Backoff {
    Backoff::new(FIRST_REOPEN_DELAY, MAX_REOPEN_DELAY, random_bits())
}

/// Reads one connection to its end.
async fn read_watch(
    inner: &KubeConnection,
    cursor: &mut WatchCursor,
    body: Body,
    on_update: WatchListener<'_>,
) -> WatchEnd {
    let bytes = StreamReader::new(body.into_data_stream().map_err(std::io::Error::other));
    let mut lines = FramedRead::new(bytes, LinesCodec::new_with_max_length(MAX_LINE_LENGTH));
    let mut received = false;
    loop {
        let line = match tokio::time::timeout(IDLE_TIMEOUT, lines.next()).await {
            Ok(Some(Ok(line))) => line,
            Ok(Some(Err(LinesCodecError::MaxLineLengthExceeded))) => return WatchEnd::Lost,
            // No UTF-8: the next connection would bring the same.
            Ok(Some(Err(LinesCodecError::Io(error)))) if error.kind() == ErrorKind::InvalidData => {
                return WatchEnd::Lost;
            }
            Ok(Some(Err(LinesCodecError::Io(_))) | None) | Err(_) => return WatchEnd::Connection { received },
        };
        if line.trim().is_empty() {
            continue;
        }
        let event = match serde_json::from_str(&line) {
            Ok(event) => event,
            // The connection broke off within it.
            Err(error) if error.is_eof() => return WatchEnd::Connection { received },
            Err(_) => return WatchEnd::Lost,
        };
        if handle_event(inner, cursor, event, on_update).is_break() {
            return WatchEnd::Lost;
        }
        received = true;
    }
}

/// One line of a watch. `kube`'s type wants `type` first in it, as `fieldsV1` is kept as text.
#[derive(Deserialize)]
struct RawWatchEvent {
    r#type: String,
    object: PackedObject,
}

/// One event. Breaks when the watch cannot go on.
fn handle_event(
    inner: &KubeConnection,
    cursor: &mut WatchCursor,
    RawWatchEvent { r#type, object: PackedObject(object) }: RawWatchEvent,
    on_update: WatchListener<'_>,
) -> ControlFlow<()> {
    let to_event: fn(Object) -> WatchEvent = match r#type.as_str() {
        "ADDED" | "MODIFIED" => WatchEvent::Applied,
        "DELETED" => WatchEvent::Deleted,
        "BOOKMARK" => {
            let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
            cursor.advance(version);
            return on_update(WatchUpdate::Bookmark(cursor.resource_version.clone()));
        }
        // 410 and the like.
        _ => return ControlFlow::Break(()),
    };
    // An object that cannot be read is not passed over in silence: the list that follows names it.
    let Ok(object) = Object::from_value(object) else { return ControlFlow::Break(()) };
    cursor.advance(object.resource_version().unwrap_or_default());
    let event = to_event(object);
    match &event {
        WatchEvent::Applied(object) => inner.versions.insert_object(object),
        WatchEvent::Deleted(object) if cursor.labels.is_empty() => {
            inner.versions.insert_absent(object.reference().identity());
        }
        // One that lost a label that the watch asks for is there still.
        WatchEvent::Deleted(object) => inner.versions.forget(&object.reference().identity()),
        WatchEvent::Resync => {}
    }
    on_update(WatchUpdate::Event(event, cursor.resource_version.clone()))
}

/// One update of a kind. Versions are resource versions.
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
    /// The watch is open: everything is reported as it happens.
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

/// The receiver.
pub type WatchUpdateHandler<'a> = &'a (dyn Fn(WatchUpdate) + Send + Sync);
