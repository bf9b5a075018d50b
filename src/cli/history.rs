//! `stator history` and `stator describe`: what happened and why.

use super::args::{ClusterArgs, EnvironmentArgs, FrontendArgs, ReportFormat};
use super::connect::ClusterAccess;
use super::error::{CliError, ExitStatus};
use super::output::Output;
use super::targets::{Target, TargetedModels, parse_target};
use super::{connect, live_plan, repository, status};
use clap::{Args, ValueHint};
use serde_json::json;
use stator_cluster::cluster::kube::events_of_models;
use stator_cluster::sync::EnvironmentStatus;
use stator_git::source::RepositoryScope;
use stator_model::plan::{ModelStatus, Record};
use stator_model::present::history::ClusterEvent;
use stator_model::present::{escape, pluralize};
use stator_model::present::{history as present, status as faces};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Where the records are.
#[derive(Debug, Args)]
struct RecordQueryArgs {
    /// Folder of the repository
    #[arg(long, value_name = "PATH", default_value = ".", value_hint = ValueHint::DirPath)]
    path: PathBuf,
    #[command(flatten)]
    environment: EnvironmentArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: ReportFormat,
}

/// Show the last syncs of a model, or with --events its events
///
/// Syncs are shown newest first, each with what it did; events oldest first, those of the cluster's own controllers too.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Name of the model, its folder, or its model.yaml; with --events, by default all models of the environment
    #[arg(value_name = "MODEL|PATH", value_hint = ValueHint::AnyPath, required_unless_present = "events")]
    model: Option<String>,
    /// Show events
    #[arg(long)]
    events: bool,
    #[command(flatten)]
    query: RecordQueryArgs,
}

/// Show everything about one model: objects, health, drift, history
#[derive(Debug, Args)]
pub struct DescribeArgs {
    /// Name of the model, its folder, or its model.yaml
    #[arg(value_name = "MODEL|PATH", value_hint = ValueHint::AnyPath)]
    model: String,
    #[command(flatten)]
    query: RecordQueryArgs,
    #[command(flatten)]
    frontends: FrontendArgs,
}

/// What is read beside the records and the live objects.
#[derive(Clone, Copy, Debug, Default)]
struct AskedBeside {
    /// What the cluster's own controllers said.
    events: bool,
    /// What frontends serve.
    frontends: Option<FrontendArgs>,
}

/// What is known of the models of an environment.
struct EnvironmentHistory {
    models: Vec<ModelStatus>,
    records: Vec<Record>,
    /// What the cluster's own controllers said, oldest first; only where that was asked for.
    cluster_events: Vec<ClusterEvent>,
}

async fn read_history(
    place: &RecordQueryArgs,
    target: Option<&Target>,
    beside: AskedBeside,
    output: &Output,
) -> Result<EnvironmentHistory, CliError> {
    connect::with_timeout(&place.cluster, async {
        let path = if let Some(Target::Path(path)) = target { path } else { &place.path };
        let mut opened = repository::open(path, output)?;
        let mut selection = repository::select_environment(&opened.workspace, &place.environment)?;
        if let Some(Target::Model(model)) = target {
            opened.models = TargetedModels::of_names(RepositoryScope::default(), BTreeSet::from([model.clone()]));
            opened.models.check_namespaces(&[&selection])?;
            opened.checkout.scope = opened.models.scope_in(&[&selection]);
        }
        let namespace = selection.environment.namespace.to_string();
        let cluster = status::open_cluster(&opened, &selection, &place.cluster, ClusterAccess::Read, output).await?;
        let cluster = beside.frontends.map_or_else(|| cluster.clone(), |frontends| frontends.apply(&cluster));
        connect::preflight(&cluster, output).await?;
        connect::detect_platform(&cluster, &mut selection).await;
        let EnvironmentStatus { models, records, .. } = live_plan::read_statuses(&opened, selection, &cluster).await?;
        let said = match cluster.as_kubernetes() {
            Some(cluster) if beside.events => match cluster.list_events(&namespace).await {
                Ok(events) => events_of_models(&models, events),
                Err(error) => {
                    // The records tell their part all the same.
                    output.warn(&format!("events of the cluster are not shown: {error}; {}", error.help()));
                    Vec::new()
                }
            },
            Some(_) | None => Vec::new(),
        };
        Ok(EnvironmentHistory { models, records, cluster_events: said })
    })
    .await
}

