//! Files that pods mount.

use crate::intent::scalar::{ComponentName, MountPath};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// A file that pods mount: one of the model's folder, or text. It becomes an immutable ConfigMap whose name ends in a
/// digest of the content, so that new content replaces the pods that mount it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MountedFile {
    /// Path of the file, relative to the folder of `model.yaml`. At most 1 MiB.
    #[schemars(length(min = 1, max = 1024))]
    pub from: Option<String>,
    /// Its content, instead of `from`.
    pub text: Option<String>,
    /// Mount path, including the file name.
    pub mount_path: MountPath,
    /// The components that mount it, by name. Defaults to all workers.
    #[schemars(length(min = 1))]
    pub components: Option<Vec<ComponentName>>,
}

impl MountedFile {
    /// Whether a component mounts it, by the names that it has: in the graph, and in the model.
    pub fn is_mounted_by(&self, names: &[&str], is_worker: bool) -> bool {
        match &self.components {
            Some(components) => components.iter().any(|one| names.contains(&one.as_str())),
            None => is_worker,
        }
    }
}
