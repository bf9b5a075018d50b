//! Pods, looked at only to say why something is not healthy.

use crate::cluster::Cluster;
use stator_core::dynamo::health::pods::LABEL_GRAPH;
use stator_core::dynamo::kinds;
use stator_core::object::{Object, ObjectRef};
use std::collections::BTreeMap;

/// The most graphs whose pods are looked at for one report. Where more than that wait, it is not for a cause of each.
const MAX_GRAPHS: usize = 20;

/// The pods of graphs, by the label of Dynamo's operator. Reading pods is a courtesy that a cluster may refuse, and one
/// that has none has nothing to say: whatever goes wrong, there are just fewer of them.
pub async fn list_graph_pods<C: Cluster>(cluster: &C, graphs: &[ObjectRef]) -> Vec<Object> {
    let mut found = Vec::new();
    for graph in graphs.iter().take(MAX_GRAPHS) {
        let labels = BTreeMap::from([(LABEL_GRAPH.to_owned(), graph.name.clone())]);
        match cluster.list(&kinds::POD, Some(&graph.namespace), &labels).await {
            Ok(pods) => found.extend(pods),
            Err(error) => {
                tracing::debug!(%error, "pods are not checked");
                break;
            }
        }
    }
    found
}
