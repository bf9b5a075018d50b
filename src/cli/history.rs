//! `stator history`, `stator events` and `stator describe`: what happened and why.

use super::args::{ClusterArgs, EnvironmentArgs, ReportFormat};
use super::error::{CliError, ExitStatus};
use super::output::Output;
use super::{connect, repository, status};
use clap::{Args, ValueHint};
use serde_json::json;
use stator_cluster::cluster::kube::KubeEvent;
use stator_model::plan::{ModelStatus, Record};
use stator_model::present::history::ClusterEvent;
use stator_model::present::{history as present, status as faces};
use std::path::PathBuf;

/// Where the records are.
#[derive(Debug, Args)]
struct RecordQueryArgs {
    /// Folder of the repository
    #[arg(long, env = "STATOR_PATH", value_name = "PATH", default_value = ".", value_hint = ValueHint::DirPath)]
    path: PathBuf,
    #[command(flatten)]
    environment: EnvironmentArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Output format: text or JSON
    #[arg(short, long, env = "STATOR_OUTPUT", value_name = "FORMAT", default_value = "text")]
    output: ReportFormat,
}

/// Show the last syncs of a model, newest first, and what each did
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// The model's name
    model: String,
    #[command(flatten)]
    query: RecordQueryArgs,
}

/// Show the events of an environment's models, oldest first
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Only this model
    model: Option<String>,
    #[command(flatten)]
    query: RecordQueryArgs,
}

/// Show everything about one model: objects, health, drift, inventory, history
#[derive(Debug, Args)]
pub struct DescribeArgs {
    /// The model's name
    model: String,
    #[command(flatten)]
    query: RecordQueryArgs,
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
    with_events: bool,
    output: &Output,
) -> Result<EnvironmentHistory, CliError> {
    connect::with_timeout(&place.cluster, async {
        let opened = repository::open(&place.path, output)?;
        let mut selection = repository::select_environment(&opened.workspace, &place.environment)?;
        let namespace = selection.environment.namespace.to_string();
        let cluster = status::open_cluster(&opened, &selection, &place.cluster, output).await?;
        connect::preflight(&cluster, output).await?;
        connect::detect_platform(&cluster, &mut selection).await;
        let (models, records) = status::read_statuses(&opened, opened.render_selection(selection), &cluster).await?;
        let said = match cluster.as_kubernetes() {
            Some(cluster) if with_events => match cluster.list_events(&namespace).await {
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

/// The Events that are about a model: about one of its objects, or a pod or the like that was made for one.
fn events_of_models(models: &[ModelStatus], events: Vec<KubeEvent>) -> Vec<ClusterEvent> {
    events
        .into_iter()
        .filter_map(|event| {
            let objects = models.iter().flat_map(|model| model.objects.iter().map(move |one| (model, &one.object)));
            // What Dynamo's operator makes is named after the graph; the longest name that fits is the graph's own.
            let fits = |object: &stator_core::object::ObjectRef| {
                let own = object.kind == event.kind && object.name == event.name;
                own || event.name.strip_prefix(&object.name).is_some_and(|rest| rest.starts_with('-'))
            };
            let (model, _) = objects.filter(|(_, object)| fits(object)).max_by_key(|(_, object)| object.name.len())?;
            Some(ClusterEvent {
                time: event.time,
                model: model.name.clone(),
                object: format!("{} {}", event.kind, event.name),
                warning: event.warning,
                reason: event.reason,
                message: event.message,
                count: event.count,
            })
        })
        .collect()
}

/// The record of a model; `None` for one that git has and that was never synced.
fn find_record<'a>(name: &str, models: &[ModelStatus], records: &'a [Record]) -> Result<Option<&'a Record>, CliError> {
    let record = records.iter().find(|record| record.model == name);
    if record.is_none() && !models.iter().any(|model| model.name == name) {
        let known: Vec<String> = models.iter().map(|model| model.name.clone()).collect();
        return Err(status::unknown_model(name, &known));
    }
    Ok(record)
}

pub async fn history(arguments: &HistoryArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let name = status::model_name(&arguments.model);
    let EnvironmentHistory { models, records, .. } = read_history(&arguments.query, false, output).await?;
    let record = find_record(&name, &models, &records)?;
    output.write_result(&match (arguments.query.output, record) {
        (ReportFormat::Text, Some(record)) => present::sync_history(record, &output.stdout_style),
        (ReportFormat::Text, None) => "No events yet.\n".to_owned(),
        (ReportFormat::Json, record) => {
            let history = record.map(|record| record.history.as_slice()).unwrap_or_default();
            stator_model::present::json(&json!({"model": name, "history": history}))?
        }
    })?;
    Ok(ExitStatus::Success)
}

pub async fn events(arguments: &EventsArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let EnvironmentHistory { models, records, cluster_events: mut said } =
        read_history(&arguments.query, true, output).await?;
    let name = arguments.model.as_deref().map(status::model_name);
    if let Some(name) = &name {
        find_record(name, &models, &records)?;
        said.retain(|event| event.model == *name);
    }
    let wanted = records.iter().filter(|record| name.as_ref().is_none_or(|name| record.model == *name));
    let events = present::record_events(wanted);
    output.write_result(&match arguments.query.output {
        ReportFormat::Text => present::events_table(&events, &said, &output.stdout_style),
        ReportFormat::Json => stator_model::present::json(&json!({"events": events, "cluster": said}))?,
    })?;
    Ok(ExitStatus::Success)
}

pub async fn describe(arguments: &DescribeArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let name = status::model_name(&arguments.model);
    let EnvironmentHistory { models, records, cluster_events: mut said } =
        read_history(&arguments.query, true, output).await?;
    said.retain(|event| event.model == name);
    let record = find_record(&name, &models, &records)?;
    let model = models.iter().find(|model| model.name == name);
    output.write_result(&match arguments.query.output {
        ReportFormat::Json => stator_model::present::json(&json!({"model": model, "record": record, "cluster": said}))?,
        ReportFormat::Text => {
            let now = jiff::Timestamp::now();
            let mut parts = Vec::new();
            parts.extend(model.map(|model| faces::status_details(model, now, &output.stdout_style)));
            parts.extend(
                record
                    .map(|record| present::conditions_table(record, &output.stdout_style))
                    .filter(|text| !text.is_empty()),
            );
            parts.extend(record.map(|record| present::inventory_table(record, &output.stdout_style)));
            parts.extend(
                record.map(|record| format!("History:\n{}", present::sync_history(record, &output.stdout_style))),
            );
            if !said.is_empty() {
                parts.push(format!("Events:\n{}", present::events_table(&[], &said, &output.stdout_style)));
            }
            parts.join("\n")
        }
    })?;
    Ok(ExitStatus::Success)
}
