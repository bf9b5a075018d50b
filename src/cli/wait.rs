//! `stator wait`.

use super::args::{ClusterArgs, EnvironmentArgs, FrontendArgs, ReportFormat};
use super::connect::ClusterAccess;
use super::error::{CliError, CliErrorKind, ExitStatus};
use super::output::Output;
use super::progress::LINE_INTERVAL;
use super::repository::{self, OpenedRepository};
use super::targets::TargetArgs;
use super::{connect, live_plan, signals, status};
use clap::{Args, ValueEnum};
use serde::Serialize;
use stator_cluster::cluster::{AnyCluster, Cluster as _, WatchEvent, WatchReceiver};
use stator_cluster::sync::EnvironmentStatus;
use stator_core::dynamo::health::Health;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::object::ObjectRef;
use stator_model::intent::ResolvedEnvironment;
use stator_model::plan::{Change, ChangeReason, KeptBy, ModelStatus, SyncState};
use stator_model::present::table::{TableCell, TextTable};
use stator_model::present::{TerminalOptions, Tone, pluralize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// How long changes are gathered before the next look.
const WATCH_DEBOUNCE: Duration = Duration::from_millis(200);

/// How long after a look there is another one, though no object changed: what a frontend serves is in no object.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// The time limit where none is given.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Wait until models are healthy, match git, or are deleted
#[derive(Debug, Args)]
#[command(
    after_help = "Without --timeout, it waits for 30 minutes at most. To sync and wait at once, use `stator sync --wait`.\n\nExit codes: 0 every model meets the condition; 1 at least one cannot meet it by waiting; 2 bad usage or no cluster; 124 --timeout; 130 interrupted."
)]
pub struct WaitArgs {
    #[command(flatten)]
    targets: TargetArgs,
    /// What to wait for
    #[arg(long = "for", value_name = "CONDITION", default_value = "healthy")]
    condition: WaitCondition,
    #[command(flatten)]
    environment: EnvironmentArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    frontends: FrontendArgs,
    /// Report format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: ReportFormat,
}

/// What models are waited for to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum WaitCondition {
    /// Every object of the model is healthy, or at zero replicas on purpose
    Healthy,
    /// The cluster matches git
    Synced,
    /// All objects of the model are gone, except volumes that outlive it
    Deleted,
}

impl WaitCondition {
    fn as_word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Synced => "synced",
            Self::Deleted => "deleted",
        }
    }
}

/// How far a model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum WaitOutcome {
    /// It is as waited for.
    Met,
    /// It may become so.
    Waiting,
    /// Waiting does not make it so.
    Failed,
}

impl WaitOutcome {
    fn cell(self) -> TableCell {
        match self {
            Self::Met => TableCell::new(Tone::Good, "Met"),
            Self::Waiting => TableCell::new(Tone::Caution, "Waiting"),
            Self::Failed => TableCell::new(Tone::Bad, "Failed"),
        }
    }
}

/// A model that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct WaitedModel {
    name: String,
    namespace: String,
    outcome: WaitOutcome,
    sync: SyncState,
    health: Health,
    message: String,
}

/// What `wait -o json` prints.
#[derive(Debug, Serialize)]
struct WaitReport<'a> {
    condition: WaitCondition,
    met: bool,
    models: &'a [WaitedModel],
}

pub async fn run(arguments: &WaitArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let limits = arguments.cluster.with_default_timeout(DEFAULT_TIMEOUT);
    let mut seen = Vec::new();
    let ended = tokio::select! {
        ended = connect::with_timeout(&limits, wait_for_condition(arguments, &mut seen, output)) => ended,
        () = signals::wait_for_interrupt() => return Ok(ExitStatus::Interrupted),
    };
    let exit = match ended {
        Ok(()) if seen.iter().any(|model: &WaitedModel| model.outcome == WaitOutcome::Failed) => ExitStatus::Negative,
        Ok(()) => ExitStatus::Success,
        // What was seen last says more than that the time is over.
        Err(error) if error.kind() == CliErrorKind::Timeout && !seen.is_empty() => ExitStatus::Timeout,
        Err(error) => return Err(error),
    };
    let met = exit == ExitStatus::Success;
    let data = arguments.output.encode(&WaitReport { condition: arguments.condition, met, models: &seen })?;
    output.write_result(&data.unwrap_or_else(|| format_text(&seen, arguments.condition, &output.stdout_style)))?;
    if exit == ExitStatus::Timeout {
        output.note("timed out; raise the limit with --timeout, or run `stator describe MODEL` to see the cause");
    }
    Ok(exit)
}

