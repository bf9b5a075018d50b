//! Pods, looked at only to say why something is not healthy.

use crate::cluster::Cluster;
use stator_core::dynamo::health::pods::owner_label;
use stator_core::dynamo::kinds;
use stator_core::object::{Object, ObjectRef};
use std::collections::BTreeMap;

/// The most graphs and downloads whose pods are looked at for one report. Where more than that wait, it is not for a cause of each.
const MAX_OWNERS: usize = 20;

/// The pods of graphs and Jobs, by the labels of those who make them. Reading pods is a courtesy that a cluster may refuse, and one
/// that has none has nothing to say: whatever goes wrong, there are just fewer of them.
pub async fn list_pods<C: Cluster>(cluster: &C, owners: &[ObjectRef]) -> Vec<Object> {
    let mut found = Vec::new();
    for owner in owners.iter().take(MAX_OWNERS) {
        let labels = BTreeMap::from([(owner_label(owner).to_owned(), owner.name.clone())]);
        match cluster.list(&kinds::POD, Some(&owner.namespace), &labels).await {
            Ok(pods) => found.extend(pods),
            Err(error) => {
                tracing::debug!(%error, "pods are not checked");
                break;
            }
        }
    }
    found
}
