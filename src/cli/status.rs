//! `stator status`, and `stator get models`.

use super::args::{ChangeArgs, ClusterArgs, EnvironmentArgs, FrontendArgs, SimulateArgs};
use super::error::{CliError, ExitStatus};
use super::list_output::{ListFormat, ListOutputArgs, ListPrinter, to_yaml};
use super::live_plan;
use super::output::Output;
use super::repository::{self, DesiredState, OpenedRepository};
use super::{connect, signals};
use clap::Args;
use stator_cluster::cluster::{AnyCluster, Cluster as _};
use stator_cluster::sync;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::finding::did_you_mean;
use stator_core::object::ObjectRef;
use stator_model::intent::ResolvedEnvironment;
use stator_model::plan::{self, ModelStatus, ModelStatusContext, Record};
use stator_model::present::status as present;
use std::path::{Path, PathBuf};

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
    frontends: FrontendArgs,
    #[command(flatten)]
    simulate: SimulateArgs,
    #[command(flatten)]
    list: ListOutputArgs,
}

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
    let cluster = arguments.frontends.apply(&cluster);
    // One look needs nobody to move what it looks at.
    let _operator = match arguments.simulate.embedded_cluster(&cluster)? {
        Some(_) if arguments.list.watch => arguments.simulate.start_operator(&cluster)?,
        Some(_) | None => None,
    };
    connect::preflight(&cluster, output).await?;
    connect::detect_platform(&cluster, &mut selection).await;
    // The watch is opened first, so that nothing falls between it and the first look.
    let changes = match arguments.list.watch {
        true => {
            let shown: Vec<ObjectKind> = kinds::ALL.iter().filter(|kind| **kind != kinds::JOURNAL).copied().collect();
            Some(cluster.watch(&shown, Some(&namespace)).await?)
        }
        false => None,
    };
    let mut models = read_statuses(&opened, opened.render_selection(selection), &cluster).await?.0;
    let mut printer = ListPrinter::new(arguments.list.output, changes, output);
    loop {
        let models_shown = select_models(models, name.as_deref())?;
        printer.print(format_statuses(&models_shown, arguments.list.output, output)?)?;
        if !printer.wait_for_change().await? {
            return Ok(ExitStatus::Success);
        }
        // Files may have changed too: the list is about git as much as about the cluster.
        let again = repository::open(&path, output)?;
        let mut selection = repository::select_environment(&again.workspace, &arguments.environment)?;
        connect::detect_platform(&cluster, &mut selection).await;
        models = read_statuses(&again, again.render_selection(selection), &cluster).await?.0;
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
    mut desired: DesiredState,
    cluster: &AnyCluster,
) -> Result<(Vec<ModelStatus>, Vec<Record>), CliError> {
    let found = live_plan::gather_live_state(cluster, opened, &mut desired).await?;
    let mut input = live_plan::plan_input(opened, desired, found, &ChangeArgs::for_status());
    let plan = live_plan::build_explained_plan(cluster, &mut input).await;
    let mut sight = ModelStatusContext { now: Some(jiff::Timestamp::now()), ..ModelStatusContext::default() };
    let mut models = plan::model_statuses(&input, &plan, &sight);
    // Pods are read only where something is to be explained by them.
    let waiting: Vec<ObjectRef> = models
        .iter()
        .flat_map(|model| &model.objects)
        .filter(|one| one.object.kind == kinds::GRAPH.kind && !one.health.is_good())
        .map(|one| one.object.clone())
        .collect();
    sight.pods = sync::list_graph_pods(cluster, &waiting).await;
    // Frontends are asked only what the status of an adapter leaves open.
    let frontends = plan::frontends_of_adapters(&input, &plan, &models);
    sight.frontends = sync::ask_frontends(cluster, frontends).await;
    if !sight.pods.is_empty() || !sight.frontends.is_empty() {
        models = plan::model_statuses(&input, &plan, &sight);
    }
    models.sort_by(|a, b| a.name.cmp(&b.name));
    let records = plan::own_bookkeeping(&input).records;
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
    let hint = did_you_mean(name, known.iter().map(String::as_str))
        .unwrap_or_else(|| "`stator status` lists the models of the environment".to_owned());
    CliError::input(format!("there is no model `{name}` in the environment")).with_hint(hint)
}

fn format_statuses(models: &[ModelStatus], format: ListFormat, output: &Output) -> Result<String, CliError> {
    let now = jiff::Timestamp::now();
    Ok(match format {
        ListFormat::Table => present::status_table(models, false, now, &output.stdout_style),
        ListFormat::Wide => present::status_table(models, true, now, &output.stdout_style),
        ListFormat::Json => stator_model::present::json(&present::ModelStatusReport { models })?,
        ListFormat::Yaml => to_yaml(&present::ModelStatusReport { models })?,
        ListFormat::Name => present::names(models),
    })
}
