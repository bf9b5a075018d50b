//! Engines as tables: which flag carries which setting. No engine has a branch in the code; a difference is a row.
//!
//! Source: each backend's argument parser in Dynamo 1.2 and upstream's examples. What is made of a table is
//! [`crate::render::engine`]'s; [`crate::intent::check`] knows an engine's words for a field by them.

use stator_core::dynamo::registry::{PLANNER_IMAGE, env};

/// Every engine's table.
pub const ALL: [&EngineTable; 5] = [&VLLM, &SGLANG, &TRTLLM, &MOCKER, &CUSTOM];

/// A setting of the intent that some engine takes as a flag or an option. Its text is the intent's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "camelCase")]
pub enum EngineSetting {
    /// `spec.model`.
    Model,
    /// `spec.servedName`.
    ServedName,
    /// `tensorParallel`.
    TensorParallel,
    /// `pipelineParallel`.
    PipelineParallel,
    /// `dataParallel`.
    DataParallel,
    /// `expertParallel`.
    ExpertParallel,
    /// `dtype`.
    Dtype,
    /// `maxSequences`.
    MaxSequences,
    /// `maxLength`.
    MaxLength,
    /// `memoryFraction`.
    MemoryFraction,
    /// `blockSize`.
    BlockSize,
    /// `eager`.
    Eager,
    /// `trustRemoteCode`.
    TrustRemoteCode,
    /// `toolCallParser`.
    ToolCallParser,
    /// `reasoningParser`.
    ReasoningParser,
    /// `engineConfig`.
    EngineConfig,
    /// `prefill` or `decode`, only where the two are apart.
    DisaggregationMode,
    /// The largest `maxRank` of the adapters, only where there are any.
    #[strum(serialize = "maxRank")]
    AdapterRank,
}

impl EngineSetting {
    /// The intent's word for settings of a worker; none for those that every engine has.
    pub fn worker_field(self) -> Option<&'static str> {
        Self::WORKER_SETTINGS.contains(&self).then(|| self.into())
    }

    /// The intent's field that says it, wherever that stands; none for what follows from other fields.
    pub fn field(self) -> Option<&'static str> {
        (self != Self::DisaggregationMode).then(|| self.into())
    }

    /// Whether it multiplies the GPUs of a replica.
    pub fn counts_gpus(self) -> bool {
        matches!(self, Self::TensorParallel | Self::PipelineParallel | Self::DataParallel)
    }

    /// Every setting that a worker may carry.
    pub const WORKER_SETTINGS: &'static [Self] = &[
        Self::TensorParallel,
        Self::PipelineParallel,
        Self::DataParallel,
        Self::ExpertParallel,
        Self::Dtype,
        Self::MaxSequences,
        Self::MaxLength,
        Self::MemoryFraction,
        Self::BlockSize,
        Self::Eager,
        Self::TrustRemoteCode,
        Self::ToolCallParser,
        Self::ReasoningParser,
        Self::EngineConfig,
    ];
}

/// When a fixed row of a table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowCondition {
    /// For every worker.
    Always,
    /// For the prefill half.
    Prefill,
    /// For both halves.
    Disaggregated,
    /// Where a router follows KV events: aggregated and prefill workers behind router `kv` or an endpoint picker.
    KvEvents,
    /// Where the model has adapters.
    Adapters,
}

