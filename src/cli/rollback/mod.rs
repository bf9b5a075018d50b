//! `stator rollback`: an earlier state of a model, on a branch and in a pull request.

pub mod pull_request;

use super::args::{EnvironmentArgs, PolicyArgs};
use super::error::{CliError, CliErrorKind, ExitStatus};
use super::output::Output;
use super::targets::{Target, TargetedModels, parse_target};
use super::{repository, revisions};
use clap::Args;
use jiff::Timestamp;
use pull_request::ForgeTypeArgs;
use stator_core::commit::short_commit;
use stator_core::finding::{self, Finding};
use stator_core::mask;
use stator_git::source::restore::{CommittedFiles, RestoreError, RollbackRepository, UndoneCommits};
use stator_git::source::{self, RepositoryScope, ScopePart};
use stator_model::fleet_policy::SourcePolicies;
use stator_model::intent::{FileRole, ResolvedEnvironment, SourceFile, SourceTree, Workspace};
use stator_model::plan::Plan;
use stator_model::present::patch::unified_diff;
use stator_model::present::{escape, findings, plan as present};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::path::PathBuf;

/// Restore an earlier state of a model with a pull request
///
/// The commit restores the model's files (intent, overlays, locks, files that pods mount) on top of the checked-out commit. Neither the work tree nor the index changes.
#[derive(Debug, Args)]
#[command(
    after_help = "With a git host, stator pushes the branch over HTTPS and opens a pull request: the host and its token come from --source-file, or from `origin` and $STATOR_FORGE_TOKEN. Without one, it creates the branch locally and prints the next step.\n\nExit codes: 0 created; 1 there is nothing to roll back, or the restored state has errors; 2 the rollback failed.\n\nExamples:\n  stator rollback llama-3-70b --dry-run\n  stator rollback llama-3-70b --to v1.4.0\n  STATOR_FORGE_TOKEN=... stator rollback llama-3-70b"
)]
pub struct RollbackArgs {
    /// Name of the model, or its model.yaml
    #[arg(value_name = "MODEL")]
    model: String,
    /// Commit, branch or tag to go back to; by default, the last one in which the model renders differently
    #[arg(long, value_name = "REV")]
    to: Option<String>,
    /// Branch to create; by default rollback/MODEL-COMMIT
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Only create the branch: push nothing, open no pull request
    #[arg(long)]
    no_pull_request: bool,
    /// Show the plan and the diff, and create nothing
    #[arg(long)]
    dry_run: bool,
    /// File with a ModelSource, for its git host and token
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with = "forge")]
    source_file: Option<PathBuf>,
    #[command(flatten)]
    forge: ForgeTypeArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
    #[command(flatten)]
    policies: PolicyArgs,
}

/// What a rollback is about.
struct Rollback {
    model: String,
    /// The model's folder, from stator's root.
    folder: String,
    /// The commit that it goes back to.
    to: String,
    /// What the folder is to hold.
    files: CommittedFiles,
    undone: UndoneCommits,
    title: String,
    /// The rest of the commit's message.
    body: String,
}

