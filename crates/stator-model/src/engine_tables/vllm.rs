//! vLLM (`python3 -m dynamo.vllm`).

use super::{EngineRow, EngineSetting, EngineTable, RowCondition};
use stator_core::dynamo::registry::env;

/// vLLM's table.
pub const TABLE: EngineTable = EngineTable {
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
