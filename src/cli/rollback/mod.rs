//! `stator rollback`: an earlier state of a model, on a branch and in a pull request.

mod propose;

use super::args::EnvironmentArgs;
use super::error::{CliError, ErrorKind, Exit};
use super::output::Output;
use super::{revisions, status};
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args};
use stator_core::finding::{self, Finding};
use stator_git::source::restore::{Files, RestoreError, Restorer, Undone};
use stator_git::source::{self, Scope};
use stator_model::intent::{SourceFile, SourceTree, Workspace};
use stator_model::plan::Plan;
use stator_model::present::{escape, findings, plan as present};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Restore an earlier state of a model on a branch, and open a pull request for it
///
/// The commit holds the model's files (intent, overlays, locks) as the other commit had them, on top of what is checked out. Neither the work tree nor the index changes.
#[derive(Debug, Args)]
#[command(
    after_help = "With a git host, the branch is pushed over HTTPS and a pull request opened: the host and its token are those of --source, or `origin` and $STATOR_FORGE_TOKEN. Without one, the branch is made here and the next step is said.\n\nExit codes: 0 made; 1 there is nothing to roll back, or what it would restore has errors; 2 it cannot be made.\n\nExamples:\n  stator rollback llama-3-70b --dry-run\n  stator rollback llama-3-70b --to v1.4.0\n  STATOR_FORGE_TOKEN=... stator rollback llama-3-70b"
)]
pub struct Arguments {
    /// Name of the model, or its model.yaml
    #[arg(value_name = "MODEL")]
    model: String,
    /// Commit, branch or tag to go back to; without it, the model's state before its newest change
    #[arg(long, env = "STATOR_TO", value_name = "REV")]
    to: Option<String>,
    /// Branch to make; rollback/MODEL-COMMIT without it
    #[arg(long, env = "STATOR_BRANCH", value_name = "NAME")]
    branch: Option<String>,
    /// Make the branch and no more: push nothing, open no pull request
    #[arg(long, env = "STATOR_NO_PULL_REQUEST", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    no_pull_request: bool,
    /// Show the plan and the files' differences, and make nothing
    #[arg(long, env = "STATOR_DRY_RUN", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    dry_run: bool,
    /// File with a ModelSource, for its git host and token
    #[arg(long, env = "STATOR_SOURCE", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    source: Option<PathBuf>,
    /// What `origin` is, where its name does not tell
    #[arg(long, env = "STATOR_FORGE", value_name = "TYPE", conflicts_with = "source")]
    forge: Option<propose::ForgeArg>,
    #[command(flatten)]
    environment: EnvironmentArgs,
}

/// What a rollback is about.
struct Rollback {
    model: String,
    /// The model's folder, from stator's root.
    folder: String,
    /// The commit that it goes back to.
    to: String,
    /// What the folder is to hold.
    files: Files,
    undone: Undone,
    title: String,
    /// The rest of the commit's message.
    body: String,
}

pub async fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CliError> {
    let (path, name) = status::target(&arguments.model);
    let checkout = source::open(&path)?;
    let restorer = Restorer::open(&checkout.root)?;
    let (tree, head) = source::tree_at(&checkout.root, &restorer.head())?;
    let wanted = match (&name, &checkout.scope) {
        (Some(name), _) => Wanted::Name(name),
        (None, Scope::Intent(intent)) => Wanted::Intent(intent),
        (None, Scope::Folder(_)) => {
            return Err(CliError::usage("one model is rolled back at a time").hint("give its name, or its model.yaml"));
        }
    };
    let here = Workspace::parse(&tree);
    let rollback = find(arguments, &checkout.root, &restorer, &here, wanted)?;
    for file in restorer.uncommitted(&rollback.folder)? {
        output.warn(&format!(
            "{file} has changes that are not committed; they stay as they are, and the rollback is made of commits"
        ));
    }
    let restored_tree = restored(&restorer, tree, &rollback)?;
    let there = Workspace::parse(&restored_tree);
    let scope = Scope::Intent(join(&rollback.folder, "model.yaml"));
    let plans = plans(arguments, &scope, (&here, &head), (&there, &rollback.to))?;

    let branch = match &arguments.branch {
        Some(branch) => branch.clone(),
        None => format!("rollback/{}-{}", rollback.model, short(&rollback.to)),
    };
    let made = restorer.is_made(&branch, &rollback.folder, &rollback.files)?;
    output.result(&escape::lines(&summary(&restorer, &rollback)))?;
    for plan in &plans {
        output.result(&format!("\n{}", present::text(plan, &output.look)))?;
    }
    let faults = plans.iter().flat_map(|plan| plan.findings.iter().filter(|one| one.is_error()).cloned());
    let mut faults: Vec<Finding> = faults.collect();
    finding::sort(&mut faults);
    faults.dedup();
    if !faults.is_empty() {
        output.block(&findings::brief(&faults, &output.notes));
        let refused = format!("as of {} the model has errors, so nothing is rolled back", short(&rollback.to));
        return Err(CliError::new(ErrorKind::Refused, refused).hint("name another state with --to"));
    }
    if arguments.dry_run {
        output.result(&format!("\n{}", difference(&restorer, &rollback)?))?;
        output.note(&format!("Nothing was made. Without --dry-run, the branch is `{branch}`."));
        return Ok(Exit::Success);
    }
    // What is wrong with the git host's description is said before anything is made.
    let host = if arguments.no_pull_request { None } else { propose::host(arguments, &restorer, output)? };
    let commit = match made {
        Some(commit) => {
            output.note(&format!("The branch `{branch}` has this rollback already."));
            commit
        }
        None => {
            let message = format!("{}\n\n{}", rollback.title, rollback.body);
            let commit = restorer.commit(&branch, &rollback.folder, &rollback.files, &message)?;
            if restorer.signs() {
                output
                    .note("note: commits are signed here, and this one is not; `git commit --amend -S` on the branch");
            }
            commit
        }
    };
    output.result(&format!("\nBranch {branch}, commit {}\n", short(&commit)))?;
    match host {
        Some(host) => propose::propose(&host, &restorer, &rollback, &branch, &commit, output).await?,
        None => propose::next_step(&restorer, &branch, output),
    }
    Ok(Exit::Success)
}

