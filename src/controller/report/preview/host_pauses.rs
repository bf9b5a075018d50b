//! How long previews leave a git host alone after what it answered.

use crate::controller::waiting::jittered;
use stator_cluster::random::random_bits;
use stator_core::retry::backoff_delay;
use stator_git::forge::{ForgeError, RetryAdvice};
use std::time::Duration;

/// Pauses after a failure.
const INITIAL_BACKOFF: Duration = Duration::from_secs(5);
const MAX_BACKOFF: Duration = Duration::from_secs(600);
/// Pauses after a refusal: somebody has to grant a right, or to unlock something.
const FIRST_REFUSAL_PAUSE: Duration = Duration::from_secs(120);
const LONGEST_REFUSAL_PAUSE: Duration = Duration::from_secs(3600);
pub(super) fn backoff_pause(failures: u32) -> Duration {
    backoff_delay(INITIAL_BACKOFF, MAX_BACKOFF, failures, random_bits())
}

pub(super) fn refusal_pause(failures: u32) -> Duration {
    backoff_delay(FIRST_REFUSAL_PAUSE, LONGEST_REFUSAL_PAUSE, failures.saturating_sub(1), random_bits())
}

/// Whether the host answered that it may not be, and says the same until somebody changes something.
pub(super) fn is_refusal(error: &ForgeError) -> bool {
    matches!(error, ForgeError::Unauthorized { .. }) || is_refusal_of_one(error)
}

/// Whether that may be so of one pull request alone: it is locked, or its repository is archived.
pub(super) fn is_refusal_of_one(error: &ForgeError) -> bool {
    matches!(error, ForgeError::Forbidden { .. } | ForgeError::Closed { .. })
}

/// How long to leave a host alone after an error.
pub(super) fn pause_after_error(error: &ForgeError, failures: &mut u32) -> Duration {
    *failures = failures.saturating_add(1);
    match error.retry_advice() {
        _ if is_refusal(error) => refusal_pause(*failures),
        RetryAdvice::After(pause) => pause + jittered(INITIAL_BACKOFF),
        RetryAdvice::Soon if matches!(error, ForgeError::Unavailable { .. }) => backoff_pause(*failures),
        // One conversation that says no is no reason to leave the others.
        RetryAdvice::Soon | RetryAdvice::Never => Duration::ZERO,
    }
}
