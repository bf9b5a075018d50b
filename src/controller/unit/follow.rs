//! The half of a unit that looks at the repository: when, and what is the newest commit that may be synced.

use super::measure::began;
use super::{Head, Unit};
use crate::controller::backoff::Backoff;
use crate::controller::metrics::{Look, Operation};
use crate::controller::mirror_handle::GitError;
use crate::controller::report::commit_reporter::DesiredStatuses;
use crate::controller::sources::hints::DrainedHints;
use crate::controller::sources::manual_requests::ManualRequests;
use crate::controller::sources::registry::{ProblemReason, ProblemScope, SourceProblem, TimestampedRevision};
use crate::controller::sources::schedule::jittered;
use crate::telemetry::traces::TraceSpan;
use jiff::Timestamp;
use stator_git::source::mirror::{FetchOutcome, MirrorError, ResolvedRef};
use stator_git::source::model_source::Reference;
use stator_git::source::secret::SecretValues;
use stator_git::source::signature::{self, SignatureError};
use stator_git::source::transport::TransportError;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The first pause after a look that failed, and the longest.
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(600);

/// A moment by the wall clock.
fn wall(at: Instant) -> Timestamp {
    let now = Timestamp::now();
    now.checked_add(at.saturating_duration_since(Instant::now())).unwrap_or(now)
}

impl Unit {
    /// Looks at the repository for as long as the process lives, and tells `heads` of each commit that is new. With
    /// `once` it looks once. What the git host is to show is handed in again with every look.
    /// `looks` hears which request was known before a look that is over.
    pub(super) async fn follow(
        &self,
        heads: &watch::Sender<Option<Head>>,
        looks: &watch::Sender<Option<String>>,
        wanted: &DesiredStatuses,
        once: bool,
    ) {
        self.metrics.set_next_poll(&self.source.key, Timestamp::now());
        let mut backoff = Backoff::new(FIRST, LONGEST);
        let mut last: Option<ResolvedRef> = None;
        let mut asked = self.requests.clone();
        loop {
            let before = asked.borrow_and_update().requested_at.clone();
            let due = match self.look(&mut last, heads).await {
                Ok(look) => {
                    self.metrics.record_poll(&self.source.key, look);
                    if self.standing.borrow().is_ready() {
                        self.metrics.record_success(&self.source.key, Timestamp::now());
                    }
                    backoff.reset();
                    let due = self.next_look();
                    self.metrics.set_next_poll(&self.source.key, wall(due));
                    due
                }
                Err(error) => {
                    self.metrics.record_poll(&self.source.key, Look::Failed);
                    let problem = of_look(&error);
                    // A host that is down for a day is one line, and not a thousand.
                    if self.standing.borrow().problems.get(&ProblemScope::Repository) != Some(&problem) {
                        tracing::warn!(source = %self.source.key, "{problem}");
                    }
                    self.stand(|standing| {
                        standing.set_problem(ProblemScope::Repository, Some(problem));
                        standing.failures = standing.failures.saturating_add(1);
                    });
                    let asked = error.may_pass().unwrap_or_default();
                    // What cannot pass by itself is looked at when it is due anyway.
                    let pause = if error.may_pass().is_some() { backoff.next_pause().max(asked) } else { LONGEST };
                    (Instant::now() + pause).min(self.next_look().max(Instant::now() + FIRST + asked))
                }
            };
            self.stand(|standing| standing.was_polled = true);
            wanted.post_all();
            looks.send_replace(before.clone());
            if once || self.hinted(due, before, &mut asked).await.is_none() {
                return;
            }
        }
    }

