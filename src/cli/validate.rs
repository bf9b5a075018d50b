//! `stator validate`.

use super::args::PathArg;
use super::error::{CliError, Exit};
use super::output::Output;
use super::repository::{self, Opened};
use clap::{Args, ValueEnum};
use stator_core::finding::{self, Finding};
use stator_model::intent::EnvironmentError;
use stator_model::present::findings::{self, Report};
use std::collections::BTreeSet;

/// Check every file, and show every fault with its place and its fix
///
/// All environments are checked unless one is named. Models are rendered too, so that what Dynamo would refuse is found
/// here. No cluster is needed.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 nothing was found, 1 something was, 2 the repository cannot be read.")]
pub struct Arguments {
    #[command(flatten)]
    path: PathArg,
    /// Check this environment only
    #[arg(short, long, env = "STATOR_ENVIRONMENT", value_name = "NAME")]
    environment: Option<String>,
    /// The form of the findings
    #[arg(long, env = "STATOR_FORMAT", value_name = "FORMAT", default_value = "full")]
    format: Format,
}

/// The forms of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// With the line of source and the fix
    Full,
    /// One line a finding
    Concise,
    /// JSON
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// JUnit XML
    Junit,
    /// GitHub workflow commands
    Github,
    /// GitLab code quality
    Gitlab,
}

pub fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CliError> {
    let opened = repository::open(&arguments.path.path, output)?;
    opened.note_when_empty(output);
    let (found, models) = check(&opened, arguments.environment.as_deref())?;
    let text = match arguments.format {
        Format::Full => {
            let shown = findings::full(&found, &|file| opened.text(file), &output.look);
            format!("{shown}{}\n", findings::closing(&found, models))
        }
        Format::Concise => {
            format!("{}{}\n", findings::concise(&found, &output.look), findings::closing(&found, models))
        }
        Format::Json => {
            stator_model::present::json(&Report { findings: &found, files: opened.checkout.tree.files.len(), models })?
        }
        Format::Sarif => findings::sarif(&found, env!("CARGO_PKG_VERSION"))?,
        Format::Junit => findings::junit(&found, models),
        Format::Github => findings::github(&found),
        Format::Gitlab => findings::gitlab(&found)?,
    };
    output.result(&text)?;
    Ok(if found.is_empty() { Exit::Success } else { Exit::No })
}

/// Every finding once, and how many models were looked at.
fn check(opened: &Opened, environment: Option<&str>) -> Result<(Vec<Finding>, usize), CliError> {
    let workspace = &opened.workspace;
    let scope = &opened.checkout.scope;
    let names = match environment {
        Some(name) => vec![name.to_owned()],
        None => workspace.environments(),
    };
    let mut found = workspace.findings.clone();
    let mut models = BTreeSet::new();
    for name in &names {
        let selection = match workspace.environment(Some(name)) {
            Ok(selection) => selection,
            // The faults of the root file are among the findings already.
            Err(EnvironmentError::Unreadable { .. }) => continue,
            Err(error @ (EnvironmentError::Unknown { .. } | EnvironmentError::Ambiguous { .. })) => {
                return Err(error.into());
            }
        };
        models.extend(selection.intents.iter().map(|intent| intent.source.clone()));
        models.extend(selection.broken.iter().map(|broken| broken.source.clone()));
        found.extend(repository::render_selection(selection).findings);
    }
    finding::sort(&mut found);
    models.retain(|source| scope.contains(source) && source.ends_with("model.yaml"));
    Ok((repository::in_scope(found, scope), models.len()))
}
