//! Intents: `model.yaml` files, overlays and defaults, parsed strictly and merged, with a finding for every fault.
//!
//! Pure: takes bytes, gives values. Reading files and git trees is the work of `stator-git`.

pub mod check;
mod decode;
mod environment;
pub mod explain;
pub mod format;
pub mod lock;
mod merge;
pub mod model;
pub mod origins;
mod outline;
pub mod policy;
pub mod repository;
pub mod rules;
pub mod scaffold;
pub mod scalar;
pub mod schema;
pub mod structural;
pub mod validate;
mod workspace;
pub mod yaml;

pub use environment::EnvironmentError;
pub use origins::FieldOrigins;
pub use workspace::Workspace;

use model::Model;
use repository::{Environment, Guards, PolicyRule, Prices};
use stator_core::finding::Finding;

/// One file of a repository, or why it could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Path from the repository's root, with `/`.
    pub path: String,
    /// Its bytes, or the reason why there are none.
    pub content: Result<Vec<u8>, String>,
}

/// The files of a repository that stator looks at: `stator.yaml`, `model.yaml`, `model.<environment>.yaml`.
#[derive(Clone, Debug, Default)]
pub struct SourceTree {
    /// Sorted by path.
    pub files: Vec<SourceFile>,
}

/// One environment of a repository: its models, merged and checked.
#[derive(Clone, Debug)]
pub struct ResolvedEnvironment {
    /// Its name.
    pub name: String,
    /// Its settings.
    pub environment: Environment,
    /// The repository's name.
    pub repository: String,
    /// Models without errors, sorted by name.
    pub intents: Vec<Intent>,
    /// Models with errors: never rendered, and never pruned either.
    pub broken: Vec<BrokenIntent>,
    /// Findings of the environment's models, sorted, the workspace's included.
    pub findings: Vec<Finding>,
    /// Policy of repository and environment.
    pub policy: Vec<PolicyRule>,
    /// Prices.
    pub prices: Option<Prices>,
    /// Guards.
    pub guards: Guards,
}

/// A model, merged from its file, its overlay and all defaults, and without errors.
#[derive(Clone, Debug)]
pub struct Intent {
    /// Path of its `model.yaml` from the root.
    pub source: String,
    /// The merged model.
    pub model: Model,
    /// Where each field was written.
    pub origins: FieldOrigins,
    /// What the profiler chose, where the model has a lock that holds: the graph is rendered from it.
    pub lock: Option<Box<lock::ActiveLock>>,
}

/// A model that cannot be used. Its live objects are left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenIntent {
    /// Path of its file from the root.
    pub source: String,
    /// Its name, where that much could be read. `None`: any live model may be this one, so nothing may be pruned.
    pub name: Option<String>,
}

#[cfg(test)]
mod tests;
