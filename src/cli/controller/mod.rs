//! `stator controller`.

mod file;
pub(super) mod objects;

use super::args::{ClusterArgs, FrontendArgs, PolicyArgs, SimulateArgs};
use super::connect;
use super::error::{CliError, CliErrorKind, ExitStatus};
use super::output::Output;
use super::signals::wait_for_interrupt;
use super::web::{SignInArgs, WebArgs};
use crate::controller::supervisor::ControllerOptions;
use crate::controller::waiting::sleep_for_some;
use crate::daemon::{Daemon, DaemonStartError};
use crate::server::tls::CertificateFiles;
use crate::server::{BindError, ListenAddresses, ListenOptions};
use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, ValueEnum, ValueHint};
use stator_cluster::cluster::AnyCluster;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Keep a cluster in sync with git repositories
///
/// With --source-file, the sources are `ModelSource` documents in a file, with the `Secret` documents that they name. stator
/// watches the file: changes take effect at once, and a version with errors is reported and ignored. Without --source-file,
/// the sources are the ModelSource objects of a Kubernetes cluster, and each source's secrets are read from its own
/// namespace.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 stopped on request, or with --once everything is synced and healthy; 1 with --once something is not; 2 bad usage, an invalid file or no cluster; 124 --timeout; 130 interrupted twice."
)]
pub struct ControllerArgs {
    /// File of sources and their secrets; without it, follow the ModelSource objects of the cluster
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    source_file: Option<PathBuf>,
    #[command(flatten)]
    listen: ListenArgs,
    /// Folder for copies of the repositories; by default .stator/controller, next to the file if there is one
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    data: Option<PathBuf>,
    /// Sync each source of the file once, wait for it, and exit
    #[arg(long)]
    once: bool,
    /// Whether to receive webhooks; false if a `stator server` receives them
    #[arg(long, value_name = "BOOL", default_value = "true", action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    webhooks: bool,
    /// Log format on standard error
    #[arg(long, env = "STATOR_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    #[command(flatten)]
    objects: objects::SourceObjectArgs,
    #[command(flatten)]
    policies: PolicyArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    frontends: FrontendArgs,
    #[command(flatten)]
    simulate: SimulateArgs,
    #[command(flatten)]
    web: WebArgs,
    #[command(flatten)]
    sign_in: SignInArgs,
}

/// The forms of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Readable lines
    Text,
    /// One JSON object per line
    Json,
}

/// Where a process listens.
#[derive(Clone, Debug, Args)]
pub(super) struct ListenArgs {
    /// Address to listen on for webhooks, probes and metrics; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Separate address for probes; --listen then serves no probes
    #[arg(long, value_name = "ADDRESS")]
    probes_listen: Option<SocketAddr>,
    /// Separate address for metrics and probes; --listen then serves no metrics, and its /readyz names no source
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<SocketAddr>,
    /// Serve metrics only to bearer tokens that may `get` the path /metrics (TokenReview and SubjectAccessReview); needs sources of a cluster
    #[arg(long)]
    pub(super) authorize_metrics: bool,
    /// TLS certificate for --listen, in PEM; reloaded when it changes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl ListenArgs {
    pub(super) fn options(&self, webhooks: bool) -> ListenOptions {
        let files = self.tls_cert.clone().zip(self.tls_key.clone());
        ListenOptions {
            main: self.listen,
            probes: self.probes_listen,
            metrics: self.metrics_listen,
            webhooks,
            certificate: files.map(|(certificate, key)| CertificateFiles { certificate, key }),
        }
    }
}

pub async fn run(arguments: &ControllerArgs, output: &Output) -> Result<ExitStatus, CliError> {
    match &arguments.source_file {
        Some(source) => file::run(arguments, source, output).await,
        None => objects::run(arguments, output).await,
    }
}

