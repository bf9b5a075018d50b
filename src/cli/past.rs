//! `stator history`, `stator events` and `stator describe`: what happened and why.

use super::args::{ClusterArgs, EnvironmentArgs};
use super::error::{CliError, Exit};
use super::output::Output;
use super::{connect, repository, status};
use crate::plan::{ModelStatus, Record};
use crate::present::{record as present, status as faces};
use clap::{Args, ValueEnum, ValueHint};
use serde_json::json;
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

async fn look(place: &Place, output: &Output) -> Result<(Vec<ModelStatus>, Vec<Record>), CliError> {
    connect::within(&place.cluster, async {
        let opened = repository::open(&place.path, output)?;
        let desired = repository::desired(&opened.workspace, &place.environment)?;
        let cluster = status::connect(&opened, &desired, &place.cluster, output).await?;
        status::look(&opened, desired, &cluster).await
    })
    .await
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
    let (models, records) = look(&arguments.place, output).await?;
    let record = record_of(&name, &models, &records)?;
    output.result(&match (arguments.place.output, record) {
        (Format::Text, Some(record)) => present::history(record, &output.look),
        (Format::Text, None) => "Nothing has happened yet.\n".to_owned(),
        (Format::Json, record) => {
            let history = record.map(|record| record.history.as_slice()).unwrap_or_default();
            crate::present::json(&json!({"model": name, "history": history}))?
        }
    })?;
    Ok(Exit::Success)
}

pub async fn events(arguments: &EventsArguments, output: &Output) -> Result<Exit, CliError> {
    let (models, records) = look(&arguments.place, output).await?;
    let name = arguments.model.as_deref().map(status::model_name);
    if let Some(name) = &name {
        record_of(name, &models, &records)?;
    }
    let wanted = records.iter().filter(|record| name.as_ref().is_none_or(|name| record.model == *name));
    let events = present::events(wanted);
    output.result(&match arguments.place.output {
        Format::Text => present::table(&events, &output.look),
        Format::Json => crate::present::json(&json!({"events": events}))?,
    })?;
    Ok(Exit::Success)
}

pub async fn describe(arguments: &DescribeArguments, output: &Output) -> Result<Exit, CliError> {
    let name = status::model_name(&arguments.model);
    let (models, records) = look(&arguments.place, output).await?;
    let record = record_of(&name, &models, &records)?;
    let model = models.iter().find(|model| model.name == name);
    output.result(&match arguments.place.output {
        Format::Json => crate::present::json(&json!({"model": model, "record": record}))?,
        Format::Text => {
            let now = jiff::Timestamp::now();
            let mut parts = Vec::new();
            parts.extend(model.map(|model| faces::details(model, now, &output.look)));
            parts
                .extend(record.map(|record| present::conditions(record, &output.look)).filter(|text| !text.is_empty()));
            parts.extend(record.map(|record| present::inventory(record, &output.look)));
            parts.extend(record.map(|record| format!("History:\n{}", present::history(record, &output.look))));
            parts.join("\n")
        }
    })?;
    Ok(Exit::Success)
}
