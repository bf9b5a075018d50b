//! Which cluster a command works on, said in one line.

use super::args::{ClusterArgs, PolicyArgs};
use super::error::{CliError, CliErrorKind, ExitStatus};
use super::output::Output;
use super::signals;
use super::trusted_contexts::{EnvironmentContext, require_trust};
use crate::daemon::is_in_pod;
use stator_cluster::cluster::embedded::{EmbeddedCluster, EmbeddedOptions};
use stator_cluster::cluster::kube::{self, ConnectError, KubeCluster, ServiceAccount};
use stator_cluster::cluster::{AnyCluster, Cluster as _};
use stator_model::fleet_policy::FleetPolicies;
use std::future::Future;
use std::path::{Path, PathBuf};

/// Where the embedded cluster is, below the repository's root.
const EMBEDDED_FOLDER: &str = ".stator/cluster";
/// Why a context is used that the repository names.
const SET_BY_ENVIRONMENT: &str = ", set by the environment";

/// Which cluster, and why that one and no other.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ClusterChoice {
    /// The folder of an embedded cluster.
    Embedded(PathBuf),
    /// A context of the kubeconfig, `None` for its current one.
    Context(Option<String>, &'static str),
    /// A context that the repository names, and that no person has chosen.
    OfRepository(String),
    /// The pod's own cluster.
    InCluster,
}

/// What a command does to its cluster. A Kubernetes cluster asks for rights instead; of an embedded one, reading leaves no
/// trace on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterAccess {
    /// Looks at it, dry runs included.
    Read,
    /// Changes objects.
    Write,
}

/// Opens the cluster that the options, the environment or the kubeconfig name, and says which on standard error.
///
/// # Errors
/// When none of them names one: no cluster is chosen by accident.
pub async fn open(
    arguments: &ClusterArgs,
    access: ClusterAccess,
    root: &Path,
    environment_context: Option<EnvironmentContext<'_>>,
    output: &Output,
) -> Result<AnyCluster, CliError> {
    let machine = KubeconfigSummary::read(arguments)?;
    let choice = choose_cluster(arguments, root, environment_context.map(|one| one.name), &machine)?;
    match choice {
        ClusterChoice::OfRepository(name) => {
            let no_input = environment_context.is_some_and(|one| one.no_input);
            let chosen = EnvironmentContext { name: &name, no_input };
            require_trust(root, chosen, machine.current.as_deref(), output)?;
            let context = (Some(name), SET_BY_ENVIRONMENT);
            connect_kubernetes(arguments, Some(context), output).await.map(AnyCluster::from)
        }
        ClusterChoice::Embedded(folder) => {
            if arguments.impersonate.is_some() {
                return Err(CliError::usage(
                    "--as works only on Kubernetes clusters, but this is the embedded cluster",
                )
                .with_hint("omit it, or select a cluster with --context"));
            }
            open_embedded(&folder, access, output).map(AnyCluster::from)
        }
        ClusterChoice::Context(context, why) => {
            connect_kubernetes(arguments, Some((context, why)), output).await.map(AnyCluster::from)
        }
        ClusterChoice::InCluster => connect_kubernetes(arguments, None, output).await.map(AnyCluster::from),
    }
}

/// What a command does that only a Kubernetes cluster can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubernetesPurpose {
    /// Shows or changes sources, for a person.
    EditSources,
    /// Follows sources, for as long as the process runs. In a pod that is nobody's kubeconfig, the pod's own cluster is
    /// meant where none is named.
    FollowSources,
}

impl KubernetesPurpose {
    fn refuse_embedded(self) -> CliError {
        match self {
            Self::EditSources => CliError::usage(
                "sources are objects of a Kubernetes cluster, and this is the embedded cluster",
            )
            .with_hint("select a cluster with --context or --kubeconfig; on the embedded one, `stator controller --source-file FILE` runs the sources of a file"),
            Self::FollowSources => CliError::usage("no Kubernetes cluster to read ModelSource objects from")
                .with_hint("select one with --context, --kubeconfig or `--cluster in-cluster`")
                .with_hint("or pass a file of sources with `stator controller --source-file FILE`, which also works on the embedded cluster"),
        }
    }
}

