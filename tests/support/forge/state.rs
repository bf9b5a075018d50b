//! What a fake host keeps, the same for all makes.

use super::sha;

/// A repository's statuses, pull requests and comments.
pub struct FakeForgeState {
    /// Every status that was taken, oldest first. Hosts with one for each key keep the newest only.
    pub statuses: Vec<PostedStatusRow>,
    pub pulls: Vec<FakePullRequest>,
    pub notes: Vec<FakeComment>,
    /// Who the token is.
    pub account: String,
    /// The commits that the repository has.
    pub commits: Vec<String>,
    /// Those that no branch contains.
    pub loose: Vec<String>,
    /// How many statuses of one context and commit are taken.
    pub wall: usize,
    /// Installation tokens that were given out, newest last, and whether they are still known.
    pub installed: Vec<(String, bool)>,
    /// Seconds by which the host's clock is ahead.
    pub ahead: i64,
    /// Seconds that an installation token holds.
    pub holds: i64,
    pub next: u64,
}

#[derive(Clone, Debug)]
pub struct PostedStatusRow {
    pub commit: String,
    /// Bitbucket's; empty elsewhere.
    pub key: String,
    pub context: String,
    pub state: String,
    pub description: String,
    pub url: String,
    /// GitLab's: the branch of the pipeline. Azure's: the pull request that it is on.
    pub on: String,
}

#[derive(Clone, Debug)]
pub struct FakePullRequest {
    pub number: u64,
    pub title: String,
    pub state: &'static str,
    pub base: String,
    pub head: String,
    pub branch: String,
    pub from: PullRequestOrigin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullRequestOrigin {
    Here,
    Fork,
    GoneFork,
}

#[derive(Clone, Debug)]
pub struct FakeComment {
    pub id: u64,
    pub pull: u64,
    pub body: String,
    pub author: String,
    pub version: u64,
    pub system: bool,
}

impl Default for FakeForgeState {
    fn default() -> Self {
        Self {
            statuses: Vec::new(),
            pulls: Vec::new(),
            notes: Vec::new(),
            account: "Stator-Bot".to_owned(),
            commits: (1..10).map(sha).collect(),
            loose: Vec::new(),
            wall: 1000,
            installed: Vec::new(),
            ahead: 0,
            holds: 3600,
            next: 100,
        }
    }
}

impl FakeForgeState {
    pub fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Opens a pull request onto main, the head a commit that begins with its number's digit.
    pub fn open(&mut self, number: u64, title: &str, from: PullRequestOrigin) {
        let digit = u8::try_from(number % 10).unwrap();
        self.pulls.push(FakePullRequest {
            number,
            title: title.to_owned(),
            state: "open",
            base: "main".to_owned(),
            head: sha(digit),
            branch: format!("change-{number}"),
            from,
        });
    }

    /// Somebody else's comment.
    pub fn said(&mut self, pull: u64, author: &str, body: &str) {
        let id = self.id();
        self.notes.push(FakeComment {
            id,
            pull,
            body: body.to_owned(),
            author: author.to_owned(),
            version: 0,
            system: false,
        });
    }

    pub fn pull(&self, number: &str) -> Option<&FakePullRequest> {
        self.pulls.iter().find(|pull| pull.number.to_string() == number)
    }

    /// The newest status of each context, newest first.
    pub fn newest(&self, commit: &str) -> Vec<PostedStatusRow> {
        let mut newest: Vec<PostedStatusRow> = Vec::new();
        for row in self.statuses.iter().rev().filter(|row| row.commit == commit && row.on.parse::<u64>().is_err()) {
            if !newest.iter().any(|known| known.context == row.context) {
                newest.push(row.clone());
            }
        }
        newest
    }

    /// Takes a status in the place of that key's.
    pub fn upsert(&mut self, row: PostedStatusRow) {
        self.statuses.retain(|known| known.commit != row.commit || known.key != row.key);
        self.statuses.push(row);
    }
}

/// One page of a list: from 1, of so many.
pub fn page<T: Clone>(all: &[T], page: usize, size: usize) -> Vec<T> {
    all.iter().skip(page.saturating_sub(1) * size).take(size).cloned().collect()
}
