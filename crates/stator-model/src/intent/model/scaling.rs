//! Resources, replicas and rollouts of components.

use crate::intent::scalar::{CountOrPercent, Quantity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// Kubernetes resources of one pod, besides its GPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resources {
    /// What the scheduler reserves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-stator-synonyms" = ["cpu", "memory"]))]
    pub requests: BTreeMap<String, Quantity>,
    /// What the pod may use at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Quantity>,
}

/// Autoscaling of the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Scaling {
    /// From outside: an autoscaler on the scaling adapter, or a global planner.
    External(ExternalScaling),
    /// An autoscaler or planner, between these bounds.
    Bounds(ScalingBounds),
}

/// The word `external`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExternalScaling {
    /// Something outside decides.
    External,
}

/// Minimum and maximum replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScalingBounds {
    /// Minimum replicas.
    #[schemars(range(max = 10_000))]
    #[schemars(extend("x-stator-synonyms" = ["minReplicas"]))]
    pub min: u32,
    /// Maximum replicas. Also sets the planner's GPU budget.
    #[schemars(range(min = 1, max = 10_000))]
    #[schemars(extend("x-stator-synonyms" = ["maxReplicas"]))]
    pub max: u32,
}

/// How pods are replaced when they change.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rollout {
    /// `rolling` replaces them bit by bit; `recreate` stops all first. Defaults to `rolling`.
    #[schemars(extend("x-stator-synonyms" = ["updateStrategy"]))]
    pub strategy: Option<RolloutStrategy>,
    /// Pods that may run above the desired number, as a count or a share (`25%`). Needs spare GPUs.
    pub max_surge: Option<CountOrPercent>,
    /// Pods that may be unavailable during the rollout, as a count or a share (`25%`).
    pub max_unavailable: Option<CountOrPercent>,
}

/// How pods are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RolloutStrategy {
    /// Bit by bit.
    Rolling,
    /// All stop, then all start: downtime, and no spare GPUs needed.
    Recreate,
}

/// How the pods of a model are replaced when they change, and its graph where Dynamo forbids the change in place.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelRollout {
    /// Order of replacement where Dynamo forbids a change in place and the whole graph is replaced: `old-first` deletes
    /// the graph and creates it again; `new-first` creates a second one under another name, waits until it is Healthy,
    /// then deletes the old one. `new-first` needs GPUs for both, and moves the address of the frontend. Defaults to
    /// `old-first`.
    pub replace: Option<ReplacementOrder>,
    /// `rolling` replaces pods bit by bit; `recreate` stops all first. Defaults to `rolling`.
    #[schemars(extend("x-stator-synonyms" = ["updateStrategy"]))]
    pub strategy: Option<RolloutStrategy>,
    /// Pods that may run above the desired number, as a count or a share (`25%`). Needs spare GPUs.
    pub max_surge: Option<CountOrPercent>,
    /// Pods that may be unavailable during the rollout, as a count or a share (`25%`).
    pub max_unavailable: Option<CountOrPercent>,
}

impl ModelRollout {
    /// What it says of pods: what holds for every component that says nothing itself.
    pub fn pods(&self) -> Rollout {
        let Self { replace: _, strategy, max_surge, max_unavailable } = self;
        Rollout { strategy: *strategy, max_surge: *max_surge, max_unavailable: *max_unavailable }
    }
}

/// Order of replacement when a graph is replaced as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReplacementOrder {
    /// The old graph is deleted, then the new one is created under its name: downtime, and no spare GPUs needed.
    #[default]
    OldFirst,
    /// The new graph is created under another name, then the old one is deleted.
    NewFirst,
}
