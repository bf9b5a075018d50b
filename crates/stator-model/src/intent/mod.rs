//! Intents: `model.yaml` files, overlays and defaults, parsed strictly and merged, with a finding for every problem.
//!
//! Pure: takes bytes, gives values. Reading files and git trees is the work of `stator-git`.

pub mod check;
pub mod cursor;
mod decode;
mod environment;
pub mod explain;
pub mod field_at;
mod field_words;
mod file_role;
pub mod format;
mod git_secrets;
mod globs;
mod list_edit;
pub mod lock;
mod manifests;
mod merge;
pub mod model;
mod mounted_files;
pub mod origins;
mod patterns;
pub mod policy;
pub mod repository;
pub mod rules;
pub mod scaffold;
pub mod scalar;
pub mod schema;
mod schema_tree;
mod shape;
mod shared_routes;
pub mod structural;
pub mod validate;
mod workspace;
pub mod yaml;

pub use environment::EnvironmentError;
pub use file_role::FileRole;
pub(crate) use globs::PathGlobs;
pub use manifests::ManifestObject;
pub(crate) use manifests::read_manifests;
pub use mounted_files::{MAX_MOUNTED_FILES, named_files};
pub use origins::FieldOrigins;
pub use schema_tree::{AllowedValue, DocumentKind, SchemaTree};
pub use workspace::Workspace;

use decode::decode;
use model::Model;
use origins::FileNames;
use repository::{Environment, Guards, PolicyRule, Prices};
use scalar::ModelName;
use stator_core::finding::Finding;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use yaml::PackedNode;

/// One file of a repository, or why it could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Path from the repository's root, with `/`.
    pub path: String,
    /// Its bytes, or the reason why there are none. The same file at many paths, and in many commits, is there once.
    pub content: Result<Arc<[u8]>, String>,
}

/// The files of a repository that stator looks at: `stator.yaml`, `model.yaml`, `model.<environment>.yaml`, and files of
/// nearly these names.
#[derive(Clone, Debug, Default)]
pub struct SourceTree {
    /// Sorted by path.
    pub files: Vec<SourceFile>,
    /// Folder of a `model.yaml` → the files that its model may mount ([`named_files`]), sorted by path.
    pub mounted_files: BTreeMap<String, Vec<SourceFile>>,
    /// What may hold more of them and is not looked into. Sorted by path.
    pub unread: Vec<UnreadPlace>,
    /// Folders whose models are there and whose files are left out here, as nothing of them changed.
    pub omitted_folders: BTreeSet<String>,
}

/// How much there is to read of a repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSize {
    /// Files, at each of their paths.
    pub files: usize,
    /// Bytes of their content and of their paths.
    pub bytes: usize,
}

impl SourceTree {
    /// How much there is to read.
    pub fn size(&self) -> TreeSize {
        let files = self.files.iter().chain(self.mounted_files.values().flatten());
        files.fold(TreeSize::default(), |sum, file| {
            let content = file.content.as_ref().map_or(0, |content| content.len());
            TreeSize { files: sum.files + 1, bytes: sum.bytes + file.path.len() + content }
        })
    }
}

/// A file or folder of a repository that may hold models and is not read: a model that is recorded there must not look
/// removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnreadPlace {
    /// Path from the repository's root, with `/`.
    pub path: String,
    /// Why it is not read.
    pub cause: UnreadCause,
}

/// Why something that may hold models is not read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnreadCause {
    /// A submodule: its files are another repository's.
    Submodule,
    /// A symbolic link, which may lead anywhere.
    SymbolicLink,
    /// A file whose name is nearly that of a model's file.
    Misnamed {
        /// The name that it would need.
        meant: String,
        /// The model's name, where the file says that it is one.
        model: Option<String>,
    },
}

