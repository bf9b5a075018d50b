//! What is wanted, what is shown, and when to try what. No I/O: moments and answers come in.

use super::PosterState;
use stator_core::retry::{JitterSource, backoff_delay};
use stator_git::forge::{CommitStatus, ForgeError, RetryAdvice, StatusState};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// A commit and a context.
pub(super) type PostKey = (String, String);

/// Statuses that wait to be posted. What is handed in beyond is left out until it is handed in again: those who want
/// statuses do so every time they look.
const MAX_PENDING_POSTS: usize = 2_000;
/// Statuses of which is remembered that they are shown. What is forgotten is at worst posted once more.
const MAX_REMEMBERED_POSTS: usize = 20_000;
/// How long a commit may be unknown to the host: a push reaches its API after its git server.
const UNKNOWN_COMMIT_GRACE: Duration = Duration::from_secs(300);
/// How long a status is tried that the host refuses: a right may be granted, and a repository unlocked.
const REFUSAL_GRACE: Duration = Duration::from_secs(86_400);
/// The shortest and the longest pause after a refusal, before a random part is taken off.
const FIRST_REFUSAL_PAUSE: Duration = Duration::from_secs(120);
const LONGEST_REFUSAL_PAUSE: Duration = Duration::from_secs(3_600);
/// After so many refusals in a row, without a status that was taken, all statuses are taken to be refused: one at a time is
/// tried then.
const REFUSALS_OF_ALL: u32 = 3;
/// What was given up may be handed in again after this long.
const GIVEN_UP_FOR: Duration = Duration::from_secs(3_600);
/// The shortest and the longest pause between two tries, before a random part is taken off.
const INITIAL_BACKOFF: Duration = Duration::from_secs(2);
const MAX_BACKOFF: Duration = Duration::from_secs(300);

/// What to do now.
#[derive(Debug)]
pub(super) enum NextPost {
    /// Post this. Nothing else of the key goes out before it is answered.
    Post(PostKey, CommitStatus),
    /// Nothing before this moment, unless something is handed in.
    Wait(Instant),
    /// Nothing, unless something is handed in or answered.
    Idle,
}

/// A status that is to be posted.
#[derive(Debug)]
struct PendingPost {
    status: CommitStatus,
    /// The order of handing in.
    sequence: u64,
    attempts: u32,
    since: Instant,
    not_before: Instant,
    /// Whether the host refused it.
    is_refused: bool,
}

