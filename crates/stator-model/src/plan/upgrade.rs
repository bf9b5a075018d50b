//! What an upgrade of Dynamo does to the models of an environment, as data. [`crate::upgrade`] works it out.

use super::GpuTotals;
use super::schema::FindingShape;
use schemars::JsonSchema;
use serde::Serialize;
use serde_with::skip_serializing_none;
use stator_core::dynamo::disruption::Disruption;
use stator_core::dynamo::release::Release;
use stator_core::dynamo::upgrade::Certainty;
use stator_core::finding::Finding;
use stator_core::object::ObjectRef;

/// What an upgrade does.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeForesight {
    /// The environment's name.
    pub environment: String,
    /// The release that runs.
    pub from: Release,
    /// The release that would.
    pub to: Release,
    /// Counts over all models.
    pub summary: UpgradeSummary,
    /// The models that it concerns, by name.
    pub models: Vec<ModelForesight>,
    /// What to do, in this order.
    pub steps: Vec<String>,
    /// The files that can be corrected while the older release runs.
    pub corrections: Vec<FileCorrection>,
    /// The files that are corrected once the other release runs, as this one refuses the correction.
    pub later_corrections: Vec<FileCorrection>,
}

/// Counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeSummary {
    /// All models.
    pub models: usize,
    /// Models that have errors of their own, so that nothing is known of them.
    pub unreadable: usize,
    /// Models that the release refuses.
    pub refused: usize,
    /// Those of them that the corrections help.
    pub corrected: usize,
    /// Models whose pods the operator restarts by itself.
    pub restarted: usize,
    /// GPUs of all models, and the most while the operator restarts pods.
    pub gpus: GpuTotals,
    /// GPUs of the pods that it restarts.
    pub restarted_gpus: u64,
    /// Models with fields that can no longer be changed in place.
    pub frozen: usize,
    /// Models that use what is deprecated.
    pub deprecated: usize,
}

/// What an upgrade does to one model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelForesight {
    /// The model's name.
    pub model: String,
    /// Path of its `model.yaml` from the root.
    pub source: String,
    /// What is refused.
    pub refused: Vec<RefusedUse>,
    /// What works otherwise, or is refused on some clusters.
    #[schemars(with = "Vec<FindingShape>")]
    pub doubtful: Vec<Finding>,
    /// What the operator restarts by itself.
    pub restarts: Vec<ForeseenRestart>,
    /// What can no longer be changed in place.
    pub frozen: Vec<ForeseenFreeze>,
    /// What is deprecated or removed.
    pub deprecated: Vec<ForeseenDeprecation>,
    /// GPUs before, after, and at the most while the operator restarts pods.
    pub gpus: GpuTotals,
    /// GPUs of the pods that it restarts.
    pub restarted_gpus: u64,
}

/// Something that the release refuses.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusedUse {
    /// Where, what and by which rule.
    #[schemars(with = "FindingShape")]
    pub finding: Finding,
    /// Whether the release that runs refuses it as well.
    pub already: bool,
    /// What is changed to correct it; nothing where only people can.
    pub correction: Option<String>,
    /// Whether the correction has to wait until the other release runs.
    pub later: bool,
}

/// Pods that the operator restarts by itself.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForeseenRestart {
    /// The graph.
    #[schemars(with = "String")]
    #[serde(serialize_with = "as_text")]
    pub object: ObjectRef,
    /// The components, sorted.
    pub components: Vec<String>,
    /// How they are replaced.
    pub disruption: Disruption,
    /// How sure it is.
    pub certainty: Certainty,
    /// The release that brought the cause.
    pub since: Release,
    /// Why, in a sentence.
    pub reason: String,
}

/// A field that can no longer be changed in place.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForeseenFreeze {
    /// The object.
    #[schemars(with = "String")]
    #[serde(serialize_with = "as_text")]
    pub object: ObjectRef,
    /// The field.
    pub field: String,
    /// What is forbidden, in a sentence.
    pub message: String,
}

/// Something deprecated.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForeseenDeprecation {
    /// Where, what, and what to use instead.
    #[schemars(with = "FindingShape")]
    pub finding: Finding,
    /// The release that removes it, where one is announced.
    pub removed_in: Option<&'static str>,
}

fn as_text<S: serde::Serializer>(object: &ObjectRef, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(object)
}

impl UpgradeForesight {
    /// Whether something is refused that runs today, or nothing is known of a model: reason enough not to upgrade yet.
    pub fn is_refused(&self) -> bool {
        self.summary.refused > 0 || self.summary.unreadable > 0
    }

    /// The same once the corrections that need not wait are made.
    pub fn is_refused_when_corrected(&self) -> bool {
        let is_left = |one: &RefusedUse| one.correction.is_none() || one.later;
        self.summary.unreadable > 0 || self.models.iter().flat_map(|model| &model.refused).any(is_left)
    }
}

impl ModelForesight {
    /// Whether anything is told of it.
    pub fn is_concerned(&self) -> bool {
        let counts = [self.refused.len(), self.doubtful.len(), self.restarts.len(), self.frozen.len()];
        counts.iter().any(|count| *count > 0) || !self.deprecated.is_empty()
    }
}

/// A file that is corrected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileCorrection {
    /// Path from the root of the repository.
    pub file: String,
    /// The change as a patch for `git apply`, with secrets starred out.
    pub patch: String,
    /// The text as it is to be.
    #[serde(skip)]
    pub text: String,
}
