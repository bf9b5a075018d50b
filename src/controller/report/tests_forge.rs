//! A git host in memory that answers as a test wants it to.

use stator_git::forge::{
    CommitStatus, ForgeApi, ForgeError, ForgeLimits, NewPullRequest, PullRequest, PullRequestComment, PullRequestState,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// A secret that must never be seen in what stator writes.
pub const CANARY: &str = "canary-7d1f3a";

pub fn status(context: &str, state: stator_git::forge::StatusState, description: &str) -> CommitStatus {
    CommitStatus { context: context.into(), state, description: description.into(), target_url: None }
}

/// A refusal by its HTTP status, as a client would read it. Its words quote the token, as a careless host's may.
pub fn refusal(status: u16) -> ForgeError {
    let host = "git.example.com".to_owned();
    let message = format!("the request with token {CANARY} was refused");
    match status {
        401 => ForgeError::Unauthorized { host, message },
        403 => ForgeError::Forbidden { host, message },
        404 => ForgeError::NotFound { host, what: format!("commit, for {CANARY}") },
        409 => ForgeError::Conflict { host, message },
        410 => ForgeError::Closed { host, message },
        422 => ForgeError::Invalid { host, message },
        429 => ForgeError::RateLimited { host, after: Some(Duration::from_secs(120)) },
        430 => ForgeError::RateLimited { host, after: None },
        500 => ForgeError::Unavailable { host, message, after: None },
        503 => ForgeError::Unavailable { host, message, after: Some(Duration::from_secs(30)) },
        1000 => ForgeError::Full { host },
        _ => ForgeError::Unreadable { host, message },
    }
}

#[derive(Default)]
struct State {
    statuses: BTreeMap<(String, String), CommitStatus>,
    sent: Vec<(u64, String, CommitStatus)>,
    answers: VecDeque<u16>,
    always: BTreeMap<String, u16>,
    busy: BTreeSet<(String, String)>,
    down: Option<u16>,
    pulls: BTreeMap<u64, PullRequest>,
    comments: BTreeMap<u64, Vec<PullRequestComment>>,
    next_comment: u64,
    calls: BTreeMap<&'static str, usize>,
}

pub struct FakeForge {
    state: Mutex<State>,
    start: Instant,
    /// How long each call takes.
    pub slow: Duration,
    pub limits: ForgeLimits,
}

impl Default for FakeForge {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            start: Instant::now(),
            slow: Duration::ZERO,
            limits: ForgeLimits { description: 140, comment: 60_000, html: true, writes: &[] },
        }
    }
}

impl FakeForge {
    /// A host whose every call takes so long.
    pub fn slow(slow: Duration) -> Self {
        Self { slow, ..Self::default() }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }

    /// The next calls that write are answered like this, one after the other; then all is well.
    pub fn answers(&self, statuses: impl IntoIterator<Item = u16>) {
        self.with(|state| state.answers.extend(statuses));
    }

    /// Every call for this context is answered like this.
    pub fn always(&self, context: &str, status: u16) {
        self.with(|state| state.always.insert(context.into(), status));
    }

    /// Every comment on this pull request is answered like this; `None` when they are taken again.
    pub fn lock(&self, number: u64, status: Option<u16>) {
        let name = format!("comment on {number}");
        self.with(|state| match status {
            Some(status) => state.always.insert(name, status),
            None => state.always.remove(&name),
        });
    }

    fn answer_comment(&self, number: u64) -> Result<(), ForgeError> {
        let refused = self.with(|state| state.always.get(&format!("comment on {number}")).copied());
        refused.map_or_else(|| self.answer(), |status| Err(refusal(status)))
    }

    /// No call for this context is answered in its own way any more.
    pub fn relent(&self, context: &str) {
        self.with(|state| state.always.remove(context));
    }

    /// Second, first letter of the commit, context and description of every status that was sent, refused ones included.
    pub fn sent(&self) -> Vec<String> {
        self.with(|state| {
            let line = |(second, commit, status): &(u64, String, CommitStatus)| {
                let state = format!("{:?}", status.state).to_lowercase();
                format!("{second}s {} {} {state}: {}", &commit[..1], status.context, status.description)
            };
            state.sent.iter().map(line).collect()
        })
    }

    pub fn moments(&self) -> Vec<u64> {
        self.with(|state| state.sent.iter().map(|(second, ..)| *second).collect())
    }