/// How the model was named.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    Name(&'a str),
    Intent(&'a str),
}

/// The models of a state, in whatever environments they are: intents' paths with the names of their models.
fn models(workspace: &Workspace) -> BTreeMap<String, String> {
    let mut models = BTreeMap::new();
    for environment in workspace.environments() {
        let Ok(selection) = workspace.environment(Some(&environment)) else { continue };
        for intent in selection.intents {
            models.insert(intent.source.clone(), intent.model.metadata.name.to_string());
        }
        for broken in selection.broken {
            let folder = folder_of(&broken.source).rsplit('/').next().unwrap_or_default().to_owned();
            models.entry(broken.source).or_insert(broken.name.unwrap_or(folder));
        }
    }
    models
}

/// The model's folder and name; several of one name (in environments of their own) are told apart by their paths.
fn folder_in(workspace: &Workspace, wanted: Wanted<'_>) -> Result<Option<(String, String)>, CliError> {
    let all = models(workspace);
    let mut found = all.iter().filter(|(source, name)| match wanted {
        Wanted::Name(wanted) => name.as_str() == wanted,
        Wanted::Intent(intent) => source.as_str() == intent,
    });
    let first = found.next().map(|(source, name)| (folder_of(source).to_owned(), name.clone()));
    match (first, found.next()) {
        (Some((_, name)), Some((second, _))) => Err(CliError::usage(format!("several models are called `{name}`"))
            .hint(format!("give the path of one: {second}"))),
        (first, _) => Ok(first),
    }
}

fn find(
    arguments: &Arguments,
    root: &std::path::Path,
    restorer: &Restorer,
    here: &Workspace,
    wanted: Wanted<'_>,
) -> Result<Rollback, CliError> {
    let known = folder_in(here, wanted)?;
    let unknown = || {
        let called = match wanted {
            Wanted::Name(name) => name,
            Wanted::Intent(intent) => intent,
        };
        let names: Vec<String> = models(here).into_values().collect();
        let hint = match finding::nearest(called, names.iter().map(String::as_str)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "for a model that was removed, name a commit that has it with --to".to_owned(),
        };
        CliError::input(format!("there is no model `{called}` in the commit that is checked out")).hint(hint)
    };
    let (folder, model, to, files) = match (&arguments.to, known) {
        (Some(revision), known) => {
            let (tree, to) = source::tree_at(root, revision)?;
            let there = folder_in(&Workspace::parse(&tree), wanted)?;
            let (folder, model) = match (&known, &there) {
                (Some(known), _) => known.clone(),
                (None, Some(there)) => there.clone(),
                (None, None) => return Err(unknown()),
            };
            // A model may have moved since: what it was is then put where it is now.
            let mut files = restorer.files(&to, &folder)?;
            if !files.contains_key("model.yaml")
                && let Some((old, _)) = &there
            {
                files = restorer.files(&to, old)?;
            }
            if !files.contains_key("model.yaml") {
                let refused = format!("commit {} has no model `{model}`", short(&to));
                return Err(CliError::input(refused).hint("name a commit that has it; `git log` lists them"));
            }
            (folder, model, to, files)
        }
        (None, None) => return Err(unknown()),
        (None, Some((folder, model))) => match restorer.newest_change(&folder)? {
            Some((_, Some(before))) => {
                let files = restorer.files(&before, &folder)?;
                (folder, model, before, files)
            }
            Some((step, None)) => {
                let refused = format!("nothing to roll back: `{model}` is as {} added it", short(&step.commit));
                return Err(CliError::new(ErrorKind::Refused, refused)
                    .hint("to take it away, remove its folder in a commit of its own"));
            }
            None => {
                let refused = format!("nothing to roll back: no commit has changed `{model}`");
                return Err(CliError::new(ErrorKind::Refused, refused).hint("name a state with --to"));
            }
        },
    };
    if files == restorer.files(&restorer.head(), &folder)? {
        let refused = format!("nothing to roll back: `{model}` is as {} has it", short(&to));
        return Err(CliError::new(ErrorKind::Refused, refused).hint("name another state with --to"));
    }
    let undone = restorer.undone(&to, &folder)?;
    let title = format!("Roll back {model} to {}", short(&to));
    let body = body(restorer, &folder, &to, &undone)?;
    Ok(Rollback { model, folder, to, files, undone, title, body })
}

