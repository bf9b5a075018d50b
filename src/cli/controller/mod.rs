//! `stator controller`.

mod file;
pub(super) mod objects;

use super::args::{ClusterArgs, SimulateArgs};
use super::error::{CliError, CliErrorKind, ExitStatus};
use super::output::Output;
use super::signals::wait_for_interrupt;
use crate::controller::metrics::Metrics;
use crate::controller::sources::registry::SourceRegistry;
use crate::controller::supervisor::ControllerOptions;
use crate::server::{self, HttpListener, RouteOptions};
use clap::builder::{BoolishValueParser, FalseyValueParser};
use clap::{ArgAction, Args, ValueEnum, ValueHint};
use stator_cluster::cluster::AnyCluster;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Keep a cluster in sync with git repositories: poll, receive webhooks, sync, report
///
/// With --source, a file holds `ModelSource` documents and the `Secret` documents that they name. The file is watched:
/// changes take effect at once, and a version with errors is reported and ignored. Without it, the sources are the
/// ModelSource objects of a Kubernetes cluster, and their secrets are read by name in their own namespaces.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 stopped on request, or with --once everything is synced and healthy; 1 with --once something is not; 2 bad usage, an invalid file or no cluster; 124 --timeout; 130 interrupted twice."
)]
pub struct ControllerArgs {
    /// File of sources and their secrets; without it, follow the ModelSource objects of the cluster
    #[arg(long, env = "STATOR_SOURCE", value_name = "FILE", value_hint = ValueHint::FilePath)]
    source: Option<PathBuf>,
    /// Address to listen on for webhooks, probes and metrics; port 0 picks a free port
    #[arg(long, env = "STATOR_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Separate address for metrics and probes; --listen then serves no metrics
    #[arg(long, env = "STATOR_METRICS_LISTEN", value_name = "ADDRESS")]
    metrics_listen: Option<SocketAddr>,
    /// Folder for copies of the repositories; by default .stator/controller, next to the file if there is one
    #[arg(long, env = "STATOR_DATA", value_name = "DIR", value_hint = ValueHint::DirPath)]
    data: Option<PathBuf>,
    /// Sync each source of the file once, wait for it, and exit
    #[arg(long, env = "STATOR_ONCE", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    once: bool,
    /// Whether to receive webhooks; false if a `stator server` receives them
    #[arg(long, env = "STATOR_WEBHOOKS", value_name = "BOOL", default_value = "true", action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    webhooks: bool,
    /// Log format on standard error
    #[arg(long, env = "STATOR_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    #[command(flatten)]
    objects: objects::SourceObjectArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    simulate: SimulateArgs,
}

/// The forms of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Readable lines
    Text,
    /// One JSON object per line
    Json,
}

/// How the wait for the end ended.
pub(super) enum ShutdownReason {
    /// All sources are through.
    Completed(bool),
    /// Asked to end.
    Requested,
    /// Timed out.
    Timeout,
}

pub async fn run(arguments: &ControllerArgs, output: &Output) -> Result<ExitStatus, CliError> {
    match &arguments.source {
        Some(source) => file::run(arguments, source, output).await,
        None => objects::run(arguments, output).await,
    }
}

fn controller_settings(
    arguments: &ControllerArgs,
    given: &ClusterArgs,
    cluster: AnyCluster,
    data: PathBuf,
) -> ControllerOptions {
    let chosen = given.cluster.is_some() || given.context.is_some() || given.kubeconfig.is_some();
    let implied = (!chosen).then(|| stator_cluster::cluster::Cluster::describe(&cluster));
    let in_cluster = given.cluster.as_deref() == Some("in-cluster");
    let kube =
        (!in_cluster && cluster.as_kubernetes().is_some()).then(|| stator_cluster::cluster::kube::ConnectOptions {
            kubeconfig: given.kubeconfig.clone(),
            context: given.context.clone(),
            ..stator_cluster::cluster::kube::ConnectOptions::default()
        });
    ControllerOptions { cluster, kube_options: kube, implied_cluster: implied, data_dir: data, once: arguments.once }
}

/// Where a process listens.
pub(super) struct ProcessListeners {
    /// For everything that has no listener of its own.
    pub(super) main: HttpListener,
    /// For metrics, where they have one.
    metrics: Option<HttpListener>,
}

impl ProcessListeners {
    pub(super) async fn bind(main: SocketAddr, metrics: Option<SocketAddr>) -> Result<Self, CliError> {
        let failed = |flag: &'static str| {
            move |error: server::ListenError| {
                CliError::new(CliErrorKind::Input, error.to_string())
                    .with_hint(format!("choose another address with {flag}"))
            }
        };
        let main = HttpListener::bind(main).await.map_err(failed("--listen"))?;
        let metrics = match metrics {
            Some(address) => Some(HttpListener::bind(address).await.map_err(failed("--metrics-listen"))?),
            None => None,
        };
        Ok(Self { main, metrics })
    }

    /// Says where metrics are, where they have a listener of their own.
    pub(super) fn print_metrics_address(&self, output: &Output) {
        if let Some(metrics) = &self.metrics {
            output.note(&format!("Metrics are at http://{}/metrics.", metrics.address()));
        }
    }

    /// Answers until `ending` is set: probes, metrics, and webhooks where they are taken.
    pub(super) fn serve(
        self,
        (board, metrics): (Arc<SourceRegistry>, Arc<Metrics>),
        ending: &CancellationToken,
        webhooks: bool,
    ) -> JoinHandle<()> {
        let routes = |parts| server::routes_with(Arc::clone(&board), Arc::clone(&metrics), ending.clone(), parts);
        let main = self.main.serve(routes(RouteOptions { webhooks, metrics: self.metrics.is_none() }), ending.clone());
        let aside = self
            .metrics
            .map(|listener| listener.serve(routes(RouteOptions { webhooks: false, metrics: true }), ending.clone()));
        tokio::spawn(async move {
            match aside {
                Some(aside) => drop(tokio::join!(main, aside)),
                None => main.await,
            }
        })
    }
}

/// Ends with grace: what is under way is finished first, unless somebody does not want to wait for it.
pub(super) async fn shut_down(
    end: &ShutdownReason,
    ending: &CancellationToken,
    output: &Output,
    work: impl Future<Output = ()>,
) -> Result<(), CliError> {
    ending.cancel();
    if matches!(end, ShutdownReason::Requested) {
        output.note("Shutting down: work in progress is finished first. Repeat to stop at once.");
    }
    tokio::select! {
        () = work => Ok(()),
        () = wait_for_interrupt() => {
            Err(CliError::new(CliErrorKind::Interrupted, "interrupted").with_hint("the next start completes the rest"))
        }
    }
}

pub(super) async fn wait_for_timeout(limit: Option<Duration>) {
    crate::controller::waiting::sleep_for_some(limit).await;
}