/// Opens the Kubernetes cluster that the options or the machine name.
///
/// # Errors
/// When it is an embedded cluster that they name, which is not touched then.
pub async fn open_kubernetes(
    arguments: &ClusterArgs,
    purpose: KubernetesPurpose,
    output: &Output,
) -> Result<KubeCluster, CliError> {
    let machine = KubeconfigSummary::read(arguments)?;
    let choice = match purpose {
        KubernetesPurpose::FollowSources if !arguments.names_cluster() && is_in_pod() && !machine.kubeconfig => {
            ClusterChoice::InCluster
        }
        KubernetesPurpose::FollowSources | KubernetesPurpose::EditSources => {
            choose_cluster(arguments, Path::new("."), None, &machine)?
        }
    };
    match choice {
        ClusterChoice::Embedded(_) => Err(purpose.refuse_embedded()),
        ClusterChoice::Context(None, _)
            if purpose == KubernetesPurpose::FollowSources && !machine.kubeconfig && arguments.kubeconfig.is_none() =>
        {
            Err(purpose.refuse_embedded())
        }
        ClusterChoice::Context(context, why) => connect_kubernetes(arguments, Some((context, why)), output).await,
        // No repository is asked.
        ClusterChoice::OfRepository(name) => {
            connect_kubernetes(arguments, Some((Some(name), SET_BY_ENVIRONMENT)), output).await
        }
        ClusterChoice::InCluster => connect_kubernetes(arguments, None, output).await,
    }
}

/// What the cluster is called, where nobody said which one to use: neither the options, nor the pod that this runs in.
pub fn implied_cluster(arguments: &ClusterArgs, cluster: &AnyCluster) -> Option<String> {
    let is_pods_own = cluster.as_kubernetes().is_some_and(KubeCluster::is_service_account);
    (!arguments.names_cluster() && !is_pods_own).then(|| cluster.describe())
}

/// Connects to a context of the kubeconfig, or as the pod that this runs in, and says so.
async fn connect_kubernetes(
    arguments: &ClusterArgs,
    context: Option<(Option<String>, &'static str)>,
    output: &Output,
) -> Result<KubeCluster, CliError> {
    let service_account = if context.is_none() { Some(ServiceAccount::from_pod_env()?) } else { None };
    let (context, why) = context.unwrap_or_default();
    let options = kube::ConnectOptions {
        kubeconfig: arguments.kubeconfig.clone(),
        context,
        service_account,
        impersonate: arguments.impersonate.clone().map(|user| kube::ImpersonatedUser { user, groups: Vec::new() }),
        ..kube::ConnectOptions::default()
    };
    let cluster = KubeCluster::connect(options).await?;
    let user = match &arguments.impersonate {
        Some(user) => format!(" as {user}"),
        None => String::new(),
    };
    output.note(&format!("Using the {}{user}{why}.", cluster.describe()));
    Ok(cluster)
}

/// Says what of a Kubernetes cluster stands in stator's way, before anything is read or written.
///
/// # Errors
/// When something makes work on it impossible. A server that does not answer is left to the first read to report.
pub async fn preflight(cluster: &AnyCluster, output: &Output) -> Result<(), CliError> {
    let Some(cluster) = cluster.as_kubernetes() else { return Ok(()) };
    let found = match cluster.preflight().await {
        Ok(found) => found,
        Err(error) => {
            tracing::info!(%error, "the preflight check of the cluster failed");
            return Ok(());
        }
    };
    tracing::info!(
        release = found.release.map(|release| release.to_string()),
        operator = found.operator_version,
        "Dynamo's definitions"
    );
    let (blocking, warnings): (Vec<_>, Vec<_>) = found.problems.into_iter().partition(|one| one.blocks);
    for one in warnings {
        output.warn(&format!("{}; {}", one.message, one.fix));
    }
    let Some(first) = blocking.first() else { return Ok(()) };
    let messages: Vec<&str> = blocking.iter().map(|one| one.message.as_str()).collect();
    let error = CliError::new(CliErrorKind::Cluster, messages.join("; and ")).with_hint(&first.fix);
    Err(blocking.iter().skip(1).fold(error, |error, one| error.with_hint(&one.fix)))
}

pub use stator_cluster::sync::desired::detect_platform;

fn open_embedded(folder: &Path, access: ClusterAccess, output: &Output) -> Result<EmbeddedCluster, CliError> {
    let folder = shorten_path(folder);
    output.note(&format!("Using the embedded cluster in {}.", folder.display()));
    let read_only = access == ClusterAccess::Read;
    let cluster = EmbeddedCluster::open(&folder, EmbeddedOptions { read_only, ..EmbeddedOptions::default() })?;
    if !read_only && folder.ends_with(EMBEDDED_FOLDER) {
        write_gitignore(&folder);
    }
    Ok(cluster)
}

/// Live objects are no part of what git declares, and a commit of them would be applied by nobody.
fn write_gitignore(folder: &Path) {
    let Some(ignore) = folder.parent().map(|parent| parent.join(".gitignore")) else { return };
    if !ignore.exists() {
        // A folder that cannot be written to needs no telling git about it.
        let _ = fs_err::write(ignore, "*\n");
    }
}

/// What the machine says where the options say nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct KubeconfigSummary {
    /// Whether there is a kubeconfig.
    kubeconfig: bool,
    /// Its contexts.
    contexts: Vec<String>,
    /// Its current context.
    current: Option<String>,
}

