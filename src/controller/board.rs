//! What the server may know of the sources: who takes deliveries, and how each source stands.

use super::file::Source;
use super::hints::Hints;
use crate::source::model_source::ForgeKind;
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::watch;

/// How one source stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whether its repository was asked at least once, whatever came of it.
    pub looked: bool,
    /// The newest commit that was seen.
    pub seen: Option<String>,
    /// The commit that was last synced, well or not.
    pub attempted: Option<String>,
    /// The commit that was last synced well.
    pub applied: Option<String>,
    /// What is done now.
    pub phase: Phase,
    /// What is in the way, with what to do about it.
    pub problem: Option<String>,
}

/// What a source is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Waits for something to change.
    #[default]
    Idle,
    /// Fetches, reads and renders.
    Reading,
    /// Writes, or waits for health.
    Syncing,
    /// Pauses before it tries again.
    Retrying,
    /// No window is open.
    Window,
    /// `spec.suspend`.
    Suspended,
}

/// One source, as the server sees it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The host that its deliveries come from.
    pub forge: Option<ForgeKind>,
    /// What its deliveries are signed with; empty when it takes none.
    pub webhook: Option<SecretString>,
    /// Where its hints go.
    pub hints: Arc<Hints>,
    /// How it stands.
    pub standing: watch::Receiver<Standing>,
}

impl Entry {
    /// Of a source.
    pub fn new(source: &Source, hints: Arc<Hints>, standing: watch::Receiver<Standing>) -> Self {
        Self {
            name: source.name.clone(),
            forge: source.spec.forge.as_ref().map(|forge| forge.kind),
            webhook: source.secrets.webhook.as_ref().and_then(|secret| secret.text("token")),
            hints,
            standing,
        }
    }
}

/// All sources that run now. A file that changed replaces entries while the server goes on.
#[derive(Debug, Default)]
pub struct Board {
    entries: RwLock<BTreeMap<String, Entry>>,
}

impl Board {
    /// Puts a source up, in place of one of its name.
    pub fn put(&self, entry: Entry) {
        self.entries.write().unwrap_or_else(PoisonError::into_inner).insert(entry.name.clone(), entry);
    }

    /// Takes a source down.
    pub fn remove(&self, name: &str) {
        self.entries.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// The sources that take deliveries of a host, sorted by name; all, or the one of that name.
    pub fn receivers(&self, forge: ForgeKind, name: Option<&str>) -> Vec<Entry> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let takes = |entry: &&Entry| {
            entry.forge == Some(forge) && entry.webhook.is_some() && name.is_none_or(|name| entry.name == name)
        };
        entries.values().filter(takes).cloned().collect()
    }

    /// How every source stands, sorted by name.
    pub fn standings(&self) -> Vec<(String, Standing)> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.values().map(|entry| (entry.name.clone(), entry.standing.borrow().clone())).collect()
    }
}
