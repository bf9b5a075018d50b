//! `stator sync --source`: asks a controller for a sync, and lets go what it holds back.

use super::{ListedSource, SourceClient, parse_source_name};
use crate::cli::args::{ClusterArgs, ReportFormat};
use crate::cli::connect;
use crate::cli::error::{CliError, CliErrorKind, ExitStatus};
use crate::cli::output::Output;
use crate::cli::signals::wait_for_interrupt;
use crate::controller::sources::manual_requests::{
    self, ALLOW, ALLOWED_BY_ANNOTATION, HoldApproval, ManualRequests, OUTSIDE_WINDOWS_ANNOTATION,
    REQUESTED_AT_ANNOTATION,
};
use crate::controller::sources::objects::MODEL_SOURCE;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use serde::Serialize;
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;
use stator_cluster::cluster::{Cluster as _, WatchReceiver};
use stator_core::commit::short_commit;
use stator_git::source::model_source::status::{
    ConditionStatus, HeldRevision, MAX_MESSAGE_LENGTH, ModelSourceStatus, RECONCILING, truncate_line,
};
use stator_model::plan::HoldKind;
use stator_model::present::escape;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// A source, in the place of a folder.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options for sources")]
pub struct SourceArgs {
    /// Ask the controller to sync this source (see `stator get sources`), instead of syncing a folder
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Commit for --allow and --outside-windows; by default the one in the source's status. --allow needs a held commit
    #[arg(long, value_name = "COMMIT")]
    pub revision: Option<String>,
    /// Sync one commit although no sync window is open
    #[arg(long)]
    pub outside_windows: bool,
}

/// What a folder is synced with, and a source is not asked for.
const FOLDER_ONLY_OPTIONS: [&str; 10] = [
    "targets",
    "selector",
    "environment",
    "prune",
    "dry_run",
    "progress_deadline",
    "plan",
    "watch",
    "simulate_operator",
    "simulate_speed",
];
/// What says something of a source only.
const SOURCE_ONLY_OPTIONS: [&str; 2] = ["revision", "outside_windows"];

/// What on the command line makes no sense together. What a variable says counts for all commands of a shell, and is no
/// mistake of this one; clap's own conflicts would take it for one.
///
/// # Errors
/// As clap words it.
pub fn check_conflicts(command: &mut clap::Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some(("sync", given)) = matches.subcommand() else { return Ok(()) };
    let Some(sync) = command.find_subcommand_mut("sync") else { return Ok(()) };
    let written = |id: &&&str| given.value_source(id) == Some(ValueSource::CommandLine);
    let name = |sync: &clap::Command, id: &str| {
        let argument = sync.get_arguments().find(|argument| argument.get_id() == id);
        argument.map(ToString::to_string).unwrap_or_default()
    };
    let source = name(sync, "source");
    if given.contains_id("source") {
        let Some(other) = FOLDER_ONLY_OPTIONS.iter().find(written) else { return Ok(()) };
        let message = format!("the argument '{source}' cannot be used with '{}'", name(sync, other));
        return Err(sync.error(clap::error::ErrorKind::ArgumentConflict, message));
    }
    let Some(other) = SOURCE_ONLY_OPTIONS.iter().find(written) else { return Ok(()) };
    let message = format!("the argument '{}' needs '{source}'", name(sync, other));
    Err(sync.error(clap::error::ErrorKind::MissingRequiredArgument, message))
}

/// What is asked of a source, and how.
#[derive(Clone, Debug)]
pub struct SourceSyncOptions<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: Option<&'a str>,
    /// What is to be let go.
    pub allow: BTreeSet<HoldKind>,
    /// A commit, for that.
    pub revision: Option<&'a str>,
    /// Whether it may be synced outside the windows.
    pub outside_windows: bool,
    /// Whether to wait for the end.
    pub wait: bool,
    /// Whether nobody is asked.
    pub yes: bool,
    /// Whether nobody may be asked.
    pub no_input: bool,
    /// The form of the answer.
    pub format: ReportFormat,
}

/// How long changes are gathered before the source is looked at again.
const WATCH_DEBOUNCE: Duration = Duration::from_millis(100);
/// After this long without an answer, it is said that there may be nobody to answer.
const UNANSWERED_WARNING_AFTER: Duration = Duration::from_secs(30);
/// How often the source is looked at where nothing is heard of it.
const POLL_INTERVAL: Duration = Duration::from_secs(15);

/// Asks, and waits where that is wished.
pub async fn run(wish: &SourceSyncOptions<'_>, cluster: &ClusterArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let deadline = cluster.timeout.map(|limit| Instant::now() + limit);
    tokio::select! {
        done = connect::with_timeout(cluster, request_sync(wish, cluster, deadline, output)) => done,
        () = wait_for_interrupt() => Err(CliError::new(CliErrorKind::Interrupted, "interrupted")
            .with_hint("the request remains; `stator get sources` shows its progress")),
    }
}

