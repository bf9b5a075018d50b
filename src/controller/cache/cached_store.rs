//! All objects of one kind in one namespace, as one watch tells of them and our own writes do. No I/O.
//!
//! What is known has a version, a resource version as a number, and never goes back behind it: an answer to a write of our
//! own may come before the watch reports it, or long after the watch reported what came next. The watch tells of a kind
//! in
//! the order of versions, so two numbers decide: that of the object, and the one up to which the watch has reported
//! everything.

use stator_core::object::{CompressedText, Object, ObjectText};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

/// One object. A tree of it would take more than ten times as much memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CachedObject {
    /// Its resource version.
    pub(super) version: u64,
    pub(super) uid: Box<str>,
    /// Digests of its labels, each with its value: whoever looks for some need not read the text of all others.
    labels: Box<[u64]>,
    /// JSON, whole.
    text: CompressedText,
}

impl CachedObject {
    fn from_object(object: &Object, version: u64) -> Self {
        Self {
            version,
            uid: object.uid().unwrap_or_default().into(),
            labels: object.labels().iter().map(|(name, value)| label_digest(name, value)).collect(),
            text: CompressedText::of(&object.value().to_string()),
        }
    }

    /// The object, read again. `None` never happens: the text was written from one.
    pub(super) fn parse_object(&self) -> Option<Object> {
        serde_json::from_str(&self.text.to_text()).ok().and_then(|value| Object::from_value(value).ok())
    }

    /// The object as text, for who looks into few of many. `None` never happens here either.
    pub(super) fn indexed_text(&self) -> Option<ObjectText> {
        ObjectText::from_text(self.text.clone())
    }

    /// Whether it may have all these labels. Two labels may have one digest, so whoever reads it looks again.
    fn may_have(&self, wanted: &[u64]) -> bool {
        wanted.iter().all(|label| self.labels.contains(label))
    }
}

fn label_digest(name: &str, value: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (name, value).hash(&mut hasher);
    hasher.finish()
}

/// The objects of one kind.
#[derive(Debug, Default)]
pub(super) struct CachedObjectStore {
    objects: BTreeMap<Box<str>, Arc<CachedObject>>,
    /// Up to here the watch, or the list before it, has reported everything.
    version: u64,
    /// Uids of objects that we know to be gone and that the watch may still tell of, with the list during which we learned.
    gone: HashMap<Box<str>, u64>,
    /// The version of what last had a name and is known to be gone: whatever had that name before is older news, also under
    /// another uid. Kept until the watch has reported it.
    floors: HashMap<Box<str>, u64>,
    /// Objects that are not as we thought: whoever asks is to ask the cluster.
    stale: HashSet<Box<str>>,
    /// The list under way: its version, and the names that it showed.
    filling: Option<(u64, HashSet<Box<str>>)>,
    /// How many lists there were.
    lists: u64,
}

/// What came of taking something in, for those who watch.
#[derive(Debug, PartialEq)]
pub(super) enum StoreChange {
    /// Nothing that was not known.
    Unchanged,
    /// The object is another one now, or new.
    Changed,
    /// These are gone; their last states.
    Gone(Vec<Object>),
}

impl CachedObjectStore {
    /// A list begins.
    pub(super) fn begin_list(&mut self, version: u64) {
        if version < self.version {
            // Time went back: somebody restored the cluster's store. What the list shows is true, whatever its number.
            self.version = 0;
            self.gone.clear();
            self.floors.clear();
            self.objects
                .values_mut()
                .for_each(|kept| *kept = Arc::new(CachedObject { version: 0, ..CachedObject::clone(kept) }));
        }
        self.lists += 1;
        self.filling = Some((version, HashSet::new()));
    }

    /// A list shows an object.
    pub(super) fn apply_listed(&mut self, object: &Object, version: u64) -> StoreChange {
        if let Some((_, names)) = &mut self.filling {
            names.insert(object.name().into());
        }
        self.upsert_newer(object, version)
    }

    /// The list is whole: what it did not show is gone, unless we have written it since.
    pub(super) fn finish_list(&mut self) -> StoreChange {
        let Some((version, names)) = self.filling.take() else { return StoreChange::Unchanged };
        let lists = self.lists;
        // Who was known to be gone before the list began is not in it, and the watch after it tells nothing of it.
        self.gone.retain(|_, list| *list >= lists);
        self.version = self.version.max(version);
        self.floors.retain(|_, floor| *floor > self.version);
        let stale = |name: &str, kept: &CachedObject| kept.version <= version && !names.contains(name);
        let missing: Vec<Box<str>> =
            self.objects.iter().filter(|(name, kept)| stale(name, kept)).map(|(name, _)| name.clone()).collect();
        let gone: Vec<Object> = missing
            .iter()
            .filter_map(|name| self.objects.remove(name))
            .filter_map(|kept| kept.parse_object())
            .collect();
        if gone.is_empty() { StoreChange::Unchanged } else { StoreChange::Gone(gone) }
    }

