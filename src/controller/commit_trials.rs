//! Which commits are being read for the first time, so that one that ends the process does not end it again and again.
//!
//! A commit is marked before it is fetched, read or planned, and the mark goes when that is through, whatever came of it.
//! Only a process that died leaves marks behind. Which of several commits was at fault is not known then, so each of them
//! is tried alone, after all others. One that was marked at two deaths is at fault: it is reported, and not tried again
//! until it changes or somebody asks for it.
//!
//! Marks are files in the folder of mirrors, because they must be there before the work is: a volume that outlives the
//! container keeps them.

use fs_err::File;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Deaths of the process after which a commit is at fault.
const MAX_DEATHS: u32 = 2;
/// How long nothing else must have been tried before a suspect is.
const QUIET: Duration = Duration::from_secs(5);
/// How long a suspect waits for that at most: on a busy controller something is always tried.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// Marks of other commits that are kept; an attacker may push more.
const MAX_SUSPECTS: usize = 1000;

/// What is tried.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::controller) enum TrialSubject {
    /// The commit that a source follows.
    SourceCommit(String),
    /// The head of a pull request.
    PullRequestHead(String),
}

/// The marks of one process. Clones are the same.
#[derive(Clone, Debug)]
pub(in crate::controller) struct CommitTrials {
    state: Arc<TrialState>,
}

#[derive(Debug)]
struct TrialState {
    folder: PathBuf,
    /// Held while the process lives: whoever else has the folder has marks that are no deaths.
    lock: Option<File>,
    /// File name → deaths.
    suspects: Mutex<HashMap<String, u32>>,
    open: AtomicUsize,
    last_end: Mutex<Instant>,
}

/// What may be done with a commit.
#[derive(Debug)]
pub(in crate::controller) enum TrialDecision {
    /// It may be read beside others, as long as this is kept.
    Beside(OpenTrial),
    /// It may be read when nothing else is, as long as this is kept.
    Alone(OpenTrial),
    /// It ended the process too often.
    Refused(TrialRefusal),
}

/// A commit that is not tried any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reading this commit crashed the controller {deaths} times, so stator does not try it again")]
pub struct TrialRefusal {
    deaths: u32,
}

impl TrialRefusal {
    /// What to do about it.
    pub fn help() -> &'static str {
        "push another commit; to try this one again, alone, request a sync of the source"
    }
}

/// The mark of a commit; goes when this is dropped.
#[derive(Debug)]
pub(in crate::controller) struct OpenTrial {
    state: Arc<TrialState>,
    name: String,
}

impl TrialSubject {
    fn file_name(&self, namespace: &str, source: &str) -> String {
        let (kind, commit) = match self {
            Self::SourceCommit(commit) => ("commit", commit),
            Self::PullRequestHead(commit) => ("pull", commit),
        };
        let commit: String = commit.chars().filter(char::is_ascii_alphanumeric).take(64).collect();
        format!("{namespace}.{source}.{kind}.{commit}")
    }
}

impl CommitTrials {
    /// The marks below a data folder. Those that are there are of a process that died; where the folder cannot be written,
    /// nothing is marked.
    pub(in crate::controller) fn open(data: &Path) -> Self {
        let folder = data.join("trials");
        let lock = lock_folder(&folder);
        let suspects = if lock.is_some() { load_suspects(&folder) } else { HashMap::new() };
        for (name, deaths) in &suspects {
            tracing::warn!(
                trial = name,
                deaths,
                "the process ended while this commit was read; it is tried alone, or not at all"
            );
        }
        let state = TrialState {
            folder,
            lock,
            suspects: Mutex::new(suspects),
            open: AtomicUsize::new(0),
            last_end: Mutex::new(Instant::now()),
        };
        Self { state: Arc::new(state) }
    }

    /// Marks a commit, where it may be tried. A suspect waits until nothing else is.
    pub(in crate::controller) async fn begin(
        &self,
        (namespace, source): (&str, &str),
        subject: &TrialSubject,
    ) -> TrialDecision {
        let name = subject.file_name(namespace, source);
        let deaths = self.state.deaths(&name);
        if deaths >= MAX_DEATHS {
            return TrialDecision::Refused(TrialRefusal { deaths });
        }
        if deaths == 0 {
            return TrialDecision::Beside(OpenTrial::mark(&self.state, name, deaths));
        }
        let began = Instant::now();
        while !self.state.is_quiet() && began.elapsed() < LONGEST_WAIT {
            tokio::time::sleep(QUIET / 5).await;
        }
        TrialDecision::Alone(OpenTrial::mark(&self.state, name, deaths))
    }

    /// Somebody asks for a commit that is not tried any more: it is tried once more, alone.
    /// True then.
    pub(in crate::controller) fn retry(&self, (namespace, source): (&str, &str), subject: &TrialSubject) -> bool {
        let name = subject.file_name(namespace, source);
        let mut suspects = self.state.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(deaths) = suspects.get_mut(&name).filter(|deaths| **deaths >= MAX_DEATHS) else { return false };
        *deaths = MAX_DEATHS - 1;
        self.state.write(&name, *deaths, false);
        true
    }
}

impl TrialState {
    fn deaths(&self, name: &str) -> u32 {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied().unwrap_or_default()
    }

    /// Whether nothing is tried, nor was a moment ago.
    fn is_quiet(&self) -> bool {
        let last = *self.last_end.lock().unwrap_or_else(PoisonError::into_inner);
        self.open.load(Ordering::Acquire) == 0 && last.elapsed() >= QUIET
    }

