//! Sync windows that close and open again: what waits for them, and that it goes on by itself.

use super::asked::Room;
use super::{fleet, head, scale};
use jiff::Timestamp;
use stator::controller::sources::manual_requests::{ALLOW, REQUESTED_AT_ANNOTATION};
use stator::controller::sources::registry::SourcePhase;
use stator::controller::sources::sync_windows::WindowClock;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Open from ten to eleven each evening, by UTC.
const EVENINGS: &str = "  windows: [{kind: allow, schedule: '0 22 * * *', duration: 1h}]\n";
const OPEN: &str = "22:10:00Z";
const CLOSED: &str = "23:30:00Z";
/// The window opens by itself while somebody waits.
const ABOUT_TO_OPEN: &str = "21:59:59Z";

/// A clock that stands where it was put until it is let go on.
#[derive(Clone)]
pub(super) struct MovedClock(Arc<Mutex<ShownTime>>);

#[derive(Clone, Copy)]
enum ShownTime {
    Stands(Timestamp),
    /// It shows the first once, and stands at the second from then on.
    Leaps(Timestamp, Timestamp),
    GoesOn(Timestamp, Instant),
}

impl MovedClock {
    pub(super) fn at(day: u32, time: &str) -> Self {
        Self(Arc::new(Mutex::new(ShownTime::Stands(moment(day, time)))))
    }

    pub(super) fn put(&self, day: u32, time: &str) {
        *self.0.lock().unwrap() = ShownTime::Stands(moment(day, time));
    }

    /// As if whoever reads it next took long.
    pub(super) fn leap(&self, day: u32, from: &str, to: &str) {
        *self.0.lock().unwrap() = ShownTime::Leaps(moment(day, from), moment(day, to));
    }

    pub(super) fn goes_on(&self) {
        let from = self.window_clock().now();
        *self.0.lock().unwrap() = ShownTime::GoesOn(from, Instant::now());
    }

    pub(super) fn window_clock(&self) -> WindowClock {
        let clock = self.clone();
        WindowClock::new(move || {
            let mut shown = clock.0.lock().unwrap();
            match *shown {
                ShownTime::Stands(at) => at,
                ShownTime::Leaps(at, next) => {
                    *shown = ShownTime::Stands(next);
                    at
                }
                ShownTime::GoesOn(from, since) => from + since.elapsed(),
            }
        })
    }
}

pub(super) fn moment(day: u32, time: &str) -> Timestamp {
    format!("2026-11-{day:02}T{time}").parse().unwrap()
}

/// Asks for a sync, which no closed window lets through, and waits until that is said.
async fn ask_in_vain(room: &Room, request: &str) {
    room.ask(&[(REQUESTED_AT_ANNOTATION, request)]);
    room.stands("no window is open", |state| {
        state.handled_request.as_deref() == Some(request)
            && state.phase == SourcePhase::WindowClosed
            && state.rejected_requests.iter().any(|text| text.contains("no sync window is open"))
    })
    .await;
}

/// Lets the window open a moment after it was looked at.
async fn open_soon(room: &Room, clock: &MovedClock, day: u32, request: &str) {
    clock.put(day, ABOUT_TO_OPEN);
    ask_in_vain(room, request).await;
    clock.goes_on();
}

