//! Which objects a list shows: all there are, or those that a part of an environment is about.

use crate::cluster::{Cluster, ClusterError};
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::object::{ObjectRef, ObjectText};
use std::collections::{BTreeMap, BTreeSet};

/// What lists by label, and of records, show of an environment's namespace. Look-ups of one object, lists of all there is,
/// and journals are outside of it.
#[derive(Clone, Debug, Default)]
pub struct ListScope {
    part: Option<ListedPart>,
}

#[derive(Clone, Debug)]
struct ListedPart {
    namespace: String,
    names: BTreeMap<ObjectKind, BTreeSet<String>>,
    /// The kinds listed on demand ([`ObjectKind::is_on_demand`]) that a look at everything would list because of what is left
    /// out of the part.
    named_kinds: BTreeSet<&'static str>,
}

impl ListScope {
    /// These objects of a namespace. `named_kinds` are the kinds listed on demand that something outside of the part names.
    pub fn part(
        namespace: &str,
        objects: impl IntoIterator<Item = (ObjectKind, String)>,
        named_kinds: BTreeSet<&'static str>,
    ) -> Self {
        let mut names: BTreeMap<ObjectKind, BTreeSet<String>> = BTreeMap::new();
        for (kind, name) in objects {
            names.entry(kind).or_default().insert(name);
        }
        Self { part: Some(ListedPart { namespace: namespace.to_owned(), names, named_kinds }) }
    }

    /// Whether lists show all there is.
    pub fn is_everything(&self) -> bool {
        self.part.is_none()
    }

    /// The same, and these objects.
    #[must_use]
    pub fn including<'a>(mut self, objects: impl IntoIterator<Item = &'a ObjectRef>) -> Self {
        if let Some(part) = &mut self.part {
            for object in objects {
                if let Some(kind) = kinds::by_name(&object.kind) {
                    part.names.entry(*kind).or_default().insert(object.name.clone());
                }
            }
        }
        self
    }

    /// The kinds listed on demand that something outside of the part names.
    pub(super) fn named_kinds(&self) -> impl Iterator<Item = &'static str> {
        self.part.iter().flat_map(|part| &part.named_kinds).copied()
    }

    /// As [`Cluster::list_texts`] of one namespace.
    pub(super) async fn list<C: Cluster>(
        &self,
        cluster: &C,
        kind: &ObjectKind,
        namespace: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<ObjectText>, ClusterError> {
        let is_whole = labels.is_empty() && *kind != kinds::RECORD;
        let Some(part) = self.part.as_ref().filter(|part| part.namespace == namespace && !is_whole) else {
            return cluster.list_texts(kind, Some(namespace), labels).await;
        };
        let mut found = Vec::new();
        for name in part.names.get(kind).into_iter().flatten() {
            let object = kind.reference(namespace, name);
            let object = cluster.get(&object).await?;
            found.extend(object.filter(|object| object.has_labels(labels)).map(ObjectText::from));
        }
        Ok(found)
    }
}
