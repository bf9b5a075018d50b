//! One source at work: one half looks at the repository, the other brings the cluster to the newest commit.
//!
//! The state that counts is outside: what git says, and what the cluster holds. A unit may be dropped and started anew at
//! any time, and ends where an undisturbed one would have.

mod attempt;
mod follow;
mod judge;
mod previews;

use super::backoff::Backoff;
use super::board::{Phase, Standing};
use super::file::Source;
use super::git::Git;
use super::hints::Hints;
use super::metrics::Metrics;
use super::report::Report;
use super::sentinel::Sighting;
use super::verdicts::{Stage, Verdict};
use super::windows::{self, Gate};
use crate::cluster::AnyCluster;
use crate::dynamo::kinds;
use crate::intent::Workspace;
use crate::object::Object;
use crate::source::signature::SignatureError;
pub(super) use attempt::seed;
use attempt::{Attempt, Memory};
use futures_util::FutureExt as _;
use jiff::Timestamp;
use judge::Next;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Pauses between tries of a sync that failed, and between repairs of drift that comes back.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(600);
/// How long changes of live objects are gathered before they are looked at: one hand makes several.
const DEBOUNCE: Duration = Duration::from_millis(300);
/// After this long without drift, the next is repaired at once again.
const QUIET: Duration = Duration::from_secs(600);
/// How often is looked for drift where live objects cannot be watched.
const BLIND: Duration = Duration::from_secs(120);
/// How long the last statuses are waited for at the end.
const FAREWELL: Duration = Duration::from_secs(10);

/// The environment's name in statuses where neither the source nor the repository tells it.
const UNNAMED: &str = "default";

/// A commit that is to be synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// In full.
    commit: String,
    /// What the same ref led to before, by an earlier process perhaps.
    previous: Option<String>,
    /// Why it may not be rendered: its signature.
    unsigned: Option<SignatureError>,
}

impl Head {
    fn short(&self) -> &str {
        self.commit.get(..7).unwrap_or(&self.commit)
    }
}

/// One source, and all that it works with.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) source: Arc<Source>,
    pub(super) git: Git,
    pub(super) cluster: AnyCluster,
    /// What cluster this is, where nobody said which one to use: an environment that asks for another one is refused.
    pub(super) implied: Option<String>,
    pub(super) hints: Arc<Hints>,
    pub(super) standing: watch::Sender<Standing>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) ending: CancellationToken,
    /// Whether it takes the place of one whose source was written anew: the newest commit is taken up again then.
    pub(super) anew: bool,
}

/// How a unit that ran once ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// As git says, and healthy.
    Well,
    /// Not so.
    NotWell,
    /// It was told to end.
    Told,
}

impl Unit {
    /// Works until it is told to end; with `once`, until the newest commit has had its verdict.
    pub(super) async fn run(&self, mut report: Report, once: bool) -> Ended {
        let (heads, newest) = watch::channel(None);
        let previews = (!once).then(|| self.preview(&report, newest.clone()));
        let wanted = report.wanted();
        let ended = {
            let mut follow = self.follow(&heads, &wanted, once).boxed();
            let mut work = self.work(newest, &mut report, once).boxed();
            tokio::select! {
                ended = &mut work => ended,
                () = &mut follow => {
                    if once && heads.borrow().is_none() { Ended::NotWell } else { work.await }
                }
            }
        };
        if let Some(previews) = previews {
            previews.ended(FAREWELL).await;
        }
        report.settled(FAREWELL).await;
        ended
    }

    async fn work(&self, mut heads: watch::Receiver<Option<Head>>, report: &mut Report, once: bool) -> Ended {
        let mut memory = Memory::default();
        let mut retries = Backoff::new(FIRST, LONGEST);
        let mut repairs = Backoff::new(FIRST, LONGEST);
        let mut repaired = Instant::now();
        let mut current: Option<String> = None;
        let mut was_closed = false;
        loop {
            let Some(head) = self.newest(&mut heads).await else { return Ended::Told };
            if current.as_ref() != Some(&head.commit) {
                let first = current.is_none();
                report.seen(&head.commit, head.previous.as_deref(), first).await;
                if first && self.anew {
                    report.reopened(&head.commit);
                }
                was_closed = false;
                current = Some(head.commit.clone());
                retries.reset();
                repairs.reset();
            }
            if let Some(error) = &head.unsigned {
                self.refused(&head, report, error).boxed().await;
                if once {
                    return Ended::NotWell;
                }
                self.change(&head, &mut heads, None).await;
                continue;
            }
            if let Some(closed) = self.closed(&head, report) {
                if once {
                    return Ended::NotWell;
                }
                was_closed = true;
                self.change(&head, &mut heads, closed).await;
                continue;
            }
            if std::mem::take(&mut was_closed) {
                report.reopened(&head.commit);
            }
            let (next, well) = match self.attempt(&head, &heads, report, &mut memory).boxed().await {
                Attempt::Cancelled if self.ending.is_cancelled() => return Ended::Told,
                Attempt::Lost => {
                    self.change(&head, &mut heads, Some(repairs.pause())).await;
                    continue;
                }
                Attempt::Cancelled => continue,
                Attempt::Done { next, well } => (next, well),
            };
            if once && next != Next::Settle {
                return if well { Ended::Well } else { Ended::NotWell };
            }
            match next {
                Next::Settle => {
                    retries.reset();
                    // A cluster that changes what it is told would be told for ever.
                    let pause = if repairs.tries() == 0 { Duration::ZERO } else { repairs.pause() };
                    let _ = repairs.pause();
                    if !pause.is_zero() {
                        self.change(&head, &mut heads, Some(pause)).await;
                    }
                }
                Next::Retry => {
                    self.phase(Phase::Retrying);
                    self.change(&head, &mut heads, Some(retries.pause())).await;
                }
                Next::Await { health } => {
                    self.phase(Phase::Idle);
                    retries.reset();
                    if repaired.elapsed() > QUIET {
                        repairs.reset();
                    }
                    let drifted = self.drifted(&head, &mut heads, &mut memory, health, &mut repairs).boxed();
                    if drifted.await {
                        repaired = Instant::now();
                    }
                }
            }
        }
    }

