//! The administrators' policies: cluster-scoped objects, which are only ever read.

use super::api_client::{ACCEPT_JSON, ApiUrl};
use super::kube_cluster::KubeCluster;
use crate::cluster::ClusterError;
use serde::Deserialize;
use serde_json::Value;
use stator_core::dynamo::kinds::FLEET_POLICY;

#[derive(Deserialize)]
struct FleetPolicyList {
    items: Vec<Value>,
}

impl KubeCluster {
    /// All `FleetPolicy` objects; none where the cluster does not know the kind.
    ///
    /// # Errors
    /// When they cannot be read. Whoever may not list them is told so: an API server refuses that before it says whether
    /// it knows the kind, so discovery is asked then.
    pub async fn fleet_policies(&self) -> Result<Vec<Value>, ClusterError> {
        let url = ApiUrl::of_kind(&FLEET_POLICY, None);
        match self.inner.get_document::<FleetPolicyList>("list", &FLEET_POLICY, &url, ACCEPT_JSON).await {
            Ok(found) => {
                let (api_version, kind) = (FLEET_POLICY.api_version(), FLEET_POLICY.kind);
                let mut items = found.map_or_else(Vec::new, |found| found.items);
                // The items of a list do not say what they are.
                for item in items.iter_mut().filter_map(Value::as_object_mut) {
                    item.entry("apiVersion").or_insert_with(|| api_version.clone().into());
                    item.entry("kind").or_insert_with(|| kind.into());
                }
                Ok(items)
            }
            Err(refused @ ClusterError::Forbidden { .. }) => {
                self.inner.discovery.invalidate();
                let is_served = !self.served_versions(&FLEET_POLICY).await?.is_empty();
                if is_served { Err(refused) } else { Ok(Vec::new()) }
            }
            Err(error) => Err(error),
        }
    }
}
