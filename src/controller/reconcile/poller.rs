//! Polls the repository: when, and which commit is the newest that may be synced.

use super::commit::{CommitRefusal, PolledCommit};
use super::context::ReconcileContext;
use super::measure::latency_start;
use super::triggers::PollProgress;
use crate::controller::commit_trials::TrialRefusal;
use crate::controller::metrics::{MirrorOperation, PollOutcome};
use crate::controller::mirror_handle::GitError;
use crate::controller::sources::hints::DrainedHints;
use crate::controller::sources::manual_requests::ManualRequests;
use crate::controller::sources::registry::{ProblemReason, ProblemScope, SourceProblem, TimestampedRevision};
use crate::controller::waiting::jittered;
use crate::telemetry::traces::TraceSpan;
use jiff::Timestamp;
use stator_cluster::random::random_bits;
use stator_core::retry::Backoff;
use stator_git::source::mirror::{FetchOutcome, MirrorError, ResolvedRef};
use stator_git::source::model_source::Reference;
use stator_git::source::transport::TransportError;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The first pause after a poll that failed, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// How long hints wait after one that led to nothing new; twice as long each time, until one leads to something. A sender who
/// repeats himself costs a git host a look every few seconds.
const FIRST_HINT_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_HINT_PAUSE: Duration = Duration::from_secs(8);

/// What a poll is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PollCause {
    /// The interval or the schedule.
    Due,
    /// A webhook.
    Hint,
    /// Somebody asks for a sync.
    Request,
}

/// From when on hints lead to a poll.
#[derive(Debug)]
struct HintPause {
    ends: Instant,
    next: Duration,
}

impl HintPause {
    fn none() -> Self {
        Self { ends: Instant::now(), next: FIRST_HINT_PAUSE }
    }

    /// After a poll that was begun for this and led to that.
    fn observe(&mut self, cause: PollCause, found: PollOutcome) {
        match (cause, found) {
            (PollCause::Hint, PollOutcome::Same) => {
                self.ends = Instant::now() + self.next;
                self.next = (self.next * 2).min(LONGEST_HINT_PAUSE);
            }
            (_, PollOutcome::Moved) => *self = Self::none(),
            (PollCause::Due | PollCause::Request, PollOutcome::Same) | (_, PollOutcome::Failed) => {}
        }
    }
}

/// A moment by the wall clock.
fn wall_clock(at: Instant) -> Timestamp {
    let now = Timestamp::now();
    now.checked_add(at.saturating_duration_since(Instant::now())).unwrap_or(now)
}

/// What hears of polls.
pub(super) struct PollerOutput<'a> {
    /// Each commit that is new.
    pub(super) commits: &'a watch::Sender<Option<PolledCommit>>,
    /// Each poll that is over, after its commit.
    pub(super) polls: &'a watch::Sender<PollProgress>,
}

