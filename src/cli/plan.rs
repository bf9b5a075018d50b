//! `stator plan`. A plan names the command that carries it out as it was shown.

use super::args::{ChangeArgs, ClusterArgs, EmptyArgs, EnvironmentArgs, PolicyArgs, to_yaml};
use super::connect::ClusterAccess;
use super::error::{CliError, ExitStatus};
use super::output::Output;
use super::repository::{self, OpenedRepository};
use super::targets::TargetArgs;
use super::trusted_contexts::EnvironmentContext;
use super::{connect, live_plan, revisions};
use clap::{Args, ValueEnum};
use stator_model::plan::{Action, Change, Disruption, HoldKind, Plan};
use stator_model::present::{diff, findings, plan as present, preview};
use std::collections::BTreeSet;

/// Show what a sync would change, and what that costs
///
/// With --from, compare two revisions, without a cluster: the plan of a pull request.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 planned; 1 an intent has errors, --fail-on matched, or there are changes with --exit-code; 2 planning failed.\n\nExamples:\n  stator plan -e prod\n  stator plan -e prod --from origin/main... -o markdown\n  stator plan -e prod -o json > plan.json && stator sync -e prod --plan plan.json"
)]
pub struct PlanArgs {
    #[command(flatten)]
    targets: TargetArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    changes: ChangeArgs,
    #[command(flatten)]
    policies: PolicyArgs,
    #[command(flatten)]
    empty: EmptyArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: PlanFormat,
    /// Exit with 1 if there are changes
    #[arg(long)]
    exit_code: bool,
    /// Exit with 1 if a change is of one of these classes
    #[arg(long, value_name = "CLASS", value_delimiter = ',')]
    fail_on: Vec<FailOnClass>,
    /// Compare with this revision instead of a cluster; `main...` is the merge base with main
    #[arg(long, value_name = "REV", conflicts_with_all = ["cluster", "context", "kubeconfig", "allow", "prune"])]
    from: Option<String>,
    /// With --from: plan this revision instead of the work tree
    #[arg(long, value_name = "REV", requires = "from")]
    to: Option<String>,
}

impl PlanArgs {
    /// Plans the repository against the cluster, within `--timeout`.
    async fn plan(&self, opened: OpenedRepository, output: &Output) -> Result<Plan, CliError> {
        connect::with_timeout(&self.cluster, self.plan_against_cluster(opened, output)).await
    }

    async fn plan_against_cluster(&self, mut opened: OpenedRepository, output: &Output) -> Result<Plan, CliError> {
        opened.refuse_when_empty(self.empty, output)?;
        let mut selection = opened.select(&self.environment, output)?;
        repository::note_when_environment_empty(&opened, &selection, output);
        let context = EnvironmentContext::of(selection.environment.context.as_ref());
        let cluster = connect::open(&self.cluster, ClusterAccess::Read, &opened.checkout.root, context, output).await?;
        connect::preflight(&cluster, output).await?;
        connect::detect_platform(&cluster, &mut selection).await;
        stator_cluster::sync::desired::read_gpus(&cluster, selection.environment.platform.get_or_insert_default())
            .await;
        repository::note_assumed_release(selection.environment.platform.as_ref(), output);
        let policies = self.policies.read(&cluster).await?;
        let selected = live_plan::plan_selected(&cluster, &opened, &selection, &policies, &self.changes).await;
        if let Some(plan) = selected {
            return Ok(plan);
        }
        opened.workspace.forget_models();
        let mut desired = opened.render_selection(selection, policies);
        let found = live_plan::gather_live_state(&cluster, &opened, &mut desired).await?;
        Ok(live_plan::plan_changes(&cluster, &opened, desired, found, &self.changes).await.plan)
    }
}

/// The forms of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PlanFormat {
    /// Text
    #[value(alias = "table")]
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// A unified diff of the objects
    Diff,
    /// Markdown of at most 60,000 bytes
    Markdown,
    /// One self-contained page
    Html,
}

/// Classes of change for --fail-on: disruptions, and actions that are worth a stop by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOnClass {
    /// Adapters load or unload
    AdapterOnly,
    /// Replicas are added or removed
    Scale,
    /// Grove updates pods once somebody deletes them
    OnDelete,
    /// The frontend is replaced
    FrontendRoll,
    /// Every component restarts
    RollingRestart,
    /// Every worker is replaced
    ManagedRoll,
    /// Multinode workers are replaced, and capacity dips
    NativeRoll,
    /// All pods stop before new ones start
    Recreate,
    /// An object is deleted
    Delete,
    /// An object is deleted and created again
    Replace,
    /// An object that stator does not manage is taken over
    Adopt,
    /// An object cannot be changed
    Blocked,
}

impl FailOnClass {
    fn matches_change(self, change: &Change) -> bool {
        match self {
            Self::AdapterOnly => change.disruption == Disruption::AdapterOnly,
            Self::Scale => change.disruption == Disruption::Scale,
            Self::OnDelete => change.disruption == Disruption::OnDelete,
            Self::FrontendRoll => change.disruption == Disruption::FrontendRoll,
            Self::RollingRestart => change.disruption == Disruption::RollingRestart,
            Self::ManagedRoll => change.disruption == Disruption::ManagedRoll,
            Self::NativeRoll => change.disruption == Disruption::NativeRoll,
            Self::Recreate => change.disruption == Disruption::Recreate,
            Self::Delete => change.disruption == Disruption::Delete || change.action == Action::Delete,
            Self::Replace => change.action == Action::Replace,
            Self::Adopt => change.action == Action::Adopt,
            Self::Blocked => change.action == Action::Blocked,
        }
    }
}