/// Row E1 of the review: drift was put back while the window was closed, when the newest commit had a broken model.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_and_commits_wait_for_the_window_whatever_the_commit_is_like() {
    let clock = MovedClock::at(16, OPEN);
    let room = Room::at(clock.window_clock(), fleet(2), EVENINGS).await;
    room.synced(&head(&room.bench)).await;
    room.bench.replace("models/mock-0/model.yaml", "engine: mocker", "engine: steam");
    let broken = scale(&room.bench, 1, 4);
    room.stands("the broken commit is judged", |state| {
        state.verdict.as_ref().is_some_and(|verdict| verdict.revision == broken) && state.phase == SourcePhase::Idle
    })
    .await;
    assert!(room.graph("mock-1").contains("replicas: 4"));

    // Closed: neither what the commit covers nor what the last good one does is put back.
    clock.put(16, CLOSED);
    room.edit("mock-0", "replicas: 2", "replicas: 7");
    room.edit("mock-1", "replicas: 4", "replicas: 9");
    room.stands("it waits", |state| state.phase == SourcePhase::WindowClosed).await;
    ask_in_vain(&room, "1").await;
    assert!(room.graph("mock-0").contains("replicas: 7") && room.graph("mock-1").contains("replicas: 9"));

    // It opens, and nobody has to push or to ask.
    open_soon(&room, &clock, 17, "2").await;
    room.until("the broken model is as the last good commit has it", || {
        room.graph("mock-0").contains("replicas: 2") && room.graph("mock-1").contains("replicas: 4")
    })
    .await;
    assert!(clock.window_clock().now() >= moment(17, "22:00:00Z"));

    // A commit that comes while it is closed waits as well.
    clock.put(17, CLOSED);
    room.bench.replace("models/mock-0/model.yaml", "engine: steam", "engine: mocker");
    let fixed = scale(&room.bench, 0, 5);
    room.stands("the commit waits", |state| {
        state.phase == SourcePhase::WindowClosed && state.seen.as_ref().is_some_and(|seen| seen.commit == fixed)
    })
    .await;
    ask_in_vain(&room, "3").await;
    assert!(room.graph("mock-0").contains("replicas: 2"));
    open_soon(&room, &clock, 18, "4").await;
    room.synced(&fixed).await;
    assert!(clock.window_clock().now() >= moment(18, "22:00:00Z"));
    assert!(room.graph("mock-0").contains("replicas: 5"));
    room.is_settled();
    room.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_releases_what_a_guard_holds_and_opens_no_window() {
    let clock = MovedClock::at(16, OPEN);
    let room = Room::at(clock.window_clock(), fleet(7), EVENINGS).await;
    room.synced(&head(&room.bench)).await;
    clock.put(16, CLOSED);
    for number in 1..7 {
        room.bench.remove(&format!("models/mock-{number}"));
    }
    let removal = room.bench.commit("remove most");
    room.stands("the commit waits", |state| {
        state.phase == SourcePhase::WindowClosed && state.seen.as_ref().is_some_and(|seen| seen.commit == removal)
    })
    .await;
    let approval = format!("mass-delete@{removal}:{}", "0".repeat(64));
    room.ask(&[(ALLOW, &approval), (REQUESTED_AT_ANNOTATION, "1")]);
    room.stands("the approval opens no window", |state| {
        state.handled_request.as_deref() == Some("1") && state.phase == SourcePhase::WindowClosed
    })
    .await;
    assert_eq!(room.graphs(), 7);

    // Taken back before the window opens, it releases nothing.
    open_soon(&room, &clock, 17, "2").await;
    let held =
        room.stands("the guard holds it", |state| state.hold.is_some() && state.phase == SourcePhase::Idle).await;
    let approval = held.hold.unwrap().approval_annotation();
    assert_eq!(room.graphs(), 7);
    clock.put(17, CLOSED);
    room.ask(&[(ALLOW, &approval), (REQUESTED_AT_ANNOTATION, "3")]);
    room.stands("it is closed again", |state| state.phase == SourcePhase::WindowClosed).await;
    assert_eq!(room.graphs(), 7);
    clock.put(18, ABOUT_TO_OPEN);
    clock.goes_on();
    room.ask(&[(ALLOW, &approval), (REQUESTED_AT_ANNOTATION, "4")]);
    room.synced(&removal).await;
    assert!(clock.window_clock().now() >= moment(18, "22:00:00Z"));
    assert_eq!(room.graphs(), 1);
    room.is_settled();
    room.end().await;
}
