//! `stator sync`.

use super::args::{
    ChangeArgs, ClusterArgs, EmptyArgs, EnvironmentArgs, FrontendArgs, PolicyArgs, ReportFormat, SimulateArgs,
};
use super::connect::ClusterAccess;
use super::error::{CliError, CliErrorKind, ExitStatus};
use super::live_plan::{self, PlanWithBookkeeping};
use super::output::Output;
use super::progress::ProgressReporter;
use super::repository::OpenedRepository;
use super::repository_observer::{EnvironmentPlace, RepositoryObserver};
use super::rollback::pull_request::ForgeTypeArgs;
use super::signals::wait_for_interrupt;
use super::sources::remote_sync::{self, SourceArgs, SourceSyncOptions};
use super::targets::TargetArgs;
use super::trusted_contexts::EnvironmentContext;
use super::web::WebArgs;
use super::{connect, progress, repository, saved_plan};
use crate::controller::sources::folder_watch::FolderWatch;
use clap::{Args, ValueEnum, ValueHint};
use jiff::Timestamp;
use stator_cluster::cluster::AnyCluster;
use stator_cluster::sync::{self, CancelReason, SyncOptions, SyncReport};
use stator_core::outcome::{OutcomeClass, SyncOutcome};
use stator_model::intent::{ResolvedEnvironment, SourceTree};
use stator_model::plan::Plan;
use stator_model::present::plan as present;
use stator_model::present::table::{TableCell, TextTable};
use stator_model::present::{TerminalOptions, Tone, pluralize};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;

/// Apply the plan and prune; with --wait, wait for health
#[derive(Debug, Args)]
#[command(
    after_help = "With --source, a controller runs the sync on request: `stator sync --source models --wait`.\n\nExit codes: 0 everything is synced (and healthy with --wait); 1 something failed, or is held back; 2 bad usage or no cluster; 124 --timeout; 130 interrupted."
)]
pub struct SyncArgs {
    #[command(flatten)]
    targets: TargetArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    frontends: FrontendArgs,
    #[command(flatten)]
    simulate: SimulateArgs,
    #[command(flatten)]
    changes: ChangeArgs,
    #[command(flatten)]
    policies: PolicyArgs,
    #[command(flatten)]
    empty: EmptyArgs,
    /// Change nothing: `client`, the default, shows the plan, `server` also sends each write as a server-side dry run
    #[arg(long, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "client", conflicts_with = "wait")]
    dry_run: Option<DryRunMode>,
    /// Wait until every model is healthy
    #[arg(long)]
    wait: bool,
    /// With --wait: stop waiting for a model that makes no progress for this long
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = super::args::duration)]
    progress_deadline: Duration,
    /// Apply this saved plan (`stator plan -o json`), and refuse if it is out of date
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    plan: Option<PathBuf>,
    /// Keep running: sync again whenever a file of the repository changes, until Ctrl-C
    #[arg(short, long, conflicts_with_all = ["dry_run", "plan"])]
    watch: bool,
    /// Skip the confirmation
    #[arg(short, long, overrides_with = "yes")]
    yes: bool,
    /// Never ask: fail if a confirmation would be needed
    #[arg(long)]
    no_input: bool,
    /// Report format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: ReportFormat,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    web: WebArgs,
    #[command(flatten)]
    forge: ForgeTypeArgs,
}

/// Where a dry run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DryRunMode {
    /// Show the plan, and send nothing
    Client,
    /// Send each write as a server-side dry run
    Server,
}

