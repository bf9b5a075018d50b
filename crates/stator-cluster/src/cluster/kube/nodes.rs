//! The GPUs of a cluster's nodes.

use super::api_client::{ACCEPT_JSON, ApiUrl};
use super::kube_cluster::KubeCluster;
use crate::cluster::ClusterError;
use serde_json::Value;
use stator_core::dynamo::gpus::node_gpus;
use stator_core::dynamo::kinds::ObjectKind;
use std::collections::BTreeMap;

const NODES: ObjectKind = ObjectKind { group: "", version: "v1", kind: "Node", plural: "nodes", short: "no" };
/// Nodes of a page, and the most pages: fifteen thousand nodes are three times what Kubernetes is made for.
const PAGE_SIZE: &str = "500";
const MAX_PAGES: usize = 30;

impl KubeCluster {
    /// The GPUs that can be allocated, by SKU.
    ///
    /// # Errors
    /// When nodes may not be listed, or the server does not answer.
    pub async fn allocatable_gpus(&self) -> Result<BTreeMap<String, u64>, ClusterError> {
        let (mut gpus, mut next) = (BTreeMap::<String, u64>::new(), None::<String>);
        for _ in 0..MAX_PAGES {
            let mut url = ApiUrl::of_kind(&NODES, None).query("limit", PAGE_SIZE);
            if let Some(next) = &next {
                url = url.query("continue", next);
            }
            let page = self.inner.get_document::<Value>("list", &NODES, &url, ACCEPT_JSON).await?.unwrap_or_default();
            let nodes = page.get("items").and_then(Value::as_array).into_iter().flatten();
            for (sku, count) in nodes.filter_map(node_gpus) {
                let sum = gpus.entry(sku).or_default();
                *sum = sum.saturating_add(count);
            }
            next = page.pointer("/metadata/continue").and_then(Value::as_str).map(str::to_owned);
            if next.as_ref().is_none_or(String::is_empty) {
                break;
            }
        }
        Ok(gpus)
    }
}