/// `folder` is where `.stator` is, unless `--data` says otherwise.
fn controller_options(arguments: &ControllerArgs, cluster: AnyCluster, folder: &Path) -> ControllerOptions {
    ControllerOptions {
        policies: arguments.policies.policies.clone(),
        implied_cluster: connect::implied_cluster(&arguments.cluster, &cluster),
        cluster: arguments.frontends.apply(&cluster),
        data_dir: arguments.data.clone().unwrap_or_else(|| folder.join(".stator").join("controller")),
        once: arguments.once,
        observations: None,
        pages: None,
    }
}

impl From<DaemonStartError> for CliError {
    fn from(error: DaemonStartError) -> Self {
        let message = error.to_string();
        match error {
            DaemonStartError::DataFolder(error) => error.into(),
            DaemonStartError::Listen(BindError::Main(_)) => {
                Self::input(message).with_hint("name another address with --listen")
            }
            DaemonStartError::Listen(BindError::Probes(_)) => {
                Self::input(message).with_hint("name another address with --probes-listen")
            }
            DaemonStartError::Listen(BindError::Certificate(_)) => {
                Self::input(message).with_hint("name a certificate and its key with --tls-cert and --tls-key")
            }
            DaemonStartError::Listen(BindError::Metrics(_)) => {
                Self::input(message).with_hint("name another address with --metrics-listen")
            }
        }
    }
}

/// Says where the process listens, and what it does there.
pub(super) fn print_addresses(addresses: ListenAddresses, purpose: &str, output: &Output) {
    let scheme = if addresses.is_tls { "https" } else { "http" };
    output.note(&format!("Listening on {scheme}://{}, {purpose}.", addresses.main));
    if let Some(probes) = addresses.probes {
        output.note(&format!("Probes are at http://{probes}/livez and /readyz."));
    }
    if let Some(metrics) = addresses.metrics {
        output.note(&format!("Metrics are at http://{metrics}/metrics."));
    }
}

/// How long what is under way may take to end where somebody waits for that: with what follows, less than the ten seconds
/// that a stop takes at most. Leases are not handed over then, and run out: something may still be written.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a daemon is to end.
enum ShutdownReason {
    /// Nothing is left to do.
    Completed { is_success: bool },
    /// Asked to end.
    Requested,
    /// Timed out.
    Timeout,
}

/// Runs a daemon until it is through, is asked to end or the time is up. Then what is under way is finished, unless it is
/// asked once more.
pub(super) async fn run_daemon(
    mut daemon: impl Daemon,
    timeout: Option<Duration>,
    output: &Output,
) -> Result<ExitStatus, CliError> {
    let registry = daemon.registry();
    let reason = tokio::select! {
        is_success = daemon.run() => ShutdownReason::Completed { is_success },
        () = wait_for_interrupt() => ShutdownReason::Requested,
        () = sleep_for_some(timeout) => ShutdownReason::Timeout,
    };
    if matches!(reason, ShutdownReason::Requested) {
        output.note("Shutting down: work in progress is finished first. Repeat to stop at once.");
    }
    tokio::select! {
        () = daemon.shut_down() => {}
        () = sleep_for_some(matches!(reason, ShutdownReason::Requested).then_some(SHUTDOWN_TIMEOUT)) => {
            output.warn("Not everything ended in time: the next start completes the rest.");
        }
        () = wait_for_interrupt() => {
            return Err(CliError::new(CliErrorKind::Interrupted, "interrupted")
                .with_hint("the next start completes the rest"));
        }
    }
    Ok(match reason {
        ShutdownReason::Completed { is_success: true } | ShutdownReason::Requested => ExitStatus::Success,
        ShutdownReason::Completed { is_success: false } => {
            for (source, state) in registry.states() {
                if let Some(problem) = state.problem() {
                    output.warn(&format!("{source}: {problem}"));
                }
            }
            ExitStatus::Negative
        }
        ShutdownReason::Timeout => {
            output.warn("Timed out.");
            ExitStatus::Timeout
        }
    })
}
