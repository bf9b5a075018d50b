//! `stator sync --source`: asks a controller for a sync, and lets go what it holds back.

use super::{Found, Site, named};
use crate::cli::connect;
use crate::cli::error::{CliError, ErrorKind, Exit};
use crate::cli::output::Output;
use crate::cli::signals::interrupted;
use crate::cli::sync::{Format, confirmed};
use crate::controller::requests::{self, ALLOW, Approval, OUTSIDE_WINDOWS, REQUESTED_AT, Requests};
use crate::controller::resources::MODEL_SOURCE;
use clap::builder::FalseyValueParser;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args};
use serde::Serialize;
use serde_json::{Map, Value, json};
use stator_cluster::cluster::{Cluster as _, WatchEvent};
use stator_git::source::model_source::status::{
    ConditionStatus, Held, LONGEST_MESSAGE, ModelSourceStatus, RECONCILING, cut,
};
use stator_model::plan::{HoldKind, short_commit};
use stator_model::present::escape;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// A source, in the place of a folder.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options for sources")]
pub struct SourceArgs {
    /// Ask the controller to sync this source (`stator get sources`), rather than sync a folder from here
    #[arg(long, env = "STATOR_SOURCE", value_name = "NAME")]
    pub source: Option<String>,
    /// The commit that --allow and --outside-windows are about; without it the one that the source's status names
    #[arg(long, env = "STATOR_REVISION", value_name = "COMMIT")]
    pub revision: Option<String>,
    /// Sync one commit although no sync window is open
    #[arg(long, env = "STATOR_OUTSIDE_WINDOWS", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    pub outside_windows: bool,
}

/// What a folder is synced with, and a source is not asked for.
const OF_FOLDERS: [&str; 9] = [
    "path",
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
const OF_SOURCES: [&str; 2] = ["revision", "outside_windows"];

/// What on the command line makes no sense together. What a variable says counts for all commands of a shell, and is no
/// mistake of this one; clap's own conflicts would take it for one.
///
/// # Errors
/// As clap words it.
pub fn conflicts(command: &mut clap::Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some(("sync", given)) = matches.subcommand() else { return Ok(()) };
    let Some(sync) = command.find_subcommand_mut("sync") else { return Ok(()) };
    let written = |id: &&&str| given.value_source(id) == Some(ValueSource::CommandLine);
    let name = |sync: &clap::Command, id: &str| {
        let argument = sync.get_arguments().find(|argument| argument.get_id() == id);
        argument.map(ToString::to_string).unwrap_or_default()
    };
    let source = name(sync, "source");
    if given.contains_id("source") {
        let Some(other) = OF_FOLDERS.iter().find(written) else { return Ok(()) };
        let message = format!("the argument '{source}' cannot be used with '{}'", name(sync, other));
        return Err(sync.error(clap::error::ErrorKind::ArgumentConflict, message));
    }
    let Some(other) = OF_SOURCES.iter().find(written) else { return Ok(()) };
    let message = format!("the argument '{}' is about a source, which '{source}' names", name(sync, other));
    Err(sync.error(clap::error::ErrorKind::MissingRequiredArgument, message))
}

/// What is asked of a source, and how.
#[derive(Clone, Debug)]
pub struct Wish<'a> {
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
    pub format: Format,
}

/// How long changes are gathered before the source is looked at again.
const SETTLE: Duration = Duration::from_millis(100);
/// After this long without an answer, it is said that there may be nobody to answer.
const SILENCE: Duration = Duration::from_secs(30);
/// How often the source is looked at where nothing is heard of it.
const LOOK: Duration = Duration::from_secs(15);

/// Asks, and waits where that is wished.
pub async fn run(wish: &Wish<'_>, cluster: &crate::cli::args::ClusterArgs, output: &Output) -> Result<Exit, CliError> {
    let deadline = cluster.timeout.map(|limit| Instant::now() + limit);
    tokio::select! {
        done = connect::within(cluster, ask(wish, cluster, deadline, output)) => done,
        () = interrupted() => Err(CliError::new(ErrorKind::Interrupted, "interrupted")
            .hint("what was asked for stands; `stator get sources` shows what becomes of it")),
    }
}