impl ReconcileContext {
    /// Polls the repository for as long as the process lives; with `once`, once.
    pub(super) async fn poll_repository(&self, output: &PollerOutput<'_>, once: bool) {
        self.board.metrics.set_next_poll(&self.source.key, Timestamp::now());
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, random_bits());
        let mut last: Option<ResolvedRef> = None;
        let mut asked = self.requests.clone();
        let (mut cause, mut hint_pause) = (PollCause::Due, HintPause::none());
        loop {
            let before = asked.borrow_and_update().requested_at.clone();
            let due = match self.poll_once(&mut last, output.commits, once || self.is_unanswered(before.as_ref())).await
            {
                Ok(found) => {
                    hint_pause.observe(cause, found);
                    self.board.metrics.record_poll(&self.source.key, found);
                    if self.board.state.borrow().is_ready() {
                        self.board.metrics.record_success(&self.source.key, Timestamp::now());
                    }
                    backoff.reset();
                    let due = self.next_poll();
                    self.board.metrics.set_next_poll(&self.source.key, wall_clock(due));
                    due
                }
                Err(error) => {
                    self.board.metrics.record_poll(&self.source.key, PollOutcome::Failed);
                    let problem = poll_problem(&error);
                    // A host that is down for a day is one line, and not a thousand.
                    if self.board.state.borrow().problems.get(&ProblemScope::Repository) != Some(&problem) {
                        tracing::warn!(source = %self.source.key, "{problem}");
                    }
                    self.board.update_state(|state| {
                        state.set_problem(ProblemScope::Repository, Some(problem));
                        state.failures = state.failures.saturating_add(1);
                    });
                    let asked = error.may_pass().unwrap_or_default();
                    // What cannot pass by itself is looked at when it is due anyway.
                    let pause =
                        if error.may_pass().is_some() { backoff.next_delay().max(asked) } else { LONGEST_PAUSE };
                    (Instant::now() + pause).min(self.next_poll().max(Instant::now() + FIRST_PAUSE + asked))
                }
            };
            self.board.update_state(|state| state.was_polled = true);
            // What found no room at the git host's is handed in again with every poll.
            self.board.statuses.post_all();
            let request = before.clone();
            output.polls.send_modify(|progress| progress.request = request);
            if once {
                return;
            }
            match self.wait_for_poll(due, hint_pause.ends, before, &mut asked).await {
                Some(next) => cause = next,
                None => return,
            }
        }
    }

    /// Waits until a poll is due, hinted at, or requested. `None` when the process ends.
    async fn wait_for_poll(
        &self,
        due: Instant,
        hints_from: Instant,
        before: Option<String>,
        asked: &mut watch::Receiver<ManualRequests>,
    ) -> Option<PollCause> {
        loop {
            let hints = async {
                tokio::time::sleep_until(hints_from).await;
                self.repository.hints.refs.next().await
            };
            tokio::select! {
                () = tokio::time::sleep_until(due) => return Some(PollCause::Due),
                hints = hints => {
                    if self.is_followed(&hints) {
                        return Some(PollCause::Hint);
                    }
                }
                Ok(_) = asked.wait_for(|now| now.requested_at.is_some() && now.requested_at != before) => {
                    return Some(PollCause::Request);
                }
                () = self.shutdown.cancelled() => return None,
            }
        }
    }

    /// Whether somebody asks for a sync and was not answered yet.
    fn is_unanswered(&self, request: Option<&String>) -> bool {
        request.is_some() && self.board.state.borrow().handled_request.as_ref() != request
    }

    fn is_followed(&self, hints: &DrainedHints<String>) -> bool {
        let any = |fits: &dyn Fn(&str) -> bool| hints.everything || hints.items.iter().any(|name| fits(name));
        match &self.source.spec.reference {
            Reference::Branch(branch) => any(&|name| name.strip_prefix("refs/heads/") == Some(branch)),
            Reference::Tag(tag) => any(&|name| name.strip_prefix("refs/tags/") == Some(tag)),
            Reference::Semver(_) => any(&|name| name.starts_with("refs/tags/")),
            // A commit does not move; one that was not there may have been pushed.
            Reference::Commit(_) => any(&|_| true),
        }
    }

    /// When the next poll is due: by the interval or by the schedule, whichever comes first.
    fn next_poll(&self) -> Instant {
        let now = Instant::now();
        let interval = self.source.interval.map(jittered);
        let schedule = self.source.schedule.as_ref().and_then(|schedule| {
            let wall = Timestamp::now();
            Duration::try_from(schedule.next_after(wall)?.duration_since(wall)).ok()
        });
        now + interval.into_iter().chain(schedule).min().unwrap_or(LONGEST_PAUSE)
    }

    async fn poll_once(
        &self,
        last: &mut Option<ResolvedRef>,
        commits: &watch::Sender<Option<PolledCommit>>,
        is_requested: bool,
    ) -> Result<PollOutcome, GitError> {
        let mut span = TraceSpan::start("look", &self.repository.hints.take_origin()).with("source", &self.source.key);
        let reference = self.source.spec.reference.clone();
        let tip = self.repository.git.with(MirrorOperation::List, move |mirror| mirror.poll(&reference)).await?;
        if is_requested && self.repository.git.retry_trial(&tip.commit) {
            *last = None;
        }
        if last.as_ref() == Some(&tip) {
            self.clear_repository_problem();
            return Ok(PollOutcome::Same);
        }
        let wanted = tip.clone();
        let fetching = TraceSpan::start("fetch", &span.trace_context()).with("source", &self.source.key);
        let (fetched, committed, trial): (FetchOutcome, Option<i64>, Option<TrialRefusal>) =
            match self.repository.git.fetch(wanted).await {
                Ok((fetched, committed)) => (fetched, committed, None),
                // It is reported as any other commit, and nothing of it is fetched or read.
                Err(GitError::Trial(refusal)) => (unfetched(&tip.commit), None, Some(refusal)),
                Err(error) => return Err(error),
            };
        drop(fetching);
        span.set_attribute("revision", &fetched.commit);
        if fetched.forced {
            let before = fetched.previous.as_deref().unwrap_or_default();
            tracing::warn!(source = %self.source.key, before, now = fetched.commit, "history was rewritten");
        }
        let refusal = match trial {
            Some(refusal) => Some(CommitRefusal::Trial(refusal)),
            None => self.verify_tip(&tip).await?.map(CommitRefusal::Signature),
        };
        let found = PolledCommit {
            // Whatever was there at the start may have been there for a year.
            is_fresh: fetched.previous.as_ref().is_some_and(|previous| *previous != fetched.commit),
            began: latency_start(committed, Timestamp::now()),
            origin: span.trace_context(),
            commit: fetched.commit,
            previous: fetched.previous,
            parent: fetched.parent,
            refusal,
        };
        tracing::info!(source = %self.source.key, revision = found.short(), name = tip.name, "a new commit");
        *last = Some(tip);
        self.clear_repository_problem();
        self.board.update_state(|state| {
            if state.seen.as_ref().is_none_or(|seen| seen.commit != found.commit) {
                state.seen = Some(TimestampedRevision::now(&found.commit));
            }
        });
        commits.send_replace(Some(found));
        Ok(PollOutcome::Moved)
    }

    /// The repository answers again; what else is in the way stays said.
    fn clear_repository_problem(&self) {
        self.board.update_state(|state| {
            let recovered = state.problems.remove(&ProblemScope::Repository).is_some();
            if recovered && state.problems.is_empty() {
                state.failures = 0;
            }
        });
    }
}