/// Looks until no model is left that waiting may help; `seen` is always the last look.
async fn wait_for_condition(
    arguments: &WaitArgs,
    seen: &mut Vec<WaitedModel>,
    output: &Output,
) -> Result<(), CliError> {
    let (opened, mut selection) = open(arguments, output)?;
    let namespace = selection.environment.namespace.to_string();
    let cluster = status::open_cluster(&opened, &selection, &arguments.cluster, ClusterAccess::Read, output).await?;
    let cluster = arguments.frontends.apply(&cluster);
    connect::preflight(&cluster, output).await?;
    connect::detect_platform(&cluster, &mut selection).await;
    // The watch is opened first, so that nothing falls between it and the first look.
    let watched: Vec<ObjectKind> = kinds::ALL.iter().filter(|kind| **kind != kinds::JOURNAL).copied().collect();
    let mut changes = cluster.watch(&watched, Some(&namespace)).await?;
    let (mut opened, mut selection) = (opened, selection);
    let mut report = ProgressLine { condition: arguments.condition, last: None };
    loop {
        let found = look(arguments.condition, &opened, selection, &cluster).await?;
        if found.is_empty() {
            return Err(no_model_selected());
        }
        report.print_due(&found, output);
        *seen = found;
        if seen.iter().all(|model| model.outcome != WaitOutcome::Waiting) {
            return Ok(());
        }
        wait_for_change(&mut changes).await?;
        // Files may have changed too: what is waited for is what git says now.
        (opened, selection) = open(arguments, &output.without_notes())?;
        connect::detect_platform(&cluster, &mut selection).await;
    }
}

fn open(arguments: &WaitArgs, output: &Output) -> Result<(OpenedRepository, ResolvedEnvironment), CliError> {
    let mut opened = repository::open_targets(&arguments.targets, output)?;
    if arguments.condition == WaitCondition::Deleted {
        opened.models = opened.models.allowing_unknown();
    }
    let selection = opened.select(&arguments.environment, output)?;
    Ok((opened, selection))
}

/// A wait for nothing would succeed at once, and a pipeline would take that for a healthy model.
fn no_model_selected() -> CliError {
    CliError::input("there is no model to wait for")
        .with_hint("check the targets and --selector; `stator status` lists the models of the environment")
}

async fn look(
    condition: WaitCondition,
    opened: &OpenedRepository,
    selection: ResolvedEnvironment,
    cluster: &AnyCluster,
) -> Result<Vec<WaitedModel>, CliError> {
    let namespace = selection.environment.namespace.to_string();
    let status = live_plan::read_statuses(opened, selection, cluster).await?;
    let mut models: Vec<WaitedModel> = match condition {
        WaitCondition::Healthy => status.models.iter().map(judge_health).collect(),
        WaitCondition::Synced => status.models.iter().map(judge_sync).collect(),
        WaitCondition::Deleted => judge_deletion(&status),
    };
    if condition == WaitCondition::Deleted {
        let unknown = opened.models.names().iter().filter(|name| models.iter().all(|model| model.name != **name));
        let gone: Vec<WaitedModel> = unknown.map(|name| gone_model(name, &namespace)).collect();
        models.extend(gone);
    }
    Ok(models)
}

fn judge(model: &ModelStatus, outcome: WaitOutcome, message: &str) -> WaitedModel {
    WaitedModel {
        name: model.name.clone(),
        namespace: model.namespace.clone(),
        outcome,
        sync: model.sync,
        health: model.health,
        message: message.to_owned(),
    }
}

fn judge_health(model: &ModelStatus) -> WaitedModel {
    let outcome = if model.health.is_good() {
        WaitOutcome::Met
    } else if model.is_lost {
        WaitOutcome::Failed
    } else {
        WaitOutcome::Waiting
    };
    judge(model, outcome, &model.message)
}

fn judge_sync(model: &ModelStatus) -> WaitedModel {
    let outcome = match model.sync {
        SyncState::Synced => WaitOutcome::Met,
        SyncState::OutOfSync | SyncState::Unknown => WaitOutcome::Waiting,
        SyncState::Blocked => WaitOutcome::Failed,
    };
    judge(model, outcome, &model.message)
}