/// A status that is not tried again as it is.
#[derive(Debug)]
struct GivenUpPost {
    status: CommitStatus,
    /// Until when; `None` for good.
    until: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct PostQueue {
    pending: BTreeMap<PostKey, PendingPost>,
    in_flight: BTreeSet<PostKey>,
    posted_statuses: BTreeMap<PostKey, CommitStatus>,
    /// The keys of `shown` in the order of their coming.
    posted_order: VecDeque<PostKey>,
    /// What was given up.
    given_up_posts: BTreeMap<PostKey, GivenUpPost>,
    /// Commits and contexts that take nothing any more.
    full: BTreeSet<PostKey>,
    sequence: u64,
    /// The host as a whole is left alone until then.
    paused: Option<Instant>,
    failures: u32,
    /// Refusals since the host last took a status, and what the last of them was.
    refusals: u32,
    refusal: Option<String>,
    stopped: Option<String>,
    posted: u64,
    given_up: u64,
    jitter: JitterSource,
}

impl PostQueue {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            pending: BTreeMap::new(),
            in_flight: BTreeSet::new(),
            posted_statuses: BTreeMap::new(),
            posted_order: VecDeque::new(),
            given_up_posts: BTreeMap::new(),
            full: BTreeSet::new(),
            sequence: 0,
            paused: None,
            failures: 0,
            refusals: 0,
            refusal: None,
            stopped: None,
            posted: 0,
            given_up: 0,
            jitter: JitterSource::new(seed),
        }
    }

    pub(super) fn state(&self) -> PosterState {
        PosterState {
            posted: self.posted,
            pending: self.pending.len(),
            refused: self.count_refused(),
            given_up: self.given_up,
            stopped: self.stopped.clone(),
            refusal: self.refusal.clone(),
        }
    }

    /// How many wait because the host refused them, or refuses everything.
    fn count_refused(&self) -> usize {
        let waiting = self.pending.iter().filter(|(key, _)| !self.in_flight.contains(*key));
        waiting.filter(|(_, open)| open.is_refused || self.refusals >= REFUSALS_OF_ALL).count()
    }

    /// Nothing is posted any more.
    pub(super) fn stop(&mut self, why: &str) {
        self.pending.clear();
        self.stopped = Some(why.to_owned());
    }

    pub(super) fn request_status(&mut self, commit: String, status: CommitStatus, now: Instant) {
        let key = (commit, status.context.clone());
        let is_given_up =
            |given_up: &GivenUpPost| given_up.status == status && given_up.until.is_none_or(|until| until > now);
        if self.stopped.is_some() || self.full.contains(&key) || self.given_up_posts.get(&key).is_some_and(is_given_up)
        {
            return;
        }
        // While a post is under way, what is shown is about to change; its answer looks at this again.
        if !self.in_flight.contains(&key)
            && self.posted_statuses.get(&key).is_some_and(|shown| is_equivalent_status(shown, &status))
        {
            self.pending.remove(&key);
            return;
        }
        if let Some(open) = self.pending.get_mut(&key) {
            if open.status != status {
                open.status = status;
            }
            return;
        }
        if self.pending.len() < MAX_PENDING_POSTS {
            self.sequence += 1;
            let (sequence, since, not_before) = (self.sequence, now, now);
            let open = PendingPost { status, sequence, attempts: 0, since, not_before, is_refused: false };
            self.pending.insert(key, open);
        }
    }

    /// What the host shows, as far as is remembered.
    pub(super) fn posted_status(&self, commit: &str, context: &str) -> Option<CommitStatus> {
        self.posted_statuses.get(&(commit.to_owned(), context.to_owned())).cloned()
    }

    /// The host shows this.
    pub(super) fn record_posted(&mut self, commit: String, status: CommitStatus) {
        let key = (commit, status.context.clone());
        if self.in_flight.contains(&key) {
            return;
        }
        if self.pending.get(&key).is_some_and(|open| is_equivalent_status(&status, &open.status)) {
            self.pending.remove(&key);
        }
        self.remember_posted(key, status);
    }

    fn remember_posted(&mut self, key: PostKey, status: CommitStatus) {
        if self.posted_statuses.insert(key.clone(), status).is_none() {
            self.posted_order.push_back(key);
        }
        if self.posted_order.len() > MAX_REMEMBERED_POSTS
            && let Some(oldest) = self.posted_order.pop_front()
        {
            self.posted_statuses.remove(&oldest);
            self.given_up_posts.remove(&oldest);
        }
    }

    /// Ends before progress, newer before older: a person waits for the end of the newest commit.
    pub(super) fn next_post(&mut self, now: Instant) -> NextPost {
        if self.stopped.is_some() {
            return NextPost::Idle;
        }
        if let Some(until) = self.paused.filter(|until| *until > now) {
            return if self.pending.is_empty() { NextPost::Idle } else { NextPost::Wait(until) };
        }
        let free = || self.pending.iter().filter(|(key, _)| !self.in_flight.contains(*key));
        let rank = |open: &PendingPost| (open.status.state != StatusState::Pending, open.sequence);
        let due = free().filter(|(_, open)| open.not_before <= now).max_by_key(|(_, open)| rank(open));
        match due {
            Some((key, open)) => {
                let (key, status) = (key.clone(), open.status.clone());
                self.in_flight.insert(key.clone());
                NextPost::Post(key, status)
            }
            None => free().map(|(_, open)| open.not_before).min().map_or(NextPost::Idle, NextPost::Wait),
        }
    }

    /// What was to be posted was not.
    pub(super) fn return_post(&mut self, key: &PostKey) {
        self.in_flight.remove(key);
    }

    /// What the host answered. Gives back what is worth a line in the log: once for what ends in nothing.
    pub(super) fn handle_response(
        &mut self,
        key: &PostKey,
        status: CommitStatus,
        result: Result<(), ForgeError>,
        now: Instant,
    ) -> Option<String> {
        self.in_flight.remove(key);
        let error = match result {
            Ok(()) => {
                self.posted += 1;
                (self.failures, self.refusals, self.paused) = (0, 0, None);
                if self.pending.get(key).is_some_and(|open| is_equivalent_status(&status, &open.status)) {
                    self.pending.remove(key);
                } else if let Some(open) = self.pending.get_mut(key) {
                    // Overtaken while it was under way: the newer one begins afresh.
                    (open.attempts, open.since, open.not_before) = (0, now, now);
                    open.is_refused = false;
                }
                if self.count_refused() == 0 {
                    self.refusal = None;
                }
                self.remember_posted(key.clone(), status);
                return None;
            }
            Err(error) => error,
        };
        // A host's words may quote what was sent; only what stator itself knows of the refusal is repeated.
        let describe = |what: &str| Some(format!("{}; {}", what, error.help()));
        match (&error, error.retry_advice()) {
            (ForgeError::Unauthorized { .. } | ForgeError::Forbidden { .. } | ForgeError::Closed { .. }, _) => {
                if self.stopped.is_some() {
                    return None;
                }
                let message = describe(&format!("{}: it is tried again within the hour", refusal_reason(&error)));
                // A token that is not accepted is not accepted for anything.
                let is_of_all = matches!(error, ForgeError::Unauthorized { .. });
                self.refusals = self.refusals.saturating_add(1).max(if is_of_all { REFUSALS_OF_ALL } else { 0 });
                if self.time_pending(key, now) >= REFUSAL_GRACE {
                    self.give_up(key, &status, Some(now + GIVEN_UP_FOR));
                } else {
                    self.retry_refused(key, now);
                }
                let is_new = self.refusal != message;
                self.refusal.clone_from(&message);
                message.filter(|_| is_new)
            }
            (ForgeError::Full { .. }, _) => {
                self.full.insert(key.clone());
                self.give_up(key, &status, None);
                describe(refusal_reason(&error))
            }
            (_, RetryAdvice::Never) => {
                self.give_up(key, &status, None);
                describe(refusal_reason(&error))
            }
            (ForgeError::NotFound { .. }, _) if self.time_pending(key, now) >= UNKNOWN_COMMIT_GRACE => {
                self.give_up(key, &status, Some(now + GIVEN_UP_FOR));
                describe(refusal_reason(&error))
            }
            (_, RetryAdvice::After(pause)) => {
                // Everybody is asked to wait, also those who did not ask.
                let jitter =
                    self.jitter.duration_up_to(Duration::from_secs(5).min(pause / 4 + Duration::from_millis(500)));
                self.pause(now + pause + jitter);
                None
            }
            (ForgeError::Unavailable { .. }, RetryAdvice::Soon) => {
                self.failures = self.failures.saturating_add(1);
                let pause = self.backoff(self.failures);
                self.pause(now + pause);
                None
            }
            (_, RetryAdvice::Soon) => {
                let attempts = self.pending.get(key).map_or(0, |open| open.attempts).saturating_add(1);
                let pause = self.backoff(attempts);
                if let Some(open) = self.pending.get_mut(key) {
                    (open.attempts, open.not_before) = (attempts, now + pause);
                }
                None
            }
        }
    }

    fn time_pending(&self, key: &PostKey, now: Instant) -> Duration {
        self.pending.get(key).map_or(Duration::ZERO, |open| now.duration_since(open.since))
    }

    /// A refusal is of one status, until several in a row say that it is of all.
    fn retry_refused(&mut self, key: &PostKey, now: Instant) {
        let random = self.jitter.next_u64();
        let Some(open) = self.pending.get_mut(key) else { return };
        let pause = backoff_delay(FIRST_REFUSAL_PAUSE, LONGEST_REFUSAL_PAUSE, open.attempts, random);
        open.attempts = open.attempts.saturating_add(1);
        (open.is_refused, open.not_before) = (true, now + pause);
        if let Some(refusals) = self.refusals.checked_sub(REFUSALS_OF_ALL) {
            self.pause(now + backoff_delay(FIRST_REFUSAL_PAUSE, LONGEST_REFUSAL_PAUSE, refusals, random));
        }
    }

    /// Not again as it is, until then. What has been handed in since is another matter.
    fn give_up(&mut self, key: &PostKey, status: &CommitStatus, until: Option<Instant>) {
        self.given_up += 1;
        if self.full.contains(key) || self.pending.get(key).is_some_and(|open| open.status == *status) {
            self.pending.remove(key);
        }
        if self.given_up_posts.len() >= MAX_REMEMBERED_POSTS {
            self.given_up_posts.clear();
        }
        self.given_up_posts.insert(key.clone(), GivenUpPost { status: status.clone(), until });
    }

    fn pause(&mut self, until: Instant) {
        self.paused = self.paused.max(Some(until));
    }

    fn backoff(&mut self, attempts: u32) -> Duration {
        backoff_delay(INITIAL_BACKOFF, MAX_BACKOFF, attempts.saturating_sub(1), self.jitter.next_u64())
    }
}

