//! Whether an apply wrote anything, which an API server does not say.

use super::resource_versions::KnownVersion;
use crate::cluster::ApplyOutcome;
use serde_json::Value;
use std::time::Duration;

/// What an apply did to an object that was there: see [`super::seen`].
pub(super) fn infer_outcome(
    before: &KnownVersion,
    after: &KnownVersion,
    (manager, subresource): (&str, &str),
    date: Option<jiff::Timestamp>,
    took: Duration,
) -> ApplyOutcome {
    let (KnownVersion::Present { resource_version: old, .. }, KnownVersion::Present { resource_version: new, .. }) =
        (before, after)
    else {
        return ApplyOutcome::Updated;
    };
    if old == new {
        return ApplyOutcome::Unchanged;
    }
    let (was, is) = (before.applied_at(manager, subresource), after.applied_at(manager, subresource));
    if was != is {
        return ApplyOutcome::Updated;
    }
    let Some(is) = is else { return ApplyOutcome::Unchanged };
    // The same time as before: nothing of ours was written, unless both applies fall into one second. A time from
    // before this request began, by the server's own clock, settles it.
    let began = date.and_then(|date| date.checked_sub(took + Duration::from_secs(2)).ok());
    match (is.parse::<jiff::Timestamp>(), began) {
        (Ok(is), Some(began)) if is < began => ApplyOutcome::Unchanged,
        (Ok(_) | Err(_), Some(_) | None) => ApplyOutcome::Updated,
    }
}

/// Whether two answers hold the same object, the times of managers aside.
pub(super) fn equal_ignoring_times(a: &Value, b: &Value) -> bool {
    let plain = |value: &Value| {
        let mut value = value.clone();
        let entries = value.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten() {
            if let Some(entry) = entry.as_object_mut() {
                entry.remove("time");
            }
        }
        value
    };
    plain(a) == plain(b)
}
