//! `stator controller` without a file: the sources are `ModelSource` objects of a Kubernetes cluster.

use super::{Arguments, End, Listeners, farewell, place, timeout};
use crate::cli::args::ClusterArgs;
use crate::cli::connect;
use crate::cli::error::{CliError, Exit};
use crate::cli::output::Output;
use crate::cli::signals::interrupted;
use crate::controller::lease::{self, Leases};
use crate::controller::resources::{Feed, Role, Settings};
use crate::controller::run::Controller;
use crate::controller::status::writer;
use crate::controller::{access::Tenancy, events};
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args};
use stator_cluster::cluster::AnyCluster;
use stator_cluster::cluster::kube::{Kube, ServiceAccount, kubeconfig_files};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long leases may take to be handed over at the end; they run out by themselves after that.
const RELEASE: Duration = Duration::from_secs(5);

/// Whose sources, and what they may do.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Sources of a cluster")]
pub struct ObjectArgs {
    /// Follow the sources of this namespace only; may be given several times, or several with commas. Without it, those of all namespaces that no controller of their own answers for
    #[arg(long = "watch-namespace", env = "STATOR_WATCH_NAMESPACE", value_name = "NAME", value_delimiter = ',', value_parser = label, conflicts_with = "source")]
    namespaces: Vec<String>,
    /// The service account, of each source's own namespace, that sources act as that name none
    #[arg(long, env = "STATOR_DEFAULT_SERVICE_ACCOUNT", value_name = "NAME", value_parser = label, conflicts_with = "source")]
    default_service_account: Option<String>,
    /// Let sources that name no service account write into namespaces other than their own
    #[arg(long, env = "STATOR_ALLOW_CROSS_NAMESPACE", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    allow_cross_namespace: bool,
    /// Into how many parts sources are divided among replicas; with one, one replica works and the others stand by
    #[arg(long, env = "STATOR_SHARDS", value_name = "NUMBER", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1024))]
    shards: u32,
    /// The namespace of the leases by which replicas find each other; that of the pod by default, else stator-system. Each installation has one of its own
    #[arg(long, env = "STATOR_LEASE_NAMESPACE", value_name = "NAME", value_parser = label)]
    lease_namespace: Option<String>,
    /// What this process is called among others; the name of the pod by default
    #[arg(long, env = "STATOR_IDENTITY", value_name = "NAME", value_parser = label)]
    identity: Option<String>,
}

impl ObjectArgs {
    fn settings(&self) -> Settings {
        Settings {
            role: Role::Controller,
            namespaces: self.namespaces.iter().cloned().collect(),
            tenancy: Tenancy {
                default_account: self.default_service_account.clone(),
                cross_namespace: self.allow_cross_namespace,
            },
            identity: self.identity(),
            webhooks: true,
        }
    }

    fn leases(&self, identity: &str) -> lease::Settings {
        let pod = || label(&ServiceAccount::of_this_pod().ok()?.namespace()?).ok();
        let namespace = self.lease_namespace.clone().or_else(pod).unwrap_or_else(|| "stator-system".to_owned());
        let (identity, shards, terms) = (lease::identity(identity), self.shards, lease::Terms::default());
        lease::Settings { namespace, identity, shards, terms }
    }

    /// What this process is called among others.
    fn identity(&self) -> String {
        self.identity.clone().unwrap_or_else(identity)
    }
}

/// A name of Kubernetes: of a namespace, a service account, a pod.
pub(in crate::cli) fn label(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let good =
        (1..=253).contains(&text.len()) && text.chars().all(fits) && text.starts_with(ends) && text.ends_with(ends);
    if good { Ok(text.to_owned()) } else { Err("a name has lower-case letters, digits, `-` and `.`".to_owned()) }
}

