//! What tasks wait with: random parts of delays, and sleeps that may have no end.

use stator_cluster::random::random_bits;
use stator_core::retry;
use std::time::Duration;
use tokio::time::Instant;

/// An interval, shortened by a random part of up to a tenth: see [`retry::jittered`].
pub(in crate::controller) fn jittered(interval: Duration) -> Duration {
    retry::jittered(interval, random_bits())
}

/// Sleeps until a moment; for ever where there is none.
pub(in crate::controller) async fn sleep_until_some(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Sleeps for a while; for ever where there is none.
pub(crate) async fn sleep_for_some(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}
