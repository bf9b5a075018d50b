//! `stator status`, and `stator get models`.

use super::args::{ChangeArgs, ClusterArgs, EnvironmentArgs, SimulateArgs};
use super::error::{CliError, CliErrorKind, ExitStatus};
use super::live_plan;
use super::output::Output;
use super::repository::{self, DesiredState, OpenedRepository};
use super::{connect, signals};
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args, ValueEnum};
use stator_cluster::cluster::{AnyCluster, Cluster as _, WatchEvent};
use stator_cluster::sync;
use stator_core::dynamo::kinds;
use stator_core::finding::closest_match;
use stator_core::object::ObjectRef;
use stator_model::intent::ResolvedEnvironment;
use stator_model::plan::{self, ModelStatus, ModelStatusContext, Record};
use stator_model::present::status as present;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Show each model's sync, health, revision, GPUs and drift
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 shown; 2 the repository or the cluster cannot be read.")]
pub struct StatusArgs {
    /// Folder of a repository, a single model.yaml, or the name of a model
    #[arg(default_value = ".", value_name = "PATH|MODEL")]
    target: String,
    #[command(flatten)]
    environment: EnvironmentArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    simulate: SimulateArgs,
    /// Output format
    #[arg(short, long, env = "STATOR_OUTPUT", value_name = "FORMAT", default_value = "table")]
    output: StatusFormat,
    /// Keep watching, and print the list again when it changes
    #[arg(short, long, env = "STATOR_WATCH", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    watch: bool,
}

/// The forms of a list of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StatusFormat {
    /// A table
    Table,
    /// A table with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// model/NAMESPACE/NAME
    Name,
}

/// How long changes are gathered before the list is shown again.
const WATCH_DEBOUNCE: Duration = Duration::from_millis(200);

pub async fn run(arguments: &StatusArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let work = show(arguments, output);
    tokio::select! {
        result = connect::with_timeout(&arguments.cluster, work) => result,
        () = signals::wait_for_interrupt() => Ok(ExitStatus::Interrupted),
    }
}

async fn show(arguments: &StatusArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let (path, name) = parse_target(&arguments.target);
    let opened = repository::open(&path, output)?;
    opened.note_when_empty(output);
    let mut selection = repository::select_environment(&opened.workspace, &arguments.environment)?;
    let namespace = selection.environment.namespace.to_string();
    let cluster = open_cluster(&opened, &selection, &arguments.cluster, output).await?;
    // One look needs nobody to move what it looks at.
    let _operator = match arguments.simulate.embedded_cluster(&cluster)? {
        Some(_) if arguments.watch => arguments.simulate.start_operator(&cluster)?,
        Some(_) | None => None,
    };
    connect::preflight(&cluster, output).await?;
    connect::detect_platform(&cluster, &mut selection).await;
    // The watch is opened first, so that nothing falls between it and the first look.
    let mut changes = match arguments.watch {
        true => Some(cluster.watch(kinds::ALL, Some(&namespace)).await?),
        false => None,
    };
    let mut models = read_statuses(&opened, repository::render_selection(selection), &cluster).await?.0;
    let mut shown = String::new();
    loop {
        let text = format_statuses(&select_models(models, name.as_deref())?, arguments.output, output)?;
        if text != shown {
            if !shown.is_empty() && arguments.output != StatusFormat::Json {
                output.write_result(if output.stdout_style.width.is_some() { "\u{1b}[H\u{1b}[2J" } else { "\n" })?;
            }
            output.write_result(&text)?;
            shown = text;
        }
        let Some(changes) = &mut changes else { return Ok(ExitStatus::Success) };
        match changes.recv().await {
            Some(WatchEvent::Applied(_) | WatchEvent::Deleted(_) | WatchEvent::Resync) => {}
            None => {
                return Err(CliError::new(CliErrorKind::Cluster, "the cluster closed the watch")
                    .with_hint("run the command again"));
            }
        }
        tokio::time::sleep(WATCH_DEBOUNCE).await;
        while changes.try_recv().is_ok() {}
        // Files may have changed too: the list is about git as much as about the cluster.
        let again = repository::open(&path, output)?;
        let mut selection = repository::select_environment(&again.workspace, &arguments.environment)?;
        connect::detect_platform(&cluster, &mut selection).await;
        models = read_statuses(&again, repository::render_selection(selection), &cluster).await?.0;
    }
}

