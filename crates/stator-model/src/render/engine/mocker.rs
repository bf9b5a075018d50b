//! Dynamo's mocker (`python3 -m dynamo.mocker`): answers like an engine, on CPU.

use super::{Row, Setting, Table};
use stator_core::dynamo::registry::PLANNER_IMAGE;

pub(super) const TABLE: Table = Table {
    framework: None,
    module: "dynamo.mocker",
    image: PLANNER_IMAGE,
    working_dir: None,
    // As in upstream's manifest: planners and routers look for decode workers.
    aggregated_type: "decode",
    adapter_env: &[],
    generated_workers: &[],
    options_flag: None,
    aliases: &[(Setting::Model, "--model"), (Setting::ServedName, "--served-model-name")],
    rows: &[
        Row::Flag(Setting::Model, "--model-path"),
        Row::Flag(Setting::ServedName, "--model-name"),
        Row::Flag(Setting::DataParallel, "--data-parallel-size"),
        Row::Flag(Setting::MaxSequences, "--max-num-seqs"),
        Row::Flag(Setting::BlockSize, "--block-size"),
        Row::Flag(Setting::DisaggregationMode, "--disaggregation-mode"),
    ],
};
