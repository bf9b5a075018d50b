//! `stator get sources`.

use super::{Found, Site, named};
use crate::cli::args::ClusterArgs;
use crate::cli::connect;
use crate::cli::error::{CliError, ErrorKind, Exit};
use crate::cli::output::Output;
use crate::cli::signals;
use crate::controller::resources::MODEL_SOURCE;
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args, ValueEnum};
use serde::Serialize;
use serde_json::Value;
use stator_cluster::cluster::{Cluster as _, WatchEvent};
use stator_git::source::model_source::status::{ConditionStatus, ModelSourceStatus};
use stator_model::present::status::age;
use stator_model::present::table::{Cell, Table};
use stator_model::present::{Look, Tone, escape};
use std::time::Duration;

/// The sources of a Kubernetes cluster: what they follow, and how they stand
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 shown; 2 there is no such source, or the cluster cannot be read.")]
pub struct Arguments {
    /// Only the source of this name
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Namespace of the sources; without it the context's own
    #[arg(short, long, env = "STATOR_NAMESPACE", value_name = "NAME")]
    namespace: Option<String>,
    /// The sources of all namespaces
    #[arg(short = 'A', long, env = "STATOR_ALL_NAMESPACES", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new(), conflicts_with_all = ["name", "namespace"])]
    all_namespaces: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The form of the list
    #[arg(short, long, env = "STATOR_OUTPUT", value_name = "FORMAT", default_value = "table")]
    output: Format,
    /// Go on, and show the list again whenever it changes
    #[arg(short, long, env = "STATOR_WATCH", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    watch: bool,
}

/// The forms of a list of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table
    Table,
    /// A table with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// modelsource/NAMESPACE/NAME
    Name,
}

/// How long changes are gathered before the list is shown again.
const SETTLE: Duration = Duration::from_millis(200);

pub async fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CliError> {
    let work = show(arguments, output);
    tokio::select! {
        result = connect::within(&arguments.cluster, work) => result,
        () = signals::interrupted() => Ok(Exit::Interrupted),
    }
}

async fn show(arguments: &Arguments, output: &Output) -> Result<Exit, CliError> {
    let (elsewhere, name) = match arguments.name.as_deref().map(named) {
        Some((namespace, name)) => (namespace, Some(name)),
        None => (None, None),
    };
    let site = Site::open(&arguments.cluster, elsewhere.or(arguments.namespace.as_deref()), output).await?;
    let everywhere = arguments.all_namespaces;
    // The watch is opened first, so that nothing falls between it and the first look.
    let mut changes = match arguments.watch {
        true => {
            let namespace = (!everywhere).then_some(site.namespace.as_str());
            Some(site.kube.watch(&[MODEL_SOURCE], namespace).await?)
        }
        false => None,
    };
    let mut shown = String::new();
    loop {
        let found = match name {
            Some(name) => vec![site.one(name).await?],
            None => site.all(everywhere).await?,
        };
        let text = text(&found, arguments, &site, output)?;
        if text != shown {
            if !shown.is_empty() && arguments.output != Format::Json {
                output.result(if output.look.width.is_some() { "\u{1b}[H\u{1b}[2J" } else { "\n" })?;
            }
            output.result(&text)?;
            shown = text;
        }
        let Some(changes) = &mut changes else { return Ok(Exit::Success) };
        match changes.recv().await {
            Some(WatchEvent::Applied(_) | WatchEvent::Deleted(_) | WatchEvent::Resync) => {}
            None => {
                return Err(
                    CliError::new(ErrorKind::Cluster, "the cluster ended the watch").hint("run the command again")
                );
            }
        }
        tokio::time::sleep(SETTLE).await;
        while changes.try_recv().is_ok() {}
    }
}

/// What `get sources -o json` prints.
#[derive(Debug, Serialize)]
struct Report<'a> {
    sources: Vec<Row<'a>>,
}

