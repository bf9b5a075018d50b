//! One source at work: one half looks at the repository, the other brings the cluster to the newest commit.
//!
//! The state that counts is outside: what git says, and what the cluster holds. A unit may be dropped and started anew at
//! any time, and ends where an undisturbed one would have.
//!
//! Nothing is waited for without an end:
//!
//! | What is waited for | At most |
//! |-|-|
//! | the mirror: listing, fetching, reading (`git`) | 20 minutes, the wait for its turn included; each conversation 5 |
//! | what the git host shows of a commit after a start (`report`, `past`) | 20 seconds |
//! | what the cluster has installed, and what is live (`attempt`) | 1 and 5 minutes; each request 10 to 60 seconds |
//! | a sync (`sync`) | `spec.timeout`; 30 minutes without progress of a model; each request 30 seconds |
//! | a look that a request asks for (`asked`) | that of the mirror |
//! | the last statuses at the end | 10 seconds |
//!
//! What waits for something to change (a commit, a request, drift, a window) ends when the process does.

mod aside;
mod asked;
mod attempt;
mod follow;
mod gate;
mod judge;
mod keep;
mod measure;
mod past;
mod previews;
mod progress;
mod ready;
mod stand;
mod wait;

use super::backoff::Backoff;
use super::cache::CachedCluster;
use super::metrics::Metrics;
use super::mirror_handle::MirrorHandle;
use crate::controller::cache::drift_detector::DriftSignal;
use crate::controller::report::commit_reporter::{CommitReporter, InitialStatus};
use crate::controller::sources::file::ResolvedSource;
use crate::controller::sources::hints::SourceHints;
use crate::controller::sources::manual_requests::ManualRequests;
use crate::controller::sources::registry::{SourcePhase, SourceRegistry, SourceState};
use crate::controller::sources::sync_windows::SyncWindowState;
use crate::telemetry::traces::TraceContext;
pub(super) use attempt::seed;
use attempt::{Attempt, Memory, Pass};
use futures_util::FutureExt as _;
use gate::Leave;
use jiff::Timestamp;
use judge::Next;
use keep::Unspoken;
pub(super) use measure::Place;
use stand::Posted;
use stator_cluster::cluster::kube::Fence;
use stator_core::dynamo::kinds;
use stator_core::object::Object;
use stator_git::source::signature::SignatureError;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wait::Ears;

/// Pauses between tries of a sync that failed, and between repairs of drift that comes back.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(600);
/// After this long without drift, the next is repaired at once again.
const QUIET: Duration = Duration::from_secs(600);
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
    /// What the commit was made on top of: another replica may have begun with that one.
    parent: Option<String>,
    /// Why it may not be rendered: its signature.
    unsigned: Option<SignatureError>,
    /// When it began, as it is measured.
    began: Timestamp,
    /// Whether it was pushed while somebody looked: then it is measured how long it takes.
    fresh: bool,
    /// The look that found it.
    origin: TraceContext,
}

impl Head {
    fn short(&self) -> &str {
        self.commit.get(..7).unwrap_or(&self.commit)
    }
}

