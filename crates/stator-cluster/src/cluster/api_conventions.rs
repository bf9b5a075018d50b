//! What an API server does with objects, and so every implementation of a cluster that plays one: how times are
//! written, when generations count.

use serde_json::{Map, Value, json};

/// RFC 3339 in UTC with whole seconds.
pub(super) fn format_time(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Counts a change of an object's main part. One whose kind has no generations gets none.
pub(super) fn increment_generation(metadata: &mut Map<String, Value>) {
    if let Some(generation) = metadata.get_mut("generation")
        && let Some(number) = generation.as_i64()
    {
        *generation = json!(number.saturating_add(1));
    }
}