impl KubeconfigSummary {
    /// Reads the kubeconfig, where the choice can hang on it.
    fn read(arguments: &ClusterArgs) -> Result<Self, CliError> {
        if arguments.cluster.is_some() || arguments.context.is_some() {
            return Ok(Self::default());
        }
        let files = kube::kubeconfig_files(arguments.kubeconfig.as_deref());
        if files.is_empty() {
            return Ok(Self::default());
        }
        let kube::KubeconfigContexts { names, current } = kube::kubeconfig_contexts(&files)?;
        Ok(Self { kubeconfig: true, contexts: names, current })
    }
}

/// What is asked for on the command line goes over the environment's own context, and that over the kubeconfig's current
/// one. Nothing else is a choice: a context of no name is an error of the connection.
fn choose_cluster(
    arguments: &ClusterArgs,
    root: &Path,
    environment_context: Option<&str>,
    machine: &KubeconfigSummary,
) -> Result<ClusterChoice, CliError> {
    if let Some(cluster) = &arguments.cluster {
        return match cluster.split_once(':') {
            None if cluster == "embedded" => Ok(ClusterChoice::Embedded(root.join(EMBEDDED_FOLDER))),
            None if cluster == "in-cluster" => Ok(ClusterChoice::InCluster),
            Some(("embedded", folder)) if !folder.is_empty() => Ok(ClusterChoice::Embedded(PathBuf::from(folder))),
            Some(_) | None => Err(CliError::usage(format!("`{cluster}` is not a valid cluster")).with_hint(
                "use `embedded`, or `embedded:DIR` for another folder; select a Kubernetes cluster with --context",
            )),
        };
    }
    if let Some(context) = &arguments.context {
        return Ok(ClusterChoice::Context(Some(context.clone()), ""));
    }
    if arguments.kubeconfig.is_some() {
        // A kubeconfig that was made for this environment may well be about other clusters as well.
        let own = environment_context.filter(|own| machine.contexts.iter().any(|known| known == own));
        return Ok(own.map_or(ClusterChoice::Context(None, ""), |own| choose_context_of_repository(own, machine)));
    }
    if let Some(own) = environment_context {
        return Ok(choose_context_of_repository(own, machine));
    }
    Ok(match &machine.current {
        Some(current) => ClusterChoice::Context(Some(current.clone()), ", the current context of the kubeconfig"),
        None => ClusterChoice::Context(None, ""),
    })
}

/// The current context is the person's own choice, and one that is not there is an error whoever named it.
fn choose_context_of_repository(own: &str, machine: &KubeconfigSummary) -> ClusterChoice {
    let is_there = machine.contexts.iter().any(|known| known == own);
    if is_there && machine.current.as_deref() != Some(own) {
        return ClusterChoice::OfRepository(own.to_owned());
    }
    ClusterChoice::Context(Some(own.to_owned()), SET_BY_ENVIRONMENT)
}

/// A path as short as it can be said from here.
fn shorten_path(path: &Path) -> PathBuf {
    let here = std::env::current_dir().and_then(fs_err::canonicalize);
    match here {
        Ok(here) => path.strip_prefix(here).map_or_else(|_| path.to_owned(), Path::to_owned),
        Err(_) => path.to_owned(),
    }
}

/// Runs a command's work within `--timeout`.
pub async fn with_timeout<T>(
    arguments: &ClusterArgs,
    work: impl Future<Output = Result<T, CliError>>,
) -> Result<T, CliError> {
    let Some(limit) = arguments.timeout else { return work.await };
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => Err(CliError::new(CliErrorKind::Timeout, format!("timed out after {limit:?}"))
            .with_hint("raise the limit with --timeout")),
    }
}

/// Runs a command's work within `--timeout`, and until Ctrl-C.
pub async fn with_interrupt(
    arguments: &ClusterArgs,
    work: impl Future<Output = Result<ExitStatus, CliError>>,
) -> Result<ExitStatus, CliError> {
    tokio::select! {
        result = with_timeout(arguments, work) => result,
        () = signals::wait_for_interrupt() => Ok(ExitStatus::Interrupted),
    }
}

