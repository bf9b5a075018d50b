//! `stator controller` without a file: the sources are `ModelSource` objects of a Kubernetes cluster.

use super::{ControllerArgs, ProcessListeners, ShutdownReason, controller_settings, shut_down, wait_for_timeout};
use crate::cli::args::ClusterArgs;
use crate::cli::connect;
use crate::cli::error::{CliError, ExitStatus};
use crate::cli::output::Output;
use crate::cli::signals::wait_for_interrupt;
use crate::controller::replicas::{self, LeaseManager};
use crate::controller::report::kube_events;
use crate::controller::report::source_status::status_writer;
use crate::controller::sources::objects::{ControllerRole, FeedSettings, SourceFeed};
use crate::controller::sources::tenancy::TenancyPolicy;
use crate::controller::supervisor::Controller;
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args};
use stator_cluster::cluster::AnyCluster;
use stator_cluster::cluster::kube::{KubeCluster, ServiceAccount, kubeconfig_files};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long leases may take to be handed over at the end; they run out by themselves after that.
const LEASE_RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Whose sources, and what they may do.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Sources of a cluster")]
pub struct SourceObjectArgs {
    /// Follow only the sources of this namespace; repeat it, or separate several with commas. By default, all namespaces that have no controller of their own
    #[arg(long = "watch-namespace", env = "STATOR_WATCH_NAMESPACE", value_name = "NAME", value_delimiter = ',', value_parser = label, conflicts_with = "source")]
    namespaces: Vec<String>,
    /// Service account, in each source's own namespace, for sources that name none
    #[arg(long, env = "STATOR_DEFAULT_SERVICE_ACCOUNT", value_name = "NAME", value_parser = label, conflicts_with = "source")]
    default_service_account: Option<String>,
    /// Allow sources without a service account to write to other namespaces
    #[arg(long, env = "STATOR_ALLOW_CROSS_NAMESPACE", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    allow_cross_namespace: bool,
    /// Number of parts that sources are divided into among replicas; with 1, one replica is active and the others stand
    /// by
    #[arg(long, env = "STATOR_SHARDS", value_name = "NUMBER", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1024))]
    shards: u32,
    /// Namespace of the leases by which replicas find each other; by default that of the pod, else stator-system. Each installation needs its own
    #[arg(long, env = "STATOR_LEASE_NAMESPACE", value_name = "NAME", value_parser = label)]
    lease_namespace: Option<String>,
    /// Name of this process in the leases; by default the name of the pod
    #[arg(long, env = "STATOR_IDENTITY", value_name = "NAME", value_parser = label)]
    identity: Option<String>,
}

impl SourceObjectArgs {
    fn settings(&self) -> FeedSettings {
        FeedSettings {
            role: ControllerRole::Controller,
            namespaces: self.namespaces.iter().cloned().collect(),
            tenancy: TenancyPolicy {
                default_account: self.default_service_account.clone(),
                cross_namespace: self.allow_cross_namespace,
            },
            identity: self.identity(),
            webhooks: true,
        }
    }

    fn lease_settings(&self, identity: &str) -> replicas::LeaseSettings {
        let pod = || label(&ServiceAccount::from_pod_env().ok()?.namespace()?).ok();
        let namespace = self.lease_namespace.clone().or_else(pod).unwrap_or_else(|| "stator-system".to_owned());
        let (identity, shards, terms) =
            (replicas::unique_identity(identity), self.shards, replicas::LeaseTerms::default());
        replicas::LeaseSettings { namespace, identity, shards, terms }
    }

    /// What this process is called among others.
    fn identity(&self) -> String {
        self.identity.clone().unwrap_or_else(default_identity)
    }
}

/// A name of Kubernetes: of a namespace, a service account, a pod.
pub(in crate::cli) fn label(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let good =
        (1..=253).contains(&text.len()) && text.chars().all(fits) && text.starts_with(ends) && text.ends_with(ends);
    if good {
        Ok(text.to_owned())
    } else {
        Err("a name consists of lower-case letters, digits, `-` and `.`".to_owned())
    }
}

/// The name of the pod, or of the machine with something of its own, as several processes may run on it.
fn default_identity() -> String {
    let host = std::env::var("HOSTNAME").ok().or_else(|| fs_err::read_to_string("/etc/hostname").ok());
    let host: String = host.unwrap_or_default().trim().to_ascii_lowercase().chars().take(40).collect();
    let host = label(&host).unwrap_or_else(|_| "stator".to_owned());
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return host;
    }
    let own: String = uuid::Uuid::new_v4().simple().to_string().chars().take(5).collect();
    format!("{host}-{own}")
}

/// The Kubernetes cluster whose objects are followed, and the arguments that lead to it: in a pod, its own.
pub(in crate::cli) async fn open_cluster(
    given: &ClusterArgs,
    output: &Output,
) -> Result<(ClusterArgs, KubeCluster), CliError> {
    let named = given.cluster.is_some() || given.context.is_some() || given.kubeconfig.is_some();
    let mut given = given.clone();
    let in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() && kubeconfig_files(None).is_empty();
    if !named && in_pod {
        given.cluster = Some("in-cluster".to_owned());
    }
    let nowhere = || {
        CliError::usage("no Kubernetes cluster to read ModelSource objects from")
            .with_hint("select one with --context, --kubeconfig or `--cluster in-cluster`")
            .with_hint("or pass a file of sources with `stator controller --source FILE`, which also works on the embedded cluster")
    };
    let embedded = given.cluster.as_deref().is_some_and(|cluster| cluster.starts_with("embedded"));
    if embedded
        || (given.cluster.is_none()
            && given.context.is_none()
            && kubeconfig_files(given.kubeconfig.as_deref()).is_empty())
    {
        return Err(nowhere());
    }
    match connect::open(&given, Path::new("."), None, output).await? {
        AnyCluster::Kubernetes(kube) => Ok((given, kube)),
        AnyCluster::Embedded(_) => Err(nowhere()),
    }
}