pub async fn run(arguments: &RollbackArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let target = parse_target(&arguments.model);
    let path = if let Target::Path(path) = &target { path.as_path() } else { Path::new(".") };
    let checkout = source::open(path)?;
    let restorer = RollbackRepository::open(&checkout.root)?;
    let (tree, head) = source::read_tree_at(&checkout.root, &restorer.head())?;
    let wanted = match (&target, checkout.scope.parts().next()) {
        (Target::Model(model), _) => ModelSelector::Name(&model.name),
        (Target::Path(_), Some(ScopePart::Intent(intent))) => ModelSelector::Intent(intent),
        (Target::Path(_), Some(ScopePart::Folder(_)) | None) => {
            return Err(CliError::usage("only one model can be rolled back at a time")
                .with_hint("pass its name, or its model.yaml"));
        }
    };
    let here = Workspace::parse(&tree);
    if let Target::Model(model) = &target {
        let names = here.environment_names();
        let all: Vec<ResolvedEnvironment> =
            names.iter().filter_map(|name| here.resolve_environment(Some(name)).ok()).collect();
        model.check_namespace(&all.iter().collect::<Vec<_>>())?;
    }
    let policies = repository::held_to(&checkout.root, arguments.policies.read_files()?);
    let now = CommittedState { tree: &tree, workspace: &here, head: &head };
    let PlannedRollback { rollback, plans } =
        find_rollback(arguments, &checkout.root, &restorer, &now, wanted, &policies)?;
    for file in restorer.uncommitted_files(&rollback.folder)? {
        output.warn(&format!("{file} has uncommitted changes; they are kept, and the rollback uses only commits"));
    }

    let branch = match &arguments.branch {
        Some(branch) => branch.clone(),
        None => format!("rollback/{}-{}", rollback.model, short_commit(&rollback.to)),
    };
    let made = restorer.find_rollback_branch(&branch, &rollback.folder, &rollback.files)?;
    output.write_result(&escape::lines(&rollback_summary(&restorer, &rollback)))?;
    for plan in &plans {
        output.write_result(&format!("\n{}", present::text(plan, &output.stdout_style)))?;
    }
    let faults = plans.iter().flat_map(|plan| plan.findings.iter().filter(|one| one.is_error()).cloned());
    let mut faults: Vec<Finding> = faults.collect();
    finding::sort_and_dedup(&mut faults);
    faults.dedup();
    if !faults.is_empty() {
        output.write_stderr(&findings::brief(&faults, &output.stderr_style));
        let refused = format!("the model has errors at {}, so nothing is rolled back", short_commit(&rollback.to));
        return Err(CliError::new(CliErrorKind::Refused, refused).with_hint("choose another state with --to"));
    }
    refuse_outside_windows(arguments, &here, &plans, &policies, output)?;
    if arguments.dry_run {
        output.write_result(&format!("\n{}", file_diff(&restorer, &rollback)?))?;
        output.note(&format!("Dry run: nothing was created. Without --dry-run, the branch is `{branch}`."));
        return Ok(ExitStatus::Success);
    }
    // What is wrong with the git host's description is said before anything is made.
    let host =
        if arguments.no_pull_request { None } else { pull_request::connect_forge(arguments, &restorer, output)? };
    let commit = match made {
        Some(commit) => {
            output.note(&format!("The branch `{branch}` already contains this rollback."));
            commit
        }
        None => {
            let message = format!("{}\n\n{}", rollback.title, rollback.body);
            let commit = restorer.commit_branch(&branch, &rollback.folder, &rollback.files, &message)?;
            if restorer.signs_commits() {
                output.note(
                    "note: this repository signs commits, and this commit is not signed; run `git commit \
                           --amend -S` on the branch",
                );
            }
            commit
        }
    };
    output.write_result(&format!("\nBranch {branch}, commit {}\n", short_commit(&commit)))?;
    match host {
        Some(host) => pull_request::open_pull_request(&host, &restorer, &rollback, &branch, &commit, output).await?,
        None => pull_request::print_next_step(&restorer, &branch, output),
    }
    Ok(ExitStatus::Success)
}

/// Refuses a rollback of an environment that the windows of a policy let no sync into now.
fn refuse_outside_windows(
    arguments: &RollbackArgs,
    here: &Workspace,
    plans: &[Plan],
    policies: &SourcePolicies,
    output: &Output,
) -> Result<(), CliError> {
    let now = Timestamp::now();
    let mut closed = Vec::new();
    for plan in plans {
        let named = EnvironmentArgs { environment: Some(plan.environment.clone()), ..arguments.environment.clone() };
        let selection = repository::select_environment(here, &named)?;
        closed.extend(policies.bind(selection.environment.namespace.as_str()).refuse_windows(now));
    }
    finding::sort_and_dedup(&mut closed);
    if closed.is_empty() {
        return Ok(());
    }
    output.write_stderr(&findings::brief(&closed, &output.stderr_style));
    Err(CliError::new(CliErrorKind::Refused, "no sync window is open, so nothing is rolled back"))
}

/// The checked-out commit.
struct CommittedState<'a> {
    tree: &'a SourceTree,
    workspace: &'a Workspace,
    head: &'a str,
}

