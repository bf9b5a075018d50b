//! Server-sent events: that something changed. What changed is read again where it is shown, so that nothing is missed and no
//! event is larger than a line.

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::{HeaderMap, HeaderName, header};
use serde_json::json;
use stator_view::observation::FleetObservation;
use stator_view::problem::{ProblemDetails, ProblemKind};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

/// Streams at a time.
pub(super) const MAX_STREAMS: usize = 128;
/// How often a stream says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long a browser waits before it opens a stream again.
const RETRY: Duration = Duration::from_secs(3);
/// Changes that come this close together are one event.
const GATHERED: Duration = Duration::from_millis(500);

/// One open stream.
struct OpenStream {
    observations: watch::Receiver<Arc<FleetObservation>>,
    /// The version that was told last; `None` where the first event is still to come.
    told: Option<u64>,
    ending: CancellationToken,
    _place: OwnedSemaphorePermit,
}

/// Opens a stream, where there is a place for it.
pub(super) fn open(
    observations: watch::Receiver<Arc<FleetObservation>>,
    places: &Arc<Semaphore>,
    headers: &HeaderMap,
    ending: CancellationToken,
) -> Result<Response, ProblemDetails> {
    let place = Arc::clone(places).try_acquire_owned().map_err(|_| ProblemDetails::new(ProblemKind::TooManyStreams))?;
    // Whoever comes back says what it heard last.
    let heard = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse::<u64>().ok());
    let told = heard.or_else(|| Some(observations.borrow().version));
    let open = OpenStream { observations, told, ending, _place: place };
    let events = stream::unfold(open, |mut open| async move {
        let event = open.next_event().await?;
        Some((Ok::<_, Infallible>(event), open))
    });
    let mut response = Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response();
    super::answer::insert(&mut response, header::CACHE_CONTROL, "no-store");
    super::answer::insert(&mut response, HeaderName::from_static("x-accel-buffering"), "no");
    Ok(response)
}

impl OpenStream {
    /// The next event, once there is one; `None` when the process ends.
    async fn next_event(&mut self) -> Option<Event> {
        loop {
            let observation = Arc::clone(&self.observations.borrow_and_update());
            if self.told != Some(observation.version) {
                tokio::select! {
                    () = tokio::time::sleep(GATHERED) => {}
                    () = self.ending.cancelled() => return None,
                }
                let observation = Arc::clone(&self.observations.borrow_and_update());
                self.told = Some(observation.version);
                let data = json!({"version": observation.version, "asOf": observation.as_of.to_string()});
                let event = Event::default().event("changed").id(observation.version.to_string()).retry(RETRY);
                return Some(event.data(data.to_string()));
            }
            tokio::select! {
                changed = self.observations.changed() => changed.ok()?,
                () = self.ending.cancelled() => return None,
            }
        }
    }
}
