//! `stator logs`.

mod follower;

use super::args::{ClusterArgs, EnvironmentArgs, duration, to_yaml};
use super::connect;
use super::error::{CliError, CliErrorKind, ExitStatus};
use super::output::Output;
use super::status::view_environment;
use super::targets::TargetArgs;
use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, ValueEnum};
use serde::Serialize;
use stator_cluster::cluster::AnyCluster;
use stator_cluster::cluster::kube::{KubeCluster, LogLine, LogRequest, LogSource, PodSelection, pod_owners};
use stator_core::dynamo::pod_containers::ContainerSelection;
use stator_model::present::{escape, pluralize};
use std::io::IsTerminal as _;
use std::str::FromStr;
use std::time::Duration;

/// Lines of each container that are shown where several are, and nobody says how many.
const LINES_OF_SEVERAL: u64 = 10;

/// Show the logs of models' pods
///
/// The pods are those of the models' objects. With --follow, new pods are followed too, through restarts and rollouts.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 shown; 1 no container has any logs; 2 the repository or the cluster cannot be read.\n\n\
                  Examples:\n  stator logs chat -c worker -f\n  stator logs chat --previous --tail 50\n  stator logs -l team=search --since 10m -o json"
)]
pub struct LogsArgs {
    #[command(flatten)]
    targets: TargetArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Only pods of this component, such as `worker` or `frontend`; `download` for downloads of weights
    #[arg(short, long, value_name = "NAME")]
    component: Option<String>,
    /// Only this pod
    #[arg(long, value_name = "NAME")]
    pod: Option<String>,
    /// This container instead of the pod's main container
    #[arg(long, value_name = "NAME", conflicts_with = "all_containers")]
    container: Option<String>,
    /// All containers, including init containers
    #[arg(long)]
    all_containers: bool,
    /// Stream new lines until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// Logs of the previous instance of the container, from before its last restart
    #[arg(short, long, conflicts_with = "follow")]
    previous: bool,
    /// Number of most recent lines of each container, or `all`. Default: `all` for one container or with --since, 10 each for several
    #[arg(long, value_name = "LINES")]
    tail: Option<TailLength>,
    /// Only lines newer than this duration: 90s, 5m, 1h30m
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    since: Option<Duration>,
    /// Start each line with its timestamp
    #[arg(long)]
    timestamps: bool,
    /// Start each line with its pod and container. Default: for several containers, and with --follow
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    prefix: Option<bool>,
    /// Maximum number of containers to read
    #[arg(long, value_name = "NUMBER", default_value = "50", value_parser = clap::value_parser!(u16).range(1..))]
    max_containers: u16,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: LogFormat,
}

/// The forms of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// Lines as they were written
    #[value(alias = "table")]
    Text,
    /// One JSON object per line
    Json,
    /// A YAML list, one item per line
    Yaml,
}

/// How many of the last lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TailLength {
    All,
    Lines(u64),
}

impl FromStr for TailLength {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            // As kubectl has it.
            "all" | "-1" => Ok(Self::All),
            number => {
                let lines = number.parse().map_err(|_| format!("`{number}` is neither a number of lines nor `all`"))?;
                Ok(Self::Lines(lines))
            }
        }
    }
}

/// A line as data.
#[derive(Serialize)]
struct LogRecord<'a> {
    model: &'a str,
    pod: &'a str,
    component: Option<&'a str>,
    container: &'a str,
    time: Option<String>,
    message: &'a str,
}

impl<'a> LogRecord<'a> {
    fn of(source: &'a LogSource, line: &'a LogLine) -> Self {
        Self {
            model: &source.model,
            pod: &source.container.pod.name,
            component: source.component(),
            container: &source.container.name,
            time: line.time.map(|time| time.to_string()),
            message: &line.text,
        }
    }
}

/// How lines are printed.
#[derive(Clone, Copy, Debug)]
struct LinePrinter {
    format: LogFormat,
    with_time: bool,
    with_prefix: bool,
    for_terminal: bool,
}

impl LinePrinter {
    fn format(&self, source: &LogSource, line: &LogLine) -> Result<String, CliError> {
        Ok(match self.format {
            LogFormat::Json => serde_json::to_string(&LogRecord::of(source, line))? + "\n",
            LogFormat::Yaml => to_yaml(&[LogRecord::of(source, line)])?,
            LogFormat::Text => {
                let container = &source.container;
                let time = line.time.map(|time| time.to_string());
                let prefix = self.with_prefix.then(|| format!("[pod/{}/{}] ", container.pod.name, container.name));
                let time = time.filter(|_| self.with_time).map(|time| time + " ");
                let text = if self.for_terminal { harmless(&line.text) } else { line.text.clone() };
                format!("{}{}{text}\n", prefix.unwrap_or_default(), time.unwrap_or_default())
            }
        })
    }
}

/// What a container writes is anybody's: without colours, and with nothing that moves a cursor or hides text.
fn harmless(text: &str) -> String {
    let plain = anstream::adapter::strip_str(text).to_string();
    plain.split('\t').map(escape::line).collect::<Vec<_>>().join("\t")
}

pub async fn run(arguments: &LogsArgs, output: &Output) -> Result<ExitStatus, CliError> {
    connect::with_interrupt(&arguments.cluster, show(arguments, output)).await
}

