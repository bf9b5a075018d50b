//! One model in one row.

use crate::facts::{ModelFacts, SourceFacts};
use crate::words::{health_schema, sync_schema};
use schemars::JsonSchema;
use serde::Serialize;
use serde_with::skip_serializing_none;
use stator_core::dynamo::component_readiness::{ComponentReadiness, component_readiness};
use stator_core::dynamo::health::Health;
use stator_model::plan::{Disruption, SyncState};

/// One model, as lists show it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ModelRow")]
pub struct ModelRow {
    /// The model's name.
    pub name: String,
    /// The namespace of its objects; `NAMESPACE@CONTEXT` where several clusters are shown.
    pub namespace: String,
    /// The source that it comes from: `NAMESPACE/NAME`, or the name of a repository.
    pub source: String,
    /// The worst health of its objects.
    #[schemars(schema_with = "health_schema")]
    pub health: Health,
    /// Whether the cluster matches git.
    #[schemars(schema_with = "sync_schema")]
    pub sync: SyncState,
    /// Since when both have their state.
    pub since: Option<SinceView>,
    /// The most important message: why it waits, what failed, or what differs.
    pub message: String,
    /// Its components, where it has a graph.
    pub components: Option<ComponentCount>,
    /// Progress of a rollout or a start, by component: `decode 2/3`; absent when all components are there.
    pub rollout: Option<String>,
    /// Fields that were changed in the cluster although git did not change.
    pub drifted_fields: usize,
    /// Objects that the next sync changes.
    pub pending_objects: usize,
    /// The worst that these changes do to running pods; absent where none is pending.
    pub disruption: Option<Disruption>,
    /// The newest commit that changed its files, in full, where changes are pending and git tells.
    pub pending_commit: Option<String>,
    /// GPUs that it holds now, by SKU.
    pub gpus: Vec<GpuCount>,
    /// What these cost, where the repository has prices.
    pub cost: Option<CostView>,
    /// The commit of the last sync that changed it, in full; empty when there was none, or outside git.
    pub revision: String,
    /// How the last sync that did anything ended.
    pub last_sync: Option<LastSyncView>,
}

/// Since when something is so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Since")]
pub struct SinceView {
    /// The moment, RFC 3339 in UTC.
    pub time: String,
    /// True if it may have been so for longer: the process has seen nothing else since it started.
    pub at_least: bool,
}

/// How many components are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentCount {
    /// Components with as many ready replicas as they ask for.
    pub ready: usize,
    /// All components.
    pub total: usize,
}

/// GPUs of one SKU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuCount {
    /// The SKU; `unknown` where nothing names it.
    pub sku: String,
    /// How many.
    pub count: u64,
}

/// What GPUs cost.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Cost")]
pub struct CostView {
    /// As the repository writes it.
    pub currency: String,
    /// How much an hour.
    pub per_hour: f64,
}

/// The end of a sync.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LastSync")]
pub struct LastSyncView {
    /// When, RFC 3339 in UTC.
    pub time: String,
    /// `Progressing` while health is waited for; after that the word of the outcome: `Synced`, `Unchanged`, `Healthy`, `Deleted`,
    /// `Deleting`, `Deferred`, `Held`, `Blocked`, `Failed`, `Cancelled` or `Superseded`.
    pub result: String,
    /// One sentence; empty when there is nothing to say.
    pub message: String,
}

impl ModelRow {
    pub(crate) fn new(source: &SourceFacts, model: &ModelFacts) -> Self {
        let status = &model.status;
        let components: Vec<ComponentReadiness> =
            model.graphs().flat_map(|graph| component_readiness(&graph)).collect();
        let ready = components.iter().filter(|one| one.is_ready()).count();
        let total = components.len();
        Self {
            name: status.name.clone(),
            namespace: source.place_of(&status.namespace),
            source: source.label(),
            health: status.health,
            sync: status.sync,
            since: model.since.map(|since| SinceView { time: since.time.to_string(), at_least: since.at_least }),
            message: status.message.clone(),
            components: (total > 0).then_some(ComponentCount { ready, total }),
            rollout: rollout(&components),
            drifted_fields: status.drift.len(),
            pending_objects: model.pending.len(),
            disruption: model.pending.iter().map(|change| change.disruption).max(),
            pending_commit: model.changed_by.clone(),
            gpus: model.gpus.iter().map(|(sku, count)| GpuCount { sku: sku.clone(), count: *count }).collect(),
            cost: model.cost.as_ref().map(|cost| CostView { currency: cost.currency.clone(), per_hour: cost.amount }),
            revision: status.revision.clone(),
            last_sync: status.last_sync.as_ref().map(|last| LastSyncView {
                time: last.time.clone(),
                result: last.result.clone(),
                message: last.message.clone(),
            }),
        }
    }

    /// All its GPUs.
    pub fn gpu_total(&self) -> u64 {
        self.gpus.iter().fold(0, |sum, one| sum.saturating_add(one.count))
    }
}

impl SourceFacts {
    /// What rows call it.
    pub fn label(&self) -> String {
        if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) }
    }
}

/// `decode 2/3, prefill 0/1`: the components of which not all replicas are there.
fn rollout(components: &[ComponentReadiness]) -> Option<String> {
    let parts: Vec<String> = components
        .iter()
        .filter(|one| !one.is_ready())
        .map(|one| format!("{} {}/{}", one.name, one.ready, one.wanted))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// A row, and the words that a search looks for in it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IndexedRow {
    pub(crate) row: ModelRow,
    pub(crate) words: String,
}
