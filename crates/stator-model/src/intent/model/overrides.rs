//! Maps merged over rendered objects.

use crate::intent::scalar::RemovedPath;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;
use stator_core::dynamo::kinds;
use stator_core::object::{FieldPath, PathSegment};

/// A map merged over a rendered object: maps by key, lists of named items by name, other lists replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Override {
    /// Which object.
    pub target: OverrideTarget,
    /// What to merge over it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub merge: Map<String, Value>,
    /// Fields to remove, as paths: `spec.components[name=worker].podTemplate.spec.nodeSelector`. They are
    /// removed before `merge`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<RemovedPath>,
}

/// Which rendered object an override is for.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OverrideTarget {
    /// Its kind.
    pub kind: OverrideKind,
    /// Its name; by default all objects of the kind.
    pub name: Option<String>,
}

/// The kinds that stator renders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OverrideKind {
    /// The graph.
    DynamoGraphDeployment,
    /// The request.
    DynamoGraphDeploymentRequest,
    /// An adapter.
    DynamoModel,
    /// The cache, or the volume of the weights.
    PersistentVolumeClaim,
    /// The download of the weights.
    Job,
}

/// The labels that stator finds its objects by.
pub const STATOR_LABELS: [&str; 4] =
    [kinds::LABEL_MANAGED_BY, kinds::LABEL_MODEL, kinds::LABEL_REPOSITORY, kinds::LABEL_ENVIRONMENT];

/// Whether a path is the object's name or namespace, its labels as a whole, one of stator's, or all of its spec: what no
/// override removes.
pub fn is_identity_path(path: &FieldPath) -> bool {
    let names: Vec<Option<&str>> = path
        .0
        .iter()
        .map(|step| match step {
            PathSegment::Field(name) => Some(name.as_str()),
            PathSegment::Key(_) | PathSegment::Item(_) | PathSegment::Index(_) => None,
        })
        .collect();
    match names.as_slice() {
        [_] | [Some("metadata"), Some("name" | "namespace" | "labels")] => true,
        [Some("metadata"), Some("labels"), Some(label)] => STATOR_LABELS.contains(label),
        _ => false,
    }
}
