//! `stator server`.

use super::args::ClusterArgs;
use super::connect::{self, KubernetesPurpose};
use super::controller::objects::{describe_namespaces, label};
use super::controller::{ListenArgs, LogFormat, print_addresses, run_daemon};
use super::error::{CliError, ExitStatus};
use super::output::Output;
use crate::daemon::{WebhookServer, WebhookServerOptions};
use clap::Args;

/// Receive webhooks for the sources of a cluster and forward them to the controller
///
/// For clusters where the controller cannot be reached from outside. It writes webhook hints to an annotation of the
/// ModelSource, where the controller reads them. It writes nothing else and reads no repository.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 stopped on request; 2 bad usage or no cluster; 124 --timeout; 130 interrupted twice."
)]
pub struct ServerArgs {
    #[command(flatten)]
    listen: ListenArgs,
    /// Receive webhooks only for the sources of this namespace; repeat it, or separate several with commas
    #[arg(long = "watch-namespace", env = "STATOR_WATCH_NAMESPACE", value_name = "NAME", value_delimiter = ',', value_parser = label)]
    namespaces: Vec<String>,
    /// Log format on standard error
    #[arg(long, env = "STATOR_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub async fn run(arguments: &ServerArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let kube = connect::open_kubernetes(&arguments.cluster, KubernetesPurpose::FollowSources, output).await?;
    let options = WebhookServerOptions {
        kube,
        namespaces: arguments.namespaces.iter().cloned().collect(),
        listen: arguments.listen.options(true),
        authorize_metrics: arguments.listen.authorize_metrics,
    };
    let purpose = format!("taking webhooks for {}", describe_namespaces(&options.namespaces));
    let daemon = WebhookServer::start(options).await?;
    print_addresses(daemon.addresses(), &purpose, output);
    run_daemon(daemon, arguments.cluster.timeout, output).await
}