/// What the commit and the pull request say below their first lines.
fn body(restorer: &Restorer, folder: &str, to: &str, undone: &Undone) -> Result<String, CliError> {
    let (time, first) = restorer.describe(to)?;
    let place = restorer.path(folder, "model.yaml");
    let mut text = format!(
        "{place} and what belongs to it are as commit {} of {} has them: {first}\n",
        short(to),
        time.strftime("%Y-%m-%d")
    );
    if !undone.steps.is_empty() {
        text.push_str("\nThis undoes, newest first:\n");
        text.push_str(&listed(undone, "- "));
    }
    text.push_str("\nMade by `stator rollback`.\n");
    Ok(text)
}

fn listed(undone: &Undone, mark: &str) -> String {
    let mut text = String::new();
    for step in &undone.steps {
        let _ = writeln!(text, "{mark}{} {}", short(&step.commit), step.summary);
    }
    if undone.further > 0 {
        let _ = writeln!(text, "{mark}and {} more", undone.further);
    }
    text
}

fn summary(restorer: &Restorer, rollback: &Rollback) -> String {
    let mut text = format!("{}: {} -> {}\n", rollback.model, short(&restorer.head()), short(&rollback.to));
    if !rollback.undone.steps.is_empty() {
        text.push_str("Undoes:\n");
        text.push_str(&listed(&rollback.undone, "  "));
    }
    text
}

/// The repository's files as the rollback's commit has them.
fn restored(restorer: &Restorer, tree: SourceTree, rollback: &Rollback) -> Result<SourceTree, CliError> {
    let now = restorer.files(&restorer.head(), &rollback.folder)?;
    let replaced: BTreeSet<String> =
        now.keys().chain(rollback.files.keys()).map(|name| join(&rollback.folder, name)).collect();
    let mut files: Vec<SourceFile> = tree.files.into_iter().filter(|file| !replaced.contains(&file.path)).collect();
    for (name, blob) in &rollback.files {
        let content = restorer.read(blob).map_err(|error| error.to_string());
        files.push(SourceFile { path: join(&rollback.folder, name), content });
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(SourceTree { files })
}

/// The plan of every environment that it changes something in, or of the one that was asked for.
fn plans(
    arguments: &Arguments,
    scope: &Scope,
    base: (&Workspace, &str),
    head: (&Workspace, &str),
) -> Result<Vec<Plan>, CliError> {
    if arguments.environment.environment.is_some() || head.0.environments().len() < 2 {
        return Ok(vec![revisions::between(scope, base, head, &arguments.environment)?]);
    }
    let mut plans = Vec::new();
    for environment in head.0.environments() {
        let arguments = EnvironmentArgs { environment: Some(environment), ..arguments.environment.clone() };
        let plan = revisions::between(scope, base, head, &arguments)?;
        if super::plan::has_changes(&plan) || plan.findings.iter().any(Finding::is_error) {
            plans.push(plan);
        }
    }
    Ok(plans)
}

/// The files' differences as git shows them, with what looks like a secret starred out.
fn difference(restorer: &Restorer, rollback: &Rollback) -> Result<String, CliError> {
    let now = restorer.files(&restorer.head(), &rollback.folder)?;
    let names: BTreeSet<&String> = now.keys().chain(rollback.files.keys()).collect();
    let mut text = String::new();
    for name in names {
        let (old, new) = (now.get(name), rollback.files.get(name));
        if old == new {
            continue;
        }
        let read = |blob: Option<&stator_git::source::restore::Blob>| -> Result<String, CliError> {
            let Some(blob) = blob else { return Ok(String::new()) };
            let bytes = restorer.read(blob)?;
            let lines = String::from_utf8_lossy(&bytes).lines().map(stator_core::mask::source_line).collect::<Vec<_>>();
            Ok(lines.into_iter().map(|line| escape::line(&line) + "\n").collect())
        };
        let (before, after) = (read(old)?, read(new)?);
        let path = restorer.path(&rollback.folder, name);
        let side = |there: bool, side: &str| if there { format!("{side}/{path}") } else { "/dev/null".to_owned() };
        let diff = similar::TextDiff::from_lines(&before, &after);
        let mut unified = diff.unified_diff();
        let unified =
            unified.context_radius(3).header(&side(old.is_some(), "a"), &side(new.is_some(), "b")).to_string();
        text.push_str(&unified);
    }
    Ok(text)
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

fn short(commit: &str) -> String {
    commit.get(..7).unwrap_or(commit).to_owned()
}

impl From<RestoreError> for CliError {
    fn from(error: RestoreError) -> Self {
        Self::input(error.to_string()).hint(error.help())
    }
}
