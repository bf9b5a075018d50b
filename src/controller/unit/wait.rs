//! What a unit waits for between two attempts.

use super::attempt::Memory;
use super::{Head, Unit, is_ours};
use crate::controller::backoff::Backoff;
use crate::controller::cache::drift_detector::DriftSignal;
use crate::controller::sources::manual_requests::ManualRequests;
use stator_core::object::Object;
use std::time::Duration;
use tokio::sync::watch;

/// How long changes of live objects are gathered before they are looked at: one hand makes several.
const DEBOUNCE: Duration = Duration::from_millis(300);
/// The same of statuses, of which an operator writes several while a model comes up.
const STATUSES: Duration = Duration::from_secs(1);
/// How often is looked for drift where live objects cannot be watched.
const BLIND: Duration = Duration::from_secs(120);

/// What a unit hears of while it waits.
pub(super) struct Ears {
    /// The newest commit.
    pub(super) heads: watch::Receiver<Option<Head>>,
    /// What people ask for.
    pub(super) requests: watch::Receiver<ManualRequests>,
}

impl Ears {
    /// Waits until another commit is the newest, or something else is asked for than was when it was last looked at.
    async fn news(&mut self, head: &Head) {
        tokio::select! {
            _ = self.heads.wait_for(|now| now.as_ref().is_some_and(|now| now != head)) => {}
            Ok(()) = self.requests.changed() => {}
        }
    }
}

impl Unit {
    /// Waits for a newer commit, for a request, for the end, or for a while.
    pub(super) async fn change(&self, head: &Head, ears: &mut Ears, pause: Option<Duration>) {
        let pause = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.ending.cancelled() => {}
            () = ears.news(head) => {}
            () = pause => {}
        }
    }

    /// Waits as [`Unit::change`] does, or for live objects that are not as they should be, and says what was seen of those.
    /// With `health`, a status of one is such a thing.
    pub(super) async fn drifted(
        &self,
        head: &Head,
        ears: &mut Ears,
        memory: &mut Memory,
        health: bool,
        repairs: &mut Backoff,
    ) -> Option<DriftSignal> {
        let labels = memory.labels.clone();
        let ours = |object: &Object| is_ours(object, labels.as_ref());
        let blind = !memory.sentinel.is_open();
        let sight = async {
            loop {
                match memory.sentinel.next_signal(&ours).await {
                    DriftSignal::Status if !health => {}
                    sighting @ (DriftSignal::Drift | DriftSignal::Status | DriftSignal::Lost) => break sighting,
                }
            }
        };
        let sight = async {
            if blind {
                // Without a watch, looking again from time to time is all that is left.
                tokio::time::sleep(BLIND).await;
                return DriftSignal::Lost;
            }
            sight.await
        };
        let sighting = tokio::select! {
            () = self.ending.cancelled() => return None,
            () = ears.news(head) => return None,
            sighting = sight => sighting,
        };
        let pause = match sighting {
            // What is told of a look is not put back, so it cannot come back either.
            DriftSignal::Status => {
                memory.look_closely();
                STATUSES
            }
            DriftSignal::Drift | DriftSignal::Lost => {
                if sighting == DriftSignal::Drift {
                    tracing::info!(source = %self.source.key, revision = head.short(), "live objects were changed");
                }
                let pause = if repairs.attempts() == 0 { DEBOUNCE } else { DEBOUNCE.max(repairs.next_pause()) };
                let _ = repairs.next_pause();
                pause
            }
        };
        self.change(head, ears, Some(pause)).await;
        Some(sighting)
    }
}