/// One row of an engine's table. Rows are rendered in the table's order.
#[derive(Clone, Copy, Debug)]
pub enum EngineRow {
    /// A setting as a flag and its value: two list items, since the operator reads parallel sizes from separate items.
    Flag(EngineSetting, &'static str),
    /// A setting as a switch that is on when the setting is above 1. Its size is then the product of other settings.
    Switch(EngineSetting, &'static str, &'static [EngineSetting]),
    /// A setting that is true or false as a flag, which is there when it is true.
    Toggle(EngineSetting, &'static str),
    /// A setting as an engine option, a field of the options' JSON.
    OptionField(EngineSetting, &'static str),
    /// Fixed arguments.
    Fixed(RowCondition, &'static [&'static str]),
    /// Fixed engine options, as a JSON map.
    FixedOptions(RowCondition, &'static str),
}

/// All that stator knows of an engine.
#[derive(Clone, Copy, Debug)]
pub struct EngineTable {
    /// `spec.backendFramework`, where Dynamo has a word for it.
    pub framework: Option<&'static str>,
    /// The Python module that `python3 -m` runs.
    pub module: &'static str,
    /// NVIDIA's image, without registry and tag.
    pub image: &'static str,
    /// The directory that upstream's manifests start it in, where relative paths matter.
    pub working_dir: Option<&'static str>,
    /// The component type of an aggregated worker.
    pub aggregated_type: &'static str,
    /// Environment variables where the model has adapters; empty when the engine loads none.
    pub adapter_env: &'static [(&'static str, &'static str)],
    /// What the profiler calls the workers of a graph that it makes, over its releases; none for what it cannot make.
    pub generated_workers: &'static [&'static str],
    /// The flag that takes engine options as one JSON map.
    pub options_flag: Option<&'static str>,
    /// Other spellings that the engine takes for a setting's flag. They are read, never rendered.
    pub aliases: &'static [(EngineSetting, &'static str)],
    /// The rows.
    pub rows: &'static [EngineRow],
}

impl EngineTable {
    /// The words by which the engine's own command line and options name a setting, in every spelling: `--max-model-len`.
    pub fn words(&self) -> impl Iterator<Item = (EngineSetting, &'static str)> {
        let rows = self.rows.iter().filter_map(|row| match *row {
            EngineRow::Flag(setting, word) | EngineRow::OptionField(setting, word) => Some((setting, word)),
            EngineRow::Toggle(setting, word) => Some((setting, word)),
            // A switch says no size.
            EngineRow::Switch(..) | EngineRow::Fixed(..) | EngineRow::FixedOptions(..) => None,
        });
        rows.chain(self.aliases.iter().copied())
    }
}

/// The table of a program of the user's own.
pub const CUSTOM: EngineTable = EngineTable {
    framework: None,
    module: "",
    image: "",
    working_dir: None,
    aggregated_type: "worker",
    adapter_env: &[],
    generated_workers: &[],
    options_flag: None,
    aliases: &[],
    rows: &[],
};

/// The mocker's table.
pub const MOCKER: EngineTable = EngineTable {
    framework: None,
    module: "dynamo.mocker",
    image: PLANNER_IMAGE,
    working_dir: None,
    // As in upstream's manifest: planners and routers look for decode workers.
    aggregated_type: "decode",
    adapter_env: &[],
    generated_workers: &[],
    options_flag: None,
    aliases: &[(EngineSetting::Model, "--model"), (EngineSetting::ServedName, "--served-model-name")],
    rows: &[
        EngineRow::Flag(EngineSetting::Model, "--model-path"),
        EngineRow::Flag(EngineSetting::ServedName, "--model-name"),
        EngineRow::Flag(EngineSetting::DataParallel, "--data-parallel-size"),
        EngineRow::Flag(EngineSetting::MaxSequences, "--max-num-seqs"),
        EngineRow::Flag(EngineSetting::BlockSize, "--block-size"),
        EngineRow::Flag(EngineSetting::DisaggregationMode, "--disaggregation-mode"),
    ],
};