    /// Every call from now on is answered like this.
    pub fn always_all(&self, status: Option<u16>) {
        self.with(|state| state.down = status);
    }

    pub fn shows(&self) -> BTreeMap<(String, String), CommitStatus> {
        self.with(|state| state.statuses.clone())
    }

    pub fn calls(&self, name: &str) -> usize {
        self.with(|state| state.calls.get(name).copied().unwrap_or(0))
    }

    pub fn put(&self, pull: PullRequest) {
        self.with(|state| state.pulls.insert(pull.number, pull));
    }

    pub fn comments(&self, number: u64) -> Vec<PullRequestComment> {
        self.with(|state| state.comments.get(&number).cloned().unwrap_or_default())
    }

    pub fn write(&self, number: u64, body: &str) {
        self.with(|state| add(state, number, body));
    }

    async fn called(&self, name: &'static str) {
        self.with(|state| *state.calls.entry(name).or_default() += 1);
        tokio::time::sleep(self.slow).await;
    }

    fn answer(&self) -> Result<(), ForgeError> {
        if let Some(status) = self.with(|state| state.down) {
            return Err(refusal(status));
        }
        self.with(|state| state.answers.pop_front()).map_or(Ok(()), |status| Err(refusal(status)))
    }
}

fn add(state: &mut State, number: u64, body: &str) -> PullRequestComment {
    state.next_comment += 1;
    let comment = PullRequestComment { id: state.next_comment.to_string(), body: body.into() };
    state.comments.entry(number).or_default().push(comment.clone());
    comment
}

impl ForgeApi for FakeForge {
    fn describe(&self) -> String {
        "Fake, team/models".into()
    }

    fn limits(&self) -> ForgeLimits {
        self.limits
    }

    async fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        let key = (commit.to_owned(), status.context.clone());
        assert!(self.with(|state| state.busy.insert(key.clone())), "two posts of {key:?} at once");
        let second = self.start.elapsed().as_secs();
        self.with(|state| state.sent.push((second, commit.to_owned(), status.clone())));
        self.called("set_status").await;
        self.with(|state| state.busy.remove(&key));
        if let Some(refused) = self.with(|state| state.always.get(&status.context).copied()) {
            return Err(refusal(refused));
        }
        self.answer()?;
        self.with(|state| state.statuses.insert(key, status.clone()));
        Ok(())
    }

    async fn list_statuses(&self, commit: &str, prefix: &str) -> Result<Vec<CommitStatus>, ForgeError> {
        self.called("statuses").await;
        self.answer()?;
        Ok(self.with(|state| {
            let own = state.statuses.iter().filter(|(key, _)| key.0 == commit && key.1.starts_with(prefix));
            own.map(|(_, status)| status.clone()).collect()
        }))
    }

    async fn list_open_pull_requests(&self, base: &str) -> Result<Vec<PullRequest>, ForgeError> {
        self.called("open_pull_requests").await;
        self.answer()?;
        Ok(self.with(|state| {
            let open = |pull: &&PullRequest| pull.state == PullRequestState::Open && pull.base == base;
            state.pulls.values().filter(open).cloned().collect()
        }))
    }

    async fn pull_request(&self, number: u64) -> Result<PullRequest, ForgeError> {
        self.called("pull_request").await;
        self.answer()?;
        self.with(|state| state.pulls.get(&number).cloned()).ok_or_else(|| refusal(404))
    }

    async fn list_own_comments(&self, number: u64) -> Result<Vec<PullRequestComment>, ForgeError> {
        self.called("own_comments").await;
        self.answer()?;
        Ok(self.comments(number))
    }

    async fn create_comment(&self, number: u64, body: &str) -> Result<PullRequestComment, ForgeError> {
        self.called("add_comment").await;
        self.answer_comment(number)?;
        Ok(self.with(|state| add(state, number, body)))
    }

    async fn update_comment(
        &self,
        number: u64,
        comment: &PullRequestComment,
        body: &str,
    ) -> Result<PullRequestComment, ForgeError> {
        self.called("edit_comment").await;
        self.answer_comment(number)?;
        self.with(|state| {
            let comments = state.comments.entry(number).or_default();
            let known = comments.iter_mut().find(|known| known.id == comment.id).ok_or_else(|| refusal(404))?;
            known.body = body.into();
            Ok(known.clone())
        })
    }

    async fn create_pull_request(&self, _: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        Err(refusal(403))
    }
}
