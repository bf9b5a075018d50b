//! `stator support bundle`: what a bug report needs, without secrets, shown before it is written.

use super::args::{ClusterArgs, DynamoArgs, EnvironmentArgs, to_yaml};
use super::check::check_cluster;
use super::connect::{self, ClusterAccess};
use super::error::{CliError, ExitStatus};
use super::output::Output;
use super::status::view_environment;
use super::targets::{PathArgs, TargetArgs};
use super::version::VersionReport;
use super::{files, repository, validate};
use clap::{Args, Subcommand, ValueHint};
use serde::Serialize;
use serde_json::{Map, Value, json};
use stator_core::mask;
use stator_model::fleet_policy::FleetPolicies;
use stator_model::present::{TerminalOptions, escape, findings, history};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long one part of the bundle may take: what does not answer is part of the report.
const PART_TIMEOUT: Duration = Duration::from_secs(30);

/// Write a bundle for a bug report, without secrets
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub struct SupportArgs {
    #[command(subcommand)]
    what: SupportCommand,
}

#[derive(Debug, Subcommand)]
enum SupportCommand {
    Bundle(Box<BundleArgs>),
}

/// Write a bundle for a bug report, without secrets
///
/// The bundle is one YAML file: version, checks of the cluster, findings and models of the repository, their state, records
/// and events, and the state of sources. stator shows it, and writes it once you agree. Secrets are no part of it; values
/// that look like one are hidden. Names of models, files and hosts stay.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 written, or printed with `-`; 2 it cannot be written.\n\nExamples:\n  stator support bundle -e prod\n  stator support bundle - --context prod | less"
)]
struct BundleArgs {
    /// File to write; `-` prints the bundle
    #[arg(value_name = "FILE", default_value = "stator-support.yaml", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    #[command(flatten)]
    environment: EnvironmentArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Skip the confirmation
    #[arg(short, long, overrides_with = "yes")]
    yes: bool,
}

pub async fn run(arguments: &SupportArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let SupportCommand::Bundle(arguments) = &arguments.what;
    connect::with_interrupt(&arguments.cluster, write_bundle(arguments, output)).await
}

async fn write_bundle(arguments: &BundleArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let bundle = mask::redact_tokens(&to_yaml(&read_bundle(arguments, output).await)?).into_owned();
    if arguments.file == Path::new("-") {
        output.write_result(&bundle)?;
        return Ok(ExitStatus::Success);
    }
    let name = escape::line(&arguments.file.display().to_string());
    if !arguments.yes {
        output.write_result(&bundle)?;
        output.confirm(false, false, &format!("Write this to {name}?"))?;
    }
    files::write_atomically(&arguments.file, bundle.as_bytes())?;
    output.note(&format!("{name} written: read it before you send it to anybody."));
    Ok(ExitStatus::Success)
}

/// All parts of the bundle. One that cannot be read says why.
async fn read_bundle(arguments: &BundleArgs, output: &Output) -> Value {
    let quiet = output.without_notes();
    let mut bundle = Map::new();
    let mut add = |name: &str, part: Result<Value, CliError>| {
        let mut part = part.unwrap_or_else(|error| json!({"unavailable": error.to_string()}));
        mask::redact_value(&mut part);
        bundle.insert(name.to_owned(), part);
    };
    add("stator", data(&VersionReport::new()));
    add("repository", describe_repository(arguments, &quiet));
    add("cluster", in_time(describe_cluster(arguments, &quiet)).await);
    add("environment", in_time(describe_environment(arguments, &quiet)).await);
    add("sources", in_time(describe_sources(arguments, &quiet)).await);
    Value::Object(bundle)
}

async fn in_time(part: impl Future<Output = Result<Value, CliError>>) -> Result<Value, CliError> {
    let late = |_| CliError::input(format!("no answer within {} s", PART_TIMEOUT.as_secs()));
    tokio::time::timeout(PART_TIMEOUT, part).await.map_err(late)?
}

fn data(part: &impl Serialize) -> Result<Value, CliError> {
    Ok(serde_json::to_value(part)?)
}

fn describe_repository(arguments: &BundleArgs, output: &Output) -> Result<Value, CliError> {
    let opened = repository::open(Path::new("."), output)?;
    let environment = arguments.environment.environment.as_deref();
    let (found, models) =
        validate::collect_findings(&opened, environment, DynamoArgs::default(), FleetPolicies::default(), output)?;
    let told = findings::concise(&found, &TerminalOptions::default());
    Ok(json!({
        "revision": opened.checkout.revision,
        "environments": opened.workspace.environment_names(),
        "files": opened.checkout.tree.files.len(),
        "models": models,
        "findings": told.lines().collect::<Vec<_>>(),
    }))
}

async fn describe_cluster(arguments: &BundleArgs, output: &Output) -> Result<Value, CliError> {
    let cluster = connect::open(&arguments.cluster, ClusterAccess::Read, Path::new("."), None, output).await?;
    let (cluster, namespace, checks) =
        check_cluster(cluster, arguments.environment.namespace.as_deref(), false).await?;
    Ok(json!({"cluster": cluster, "namespace": namespace, "checks": checks}))
}

async fn describe_environment(arguments: &BundleArgs, output: &Output) -> Result<Value, CliError> {
    let targets = TargetArgs::of_paths(PathArgs::default());
    let view = view_environment(&targets, &arguments.environment, &arguments.cluster, None, output).await?;
    let mut records = data(&view.status.records)?;
    for record in records.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        // Arguments and variables of a model are the team's own.
        record.remove("intent");
    }
    let mut models = data(&view.status.models)?;
    let models_of = models.as_array_mut().into_iter().flatten();
    let drifts = models_of.filter_map(|model| model.get_mut("drift")?.as_array_mut()).flatten();
    for drift in drifts.filter_map(Value::as_object_mut) {
        drift.retain(|key, _| !matches!(key.as_str(), "have" | "want"));
    }
    Ok(json!({
        "namespace": view.namespace,
        "models": models,
        "events": history::record_events(view.status.records.iter()),
        "records": records,
    }))
}

async fn describe_sources(arguments: &BundleArgs, output: &Output) -> Result<Value, CliError> {
    let client = super::sources::SourceClient::open(&arguments.cluster, None, output).await?;
    let sources = match client.list(true).await {
        Ok(sources) => sources,
        Err(_) => client.list(false).await?,
    };
    let state = |source: &super::sources::ListedSource| json!({"name": source.full_name(), "ready": source.is_ready(), "suspended": source.is_suspended(), "message": source.message()});
    Ok(sources.iter().map(state).collect())
}