/// The policies that the options name: of files alone, where they name files and no cluster.
pub async fn read_policies(
    policies: &PolicyArgs,
    arguments: &ClusterArgs,
    output: &Output,
) -> Result<FleetPolicies, CliError> {
    if policies.policies.is_some() && !arguments.names_cluster() {
        return policies.read_files();
    }
    with_timeout(arguments, async {
        let cluster = open(arguments, ClusterAccess::Read, Path::new(""), None, output).await?;
        policies.read(&cluster).await
    })
    .await
}

impl From<ConnectError> for CliError {
    fn from(error: ConnectError) -> Self {
        let is_unnamed = matches!(error, ConnectError::NoKubeconfig { .. } | ConnectError::NoCurrentContext { .. });
        let error = Self::new(CliErrorKind::Cluster, error.to_string()).with_hint(error.help());
        if !is_unnamed {
            return error;
        }
        let error = error.with_hint("or try stator without Kubernetes: `--cluster embedded` keeps objects as files");
        if is_in_pod() { error.with_hint("or use the cluster of this pod: `--cluster in-cluster`") } else { error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "/repo";

    fn arguments(cluster: &str) -> ClusterArgs {
        ClusterArgs { cluster: Some(cluster.into()), ..ClusterArgs::default() }
    }

    fn machine(current: Option<&str>) -> KubeconfigSummary {
        KubeconfigSummary {
            kubeconfig: true,
            contexts: vec!["prod".to_owned(), "staging".to_owned()],
            current: current.map(str::to_owned),
        }
    }

    fn chosen(arguments: &ClusterArgs, environment: Option<&str>, machine: &KubeconfigSummary) -> ClusterChoice {
        choose_cluster(arguments, Path::new(ROOT), environment, machine).unwrap()
    }

    #[test]
    fn the_embedded_cluster_is_in_the_repository_or_where_one_says() {
        let nowhere = KubeconfigSummary::default();
        let own = Path::new(ROOT).join(".stator/cluster");
        assert_eq!(chosen(&arguments("embedded"), None, &nowhere), ClusterChoice::Embedded(own.clone()));
        assert_eq!(chosen(&arguments("embedded:x/y"), None, &nowhere), ClusterChoice::Embedded("x/y".into()));
        // What is asked for on the command line goes over the environment's context.
        assert_eq!(chosen(&arguments("embedded"), Some("prod"), &machine(Some("prod"))), ClusterChoice::Embedded(own));
        assert_eq!(chosen(&arguments("in-cluster"), Some("prod"), &nowhere), ClusterChoice::InCluster);
        for wrong in ["embedded:", "kind", "kind:x", ""] {
            let error = choose_cluster(&arguments(wrong), Path::new(ROOT), None, &nowhere).unwrap_err();
            assert_eq!(error.exit_status(), super::super::error::ExitStatus::Error);
            assert!(!error.hints().is_empty(), "{error}");
        }
    }

    #[test]
    fn options_go_over_the_environment_that_over_the_kubeconfig_and_nothing_else_is_a_choice() {
        let said = |choice: ClusterChoice| match choice {
            ClusterChoice::Embedded(_) => "embedded".to_owned(),
            ClusterChoice::Context(context, why) => format!("{}{why}", context.unwrap_or_else(|| "current".to_owned())),
            ClusterChoice::OfRepository(context) => format!("{context}, if that is allowed"),
            ClusterChoice::InCluster => "in-cluster".to_owned(),
        };
        let context = ClusterArgs { context: Some("staging".into()), ..ClusterArgs::default() };
        let kubeconfig = ClusterArgs { kubeconfig: Some("k".into()), ..ClusterArgs::default() };
        let nothing = ClusterArgs::default();
        let all = [
            said(chosen(&context, Some("prod"), &machine(Some("prod")))),
            said(chosen(&kubeconfig, Some("prod"), &machine(Some("staging")))),
            said(chosen(&kubeconfig, Some("elsewhere"), &machine(Some("staging")))),
            said(chosen(&nothing, Some("prod"), &machine(Some("staging")))),
            said(chosen(&nothing, Some("prod"), &machine(Some("prod")))),
            said(chosen(&nothing, Some("prod"), &KubeconfigSummary::default())),
            said(chosen(&nothing, None, &machine(Some("staging")))),
            said(chosen(&nothing, None, &machine(None))),
            said(chosen(&nothing, None, &KubeconfigSummary::default())),
        ];
        insta::assert_snapshot!(all.join("\n"), @"
        staging
        prod, if that is allowed
        current
        prod, if that is allowed
        prod, set by the environment
        prod, set by the environment
        staging, the current context of the kubeconfig
        current
        current
        ");
    }
}
