//! vLLM (`python3 -m dynamo.vllm`).

use super::{Row, Setting, Table, When};
use stator_core::dynamo::registry::env;

pub(super) const TABLE: Table = Table {
    framework: Some("vllm"),
    module: "dynamo.vllm",
    image: "vllm-runtime",
    working_dir: None,
    aggregated_type: "worker",
    // The path is where upstream's LoRA example keeps downloads; the operator's own port takes the load requests.
    adapter_env: &[(env::LORA_ENABLED, "true"), (env::LORA_PATH, "/tmp/dynamo_loras")],
    generated_workers: &["VllmDecodeWorker", "VllmPrefillWorker", "VllmWorker"],
    options_flag: None,
    aliases: &[(Setting::TensorParallel, "-tp"), (Setting::PipelineParallel, "-pp"), (Setting::DataParallel, "-dp")],
    rows: &[
        Row::Flag(Setting::Model, "--model"),
        Row::Flag(Setting::ServedName, "--served-model-name"),
        Row::Flag(Setting::TensorParallel, "--tensor-parallel-size"),
        Row::Flag(Setting::PipelineParallel, "--pipeline-parallel-size"),
        Row::Flag(Setting::DataParallel, "--data-parallel-size"),
        Row::Switch(
            Setting::ExpertParallel,
            "--enable-expert-parallel",
            &[Setting::TensorParallel, Setting::DataParallel],
        ),
        Row::Flag(Setting::Dtype, "--dtype"),
        Row::Flag(Setting::MaxSequences, "--max-num-seqs"),
        Row::Flag(Setting::MaxLength, "--max-model-len"),
        Row::Flag(Setting::MemoryFraction, "--gpu-memory-utilization"),
        Row::Flag(Setting::BlockSize, "--block-size"),
        Row::Flag(Setting::DisaggregationMode, "--disaggregation-mode"),
        // A prefill worker without it does not start; decode takes the same.
        Row::Fixed(
            When::Disaggregated,
            &["--kv-transfer-config", r#"{"kv_connector":"NixlConnector","kv_role":"kv_both"}"#],
        ),
        Row::Fixed(
            When::KvEvents,
            &[
                "--kv-events-config",
                r#"{"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:20080","enable_kv_cache_events":true}"#,
            ],
        ),
        Row::Fixed(When::Adapters, &["--enable-lora"]),
        Row::Flag(Setting::AdapterRank, "--max-lora-rank"),
    ],
};