/// The model that a target names, or the only one in its folder.
fn target_model(target: &Target, models: &[ModelStatus]) -> Result<String, CliError> {
    match (target, models) {
        (Target::Model(model), _) => Ok(model.name.clone()),
        (Target::Path(_), [model]) => Ok(model.name.clone()),
        (Target::Path(path), models) => Err(CliError::usage(format!(
            "{} holds {}",
            escape::line(&path.display().to_string()),
            pluralize(models.len(), "model", "models")
        ))
        .with_hint("pass the name of one model, its folder, or its model.yaml")),
    }
}

/// The record of a model; `None` for one that git has and that was never synced.
fn find_record<'a>(name: &str, records: &'a [Record]) -> Option<&'a Record> {
    records.iter().find(|record| record.model == name)
}

pub async fn history(arguments: &HistoryArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let target = arguments.model.as_deref().map(parse_target);
    let beside = AskedBeside { events: arguments.events, frontends: None };
    let EnvironmentHistory { models, records, cluster_events: mut said } =
        read_history(&arguments.query, target.as_ref(), beside, output).await?;
    let name = target.map(|target| target_model(&target, &models)).transpose()?;
    let format = arguments.query.output;
    let text = if arguments.events {
        said.retain(|event| name.as_ref().is_none_or(|name| event.model == *name));
        let wanted = records.iter().filter(|record| name.as_ref().is_none_or(|name| record.model == *name));
        let events = present::record_events(wanted);
        let data = format.encode(&json!({"events": events, "cluster": said}))?;
        data.unwrap_or_else(|| present::events_table(&events, &said, &output.stdout_style))
    } else {
        let record = name.as_ref().and_then(|name| find_record(name, &records));
        let history = record.map(|record| record.history.as_slice()).unwrap_or_default();
        let text = || match record {
            Some(record) => present::sync_history(record, &output.stdout_style),
            None => "No events yet.\n".to_owned(),
        };
        format.encode(&json!({"model": name, "history": history}))?.unwrap_or_else(text)
    };
    output.write_result(&text)?;
    Ok(ExitStatus::Success)
}

pub async fn describe(arguments: &DescribeArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let target = parse_target(&arguments.model);
    let beside = AskedBeside { events: true, frontends: Some(arguments.frontends) };
    let EnvironmentHistory { models, records, cluster_events: mut said } =
        read_history(&arguments.query, Some(&target), beside, output).await?;
    let name = target_model(&target, &models)?;
    said.retain(|event| event.model == name);
    let record = find_record(&name, &records);
    let model = models.iter().find(|model| model.name == name);
    let text = || {
        let now = jiff::Timestamp::now();
        let mut parts = Vec::new();
        parts.extend(model.map(|model| faces::status_details(model, now, &output.stdout_style)));
        parts.extend(
            record
                .map(|record| present::conditions_table(record, &output.stdout_style))
                .filter(|text| !text.is_empty()),
        );
        parts.extend(record.map(|record| present::inventory_table(record, &output.stdout_style)));
        parts.extend(record.map(|record| format!("History:\n{}", present::sync_history(record, &output.stdout_style))));
        if !said.is_empty() {
            parts.push(format!("Events:\n{}", present::events_table(&[], &said, &output.stdout_style)));
        }
        parts.join("\n")
    };
    let data = arguments.query.output.encode(&json!({"model": model, "record": record, "cluster": said}))?;
    output.write_result(&data.unwrap_or_else(text))?;
    Ok(ExitStatus::Success)
}