async fn request_sync(
    wish: &SourceSyncOptions<'_>,
    cluster: &ClusterArgs,
    deadline: Option<Instant>,
    output: &Output,
) -> Result<ExitStatus, CliError> {
    let (namespace, name) = parse_source_name(wish.name);
    let site = SourceClient::open(cluster, namespace.or(wish.namespace), output).await?;
    let found = site.get(name).await?;
    if found.is_suspended() && wish.wait {
        return Err(CliError::new(
            CliErrorKind::Refused,
            format!("{} is suspended and would not be synced", found.full_name()),
        )
        .with_hint(format!("resume it with `stator resume {name} -n {}`", site.namespace())));
    }
    let mut asked = SourceSyncRequest::from_options(wish, &found)?;
    if let Some(approval) = asked.allow.take() {
        let approval = match site.user_name().await {
            Some(me) => approval.approved_by(&me, &annotations_of(&found)),
            None => approval,
        };
        asked.allow = Some(approval);
    }
    for line in asked.warnings(&found) {
        output.warn(&line);
    }
    if asked.releases_holds() {
        output.confirm(wish.yes, wish.no_input, "Approve this?")?;
    }
    // The watch is opened first, so that no answer falls between.
    let mut changes = match wish.wait {
        true => Some(site.kube.watch(&[MODEL_SOURCE], Some(site.namespace())).await?),
        false => None,
    };
    let changed = site.patch(name, &asked.patch()).await?;
    if wish.format == ReportFormat::Text {
        output.write_result(&asked.text(&changed))?;
    }
    let Some(changes) = &mut changes else {
        if found.is_suspended() {
            output.warn(&format!(
                "{} is suspended: it is polled, but not synced until `stator resume {name} -n {}`",
                found.full_name(),
                site.namespace()
            ));
        }
        if let Some(data) = wish.format.encode(&asked.report(&changed, None))? {
            output.write_result(&data)?;
        }
        return Ok(ExitStatus::Success);
    };
    let (last, end) = wait_for_answer(&site, name, changed, changes, deadline, output).await?;
    let data = wish.format.encode(&asked.report(&last, Some(end != SyncWaitOutcome::TimedOut)))?;
    output.write_result(&data.unwrap_or_else(|| format_outcome(&last, end)))?;
    if let Some(held) = last.status.held.as_ref().filter(|_| end == SyncWaitOutcome::NotReady) {
        for line in guard_lines(held).into_iter().chain(release_line(held)) {
            output.warn(&line);
        }
    }
    Ok(match end {
        SyncWaitOutcome::Ready => ExitStatus::Success,
        SyncWaitOutcome::NotReady => ExitStatus::Negative,
        SyncWaitOutcome::TimedOut => ExitStatus::Timeout,
    })
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncWaitOutcome {
    /// The newest commit is synced and healthy.
    Ready,
    /// It is not, and nothing is under way.
    NotReady,
    /// The time ran out.
    TimedOut,
}

/// Follows a source until what was asked is answered.
async fn wait_for_answer(
    site: &SourceClient,
    name: &str,
    mut found: ListedSource,
    changes: &mut WatchReceiver,
    deadline: Option<Instant>,
    output: &Output,
) -> Result<(ListedSource, SyncWaitOutcome), CliError> {
    let began = Instant::now();
    let mut said = String::new();
    let mut warned = false;
    loop {
        if let Some(end) = wait_outcome(&found) {
            return Ok((found, end));
        }
        if is_answered(&found) && found.message() != said {
            found.message().clone_into(&mut said);
            output.note(&format!("{}: {said}", found.full_name()));
        }
        if !is_answered(&found) && !warned && began.elapsed() > UNANSWERED_WARNING_AFTER {
            warned = true;
            output.warn(&format!(
                "{}: no answer yet; is a controller running for namespace {}?",
                found.full_name(),
                site.namespace()
            ));
        }
        // A little before `--timeout` ends the command, so that how far it has come can be said.
        let margin = Duration::from_millis(300);
        let end = deadline.map(|deadline| deadline.checked_sub(margin).unwrap_or(deadline));
        let next = end.map_or(Instant::now() + POLL_INTERVAL, |end| end.min(Instant::now() + POLL_INTERVAL));
        tokio::select! {
            event = changes.recv() => if event.is_none() {
                return Err(CliError::new(CliErrorKind::Cluster, "the cluster closed the watch")
                    .with_hint("`stator get sources` shows the result"));
            },
            () = tokio::time::sleep_until(next) => {}
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok((found, SyncWaitOutcome::TimedOut));
        }
        tokio::time::sleep(WATCH_DEBOUNCE).await;
        while changes.try_recv().is_ok() {}
        found = site.get(name).await?;
    }
}

fn annotations_of(found: &ListedSource) -> BTreeMap<String, String> {
    found.object.annotations().into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Whether the last request, which may be a later one than ours, is answered.
fn is_answered(found: &ListedSource) -> bool {
    let (requests, _) = ManualRequests::from_annotations(&annotations_of(found));
    // As a status repeats it.
    let asked = requests.requested_at.as_deref().map(|at| truncate_line(at, MAX_MESSAGE_LENGTH));
    asked.is_some() && asked == found.status.last_handled_request
}

/// What became of the request, once it is known.
pub(super) fn wait_outcome(found: &ListedSource) -> Option<SyncWaitOutcome> {
    if !is_answered(found) {
        return None;
    }
    let ready = found.ready()?;
    let moving = found.status.condition(RECONCILING).filter(|moving| moving.status == ConditionStatus::True);
    match (ready.status, moving) {
        (ConditionStatus::True, None) => Some(SyncWaitOutcome::Ready),
        (ConditionStatus::False, None) => Some(SyncWaitOutcome::NotReady),
        // It failed, and is tried again by and by.
        (ConditionStatus::False, Some(moving)) if moving.reason == "ProgressingWithRetry" => {
            Some(SyncWaitOutcome::NotReady)
        }
        (ConditionStatus::True | ConditionStatus::False | ConditionStatus::Unknown, _) => None,
    }
}

fn format_outcome(found: &ListedSource, end: SyncWaitOutcome) -> String {
    let reason = found.ready().map_or("Unknown", |ready| ready.reason.as_str());
    let what = match end {
        SyncWaitOutcome::Ready => "ready".to_owned(),
        SyncWaitOutcome::NotReady => format!("not ready ({reason})"),
        SyncWaitOutcome::TimedOut => "timed out".to_owned(),
    };
    format!("{}: {what}: {}\n", escape::line(&found.full_name()), escape::line(found.message()))
}

/// What guards hold back, a line each.
fn guard_lines(held: &HeldRevision) -> Vec<String> {
    let commit = short_commit(&held.revision);
    held.guards.iter().map(|one| format!("held back[{}] at {commit}: {}", one.guard, one.message)).collect()
}

/// What lets go what is held back; `None` where nothing does.
fn release_line(held: &HeldRevision) -> Option<String> {
    (!held.command.is_empty()).then(|| format!("to approve: {}", held.command))
}

/// What is written into the source.
#[derive(Clone, Debug)]
pub(super) struct SourceSyncRequest {
    at: String,
    allow: Option<HoldApproval>,
    outside_windows: Option<String>,
}

impl SourceSyncRequest {
    /// What a wish comes to for a source.
    pub(super) fn from_options(wish: &SourceSyncOptions<'_>, found: &ListedSource) -> Result<Self, CliError> {
        let given = wish.revision.map(|text| {
            manual_requests::parse_commit(text).ok_or_else(|| {
                CliError::usage(format!("`{text}` is not a commit")).with_hint(
                    "use at least its first 7 hexadecimal digits; `git log` and `stator get sources -o wide` show them",
                )
            })
        });
        let given = given.transpose()?;
        if given.is_some() && wish.allow.is_empty() && !wish.outside_windows {
            return Err(CliError::usage("--revision needs --allow or --outside-windows")
                .with_hint("a source always syncs the newest commit of its ref"));
        }
        let status = &found.status;
        let allow = if wish.allow.is_empty() { None } else { Some(approve_held(wish, found, given.as_deref())?) };
        let outside_windows = match (wish.outside_windows, given, status.revision.seen.clone()) {
            (false, _, _) => None,
            (true, None, Some(seen)) => Some(seen),
            (true, Some(given), Some(seen)) if seen.starts_with(&given) => Some(seen),
            (true, Some(given), _) => Some(manual_requests::parse_full_commit(&given).ok_or_else(|| {
                CliError::usage(format!("{given} is not the newest commit of {}", found.full_name()))
                    .with_hint("pass all digits of the commit: the request is for exactly one")
            })?),
            (true, None, None) => {
                return Err(CliError::new(
                    CliErrorKind::Refused,
                    format!("no commit of {} has been seen yet", found.full_name()),
                )
                .with_hint("pass the commit with --revision COMMIT"));
            }
        };
        Ok(Self { at: jiff::Timestamp::now().to_string(), allow, outside_windows })
    }

    fn releases_holds(&self) -> bool {
        self.allow.is_some() || self.outside_windows.is_some()
    }

    /// The annotations: of the requests, only those that are made are touched.
    fn patch(&self) -> Value {
        let mut annotations = Map::new();
        annotations.insert(REQUESTED_AT_ANNOTATION.to_owned(), json!(self.at));
        if let Some(approval) = &self.allow {
            annotations.insert(ALLOW.to_owned(), json!(approval.to_annotation()));
            annotations.insert(ALLOWED_BY_ANNOTATION.to_owned(), json!(approval.by));
        }
        if let Some(commit) = &self.outside_windows {
            annotations.insert(OUTSIDE_WINDOWS_ANNOTATION.to_owned(), json!(commit));
        }
        json!({"metadata": {"annotations": annotations}})
    }

    /// What whoever asks should know before.
    pub(super) fn warnings(&self, found: &ListedSource) -> Vec<String> {
        let status = &found.status;
        let mut lines: Vec<String> = status.held.iter().flat_map(guard_lines).collect();
        // Whoever lets something go by this very request need not be told how.
        if !self.releases_holds() {
            lines.extend(status.held.as_ref().and_then(release_line));
        }
        if let (Some(approval), Some(held)) = (&self.allow, &status.held) {
            let missing: Vec<&str> = held
                .guards
                .iter()
                .map(|one| one.guard.as_str())
                .filter(|guard| {
                    manual_requests::parse_hold_kind(guard).is_none_or(|kind| !approval.kinds.contains(&kind))
                })
                .collect();
            if !missing.is_empty() {
                lines.push(format!("this approves only part of the plan: {} still holds it", missing.join(", ")));
            }
        }
        let named = self.allow.as_ref().map(|approval| &approval.revision).or(self.outside_windows.as_ref());
        if let (Some(named), Some(seen)) = (named, &status.revision.seen)
            && !seen.starts_with(named.as_str())
        {
            lines.push(format!("the newest commit is {}, but this is for {}", short_commit(seen), short_commit(named)));
        }
        lines
    }

    fn text(&self, found: &ListedSource) -> String {
        let title = escape::line(&found.full_name());
        let mut out = format!("{title}: sync requested.\n");
        if let Some(approval) = &self.allow {
            let (words, commit) = (approval.guard_words(), short_commit(&approval.revision));
            out.push_str(&format!("{title}: approved {words} at {commit}.\n"));
        }
        if let Some(commit) = &self.outside_windows {
            out.push_str(&format!("{title}: {} may be synced outside the windows.\n", short_commit(commit)));
        }
        out
    }

    fn report<'a>(&self, found: &'a ListedSource, answered: Option<bool>) -> SourceSyncReport<'a> {
        SourceSyncReport {
            namespace: found.object.namespace(),
            name: found.name(),
            requested_at: self.at.clone(),
            allow: self.allow.as_ref().map(HoldApproval::to_annotation),
            outside_windows: self.outside_windows.clone(),
            answered,
            ready: found.ready().map_or("Unknown", |ready| ready.status.as_str()),
            reason: found.ready().map_or("", |ready| ready.reason.as_str()),
            message: found.message(),
            status: &found.status,
        }
    }
}

