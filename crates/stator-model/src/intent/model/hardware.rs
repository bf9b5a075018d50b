//! The GPUs a model runs on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The GPUs a model runs on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hardware {
    /// The GPU, as Dynamo names it: `h200_sxm`. Selects nodes by label `nvidia.com/gpu.product`, and prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuSku>,
    /// GPUs in one node. A component that needs more runs on several nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub gpus_per_node: Option<u32>,
    /// How many GPUs the profiler may plan with; only with `sla`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub total_gpus: Option<u32>,
    /// Memory of one GPU in MiB; only with `sla`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub vram_mib: Option<u32>,
    /// What connects the GPUs of a node (`nvlink`, `pcie`); only with `sla`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interconnect: Option<String>,
    /// Whether nodes reach each other by RDMA; only with `sla`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma: Option<bool>,
    /// Node labels to select, in place of the one that `gpu` implies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Tolerations of workers and of components with GPUs, in Kubernetes' format.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Map<String, Value>>,
}

/// GPU models, as Dynamo's `GPUSKUType` spells them in release 1.2, and those added later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the documentation")]
pub enum GpuSku {
    Gb200Sxm,
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
    pub const ALL: [Self; 16] = [
        Self::Gb200Sxm,
        Self::B200Sxm,
        Self::H200Sxm,
        Self::H100Sxm,
        Self::H100Pcie,
        Self::A100Sxm,
        Self::A100Pcie,
        Self::A30,
        Self::L40s,
        Self::L40,
        Self::L4,
        Self::V100Sxm,
        Self::V100Pcie,
        Self::T4,
        Self::Mi200,
        Self::Mi300,
    ];

    /// The GPU as Dynamo's `GPUSKUType` and `hardware.gpu` spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gb200Sxm => "gb200_sxm",
            Self::B200Sxm => "b200_sxm",
            Self::H200Sxm => "h200_sxm",
            Self::H100Sxm => "h100_sxm",
            Self::H100Pcie => "h100_pcie",
            Self::A100Sxm => "a100_sxm",
            Self::A100Pcie => "a100_pcie",
            Self::A30 => "a30",
            Self::L40s => "l40s",
            Self::L40 => "l40",
            Self::L4 => "l4",
            Self::V100Sxm => "v100_sxm",
            Self::V100Pcie => "v100_pcie",
            Self::T4 => "t4",
            Self::Mi200 => "mi200",
            Self::Mi300 => "mi300",
        }
    }
}