async fn ask(
    wish: &Wish<'_>,
    cluster: &crate::cli::args::ClusterArgs,
    deadline: Option<Instant>,
    output: &Output,
) -> Result<Exit, CliError> {
    let (namespace, name) = named(wish.name);
    let site = Site::open(cluster, namespace.or(wish.namespace), output).await?;
    let found = site.one(name).await?;
    if found.is_suspended() && wish.wait {
        return Err(CliError::new(
            ErrorKind::Refused,
            format!("{} is suspended, and would not be synced", found.title()),
        )
        .hint(format!("`stator resume {name} -n {}` goes on with it", site.namespace())));
    }
    let asked = Asked::of(wish, &found)?;
    for line in asked.warnings(&found) {
        output.warn(&line);
    }
    if asked.lets_go() {
        confirmed(wish.yes, wish.no_input, "Let it go?", output)?;
    }
    // The watch is opened first, so that no answer falls between.
    let mut changes = match wish.wait {
        true => Some(site.kube.watch(&[MODEL_SOURCE], Some(site.namespace())).await?),
        false => None,
    };
    let changed = site.change(name, &asked.patch()).await?;
    if wish.format == Format::Text {
        output.result(&asked.text(&changed))?;
    }
    let Some(changes) = &mut changes else {
        if found.is_suspended() {
            output.warn(&format!(
                "{} is suspended: it is looked at, and not synced before `stator resume {name} -n {}`",
                found.title(),
                site.namespace()
            ));
        }
        if wish.format == Format::Json {
            output.result(&stator_model::present::json(&asked.report(&changed, None))?)?;
        }
        return Ok(Exit::Success);
    };
    let (last, end) = follow(&site, name, changed, changes, deadline, output).await?;
    output.result(&match wish.format {
        Format::Json => stator_model::present::json(&asked.report(&last, Some(end != End::Late)))?,
        Format::Text => told(&last, end),
    })?;
    if let Some(held) = last.status.held.as_ref().filter(|_| end == End::NotReady) {
        for line in held_lines(held) {
            output.warn(&line);
        }
    }
    Ok(match end {
        End::Ready => Exit::Success,
        End::NotReady => Exit::No,
        End::Late => Exit::Timeout,
    })
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The newest commit is synced and healthy.
    Ready,
    /// It is not, and nothing is under way.
    NotReady,
    /// The time ran out.
    Late,
}

/// Follows a source until what was asked is answered.
async fn follow(
    site: &Site,
    name: &str,
    mut found: Found,
    changes: &mut tokio::sync::mpsc::Receiver<WatchEvent>,
    deadline: Option<Instant>,
    output: &Output,
) -> Result<(Found, End), CliError> {
    let began = Instant::now();
    let mut said = String::new();
    let mut warned = false;
    loop {
        if let Some(end) = judged(&found) {
            return Ok((found, end));
        }
        if is_answered(&found) && found.message() != said {
            found.message().clone_into(&mut said);
            output.note(&format!("{}: {said}", found.title()));
        }
        if !is_answered(&found) && !warned && began.elapsed() > SILENCE {
            warned = true;
            output.warn(&format!(
                "{}: no answer yet; is a controller running that looks after namespace {}?",
                found.title(),
                site.namespace()
            ));
        }
        // A little before `--timeout` ends the command, so that how far it has come can be said.
        let margin = Duration::from_millis(300);
        let end = deadline.map(|deadline| deadline.checked_sub(margin).unwrap_or(deadline));
        let next = end.map_or(Instant::now() + LOOK, |end| end.min(Instant::now() + LOOK));
        tokio::select! {
            event = changes.recv() => if event.is_none() {
                return Err(CliError::new(ErrorKind::Cluster, "the cluster ended the watch")
                    .hint("`stator get sources` shows what became of it"));
            },
            () = tokio::time::sleep_until(next) => {}
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok((found, End::Late));
        }
        tokio::time::sleep(SETTLE).await;
        while changes.try_recv().is_ok() {}
        found = site.one(name).await?;
    }
}

/// Whether the last request, which may be a later one than ours, is answered.
fn is_answered(found: &Found) -> bool {
    let annotations: BTreeMap<String, String> =
        found.object.annotations().into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let (requests, _) = Requests::read(&annotations);
    // As a status repeats it.
    let asked = requests.at.as_deref().map(|at| cut(at, LONGEST_MESSAGE));
    asked.is_some() && asked == found.status.last_handled_request
}

/// What became of the request, once it is known.
pub(super) fn judged(found: &Found) -> Option<End> {
    if !is_answered(found) {
        return None;
    }
    let ready = found.ready()?;
    let moving = found.status.condition(RECONCILING).filter(|moving| moving.status == ConditionStatus::True);
    match (ready.status, moving) {
        (ConditionStatus::True, None) => Some(End::Ready),
        (ConditionStatus::False, None) => Some(End::NotReady),
        // It failed, and is tried again by and by.
        (ConditionStatus::False, Some(moving)) if moving.reason == "ProgressingWithRetry" => Some(End::NotReady),
        (ConditionStatus::True | ConditionStatus::False | ConditionStatus::Unknown, _) => None,
    }
}

fn told(found: &Found, end: End) -> String {
    let reason = found.ready().map_or("Unknown", |ready| ready.reason.as_str());
    let what = match end {
        End::Ready => "ready".to_owned(),
        End::NotReady => format!("not ready ({reason})"),
        End::Late => "not done in time".to_owned(),
    };
    format!("{}: {what}: {}\n", escape::line(&found.title()), escape::line(found.message()))
}

/// What guards hold back, a line each, and what lets it go.
pub(super) fn held_lines(held: &Held) -> Vec<String> {
    let commit = short_commit(&held.revision);
    let guards = held.guards.iter().map(|one| format!("held back[{}] at {commit}: {}", one.guard, one.message));
    guards.chain((!held.command.is_empty()).then(|| format!("to let it go: {}", held.command))).collect()
}

/// What is written into the source.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    at: String,
    allow: Option<Approval>,
    outside_windows: Option<String>,
}