/// A rollback, and what it would change in each environment.
struct PlannedRollback {
    rollback: Rollback,
    plans: Vec<Plan>,
}

impl PlannedRollback {
    /// Whether the model would be another one than now, with errors in it or without.
    fn changes_anything(&self) -> bool {
        self.plans.iter().any(|plan| super::plan::has_changes(plan) || has_errors(plan))
    }
}

fn has_errors(plan: &Plan) -> bool {
    plan.findings.iter().any(Finding::is_error)
}

/// How the model was named.
#[derive(Clone, Copy)]
enum ModelSelector<'a> {
    Name(&'a str),
    Intent(&'a str),
}

/// The models of a state, in whatever environments they are: intents' paths with the names of their models.
fn model_names(workspace: &Workspace) -> BTreeMap<String, String> {
    let mut models = BTreeMap::new();
    for environment in workspace.environment_names() {
        let Ok(selection) = workspace.resolve_environment(Some(&environment)) else { continue };
        for intent in selection.intents {
            models.insert(intent.source.clone(), intent.name.to_string());
        }
        for broken in selection.broken {
            let folder = folder_of(&broken.source).rsplit('/').next().unwrap_or_default().to_owned();
            models.entry(broken.source).or_insert(broken.name.unwrap_or(folder));
        }
    }
    models
}

/// The model's folder and name; several of one name (in environments of their own) are distinguished by their paths.
fn find_model_folder(workspace: &Workspace, wanted: ModelSelector<'_>) -> Result<Option<(String, String)>, CliError> {
    let all = model_names(workspace);
    let mut found = all.iter().filter(|(source, name)| match wanted {
        ModelSelector::Name(wanted) => name.as_str() == wanted,
        ModelSelector::Intent(intent) => source.as_str() == intent,
    });
    let first = found.next().map(|(source, name)| (folder_of(source).to_owned(), name.clone()));
    match (first, found.next()) {
        (Some((_, name)), Some((second, _))) => Err(CliError::usage(format!("several models are called `{name}`"))
            .with_hint(format!("pass the path of one: {second}"))),
        (first, _) => Ok(first),
    }
}

fn find_rollback(
    arguments: &RollbackArgs,
    root: &Path,
    restorer: &RollbackRepository,
    now: &CommittedState<'_>,
    wanted: ModelSelector<'_>,
    policies: &SourcePolicies,
) -> Result<PlannedRollback, CliError> {
    let known = find_model_folder(now.workspace, wanted)?;
    let unknown = || {
        let called = match wanted {
            ModelSelector::Name(name) => name,
            ModelSelector::Intent(intent) => intent,
        };
        let names: Vec<String> = model_names(now.workspace).into_values().collect();
        let hint = finding::did_you_mean(called, names.iter().map(String::as_str))
            .unwrap_or_else(|| "for a removed model, pass a commit that has it with --to".to_owned());
        CliError::input(format!("there is no model `{called}` in the checked-out commit")).with_hint(hint)
    };
    let build = |folder: &str, model: &str, to: &str, files: CommittedFiles| {
        let rollback = describe_rollback(restorer, (folder, model), to, files)?;
        let there = Workspace::parse(&build_restored_tree(restorer, now.tree, &rollback)?);
        let scope = TargetedModels::of_scope(RepositoryScope::intent(join(folder, "model.yaml")));
        let plans = plan_environments(arguments, &scope, (now.workspace, now.head), (&there, &rollback.to), policies)?;
        Ok::<PlannedRollback, CliError>(PlannedRollback { rollback, plans })
    };
    let refuse = |refused: String, hint: &str| Err(CliError::new(CliErrorKind::Refused, refused).with_hint(hint));
    match (&arguments.to, known) {
        (Some(revision), known) => {
            let (tree, to) = source::read_tree_at(root, revision)?;
            let there = find_model_folder(&Workspace::parse(&tree), wanted)?;
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
                let refused = format!("commit {} has no model `{model}`", short_commit(&to));
                return Err(CliError::input(refused).with_hint("pass a commit that has it; `git log` lists them"));
            }
            let planned = build(&folder, &model, &to, files)?;
            if planned.changes_anything() {
                return Ok(planned);
            }
            let refused =
                format!("nothing to roll back: `{model}` renders the same objects as in {}", short_commit(&to));
            refuse(refused, "choose another state with --to")
        }
        (None, None) => Err(unknown()),
        (None, Some((folder, model))) => {
            let (mut from, mut faulty) = (restorer.head(), None);
            loop {
                let change = restorer.newest_change(&from, &folder)?;
                // Nothing but states with errors: the newest of them says what is wrong.
                if !matches!(change, Some((_, Some(_))))
                    && let Some(faulty) = faulty.take()
                {
                    return Ok(faulty);
                }
                match change {
                    Some((_, Some(before))) => {
                        let files = restorer.files(&before, &folder)?;
                        // A lock alone is no model, and going there would remove it.
                        if files.contains_key("model.yaml") {
                            let planned = build(&folder, &model, &before, files)?;
                            let has_fault = planned.plans.iter().any(has_errors);
                            // A comment is no change of the model, and what has errors never ran.
                            if has_fault {
                                faulty.get_or_insert(planned);
                            } else if planned.changes_anything() {
                                return Ok(planned);
                            }
                        }
                        from = before;
                    }
                    Some((step, None)) => {
                        let added = short_commit(&step.commit);
                        return refuse(
                            format!("nothing to roll back: `{model}` renders the same objects since {added} added it"),
                            "to remove it, delete its folder in a separate commit",
                        );
                    }
                    None => {
                        return refuse(
                            format!("nothing to roll back: no commit has changed `{model}`"),
                            "choose a state with --to",
                        );
                    }
                }
            }
        }
    }
}

