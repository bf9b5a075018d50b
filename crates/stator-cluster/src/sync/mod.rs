//! Carrying a plan out: apply, prune, wait for health.
//!
//! [`machine`] is the whole of the logic and has no I/O: events go in, effects come out, and time and chance are in
//! the events. [`run_sync`] drives it against a cluster. [`gather()`] reads what a plan needs to know of a cluster.

pub mod desired;
pub mod gather;
pub mod incremental;
mod journal_write;
mod list_scope;
mod live_lists;
mod lost_settings;
pub mod machine;
mod record_write;
mod runner;
mod server_dry_runs;
mod statuses;
#[cfg(test)]
mod tests;
mod upgrade;

pub use desired::{DesiredState, PlanParameters};
pub use gather::{GatheredState, environment_labels, find_strays, gather};
pub use list_scope::ListScope;
pub use live_lists::GatherError;
pub use lost_settings::refuse_lost_settings;
pub use machine::SyncApproval;
pub use runner::{SyncOptions, run_sync};
pub use server_dry_runs::{answer_open_questions, build_explained_plan, refused_applies};
pub use statuses::{EnvironmentStatus, ask_frontends, list_pods, read_environment_status};
pub use upgrade::UpgradedEnvironment;

use serde::Serialize;
use stator_core::object::ObjectRef;
use stator_core::outcome::SyncOutcome;
use std::fmt;

/// How a sync ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncReport {
    /// Each model of the plan, sorted by name.
    pub models: Vec<ModelOutcome>,
    /// How many writes the cluster carried out, those of records included. Zero when nothing changed.
    pub writes: usize,
    /// Whether the overall timeout ended it.
    pub timed_out: bool,
    /// Whether it was cancelled.
    pub cancelled: bool,
}

impl SyncReport {
    /// True when every model ended well.
    pub fn is_success(&self) -> bool {
        !self.timed_out && !self.cancelled && self.models.iter().all(|model| model.result.is_success())
    }
}

/// How one model ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelOutcome {
    /// The model's name.
    pub name: String,
    /// How it ended.
    pub result: SyncOutcome,
    /// Why, in a sentence or a few; empty when there is nothing to say.
    pub message: String,
    /// Objects created or changed.
    pub applied: usize,
    /// Objects deleted.
    pub pruned: usize,
}

/// What a sync tells while it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum SyncProgress {
    /// An object was created or changed.
    Applied {
        /// The model.
        model: String,
        /// The object.
        object: ObjectRef,
    },
    /// An object was deleted.
    Deleted {
        /// The model.
        model: String,
        /// The object.
        object: ObjectRef,
    },
    /// A call failed and is tried again.
    Retrying {
        /// The model.
        model: String,
        /// What failed.
        message: String,
    },
    /// Health is waited for. Told again whenever the reason changes.
    Waiting {
        /// The model.
        model: String,
        /// What for.
        reason: WaitingReason,
    },
    /// A model is through.
    Finished(ModelOutcome),
}

/// What a model waits for, in a sentence that begins with an object where it is about one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitingReason {
    /// The first object that is waited for; `None` when the details name theirs.
    pub object: Option<ObjectRef>,
    /// What is waited for of it, with the component, and then of others.
    pub details: String,
}

impl fmt::Display for WaitingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.object {
            Some(object) => write!(f, "{object}: {}", self.details),
            None => f.write_str(&self.details),
        }
    }
}

/// Why a running sync is to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// Somebody pressed Ctrl-C, or the process is to end.
    Interrupted,
    /// A newer revision is to be synced in its place.
    Superseded {
        /// The newer commit.
        revision: String,
    },
}
