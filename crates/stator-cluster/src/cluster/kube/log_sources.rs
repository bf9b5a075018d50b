//! Whose output is read: the containers of the pods that were made for models.

use super::kube_cluster::KubeCluster;
use crate::cluster::{Cluster as _, ClusterError};
use stator_core::dynamo::health::pods::owner_label;
use stator_core::dynamo::kinds::{GRAPH, JOB, POD, REQUEST};
use stator_core::dynamo::pod_containers::{ContainerSelection, PodContainer, select_containers};
use stator_core::object::{Object, ObjectRef, ObjectText};
use stator_model::plan::{ModelStatus, graph_made_by};
use std::collections::{BTreeMap, BTreeSet};

/// An object that pods are made for: a graph, or a Job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodOwner {
    /// The model.
    pub model: String,
    /// The object.
    pub object: ObjectRef,
    /// What its pods are called, where no label of theirs says.
    pub component: Option<&'static str>,
}

impl PodOwner {
    /// Its pods, as their label names them.
    ///
    /// # Errors
    /// When pods cannot be listed.
    pub async fn pods(&self, cluster: &KubeCluster) -> Result<Vec<Object>, ClusterError> {
        let labels = BTreeMap::from([(owner_label(&self.object).to_owned(), self.object.name.clone())]);
        cluster.list(&POD, Some(&self.object.namespace), &labels).await
    }
}

/// A container whose output is read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogSource {
    /// The model.
    pub model: String,
    /// The container.
    pub container: PodContainer,
    /// What the pods of its owner are called, where no label says.
    pub default_component: Option<&'static str>,
}

impl LogSource {
    /// The component that the pod is of.
    pub fn component(&self) -> Option<&str> {
        self.container.component.as_deref().or(self.default_component)
    }
}

/// Which pods, and which containers of them.
#[derive(Clone, Debug)]
pub struct PodSelection {
    /// What the pods were made for.
    pub owners: BTreeSet<PodOwner>,
    /// Only pods of this component.
    pub component: Option<String>,
    /// Only the pod of this name.
    pub pod: Option<String>,
    /// Which containers.
    pub containers: ContainerSelection,
    /// The most containers.
    pub limit: usize,
}

/// What the pods of models are made for: their graphs and downloads, and what their requests made. `live` are their objects,
/// as the cluster holds them.
pub fn pod_owners<'a>(models: impl IntoIterator<Item = &'a ModelStatus>, live: &[ObjectText]) -> BTreeSet<PodOwner> {
    let live: BTreeMap<_, _> = live.iter().map(|text| (text.reference().identity(), text)).collect();
    let mut owners = BTreeSet::new();
    for model in models {
        let mut add = |object: ObjectRef, component| {
            owners.insert(PodOwner { model: model.name.clone(), object, component });
        };
        for object in model.objects.iter().map(|one| &one.object) {
            if object.kind == GRAPH.kind {
                add(object.clone(), None);
            } else if object.kind == JOB.kind {
                add(object.clone(), Some("download"));
            } else if object.kind == REQUEST.kind {
                let Some(request) = live.get(&object.identity()).map(|text| text.parse()) else { continue };
                if let Some(graph) = graph_made_by(&request) {
                    add(graph, None);
                }
                if let Some(name) = request.str_at("/status/profilingJobName").filter(|name| !name.is_empty()) {
                    let job = JOB.reference(&object.namespace, name);
                    add(job, Some("profiling"));
                }
            }
        }
    }
    owners
}

impl PodSelection {
    /// The names of the models.
    pub fn models(&self) -> Vec<&str> {
        let names: BTreeSet<&str> = self.owners.iter().map(|owner| owner.model.as_str()).collect();
        names.into_iter().collect()
    }

    /// The containers that there are now, sorted by model, pod and container.
    ///
    /// # Errors
    /// When pods cannot be listed.
    pub async fn find(&self, cluster: &KubeCluster) -> Result<Vec<LogSource>, ClusterError> {
        let mut found = Vec::new();
        for owner in &self.owners {
            let pods = owner.pods(cluster).await?;
            for pod in pods.iter().filter(|pod| self.pod.as_deref().is_none_or(|name| name == pod.name())) {
                let containers = select_containers(pod, &self.containers).into_iter();
                let sources = containers.map(|container| LogSource {
                    model: owner.model.clone(),
                    container,
                    default_component: owner.component,
                });
                let wanted = self.component.as_deref();
                found.extend(sources.filter(|source| wanted.is_none_or(|wanted| source.component() == Some(wanted))));
            }
        }
        found.sort_by(|one, other| {
            let key = |source: &LogSource| (source.model.clone(), source.container.pod.name.clone());
            key(one).cmp(&key(other))
        });
        Ok(found)
    }
}
