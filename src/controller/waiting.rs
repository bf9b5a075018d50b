//! What tasks wait with: random parts of delays, sleeps that may have no end, and values that change.

use stator_cluster::random::random_bits;
use stator_core::retry;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// An interval, shortened by a random part of up to a tenth: see [`retry::jittered`].
pub(in crate::controller) fn jittered(interval: Duration) -> Duration {
    retry::jittered(interval, random_bits())
}

/// Waits for a future; for ever where there is none.
pub(in crate::controller) async fn or_pending<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Sleeps until a moment; for ever where there is none.
pub(in crate::controller) async fn sleep_until_some(moment: Option<Instant>) {
    or_pending(moment.map(tokio::time::sleep_until)).await;
}

/// Sleeps for a while; for ever where there is none.
pub(crate) async fn sleep_for_some(duration: Option<Duration>) {
    or_pending(duration.map(tokio::time::sleep)).await;
}

/// Waits until there is a newer value; for ever where there is no receiver, or nobody who sends.
pub(in crate::controller) async fn wait_for_change<T>(receiver: Option<&mut watch::Receiver<T>>) {
    if or_pending(receiver.map(watch::Receiver::changed)).await.is_err() {
        std::future::pending().await
    }
}

/// Sends a value to those who wait for another one, if it is another one.
pub(in crate::controller) fn send_if_new<T: PartialEq>(sender: &watch::Sender<T>, value: T) {
    sender.send_if_modified(|known| {
        let is_new = *known != value;
        *known = value;
        is_new
    });
}
