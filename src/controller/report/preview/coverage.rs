//! Which open pull requests are previewed: everybody who can open one has stator read it.

use stator_git::forge::PullRequest;
use std::collections::{BTreeMap, BTreeSet};

/// Open pull requests that are previewed where the source does not say how many.
pub const DEFAULT_PREVIEW_LIMIT: usize = 50;

/// Which open pull requests are previewed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PreviewCoverage {
    forks: bool,
    limit: usize,
    covered: BTreeSet<u64>,
}

/// Why a pull request is not previewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftOutReason {
    /// It comes from another repository.
    Fork,
    /// So many newer ones are open.
    TooMany(usize),
}

impl LeftOutReason {
    /// What its status says.
    pub(super) fn sentence(self) -> String {
        match self {
            Self::Fork => "not previewed: it comes from a fork; `spec.previewForks` allows them".to_owned(),
            Self::TooMany(limit) => {
                format!("not previewed: {limit} newer pull requests are open; `spec.previewLimit` raises the limit")
            }
        }
    }
}

impl PreviewCoverage {
    /// Before any is known.
    pub(super) fn new(forks: bool, limit: usize) -> Self {
        Self { forks, limit, covered: BTreeSet::new() }
    }

    /// Takes in all that are open: the newest are previewed. Gives those that are not.
    pub(super) fn take_stock(&mut self, open: &[PullRequest]) -> BTreeMap<u64, LeftOutReason> {
        let mut numbers: Vec<&PullRequest> = open.iter().collect();
        numbers.sort_unstable_by_key(|pull| std::cmp::Reverse(pull.number));
        self.covered.clear();
        numbers.into_iter().filter_map(|pull| Some((pull.number, self.judge(pull)?))).collect()
    }

    /// Whether one that is open is previewed, also where the list of all did not have it yet.
    pub(super) fn judge(&mut self, pull: &PullRequest) -> Option<LeftOutReason> {
        if pull.fork && !self.forks {
            return Some(LeftOutReason::Fork);
        }
        self.covered.insert(pull.number);
        if self.covered.len() <= self.limit {
            return None;
        }
        let oldest = self.covered.pop_first();
        (oldest == Some(pull.number)).then_some(LeftOutReason::TooMany(self.limit))
    }

    /// It is not open any more.
    pub(super) fn forget(&mut self, number: u64) {
        self.covered.remove(&number);
    }
}