/// One source, and all that it works with.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) source: Arc<ResolvedSource>,
    pub(super) git: MirrorHandle,
    pub(super) cluster: CachedCluster,
    /// What the writes ask; nothing where this works alone.
    pub(super) fence: Option<Fence>,
    /// What cluster this is, where nobody said which one to use: an environment that asks for another one is refused.
    pub(super) implied: Option<String>,
    pub(super) hints: Arc<SourceHints>,
    /// Who hears what is news.
    pub(super) board: Arc<SourceRegistry>,
    /// Whether the source is an object of a cluster, which people annotate.
    pub(super) in_cluster: bool,
    /// What people ask of the source.
    pub(super) requests: watch::Receiver<ManualRequests>,
    pub(super) standing: watch::Sender<SourceState>,
    pub(super) metrics: Arc<Metrics>,
    /// Where its spans belong now.
    pub(super) place: Place,
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
    pub(super) async fn run(&self, mut report: CommitReporter, once: bool) -> Ended {
        let (heads, newest) = watch::channel(None);
        let previews = (!once).then(|| self.preview(&report, newest.clone()));
        let wanted = report.desired_statuses();
        let ended = {
            let (looks, looked) = watch::channel(None);
            let posted = Posted::of(&report);
            let mut follow = self.follow(&heads, &looks, &wanted, once).boxed();
            let mut work = self.work(newest, looked, &mut report, once).boxed();
            let telling = self.tell_statuses(&posted);
            let back = async {
                self.look_back(heads.subscribe(), &wanted).await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                ended = &mut work => ended,
                () = telling => Ended::Told,
                () = back, if !once => Ended::Told,
                () = &mut follow => {
                    if once && heads.borrow().is_none() { Ended::NotWell } else { work.await }
                }
            }
        };
        if let Some(previews) = previews {
            previews.ended(FAREWELL).await;
        }
        // Where the host was never asked for the newest commit, there is nothing to look back from.
        let is_open = once && wanted.initial_status() == Some(InitialStatus::Unconcluded);
        if is_open && tokio::time::timeout(FAREWELL, self.look_back(heads.subscribe(), &wanted)).await.is_err() {
            tracing::warn!(source = %self.source.key, "not all older commits were asked for in time; the next start does");
        }
        report.wait_until_posted(FAREWELL).await;
        ended
    }

    async fn work(
        &self,
        heads: watch::Receiver<Option<Head>>,
        mut looked: watch::Receiver<Option<String>>,
        report: &mut CommitReporter,
        once: bool,
    ) -> Ended {
        let mut ears = Ears { heads, requests: self.requests.clone() };
        let mut memory = Memory::default();
        let mut retries = Backoff::new(FIRST, LONGEST);
        let mut repairs = Backoff::new(FIRST, LONGEST);
        let mut repaired = Instant::now();
        // Whether live objects of this commit were put back: drift that comes again is put back at growing pauses, and what a
        // commit itself took to settle is no such thing.
        let mut mended = false;
        let mut current: Option<String> = None;
        let mut was_closed = false;
        // Whether the commit is one that no sync has taken up yet, in this process or an earlier one.
        let mut fresh = false;
        // Whether the last attempt wrote something, and the next sees what came of it.
        let mut settling = false;
        loop {
            let asked = ears.requests.borrow_and_update().clone();
            let at = self.pending(&asked);
            if let Some(at) = &at {
                if !self.looked_after(at, &mut looked, &mut ears.requests).await {
                    continue;
                }
                if ears.heads.borrow().is_none() {
                    self.answer(Some(at), &asked, None);
                }
                memory.look_closely();
                memory.judged = None;
                retries.reset();
                repairs.reset();
            }
            let Some(head) = self.newest(&mut ears).await else {
                if self.ending.is_cancelled() {
                    return Ended::Told;
                }
                continue;
            };
            if current.as_ref() != Some(&head.commit) {
                let first = current.is_none();
                report.report_commit(&head.commit, &self.before(&head), first).await;
                if first && self.anew {
                    report.reopen_commit(&head.commit);
                }
                fresh = !(first && self.is_old(&head));
                was_closed = false;
                mended = false;
                current = Some(head.commit.clone());
                retries.reset();
                repairs.reset();
            }
            if self.source.spec.suspend {
                self.suspended(&head, report);
                self.answer(at.as_ref(), &asked, Some(&head));
                if once {
                    return Ended::NotWell;
                }
                self.change(&head, &mut ears, None).await;
                continue;
            }
            if let Some(error) = &head.unsigned {
                self.refused(&head, report, error).boxed().await;
                self.answer(at.as_ref(), &asked, Some(&head));
                if once {
                    return Ended::NotWell;
                }
                memory.unspoken = Some(Unspoken::All);
                self.keeping(&head, &memory);
                let drifted = self.drifted(&head, &mut ears, &mut memory, false, &mut repairs).boxed();
                if drifted.await.is_some() && self.gate(Timestamp::now()).await == SyncWindowState::Open {
                    self.keep(&head, &ears, &mut memory).boxed().await;
                }
                continue;
            }
            if let Leave::Closed(wait) = self.leave(&head, &asked, settling, report).await {
                self.answer(at.as_ref(), &asked, Some(&head));
                if once {
                    return Ended::NotWell;
                }
                was_closed = true;
                self.change(&head, &mut ears, wait).await;
                continue;
            }
            if std::mem::take(&mut was_closed) {
                report.reopen_commit(&head.commit);
            }
            if asked.allow.as_ref().is_some_and(|approval| !approval.approved_kinds(&head.commit).is_empty())
                && self.standing.borrow().hold.as_ref().is_some_and(|held| held.revision == head.commit)
            {
                report.reopen_commit(&head.commit);
            }
            let pass = Pass {
                allow: asked.allow.as_ref().map(|approval| approval.approved_kinds(&head.commit)).unwrap_or_default(),
                heal: fresh || at.is_some() || self.heals(),
            };
            let attempt = self.attempt(&head, pass, &ears.heads, report, &mut memory).boxed();
            let (next, well) = match attempt.await {
                Attempt::Cancelled if self.ending.is_cancelled() || self.is_fenced_off() => return Ended::Told,
                Attempt::Lost => {
                    self.change(&head, &mut ears, Some(repairs.next_pause())).await;
                    continue;
                }
                Attempt::Cancelled => continue,
                Attempt::Done { next, well } => (next, well),
            };
            self.answer(at.as_ref(), &asked, Some(&head));
            self.keeping(&head, &memory);
            settling = next == Next::Settle;
            if once && next != Next::Settle {
                return if well { Ended::Well } else { Ended::NotWell };
            }
            match next {
                Next::Settle => {
                    fresh = false;
                    retries.reset();
                    // A cluster that changes what it is told would be told for ever.
                    let pause = if repairs.attempts() == 0 { Duration::ZERO } else { repairs.next_pause() };
                    let _ = repairs.next_pause();
                    if !pause.is_zero() {
                        self.change(&head, &mut ears, Some(pause)).await;
                    }
                }
                Next::Retry => {
                    self.phase(SourcePhase::Retrying);
                    self.change(&head, &mut ears, Some(retries.next_pause())).await;
                }
                Next::Await { health } => {
                    fresh = false;
                    self.phase(SourcePhase::Idle);
                    retries.reset();
                    if !mended || repaired.elapsed() > QUIET {
                        repairs.reset();
                        mended = false;
                    }
                    let drifted = self.drifted(&head, &mut ears, &mut memory, health, &mut repairs).boxed();
                    if let Some(sighting) = drifted.await {
                        if sighting != DriftSignal::Status {
                            mended = true;
                            repaired = Instant::now();
                        }
                        self.keep(&head, &ears, &mut memory).boxed().await;
                    }
                }
            }
        }
    }

    /// Whether another replica may be at work on this source by now: nothing that is found here counts any more.
    fn is_fenced_off(&self) -> bool {
        self.fence.as_ref().is_some_and(|fence| !fence.is_valid())
    }

    /// The commits that an earlier process, or another replica, may have said something of: what the mirror last had, what
    /// the source's status names, and what the newest one was made on top of.
    fn before(&self, head: &Head) -> BTreeSet<String> {
        let recalled = self.standing.borrow().previous.clone().unwrap_or_default();
        let all = [head.previous.clone(), head.parent.clone(), recalled.seen, recalled.judged_commit];
        all.into_iter().flatten().filter(|commit| *commit != head.commit).collect()
    }

    /// Whether an earlier process has taken the commit up, as far as anybody knows.
    fn is_old(&self, head: &Head) -> bool {
        let standing = self.standing.borrow();
        let recalled = standing.previous.as_ref().and_then(|recalled| recalled.applied.as_ref());
        let before = standing.applied.as_ref().map(|applied| &applied.commit).or(recalled);
        before.or(head.previous.as_ref()) == Some(&head.commit)
    }

    /// The newest commit, once there is one; none when the process ends, or something is asked for before.
    async fn newest(&self, ears: &mut Ears) -> Option<Head> {
        tokio::select! {
            biased;
            () = self.ending.cancelled() => None,
            head = ears.heads.wait_for(Option::is_some) => head.ok().and_then(|head| head.clone()),
            Ok(()) = ears.requests.changed() => None,
        }
    }
}

/// Whether an object has the labels of this repository and environment.
fn is_ours(object: &Object, labels: Option<&(String, String)>) -> bool {
    let found = object.labels();
    labels.is_some_and(|(repository, environment)| {
        found.get(kinds::LABEL_MANAGED_BY) == Some(&kinds::FIELD_MANAGER)
            && found.get(kinds::LABEL_REPOSITORY) == Some(&repository.as_str())
            && found.get(kinds::LABEL_ENVIRONMENT) == Some(&environment.as_str())
    })
}