impl Asked {
    /// What a wish comes to for a source.
    pub(super) fn of(wish: &Wish<'_>, found: &Found) -> Result<Self, CliError> {
        let given = wish.revision.map(|text| {
            requests::commit(text).ok_or_else(|| {
                CliError::usage(format!("`{text}` is no commit"))
                    .hint("write at least its first 7 hexadecimal digits; `git log` and `stator get sources -o wide` show them")
            })
        });
        let given = given.transpose()?;
        if given.is_some() && wish.allow.is_empty() && !wish.outside_windows {
            return Err(CliError::usage("--revision names the commit that --allow or --outside-windows is about")
                .hint("which commit is synced is what git says: the newest that the source follows"));
        }
        let status = &found.status;
        let allow = if wish.allow.is_empty() {
            None
        } else {
            let held = status.held.as_ref().map(|held| held.revision.clone());
            let revision = given.clone().or(held).ok_or_else(|| {
                CliError::new(
                    ErrorKind::Refused,
                    format!("nothing of {} is held back, so there is nothing to let go", found.title()),
                )
                .hint("--revision COMMIT lets something go before it is held back")
            })?;
            Some(Approval { kinds: wish.allow.clone(), revision })
        };
        let outside_windows = match (wish.outside_windows, given.or_else(|| status.revision.seen.clone())) {
            (false, _) => None,
            (true, Some(revision)) => Some(revision),
            (true, None) => {
                return Err(CliError::new(ErrorKind::Refused, format!("no commit of {} was seen yet", found.title()))
                    .hint("name the one that is meant with --revision COMMIT"));
            }
        };
        Ok(Self { at: jiff::Timestamp::now().to_string(), allow, outside_windows })
    }

    fn lets_go(&self) -> bool {
        self.allow.is_some() || self.outside_windows.is_some()
    }

    /// The annotations: of the requests, only those that are made are touched.
    fn patch(&self) -> Value {
        let mut annotations = Map::new();
        annotations.insert(REQUESTED_AT.to_owned(), json!(self.at));
        if let Some(approval) = &self.allow {
            annotations.insert(ALLOW.to_owned(), json!(approval.text()));
        }
        if let Some(commit) = &self.outside_windows {
            annotations.insert(OUTSIDE_WINDOWS.to_owned(), json!(commit));
        }
        json!({"metadata": {"annotations": annotations}})
    }

    /// What whoever asks should know before.
    pub(super) fn warnings(&self, found: &Found) -> Vec<String> {
        let status = &found.status;
        let mut lines: Vec<String> = status.held.iter().flat_map(held_lines).collect();
        if self.lets_go() {
            lines.retain(|line| !line.starts_with("to let it go"));
        }
        if let (Some(approval), Some(held)) = (&self.allow, &status.held) {
            let missing: Vec<&str> = held
                .guards
                .iter()
                .map(|one| one.guard.as_str())
                .filter(|guard| requests::kind_of(guard).is_none_or(|kind| !approval.kinds.contains(&kind)))
                .collect();
            if !missing.is_empty() {
                lines.push(format!("this lets go of some of it: {} still holds it back", missing.join(", ")));
            }
        }
        let named = self.allow.as_ref().map(|approval| &approval.revision).or(self.outside_windows.as_ref());
        if let (Some(named), Some(seen)) = (named, &status.revision.seen)
            && !seen.starts_with(named.as_str())
        {
            lines.push(format!(
                "the newest commit is {}, and this is about {}",
                short_commit(seen),
                short_commit(named)
            ));
        }
        lines
    }

    fn text(&self, found: &Found) -> String {
        let title = escape::line(&found.title());
        let mut out = format!("{title}: asked for a sync.\n");
        if let Some(approval) = &self.allow {
            let (words, _) = approval
                .text()
                .rsplit_once('@')
                .map(|(words, rest)| (words.to_owned(), rest.len()))
                .unwrap_or_default();
            out.push_str(&format!("{title}: let go of {words} at {}.\n", short_commit(&approval.revision)));
        }
        if let Some(commit) = &self.outside_windows {
            out.push_str(&format!("{title}: {} may be synced outside the windows.\n", short_commit(commit)));
        }
        out
    }

    fn report<'a>(&self, found: &'a Found, answered: Option<bool>) -> Report<'a> {
        Report {
            namespace: found.object.namespace(),
            name: found.name(),
            requested_at: self.at.clone(),
            allow: self.allow.as_ref().map(Approval::text),
            outside_windows: self.outside_windows.clone(),
            answered,
            ready: found.ready().map_or("Unknown", |ready| ready.status.word()),
            reason: found.ready().map_or("", |ready| ready.reason.as_str()),
            message: found.message(),
            status: &found.status,
        }
    }
}

/// What `sync --source -o json` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    namespace: &'a str,
    name: &'a str,
    requested_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    allow: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outside_windows: Option<String>,
    /// With `--wait`: whether an answer came in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    answered: Option<bool>,
    ready: &'static str,
    reason: &'a str,
    message: &'a str,
    status: &'a ModelSourceStatus,
}