pub async fn run(arguments: &PlanArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let opened = repository::open_targets(&arguments.targets, output)?;
    let plan = match &arguments.from {
        Some(from) => {
            let policies = arguments.policies.read_files()?;
            let environment = &arguments.environment;
            let selection = repository::select_environment(&opened.workspace, environment)?;
            repository::note_assumed_release(selection.environment.platform.as_ref(), output);
            let plan = revisions::compare_revisions(&opened, from, arguments.to.as_deref(), environment, policies)?;
            // A change may well remove the last model of a folder.
            if plan.changes.is_empty() {
                opened.refuse_when_empty(arguments.empty, output)?;
            }
            plan
        }
        None => arguments.plan(opened, output).await?,
    };
    output.write_result(&match arguments.output {
        PlanFormat::Text => present::text(&plan, &output.stdout_style) + &arguments.next_step(&plan),
        PlanFormat::Json => present::json(&plan)?,
        PlanFormat::Yaml => yaml(&plan)?,
        PlanFormat::Diff => diff::unified(&plan, &output.stdout_style),
        PlanFormat::Markdown => preview::ci_comment(&plan),
        PlanFormat::Html => present::html(&plan),
    })?;
    if arguments.output == PlanFormat::Diff {
        output.write_stderr(&findings::brief(&plan.findings, &output.stderr_style));
    }
    Ok(exit_status(&plan, arguments, output))
}

impl PlanArgs {
    /// What carries the plan out, where there is something to do; nothing for a comparison of revisions.
    fn next_step(&self, plan: &Plan) -> String {
        let is_offered =
            |change: &Change| !present::is_unchanged(change) && change.step.held_by() != Some(HoldKind::MassDelete);
        if self.from.is_some() || !plan.changes.iter().any(is_offered) {
            return String::new();
        }
        let policies = (&self.changes, &self.policies);
        format!("\nNext:\n{}\n", sync_command(plan, &self.targets, &self.environment, &self.cluster, policies))
    }
}

/// The same data as JSON, as YAML.
pub fn yaml(plan: &Plan) -> Result<String, CliError> {
    let data: serde_json::Value = serde_json::from_str(&present::json(plan)?)?;
    to_yaml(&data)
}

/// True when a sync would do something, or is kept from doing it.
pub fn has_changes(plan: &Plan) -> bool {
    plan.changes.iter().any(|change| !present::is_unchanged(change))
}

fn exit_status(plan: &Plan, arguments: &PlanArgs, output: &Output) -> ExitStatus {
    let mut exit = ExitStatus::Success;
    let hit: Vec<&Change> = plan
        .changes
        .iter()
        .filter(|change| arguments.fail_on.iter().any(|class| class.matches_change(change)))
        .collect();
    for change in &hit {
        let action = change.action.as_str();
        let disruption = change.disruption.as_str();
        output.warn(&format!("--fail-on: {action} {} ({disruption})", change.object));
        exit = ExitStatus::Negative;
    }
    if arguments.exit_code && has_changes(plan) || plan.findings.iter().any(stator_core::finding::Finding::is_error) {
        exit = ExitStatus::Negative;
    }
    exit
}

/// A line for a shell, such as `stator sync models -e prod --allow adopt`. Whoever runs it is still asked before anything is
/// written.
fn sync_command(
    plan: &Plan,
    targets: &TargetArgs,
    environment: &EnvironmentArgs,
    cluster: &ClusterArgs,
    (changes, PolicyArgs { policies }): (&ChangeArgs, &PolicyArgs),
) -> String {
    let mut words = vec!["stator".to_owned(), "sync".to_owned()];
    words.extend(targets.words().iter().map(|word| quote(word)));
    words.extend(["-e".to_owned(), quote(&plan.environment)]);
    let ClusterArgs { cluster: name, context, kubeconfig, impersonate, timeout: _ } = cluster;
    let kubeconfig = kubeconfig.as_ref().map(|file| file.display().to_string());
    let options = [
        ("-n", environment.namespace.clone()),
        ("--cluster", name.clone()),
        ("--context", context.clone()),
        ("--kubeconfig", kubeconfig),
        ("--as", impersonate.clone()),
        ("--policies", policies.as_ref().map(|path| path.display().to_string())),
    ];
    for (option, value) in options {
        words.extend(value.into_iter().flat_map(|value| [option.to_owned(), quote(&value)]));
    }
    if !changes.prune {
        words.push("--prune=false".to_owned());
    }
    let mut holds: BTreeSet<HoldKind> = changes.allowed_holds();
    let kinds = plan.changes.iter().filter_map(|change| change.step.held_by());
    let kinds = kinds.chain(plan.holds.iter().filter(|hold| !hold.allowed).map(|hold| hold.kind));
    // Right after an accident, the way to complete it is not what comes next.
    holds.extend(kinds.filter(|kind| *kind != HoldKind::MassDelete));
    if !holds.is_empty() {
        let names: Vec<&str> = holds.into_iter().map(HoldKind::as_str).collect();
        words.extend(["--allow".to_owned(), names.join(",")]);
    }
    words.join(" ")
}

/// A value as a shell reads it back. One with a zero byte, which no command line can have, stays as it is.
fn quote(value: &str) -> String {
    shlex::try_quote(value).map_or_else(|_| value.to_owned(), |quoted| quoted.into_owned())
}
