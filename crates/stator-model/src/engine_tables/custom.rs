//! A program of the user's own. It has no flags that stator knows, so each worker brings its whole command line.

use super::EngineTable;

/// The table of a program of the user's own.
pub const TABLE: EngineTable = EngineTable {
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
