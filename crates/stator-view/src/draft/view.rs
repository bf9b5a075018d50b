//! What the API answers for a draft.

use super::judged::JudgedDraft;
use crate::model::ManifestView;
use crate::problem::RequestFault;
use schemars::JsonSchema;
use serde::Serialize;
use serde_with::skip_serializing_none;
use stator_core::finding::Severity;
use stator_core::mask;
use stator_core::object::Object;
use stator_model::plan::{Action, Change, Cost, Disruption, FieldChange, GpuTotals, Hold, HoldKind, Plan};
use std::collections::BTreeMap;

/// Where a draft would go.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DraftHead {
    /// The source, as lists name it.
    pub source: String,
    /// The environment.
    pub environment: String,
    /// The namespace of its objects.
    pub namespace: String,
    /// The path of its `model.yaml` from the repository's root.
    pub file: String,
    /// The model's name.
    pub model: Option<String>,
    /// Whether the source has no such file yet.
    pub is_new: bool,
}

/// The objects that a draft renders to.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RenderedDraft")]
pub struct RenderedDraft {
    /// Where it would go.
    #[serde(flatten)]
    pub head: DraftHead,
    /// Its objects in the order of applying. What looks like a secret is hidden.
    pub objects: Vec<ManifestView>,
    /// Warnings to review.
    pub warnings: Vec<RequestFault>,
}

/// The plan of a draft.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PlannedDraft")]
pub struct PlannedDraft {
    /// Where it would go.
    #[serde(flatten)]
    pub head: DraftHead,
    /// Each object of the model, what would happen to it, and why.
    pub changes: Vec<DraftChange>,
    /// The model's GPUs: now, after the change, and at most during the rollout.
    pub gpus: GpuTotals,
    /// The same by SKU; `unknown` where no SKU is given.
    pub gpus_by_sku: BTreeMap<String, GpuTotals>,
    /// The GPUs of all models of the environment, with what they have now and this change.
    pub environment_gpus: GpuTotals,
    /// What the model's GPUs cost an hour, where the repository has prices.
    pub cost: Option<Cost>,
    /// The worst disruption of running pods.
    pub disruption: Disruption,
    /// Holds of guards, until they are allowed.
    pub holds: Vec<Hold>,
    /// Warnings to review.
    pub warnings: Vec<RequestFault>,
    /// The change of the file, as `git apply` takes it; empty where nothing changes.
    pub patch: String,
}

/// One object of a draft.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DraftChange {
    /// The object: kind, namespace and name.
    pub object: String,
    /// What happens to it.
    pub action: Action,
    /// What that disrupts.
    pub disruption: Disruption,
    /// Changed fields, sorted by path.
    pub fields: Vec<FieldChange>,
    /// Its GPUs.
    pub gpus: GpuTotals,
    /// Why: one sentence each.
    pub reasons: Vec<String>,
    /// The guard that would hold it back.
    pub held_by: Option<HoldKind>,
}

impl JudgedDraft {
    /// Where it would go.
    pub fn head(&self) -> DraftHead {
        DraftHead {
            source: self.source.clone(),
            environment: self.environment.clone(),
            namespace: self.namespace.clone(),
            file: self.draft.file.clone(),
            model: self.model.clone(),
            is_new: self.stored.is_none(),
        }
    }

    /// Its objects as YAML.
    pub fn manifests(&self) -> Vec<ManifestView> {
        let manifest = |object: &Object| {
            let mut value = object.value().clone();
            mask::redact_value(&mut value);
            // What was made as JSON always has a YAML form.
            let yaml = serde_saphyr::to_string(&value).unwrap_or_default();
            ManifestView { object: object.reference().to_string(), yaml }
        };
        self.objects.iter().map(manifest).collect()
    }

    /// What it renders to.
    pub fn rendered(&self) -> RenderedDraft {
        RenderedDraft { head: self.head(), objects: self.manifests(), warnings: self.faults(Severity::Warning) }
    }

    /// What it would change; `None` where it has errors.
    pub fn planned(&self) -> Option<PlannedDraft> {
        let plan = self.plan.as_ref()?;
        let (mut gpus, mut gpus_by_sku) = (GpuTotals::default(), BTreeMap::new());
        for change in &plan.changes {
            gpus.add(change.gpus);
            GpuTotals::add_by_sku(&mut gpus_by_sku, &change.gpus_by_sku);
        }
        Some(PlannedDraft {
            head: self.head(),
            changes: plan.changes.iter().map(draft_change).collect(),
            gpus,
            gpus_by_sku,
            environment_gpus: plan.summary.gpus_if_approved(),
            cost: cost(plan),
            disruption: plan.changes.iter().map(|one| one.disruption).max().unwrap_or(Disruption::None),
            holds: plan.holds.clone(),
            warnings: self.faults(Severity::Warning),
            patch: self.patch(),
        })
    }
}

fn draft_change(change: &Change) -> DraftChange {
    DraftChange {
        object: change.object.to_string(),
        action: change.action,
        disruption: change.disruption,
        fields: change.fields.clone(),
        gpus: change.gpus,
        reasons: change.reasons.iter().map(ToString::to_string).collect(),
        held_by: change.step.held_by(),
    }
}

/// The sum over its objects.
fn cost(plan: &Plan) -> Option<Cost> {
    let mut costs = plan.changes.iter().filter_map(|change| change.cost.clone());
    let first = costs.next()?;
    Some(costs.fold(first, |mut sum, more| {
        sum.before_hour += more.before_hour;
        sum.after_hour += more.after_hour;
        sum.delta_hour += more.delta_hour;
        sum.delta_month += more.delta_month;
        sum.unpriced.extend(more.unpriced);
        sum.unpriced.sort();
        sum.unpriced.dedup();
        sum
    }))
}
