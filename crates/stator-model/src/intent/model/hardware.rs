//! The GPUs a model runs on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// The GPUs a model runs on.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hardware {
    /// The GPU, by Dynamo's name: `h200_sxm`. Selects nodes by label `nvidia.com/gpu.product`, and prices.
    #[schemars(extend("x-stator-synonyms" = ["gpuSku"]))]
    pub gpu: Option<GpuSku>,
    /// GPUs in one node. A component that needs more runs on several nodes.
    #[schemars(range(min = 1, max = 1024))]
    #[schemars(extend("x-stator-synonyms" = ["numGpusPerNode"]))]
    pub gpus_per_node: Option<u32>,
    /// Maximum GPUs that the profiler may plan with; only with `sla`.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub total_gpus: Option<u32>,
    /// Memory of one GPU in MiB; only with `sla`.
    #[schemars(range(min = 1))]
    pub vram_mib: Option<u32>,
    /// Interconnect of the GPUs in a node (`nvlink`, `pcie`); only with `sla`.
    pub interconnect: Option<String>,
    /// Whether nodes reach each other by RDMA; only with `sla`.
    pub rdma: Option<bool>,
    /// Node labels to select, instead of the one that `gpu` implies.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Tolerations of workers and of components with GPUs, in Kubernetes' format.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Map<String, Value>>,
}

/// GPU models, as Dynamo's `GPUSKUType` spells them in release 1.2, and those added later.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the documentation")]
#[strum(serialize_all = "snake_case")]
pub enum GpuSku {
    Gb200Sxm,
    Gb10,
    B200Sxm,
    H200Sxm,
    H100Sxm,
    H100Pcie,
    A100Sxm,
    A100Pcie,
    A30,
    L40s,
    L40,
    L4,
    V100Sxm,
    V100Pcie,
    T4,
    Mi200,
    Mi300,
}

impl GpuSku {
    /// Every GPU, in the order of the declaration.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The GPU as Dynamo's `GPUSKUType` and `hardware.gpu` spell it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
