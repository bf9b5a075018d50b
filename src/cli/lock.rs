//! `stator lock`: what Dynamo's profiler chose becomes a file beside the intent.

use super::args::{ClusterArgs, EnvironmentArgs};
use super::connect::ClusterAccess;
use super::error::{CliError, CliErrorKind, ExitStatus};
use super::output::Output;
use super::repository::{self, OpenedRepository};
use super::targets::{TargetArgs, model_names};
use super::trusted_contexts::EnvironmentContext;
use super::{connect, files};
use clap::Args;
use stator_cluster::cluster::Cluster;
use stator_core::finding::{Finding, Location};
use stator_model::intent::lock::ActiveLock;
use stator_model::intent::{Intent, ResolvedEnvironment};
use stator_model::plan;
use stator_model::present::findings;
use stator_model::render::{self, RenderTarget, emit, profiling_result};
use std::collections::BTreeMap;

/// Write the profiler's results for models with `sla` to lock files
#[derive(Debug, Args)]
#[command(
    after_help = "A valid lock is not changed. In a repository with one environment the file is model.lock.yaml, else model.ENVIRONMENT.lock.yaml.\n\nExit codes: 0 every model with `sla` is locked; 1 one is not, or its lock is for another target; 2 the repository or the cluster cannot be read."
)]
pub struct LockArgs {
    #[command(flatten)]
    targets: TargetArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
    /// Write nothing and use no cluster; report missing and stale locks
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub async fn run(arguments: &LockArgs, output: &Output) -> Result<ExitStatus, CliError> {
    connect::with_timeout(&arguments.cluster, lock_models(arguments, output)).await
}

async fn lock_models(arguments: &LockArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let mut opened = repository::open_targets(&arguments.targets, output)?;
    opened.note_when_empty(output);
    let selection = opened.select(&arguments.environment, output)?;
    opened.models.check_names(model_names(&selection))?;
    let faulty = report_errors(&opened, &selection, output);
    let wanted = selection.intents.iter().filter(|intent| opened.checkout.scope.contains(&intent.source));
    let asked = wanted.filter_map(|intent| intent.load().ok()).filter(|intent| intent.model.spec.sla.is_some());
    let asked: Vec<Intent> = asked.collect();
    if asked.is_empty() && !faulty {
        output.note("Nothing to lock: no model here has `sla`.");
        return Ok(ExitStatus::Success);
    }
    let (held, open): (Vec<&Intent>, Vec<&Intent>) = asked.iter().partition(|intent| intent.lock.is_some());
    for intent in &held {
        let file = intent.lock.as_ref().map(|lock| lock.location.file.clone()).unwrap_or_default();
        output.note(&format!("{} is locked in {file}.", intent.model.metadata.name));
    }
    let done = match (arguments.check, open.is_empty()) {
        (true, _) => {
            for intent in &open {
                output.write_result(&format!(
                    "{}: {}\n",
                    intent.model.metadata.name,
                    describe_missing_lock(&opened, &selection, intent)
                ))?;
            }
            open.is_empty()
        }
        (false, true) => true,
        (false, false) => write_locks(arguments, &opened, &selection, &open, output).await?,
    };
    Ok(if done && !faulty { ExitStatus::Success } else { ExitStatus::Negative })
}

/// Says what is wrong with models that have errors: a damaged lock is one of them. Gives whether there are any.
fn report_errors(opened: &OpenedRepository, selection: &ResolvedEnvironment, output: &Output) -> bool {
    let scope = &opened.checkout.scope;
    let broken: Vec<&str> =
        selection.broken.iter().filter(|one| scope.contains(&one.source)).map(|one| one.source.as_str()).collect();
    let beside = |file: &str| {
        broken
            .iter()
            .any(|source| *source == file || parent_folder(source) == parent_folder(file) && is_model_file(file))
    };
    let found: Vec<Finding> =
        selection.findings.iter().filter(|one| one.is_error() && beside(&one.location.file)).cloned().collect();
    if !found.is_empty() {
        output.write_stderr(&findings::with_snippets(&found, &|file| opened.file_text(file), &output.stderr_style));
    }
    !broken.is_empty()
}

fn parent_folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// True for what stands beside a `model.yaml` and belongs to it.
fn is_model_file(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with("model."))
}

/// What is wrong with the lock of a model that has none that holds.
fn describe_missing_lock(opened: &OpenedRepository, selection: &ResolvedEnvironment, intent: &Intent) -> String {
    let file = lock_file(opened, selection, intent);
    let stale = selection.findings.iter().find(|one| {
        one.rule == stator_model::intent::rules::LOCK_STALE
            && parent_folder(&one.location.file) == parent_folder(&intent.source)
    });
    match stale {
        Some(finding) => format!("{}: {}", finding.location.file, finding.message),
        None => format!("{file} is missing"),
    }
}

