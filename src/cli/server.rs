//! `stator server`.

use super::args::ClusterArgs;
use super::controller::objects::{describe_namespaces, label, open_cluster};
use super::controller::{LogFormat, ProcessListeners, ShutdownReason, shut_down, wait_for_timeout};
use super::error::{CliError, ExitStatus};
use super::output::Output;
use super::signals::wait_for_interrupt;
use crate::controller::metrics::Metrics;
use crate::controller::sources::objects::{ControllerRole, FeedSettings, SourceFeed};
use crate::controller::sources::registry::SourceRegistry;
use crate::controller::sources::tenancy::TenancyPolicy;
use clap::Args;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Receive webhooks for the sources of a cluster and forward them to the controller
///
/// For clusters where the controller cannot be reached from outside: webhook hints are written to an annotation of the
/// ModelSource, which the controller that runs the source reads. Nothing else is written, and no repository is read.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 stopped on request; 2 bad usage or no cluster; 124 --timeout; 130 interrupted twice."
)]
pub struct ServerArgs {
    /// Address to listen on for webhooks, probes and metrics; port 0 picks a free port
    #[arg(long, env = "STATOR_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Separate address for metrics and probes; --listen then serves no metrics
    #[arg(long, env = "STATOR_METRICS_LISTEN", value_name = "ADDRESS")]
    metrics_listen: Option<SocketAddr>,
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
    let (_, kube) = open_cluster(&arguments.cluster, output).await?;
    let listeners = ProcessListeners::bind(arguments.listen, arguments.metrics_listen).await?;
    let settings = FeedSettings {
        role: ControllerRole::Server,
        namespaces: arguments.namespaces.iter().cloned().collect(),
        // What sources may do is judged by whoever runs them.
        tenancy: TenancyPolicy { cross_namespace: true, ..TenancyPolicy::default() },
        identity: String::new(),
        webhooks: true,
    };
    let whose = describe_namespaces(&settings.namespaces);
    output.note(&format!("Listening on http://{}, receiving webhooks for {whose}.", listeners.main.address()));
    listeners.print_metrics_address(output);
    let (board, metrics, ending) =
        (Arc::new(SourceRegistry::default()), Arc::new(Metrics::default()), CancellationToken::new());
    kube.observe_requests(metrics.kube_observer());
    let mut feed = SourceFeed::start(kube, settings, Arc::clone(&board));
    let serving = listeners.serve((board, metrics), &ending, true);
    let work = async {
        loop {
            feed.next_desired().await;
        }
    };
    let end = tokio::select! {
        through = work => through,
        () = wait_for_interrupt() => ShutdownReason::Requested,
        () = wait_for_timeout(arguments.cluster.timeout) => ShutdownReason::Timeout,
    };
    let work = async {
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