/// SGLang's table.
pub const SGLANG: EngineTable = EngineTable {
    framework: Some("sglang"),
    module: "dynamo.sglang",
    image: "sglang-runtime",
    working_dir: None,
    aggregated_type: "worker",
    adapter_env: &[],
    generated_workers: &["decode", "prefill"],
    options_flag: None,
    aliases: &[
        (EngineSetting::Model, "--model"),
        (EngineSetting::TensorParallel, "--tp"),
        (EngineSetting::TensorParallel, "--tensor-parallel-size"),
        (EngineSetting::PipelineParallel, "--pp"),
        (EngineSetting::PipelineParallel, "--pipeline-parallel-size"),
        (EngineSetting::DataParallel, "--dp"),
        (EngineSetting::DataParallel, "--data-parallel-size"),
        (EngineSetting::ExpertParallel, "--ep"),
        (EngineSetting::ExpertParallel, "--expert-parallel-size"),
    ],
    rows: &[
        EngineRow::Flag(EngineSetting::Model, "--model-path"),
        EngineRow::Flag(EngineSetting::ServedName, "--served-model-name"),
        EngineRow::Flag(EngineSetting::TensorParallel, "--tp-size"),
        EngineRow::Flag(EngineSetting::PipelineParallel, "--pp-size"),
        EngineRow::Flag(EngineSetting::DataParallel, "--dp-size"),
        EngineRow::Flag(EngineSetting::ExpertParallel, "--ep-size"),
        EngineRow::Flag(EngineSetting::Dtype, "--dtype"),
        EngineRow::Flag(EngineSetting::MaxSequences, "--max-running-requests"),
        EngineRow::Flag(EngineSetting::MaxLength, "--context-length"),
        EngineRow::Flag(EngineSetting::MemoryFraction, "--mem-fraction-static"),
        EngineRow::Flag(EngineSetting::BlockSize, "--page-size"),
        EngineRow::Toggle(EngineSetting::Eager, "--disable-cuda-graph"),
        EngineRow::Toggle(EngineSetting::TrustRemoteCode, "--trust-remote-code"),
        EngineRow::Flag(EngineSetting::ToolCallParser, "--dyn-tool-call-parser"),
        EngineRow::Flag(EngineSetting::ReasoningParser, "--dyn-reasoning-parser"),
        // Dynamo's frontend tokenizes, as in every one of upstream's manifests.
        EngineRow::Fixed(RowCondition::Always, &["--skip-tokenizer-init"]),
        EngineRow::Flag(EngineSetting::DisaggregationMode, "--disaggregation-mode"),
        EngineRow::Fixed(
            RowCondition::Disaggregated,
            &[
                "--disaggregation-transfer-backend",
                "nixl",
                "--disaggregation-bootstrap-port",
                "12345",
                "--host",
                "0.0.0.0",
            ],
        ),
        EngineRow::Fixed(
            RowCondition::KvEvents,
            &["--kv-events-config", r#"{"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:5557"}"#],
        ),
    ],
};

/// TensorRT-LLM's table.
pub const TRTLLM: EngineTable = EngineTable {
    framework: Some("trtllm"),
    module: "dynamo.trtllm",
    image: "tensorrtllm-runtime",
    working_dir: Some("/workspace/"),
    aggregated_type: "worker",
    adapter_env: &[],
    generated_workers: &["TRTLLMDecodeWorker", "TRTLLMPrefillWorker", "TRTLLMWorker", "decode", "prefill"],
    options_flag: Some("--override-engine-args"),
    aliases: &[(EngineSetting::Model, "--model-path"), (EngineSetting::ExpertParallel, "--moe-expert-parallel-size")],
    rows: &[
        EngineRow::Flag(EngineSetting::Model, "--model"),
        EngineRow::Flag(EngineSetting::ServedName, "--served-model-name"),
        EngineRow::Flag(EngineSetting::TensorParallel, "--tensor-parallel-size"),
        EngineRow::Flag(EngineSetting::PipelineParallel, "--pipeline-parallel-size"),
        EngineRow::Switch(EngineSetting::DataParallel, "--enable-attention-dp", &[EngineSetting::TensorParallel]),
        EngineRow::Flag(EngineSetting::ExpertParallel, "--expert-parallel-size"),
        // `--torch-dtype` is for diffusion models only.
        EngineRow::OptionField(EngineSetting::Dtype, "dtype"),
        EngineRow::Flag(EngineSetting::MaxSequences, "--max-batch-size"),
        EngineRow::Flag(EngineSetting::MaxLength, "--max-seq-len"),
        EngineRow::Flag(EngineSetting::MemoryFraction, "--free-gpu-memory-fraction"),
        EngineRow::Flag(EngineSetting::BlockSize, "--kv-block-size"),
        EngineRow::OptionField(EngineSetting::TrustRemoteCode, "trust_remote_code"),
        EngineRow::Flag(EngineSetting::ToolCallParser, "--dyn-tool-call-parser"),
        EngineRow::Flag(EngineSetting::ReasoningParser, "--dyn-reasoning-parser"),
        EngineRow::Flag(EngineSetting::EngineConfig, "--extra-engine-args"),
        EngineRow::Flag(EngineSetting::DisaggregationMode, "--disaggregation-mode"),
        EngineRow::Fixed(RowCondition::KvEvents, &["--publish-events-and-metrics"]),
        EngineRow::FixedOptions(RowCondition::Always, r#"{"backend":"pytorch"}"#),
        EngineRow::FixedOptions(RowCondition::Disaggregated, r#"{"cache_transceiver_config":{"backend":"DEFAULT"}}"#),
        // The overlap scheduler does not work in workers that only prefill.
        EngineRow::FixedOptions(RowCondition::Prefill, r#"{"disable_overlap_scheduler":true}"#),
    ],
};

/// vLLM's table.
pub const VLLM: EngineTable = EngineTable {
    framework: Some("vllm"),
    module: "dynamo.vllm",
    image: "vllm-runtime",
    working_dir: None,
    aggregated_type: "worker",
    // The path is where upstream's LoRA example keeps downloads; the operator's own port takes the load requests.
    adapter_env: &[(env::LORA_ENABLED, "true"), (env::LORA_PATH, "/tmp/dynamo_loras")],
    generated_workers: &["VllmDecodeWorker", "VllmPrefillWorker", "VllmWorker"],
    options_flag: None,
    aliases: &[
        (EngineSetting::TensorParallel, "-tp"),
        (EngineSetting::PipelineParallel, "-pp"),
        (EngineSetting::DataParallel, "-dp"),
    ],
    rows: &[
        EngineRow::Flag(EngineSetting::Model, "--model"),
        EngineRow::Flag(EngineSetting::ServedName, "--served-model-name"),
        EngineRow::Flag(EngineSetting::TensorParallel, "--tensor-parallel-size"),
        EngineRow::Flag(EngineSetting::PipelineParallel, "--pipeline-parallel-size"),
        EngineRow::Flag(EngineSetting::DataParallel, "--data-parallel-size"),
        EngineRow::Switch(
            EngineSetting::ExpertParallel,
            "--enable-expert-parallel",
            &[EngineSetting::TensorParallel, EngineSetting::DataParallel],
        ),
        EngineRow::Flag(EngineSetting::Dtype, "--dtype"),
        EngineRow::Flag(EngineSetting::MaxSequences, "--max-num-seqs"),
        EngineRow::Flag(EngineSetting::MaxLength, "--max-model-len"),
        EngineRow::Flag(EngineSetting::MemoryFraction, "--gpu-memory-utilization"),
        EngineRow::Flag(EngineSetting::BlockSize, "--block-size"),
        EngineRow::Toggle(EngineSetting::Eager, "--enforce-eager"),
        EngineRow::Toggle(EngineSetting::TrustRemoteCode, "--trust-remote-code"),
        EngineRow::Flag(EngineSetting::ToolCallParser, "--dyn-tool-call-parser"),
        EngineRow::Flag(EngineSetting::ReasoningParser, "--dyn-reasoning-parser"),
        EngineRow::Flag(EngineSetting::DisaggregationMode, "--disaggregation-mode"),
        // A prefill worker without it does not start; decode takes the same.
        EngineRow::Fixed(
            RowCondition::Disaggregated,
            &["--kv-transfer-config", r#"{"kv_connector":"NixlConnector","kv_role":"kv_both"}"#],
        ),
        EngineRow::Fixed(
            RowCondition::KvEvents,
            &[
                "--kv-events-config",
                r#"{"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:20080","enable_kv_cache_events":true}"#,
            ],
        ),
        EngineRow::Fixed(RowCondition::Adapters, &["--enable-lora"]),
        EngineRow::Flag(EngineSetting::AdapterRank, "--max-lora-rank"),
    ],
};
