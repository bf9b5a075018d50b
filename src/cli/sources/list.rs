//! `stator get sources`.

use super::{ListedSource, SourceClient, parse_source_name};
use crate::cli::args::{ClusterArgs, to_yaml};
use crate::cli::connect;
use crate::cli::error::{CliError, ExitStatus};
use crate::cli::list_output::{ListFormat, ListOutputArgs, ListPrinter};
use crate::cli::output::Output;
use crate::controller::sources::objects::MODEL_SOURCE;
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use stator_cluster::cluster::Cluster as _;
use stator_git::source::model_source::status::{ConditionStatus, ModelSourceStatus};
use stator_model::present::status::format_age;
use stator_model::present::table::{TableCell, TextTable};
use stator_model::present::{TerminalOptions, Tone, escape};

/// List the sources of a Kubernetes cluster, what they follow, and their state
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 shown; 2 there is no such source, or the cluster cannot be read.")]
pub struct GetSourcesArgs {
    /// Only the source of this name
    #[arg(value_name = "NAME")]
    source: Option<String>,
    /// Namespace of the sources; by default the context's
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// List the sources of all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["source", "namespace"])]
    all_namespaces: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    list: ListOutputArgs,
}

pub async fn run(arguments: &GetSourcesArgs, output: &Output) -> Result<ExitStatus, CliError> {
    connect::with_interrupt(&arguments.cluster, show(arguments, output)).await
}

async fn show(arguments: &GetSourcesArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let (elsewhere, name) = match arguments.source.as_deref().map(parse_source_name) {
        Some((namespace, name)) => (namespace, Some(name)),
        None => (None, None),
    };
    let site = SourceClient::open(&arguments.cluster, elsewhere.or(arguments.namespace.as_deref()), output).await?;
    let everywhere = arguments.all_namespaces;
    // The watch is opened first, so that nothing falls between it and the first look.
    let changes = match arguments.list.watch {
        true => {
            let namespace = (!everywhere).then_some(site.namespace.as_str());
            Some(site.kube.watch(&[MODEL_SOURCE], namespace).await?)
        }
        false => None,
    };
    let mut printer = ListPrinter::new(arguments.list.output, changes, output);
    loop {
        let found = match name {
            Some(name) => vec![site.get(name).await?],
            None => site.list(everywhere).await?,
        };
        printer.print(format_sources(&found, arguments, &site, output)?)?;
        if !printer.wait_for_change().await? {
            return Ok(ExitStatus::Success);
        }
    }
}

/// What `get sources -o json` prints.
#[derive(Debug, Serialize)]
struct SourceListReport<'a> {
    sources: Vec<SourceListRow<'a>>,
}

/// One source, as data.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SourceListRow<'a> {
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

fn list_row(found: &ListedSource) -> SourceListRow<'_> {
    let spec = found.object.spec();
    SourceListRow {
        namespace: found.object.namespace(),
        name: found.name(),
        url: spec.get("url").and_then(Value::as_str).unwrap_or_default(),
        r#ref: spec.get("ref").unwrap_or(&Value::Null),
        suspended: found.is_suspended(),
        ready: found.ready().map_or("Unknown", |ready| ready.status.as_str()),
        reason: found.ready().map_or("", |ready| ready.reason.as_str()),
        message: found.message(),
        current: found.is_current(),
        status: &found.status,
    }
}

fn format_sources(
    found: &[ListedSource],
    arguments: &GetSourcesArgs,
    site: &SourceClient,
    output: &Output,
) -> Result<String, CliError> {
    let now = jiff::Timestamp::now();
    let report = || SourceListReport { sources: found.iter().map(list_row).collect() };
    Ok(match arguments.list.output {
        ListFormat::Text | ListFormat::Wide if found.is_empty() && arguments.list.no_headers => String::new(),
        ListFormat::Text | ListFormat::Wide if found.is_empty() => match arguments.all_namespaces {
            true => "No sources.\n".to_owned(),
            false => format!("No sources in namespace {}.\n", escape::line(site.namespace())),
        },
        ListFormat::Text => table(found, false, arguments.all_namespaces, now, &arguments.list.style(output)),
        ListFormat::Wide => table(found, true, arguments.all_namespaces, now, &arguments.list.style(output)),
        ListFormat::Json => stator_model::present::json(&report())?,
        ListFormat::Yaml => to_yaml(&report())?,
        ListFormat::Name => found
            .iter()
            .map(|one| format!("modelsource/{}/{}\n", escape::line(one.object.namespace()), escape::line(one.name())))
            .collect(),
    })
}

pub(super) fn table(
    found: &[ListedSource],
    wide: bool,
    everywhere: bool,
    now: jiff::Timestamp,
    look: &TerminalOptions,
) -> String {
    let mut headings = Vec::new();
    if everywhere {
        headings.push("NAMESPACE");
    }
    headings.extend(["NAME", "REF", "REVISION", "MODELS", "READY", "AGE"]);
    if wide {
        headings.extend(["ENVIRONMENT", "GPUS", "NEWEST", "SUSPENDED", "URL"]);
    }
    headings.push("MESSAGE");
    let mut table = TextTable::new(&headings).least_important(&[
        "URL",
        "NEWEST",
        "SUSPENDED",
        "ENVIRONMENT",
        "GPUS",
        "AGE",
        "MODELS",
        "REF",
        "REVISION",
    ]);
    for one in found {
        let row = list_row(one);
        let status = &one.status;
        let mut cells = Vec::new();
        if everywhere {
            cells.push(TableCell::plain(row.namespace));
        }
        let tone = match one.ready().map(|ready| ready.status) {
            Some(ConditionStatus::True) => Tone::Good,
            Some(ConditionStatus::False) => Tone::Bad,
            Some(ConditionStatus::Unknown) | None => Tone::Caution,
        };
        let created = one.object.str_at("/metadata/creationTimestamp").map(|created| format_age(created, now));
        cells.extend([
            TableCell::plain(row.name),
            TableCell::plain(one.follows()),
            TableCell::plain(status.commit.as_deref().unwrap_or_default()),
            TableCell::plain(status.models.as_ref().map_or("", |models| models.ready.as_str())),
            TableCell::new(tone, row.ready),
            TableCell::plain(&created.unwrap_or_default()),
        ]);
        if wide {
            let gpus = status.plan.as_ref().map(|plan| plan.gpus.after.to_string());
            let newest = status.revision.seen.as_deref().map(stator_core::commit::short_commit);
            cells.extend([
                TableCell::plain(status.environment.as_deref().unwrap_or_default()),
                TableCell::plain(&gpus.unwrap_or_default()),
                TableCell::plain(newest.unwrap_or_default()),
                TableCell::plain(if row.suspended { "yes" } else { "no" }),
                TableCell::plain(row.url),
            ]);
        }
        cells.push(TableCell::plain(row.message));
        table.row(cells);
    }
    table.render(look)
}
