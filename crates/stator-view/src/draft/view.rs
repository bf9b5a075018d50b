//! What the API answers for a draft.

use super::judged::{JudgedDraft, RefusedObject};
use crate::changes::ChangeSet;
use crate::model::ManifestView;
use crate::problem::RequestFault;
use schemars::JsonSchema;
use serde::Serialize;
use serde_with::skip_serializing_none;
use stator_core::finding::Severity;
use stator_core::mask;
use stator_core::object::Object;
use stator_model::plan::{GpuTotals, Hold};

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
    /// What would happen to the model's objects.
    #[serde(flatten)]
    pub changes: ChangeSet,
    /// The GPUs of all models of the environment, with what they have now and this change.
    pub environment_gpus: GpuTotals,
    /// Holds of guards, until they are allowed.
    pub holds: Vec<Hold>,
    /// Warnings to review.
    pub warnings: Vec<RequestFault>,
    /// The change of the file, as `git apply` takes it; empty where nothing changes.
    pub patch: String,
    /// The objects that the API server would refuse; absent where it was not asked (`dryRun=server`).
    pub refused: Option<Vec<RefusedObject>>,
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
        Some(PlannedDraft {
            head: self.head(),
            changes: ChangeSet::new(&plan.changes),
            environment_gpus: plan.summary.gpus_if_approved(),
            holds: plan.holds.clone(),
            warnings: self.faults(Severity::Warning),
            patch: self.patch(),
            refused: self.refused.clone(),
        })
    }
}