pub(super) async fn run(arguments: &ControllerArgs, output: &Output) -> Result<ExitStatus, CliError> {
    if arguments.once {
        return Err(CliError::usage("--once works only with a file of sources").with_hint(
            "pass one with --source, or omit --once: objects of a cluster are followed until the controller stops",
        ));
    }
    let (given, kube) = open_cluster(&arguments.cluster, output).await?;
    let cluster = AnyCluster::from(kube.clone());
    arguments.simulate.embedded_cluster(&cluster)?;
    connect::preflight(&cluster, output).await?;
    let data = arguments.data.clone().unwrap_or_else(|| Path::new(".stator").join("controller"));
    fs_err::create_dir_all(&data)?;
    let listeners = ProcessListeners::bind(arguments.listen, arguments.metrics_listen).await?;
    let settings = FeedSettings { webhooks: arguments.webhooks, ..arguments.objects.settings() };
    output.note(&format!(
        "Listening on http://{}, following {}, as {}.",
        listeners.main.address(),
        describe_namespaces(&settings.namespaces),
        settings.identity
    ));
    listeners.print_metrics_address(output);
    let mut controller = Controller::new(controller_settings(arguments, &given, cluster, data));
    let ending = controller.shutdown_token();
    let leases = LeaseManager::start(kube.client(), arguments.objects.lease_settings(&settings.identity));
    let (board, instance, client) = (controller.registry(), settings.identity.clone(), kube.client());
    let mut feed = SourceFeed::start(kube, settings, Arc::clone(&board));
    let resources = feed.resources();
    controller = controller.with_resources(Arc::clone(&resources));
    tokio::spawn(status_writer::run_status_writer(
        client.clone(),
        Arc::clone(&board),
        Arc::clone(&resources),
        ending.clone(),
    ));
    tokio::spawn(kube_events::run_event_writer(client, board, resources, instance, Arc::default(), ending.clone()));
    let serving = listeners.serve((controller.registry(), controller.metrics()), &ending, arguments.webhooks);
    let work = run_replica(&mut controller, &mut feed, &leases);
    let end = tokio::select! {
        through = work => through,
        () = wait_for_interrupt() => ShutdownReason::Requested,
        () = wait_for_timeout(arguments.cluster.timeout) => ShutdownReason::Timeout,
    };
    leases.leave();
    let work = async {
        controller.wait_until_ended().await;
        leases.release(LEASE_RELEASE_TIMEOUT).await;
        let _ = serving.await;
        feed.flush_relay().await;
    };
    shut_down(&end, &ending, output, work).await?;
    Ok(match end {
        ShutdownReason::Completed(_) | ShutdownReason::Requested => ExitStatus::Success,
        ShutdownReason::Timeout => {
            output.warn("Timed out.");
            ExitStatus::Timeout
        }
    })
}

/// Does what the cluster's objects say, for the sources that this replica holds.
async fn run_replica(controller: &mut Controller, feed: &mut SourceFeed, leases: &LeaseManager) -> ShutdownReason {
    let (mut held, mut facts) = (leases.held(), leases.facts());
    held.mark_changed();
    facts.mark_changed();
    // Renewals that are counted already, and those that failed.
    let mut counted = (0, 0);
    loop {
        tokio::select! {
            wanted = feed.next_desired() => controller.apply_desired(wanted),
            Ok(()) = held.changed() => {
                let now = held.borrow_and_update().clone();
                feed.set_owned_shards(now.clone());
                controller.set_owned_shards(now.clone()).await;
                leases.confirm_settled(&now);
            }
            Ok(()) = facts.changed() => {
                let facts = facts.borrow_and_update().clone();
                let (metrics, count) = (controller.metrics(), |number: u32| usize::try_from(number).unwrap_or(usize::MAX));
                metrics.set_shards(count(facts.shards), count(facts.held), count(facts.members));
                (counted.0..facts.renewed).for_each(|_| metrics.record_lease_renewal(true));
                (counted.1..facts.failed).for_each(|_| metrics.record_lease_renewal(false));
                counted = (facts.renewed, facts.failed);
                let unseen = || (!facts.has_listed).then(|| "the leases of the replicas have not been read \
                                                             yet".to_owned());
                controller.registry().set_not_ready("leases", facts.problem.clone().or_else(unseen));
            }
        }
    }
}

/// Which sources are followed, in words.
pub(in crate::cli) fn describe_namespaces(namespaces: &BTreeSet<String>) -> String {
    if namespaces.is_empty() {
        return "the ModelSource objects of all namespaces".to_owned();
    }
    let names: Vec<&str> = namespaces.iter().map(String::as_str).collect();
    format!("the ModelSource objects of {}", names.join(" and "))
}
