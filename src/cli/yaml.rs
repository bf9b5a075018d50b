//! YAML of reports and lists.

use super::error::{CliError, CliErrorKind};
use serde::Serialize;

/// A report or list as YAML.
///
/// # Errors
/// Never, unless stator is at fault.
pub fn to_yaml(list: &impl Serialize) -> Result<String, CliError> {
    serde_saphyr::to_string(list)
        .map_err(|error| CliError::new(CliErrorKind::Bug, format!("the list cannot be written as YAML: {error}")))
}
