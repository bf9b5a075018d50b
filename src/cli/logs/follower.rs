//! Following the output of pods that come, restart and go.

use super::LogStart;
use crate::cli::error::CliError;
use crate::cli::output::Output;
use stator_cluster::cluster::ClusterError;
use stator_cluster::cluster::kube::{KubeCluster, LogLine, LogRequest, LogSource, PodSelection};
use stator_cluster::random::random_bits;
use stator_core::retry::{Backoff, jittered};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// How often pods are looked for.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// Lines that wait to be printed: whoever reads slowly slows the reading.
const MAX_WAITING_LINES: usize = 1024;
/// Output without a line for so long is opened again, as a connection may be dead without a word.
const SILENCE_LIMIT: Duration = Duration::from_secs(600);

/// The longest before output is opened again that could not be read.
const MAX_REOPEN_DELAY: Duration = Duration::from_secs(30);

/// The uid of a pod, and the name of its container.
type ContainerKey = (String, String);

/// Where following a container stands.
#[derive(Debug)]
struct FollowState {
    /// Whether a task reads it.
    is_reading: bool,
    /// The part that was asked for first, which is asked for again while nothing of it came.
    first: LogStart,
    /// The restarts that there had been when it was opened last.
    restarts: u64,
    /// The time of the last line.
    last: Option<jiff::Timestamp>,
    /// How it is opened again after a failure.
    reopening: Backoff,
    /// Not before this moment.
    not_before: Instant,
    /// Whether the last reading failed, and did not just end.
    has_failed: bool,
}

/// What a task says.
enum FollowEvent {
    Line(ContainerKey, LogLine),
    Ended(ContainerKey, Result<(), ClusterError>),
}

/// Prints what the containers write, and those that come later, until a print fails.
///
/// # Errors
/// When printing fails, when pods cannot be listed for good, or when their output may not be read.
pub async fn follow(
    cluster: &KubeCluster,
    pods: &PodSelection,
    first: Vec<LogSource>,
    start: LogStart,
    print: impl Fn(&LogSource, &LogLine) -> Result<(), CliError>,
    output: &Output,
) -> Result<Infallible, CliError> {
    let (queue, mut events) = mpsc::channel(MAX_WAITING_LINES);
    let mut followed: BTreeMap<ContainerKey, (LogSource, FollowState)> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    let mut is_first = true;
    let mut has_warned = false;
    let mut found = Some(first);
    loop {
        let sources = found.take();
        if let Some(sources) = sources {
            if sources.len() > pods.limit && !has_warned {
                output.warn(&format!("only the first {} of {} containers are followed", pods.limit, sources.len()));
                has_warned = true;
            }
            // What is gone is forgotten, and its task ends with its output.
            let there: BTreeSet<ContainerKey> = sources.iter().map(key_of).collect();
            followed.retain(|key, (_, state)| state.is_reading || there.contains(key));
            // Containers that are there from the beginning are read from the lines that were asked for, others whole.
            let whole = LogStart { tail: None, ..start };
            let beginning = if is_first { start } else { whole };
            is_first = false;
            for source in sources.into_iter().take(pods.limit) {
                let key = key_of(&source);
                let request = match followed.get(&key) {
                    None if source.container.has_started => beginning.request(&source, true),
                    Some((_, state)) if state.is_due(&source) => state.reopened(&source, whole).request(&source, true),
                    None | Some(_) => continue,
                };
                let restarts = source.container.restarts;
                let (_, state) = followed.entry(key.clone()).or_insert_with(|| (source, FollowState::new(beginning)));
                (state.is_reading, state.restarts, state.has_failed) = (true, restarts, false);
                tasks.spawn(read_log(cluster.clone(), request, key, state.last, queue.clone()));
            }
        }
        let next_look = tokio::time::sleep(jittered(LOOK_INTERVAL, random_bits()));
        tokio::pin!(next_look);
        loop {
            tokio::select! {
                Some(event) = events.recv() => handle_event(event, &mut followed, &print)?,
                () = &mut next_look => break,
            }
        }
        while tasks.try_join_next().is_some() {}
        found = match pods.find(cluster).await {
            Ok(sources) => Some(sources),
            Err(error) if error.retry_delay().is_some() => {
                tracing::info!(%error, "pods are looked for again");
                None
            }
            Err(error) => return Err(error.into()),
        };
    }
}

fn key_of(source: &LogSource) -> ContainerKey {
    (source.container.uid.clone(), source.container.name.clone())
}

fn handle_event(
    event: FollowEvent,
    followed: &mut BTreeMap<ContainerKey, (LogSource, FollowState)>,
    print: impl Fn(&LogSource, &LogLine) -> Result<(), CliError>,
) -> Result<(), CliError> {
    match event {
        FollowEvent::Line(key, line) => {
            let Some((source, state)) = followed.get_mut(&key) else { return Ok(()) };
            state.last = line.time.or(state.last);
            state.reopening.reset();
            print(source, &line)
        }
        FollowEvent::Ended(key, ended) => {
            let Some((source, state)) = followed.get_mut(&key) else { return Ok(()) };
            state.is_reading = false;
            match ended {
                Ok(()) => Ok(()),
                Err(error @ ClusterError::Forbidden { .. }) => Err(error.into()),
                Err(error) => {
                    tracing::info!(pod = %source.container.pod, %error, "the log is opened again");
                    state.has_failed = true;
                    state.not_before = Instant::now() + state.reopening.next_delay();
                    Ok(())
                }
            }
        }
    }
}

impl FollowState {
    fn new(first: LogStart) -> Self {
        Self {
            is_reading: false,
            first,
            restarts: 0,
            last: None,
            reopening: Backoff::new(LOOK_INTERVAL, MAX_REOPEN_DELAY, random_bits()),
            not_before: Instant::now(),
            has_failed: false,
        }
    }

    /// The part that is asked for when it is opened again. Without a line so far that is the first one, as the whole would
    /// show what nobody asked for; a restarted container writes anew, of which everything is shown.
    fn reopened(&self, source: &LogSource, whole: LogStart) -> LogStart {
        match self.last {
            Some(last) => LogStart { since: Some(last), ..whole },
            None if source.container.restarts == self.restarts => self.first,
            None => whole,
        }
    }

    /// Whether the output is to be opened again: the container was restarted, it still runs, or reading it failed.
    fn is_due(&self, source: &LogSource) -> bool {
        let has_more = source.container.restarts > self.restarts || source.container.is_running || self.has_failed;
        !self.is_reading && has_more && Instant::now() >= self.not_before
    }
}

/// Hands out the lines of one container that are newer than the last one.
async fn read_log(
    cluster: KubeCluster,
    request: LogRequest,
    key: ContainerKey,
    mut last: Option<jiff::Timestamp>,
    queue: mpsc::Sender<FollowEvent>,
) {
    let read = async {
        let mut log = cluster.open_log(&request).await?;
        // Silence may be a connection that died without a word.
        while let Ok(next) = tokio::time::timeout(SILENCE_LIMIT, log.next_line()).await {
            let Some(line) = next? else { break };
            // The server counts in whole seconds, so that the last lines come again.
            if line.time.is_some_and(|time| last.is_some_and(|last| time <= last)) {
                continue;
            }
            last = line.time.or(last);
            if queue.send(FollowEvent::Line(key.clone(), line)).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    let ended = read.await;
    let _ = queue.send(FollowEvent::Ended(key, ended)).await;
}
