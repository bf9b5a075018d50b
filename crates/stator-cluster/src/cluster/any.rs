//! Either implementation of a cluster, chosen at run time.

use super::embedded::EmbeddedCluster;
use super::kube::{KubeCluster, OwnedObjects};
use super::{ApplyRequest, ApplyResponse, Cluster, ClusterError, DeleteOutcome, Fence, Preconditions, WatchReceiver};
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use stator_core::object::{Object, ObjectRef, ObjectText};
use stator_model::present::tree::{OwnedObject, UnlistedResource};
use std::collections::{BTreeMap, BTreeSet};

/// A cluster of either kind; clones share one and the same.
#[derive(Clone, Debug)]
pub enum AnyCluster {
    /// A folder of files.
    Embedded(EmbeddedCluster),
    /// A Kubernetes API server.
    Kubernetes(KubeCluster),
}

impl AnyCluster {
    /// The Kubernetes cluster, when it is one.
    pub fn as_kubernetes(&self) -> Option<&KubeCluster> {
        match self {
            Self::Kubernetes(cluster) => Some(cluster),
            Self::Embedded(_) => None,
        }
    }

    /// The `FleetPolicy` objects of the cluster, as they are; none where it does not know the kind.
    ///
    /// # Errors
    /// When they cannot be read, by whoever asks.
    pub async fn fleet_policies(&self) -> Result<Vec<serde_json::Value>, ClusterError> {
        match self {
            Self::Kubernetes(cluster) => cluster.fleet_policies().await,
            Self::Embedded(cluster) => cluster.fleet_policies().await,
        }
    }

    /// The same cluster, which reaches one namespace only. The embedded one is one tenant's.
    pub fn in_namespace(&self, namespace: &str) -> Self {
        match self {
            Self::Kubernetes(cluster) => Self::Kubernetes(cluster.in_namespace(namespace)),
            Self::Embedded(cluster) => Self::Embedded(cluster.clone()),
        }
    }

    /// The same cluster, whose frontends are asked what they serve, or are not. The embedded one knows without asking.
    pub fn with_frontends_asked(&self, asked: bool) -> Self {
        match self {
            Self::Kubernetes(cluster) => Self::Kubernetes(cluster.with_frontends_asked(asked)),
            Self::Embedded(cluster) => Self::Embedded(cluster.clone()),
        }
    }

    /// The same cluster, whose writes ask a fence first. The embedded one is one process's, and asks nobody.
    pub fn with_fence(&self, fence: Fence) -> Self {
        match self {
            Self::Kubernetes(cluster) => Self::Kubernetes(cluster.with_fence(fence)),
            Self::Embedded(cluster) => Self::Embedded(cluster.clone()),
        }
    }
}

impl From<EmbeddedCluster> for AnyCluster {
    fn from(cluster: EmbeddedCluster) -> Self {
        Self::Embedded(cluster)
    }
}

impl From<KubeCluster> for AnyCluster {
    fn from(cluster: KubeCluster) -> Self {
        Self::Kubernetes(cluster)
    }
}

impl AnyCluster {
    /// The names of a kind's objects in a namespace. Of the embedded cluster no object is read for it.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn names(&self, kind: &ObjectKind, namespace: &str) -> Result<Vec<String>, ClusterError> {
        match self {
            Self::Embedded(cluster) => cluster.names(kind, namespace).await,
            Self::Kubernetes(cluster) => {
                let listed = cluster.list_texts(kind, Some(namespace), &BTreeMap::new()).await?;
                Ok(listed.iter().map(|object| object.name().to_owned()).collect())
            }
        }
    }

    /// The objects of a namespace that are owned by these, and by what those own.
    ///
    /// # Errors
    /// When the API server does not say which kinds there are.
    pub async fn objects_below(&self, namespace: &str, roots: &[OwnedObject]) -> Result<OwnedObjects, ClusterError> {
        let roots: BTreeSet<String> = roots.iter().map(|one| one.uid.clone()).filter(|uid| !uid.is_empty()).collect();
        match self {
            Self::Kubernetes(_) if roots.is_empty() => Ok(OwnedObjects::default()),
            Self::Kubernetes(cluster) => cluster.owned_objects(namespace, &roots).await,
            Self::Embedded(cluster) => {
                let mut found = OwnedObjects::default();
                for kind in kinds::ALL {
                    let resource = kind.resource();
                    match cluster.list_texts(kind, Some(namespace), &BTreeMap::new()).await {
                        Ok(all) => found
                            .objects
                            .extend(all.iter().map(|text| OwnedObject::of(&text.parse(), resource.clone()))),
                        Err(error) => found.unlisted.push(UnlistedResource { resource, message: error.to_string() }),
                    }
                }
                Ok(found)
            }
        }
    }
}

impl Cluster for AnyCluster {
    fn describe(&self) -> String {
        match self {
            Self::Embedded(cluster) => cluster.describe(),
            Self::Kubernetes(cluster) => cluster.describe(),
        }
    }

    async fn platform(&self, stated: &Platform) -> Result<Platform, ClusterError> {
        match self {
            Self::Embedded(cluster) => cluster.platform(stated).await,
            Self::Kubernetes(cluster) => cluster.platform(stated).await,
        }
    }

    async fn list(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Object>, ClusterError> {
        match self {
            Self::Embedded(cluster) => cluster.list(kind, namespace, labels).await,
            Self::Kubernetes(cluster) => cluster.list(kind, namespace, labels).await,
        }
    }

    async fn list_texts(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<ObjectText>, ClusterError> {
        match self {
            Self::Embedded(cluster) => cluster.list_texts(kind, namespace, labels).await,
            Self::Kubernetes(cluster) => cluster.list_texts(kind, namespace, labels).await,
        }
    }

    async fn get(&self, object: &ObjectRef) -> Result<Option<Object>, ClusterError> {
        match self {
            Self::Embedded(cluster) => cluster.get(object).await,
            Self::Kubernetes(cluster) => cluster.get(object).await,
        }
    }

    async fn apply(&self, request: &ApplyRequest) -> Result<ApplyResponse, ClusterError> {
        match self {
            Self::Embedded(cluster) => cluster.apply(request).await,
            Self::Kubernetes(cluster) => cluster.apply(request).await,
        }
    }

    async fn delete(&self, object: &ObjectRef, preconditions: &Preconditions) -> Result<DeleteOutcome, ClusterError> {
        match self {
            Self::Embedded(cluster) => cluster.delete(object, preconditions).await,
            Self::Kubernetes(cluster) => cluster.delete(object, preconditions).await,
        }
    }

    async fn served_models(&self, frontend: &FrontendService) -> FrontendAnswer {
        match self {
            Self::Embedded(cluster) => cluster.served_models(frontend).await,
            Self::Kubernetes(cluster) => cluster.served_models(frontend).await,
        }
    }

    async fn watch(&self, kinds: &[ObjectKind], namespace: Option<&str>) -> Result<WatchReceiver, ClusterError> {
        match self {
            Self::Embedded(cluster) => cluster.watch(kinds, namespace).await,
            Self::Kubernetes(cluster) => cluster.watch(kinds, namespace).await,
        }
    }
}