    /// Waits until a look is due, hinted at, or asked for. `None` when the process ends.
    async fn hinted(
        &self,
        due: Instant,
        before: Option<String>,
        asked: &mut watch::Receiver<ManualRequests>,
    ) -> Option<()> {
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(due) => return Some(()),
                hints = self.hints.refs.next() => {
                    if self.follows(&hints) {
                        return Some(());
                    }
                }
                Ok(_) = asked.wait_for(|now| now.requested_at.is_some() && now.requested_at != before) => return Some(()),
                () = self.ending.cancelled() => return None,
            }
        }
    }

    fn follows(&self, hints: &DrainedHints<String>) -> bool {
        let any = |fits: &dyn Fn(&str) -> bool| hints.everything || hints.items.iter().any(|name| fits(name));
        match &self.source.spec.reference {
            Reference::Branch(branch) => any(&|name| name.strip_prefix("refs/heads/") == Some(branch)),
            Reference::Tag(tag) => any(&|name| name.strip_prefix("refs/tags/") == Some(tag)),
            Reference::Semver(_) => any(&|name| name.starts_with("refs/tags/")),
            // A commit does not move; one that was not there may have been pushed.
            Reference::Commit(_) => any(&|_| true),
        }
    }

    /// When the next look is due: by the interval or by the schedule, whichever comes first.
    fn next_look(&self) -> Instant {
        let now = Instant::now();
        let interval = self.source.interval.map(jittered);
        let schedule = self.source.schedule.as_ref().and_then(|schedule| {
            let wall = Timestamp::now();
            Duration::try_from(schedule.next_after(wall)?.duration_since(wall)).ok()
        });
        now + interval.into_iter().chain(schedule).min().unwrap_or(LONGEST)
    }

    async fn look(
        &self,
        last: &mut Option<ResolvedRef>,
        heads: &watch::Sender<Option<Head>>,
    ) -> Result<Look, GitError> {
        let mut span = TraceSpan::start("look", &self.hints.take_origin()).with("source", &self.source.key);
        let reference = self.source.spec.reference.clone();
        let tip = self.git.with(Operation::List, move |mirror| mirror.poll(&reference)).await?;
        if last.as_ref() == Some(&tip) {
            self.recovered();
            return Ok(Look::Same);
        }
        let wanted = tip.clone();
        let fetching = TraceSpan::start("fetch", &span.trace_context()).with("source", &self.source.key);
        let fetched = self.git.with(Operation::Fetch, move |mirror| {
            let fetched = mirror.fetch(&wanted)?;
            let committed = mirror.commit_time(&fetched.commit);
            Ok((fetched, committed))
        });
        let (fetched, committed): (FetchOutcome, Option<i64>) = fetched.await?;
        drop(fetching);
        span.set_attribute("revision", &fetched.commit);
        if fetched.forced {
            let before = fetched.previous.as_deref().unwrap_or_default();
            tracing::warn!(source = %self.source.key, before, now = fetched.commit, "history was written anew");
        }
        let unsigned = self.verify(&tip).await?;
        let head = Head {
            // Whatever was there at the start may have been there for a year.
            fresh: fetched.previous.as_ref().is_some_and(|previous| *previous != fetched.commit),
            began: began(committed, Timestamp::now()),
            origin: span.trace_context(),
            commit: fetched.commit,
            previous: fetched.previous,
            parent: fetched.parent,
            unsigned,
        };
        tracing::info!(source = %self.source.key, revision = head.short(), name = tip.name, "a new commit");
        *last = Some(tip);
        self.recovered();
        self.stand(|standing| {
            if standing.seen.as_ref().is_none_or(|seen| seen.commit != head.commit) {
                standing.seen = Some(TimestampedRevision::now(&head.commit));
            }
        });
        heads.send_replace(Some(head));
        Ok(Look::Moved)
    }

    /// The repository answers again; what else is in the way stays said.
    fn recovered(&self) {
        self.stand(|standing| {
            let mended = standing.problems.remove(&ProblemScope::Repository).is_some();
            if mended && standing.problems.is_empty() {
                standing.failures = 0;
            }
        });
    }

    /// Why the commit may not be rendered, where the source asks for signatures.
    async fn verify(&self, tip: &ResolvedRef) -> Result<Option<SignatureError>, GitError> {
        let Some(verify) = &self.source.spec.verify else { return Ok(None) };
        // The file is refused without the secret; should it ever come here without, nothing passes.
        let none = || SecretValues::new(verify.secret_ref.name.to_string(), std::iter::empty::<(String, Vec<u8>)>());
        let keys = self.source.secrets.verify.clone().unwrap_or_else(none);
        let (mode, tip) = (verify.mode, tip.clone());
        let signed = self.git.with(Operation::Read, move |mirror| mirror.signed_revision(&tip)).await?;
        let judged =
            tokio::task::spawn_blocking(move || signature::verify_revision(mode, &signed, &keys, Timestamp::now()));
        match judged.await {
            Ok(Ok(signers)) => {
                for signer in signers {
                    tracing::info!(source = %self.source.key, key = signer.key, signer = signer.name, "signed");
                }
                Ok(None)
            }
            Ok(Err(error)) => Ok(Some(error)),
            Err(_) => Err(GitError::Panicked),
        }
    }
}

/// What a look that failed says of the repository.
fn of_look(error: &GitError) -> SourceProblem {
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
        GitError::Mirror(_) | GitError::Panicked | GitError::TimedOut => ProblemReason::GitOperationFailed,
    };
    SourceProblem { reason, message: error.to_string(), help: error.help(), is_transient: error.may_pass().is_some() }
}
