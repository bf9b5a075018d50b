//! The real side: stator's own client, and plain merge patches beside it.

use super::compare::{Answer, Shown, without_items};
use super::sides::Side;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::Value;
use stator_cluster::cluster::kube::{ConnectOptions, KubeCluster};
use stator_core::dynamo::kinds;
use stator_core::object::{Object, ObjectRef};

use crate::testbed::ControlPlane;

pub struct Real {
    kube: KubeCluster,
    client: kube::Client,
    pub namespace: String,
}

impl Real {
    /// The control plane of this test process, in a namespace of one test.
    pub async fn of(plane: &ControlPlane, namespace: &str) -> Self {
        let options = ConnectOptions { kubeconfig: Some(plane.kubeconfig()), ..ConnectOptions::default() };
        Self {
            kube: KubeCluster::connect(options).await.unwrap(),
            client: plane.admin().await,
            namespace: plane.namespace(namespace).await,
        }
    }
}

impl Side for Real {
    type Cluster = KubeCluster;

    const PROTECTS_CLAIMS: bool = true;

    fn cluster(&self) -> &KubeCluster {
        &self.kube
    }

    async fn merge(&self, object: &ObjectRef, manager: &'static str, patch: &Value, status: bool) -> Answer {
        let kind = kinds::by_name(&object.kind).unwrap();
        let resource = ApiResource {
            group: kind.group.to_owned(),
            version: kind.version.to_owned(),
            api_version: kind.api_version(),
            kind: kind.kind.to_owned(),
            plural: kind.plural.to_owned(),
        };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &object.namespace, &resource);
        let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(patch);
        let answer = if status {
            api.patch_status(&object.name, &params, &patch).await
        } else {
            api.patch(&object.name, &params, &patch).await
        };
        match answer {
            Ok(object) => {
                let object = Object::from_value(serde_json::to_value(object).unwrap()).unwrap();
                Answer::Merged(Box::new(Shown::of(&object)))
            }
            Err(kube::Error::Api(status)) => refused(&status),
            Err(error) => panic!("{error}"),
        }
    }
}

fn refused(status: &kube::core::Status) -> Answer {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    match status.code {
        404 => Answer::Absent,
        409 => Answer::Precondition,
        403 => Answer::Denied,
        422 => Answer::invalid(causes.map(|cause| match cause.field.as_str() {
            "<nil>" => String::new(),
            field => without_items(&keys_as_fields(field)),
        })),
        _ => Answer::Other(status.message.clone()),
    }
}

/// `spec.resources[storage]` is a key of a map, not an item of a list.
fn keys_as_fields(path: &str) -> String {
    path.replace("[storage]", ".storage")
}
