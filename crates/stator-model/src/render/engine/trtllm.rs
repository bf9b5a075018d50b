//! TensorRT-LLM (`python3 -m dynamo.trtllm`). What has no flag goes into `--override-engine-args`, which is merged over
//! the engine's own file and needs no file itself.

use super::{Row, Setting, Table, When};

pub(super) const TABLE: Table = Table {
    framework: Some("trtllm"),
    module: "dynamo.trtllm",
    image: "tensorrtllm-runtime",
    working_dir: Some("/workspace/"),
    aggregated_type: "worker",
    adapter_env: &[],
    generated_workers: &["TRTLLMDecodeWorker", "TRTLLMPrefillWorker", "TRTLLMWorker", "decode", "prefill"],
    options_flag: Some("--override-engine-args"),
    aliases: &[(Setting::Model, "--model-path"), (Setting::ExpertParallel, "--moe-expert-parallel-size")],
    rows: &[
        Row::Flag(Setting::Model, "--model"),
        Row::Flag(Setting::ServedName, "--served-model-name"),
        Row::Flag(Setting::TensorParallel, "--tensor-parallel-size"),
        Row::Flag(Setting::PipelineParallel, "--pipeline-parallel-size"),
        Row::Switch(Setting::DataParallel, "--enable-attention-dp", &[Setting::TensorParallel]),
        Row::Flag(Setting::ExpertParallel, "--expert-parallel-size"),
        // `--torch-dtype` is for diffusion models only.
        Row::OptionField(Setting::Dtype, "dtype"),
        Row::Flag(Setting::MaxSequences, "--max-batch-size"),
        Row::Flag(Setting::MaxLength, "--max-seq-len"),
        Row::Flag(Setting::MemoryFraction, "--free-gpu-memory-fraction"),
        Row::Flag(Setting::BlockSize, "--kv-block-size"),
        Row::Flag(Setting::DisaggregationMode, "--disaggregation-mode"),
        Row::Fixed(When::KvEvents, &["--publish-events-and-metrics"]),
        Row::FixedOptions(When::Always, r#"{"backend":"pytorch"}"#),
        Row::FixedOptions(When::Disaggregated, r#"{"cache_transceiver_config":{"backend":"DEFAULT"}}"#),
        // The overlap scheduler does not work in workers that only prefill.
        Row::FixedOptions(When::Prefill, r#"{"disable_overlap_scheduler":true}"#),
    ],
};
