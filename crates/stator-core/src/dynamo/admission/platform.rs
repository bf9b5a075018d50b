//! What a cluster runs and has: the part of admission that no object shows.

use crate::dynamo::release::{Definitions, Release};
use crate::fields::{self, StructuralSchema};
use crate::finding::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::{BTreeMap, BTreeSet};

use super::rules;

/// The Dynamo that a cluster runs and the capabilities installed beside it. An omitted field is unknown: a model that
/// needs it gets a warning, and the cluster decides.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Platform {
    /// The release of Dynamo, such as `"1.4"`, for checks without the cluster. For a cluster, the definitions that it
    /// serves decide; without either, the stable release is assumed.
    pub dynamo: Option<Release>,
    /// Whether the operator runs graphs on Grove (`global.grove.enabled` of its chart). Assumed true if the cluster
    /// serves Grove; set `false` if the chart disables it anyway.
    pub grove: Option<bool>,
    /// Whether LeaderWorkerSet is installed, which runs components of several nodes where Grove does not.
    pub leader_worker_set: Option<bool>,
    /// Whether the Gateway API Inference Extension (`inference.networking.k8s.io`) is installed, which endpoint pickers
    /// need.
    pub inference_gateway: Option<bool>,
    /// Whether the operator discovers GPUs. An operator that is restricted to its namespace may not.
    pub gpu_discovery: Option<bool>,
    /// Whether the operator makes checkpoints (`checkpoint.enabled` of its chart).
    pub checkpoints: Option<bool>,
    /// Grove's cluster topologies: name → its domains, the broadest first (`[zone, rack, host]`).
    pub topologies: Option<BTreeMap<String, Vec<String>>>,
    /// GPUs that can be allocated, by SKU (`{h200_sxm: 64}`). On Kubernetes, the nodes decide if stator may list them.
    /// A plan that needs more at once gets a warning.
    pub gpus: Option<BTreeMap<String, u64>>,
    /// The definitions that the cluster serves.
    #[serde(skip)]
    pub served: Option<Definitions>,
}

/// What a graph or request may need of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlatformRequirement {
    /// Graphs run on Grove.
    Grove,
    /// Names fit what Grove makes of them, or graphs do not run on Grove.
    GroveNames,
    /// Endpoint pickers have the API that they serve.
    InferenceGateway,
    /// A topology of this name, with these domains, exists where graphs run on Grove.
    Topology,
    /// The operator finds GPUs by itself.
    GpuDiscovery,
    /// The operator makes checkpoints.
    Checkpoints,
}

impl PlatformRequirement {
    /// Every need.
    pub const ALL: [Self; 6] =
        [Self::Grove, Self::GroveNames, Self::InferenceGateway, Self::Topology, Self::GpuDiscovery, Self::Checkpoints];

    /// The rule that says so.
    pub fn rule(self) -> Rule {
        match self {
            Self::Grove => rules::NEEDS_GROVE,
            Self::GroveNames => rules::GROVE_NAMES,
            Self::InferenceGateway => rules::NEEDS_INFERENCE_GATEWAY,
            Self::Topology => rules::NEEDS_TOPOLOGY,
            Self::GpuDiscovery => rules::NEEDS_GPU_DISCOVERY,
            Self::Checkpoints => rules::NEEDS_CHECKPOINTS,
        }
    }

    /// The field of [`Platform`] that answers it.
    pub fn field_name(self) -> &'static str {
        match self {
            Self::Grove | Self::GroveNames => "grove",
            Self::InferenceGateway => "inferenceGateway",
            Self::Topology => "topologies",
            Self::GpuDiscovery => "gpuDiscovery",
            Self::Checkpoints => "checkpoints",
        }
    }
}

impl Platform {
    /// What the API groups of a cluster tell: an absent group is an absent extension. Source: the operator looks for
    /// the same groups when it starts (`controller_common.DetectGroveAvailability` and its siblings).
    pub fn from_api_groups<'a>(groups: impl IntoIterator<Item = &'a str>) -> Self {
        let groups: BTreeSet<&str> = groups.into_iter().collect();
        Self {
            grove: Some(groups.contains("grove.io")),
            leader_worker_set: Some(groups.contains("leaderworkerset.x-k8s.io")),
            inference_gateway: Some(groups.contains("inference.networking.k8s.io")),
            ..Self::default()
        }
    }

    /// The release that judges: the cluster's, or else the environment's, or else the stable one.
    pub fn release(&self) -> Release {
        let served = self.served.as_ref().map(Definitions::release);
        served.or(self.dynamo).unwrap_or(Release::STABLE)
    }

    /// The definitions that judge: the cluster's, or else those of [`Self::release`].
    pub fn definitions(&self) -> &Definitions {
        self.served.as_ref().unwrap_or_else(|| Definitions::of_release(self.release()))
    }

    /// The schema by which objects of a kind merge: as the cluster has it, or else the newest that stator knows, which has
    /// the fields of all known releases.
    pub fn merge_schema(&self, api_version: &str, kind: &str) -> Option<&StructuralSchema> {
        match &self.served {
            Some(served) => served.schema(api_version, kind),
            None => fields::bundled_schema(api_version, kind),
        }
    }

    /// The release that the environment says and the one that its cluster serves, where they differ.
    pub fn release_mismatch(&self) -> Option<(Release, Release)> {
        let (stated, served) = (self.dynamo?, self.served.as_ref()?.release());
        (stated != served).then_some((stated, served))
    }

    /// Whether a need is met, as far as that is known. Topologies are held against what is wanted of them by the rule
    /// itself, which then finds nothing or something that is refused.
    pub(super) fn satisfies(&self, need: PlatformRequirement) -> Option<bool> {
        match need {
            PlatformRequirement::Grove => self.grove,
            PlatformRequirement::GroveNames => self.grove.map(|grove| !grove),
            PlatformRequirement::InferenceGateway => self.inference_gateway,
            PlatformRequirement::Checkpoints => self.checkpoints,
            PlatformRequirement::Topology => self.topologies.as_ref().map(|_| false),
            // Found out by every operator but one that is bound to its namespace.
            PlatformRequirement::GpuDiscovery => Some(self.gpu_discovery.unwrap_or(true)),
        }
    }

    /// This knowledge, and where it has none, that of another.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self {
            dynamo: self.dynamo.or(other.dynamo),
            grove: self.grove.or(other.grove),
            leader_worker_set: self.leader_worker_set.or(other.leader_worker_set),
            inference_gateway: self.inference_gateway.or(other.inference_gateway),
            gpu_discovery: self.gpu_discovery.or(other.gpu_discovery),
            checkpoints: self.checkpoints.or(other.checkpoints),
            topologies: self.topologies.or_else(|| other.topologies.clone()),
            // What a cluster has and serves is what it had last.
            gpus: other.gpus.clone().or(self.gpus),
            served: other.served.clone().or(self.served),
        }
    }
}
