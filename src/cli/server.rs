//! `stator server`.

use super::args::{ClusterArgs, duration};
use super::connect::{self, KubernetesPurpose};
use super::controller::objects::{describe_namespaces, label};
use super::controller::{ListenArgs, LogFormat, print_addresses, run_daemon};
use super::error::{CliError, ExitStatus};
use super::hub::hub_clusters;
use super::output::Output;
use super::web::WebArgs;
use crate::daemon::{WebhookServer, WebhookServerOptions};
use clap::{Args, ValueHint};
use std::path::PathBuf;
use std::time::Duration;

/// Receive webhooks, and forward them to the controller
///
/// For clusters where the controller cannot be reached from outside. It writes webhook hints to an annotation of the
/// ModelSource, where the controller reads them. It writes nothing else and reads no repository.
///
/// With --web, it takes no webhooks: it shows the models of one or several clusters on this machine, as their records and
/// graphs have them, and changes nothing.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 stopped on request; 2 bad usage or no cluster; 124 --timeout; 130 interrupted twice."
)]
pub struct ServerArgs {
    #[command(flatten)]
    listen: ListenArgs,
    /// Receive webhooks only for the sources of this namespace; repeat it, or separate several with commas
    #[arg(long = "watch-namespace", value_name = "NAME", value_delimiter = ',', value_parser = label)]
    namespaces: Vec<String>,
    /// Log format on standard error
    #[arg(long, env = "STATOR_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    #[command(flatten)]
    cluster: ServerClusterArgs,
    #[command(flatten)]
    web: WebArgs,
}

/// Which clusters: those of [`ClusterArgs`], of which pages show several.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster options")]
struct ServerClusterArgs {
    /// `in-cluster`: the cluster that this pod runs in
    #[arg(long, env = "STATOR_CLUSTER", value_name = "CLUSTER", conflicts_with_all = ["contexts", "kubeconfig"])]
    cluster: Option<String>,
    /// Context of the kubeconfig; by default the current one. With --web, repeat it to show several clusters
    #[arg(long = "context", env = "STATOR_CONTEXT", value_name = "NAME")]
    contexts: Vec<String>,
    /// Path of the kubeconfig, instead of $KUBECONFIG and ~/.kube/config
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kubeconfig: Option<PathBuf>,
    /// Act as this user on a Kubernetes cluster; a service account is system:serviceaccount:NAMESPACE:NAME
    #[arg(long = "as", value_name = "USER")]
    impersonate: Option<String>,
    /// Time limit for the command: 90s, 5m, 1h30m
    #[arg(long, env = "STATOR_TIMEOUT", value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
}

impl ServerClusterArgs {
    fn one(&self) -> Result<ClusterArgs, CliError> {
        if self.contexts.len() > 1 {
            return Err(CliError::usage("several contexts work only with --web").with_hint("name one, or pass --web"));
        }
        Ok(self.of(self.contexts.first().cloned()))
    }

    fn of(&self, context: Option<String>) -> ClusterArgs {
        let Self { cluster, contexts: _, kubeconfig, impersonate, timeout } = self.clone();
        ClusterArgs { cluster, context, kubeconfig, impersonate, timeout }
    }
}

pub async fn run(arguments: &ServerArgs, output: &Output) -> Result<ExitStatus, CliError> {
    if arguments.web.is_on() {
        return show_clusters(arguments, output).await;
    }
    let cluster = arguments.cluster.one()?;
    let kube = connect::open_kubernetes(&cluster, KubernetesPurpose::FollowSources, output).await?;
    let options = WebhookServerOptions {
        kube,
        namespaces: arguments.namespaces.iter().cloned().collect(),
        listen: arguments.listen.options(true),
        authorize_metrics: arguments.listen.authorize_metrics,
    };
    let purpose = format!("taking webhooks for {}", describe_namespaces(&options.namespaces));
    let daemon = WebhookServer::start(options).await?;
    print_addresses(daemon.addresses(), &purpose, output);
    run_daemon(daemon, cluster.timeout, output).await
}

/// Shows clusters until Ctrl-C.
async fn show_clusters(arguments: &ServerArgs, output: &Output) -> Result<ExitStatus, CliError> {
    if arguments.cluster.cluster.is_some() {
        return Err(CliError::usage("--web shows clusters of a kubeconfig, and does not work with --cluster")
            .with_hint("name contexts with --context"));
    }
    let cluster = arguments.cluster.of(None);
    let clusters = hub_clusters(&cluster, &arguments.cluster.contexts)?;
    let showing = async {
        if let Some(pages) = arguments.web.start(output).await? {
            let contexts: Vec<&str> = clusters.iter().map(|one| one.context.as_str()).collect();
            output.note(&format!("Showing {}.", contexts.join(", ")));
            clusters.iter().for_each(|one| pages.observe_cluster(one.clone()));
            pages.serve_until_interrupted(output).await;
            pages.end().await;
        }
        Ok(ExitStatus::Success)
    };
    connect::with_timeout(&cluster, showing).await
}