    fn write(&self, name: &str, deaths: u32, is_open: bool) {
        if self.lock.is_none() {
            return;
        }
        let line = if is_open { format!("{deaths} open\n") } else { format!("{deaths}\n") };
        if let Err(error) = fs_err::write(self.folder.join(name), line) {
            tracing::warn!(%error, "a commit that is read could not be marked");
        }
    }
}

impl OpenTrial {
    fn mark(state: &Arc<TrialState>, name: String, deaths: u32) -> Self {
        state.open.fetch_add(1, Ordering::AcqRel);
        state.write(&name, deaths, true);
        Self { state: Arc::clone(state), name }
    }
}

impl Drop for OpenTrial {
    fn drop(&mut self) {
        let state = &self.state;
        state.suspects.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
        if state.lock.is_some()
            && let Err(error) = fs_err::remove_file(state.folder.join(&self.name))
        {
            tracing::debug!(%error, "the mark of a commit was not there any more");
        }
        *state.last_end.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        state.open.fetch_sub(1, Ordering::AcqRel);
    }
}

fn lock_folder(folder: &Path) -> Option<File> {
    let lock = fs_err::create_dir_all(folder).and_then(|()| File::create(folder.join("lock")));
    match lock.map(|lock| (lock.file().try_lock(), lock)) {
        Ok((Ok(()), lock)) => Some(lock),
        Ok((Err(error), _)) => {
            tracing::warn!(folder = %folder.display(), %error, "another process marks commits here, so this one does not");
            None
        }
        Err(error) => {
            tracing::warn!(folder = %folder.display(), %error, "commits that are read cannot be marked");
            None
        }
    }
}

/// What an earlier process left: what was open when it ended has one death more.
fn load_suspects(folder: &Path) -> HashMap<String, u32> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let Ok(text) = fs_err::read_to_string(entry.path()) else { continue };
        if name == "lock" {
            continue;
        }
        let changed = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let mut words = text.split_whitespace();
        let before: u32 = words.next().and_then(|word| word.parse().ok()).unwrap_or_default();
        let deaths = before.saturating_add(u32::from(words.next() == Some("open") || before == 0));
        found.push((changed, name, deaths));
    }
    found.sort();
    let superfluous = found.len().saturating_sub(MAX_SUSPECTS);
    for (_, name, _) in found.drain(..superfluous) {
        let _ = fs_err::remove_file(folder.join(name));
    }
    for (_, name, deaths) in &found {
        let _ = fs_err::write(folder.join(name), format!("{deaths}\n"));
    }
    found.into_iter().map(|(_, name, deaths)| (name, deaths)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    const SOURCE: (&str, &str) = ("team", "models");

    fn subject(commit: &str) -> TrialSubject {
        TrialSubject::SourceCommit(commit.to_owned())
    }

    /// What a killed process leaves: nothing is dropped.
    fn die(trials: CommitTrials, open: impl IntoIterator<Item = TrialDecision>) {
        trials.state.lock.as_ref().unwrap().file().unlock().unwrap();
        open.into_iter().for_each(std::mem::forget);
    }

    async fn beside(trials: &CommitTrials, commit: &str) -> TrialDecision {
        let decision = trials.begin(SOURCE, &subject(commit)).now_or_never().unwrap();
        assert!(matches!(decision, TrialDecision::Beside(_)), "{decision:?}");
        decision
    }

    /// Row S1 of the review: a commit that ended the process ended it again after each restart.
    #[tokio::test(start_paused = true)]
    async fn a_commit_that_ends_the_process_is_tried_alone_and_last_and_then_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let first = CommitTrials::open(folder.path());
        drop(beside(&first, "fine").await);
        let open = [beside(&first, "bomb").await, beside(&first, "bystander").await];
        die(first, open);

        let second = CommitTrials::open(folder.path());
        let other = beside(&second, "fine").await;
        // A suspect waits as long as another commit is tried.
        let (of_bomb, of_bystander) = (subject("bomb"), subject("bystander"));
        let mut alone = Box::pin(second.begin(SOURCE, &of_bystander));
        assert!(tokio::time::timeout(Duration::from_secs(60), &mut alone).await.is_err());
        drop(other);
        let bystander = alone.await;
        assert!(matches!(bystander, TrialDecision::Alone(_)));
        drop(bystander);
        drop(beside(&second, "bystander").await);
        let bomb = second.begin(SOURCE, &of_bomb).await;
        assert!(matches!(bomb, TrialDecision::Alone(_)));
        die(second, [bomb]);

        for _ in 0..2 {
            let later = CommitTrials::open(folder.path());
            let refused = later.begin(SOURCE, &of_bomb).await;
            assert!(matches!(refused, TrialDecision::Refused(TrialRefusal { deaths: 2 })), "{refused:?}");
            drop(beside(&later, "next").await);
            die(later, []);
        }
        // Somebody asks for it, and it is fine by now.
        let last = CommitTrials::open(folder.path());
        assert!(last.retry(SOURCE, &of_bomb) && !last.retry(SOURCE, &of_bomb));
        let asked = last.begin(SOURCE, &of_bomb).await;
        assert!(matches!(asked, TrialDecision::Alone(_)));
        drop(asked);
        drop(beside(&last, "bomb").await);
    }

    /// Two processes of one folder: what the other one reads is no death.
    #[tokio::test]
    async fn marks_of_a_process_that_lives_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let first = CommitTrials::open(folder.path());
        let open = beside(&first, "a").await;
        let second = CommitTrials::open(folder.path());
        drop(beside(&second, "a").await);
        drop(second);
        die(first, [open]);
        let third = CommitTrials::open(folder.path());
        assert_eq!(third.state.deaths(&subject("a").file_name("team", "models")), 1);
    }
}