/// What is left of each model: objects that carry its label, but for those that are kept because they hold data.
fn judge_deletion(status: &EnvironmentStatus) -> Vec<WaitedModel> {
    let owners: BTreeMap<ObjectRef, &str> = status
        .live
        .iter()
        .filter_map(|object| Some((object.reference().clone(), object.label(kinds::LABEL_MODEL)?)))
        .collect();
    let mut left: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for change in status.plan.changes.iter().filter(|change| !holds_data(change)) {
        if owners.get(&change.object) == Some(&change.model.as_str()) {
            left.entry(&change.model).or_default().insert(change.object.to_string());
        }
    }
    let judge_model = |model: &ModelStatus| match left.get(model.name.as_str()) {
        None => judge(model, WaitOutcome::Met, ""),
        Some(left) => {
            let first = left.first().map(String::as_str).unwrap_or_default();
            let message = match left.len() {
                1 => format!("{first} still exists"),
                number => format!("{first} and {} still exist", pluralize(number - 1, "other", "others")),
            };
            judge(model, WaitOutcome::Waiting, &message)
        }
    };
    status.models.iter().map(judge_model).collect()
}

fn holds_data(change: &Change) -> bool {
    change.reasons.iter().any(|reason| matches!(reason, ChangeReason::Kept(KeptBy::Data)))
}

/// A model that neither git nor a record knows.
fn gone_model(name: &str, namespace: &str) -> WaitedModel {
    WaitedModel {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        outcome: WaitOutcome::Met,
        sync: SyncState::Unknown,
        health: Health::Unknown,
        message: "it is in neither git nor a record".to_owned(),
    }
}

/// Says now and then how far the models are.
struct ProgressLine {
    condition: WaitCondition,
    /// When the last line was said, and which.
    last: Option<(Instant, String)>,
}

impl ProgressLine {
    /// Says the first model that is waited for, where that is news and the last line is long enough ago.
    fn print_due(&mut self, models: &[WaitedModel], output: &Output) {
        let waiting: Vec<&WaitedModel> = models.iter().filter(|model| model.outcome == WaitOutcome::Waiting).collect();
        let Some((first, others)) = waiting.split_first() else { return };
        let met = models.iter().filter(|model| model.outcome == WaitOutcome::Met).count();
        let message = if first.message.is_empty() { String::new() } else { format!(": {}", first.message) };
        let more = match others.len() {
            0 => String::new(),
            more => format!(" (and {})", pluralize(more, "more model", "more models")),
        };
        let line = format!(
            "{met} of {} {}; {}: {}, {}{message}{more}",
            pluralize(models.len(), "model", "models"),
            self.condition.as_word(),
            first.name,
            first.sync.as_str(),
            first.health.as_str()
        );
        if self.last.as_ref().is_none_or(|(at, last)| at.elapsed() >= LINE_INTERVAL && *last != line) {
            output.note(&line);
            self.last = Some((Instant::now(), line));
        }
    }
}

/// Ends when an object changed, or after a while.
async fn wait_for_change(changes: &mut WatchReceiver) -> Result<(), CliError> {
    let latest = Instant::now() + LOOK_INTERVAL;
    match tokio::time::timeout_at(latest, changes.recv()).await {
        Ok(Some(WatchEvent::Applied(_) | WatchEvent::Deleted(_) | WatchEvent::Resync)) => {}
        Ok(None) => {
            return Err(
                CliError::new(CliErrorKind::Cluster, "the cluster closed the watch").with_hint("run the command again")
            );
        }
        Err(_) => return Ok(()),
    }
    tokio::time::sleep(WATCH_DEBOUNCE).await;
    while changes.try_recv().is_ok() {}
    Ok(())
}

fn format_text(models: &[WaitedModel], condition: WaitCondition, look: &TerminalOptions) -> String {
    let mut table =
        TextTable::new(&["MODEL", "RESULT", "SYNC", "HEALTH", "MESSAGE"]).least_important(&["SYNC", "HEALTH"]);
    for model in models {
        table.row([
            TableCell::plain(&model.name),
            model.outcome.cell(),
            TableCell::plain(model.sync.as_str()),
            TableCell::plain(model.health.as_str()),
            TableCell::plain(&model.message),
        ]);
    }
    let met = models.iter().filter(|model| model.outcome == WaitOutcome::Met).count();
    let all = pluralize(models.len(), "model", "models");
    format!("{}{met} of {all} {}.\n", table.render(look), condition.as_word())
}
