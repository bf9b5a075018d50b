//! The half of a unit that looks at the repository: when, and what is the newest commit that may be synced.

use super::{Head, Unit};
use crate::controller::backoff::Backoff;
use crate::controller::board::Phase;
use crate::controller::git::GitError;
use crate::controller::hints::Taken;
use crate::controller::metrics::Look;
use crate::controller::report::Wanted;
use crate::controller::schedule::jittered;
use crate::source::mirror::{Fetched, Tip};
use crate::source::model_source::Reference;
use crate::source::secret::SecretValues;
use crate::source::signature::{self, SignatureError};
use jiff::Timestamp;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The first pause after a look that failed, and the longest.
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(600);

impl Unit {
    /// Looks at the repository for as long as the process lives, and tells `heads` of each commit that is new. With
    /// `once` it looks once. What the git host is to show is handed in again with every look.
    pub(super) async fn follow(&self, heads: &watch::Sender<Option<Head>>, wanted: &Wanted, once: bool) {
        let mut backoff = Backoff::new(FIRST, LONGEST);
        let mut last: Option<Tip> = None;
        loop {
            let due = match self.look(&mut last, heads).await {
                Ok(look) => {
                    self.metrics.looked(&self.source.name, look);
                    backoff.reset();
                    self.next_look()
                }
                Err(error) => {
                    self.metrics.looked(&self.source.name, Look::Failed);
                    let problem = format!("{error}; {}", error.help());
                    // A host that is down for a day is one line, and not a thousand.
                    if self.standing.borrow().problem.as_ref() != Some(&problem) {
                        tracing::warn!(source = self.source.name, "{problem}");
                    }
                    self.standing.send_modify(|standing| standing.problem = Some(problem));
                    let asked = error.may_pass().unwrap_or_default();
                    // What cannot pass by itself is looked at when it is due anyway.
                    let pause = if error.may_pass().is_some() { backoff.pause().max(asked) } else { LONGEST };
                    (Instant::now() + pause).min(self.next_look().max(Instant::now() + FIRST + asked))
                }
            };
            self.standing.send_modify(|standing| standing.looked = true);
            wanted.post();
            if once || self.hinted(due).await.is_none() {
                return;
            }
        }
    }

    /// Waits until a look is due, or hinted at. `None` when the process ends.
    async fn hinted(&self, due: Instant) -> Option<()> {
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(due) => return Some(()),
                hints = self.hints.refs.next() => {
                    if self.follows(&hints) {
                        return Some(());
                    }
                }
                () = self.ending.cancelled() => return None,
            }
        }
    }

    fn follows(&self, hints: &Taken<String>) -> bool {
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

    async fn look(&self, last: &mut Option<Tip>, heads: &watch::Sender<Option<Head>>) -> Result<Look, GitError> {
        let reference = self.source.spec.reference.clone();
        let tip = self.git.with(move |mirror| mirror.poll(&reference)).await?;
        if last.as_ref() == Some(&tip) {
            self.recovered();
            return Ok(Look::Same);
        }
        let wanted = tip.clone();
        let fetched: Fetched = self.git.with(move |mirror| mirror.fetch(&wanted)).await?;
        if fetched.forced {
            let before = fetched.previous.as_deref().unwrap_or_default();
            tracing::warn!(source = self.source.name, before, now = fetched.commit, "history was written anew");
        }
        let unsigned = self.verify(&tip).await?;
        let head = Head { commit: fetched.commit, previous: fetched.previous, unsigned };
        tracing::info!(source = self.source.name, revision = head.short(), name = tip.name, "a new commit");
        *last = Some(tip);
        self.standing.send_modify(|standing| standing.seen = Some(head.commit.clone()));
        heads.send_replace(Some(head));
        Ok(Look::Moved)
    }

    /// The repository answers again; what else is in the way stays said.
    fn recovered(&self) {
        self.standing.send_if_modified(|standing| {
            let by_look =
                standing.applied.is_some() && standing.applied == standing.seen && standing.phase == Phase::Idle;
            let changes = by_look && standing.problem.is_some();
            if changes {
                standing.problem = None;
            }
            changes
        });
    }

    /// Why the commit may not be rendered, where the source asks for signatures.
    async fn verify(&self, tip: &Tip) -> Result<Option<SignatureError>, GitError> {
        let Some(verify) = &self.source.spec.verify else { return Ok(None) };
        // The file is refused without the secret; should it ever come here without, nothing passes.
        let none = || SecretValues::new(verify.secret_ref.name.to_string(), std::iter::empty::<(String, Vec<u8>)>());
        let keys = self.source.secrets.verify.clone().unwrap_or_else(none);
        let (mode, tip) = (verify.mode, tip.clone());
        let signed = self.git.with(move |mirror| mirror.signed(&tip)).await?;
        let judged = tokio::task::spawn_blocking(move || signature::verify(mode, &signed, &keys, Timestamp::now()));
        match judged.await {
            Ok(Ok(signers)) => {
                for signer in signers {
                    tracing::info!(source = self.source.name, key = signer.key, signer = signer.name, "signed");
                }
                Ok(None)
            }
            Ok(Err(error)) => Ok(Some(error)),
            Err(_) => Err(GitError::Panicked),
        }
    }
}