async fn show(arguments: &LogsArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let view = view_environment(&arguments.targets, &arguments.environment, &arguments.cluster, None, output).await?;
    let AnyCluster::Kubernetes(cluster) = &view.cluster else {
        return Err(CliError::usage("the embedded cluster runs no pods, so there are no logs")
            .with_hint("select a Kubernetes cluster with --context")
            .with_hint("`stator history --events` shows what happened on the embedded one"));
    };
    let pods = PodSelection {
        owners: pod_owners(&view.status.models, &view.status.live),
        component: arguments.component.clone(),
        pod: arguments.pod.clone(),
        containers: match &arguments.container {
            Some(name) => ContainerSelection::Named(name.clone()),
            None if arguments.all_containers => ContainerSelection::All,
            None => ContainerSelection::Default,
        },
        limit: usize::from(arguments.max_containers),
    };
    let sources = pods.find(cluster).await?;
    check_number(&pods, &sources)?;
    let printer = LinePrinter {
        format: arguments.output,
        with_time: arguments.timestamps,
        with_prefix: arguments.prefix.unwrap_or(arguments.follow || sources.len() > 1),
        for_terminal: std::io::stdout().is_terminal(),
    };
    let tail = match arguments.tail {
        Some(TailLength::All) => None,
        Some(TailLength::Lines(lines)) => Some(lines),
        None if arguments.since.is_some() || sources.len() <= 1 => None,
        None => Some(LINES_OF_SEVERAL),
    };
    let since = arguments.since.map(|ago| jiff::Timestamp::now() - ago);
    let start = LogStart { previous: arguments.previous, tail, since };
    if arguments.follow {
        if sources.is_empty() {
            output.note(&format!("{}; waiting for one", nothing_to_read(&pods)));
        }
        let print = |source: &LogSource, line: &LogLine| output.write_result(&printer.format(source, line)?);
        return follower::follow(cluster, &pods, sources, start, print, output).await.map(|never| match never {});
    }
    print_once(cluster, &pods, &sources, start, printer, output).await
}

/// Refuses more containers than the limit.
fn check_number(pods: &PodSelection, found: &[LogSource]) -> Result<(), CliError> {
    if found.len() <= pods.limit {
        return Ok(());
    }
    let message = format!("{} containers are more than --max-containers {}", found.len(), pods.limit);
    Err(CliError::usage(message)
        .with_hint("name fewer models, or select with --component or --pod")
        .with_hint("or raise --max-containers"))
}

/// Which part of the output that exists is shown.
#[derive(Clone, Copy, Debug)]
struct LogStart {
    previous: bool,
    tail: Option<u64>,
    since: Option<jiff::Timestamp>,
}

impl LogStart {
    fn request(self, source: &LogSource, follow: bool) -> LogRequest {
        LogRequest {
            pod: source.container.pod.clone(),
            container: source.container.name.clone(),
            follow,
            previous: self.previous,
            tail: self.tail,
            since: self.since,
        }
    }
}

async fn print_once(
    cluster: &KubeCluster,
    pods: &PodSelection,
    sources: &[LogSource],
    start: LogStart,
    printer: LinePrinter,
    output: &Output,
) -> Result<ExitStatus, CliError> {
    if sources.is_empty() {
        return Err(no_logs(nothing_to_read(pods)));
    }
    let mut read = 0;
    let mut first_error = None;
    for source in sources {
        let container = &source.container;
        let place = format!("pod {}: container {}", container.pod.name, container.name);
        if !container.has_started {
            output.warn(&format!("{place} has not started: {}", container.waits_for));
            continue;
        }
        if start.previous && container.restarts == 0 {
            output.warn(&format!("{place} was never restarted"));
            continue;
        }
        match print_log(cluster, source, start, printer, output).await {
            Ok(()) => read += 1,
            Err(error) if error.kind() == CliErrorKind::BrokenPipe => return Err(error),
            Err(error) => {
                output.warn(&format!("{place}: {error}"));
                first_error.get_or_insert(error);
            }
        }
    }
    match first_error {
        _ if read > 0 => Ok(ExitStatus::Success),
        Some(error) => Err(error),
        None => Err(no_logs("no container has logs yet".to_owned())),
    }
}

async fn print_log(
    cluster: &KubeCluster,
    source: &LogSource,
    start: LogStart,
    printer: LinePrinter,
    output: &Output,
) -> Result<(), CliError> {
    let mut log = cluster.open_log(&start.request(source, false)).await?;
    while let Some(line) = log.next_line().await? {
        output.write_result(&printer.format(source, &line)?)?;
    }
    Ok(())
}

fn nothing_to_read(pods: &PodSelection) -> String {
    let filter = match (&pods.component, &pods.pod) {
        (_, Some(pod)) => format!(" called {}", escape::line(pod)),
        (Some(component), None) => format!(" of component {}", escape::line(component)),
        (None, None) => String::new(),
    };
    format!(
        "{} no pod{filter}",
        match pods.models().as_slice() {
            [] => "the environment has no model with".to_owned(),
            [model] => format!("{model} has"),
            models => format!("{} have", pluralize(models.len(), "model", "models")),
        }
    )
}

fn no_logs(message: String) -> CliError {
    CliError::new(CliErrorKind::Refused, message)
        .with_hint("run `stator describe MODEL` to see why, and `stator tree` to list the pods")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_numbers_or_all() {
        assert_eq!("20".parse(), Ok(TailLength::Lines(20)));
        assert_eq!(("all".parse(), "-1".parse()), (Ok(TailLength::All), Ok(TailLength::All)));
        assert_eq!("-2".parse::<TailLength>(), Err("`-2` is neither a number of lines nor `all`".to_owned()));
    }

    #[test]
    fn nothing_that_a_pod_writes_moves_the_cursor_or_hides() {
        assert_eq!(harmless("\u{1b}[32mINFO\u{1b}[0m\tloaded"), "INFO\tloaded");
        let hostile = harmless("\u{1b}]0;title\u{7}\u{1b}[2Jall is well\r\u{202e}rorre");
        assert!(!hostile.chars().any(|c| c.is_control() || c == '\u{202e}'), "{hostile:?}");
        assert!(hostile.contains("all is well"), "{hostile:?}");
    }
}
