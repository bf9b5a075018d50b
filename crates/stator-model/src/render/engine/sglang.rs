//! SGLang (`python3 -m dynamo.sglang`).

use super::{Row, Setting, Table, When};

pub(super) const TABLE: Table = Table {
    framework: Some("sglang"),
    module: "dynamo.sglang",
    image: "sglang-runtime",
    working_dir: None,
    aggregated_type: "worker",
    adapter_env: &[],
    generated_workers: &["decode", "prefill"],
    options_flag: None,
    aliases: &[
        (Setting::Model, "--model"),
        (Setting::TensorParallel, "--tp"),
        (Setting::TensorParallel, "--tensor-parallel-size"),
        (Setting::PipelineParallel, "--pp"),
        (Setting::PipelineParallel, "--pipeline-parallel-size"),
        (Setting::DataParallel, "--dp"),
        (Setting::DataParallel, "--data-parallel-size"),
        (Setting::ExpertParallel, "--ep"),
        (Setting::ExpertParallel, "--expert-parallel-size"),
    ],
    rows: &[
        Row::Flag(Setting::Model, "--model-path"),
        Row::Flag(Setting::ServedName, "--served-model-name"),
        Row::Flag(Setting::TensorParallel, "--tp-size"),
        Row::Flag(Setting::PipelineParallel, "--pp-size"),
        Row::Flag(Setting::DataParallel, "--dp-size"),
        Row::Flag(Setting::ExpertParallel, "--ep-size"),
        Row::Flag(Setting::Dtype, "--dtype"),
        Row::Flag(Setting::MaxSequences, "--max-running-requests"),
        Row::Flag(Setting::MaxLength, "--context-length"),
        Row::Flag(Setting::MemoryFraction, "--mem-fraction-static"),
        Row::Flag(Setting::BlockSize, "--page-size"),
        // Dynamo's frontend tokenizes, as in every one of upstream's manifests.
        Row::Fixed(When::Always, &["--skip-tokenizer-init"]),
        Row::Flag(Setting::DisaggregationMode, "--disaggregation-mode"),
        Row::Fixed(
            When::Disaggregated,
            &[
                "--disaggregation-transfer-backend",
                "nixl",
                "--disaggregation-bootstrap-port",
                "12345",
                "--host",
                "0.0.0.0",
            ],
        ),
        Row::Fixed(
            When::KvEvents,
            &["--kv-events-config", r#"{"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:5557"}"#],
        ),
    ],
};