/// Opens the environment's cluster.
pub async fn open_cluster(
    opened: &OpenedRepository,
    selection: &ResolvedEnvironment,
    cluster: &ClusterArgs,
    output: &Output,
) -> Result<AnyCluster, CliError> {
    connect::open(cluster, &opened.checkout.root, selection.environment.context.as_deref(), output).await
}

/// Every model's status, and the environment's records.
pub async fn read_statuses(
    opened: &OpenedRepository,
    desired: DesiredState,
    cluster: &AnyCluster,
) -> Result<(Vec<ModelStatus>, Vec<Record>), CliError> {
    let found = live_plan::gather_live_state(cluster, &desired).await?;
    let input = live_plan::plan_input(opened, desired, found, &ChangeArgs::for_status());
    let plan = plan::build_plan(&input);
    let mut sight = ModelStatusContext { now: Some(jiff::Timestamp::now()), pods: Vec::new() };
    let mut models = plan::model_statuses(&input, &plan, &sight);
    // Pods are read only where something is to be explained by them.
    let waiting: Vec<ObjectRef> = models
        .iter()
        .flat_map(|model| &model.objects)
        .filter(|one| one.object.kind == kinds::GRAPH.kind && !one.health.is_good())
        .map(|one| one.object.clone())
        .collect();
    sight.pods = sync::list_graph_pods(cluster, &waiting).await;
    if !sight.pods.is_empty() {
        models = plan::model_statuses(&input, &plan, &sight);
    }
    models.sort_by(|a, b| a.name.cmp(&b.name));
    let ours = |record: &Record| record.repository == input.repository && record.environment == input.environment;
    let records = input.records.iter().filter(|record| ours(record)).cloned().collect();
    Ok((models, records))
}

/// A path that exists is one; anything else is a model's name, also as `-o name` prints it.
pub fn parse_target(text: &str) -> (PathBuf, Option<String>) {
    if Path::new(text).exists() || text.ends_with(".yaml") || (text.contains('/') && !text.starts_with("model/")) {
        (PathBuf::from(text), None)
    } else {
        (PathBuf::from("."), Some(model_name(text)))
    }
}

/// The name in `model/NAMESPACE/NAME`, or the text itself.
pub fn model_name(text: &str) -> String {
    match text.strip_prefix("model/").and_then(|rest| rest.split_once('/')) {
        Some((_, name)) => name.to_owned(),
        None => text.to_owned(),
    }
}

/// All models, or the one of a name.
pub fn select_models(models: Vec<ModelStatus>, name: Option<&str>) -> Result<Vec<ModelStatus>, CliError> {
    let Some(name) = name else { return Ok(models) };
    let known: Vec<String> = models.iter().map(|model| model.name.clone()).collect();
    let found: Vec<ModelStatus> = models.into_iter().filter(|model| model.name == name).collect();
    if found.is_empty() { Err(unknown_model(name, &known)) } else { Ok(found) }
}

/// There is no model of that name.
pub fn unknown_model(name: &str, known: &[String]) -> CliError {
    let meant = closest_match(name, known.iter().map(String::as_str));
    let hint = match meant {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "`stator status` lists the models of the environment".to_owned(),
    };
    CliError::input(format!("there is no model `{name}` in the environment")).with_hint(hint)
}

fn format_statuses(models: &[ModelStatus], format: StatusFormat, output: &Output) -> Result<String, CliError> {
    let now = jiff::Timestamp::now();
    Ok(match format {
        StatusFormat::Table => present::status_table(models, false, now, &output.stdout_style),
        StatusFormat::Wide => present::status_table(models, true, now, &output.stdout_style),
        StatusFormat::Json => stator_model::present::json(&present::ModelStatusReport { models })?,
        StatusFormat::Yaml => serde_saphyr::to_string(&present::ModelStatusReport { models }).map_err(|error| {
            CliError::new(CliErrorKind::Bug, format!("the status cannot be written as YAML: {error}"))
        })?,
        StatusFormat::Name => present::names(models),
    })
}
