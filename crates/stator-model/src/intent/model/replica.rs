//! What one replica takes: GPUs and nodes, as written or as they follow from the parallel sizes.

use super::{Component, Engine, Hardware, Worker};
use crate::engine_tables::EngineSetting;

/// GPUs and nodes of one replica of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaSize {
    /// Over all its nodes.
    pub gpus: u32,
    /// At least 1.
    pub nodes: u32,
}

impl ReplicaSize {
    /// Of a worker of `serving`.
    pub fn for_worker(worker: &Worker, engine: Engine, hardware: Option<&Hardware>) -> Self {
        let follows = if engine.runs_on_gpus() { worker.parallel_size(engine) } else { 0 };
        Self::new(worker.gpus.unwrap_or(follows), worker.nodes, hardware)
    }

    /// Of a further component.
    pub fn for_component(component: &Component, hardware: Option<&Hardware>) -> Self {
        Self::new(component.gpus.unwrap_or(0), component.nodes, hardware)
    }

    fn new(gpus: u32, nodes: Option<u32>, hardware: Option<&Hardware>) -> Self {
        let per_node = hardware.and_then(|hardware| hardware.gpus_per_node).filter(|count| *count > 0);
        let follows = per_node.map_or(1, |per_node| gpus.div_ceil(per_node));
        Self { gpus, nodes: nodes.unwrap_or(follows).max(1) }
    }

    /// GPUs of one pod, which is on one node; rounded up where they do not divide.
    pub fn gpus_per_pod(self) -> u32 {
        self.gpus.div_ceil(self.nodes)
    }

    /// Whether every pod has the same number of GPUs, as Dynamo needs.
    pub fn is_even(self) -> bool {
        self.gpus.is_multiple_of(self.nodes)
    }
}

impl Engine {
    /// Whether its workers need GPUs.
    pub fn runs_on_gpus(self) -> bool {
        match self {
            Self::Vllm | Self::Sglang | Self::Trtllm | Self::Custom | Self::Auto => true,
            Self::Mocker => false,
        }
    }

    /// Whether data parallel ranks have GPUs of their own. TensorRT-LLM's attention data parallelism shares those of the
    /// tensor parallel group.
    pub fn data_parallel_has_own_gpus(self) -> bool {
        match self {
            Self::Vllm | Self::Sglang | Self::Custom | Self::Auto => true,
            Self::Trtllm | Self::Mocker => false,
        }
    }
}

impl Worker {
    /// The GPUs that the parallel sizes ask for; sizes that are left out are 1.
    pub fn parallel_size(&self, engine: Engine) -> u32 {
        let data = self.data_parallel.filter(|_| engine.data_parallel_has_own_gpus());
        [self.tensor_parallel, self.pipeline_parallel, data].into_iter().flatten().fold(1, u32::saturating_mul)
    }

    /// The size that a setting is; none for settings that do not multiply GPUs.
    pub fn parallel_size_mut(&mut self, setting: EngineSetting) -> Option<&mut Option<u32>> {
        let size = if setting == EngineSetting::TensorParallel {
            &mut self.tensor_parallel
        } else if setting == EngineSetting::PipelineParallel {
            &mut self.pipeline_parallel
        } else {
            &mut self.data_parallel
        };
        setting.counts_gpus().then_some(size)
    }
}
