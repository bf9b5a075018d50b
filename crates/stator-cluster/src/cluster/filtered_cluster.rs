//! A cluster that lists only some objects: those that a look at a part of an environment is about.

use super::{ApplyRequest, ApplyResponse, Cluster, ClusterError, DeleteOutcome, Preconditions, WatchEvent};
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use stator_core::object::{Object, ObjectRef, ObjectText};
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::mpsc;

/// A cluster whose lists by label, and of records, show these objects alone. Everything else is the cluster's own: the
/// look-up of an object, a list of all there is and of journals, writes and watches.
#[derive(Clone, Debug)]
pub struct FilteredCluster<'a, C> {
    cluster: &'a C,
    namespace: &'a str,
    /// By kind; `None` for all there are.
    names: Option<BTreeMap<ObjectKind, BTreeSet<String>>>,
}

impl<'a, C: Cluster> FilteredCluster<'a, C> {
    /// Lists of that namespace show these; `None` for all there are.
    pub fn new(cluster: &'a C, namespace: &'a str, shown: Option<&BTreeSet<(ObjectKind, String)>>) -> Self {
        let names = shown.map(|shown| {
            let mut names: BTreeMap<ObjectKind, BTreeSet<String>> = BTreeMap::new();
            for (kind, name) in shown {
                names.entry(*kind).or_default().insert(name.clone());
            }
            names
        });
        Self { cluster, namespace, names }
    }

    /// Shows these as well.
    pub fn include<'b>(&mut self, objects: impl IntoIterator<Item = &'b ObjectRef>) {
        let Some(names) = &mut self.names else { return };
        for object in objects {
            if let Some(kind) = kinds::by_name(&object.kind) {
                names.entry(*kind).or_default().insert(object.name.clone());
            }
        }
    }
}

impl<C: Cluster> FilteredCluster<'_, C> {
    /// The names that a list shows; `None` where it shows all there are.
    fn shown_names(
        &self,
        namespace: Option<&str>,
        kind: &ObjectKind,
        labels: &BTreeMap<String, String>,
    ) -> Option<Option<&BTreeSet<String>>> {
        let everything = labels.is_empty() && *kind != kinds::RECORD;
        let names = self.names.as_ref().filter(|_| namespace == Some(self.namespace) && !everything)?;
        Some(names.get(kind))
    }

    async fn read_shown(
        &self,
        kind: &ObjectKind,
        names: Option<&BTreeSet<String>>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Object>, ClusterError> {
        let mut found = Vec::new();
        for name in names.into_iter().flatten() {
            let object = ObjectRef {
                api_version: kind.api_version(),
                kind: kind.kind.to_owned(),
                namespace: self.namespace.to_owned(),
                name: name.clone(),
            };
            let object = self.cluster.get(&object).await?;
            found.extend(object.filter(|object| object.has_labels(labels)));
        }
        Ok(found)
    }
}

impl<C: Cluster> Cluster for FilteredCluster<'_, C> {
    fn describe(&self) -> String {
        self.cluster.describe()
    }

    async fn platform(&self, stated: &Platform) -> Result<Platform, ClusterError> {
        self.cluster.platform(stated).await
    }

    async fn list(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Object>, ClusterError> {
        match self.shown_names(namespace, kind, labels) {
            Some(names) => self.read_shown(kind, names, labels).await,
            None => self.cluster.list(kind, namespace, labels).await,
        }
    }

    async fn list_texts(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<ObjectText>, ClusterError> {
        match self.shown_names(namespace, kind, labels) {
            Some(names) => {
                let found = self.read_shown(kind, names, labels).await?;
                Ok(found.into_iter().map(ObjectText::from).collect())
            }
            None => self.cluster.list_texts(kind, namespace, labels).await,
        }
    }

    async fn get(&self, object: &ObjectRef) -> Result<Option<Object>, ClusterError> {
        self.cluster.get(object).await
    }

    async fn apply(&self, request: &ApplyRequest) -> Result<ApplyResponse, ClusterError> {
        self.cluster.apply(request).await
    }

    async fn delete(&self, object: &ObjectRef, preconditions: &Preconditions) -> Result<DeleteOutcome, ClusterError> {
        self.cluster.delete(object, preconditions).await
    }

    async fn served_models(&self, frontend: &FrontendService) -> FrontendAnswer {
        self.cluster.served_models(frontend).await
    }

    async fn watch(
        &self,
        kinds: &[ObjectKind],
        namespace: Option<&str>,
    ) -> Result<mpsc::Receiver<WatchEvent>, ClusterError> {
        self.cluster.watch(kinds, namespace).await
    }
}