/// What a rollback of a model does, and what its commit says.
fn describe_rollback(
    restorer: &RollbackRepository,
    (folder, model): (&str, &str),
    to: &str,
    files: CommittedFiles,
) -> Result<Rollback, CliError> {
    let undone = restorer.undone_commits(to, folder)?;
    let title = format!("Roll back {model} to {}", short_commit(to));
    let mounts_files = files.keys().any(|name| !is_model_file(name));
    let body = commit_body(restorer, folder, to, mounts_files, &undone)?;
    let (model, folder, to) = (model.to_owned(), folder.to_owned(), to.to_owned());
    Ok(Rollback { model, folder, to, files, undone, title, body })
}

/// What the commit and the pull request say below their first lines.
fn commit_body(
    restorer: &RollbackRepository,
    folder: &str,
    to: &str,
    mounts_files: bool,
    undone: &UndoneCommits,
) -> Result<String, CliError> {
    let (time, first) = restorer.describe(to)?;
    let place = restorer.path(folder, "model.yaml");
    let mut text = format!(
        "Restores {place} with its overlays{} to commit {} of {}: {first}\n",
        if mounts_files { ", locks and mounted files" } else { " and locks" },
        short_commit(to),
        time.strftime("%Y-%m-%d")
    );
    if !undone.commits.is_empty() {
        text.push_str("\nThis undoes, newest first:\n");
        text.push_str(&list_undone(undone, "- "));
    }
    text.push_str("\nCreated by `stator rollback`.\n");
    Ok(text)
}

fn list_undone(undone: &UndoneCommits, mark: &str) -> String {
    let mut text = String::new();
    for step in &undone.commits {
        let _ = writeln!(text, "{mark}{} {}", short_commit(&step.commit), step.summary);
    }
    if undone.omitted > 0 {
        let _ = writeln!(text, "{mark}and {} more", undone.omitted);
    }
    text
}

fn rollback_summary(restorer: &RollbackRepository, rollback: &Rollback) -> String {
    let mut text =
        format!("{}: {} -> {}\n", rollback.model, short_commit(&restorer.head()), short_commit(&rollback.to));
    if !rollback.undone.commits.is_empty() {
        text.push_str("Undoes:\n");
        text.push_str(&list_undone(&rollback.undone, "  "));
    }
    text
}

