//! What discovery found out of a server, until something turned out not to be there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// The versions of each kind of one API group.
pub(super) type ServedVersions = BTreeMap<String, BTreeSet<String>>;

/// What was found out, by group.
#[derive(Debug, Default)]
pub(super) struct DiscoveryCache(Mutex<BTreeMap<String, ServedVersions>>);

impl DiscoveryCache {
    pub(super) fn groups(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, ServedVersions>> {
        // Every change is one insert or one clear, so a panic elsewhere leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known may be old: something was not where it should be.
    pub(super) fn invalidate(&self) {
        self.groups().clear();
    }
}
