//! Dynamo's mocker (`python3 -m dynamo.mocker`): answers like an engine, on CPU.

use super::{EngineRow, EngineSetting, EngineTable};
use stator_core::dynamo::registry::PLANNER_IMAGE;

/// The mocker's table.
pub const TABLE: EngineTable = EngineTable {
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
