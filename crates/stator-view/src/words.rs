//! How statuses are shown by a word and by a shape, so that no colour is needed, and what the schema says of them.

use schemars::{Schema, SchemaGenerator, json_schema};
use stator_core::dynamo::health::Health;
use stator_model::plan::{Disruption, SyncState};

/// Every health, from worst to best, as lists are sorted.
pub(crate) const HEALTHS: [Health; 6] =
    [Health::Failed, Health::Degraded, Health::Unknown, Health::Progressing, Health::Suspended, Health::Healthy];

/// Every sync state, from worst to best.
pub(crate) const SYNC_STATES: [SyncState; 4] =
    [SyncState::Blocked, SyncState::OutOfSync, SyncState::Unknown, SyncState::Synced];

/// The shape of a health.
pub(crate) fn health_shape(health: Health) -> &'static str {
    match health {
        Health::Healthy => "✔",
        Health::Suspended => "‖",
        Health::Progressing => "◌",
        Health::Unknown => "?",
        Health::Degraded => "▲",
        Health::Failed => "✖",
    }
}

/// The shape of a sync state.
pub(crate) fn sync_shape(sync: SyncState) -> &'static str {
    match sync {
        SyncState::Synced => "=",
        SyncState::OutOfSync => "≠",
        SyncState::Blocked => "⊘",
        SyncState::Unknown => "?",
    }
}

/// The place of a health among [`HEALTHS`]: 0 is the worst.
pub(crate) fn health_rank(health: Health) -> u64 {
    HEALTHS.iter().position(|one| *one == health).and_then(|at| u64::try_from(at).ok()).unwrap_or_default()
}

/// The place of a sync state among [`SYNC_STATES`]: 0 is the worst.
pub(crate) fn sync_rank(sync: SyncState) -> u64 {
    SYNC_STATES.iter().position(|one| *one == sync).and_then(|at| u64::try_from(at).ok()).unwrap_or_default()
}

/// The place of a disruption among all: 0 is harmless.
pub(crate) fn disruption_rank(disruption: Disruption) -> u64 {
    Disruption::ALL.iter().position(|one| *one == disruption).and_then(|at| u64::try_from(at).ok()).unwrap_or_default()
}

/// The schema of a health.
pub(crate) fn health_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": HEALTHS.map(Health::as_str)})
}

/// The schema of a sync state.
pub(crate) fn sync_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": SYNC_STATES.map(SyncState::as_str)})
}
