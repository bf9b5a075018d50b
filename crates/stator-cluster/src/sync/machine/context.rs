//! What a model sees of the sync around it.

use super::protocol::MachineSettings;
use std::time::Duration;

/// Whether a model may prune.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PruneBarrier {
    /// Others still have something to apply that goes first, or what takes the model's place has.
    Closed,
    /// It may.
    Open,
    /// What takes the model's place could not be applied: nothing of the model is pruned in this sync, and why.
    Blocked(String),
}

/// Whether a model may create what no record names yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JournalGate {
    /// A journal names it.
    Open,
    /// The journal is being written.
    Closed,
    /// The journal could not be written, and why.
    Failed(String),
}

/// What a model may look at of the sync around it.
pub(super) struct SyncContext<'a> {
    pub(super) settings: &'a MachineSettings,
    pub(super) now: Duration,
    pub(super) barrier: &'a PruneBarrier,
    /// Whether the model may create what no record names yet.
    pub(super) journal: &'a JournalGate,
    /// Whether it is the turn of records: those follow when no model has anything else to do.
    pub(super) is_record_turn: bool,
}

/// A duration as people say it: `90s`, `5m`, `30m`.
pub(super) fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        _ if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        _ if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

/// The longest delay before the first retry of a call that failed in a way that may pass.
pub(super) const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);
/// The longest delay before any later one.
pub(super) const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
