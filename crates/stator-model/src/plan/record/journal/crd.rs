//! The custom resource definition of the journal, generated from its Rust types.

use crate::intent::structural::{ResourceKind, printer_column, resource_definition, structural_schema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_with::skip_serializing_none;
use stator_core::dynamo::kinds::JOURNAL;

/// What a sync may create that no record names yet.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct JournalSpec {
    /// The folder that it is synced from, where the repository has no name of its own.
    pub(super) folder: Option<String>,
    /// The models.
    pub(super) models: Vec<JournalModelEntry>,
}

/// One model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct JournalModelEntry {
    /// The model's name.
    pub(super) model: String,
    /// Path of the model's `model.yaml` from the repository's root.
    pub(super) source: String,
    /// The objects that may exist.
    pub(super) objects: Vec<JournalObjectEntry>,
}

/// One object.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct JournalObjectEntry {
    /// `group/version`, or `v1` for the core group.
    pub(super) api_version: String,
    /// The kind.
    pub(super) kind: String,
    /// The namespace, where it is not the journal's own.
    pub(super) namespace: Option<String>,
    /// The name.
    pub(super) name: String,
    /// False for objects that are kept when the model goes.
    pub(super) prune: bool,
}

/// The definition of `syncjournals.stator.dev`, as `crds/stator.dev_syncjournals.yaml` holds it.
pub fn journal_definition() -> Value {
    let mut spec = structural_schema::<JournalSpec>();
    // Written once, as a whole and by one manager.
    spec["x-kubernetes-map-type"] = json!("atomic");
    resource_definition(ResourceKind {
        kind: JOURNAL,
        singular: JOURNAL.short.to_owned(),
        short_name: None,
        scope: "Namespaced",
        description: "The objects that a running sync may create and that no record names yet. stator writes the journal before the sync creates them, and deletes it once the records of the models are written. A journal that remains is from an interrupted sync: the next sync reads and deletes it.",
        columns: vec![
            printer_column("Repository", "string", r".metadata.labels.stator\.dev/repository", false),
            printer_column("Environment", "string", r".metadata.labels.stator\.dev/environment", false),
            printer_column("Age", "date", ".metadata.creationTimestamp", false),
        ],
        required: &[],
        spec,
        status: None,
    })
}
