//! SGLang (`python3 -m dynamo.sglang`).

use super::{EngineRow, EngineSetting, EngineTable, RowCondition};

/// SGLang's table.
pub const TABLE: EngineTable = EngineTable {
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