pub async fn run(arguments: &SyncArgs, output: &Output) -> Result<ExitStatus, CliError> {
    if let Some(name) = &arguments.source.source {
        arguments.web.refuse("--source, because the controller runs the sync")?;
        let wish = SourceSyncOptions {
            name,
            namespace: arguments.environment.namespace.as_deref(),
            allow: arguments.changes.allowed_holds(),
            revision: arguments.source.revision.as_deref(),
            outside_windows: arguments.source.outside_windows,
            wait: arguments.wait,
            yes: arguments.yes,
            no_input: arguments.no_input,
            format: arguments.output,
        };
        return remote_sync::run(&wish, &arguments.cluster, output).await;
    }
    let (opened, selection) = read_repository(arguments, output)?;
    let context = EnvironmentContext::of(selection.environment.context.as_ref());
    let context = context.map(|context| EnvironmentContext { no_input: arguments.no_input, ..context });
    // The simulated operator writes, also beside a dry run.
    let reads = arguments.dry_run.is_some() && !arguments.simulate.simulate_operator;
    let access = if reads { ClusterAccess::Read } else { ClusterAccess::Write };
    let cluster = connect::open(&arguments.cluster, access, &opened.checkout.root, context, output).await?;
    let cluster = arguments.frontends.apply(&cluster);
    let _operator = arguments.simulate.start_operator(&cluster)?;
    connect::with_timeout(&arguments.cluster, connect::preflight(&cluster, output)).await?;
    let pages = arguments.web.start(output).await?;
    if let Some(pages) = &pages {
        let place = EnvironmentPlace {
            root: opened.checkout.root.clone(),
            targets: arguments.targets.clone(),
            policies: arguments.policies.clone(),
            environment: arguments.environment.clone(),
            cluster: arguments.cluster.clone(),
            forge: arguments.forge,
        };
        pages.observe(RepositoryObserver::new(place, &selection, cluster.clone(), output));
    }
    if arguments.watch {
        return sync_and_watch(arguments, &cluster, opened, selection, output).await;
    }
    let exit = sync_once(arguments, &cluster, opened, selection, output).await?;
    if let Some(pages) = pages.filter(|_| exit != ExitStatus::Interrupted) {
        pages.serve_until_interrupted(output).await;
    }
    Ok(exit)
}

fn read_repository(arguments: &SyncArgs, output: &Output) -> Result<(OpenedRepository, ResolvedEnvironment), CliError> {
    let mut opened = repository::open_targets(&arguments.targets, output)?;
    opened.refuse_when_empty(arguments.empty, output)?;
    let selection = opened.select(&arguments.environment, output)?;
    repository::note_when_environment_empty(&opened, &selection, output);
    Ok((opened, selection))
}

/// Syncs a repository as it lies there.
async fn sync_once(
    arguments: &SyncArgs,
    cluster: &AnyCluster,
    mut opened: OpenedRepository,
    mut selection: ResolvedEnvironment,
    output: &Output,
) -> Result<ExitStatus, CliError> {
    connect::with_timeout(&arguments.cluster, async {
        connect::detect_platform(cluster, &mut selection).await;
        Ok(())
    })
    .await?;
    let policies = connect::with_timeout(&arguments.cluster, arguments.policies.read(cluster)).await?;
    opened.workspace.forget_models();
    let mut desired = opened.render_for_writing(selection, policies, Timestamp::now());
    let looking = live_plan::gather_live_state(cluster, &opened, &mut desired);
    let found = connect::with_timeout(&arguments.cluster, looking).await?;
    let faulty = desired.failed_models(|source| opened.checkout.scope.contains(source));
    let planned = live_plan::plan_changes(cluster, &opened, desired, found, &arguments.changes).await;
    if let Some(file) = &arguments.plan {
        saved_plan::check_saved_plan(file, &planned.plan)?;
    }
    match arguments.dry_run {
        Some(DryRunMode::Client) => print_dry_run(&planned.plan, arguments.output, output),
        Some(DryRunMode::Server) => {
            let refused =
                connect::with_timeout(&arguments.cluster, server_dry_run(cluster, &planned.plan, output)).await?;
            let exit = print_dry_run(&planned.plan, arguments.output, output)?;
            Ok(if refused > 0 { ExitStatus::Negative } else { exit })
        }
        None => apply_plan(arguments, cluster, planned, &faulty, output).await,
    }
}