/// An approval of what is held back of a source now. What is approved is what its status shows, and nothing else.
fn approve_held(
    wish: &SourceSyncOptions<'_>,
    found: &ListedSource,
    given: Option<&str>,
) -> Result<HoldApproval, CliError> {
    let refused = |message: String| CliError::new(CliErrorKind::Refused, message);
    let Some(held) = &found.status.held else {
        let message = format!("{} has no held changes, so there is nothing to approve", found.full_name());
        return Err(refused(message)
            .with_hint("an approval is for a plan that is held: wait until `stator get sources` shows one"));
    };
    if let Some(given) = given.filter(|given| !held.revision.starts_with(given)) {
        let message = format!("the held commit of {} is {}", found.full_name(), short_commit(&held.revision));
        return Err(refused(message).with_hint(format!("review that commit, and approve it instead of {given}")));
    }
    if held.plan.is_empty() {
        let message = format!("the controller of {} does not report which plan it holds", found.full_name());
        return Err(refused(message).with_hint("upgrade the controller: its version is too old"));
    }
    let (revision, plan) = (held.revision.clone(), held.plan.clone());
    Ok(HoldApproval { kinds: wish.allow.clone(), revision, plan, by: None })
}

/// What `sync --source -o json` prints.
#[skip_serializing_none]
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SourceSyncReport<'a> {
    namespace: &'a str,
    name: &'a str,
    requested_at: String,
    allow: Option<String>,
    outside_windows: Option<String>,
    /// With `--wait`: whether an answer came in time.
    answered: Option<bool>,
    ready: &'static str,
    reason: &'a str,
    message: &'a str,
    status: &'a ModelSourceStatus,
}