/// Whether a file of a model's folder is one that stator reads as the model's, and not one that pods mount.
fn is_model_file(name: &str) -> bool {
    match FileRole::of_name(name) {
        FileRole::Intent | FileRole::Overlay(_) | FileRole::Lock(_) => true,
        FileRole::Settings | FileRole::Misnamed { .. } | FileRole::Other => false,
    }
}

/// The repository's files as the rollback's commit has them.
fn build_restored_tree(
    restorer: &RollbackRepository,
    tree: &SourceTree,
    rollback: &Rollback,
) -> Result<SourceTree, CliError> {
    let now = restorer.files(&restorer.head(), &rollback.folder)?;
    let replaced: BTreeSet<String> =
        now.keys().chain(rollback.files.keys()).map(|name| join(&rollback.folder, name)).collect();
    let mut files: Vec<SourceFile> = tree.files.iter().filter(|file| !replaced.contains(&file.path)).cloned().collect();
    let mut mounted_files = tree.mounted_files.clone();
    let mut mounted = mounted_files.remove(&rollback.folder).unwrap_or_default();
    // Of these none goes: settings of now may name what the model of then did not.
    mounted.retain(|file| !rollback.files.keys().any(|name| join(&rollback.folder, name) == file.path));
    for (name, blob) in &rollback.files {
        let content = restorer.read(blob).map(Into::into).map_err(|error| error.to_string());
        let file = SourceFile { path: join(&rollback.folder, name), content };
        if is_model_file(name) { files.push(file) } else { mounted.push(file) }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    mounted.sort_by(|one, other| one.path.cmp(&other.path));
    mounted_files.insert(rollback.folder.clone(), mounted);
    Ok(SourceTree { files, mounted_files, ..SourceTree::default() })
}

/// The plan of every environment that it changes something in, or of the one that was asked for.
fn plan_environments(
    arguments: &RollbackArgs,
    scope: &TargetedModels,
    base: (&Workspace, &str),
    head: (&Workspace, &str),
    policies: &SourcePolicies,
) -> Result<Vec<Plan>, CliError> {
    if arguments.environment.environment.is_some() || head.0.environment_names().len() < 2 {
        return Ok(vec![revisions::plan_between(scope, base, head, &arguments.environment, policies)?]);
    }
    let mut plans = Vec::new();
    for environment in head.0.environment_names() {
        let arguments = EnvironmentArgs { environment: Some(environment), ..arguments.environment.clone() };
        let plan = revisions::plan_between(scope, base, head, &arguments, policies)?;
        if super::plan::has_changes(&plan) || plan.findings.iter().any(Finding::is_error) {
            plans.push(plan);
        }
    }
    Ok(plans)
}

/// The files' differences as git shows them, with what looks like a secret starred out.
fn file_diff(restorer: &RollbackRepository, rollback: &Rollback) -> Result<String, CliError> {
    let now = restorer.files(&restorer.head(), &rollback.folder)?;
    let goes = |name: &&String| is_model_file(name) || rollback.files.contains_key(*name);
    let names: BTreeSet<&String> = now.keys().filter(goes).chain(rollback.files.keys()).collect();
    let mut text = String::new();
    for name in names {
        let (old, new) = (now.get(name), rollback.files.get(name));
        if old == new {
            continue;
        }
        let read = |blob: Option<&stator_git::source::restore::CommittedFile>| -> Result<String, CliError> {
            let Some(blob) = blob else { return Ok(String::new()) };
            let bytes = restorer.read(blob)?;
            let content = String::from_utf8_lossy(&bytes);
            let starred = mask::star_tokens(&content);
            Ok(starred.lines().map(|line| escape::line(&mask::redact_source_line(line)) + "\n").collect())
        };
        let (before, after) = (read(old)?, read(new)?);
        let path = restorer.path(&rollback.folder, name);
        let side = |there: bool, side: &str| if there { format!("{side}/{path}") } else { "/dev/null".to_owned() };
        let (old, new) = (side(old.is_some(), "a"), side(new.is_some(), "b"));
        text.push_str(&unified_diff((&old, &before), (&new, &after)));
    }
    Ok(text)
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

impl From<RestoreError> for CliError {
    fn from(error: RestoreError) -> Self {
        Self::input(error.to_string()).with_hint(error.help())
    }
}