/// Syncs, and again whenever a file changes. Errors are reported, and the next change tries again; only Ctrl-C ends it.
async fn sync_and_watch(
    arguments: &SyncArgs,
    cluster: &AnyCluster,
    opened: OpenedRepository,
    selection: ResolvedEnvironment,
    output: &Output,
) -> Result<ExitStatus, CliError> {
    let root = opened.checkout.root.clone();
    // Watched before it is synced, so that no change falls in between.
    let watch = FolderWatch::new(&root, true, {
        let root = root.clone();
        // The embedded cluster and git keep their files in hidden folders.
        move |path| {
            path.strip_prefix(&root).is_ok_and(|below| !below.components().any(|part| is_hidden(part.as_os_str())))
        }
    });
    let mut last = opened.checkout.tree.clone();
    let mut next = Ok((opened, selection));
    loop {
        let done = match next {
            Ok((opened, selection)) => sync_once(arguments, cluster, opened, selection, output).await,
            Err(error) => Err(error),
        };
        match done {
            Ok(ExitStatus::Interrupted) => return Ok(ExitStatus::Interrupted),
            Ok(ExitStatus::Success | ExitStatus::Negative | ExitStatus::Error | ExitStatus::Timeout) => {}
            Err(error) => match error.kind() {
                CliErrorKind::Usage | CliErrorKind::Interrupted | CliErrorKind::BrokenPipe => return Err(error),
                CliErrorKind::Input
                | CliErrorKind::Cluster
                | CliErrorKind::Refused
                | CliErrorKind::Timeout
                | CliErrorKind::Bug => {
                    output.report_error(&error);
                }
            },
        }
        output.note(&format!("Watching {} for changes; press Ctrl-C to stop.", root.display()));
        next = loop {
            tokio::select! {
                () = watch.changed() => {}
                () = wait_for_interrupt() => return Ok(ExitStatus::Interrupted),
            }
            match read_repository(arguments, output) {
                Ok((opened, _)) if opened.checkout.tree.files == last.files => {}
                Ok((opened, selection)) => {
                    last = opened.checkout.tree.clone();
                    break Ok((opened, selection));
                }
                Err(error) => {
                    // Whatever comes next is a change.
                    last = SourceTree::default();
                    break Err(error);
                }
            }
        };
    }
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().first() == Some(&b'.')
}

async fn apply_plan(
    arguments: &SyncArgs,
    cluster: &AnyCluster,
    planned: PlanWithBookkeeping,
    faulty: &BTreeSet<String>,
    output: &Output,
) -> Result<ExitStatus, CliError> {
    let PlanWithBookkeeping { plan, bookkeeping } = planned;
    if !output.is_quiet() {
        output.write_stderr(&present::text(&plan, &output.stderr_style));
    }
    let held = hold_messages(&plan);
    if plan.changes.iter().any(|change| change.step.write().is_some()) {
        output.confirm(arguments.yes, arguments.no_input, "Apply these changes?")?;
    }
    let reporter = ProgressReporter::new(&plan, output);
    let (cancel, cancelled) = watch::channel(None);
    let mut options = SyncOptions::new(jiff::Timestamp::now(), jitter_seed());
    options.wait = arguments.wait;
    options.prune = arguments.changes.prune;
    options.progress_deadline = arguments.progress_deadline;
    options.timeout = arguments.cluster.timeout;
    let sink = |event| reporter.report_event(event);
    let work = sync::run_sync(cluster, plan, bookkeeping, options, &sink, cancelled);
    tokio::pin!(work);
    let mut lines = tokio::time::interval(progress::LINE_INTERVAL / 5);
    // Listened to without a gap: a signal that nobody waits for is lost.
    let interrupt = wait_for_interrupt();
    tokio::pin!(interrupt);
    let report = loop {
        tokio::select! {
            report = &mut work => break report,
            _ = lines.tick() => reporter.print_due(),
            () = &mut interrupt => {
                // Dropping a sync is safe: a record or a journal names whatever was created.
                if cancel.borrow().is_some() {
                    let error = CliError::new(CliErrorKind::Interrupted, "interrupted");
                    return Err(error.with_hint("the next sync completes the rest"));
                }
                reporter.print_line("Stopping: work in progress is finished first. Press Ctrl-C again to stop at once.");
                let _ = cancel.send(Some(CancelReason::Interrupted));
                interrupt.set(wait_for_interrupt());
            }
        }
    };
    reporter.finish();
    let data = arguments.output.encode(&report)?;
    output.write_result(&data.unwrap_or_else(|| format_report(&report, faulty, &output.stdout_style)))?;
    for hold in &held {
        output.warn(hold);
    }
    if report.cancelled {
        output.note("Interrupted: run the same command again to complete the sync.");
    }
    Ok(if report.cancelled {
        ExitStatus::Interrupted
    } else if report.timed_out {
        ExitStatus::Timeout
    } else if report.is_success() && held.is_empty() {
        ExitStatus::Success
    } else {
        ExitStatus::Negative
    })
}