    /// The newest commit, once there is one.
    async fn newest(&self, heads: &mut watch::Receiver<Option<Head>>) -> Option<Head> {
        tokio::select! {
            biased;
            () = self.ending.cancelled() => None,
            head = heads.wait_for(Option::is_some) => head.ok().and_then(|head| head.clone()),
        }
    }

    fn phase(&self, phase: Phase) {
        self.standing.send_modify(|standing| standing.phase = phase);
    }

    async fn refused(&self, head: &Head, report: &mut Report, error: &SignatureError) {
        let problem = format!("signature refused: {error}; {}", error.help());
        tracing::warn!(source = self.source.name, revision = head.short(), "{problem}");
        if !report.is_named() {
            report.named(&self.environment_at(&head.commit).await).await;
        }
        report.ended(&head.commit, Verdict::Unsigned { message: error.to_string() });
        self.standing.send_modify(|standing| {
            standing.problem = Some(problem);
            standing.phase = Phase::Idle;
        });
    }

    /// The only environment of a commit that is not to be rendered: its name is all that is taken from there.
    async fn environment_at(&self, commit: &str) -> String {
        let (commit, folder) = (commit.to_owned(), self.source.folder.clone());
        let read = self.git.with(move |mirror| mirror.tree(&commit, &folder)).await;
        let named = tokio::task::spawn_blocking(move || {
            let mut tree = read.ok()?;
            tree.files.retain(|file| file.path == "stator.yaml");
            Workspace::parse(&tree).environment(None).ok().map(|selection| selection.name)
        });
        named.await.ok().flatten().unwrap_or_else(|| UNNAMED.to_owned())
    }

    /// Whether no sync may run now, and how long to wait; for ever when there is nothing to wait for.
    fn closed(&self, head: &Head, report: &mut Report) -> Option<Option<Duration>> {
        if self.source.spec.suspend {
            self.phase(Phase::Suspended);
            report.progress(&head.commit, Stage::Suspended);
            return Some(None);
        }
        let now = Timestamp::now();
        match windows::gate(&self.source.windows, now) {
            Gate::Open => None,
            Gate::Closed(opens) => {
                self.phase(Phase::Window);
                report.progress(&head.commit, Stage::Window { opens: opens.map(|at| at.to_string()) });
                let wait = opens.and_then(|at| Duration::try_from(at.duration_since(now)).ok());
                tracing::info!(source = self.source.name, opens = ?opens.map(|at| at.to_string()), "no window is open");
                Some(wait)
            }
        }
    }

    /// Waits for a newer commit, for the end, or for a while.
    async fn change(&self, head: &Head, heads: &mut watch::Receiver<Option<Head>>, pause: Option<Duration>) {
        let pause = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.ending.cancelled() => {}
            _ = heads.wait_for(|now| now.as_ref().is_some_and(|now| now != head)) => {}
            () = pause => {}
        }
    }

    /// Waits for a newer commit, for the end, or for live objects that are not as they should be. True for the last.
    async fn drifted(
        &self,
        head: &Head,
        heads: &mut watch::Receiver<Option<Head>>,
        memory: &mut Memory,
        health: bool,
        repairs: &mut Backoff,
    ) -> bool {
        let labels = memory.labels.clone();
        let ours = |object: &Object| is_ours(object, labels.as_ref());
        let blind = !memory.sentinel.is_open();
        let sight = async {
            loop {
                match memory.sentinel.wait(&ours).await {
                    Sighting::Status if !health => {}
                    sighting @ (Sighting::Drift | Sighting::Status | Sighting::Lost) => break sighting,
                }
            }
        };
        let sight = async {
            if blind {
                // Without a watch, looking again from time to time is all that is left.
                tokio::time::sleep(BLIND).await;
                return Sighting::Lost;
            }
            sight.await
        };
        let sighting = tokio::select! {
            () = self.ending.cancelled() => return false,
            _ = heads.wait_for(|now| now.as_ref().is_some_and(|now| now != head)) => return false,
            sighting = sight => sighting,
        };
        match sighting {
            Sighting::Drift => {
                tracing::info!(source = self.source.name, revision = head.short(), "live objects were changed");
            }
            Sighting::Status => memory.look_closely(),
            Sighting::Lost => {}
        }
        let pause = if repairs.tries() == 0 { DEBOUNCE } else { DEBOUNCE.max(repairs.pause()) };
        let _ = repairs.pause();
        self.change(head, heads, Some(pause)).await;
        true
    }
}

/// Whether an object has the labels of this repository and environment.
fn is_ours(object: &Object, labels: Option<&(String, String)>) -> bool {
    let found = object.labels();
    labels.is_some_and(|(repository, environment)| {
        found.get(kinds::LABEL_MANAGED_BY) == Some(&kinds::MANAGER)
            && found.get(kinds::LABEL_REPOSITORY) == Some(&repository.as_str())
            && found.get(kinds::LABEL_ENVIRONMENT) == Some(&environment.as_str())
    })
}