    /// The watch tells of an object that is new or another one.
    pub(super) fn apply_watched(&mut self, object: &Object, version: u64) -> StoreChange {
        self.version = self.version.max(version);
        self.stale.remove(object.name());
        self.upsert_newer(object, version)
    }

    /// The watch tells that an object is gone, since that version.
    pub(super) fn apply_deleted(&mut self, object: &Object, version: u64) -> StoreChange {
        self.version = self.version.max(version);
        self.gone.remove(object.uid().unwrap_or_default());
        self.stale.remove(object.name());
        if self.floors.get(object.name()).is_some_and(|floor| *floor <= version) {
            self.floors.remove(object.name());
        }
        match self.objects.get(object.name()) {
            // One that we have made since is another one.
            Some(kept) if kept.version <= version => {
                self.objects.remove(object.name());
                StoreChange::Gone(vec![object.clone()])
            }
            Some(_) | None => StoreChange::Unchanged,
        }
    }

    /// The watch tells that nothing happened up to that version.
    pub(super) fn advance_version(&mut self, version: u64) {
        self.version = self.version.max(version);
    }

    /// The cluster answered with an object, to a write or a read of ours.
    pub(super) fn apply_response(&mut self, object: &Object, version: u64) {
        self.stale.remove(object.name());
        // The watch has already reported a later version, perhaps that the object was deleted.
        if version > self.version {
            self.upsert_newer(object, version);
        }
    }

    /// The cluster answered that the object of that uid is gone, or was not there any more.
    pub(super) fn mark_gone(&mut self, name: &str, uid: &str) {
        self.stale.remove(name);
        if uid.is_empty() || self.objects.get(name).is_none_or(|kept| *kept.uid != *uid) {
            return;
        }
        if let Some(kept) = self.objects.remove(name) {
            self.floors.insert(name.into(), kept.version);
            self.gone.insert(uid.into(), self.lists);
        }
    }

    /// The object is not as expected, and the watch has not reported its state yet.
    pub(super) fn mark_stale(&mut self, name: &str) {
        self.stale.insert(name.into());
    }

    /// Whether the cluster is to be asked for it.
    pub(super) fn is_stale(&self, name: &str) -> bool {
        self.stale.contains(name)
    }

    /// All that the cluster is to be asked for.
    pub(super) fn stale_names(&self) -> Vec<String> {
        self.stale.iter().map(ToString::to_string).collect()
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<CachedObject>> {
        self.objects.get(name).cloned()
    }

    /// What is known and the watch has not reported yet: the version of each object by uid, and what is gone.
    pub(super) fn unobserved_versions(&self) -> HashMap<Box<str>, u64> {
        let known = self.objects.values().filter(|kept| kept.version > self.version);
        let known = known.map(|kept| (kept.uid.clone(), kept.version));
        known.chain(self.gone.keys().map(|uid| (uid.clone(), u64::MAX))).collect()
    }

    /// Everything that may have these labels, by name.
    pub(super) fn select(&self, labels: &BTreeMap<String, String>) -> Vec<Arc<CachedObject>> {
        let wanted: Vec<u64> = labels.iter().map(|(name, value)| label_digest(name, value)).collect();
        self.objects.values().filter(|kept| kept.may_have(&wanted)).cloned().collect()
    }

    /// Everything: name, version, and whether it may have these labels.
    pub(super) fn for_each_version(&self, labels: &BTreeMap<String, String>, mut tell: impl FnMut(&str, u64, bool)) {
        let wanted: Vec<u64> = labels.iter().map(|(name, value)| label_digest(name, value)).collect();
        self.objects.iter().for_each(|(name, kept)| tell(name, kept.version, kept.may_have(&wanted)));
    }

    fn upsert_newer(&mut self, object: &Object, version: u64) -> StoreChange {
        let name = object.name();
        if object.uid().is_some_and(|uid| self.gone.contains_key(uid)) {
            return StoreChange::Unchanged;
        }
        if self.floors.get(name).is_some_and(|floor| version <= *floor) {
            return StoreChange::Unchanged;
        }
        // At the same version it is the same object, but for the restored store of `begins`.
        if self.objects.get(name).is_some_and(|kept| kept.version >= version) {
            return StoreChange::Unchanged;
        }
        self.objects.insert(name.into(), Arc::new(CachedObject::from_object(object, version)));
        StoreChange::Changed
    }
}

#[cfg(test)]
mod tests;