impl UnreadPlace {
    /// Whether a model with this name, last read from `source`, may be here.
    pub fn may_hold(&self, model: &str, source: &str) -> bool {
        match &self.cause {
            UnreadCause::Submodule | UnreadCause::SymbolicLink => {
                source.strip_prefix(self.path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            UnreadCause::Misnamed { meant, model: named } => {
                let folder = |path: &str| path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned());
                named.as_deref() == Some(model) || (meant == "model.yaml" && folder(&self.path) == folder(source))
            }
        }
    }
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
    pub intents: Vec<StoredIntent>,
    /// Models with errors: never rendered, and never pruned either.
    pub broken: Vec<BrokenIntent>,
    /// What may hold models and is not read.
    pub unread: Vec<UnreadPlace>,
    /// Findings of the environment's models, sorted, the workspace's included.
    pub findings: Vec<Finding>,
    /// Those of them that were found in one of the `intents` alone, by its `model.yaml`. They may stand in its defaults.
    pub model_findings: BTreeMap<String, Vec<Finding>>,
    /// Policy of repository and environment.
    pub policy: Vec<PolicyRule>,
    /// Prices.
    pub prices: Option<Prices>,
    /// Guards.
    pub guards: Guards,
    /// All environments of the repository, each with its namespace.
    pub places: BTreeSet<(String, String)>,
}

impl ResolvedEnvironment {
    /// Makes models, by name and file, unusable for a reason that is about all of them.
    pub fn break_all(&mut self, models: impl IntoIterator<Item = (String, String)>, finding: &Finding) {
        let models = models.into_iter().map(|(name, source)| BrokenIntent { source, name: Some(name) });
        self.broken.extend(models);
        self.broken.push(BrokenIntent { source: finding.location.file.clone(), name: None });
        self.findings.push(finding.clone());
        stator_core::finding::sort_and_dedup(&mut self.findings);
    }
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
    /// The content of each file that the model mounts from its folder, by its name in `spec.files`.
    pub files: BTreeMap<String, Arc<[u8]>>,
    /// Its other objects, in the order written.
    pub manifests: Vec<ManifestObject>,
    /// What the profiler chose, where the model has a lock that holds: the graph is rendered from it.
    pub lock: Option<Box<lock::ActiveLock>>,
}

/// A model without errors, merged: what it is found by, and the rest packed until it is worked on. An [`Intent`] takes about
/// ten times the memory.
#[derive(Clone, Debug)]
pub struct StoredIntent {
    /// `metadata.name`.
    pub name: ModelName,
    /// Path of its `model.yaml` from the root.
    pub source: String,
    has_route: bool,
    merged: PackedNode,
    file_names: FileNames,
    rest: Option<Box<IntentRest>>,
}

/// What only few models have.
#[derive(Clone, Debug, Default)]
struct IntentRest {
    files: BTreeMap<String, Arc<[u8]>>,
    manifests: Vec<ManifestObject>,
    lock: Option<Box<lock::ActiveLock>>,
}

impl IntentRest {
    fn is_empty(&self) -> bool {
        self.files.is_empty() && self.manifests.is_empty() && self.lock.is_none()
    }
}

impl StoredIntent {
    /// How many bytes it takes packed. Unpacked and rendered it takes many times as many.
    pub fn packed_bytes(&self) -> usize {
        self.merged.byte_count()
    }

    /// The intent itself.
    ///
    /// # Errors
    /// Never, as it was decoded once. If it came to that, it is a broken intent, which is not pruned.
    pub fn load(&self) -> Result<Intent, BrokenIntent> {
        let merged = self.merged.unpack();
        let broken = |_| BrokenIntent { source: self.source.clone(), name: Some(self.name.to_string()) };
        let model = decode(&merged).map_err(broken)?;
        let IntentRest { files, manifests, lock } = self.rest.as_deref().cloned().unwrap_or_default();
        let origins = FieldOrigins::new(Arc::clone(&self.file_names), merged);
        Ok(Intent { source: self.source.clone(), model, origins, files, manifests, lock })
    }
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
pub(crate) mod tests;