/// A commit of which nothing is here.
fn unfetched(commit: &str) -> FetchOutcome {
    FetchOutcome { commit: commit.to_owned(), previous: None, parent: None, forced: false, bytes: 0 }
}

/// What a poll that failed says of the repository.
fn poll_problem(error: &GitError) -> SourceProblem {
    use TransportError as Said;
    let reason = match error {
        GitError::Credentials { .. }
        | GitError::Mirror(MirrorError::Transport(
            Said::Credentials { .. } | Said::Token { .. } | Said::HostKey { .. },
        )) => ProblemReason::SecretInvalid,
        // Hosts say so, too, of a repository that the login may not see.
        GitError::Mirror(MirrorError::Transport(
            Said::Unauthorized { .. } | Said::Forbidden { .. } | Said::NotFound { .. },
        )) => ProblemReason::AuthenticationFailed,
        GitError::Trial(_) => ProblemReason::Trial,
        GitError::Mirror(_) | GitError::Panicked | GitError::NoThread | GitError::TimedOut => {
            ProblemReason::GitOperationFailed
        }
    };
    SourceProblem { reason, message: error.to_string(), help: error.help(), is_transient: error.may_pass().is_some() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A delivery that is sent again and again, each time signed as it should be, asked a git host as fast as it answered.
    #[tokio::test(start_paused = true)]
    async fn hints_that_lead_to_nothing_wait_longer_each_time_until_one_leads_to_something() {
        let mut pause = HintPause::none();
        assert!(pause.ends <= Instant::now(), "the first hint is followed at once");
        let mut pauses = Vec::new();
        for _ in 0..8 {
            pause.observe(PollCause::Hint, PollOutcome::Same);
            pauses.push((pause.ends - Instant::now()).as_millis());
            tokio::time::sleep_until(pause.ends).await;
            pause.observe(PollCause::Due, PollOutcome::Same);
            pause.observe(PollCause::Hint, PollOutcome::Failed);
        }
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 8000, 8000]);
        pause.observe(PollCause::Due, PollOutcome::Moved);
        assert!(pause.ends <= Instant::now());
        pause.observe(PollCause::Hint, PollOutcome::Same);
        assert_eq!((pause.ends - Instant::now()).as_millis(), 250);
    }
}
