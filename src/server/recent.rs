//! What was seen lately, as far as it fits: the oldest go first, so that nobody can make this process forget all of it.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Entries of the last while.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    lifetime: Duration,
    most: usize,
    entries: Mutex<Entries<K, V>>,
}

#[derive(Debug)]
struct Entries<K, V> {
    by_key: HashMap<K, Entry<V>>,
    /// In the order in which they were kept, as numbers go up.
    order: BTreeMap<u64, K>,
    next: u64,
}

#[derive(Debug)]
struct Entry<V> {
    since: Instant,
    number: u64,
    value: V,
}

impl<K: Eq + Hash + Clone, V: Clone> Recent<K, V> {
    /// Of the last `lifetime`, and at most `most`.
    pub(super) fn new(lifetime: Duration, most: usize) -> Self {
        let entries = Entries { by_key: HashMap::new(), order: BTreeMap::new(), next: 0 };
        Self { lifetime, most, entries: Mutex::new(entries) }
    }

    fn entries(&self) -> MutexGuard<'_, Entries<K, V>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was kept, where that is not too long ago.
    pub(super) fn get(&self, key: &K, now: Instant) -> Option<V> {
        let entries = self.entries();
        let entry = entries.by_key.get(key).filter(|entry| now.duration_since(entry.since) < self.lifetime);
        entry.map(|entry| entry.value.clone())
    }

    /// Keeps something, in the place of what was kept before.
    pub(super) fn insert(&self, key: K, value: V, now: Instant) {
        let mut entries = self.entries();
        let number = entries.next;
        entries.next = entries.next.saturating_add(1);
        if let Some(old) = entries.by_key.insert(key.clone(), Entry { since: now, number, value }) {
            entries.order.remove(&old.number);
        }
        entries.order.insert(number, key);
        while entries.order.len() > self.most {
            let Some((_, oldest)) = entries.order.pop_first() else { break };
            entries.by_key.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_known_for_a_while_and_the_oldest_go_first() {
        let (lifetime, most) = (Duration::from_secs(3600), 100);
        let recent = Recent::new(lifetime, most);
        let start = Instant::now();
        let knows = |key: &str, now| recent.get(&key.to_owned(), now).is_some();
        assert!(!knows("a", start));
        recent.insert("a".to_owned(), (), start);
        assert!(knows("a", start + lifetime - Duration::from_secs(1)) && !knows("a", start + lifetime));
        for number in 0..most {
            recent.insert(number.to_string(), (), start);
        }
        assert!(!knows("a", start) && knows("0", start));
        recent.insert("0".to_owned(), (), start);
        recent.insert("new".to_owned(), (), start);
        assert!(knows("0", start) && !knows("1", start));
        assert_eq!(recent.entries().by_key.len(), most);
    }
}
