//! `stator status`, and `stator get models`.
//! Commands that only show an environment look at it as this one does.

use super::args::{ClusterArgs, EnvironmentArgs, FrontendArgs, PolicyArgs, SimulateArgs, to_yaml};
use super::connect;
use super::connect::ClusterAccess;
use super::error::{CliError, ExitStatus};
use super::list_output::{ListFormat, ListOutputArgs, ListPrinter};
use super::live_plan;
use super::output::Output;
use super::repository::{self, OpenedRepository};
use super::repository_observer::{EnvironmentPlace, RepositoryObserver};
use super::rollback::pull_request::ForgeTypeArgs;
use super::targets::TargetArgs;
use super::trusted_contexts::EnvironmentContext;
use super::web::WebArgs;
use clap::{Args, ValueEnum};
use stator_cluster::cluster::{AnyCluster, Cluster as _};
use stator_cluster::sync::EnvironmentStatus;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_model::intent::ResolvedEnvironment;
use stator_model::plan::ModelStatus;
use stator_model::present::status as present;

/// Show each model's sync, health, revision, GPUs and drift
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 shown; 2 the repository or the cluster cannot be read.")]
pub struct StatusArgs {
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
    list: ListOutputArgs,
    /// Order of the models; `sync` and `health` put models that need attention first
    #[arg(long, value_name = "KEY", default_value = "name")]
    sort_by: ModelSortKey,
    #[command(flatten)]
    web: WebArgs,
    #[command(flatten)]
    forge: ForgeTypeArgs,
}

/// What models are sorted by; those that are alike by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModelSortKey {
    /// Name
    Name,
    /// Sync, models that are not synced first
    Sync,
    /// Health, the worst first
    Health,
    /// GPUs, the most first
    Gpus,
    /// Age, the newest first
    Age,
}

impl ModelSortKey {
    fn sort(self, models: &mut [ModelStatus]) {
        match self {
            Self::Name => models.sort_by(|one, other| one.name.cmp(&other.name)),
            Self::Sync => models.sort_by(|one, other| other.sync.cmp(&one.sync).then(one.name.cmp(&other.name))),
            Self::Health => models.sort_by(|one, other| other.health.cmp(&one.health).then(one.name.cmp(&other.name))),
            Self::Gpus => models.sort_by(|one, other| other.gpus.cmp(&one.gpus).then(one.name.cmp(&other.name))),
            // A model of which nothing is there has no age, and comes last.
            Self::Age => models.sort_by(|one, other| other.created.cmp(&one.created).then(one.name.cmp(&other.name))),
        }
    }
}

pub async fn run(arguments: &StatusArgs, output: &Output) -> Result<ExitStatus, CliError> {
    connect::with_interrupt(&arguments.cluster, show(arguments, output)).await
}

