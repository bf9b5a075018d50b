//! TensorRT-LLM (`python3 -m dynamo.trtllm`). What has no flag goes into `--override-engine-args`, which is merged over
//! the engine's own file and needs no file itself.

use super::{EngineRow, EngineSetting, EngineTable, RowCondition};

/// TensorRT-LLM's table.
pub const TABLE: EngineTable = EngineTable {
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