/// One source, as data.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    namespace: &'a str,
    name: &'a str,
    url: &'a str,
    r#ref: &'a Value,
    suspended: bool,
    /// `True`, `False` or `Unknown`.
    ready: &'static str,
    reason: &'a str,
    message: &'a str,
    /// Whether `status` is about the spec that the source has now.
    current: bool,
    status: &'a ModelSourceStatus,
}

fn row(found: &Found) -> Row<'_> {
    let spec = found.object.spec();
    Row {
        namespace: found.object.namespace(),
        name: found.name(),
        url: spec.get("url").and_then(Value::as_str).unwrap_or_default(),
        r#ref: spec.get("ref").unwrap_or(&Value::Null),
        suspended: found.is_suspended(),
        ready: found.ready().map_or("Unknown", |ready| ready.status.word()),
        reason: found.ready().map_or("", |ready| ready.reason.as_str()),
        message: found.message(),
        current: found.is_current(),
        status: &found.status,
    }
}

fn text(found: &[Found], arguments: &Arguments, site: &Site, output: &Output) -> Result<String, CliError> {
    let now = jiff::Timestamp::now();
    let report = || Report { sources: found.iter().map(row).collect() };
    Ok(match arguments.output {
        Format::Table | Format::Wide if found.is_empty() => match arguments.all_namespaces {
            true => "No sources.\n".to_owned(),
            false => format!("No sources in namespace {}.\n", escape::line(site.namespace())),
        },
        Format::Table => table(found, false, arguments.all_namespaces, now, &output.look),
        Format::Wide => table(found, true, arguments.all_namespaces, now, &output.look),
        Format::Json => stator_model::present::json(&report())?,
        Format::Yaml => serde_saphyr::to_string(&report())
            .map_err(|error| CliError::new(ErrorKind::Bug, format!("the list cannot be written as YAML: {error}")))?,
        Format::Name => found
            .iter()
            .map(|one| format!("modelsource/{}/{}\n", escape::line(one.object.namespace()), escape::line(one.name())))
            .collect(),
    })
}

pub(super) fn table(found: &[Found], wide: bool, everywhere: bool, now: jiff::Timestamp, look: &Look) -> String {
    let mut headings = Vec::new();
    if everywhere {
        headings.push("NAMESPACE");
    }
    headings.extend(["NAME", "REF", "REVISION", "MODELS", "READY", "AGE"]);
    if wide {
        headings.extend(["ENVIRONMENT", "GPUS", "NEWEST", "SUSPENDED", "URL"]);
    }
    headings.push("MESSAGE");
    let mut table = Table::new(&headings);
    for one in found {
        let row = row(one);
        let status = &one.status;
        let mut cells = Vec::new();
        if everywhere {
            cells.push(Cell::plain(row.namespace));
        }
        let tone = match one.ready().map(|ready| ready.status) {
            Some(ConditionStatus::True) => Tone::Good,
            Some(ConditionStatus::False) => Tone::Bad,
            Some(ConditionStatus::Unknown) | None => Tone::Caution,
        };
        let created = one.object.text("/metadata/creationTimestamp").map(|created| age(created, now));
        cells.extend([
            Cell::plain(row.name),
            Cell::plain(one.follows()),
            Cell::plain(status.commit.as_deref().unwrap_or_default()),
            Cell::plain(status.models.as_ref().map_or("", |models| models.ready.as_str())),
            Cell::new(tone, row.ready),
            Cell::plain(&created.unwrap_or_default()),
        ]);
        if wide {
            let gpus = status.plan.as_ref().map(|plan| plan.gpus.after.to_string());
            let newest = status.revision.seen.as_deref().map(stator_model::plan::short_commit);
            cells.extend([
                Cell::plain(status.environment.as_deref().unwrap_or_default()),
                Cell::plain(&gpus.unwrap_or_default()),
                Cell::plain(&newest.unwrap_or_default()),
                Cell::plain(if row.suspended { "yes" } else { "no" }),
                Cell::plain(row.url),
            ]);
        }
        cells.push(Cell::plain(row.message));
        table.row(cells);
    }
    table.render(look)
}