/// The name of the pod, or of the machine with something of its own, as several processes may run on it.
fn identity() -> String {
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
pub(in crate::cli) async fn open(given: &ClusterArgs, output: &Output) -> Result<(ClusterArgs, Kube), CliError> {
    let named = given.cluster.is_some() || given.context.is_some() || given.kubeconfig.is_some();
    let mut given = given.clone();
    let in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() && kubeconfig_files(None).is_empty();
    if !named && in_pod {
        given.cluster = Some("in-cluster".to_owned());
    }
    let nowhere = || {
        CliError::usage("there is no Kubernetes cluster to follow ModelSource objects of")
            .hint("name one with --context, --kubeconfig or `--cluster in-cluster`")
            .hint("or name a file of sources with `stator controller --source FILE`, which an embedded cluster will do for")
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

pub(super) async fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CliError> {
    if arguments.once {
        return Err(CliError::usage("--once is for a file of sources").hint(
            "name one with --source, or leave --once out: objects of a cluster are followed for as long as this runs",
        ));
    }
    let (given, kube) = open(&arguments.cluster, output).await?;
    let cluster = AnyCluster::from(kube.clone());
    arguments.simulate.playable(&cluster)?;
    connect::preflight(&cluster, output).await?;
    let data = arguments.data.clone().unwrap_or_else(|| Path::new(".stator").join("controller"));
    fs_err::create_dir_all(&data)?;
    let listeners = Listeners::bind(arguments.listen, arguments.metrics_listen).await?;
    let settings = Settings { webhooks: arguments.webhooks, ..arguments.objects.settings() };
    output.note(&format!(
        "Listening on http://{}, following {}, as {}.",
        listeners.main.address(),
        following(&settings.namespaces),
        settings.identity
    ));
    listeners.say_metrics(output);
    let mut controller = Controller::new(place(arguments, &given, cluster, data));
    let ending = controller.ending();
    let leases = Leases::start(kube.client(), arguments.objects.leases(&settings.identity));
    let (board, instance, client) = (controller.board(), settings.identity.clone(), kube.client());
    let mut feed = Feed::start(kube, settings, Arc::clone(&board));
    let resources = feed.resources();
    controller = controller.with_resources(Arc::clone(&resources));
    tokio::spawn(writer::write(client.clone(), Arc::clone(&board), Arc::clone(&resources), ending.clone()));
    tokio::spawn(events::write(client, board, resources, instance, Arc::default(), ending.clone()));
    let serving = listeners.serve((controller.board(), controller.metrics()), &ending, arguments.webhooks);
    let work = work(&mut controller, &mut feed, &leases);
    let end = tokio::select! {
        through = work => through,
        () = interrupted() => End::Asked,
        () = timeout(arguments.cluster.timeout) => End::Timeout,
    };
    leases.leave();
    let work = async {
        controller.ended().await;
        leases.release(RELEASE).await;
        let _ = serving.await;
        feed.flushed().await;
    };
    farewell(&end, &ending, output, work).await?;
    Ok(match end {
        End::Through(_) | End::Asked => Exit::Success,
        End::Timeout => {
            output.warn("The time is up.");
            Exit::Timeout
        }
    })
}

/// Does what the cluster's objects say, for the sources that this replica holds.
async fn work(controller: &mut Controller, feed: &mut Feed, leases: &Leases) -> End {
    let (mut held, mut facts) = (leases.held(), leases.facts());
    held.mark_changed();
    facts.mark_changed();
    // Renewals that are counted already, and those that failed.
    let mut counted = (0, 0);
    loop {
        tokio::select! {
            wanted = feed.next() => drop(feed.carry_out(wanted, controller)),
            Ok(()) = held.changed() => {
                let now = held.borrow_and_update().clone();
                feed.hold(now.clone());
                controller.hold(now.clone()).await;
                leases.settled(&now);
            }
            Ok(()) = facts.changed() => {
                let facts = facts.borrow_and_update().clone();
                let (metrics, count) = (controller.metrics(), |number: u32| usize::try_from(number).unwrap_or(usize::MAX));
                metrics.shards(count(facts.shards), count(facts.held), count(facts.members));
                (counted.0..facts.renewed).for_each(|_| metrics.renewed(true));
                (counted.1..facts.failed).for_each(|_| metrics.renewed(false));
                counted = (facts.renewed, facts.failed);
                let unseen = || (!facts.seen).then(|| "the leases of the replicas were not read yet".to_owned());
                controller.board().lacking("leases", facts.problem.clone().or_else(unseen));
            }
        }
    }
}

/// Which sources are followed, in words.
pub(in crate::cli) fn following(namespaces: &BTreeSet<String>) -> String {
    if namespaces.is_empty() {
        return "the ModelSource objects of all namespaces".to_owned();
    }
    let names: Vec<&str> = namespaces.iter().map(String::as_str).collect();
    format!("the ModelSource objects of {}", names.join(" and "))
}