async fn show(arguments: &StatusArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let mut opened = repository::open_targets(&arguments.targets, output)?;
    opened.note_when_empty(output);
    let mut selection = opened.select(&arguments.environment, output)?;
    let namespace = selection.environment.namespace.to_string();
    // One look needs nobody to move what it looks at.
    let simulates = arguments.simulate.simulate_operator && (arguments.list.watch || arguments.web.is_on());
    let access = if simulates { ClusterAccess::Write } else { ClusterAccess::Read };
    let cluster = open_cluster(&opened, &selection, &arguments.cluster, access, output).await?;
    let cluster = arguments.frontends.apply(&cluster);
    let embedded = arguments.simulate.embedded_cluster(&cluster)?;
    let _operator = embedded.filter(|_| simulates).map(|_| arguments.simulate.start_operator(&cluster)).transpose()?;
    connect::preflight(&cluster, output).await?;
    connect::detect_platform(&cluster, &mut selection).await;
    // The watch is opened first, so that nothing falls between it and the first look.
    let changes = match arguments.list.watch {
        true => {
            let shown: Vec<ObjectKind> = kinds::ALL.iter().filter(|kind| **kind != kinds::JOURNAL).copied().collect();
            Some(cluster.watch(&shown, Some(&namespace)).await?)
        }
        false => None,
    };
    let pages = arguments.web.start(output).await?;
    let mut looked = None;
    let mut read = if let Some(pages) = &pages {
        let place = EnvironmentPlace {
            root: opened.checkout.root.clone(),
            targets: arguments.targets.clone(),
            policies: PolicyArgs::default(),
            environment: arguments.environment.clone(),
            cluster: arguments.cluster.clone(),
            forge: arguments.forge,
        };
        let mut observer = RepositoryObserver::new(place, &selection, cluster.clone(), output);
        looked = Some(observer.look_first(opened, selection));
        pages.observe(observer);
        None
    } else {
        Some((opened, selection))
    };
    let mut printer = ListPrinter::new(arguments.list.output, changes, output);
    loop {
        let seen = match looked.take() {
            Some(looked) => looked.await.ok(),
            None => None,
        };
        let mut models = match seen {
            Some(models) => models,
            None => {
                // Files may have changed too: the list is about git as much as about the cluster.
                let (opened, selection) = match read.take() {
                    Some(read) => read,
                    None => {
                        let mut again = repository::open_targets(&arguments.targets, output)?;
                        let mut selection = again.select(&arguments.environment, output)?;
                        connect::detect_platform(&cluster, &mut selection).await;
                        (again, selection)
                    }
                };
                live_plan::read_statuses(&opened, selection, &cluster).await?.models
            }
        };
        arguments.sort_by.sort(&mut models);
        printer.print(format_statuses(&models, arguments, output)?)?;
        if !printer.wait_for_change().await? {
            if let Some(pages) = &pages {
                pages.serve_until_interrupted(output).await;
            }
            return Ok(ExitStatus::Success);
        }
    }
}

/// Opens the environment's cluster.
pub async fn open_cluster(
    opened: &OpenedRepository,
    selection: &ResolvedEnvironment,
    cluster: &ClusterArgs,
    access: ClusterAccess,
    output: &Output,
) -> Result<AnyCluster, CliError> {
    let context = EnvironmentContext::of(selection.environment.context.as_ref());
    connect::open(cluster, access, &opened.checkout.root, context, output).await
}

fn format_statuses(models: &[ModelStatus], arguments: &StatusArgs, output: &Output) -> Result<String, CliError> {
    let (now, look) = (jiff::Timestamp::now(), arguments.list.style(output));
    Ok(match arguments.list.output {
        ListFormat::Text | ListFormat::Wide if models.is_empty() && look.rows_only => String::new(),
        ListFormat::Text => present::status_table(models, false, now, &look),
        ListFormat::Wide => present::status_table(models, true, now, &look),
        ListFormat::Json => stator_model::present::json(&present::ModelStatusReport { models })?,
        ListFormat::Yaml => to_yaml(&present::ModelStatusReport { models })?,
        ListFormat::Name => present::names(models),
    })
}

/// An environment and its cluster.
#[derive(Debug)]
pub struct EnvironmentView {
    /// The cluster.
    pub cluster: AnyCluster,
    /// The environment's namespace.
    pub namespace: String,
    /// How the models that are targets stand.
    pub status: EnvironmentStatus,
}

/// Looks at the targets in an environment.
///
/// # Errors
/// When the repository or the cluster cannot be read, or a target is neither.
pub async fn view_environment(
    targets: &TargetArgs,
    environment: &EnvironmentArgs,
    cluster: &ClusterArgs,
    frontends: Option<FrontendArgs>,
    output: &Output,
) -> Result<EnvironmentView, CliError> {
    let mut opened = repository::open_targets(targets, output)?;
    opened.note_when_empty(output);
    let mut selection = opened.select(environment, output)?;
    let namespace = selection.environment.namespace.to_string();
    let cluster = open_cluster(&opened, &selection, cluster, ClusterAccess::Read, output).await?;
    let cluster = match frontends {
        Some(frontends) => frontends.apply(&cluster),
        None => cluster,
    };
    connect::preflight(&cluster, output).await?;
    connect::detect_platform(&cluster, &mut selection).await;
    let status = live_plan::read_statuses(&opened, selection, &cluster).await?;
    Ok(EnvironmentView { cluster, namespace, status })
}
