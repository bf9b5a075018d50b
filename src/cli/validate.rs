//! `stator validate`.

use super::args::{DynamoArgs, EmptyArgs, PolicyArgs, to_yaml};
use super::error::{CliError, ExitStatus};
use super::output::Output;
use super::repository::{self, DesiredState, OpenedRepository};
use super::targets::TargetArgs;
use clap::{Args, ValueEnum};
use stator_core::finding::{self, Finding, Location};
use stator_git::source;
use stator_model::fleet_policy::FleetPolicies;
use stator_model::intent::EnvironmentError;
use stator_model::present::findings::{self, ValidationReport};
use std::collections::BTreeSet;

/// Check every file, and show each finding with its place and fix
///
/// Checks all environments unless you name one. It also renders the models, to find errors that Dynamo would refuse. No
/// cluster is needed.
#[derive(Debug, Args)]
#[command(
    after_help = "The formats of CI (github, gitlab, sarif, junit) name files from the top of the git checkout, all others from the folder of stator.yaml. With `-`, standard input is read as the only model.yaml of a repository without settings.\n\nExit codes: 0 no errors; 1 errors, or with --strict warnings; 2 the repository cannot be read."
)]
pub struct ValidateArgs {
    #[command(flatten)]
    targets: TargetArgs,
    /// Check only this environment
    #[arg(short, long, env = "STATOR_ENVIRONMENT", value_name = "NAME")]
    environment: Option<String>,
    #[command(flatten)]
    dynamo: DynamoArgs,
    #[command(flatten)]
    policies: PolicyArgs,
    #[command(flatten)]
    empty: EmptyArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: FindingsFormat,
    /// Exit with 1 for warnings, too
    #[arg(long)]
    strict: bool,
}

/// The forms of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FindingsFormat {
    /// With the source line and the fix
    #[value(alias = "table", alias = "full")]
    Text,
    /// One line per finding
    Concise,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// JUnit XML
    Junit,
    /// GitHub workflow commands
    Github,
    /// GitLab code quality
    Gitlab,
}

impl FindingsFormat {
    /// Whether who reads it looks files up from the top of a git checkout. To others, paths are those of the repository of
    /// models.
    fn is_read_in_checkout(self) -> bool {
        match self {
            Self::Sarif | Self::Junit | Self::Github | Self::Gitlab => true,
            Self::Text | Self::Concise | Self::Json | Self::Yaml => false,
        }
    }
}

/// Findings with paths from the top of the checkout, in which the repository of models is this folder.
fn located_in_checkout(found: Vec<Finding>, folder: &str) -> Vec<Finding> {
    let locate = |location: Location| match location.file.is_empty() || folder.is_empty() {
        true => location,
        false => Location { file: format!("{folder}/{}", location.file), ..location },
    };
    found.into_iter().map(|finding| finding.map_location(locate)).collect()
}

pub fn run(arguments: &ValidateArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let mut opened = match arguments.targets.paths().is_standard_input()? {
        true => repository::open_standard_input()?,
        false => repository::open_targets(&arguments.targets, output)?,
    };
    opened.refuse_when_empty(arguments.empty, output)?;
    opened.checkout.scope = opened.models.scope_in_workspace(&opened.workspace)?;
    let environment = arguments.environment.as_deref();
    let policies = arguments.policies.read_files()?;
    let (found, models) = collect_findings(&opened, environment, arguments.dynamo, policies, output)?;
    let names = environment.map_or_else(|| opened.workspace.environment_names(), |name| vec![name.to_owned()]);
    let environments = &opened.workspace.repository.spec.environments;
    let has_release = |name: &String| {
        let found = environments.iter().find(|(known, _)| known.as_str() == name);
        found.is_some_and(|(_, one)| one.platform.as_ref().is_some_and(|platform| platform.dynamo.is_some()))
    };
    if arguments.dynamo.release.is_none() && !names.iter().all(has_release) {
        repository::note_assumed_release(None, output);
    }
    let found = match arguments.output.is_read_in_checkout() && !arguments.targets.paths().is_standard_input()? {
        true => located_in_checkout(found, &source::path_in_work_tree(&opened.checkout.root)),
        false => found,
    };
    let report = ValidationReport { findings: &found, files: opened.checkout.tree.files.len(), models };
    let text = match arguments.output {
        FindingsFormat::Text => {
            let shown = findings::with_snippets(&found, &|file| opened.file_text(file), &output.stdout_style);
            format!("{shown}{}\n", findings::summary_line(&found, models))
        }
        FindingsFormat::Concise => {
            format!("{}{}\n", findings::concise(&found, &output.stdout_style), findings::summary_line(&found, models))
        }
        FindingsFormat::Json => stator_model::present::json(&report)?,
        FindingsFormat::Yaml => to_yaml(&report)?,
        FindingsFormat::Sarif => findings::sarif(&found, env!("CARGO_PKG_VERSION"))?,
        FindingsFormat::Junit => findings::junit(&found, models),
        FindingsFormat::Github => findings::github(&found),
        FindingsFormat::Gitlab => findings::gitlab(&found)?,
    };
    output.write_result(&text)?;
    let is_counted = |finding: &Finding| arguments.strict || finding.is_error();
    Ok(if found.iter().any(is_counted) { ExitStatus::Negative } else { ExitStatus::Success })
}

/// Every finding once, and how many models were looked at.
pub fn collect_findings(
    opened: &OpenedRepository,
    environment: Option<&str>,
    dynamo: DynamoArgs,
    policies: FleetPolicies,
    output: &Output,
) -> Result<(Vec<Finding>, usize), CliError> {
    let policies = opened.held_to(policies);
    let workspace = &opened.workspace;
    let scope = &opened.checkout.scope;
    let names = match environment {
        Some(name) => vec![name.to_owned()],
        None => workspace.environment_names(),
    };
    let mut found = workspace.findings.clone();
    let mut models = BTreeSet::new();
    for name in &names {
        let mut selection = match workspace.resolve_environment(Some(name)) {
            Ok(selection) => selection,
            // The faults of the root file are among the findings already.
            Err(EnvironmentError::Unreadable { .. }) => continue,
            Err(error @ (EnvironmentError::Unknown { .. } | EnvironmentError::Ambiguous { .. })) => {
                return Err(error.into());
            }
        };
        // Beside others, an environment need not have models in each folder that is asked for.
        if names.len() == 1 || (selection.intents.is_empty() && selection.broken.is_empty()) {
            repository::note_when_environment_empty(opened, &selection, output);
        }
        dynamo.apply(&mut selection);
        models.extend(selection.intents.iter().map(|intent| intent.source.clone()));
        models.extend(selection.broken.iter().map(|broken| broken.source.clone()));
        found.extend(DesiredState::render(selection, &policies).findings);
    }
    finding::sort_and_dedup(&mut found);
    models.retain(|source| scope.contains(source) && source.ends_with("model.yaml"));
    Ok((repository::findings_in_scope(found, scope), models.len()))
}