/// Where the lock of a model belongs: the environment's own file where there is one already or several environments
/// are, and else the one for all.
fn lock_file(opened: &OpenedRepository, selection: &ResolvedEnvironment, intent: &Intent) -> String {
    let folder = parent_folder(&intent.source);
    let join = if folder.is_empty() { "" } else { "/" };
    let own = format!("{folder}{join}model.{}.lock.yaml", selection.name);
    let exists = opened.checkout.tree.files.iter().any(|file| file.path == own);
    if exists || opened.workspace.environment_names().len() > 1 {
        own
    } else {
        format!("{folder}{join}model.lock.yaml")
    }
}

/// Locks every model whose request has its result. Gives whether that were all.
async fn write_locks(
    arguments: &LockArgs,
    opened: &OpenedRepository,
    selection: &ResolvedEnvironment,
    open: &[&Intent],
    output: &Output,
) -> Result<bool, CliError> {
    let root = &opened.checkout.root;
    let context = EnvironmentContext::of(selection.environment.context.as_ref());
    let cluster = connect::open(&arguments.cluster, ClusterAccess::Read, root, context, output).await?;
    let target = repository::target_of(selection);
    let mut all = true;
    for intent in open {
        let model = intent.model.metadata.name.as_str();
        let file = lock_file(opened, selection, intent);
        match profiled_lock(&cluster, intent, &target, &file).await? {
            Ok(locked) => {
                files::write_atomically(&root.join(&file), locked.text.as_bytes())?;
                output.write_result(&format!("{file}\n"))?;
                output.note(&format!("{model} is locked to the result of request {}.", locked.request));
                for note in locked.notes {
                    output.note(&format!("note: {model}: {note}"));
                }
            }
            Err(reason) => {
                all = false;
                output.warn(&format!("{model} is not locked: {reason}"));
            }
        }
    }
    if all {
        output.note("Commit it and run `stator sync`: the graph is rendered from it until `sla` changes.");
    }
    Ok(all)
}

/// A lock, ready to be written.
struct RenderedLock {
    text: String,
    request: String,
    notes: Vec<String>,
}

/// The lock of one model, or why it has none yet.
async fn profiled_lock<C: Cluster>(
    cluster: &C,
    intent: &Intent,
    target: &RenderTarget,
    file: &str,
) -> Result<Result<RenderedLock, String>, CliError> {
    let Some(wanted) = render::request(intent, target) else {
        return Ok(Err("its request has errors; see `stator validate`".to_owned()));
    };
    let reference = wanted.reference();
    let Some(request) = cluster.get(&reference).await? else {
        return Ok(Err(format!("request {} is not in the cluster; run `stator sync --wait` first", reference.name)));
    };
    let graph = match plan::graph_made_by(&request) {
        Some(graph) => cluster.get(&graph).await?,
        None => None,
    };
    let found = match profiling_result::lock_from_request(intent, &request, graph.as_ref(), target.platform.release()) {
        Ok(found) => found,
        Err(reason) => return Ok(Err(reason.to_string())),
    };
    // A lock that could not be rendered would break its model.
    let lock = ActiveLock { document: found.lock, location: Location::file(file) };
    let locked = Intent { lock: Some(Box::new(lock.clone())), ..intent.clone() };
    let refused: BTreeMap<String, String> = render::render(&locked, target)
        .findings
        .into_iter()
        .filter(Finding::is_error)
        .map(|finding| (finding.message, finding.help))
        .collect();
    if !refused.is_empty() {
        let listed: Vec<String> = refused.into_iter().map(|(message, help)| format!("{message} ({help})")).collect();
        return Ok(Err(format!("the graph of request {} cannot be applied: {}", reference.name, listed.join("; "))));
    }
    let mut notes: Vec<String> = found
        .unconverted
        .iter()
        .map(|left| format!("`{}` of the profiler's graph is omitted: {}", left.path, left.reason))
        .collect();
    if !found.config_maps.is_empty() {
        let names = found.config_maps.join(", ");
        notes.push(format!("the graph reads ConfigMaps that stator does not create; do not delete them: {names}"));
    }
    let text = emit::lock_yaml(&lock.document).map_err(|error| CliError::new(CliErrorKind::Bug, error.to_string()))?;
    Ok(Ok(RenderedLock { text, request: reference.name, notes }))
}
