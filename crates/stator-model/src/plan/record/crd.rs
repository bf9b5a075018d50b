//! The custom resource definition of the record, generated from its Rust types.

use super::applyset::IS_PARENT_TYPE;
use super::{RecordCondition, SyncHistoryEntry};
use crate::intent::structural::{ResourceKind, printer_column, resource_definition, structural_schema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use stator_core::dynamo::kinds::RECORD;

/// What stator did for the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RecordStatus {
    /// `metadata.generation` that this is about. While it is smaller, a sync is under way, or was interrupted.
    pub(super) observed_generation: Option<i64>,
    /// Whether the cluster was as git said: `Synced`, `OutOfSync`, `Blocked` or `Unknown`.
    pub(super) sync: String,
    /// The worst health of the model's objects at the end of the last sync that wrote, or waited: `Healthy`,
    /// `Suspended`, `Progressing`, `Unknown`, `Degraded` or `Failed`. It does not follow the objects between syncs.
    pub(super) health: String,
    /// GPUs that the model's objects ask for.
    #[schemars(with = "i64")]
    pub(super) gpus: u64,
    /// The SKU of those GPUs, where the graph says.
    pub(super) gpu_sku: Option<String>,
    /// The commit of the last sync that changed anything; empty outside git.
    pub(super) revision: String,
    /// The same, short.
    pub(super) commit: String,
    /// Path of the model's `model.yaml` from the repository's root.
    pub(super) source: String,
    /// `Ready`, `Reconciling` and `Stalled`, and `FilesInvalid` while the model's files have errors.
    #[schemars(length(max = 8))]
    pub(super) conditions: Vec<RecordCondition>,
    /// What was applied, or is about to be.
    pub(super) inventory: Vec<InventoryStatusEntry>,
    /// The last ten outcomes, newest first.
    #[schemars(length(max = 10))]
    pub(super) history: Vec<SyncHistoryEntry>,
}

/// One object that stator applied, or is about to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct InventoryStatusEntry {
    /// `group/version`, or `v1` for the core group.
    pub(super) api_version: String,
    /// The kind.
    pub(super) kind: String,
    /// The namespace.
    pub(super) namespace: String,
    /// The name.
    pub(super) name: String,
    /// Its uid; absent until the first apply came back.
    #[serde(default)]
    pub(super) uid: Option<String>,
    /// The generation that the last apply gave.
    #[serde(default)]
    pub(super) generation: Option<i64>,
    /// SHA-256 of what was applied, in hex.
    pub(super) digest: String,
    /// False for objects that are kept when the model goes.
    pub(super) prune: bool,
}

/// The definition of `models.stator.dev`, as `crds/stator.dev_models.yaml` holds it.
pub fn custom_resource_definition() -> Value {
    let mut definition = resource_definition(ResourceKind {
        kind: RECORD,
        singular: RECORD.short.to_owned(),
        short_name: Some("stm"),
        scope: "Namespaced",
        description: "The record of one synced model: its intent, the applied objects, and the results of the last syncs. Written by stator; editing it does not change live objects.",
        columns: vec![
            printer_column("Sync", "string", ".status.sync", false),
            printer_column("Health", "string", ".status.health", false),
            printer_column("GPUs", "integer", ".status.gpus", false),
            printer_column("Revision", "string", ".status.commit", false),
            printer_column("Age", "date", ".metadata.creationTimestamp", false),
            printer_column("SKU", "string", ".status.gpuSku", true),
            printer_column("Serves", "string", ".spec.model", true),
            printer_column("Engine", "string", ".spec.engine", true),
            printer_column("Source", "string", ".status.source", true),
            printer_column("Last", "string", ".status.history[0].result", true),
            printer_column("Message", "string", ".status.conditions[?(@.type==\"Ready\")].message", true),
        ],
        required: &[],
        spec: json!({
            "type": "object",
            // Written as a whole by one manager: an owner for each field only costs the server time.
            "x-kubernetes-map-type": "atomic",
            "description": "The intent's `spec` as it is in git, with defaults and the environment's \
                            overlay merged, at the last sync that changed anything. Values that look like \
                            secrets are hidden. `stator explain model.spec` documents its fields.",
            // Any stator's intents can be kept in it: what is valid was decided before this is written.
            "x-kubernetes-preserve-unknown-fields": true,
        }),
        status: Some(status_schema()),
    });
    definition["metadata"]["labels"] = json!({IS_PARENT_TYPE: "true"});
    definition
}

/// The schema of the status. Its lists are described and not checked item by item, and it has one owner as a whole:
/// checking and owning every field took the API server more time than all the rest of a write.
fn status_schema() -> Value {
    let mut schema = structural_schema::<RecordStatus>();
    schema["x-kubernetes-map-type"] = json!("atomic");
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(Map::values_mut) {
        let Some(items) = property.get_mut("items") else { continue };
        let fields = items.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        let fields = fields.iter().map(|(name, field)| {
            let about = field.get("description").and_then(Value::as_str).unwrap_or_default();
            format!("`{name}`: {about}")
        });
        let about = items.get("description").and_then(Value::as_str).unwrap_or_default();
        *items = json!({
            "type": "object",
            "description": format!("{about} {}", fields.collect::<Vec<_>>().join(" ")),
            "x-kubernetes-preserve-unknown-fields": true,
        });
    }
    schema
}
