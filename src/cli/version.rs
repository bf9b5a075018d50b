//! `stator version`.

use super::args::ReportFormat;
use super::error::{CliError, ExitStatus};
use super::output::Output;
use clap::Args;
use serde::Serialize;
use stator_core::dynamo::kinds;
use std::collections::BTreeSet;

/// Show the version, and the API versions of managed objects
#[derive(Debug, Args)]
#[command(after_help = "No cluster is needed. `stator --version` prints the first line alone.")]
pub struct VersionArgs {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: ReportFormat,
}

/// What `version -o json` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionReport {
    /// By semantic versioning.
    version: &'static str,
    /// Operating system and processor, such as `linux/x86_64`.
    platform: String,
    /// API versions of the objects that it reads and writes, sorted.
    api_versions: BTreeSet<String>,
}

impl VersionReport {
    /// Of this program.
    pub fn new() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
            api_versions: kinds::ALL.iter().map(|kind| kind.api_version()).collect(),
        }
    }
}

/// Prints them.
///
/// # Errors
/// When standard output cannot be written.
pub fn run(arguments: &VersionArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let report = VersionReport::new();
    let text = || {
        let versions: Vec<&str> = report.api_versions.iter().map(String::as_str).collect();
        format!("stator {} {}\nAPI versions: {}\n", report.version, report.platform, versions.join(", "))
    };
    output.write_result(&arguments.output.encode(&report)?.unwrap_or_else(text))?;
    Ok(ExitStatus::Success)
}