/// A refusal in stator's own words.
fn refusal_reason(error: &ForgeError) -> &'static str {
    match error {
        ForgeError::Misconfigured { .. } => "the source has no git host API",
        ForgeError::Unauthorized { .. } => "the git host does not accept the token",
        ForgeError::Forbidden { .. } => "the token may not write commit statuses",
        ForgeError::NotFound { .. } => "the git host does not have the commit or the repository",
        ForgeError::Closed { .. } => "the repository accepts no writes",
        ForgeError::Full { .. } => "the git host accepts no more statuses of this context on this commit",
        ForgeError::RateLimited { .. } => "the git host limits the rate of calls",
        ForgeError::Conflict { .. } => "the status was changed by another client",
        ForgeError::Invalid { .. } => "the git host refuses the status",
        ForgeError::Unavailable { .. } => "the git host cannot be reached",
        ForgeError::Unreadable { .. } => "the git host sent a response that stator does not understand",
    }
}

/// Whether a host that shows one status need not be sent the other. Hosts trim descriptions and clients cut them, and
/// some fill in an address where none is given.
fn is_equivalent_status(shown: &CommitStatus, wanted: &CommitStatus) -> bool {
    let (there, here) = (shown.description.trim(), wanted.description.trim());
    let cut = there.strip_suffix('…').or_else(|| there.strip_suffix("...")).filter(|start| !start.is_empty());
    shown.state == wanted.state
        && (there == here || cut.is_some_and(|start| here.starts_with(start.trim_end())))
        && (wanted.target_url.is_none() || shown.target_url == wanted.target_url)
}
