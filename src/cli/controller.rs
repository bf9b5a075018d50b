//! `stator controller`.

use super::args::{ClusterArgs, SimulateArgs};
use super::connect;
use super::error::{CliError, ErrorKind, Exit};
use super::output::Output;
use super::signals::interrupted;
use crate::cluster::AnyCluster;
use crate::controller::file::{self, Source};
use crate::controller::run::{Controller, Place};
use crate::controller::watch::Watch;
use crate::present::{count, findings};
use crate::server::{self, Listener};
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args, ValueEnum, ValueHint};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Keep a cluster as git repositories say: poll, take webhooks, sync, report
///
/// The file holds `ModelSource` documents and the `Secret` documents that they name. It is watched: what is written to
/// it holds at once, and a version with faults is told and passed over.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 ended as asked, or with --once all is synced and healthy; 1 with --once something is not; 2 bad usage, a faulty file or no cluster; 124 --timeout; 130 interrupted twice."
)]
pub struct Arguments {
    /// The file of sources and their secrets
    #[arg(long, env = "STATOR_SOURCE", value_name = "FILE", value_hint = ValueHint::FilePath)]
    source: PathBuf,
    /// Where to listen for webhooks, probes and metrics; port 0 takes any that is free
    #[arg(long, env = "STATOR_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Where copies of repositories are kept; .stator/controller beside the file by default
    #[arg(long, env = "STATOR_DATA", value_name = "DIR", value_hint = ValueHint::DirPath)]
    data: Option<PathBuf>,
    /// Sync each source once, wait for it, and end
    #[arg(long, env = "STATOR_ONCE", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    once: bool,
    /// The form of the log on standard error
    #[arg(long, env = "STATOR_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    simulate: SimulateArgs,
}

/// The forms of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object a line
    Json,
}

/// How the wait for the end ended.
enum End {
    /// All sources are through.
    Through(bool),
    /// Asked to end.
    Asked,
    /// The time is up.
    Timeout,
}

pub async fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CliError> {
    let sources = read(&arguments.source, output)?;
    let folder = arguments.source.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs_err::canonicalize(folder)?;
    let cluster = connect::open(&arguments.cluster, &folder, None, output).await?;
    let _operator = arguments.simulate.start(&cluster)?;
    connect::preflight(&cluster, output).await?;
    let data = arguments.data.clone().unwrap_or_else(|| folder.join(".stator").join("controller"));
    fs_err::create_dir_all(&data)?;
    let listener = if arguments.once {
        None
    } else {
        let failed = |error: server::ListenError| {
            CliError::new(ErrorKind::Input, error.to_string()).hint("name another address with --listen")
        };
        Some(Listener::bind(arguments.listen).await.map_err(failed)?)
    };
    output.note(&greeting(&sources, listener.as_ref()));
    let mut controller = Controller::new(place(arguments, cluster, data));
    let ending = controller.ending();
    let serving = listener.map(|listener| {
        let routes = server::routes(controller.board(), controller.metrics(), ending.clone());
        tokio::spawn(listener.serve(routes, ending.clone()))
    });
    controller.apply(sources).await;
    let end = tokio::select! {
        through = work(arguments, &mut controller, &folder, output) => End::Through(through),
        () = interrupted() => End::Asked,
        () = timeout(arguments.cluster.timeout) => End::Timeout,
    };
    ending.cancel();
    if matches!(end, End::Asked) {
        output.note("Ending: what is under way is finished first. Once more ends at once.");
    }
    let farewell = async {
        controller.ended().await;
        if let Some(serving) = serving {
            let _ = serving.await;
        }
    };
    tokio::select! {
        () = farewell => {}
        () = interrupted() => {
            return Err(CliError::new(ErrorKind::Interrupted, "interrupted").hint("the next start puts right what is left"));
        }
    }
    Ok(match end {
        End::Through(true) | End::Asked => Exit::Success,
        End::Through(false) => {
            for (name, standing) in controller.standings() {
                if let Some(problem) = standing.problem {
                    output.warn(&format!("{name}: {problem}"));
                }
            }
            Exit::No
        }
        End::Timeout => {
            output.warn("The time is up.");
            Exit::Timeout
        }
    })
}

/// Reads the file; its faults are told, with the lines that they are in, and none of what may be secret.
fn read(path: &Path, output: &Output) -> Result<Vec<Source>, CliError> {
    let read = file::open(path).map_err(|error| {
        CliError::input(error.to_string()).hint("`stator schema source` describes what the file holds")
    })?;
    if read.findings.is_empty() {
        return Ok(read.sources);
    }
    output.block(&findings::full(&read.findings, &|_| Some(read.shown.clone()), &output.notes));
    let errors = read.findings.iter().filter(|finding| finding.is_error()).count();
    if errors == 0 {
        return Ok(read.sources);
    }
    Err(CliError::input(format!("{} has {}", path.display(), count(errors, "fault", "faults")))
        .hint("`stator schema source` describes the documents"))
}

fn place(arguments: &Arguments, cluster: AnyCluster, data: PathBuf) -> Place {
    let given = &arguments.cluster;
    let chosen = given.cluster.is_some() || given.context.is_some() || given.kubeconfig.is_some();
    let implied = (!chosen).then(|| crate::cluster::Cluster::describe(&cluster));
    let in_cluster = given.cluster.as_deref() == Some("in-cluster");
    let kube = (!in_cluster && cluster.kubernetes().is_some()).then(|| crate::cluster::kube::Options {
        kubeconfig: given.kubeconfig.clone(),
        context: given.context.clone(),
        ..crate::cluster::kube::Options::default()
    });
    Place { cluster, kube, implied, data, once: arguments.once }
}

fn greeting(sources: &[Source], listener: Option<&Listener>) -> String {
    const SHOWN: usize = 5;
    let mut names: Vec<String> = sources
        .iter()
        .take(SHOWN)
        .map(|source| format!("{} ({} of {})", source.name, source.follows(), source.url))
        .collect();
    if sources.len() > SHOWN {
        names.push(format!("{} more", sources.len() - SHOWN));
    }
    let following = format!("{}: {}", count(sources.len(), "source", "sources"), names.join(", "));
    match listener {
        Some(listener) => format!("Listening on http://{}, following {following}.", listener.address()),
        None => format!("Syncing {following}."),
    }
}

/// With `--once` until all are through; else for ever, reading the file whenever it changes.
async fn work(arguments: &Arguments, controller: &mut Controller, folder: &Path, output: &Output) -> bool {
    if arguments.once {
        return controller.ended().await;
    }
    // The folder and not the file: Kubernetes and editors put a new file in the old one's place.
    let watch = Watch::new(folder, false, |_| true);
    let mut last = fs_err::read(&arguments.source).ok();
    loop {
        watch.changed().await;
        let now = fs_err::read(&arguments.source).ok();
        if now == last {
            continue;
        }
        last = now;
        match read(&arguments.source, output) {
            Ok(sources) => {
                let applied = controller.apply(sources).await;
                controller.metrics().reloaded(true);
                let list =
                    |what: &str, names: &[String]| (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")));
                let told: Vec<String> = [
                    list("started", &applied.started),
                    list("replaced", &applied.replaced),
                    list("ended", &applied.ended),
                ]
                .into_iter()
                .flatten()
                .collect();
                let told = if told.is_empty() { "nothing to change".to_owned() } else { told.join("; ") };
                output.note(&format!("Read {} anew: {told}.", arguments.source.display()));
            }
            Err(error) => {
                controller.metrics().reloaded(false);
                output.error(&error);
                output.warn("The sources go on as they were.");
            }
        }
    }
}

async fn timeout(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}
