//! In which order the sources of a namespace were created: policies of administrators limit how many there may be.

use super::resolved_source::{ResolvedSource, SourceKey};
use stator_model::fleet_policy::EarlierSource;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The sources of each namespace, the oldest first. Clones share one order.
#[derive(Clone, Debug, Default)]
pub struct SourceOrder(Arc<RwLock<BTreeMap<String, Vec<EarlierSource>>>>);

impl SourceOrder {
    /// Makes this the order: sources with the namespaces that they sync to, where they say so, the oldest first.
    pub fn set(&self, sources: impl IntoIterator<Item = (SourceKey, Option<String>)>) {
        let mut order: BTreeMap<String, Vec<EarlierSource>> = BTreeMap::new();
        for (key, destination) in sources {
            order.entry(key.namespace).or_default().push(EarlierSource { name: key.name, destination });
        }
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = order;
    }

    /// The same for sources of a file, in the order of the file.
    pub fn set_by_position(&self, sources: &[ResolvedSource]) {
        let mut all: Vec<&ResolvedSource> = sources.iter().collect();
        all.sort_by_key(|source| source.position);
        self.set(all.into_iter().map(|source| (source.key.clone(), source.named_destination())));
    }

    /// The sources of the same namespace that come before one; all others where it is not among them.
    pub fn before(&self, key: &SourceKey) -> Vec<EarlierSource> {
        let order = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let all = order.get(&key.namespace).into_iter().flatten();
        all.take_while(|one| one.name != key.name).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_come_after_those_that_are_older() {
        let order = SourceOrder::default();
        let key = |namespace: &str, name: &str| SourceKey::new(namespace, name);
        order.set([
            (key("a", "old"), None),
            (key("b", "other"), None),
            (key("a", "new"), Some("elsewhere".to_owned())),
            (key("a", "newest"), None),
        ]);
        let before = |name: &str| order.before(&key("a", name)).into_iter().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(before("old"), Vec::<String>::new());
        assert_eq!(before("newest"), ["old", "new"]);
        assert_eq!(before("unknown"), ["old", "new", "newest"]);
        assert!(order.before(&key("c", "old")).is_empty());
    }
}
