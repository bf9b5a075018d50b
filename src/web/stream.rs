//! Server-sent events: that something changed. What changed is read again where it is shown, so that nothing is missed and no
//! event is larger than a line.

use super::access::Visitor;
use super::answer::WebRequest;
use super::request_scope::RequestScope;
use super::state::{StreamPlace, StreamPlaces, WebState};
use crate::server::Peer;
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
use tokio::sync::watch;

/// How often a stream says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often is looked whether whoever reads still may.
pub(super) const ACCESS_INTERVAL: Duration = Duration::from_secs(30);
/// How long a browser waits before it opens a stream again.
const RETRY: Duration = Duration::from_secs(3);
/// Changes that come this close together are one event.
const GATHERED: Duration = Duration::from_millis(500);

/// One open stream.
struct OpenStream {
    state: WebState,
    /// Of the request that opened it: who reads is found out again and again.
    headers: HeaderMap,
    peer: Peer,
    changes: watch::Receiver<Arc<FleetObservation>>,
    /// The version that was reported last.
    reported: u64,
    _place: StreamPlace,
}

/// Opens a stream, where there is a place for it.
pub(super) async fn open(
    state: &WebState,
    visitor: Visitor,
    question: &WebRequest<'_>,
) -> Result<Response, ProblemDetails> {
    let headers = question.headers;
    let too_many = || ProblemDetails::new(ProblemKind::TooManyStreams);
    let place = StreamPlaces::take(&state.streams, &visitor).ok_or_else(too_many)?;
    let mut changes = state.board.subscribe();
    changes.mark_unchanged();
    // Whoever comes back says what it heard last.
    let heard = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse::<u64>().ok());
    let reported = match heard {
        Some(heard) => {
            changes.mark_changed();
            heard
        }
        None => RequestScope::new(state, visitor, None).await?.observation.version,
    };
    let open = OpenStream {
        state: state.clone(),
        headers: headers.clone(),
        peer: question.peer,
        changes,
        reported,
        _place: place,
    };
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
    /// The next event, once there is one; `None` when the process ends, or whoever reads may not any more.
    async fn next_event(&mut self) -> Option<Event> {
        let ending = self.state.ending.clone();
        loop {
            let changed = tokio::select! {
                changed = tokio::time::timeout(ACCESS_INTERVAL, self.changes.changed()) => changed,
                () = ending.cancelled() => return None,
            };
            if let Ok(changed) = changed {
                changed.ok()?;
                tokio::select! {
                    () = tokio::time::sleep(GATHERED) => {}
                    () = ending.cancelled() => return None,
                }
                self.changes.mark_unchanged();
            }
            let seen = match self.look().await {
                Ok(seen) => seen,
                // Told once it is known again.
                Err(problem) if problem.of == ProblemKind::ReviewFailed => continue,
                Err(_) => return None,
            };
            if seen.version != self.reported {
                self.reported = seen.version;
                let data = json!({"version": seen.version, "asOf": seen.as_of.to_string()});
                let event = Event::default().event("changed").id(seen.version.to_string()).retry(RETRY);
                return Some(event.data(data.to_string()));
            }
        }
    }

    /// What whoever reads sees now.
    async fn look(&self) -> Result<FleetObservation, ProblemDetails> {
        let visitor = self.state.gate.visitor(&self.headers, self.peer).await?;
        Ok(RequestScope::new(&self.state, visitor, None).await?.observation)
    }
}