/// What keeps the sync from being complete, one sentence each: guards, and intents with errors.
fn hold_messages(plan: &Plan) -> Vec<String> {
    let holds = plan
        .holds
        .iter()
        .filter(|hold| !hold.allowed)
        .map(|hold| format!("held back[{}]: {}; {}", hold.kind.as_str(), hold.message, hold.help));
    let errors = plan.findings.iter().filter(|finding| finding.is_error()).count();
    let faulty = (errors > 0).then(|| {
        format!(
            "{} in intents, so their models were not changed; run `stator validate`",
            pluralize(errors, "error", "errors")
        )
    });
    holds.chain(faulty).collect()
}

/// Shows the plan and its verdict; nothing is written.
fn print_dry_run(plan: &Plan, format: ReportFormat, output: &Output) -> Result<ExitStatus, CliError> {
    output.write_result(&match format {
        ReportFormat::Text => present::text(plan, &output.stdout_style),
        ReportFormat::Json => present::json(plan)?,
        ReportFormat::Yaml => super::plan::yaml(plan)?,
    })?;
    output.note("Dry run: nothing was changed.");
    Ok(if hold_messages(plan).is_empty() { ExitStatus::Success } else { ExitStatus::Negative })
}

/// Has the cluster check every apply of a plan; the number that it refuses.
async fn server_dry_run(cluster: &AnyCluster, plan: &Plan, output: &Output) -> Result<usize, CliError> {
    let refused = sync::refused_applies(cluster, plan).await;
    let number = refused.len();
    refused.into_iter().for_each(|(_, error)| output.report_error(&error.into()));
    Ok(number)
}

/// A seed for the jitter of retries: it only has to differ between processes.
fn jitter_seed() -> u64 {
    u64::from(std::process::id())
        ^ u64::try_from(jiff::Timestamp::now().as_nanosecond() & 0xffff_ffff_ffff).unwrap_or(0)
}

fn format_report(report: &SyncReport, faulty: &BTreeSet<String>, look: &TerminalOptions) -> String {
    let mut table =
        TextTable::new(&["MODEL", "RESULT", "APPLIED", "PRUNED", "MESSAGE"]).least_important(&["PRUNED", "APPLIED"]);
    let changed = |outcome: &&sync::ModelOutcome| {
        look.verbose
            || outcome.applied + outcome.pruned > 0
            || !outcome.message.is_empty()
            || !outcome.result.is_success()
    };
    let shown: Vec<_> = report.models.iter().filter(changed).collect();
    for outcome in &shown {
        table.row([
            TableCell::plain(&outcome.name),
            TableCell::new(result_tone(outcome.result), &outcome.result.to_string()),
            TableCell::plain(&outcome.applied.to_string()),
            TableCell::plain(&outcome.pruned.to_string()),
            TableCell::plain(&outcome.message),
        ]);
    }
    let mut out = if shown.is_empty() { String::new() } else { table.render(look) };
    // A model with errors may well be as it was, and still it is not what git says.
    let (mut synced, mut total, mut deleted, mut deleting, mut held) = (0, faulty.len(), 0, 0, 0);
    for outcome in report.models.iter().filter(|outcome| !faulty.contains(&outcome.name)) {
        match outcome.result {
            SyncOutcome::Deleted => {
                deleted += 1;
                continue;
            }
            SyncOutcome::Deleting => deleting += 1,
            SyncOutcome::Held => held += 1,
            SyncOutcome::Synced | SyncOutcome::Unchanged | SyncOutcome::Healthy | SyncOutcome::Deferred => synced += 1,
            SyncOutcome::Invalid
            | SyncOutcome::Unsigned
            | SyncOutcome::Blocked
            | SyncOutcome::Unhealthy
            | SyncOutcome::Failed
            | SyncOutcome::Cancelled
            | SyncOutcome::Superseded => {}
        }
        total += 1;
    }
    let counts = [(held, "held"), (deleting, "being deleted"), (deleted, "deleted")];
    let counts: String = counts
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!(", {number} {what}"))
        .collect();
    out.push_str(&format!(
        "{synced} of {} synced{counts}, {}.\n",
        pluralize(total, "model", "models"),
        pluralize(report.writes, "write", "writes")
    ));
    out
}

fn result_tone(result: SyncOutcome) -> Tone {
    match result.class() {
        // It went well, and something is left to do.
        OutcomeClass::Success if matches!(result, SyncOutcome::Deferred | SyncOutcome::Deleting) => Tone::Caution,
        OutcomeClass::Success => Tone::Good,
        OutcomeClass::Failure | OutcomeClass::Error | OutcomeClass::Cancelled => Tone::Bad,
    }
}
