//! `stator history`, `stator events` and `stator describe`: what happened and why.

use super::args::{ClusterArgs, EnvironmentArgs};
use super::error::{CliError, Exit};
use super::output::Output;
use super::{connect, repository, status};
use clap::{Args, ValueEnum, ValueHint};
use serde_json::json;
use stator_cluster::cluster::kube::Event;
use stator_model::plan::{ModelStatus, Record};
use stator_model::present::record::ClusterEvent;
use stator_model::present::{record as present, status as faces};
use std::path::PathBuf;

/// Where the records are.
#[derive(Debug, Args)]
struct Place {
    /// Folder of the repository
    #[arg(long, env = "STATOR_PATH", value_name = "PATH", default_value = ".", value_hint = ValueHint::DirPath)]
    path: PathBuf,
    #[command(flatten)]
    environment: EnvironmentArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Text, or JSON
    #[arg(short, long, env = "STATOR_OUTPUT", value_name = "FORMAT", default_value = "text")]
    output: Format,
}

/// The forms of a past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text
    Text,
    /// JSON
    Json,
}

/// Show the last syncs of a model, newest first, and what each did
#[derive(Debug, Args)]
pub struct HistoryArguments {
    /// The model's name
    model: String,
    #[command(flatten)]
    place: Place,
}

/// Show what happened to the models of an environment, oldest first
#[derive(Debug, Args)]
pub struct EventsArguments {
    /// This model only
    model: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Show everything about one model: objects, health, drift, inventory, history
#[derive(Debug, Args)]
pub struct DescribeArguments {
    /// The model's name
    model: String,
    #[command(flatten)]
    place: Place,
}

/// What is known of the models of an environment.
struct Known {
    models: Vec<ModelStatus>,
    records: Vec<Record>,
    /// What the cluster's own controllers said, oldest first; only where that was asked for.
    said: Vec<ClusterEvent>,
}

async fn look(place: &Place, with_events: bool, output: &Output) -> Result<Known, CliError> {
    connect::within(&place.cluster, async {
        let opened = repository::open(&place.path, output)?;
        let mut selection = repository::select(&opened.workspace, &place.environment)?;
        let namespace = selection.environment.namespace.to_string();
        let cluster = status::connect(&opened, &selection, &place.cluster, output).await?;
        connect::preflight(&cluster, output).await?;
        connect::learn(&cluster, &mut selection).await;
        let (models, records) = status::look(&opened, repository::render_selection(selection), &cluster).await?;
        let said = match cluster.kubernetes() {
            Some(cluster) if with_events => match cluster.events(&namespace).await {
                Ok(events) => about(&models, events),
                Err(error) => {
                    // The records tell their part all the same.
                    output.warn(&format!("the cluster's events are left out: {error}; {}", error.help()));
                    Vec::new()
                }
            },
            Some(_) | None => Vec::new(),
        };
        Ok(Known { models, records, said })
    })
    .await
}

/// The Events that are about a model: about one of its objects, or a pod or the like that was made for one.
fn about(models: &[ModelStatus], events: Vec<Event>) -> Vec<ClusterEvent> {
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
fn record_of<'a>(name: &str, models: &[ModelStatus], records: &'a [Record]) -> Result<Option<&'a Record>, CliError> {
    let record = records.iter().find(|record| record.model == name);
    if record.is_none() && !models.iter().any(|model| model.name == name) {
        let known: Vec<String> = models.iter().map(|model| model.name.clone()).collect();
        return Err(status::unknown_model(name, &known));
    }
    Ok(record)
}

pub async fn history(arguments: &HistoryArguments, output: &Output) -> Result<Exit, CliError> {
    let name = status::model_name(&arguments.model);
    let Known { models, records, .. } = look(&arguments.place, false, output).await?;
    let record = record_of(&name, &models, &records)?;
    output.result(&match (arguments.place.output, record) {
        (Format::Text, Some(record)) => present::history(record, &output.look),
        (Format::Text, None) => "Nothing has happened yet.\n".to_owned(),
        (Format::Json, record) => {
            let history = record.map(|record| record.history.as_slice()).unwrap_or_default();
            stator_model::present::json(&json!({"model": name, "history": history}))?
        }
    })?;
    Ok(Exit::Success)
}

pub async fn events(arguments: &EventsArguments, output: &Output) -> Result<Exit, CliError> {
    let Known { models, records, mut said } = look(&arguments.place, true, output).await?;
    let name = arguments.model.as_deref().map(status::model_name);
    if let Some(name) = &name {
        record_of(name, &models, &records)?;
        said.retain(|event| event.model == *name);
    }
    let wanted = records.iter().filter(|record| name.as_ref().is_none_or(|name| record.model == *name));
    let events = present::events(wanted);
    output.result(&match arguments.place.output {
        Format::Text => present::table(&events, &said, &output.look),
        Format::Json => stator_model::present::json(&json!({"events": events, "cluster": said}))?,
    })?;
    Ok(Exit::Success)
}

pub async fn describe(arguments: &DescribeArguments, output: &Output) -> Result<Exit, CliError> {
    let name = status::model_name(&arguments.model);
    let Known { models, records, mut said } = look(&arguments.place, true, output).await?;
    said.retain(|event| event.model == name);
    let record = record_of(&name, &models, &records)?;
    let model = models.iter().find(|model| model.name == name);
    output.result(&match arguments.place.output {
        Format::Json => stator_model::present::json(&json!({"model": model, "record": record, "cluster": said}))?,
        Format::Text => {
            let now = jiff::Timestamp::now();
            let mut parts = Vec::new();
            parts.extend(model.map(|model| faces::details(model, now, &output.look)));
            parts
                .extend(record.map(|record| present::conditions(record, &output.look)).filter(|text| !text.is_empty()));
            parts.extend(record.map(|record| present::inventory(record, &output.look)));
            parts.extend(record.map(|record| format!("History:\n{}", present::history(record, &output.look))));
            if !said.is_empty() {
                parts.push(format!("Events:\n{}", present::table(&[], &said, &output.look)));
            }
            parts.join("\n")
        }
    })?;
    Ok(Exit::Success)
}
