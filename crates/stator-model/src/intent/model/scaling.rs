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
    pub requests: BTreeMap<String, Quantity>,
    /// What the pod may use at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Quantity>,
}

/// Who decides how many replicas run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Scaling {
    /// Something outside: an autoscaler on the scaling adapter, or a global planner.
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

/// The fewest and the most replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScalingBounds {
    /// The fewest.
    #[schemars(range(max = 10_000))]
    pub min: u32,
    /// The most. With a planner, its GPU budget is for so many.
    #[schemars(range(min = 1, max = 10_000))]
    pub max: u32,
}

/// How pods are replaced when they change.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rollout {
    /// `rolling` replaces them bit by bit; `recreate` stops all first. Defaults to `rolling`.
    pub strategy: Option<RolloutStrategy>,
    /// How many may run above the number wanted, as a count or a share (`25%`). Needs spare GPUs.
    pub max_surge: Option<CountOrPercent>,
    /// How many may be missing meanwhile, as a count or a share (`25%`).
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
