//! Commits whose signature was found to be good, so that what was rendered once may be rendered again.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Commits that are remembered.
const MAX_COMMITS: usize = 1000;

/// Commits whose signature this process found to be good, by the keys that the source has now.
#[derive(Clone, Debug, Default)]
pub(in crate::controller) struct VerifiedCommits(Arc<Mutex<BTreeSet<String>>>);

impl VerifiedCommits {
    pub(super) fn insert(&self, commit: &str) {
        let mut commits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if commits.len() >= MAX_COMMITS {
            commits.clear();
        }
        commits.insert(commit.to_owned());
    }

    pub(super) fn contains(&self, commit: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(commit)
    }
}
