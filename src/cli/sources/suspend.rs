//! `stator suspend` and `stator resume`.

use super::{ListedSource, SourceClient, parse_source_name};
use crate::cli::args::ClusterArgs;
use crate::cli::connect;
use crate::cli::error::{CliError, ExitStatus};
use crate::cli::output::Output;
use clap::Args;
use serde_json::{Value, json};
use stator_model::present::escape;
use std::collections::BTreeSet;

/// Suspend the syncs of sources until they are resumed
#[derive(Debug, Args)]
#[command(
    after_help = "A running sync stops between two writes. Live objects stay as they are, and git is still polled.\n\nExit codes: 0 suspended, or it was already; 2 there is no such source, or the cluster refuses it."
)]
pub struct SuspendArgs {
    #[command(flatten)]
    selection: SourceSelectionArgs,
}

/// Resume the syncs of suspended sources
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 resumed, or it was not suspended; 2 there is no such source, or the cluster refuses it."
)]
pub struct ResumeArgs {
    #[command(flatten)]
    selection: SourceSelectionArgs,
}

/// Which sources.
#[derive(Debug, Args)]
struct SourceSelectionArgs {
    /// The sources
    #[arg(value_name = "NAME", required_unless_present = "all")]
    sources: Vec<String>,
    /// Every source of the namespace
    #[arg(long, conflicts_with = "sources")]
    all: bool,
    /// Namespace of the sources; by default the context's
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub async fn suspend(arguments: &SuspendArgs, output: &Output) -> Result<ExitStatus, CliError> {
    connect::with_timeout(&arguments.selection.cluster, set_suspended(&arguments.selection, true, output)).await
}

pub async fn resume(arguments: &ResumeArgs, output: &Output) -> Result<ExitStatus, CliError> {
    connect::with_timeout(&arguments.selection.cluster, set_suspended(&arguments.selection, false, output)).await
}

async fn set_suspended(which: &SourceSelectionArgs, suspend: bool, output: &Output) -> Result<ExitStatus, CliError> {
    let mut site = SourceClient::open(&which.cluster, which.namespace.as_deref(), output).await?;
    let mut found = Vec::new();
    if which.all {
        found = site.list(false).await?;
        if found.is_empty() {
            output.note(&format!("There are no sources in namespace {}.", site.namespace()));
        }
    } else {
        // All are looked for before any is changed: a name that is wrong changes nothing.
        for text in which.sources.iter().collect::<BTreeSet<_>>() {
            let (namespace, name) = parse_source_name(text);
            if let Some(namespace) = namespace {
                namespace.clone_into(&mut site.namespace);
            }
            found.push(site.get(name).await?);
        }
    }
    for one in found {
        let title = escape::line(&one.full_name());
        if one.is_suspended() == suspend {
            let already = if suspend { "already suspended" } else { "not suspended" };
            output.write_result(&format!("{title} is {already}; nothing was changed.\n"))?;
            continue;
        }
        one.object.namespace().clone_into(&mut site.namespace);
        site.patch(one.name(), &json!({"spec": {"suspend": suspend}})).await?;
        let done = if suspend { "Suspended" } else { "Resumed" };
        output.write_result(&format!("{done} {title}.\n"))?;
        if let Some(keeper) = managing_tool(&one) {
            output.warn(&format!(
                "{} is managed by {keeper}, which may revert `spec.suspend`: change it there too",
                one.full_name()
            ));
        }
    }
    Ok(ExitStatus::Success)
}

/// Who keeps an object as something else says: then a change by hand may not stay.
fn managing_tool(found: &ListedSource) -> Option<&'static str> {
    let (labels, annotations) = (found.object.labels(), found.object.annotations());
    let has = |name: &str| labels.contains_key(name) || annotations.contains_key(name);
    let managers: BTreeSet<&str> = found
        .object
        .value()
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.get("manager").and_then(Value::as_str))
        .collect();
    let by = |manager: &str| managers.contains(manager);
    if has("kustomize.toolkit.fluxcd.io/name") || has("helm.toolkit.fluxcd.io/name") || by("kustomize-controller") {
        Some("Flux")
    } else if has("argocd.argoproj.io/tracking-id") || has("argocd.argoproj.io/instance") || by("argocd-controller") {
        Some("Argo CD")
    } else if labels.get("app.kubernetes.io/managed-by") == Some(&"Helm") {
        Some("Helm")
    } else {
        None
    }
}
