//! The definitions of Dynamo's kinds that a cluster serves.

use super::api_client::{ACCEPT_JSON, ACCEPT_METADATA, ApiUrl};
use super::connection::KubeConnection;
use crate::cluster::ClusterError;
use serde_json::Value;
use stator_core::dynamo::kinds::{self, GRAPH, ObjectKind};
use stator_core::dynamo::release::Definitions;
use std::sync::PoisonError;

/// Where kinds are defined.
pub(super) const CRD_KIND: ObjectKind = ObjectKind {
    group: "apiextensions.k8s.io",
    version: "v1",
    kind: "CustomResourceDefinition",
    plural: "customresourcedefinitions",
    short: "crd",
};

impl KubeConnection {
    /// The definitions of Dynamo's kinds, `None` where that of graphs may not be read. They are read once, and again when one
    /// of them has another resource version.
    pub(super) async fn definitions(&self) -> Result<Option<Definitions>, ClusterError> {
        let known = self.definitions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known {
            let heads = self.read_definitions(ACCEPT_METADATA).await?;
            if known.are_of(&heads) {
                return Ok(Some(known));
            }
        }
        let served = match Definitions::from_served(&self.read_definitions(ACCEPT_JSON).await?) {
            Ok(served) => Some(served),
            Err(error) => {
                tracing::info!(%error, "the definitions of the cluster are not those of a known Dynamo");
                None
            }
        };
        self.definitions.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&served);
        Ok(served)
    }

    async fn read_definitions(&self, accept: &str) -> Result<Vec<Value>, ClusterError> {
        let mut found = Vec::new();
        for kind in kinds::MANAGED.iter().filter(|kind| kind.group == GRAPH.group) {
            // What may not be read is as if it were not there: the release's own stands in.
            let url = ApiUrl::of_kind(&CRD_KIND, None).join(&format!("{}.{}", kind.plural, kind.group));
            match self.get_document("get", &CRD_KIND, &url, accept).await {
                Ok(definition) => found.extend(definition),
                Err(ClusterError::Forbidden { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}
