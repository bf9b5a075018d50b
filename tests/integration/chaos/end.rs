//! The end, judged whole: what every commit was told, what the cluster holds, and what records say of it.

use super::site::{CONTEXT, Hands, PushedCommit, Site};
use crate::gitea::GiteaStatus;
use crate::testbed::eventually;
use stator_cluster::cluster::Cluster as _;
use stator_cluster::cluster::kube::{ConnectOptions, KubeCluster};
use stator_core::dynamo::health::Health;
use stator_core::dynamo::kinds;
use stator_core::object::Object;
use stator_model::plan::{Record, SyncState};
use std::collections::BTreeMap;

/// What is wrong with what the git host shows of a source's commits that were not judged yet.
pub fn wrong_verdicts(site: &Site) -> Vec<String> {
    let newest = site.pushed.last().unwrap();
    let mut wrong = Vec::new();
    for pushed in site.pushed.iter().skip(site.judged) {
        let statuses = site.statuses(&pushed.commit);
        let other: Vec<_> = statuses.iter().filter(|status| status.context != CONTEXT).collect();
        let fault = if other.is_empty() {
            fault_of(pushed, &statuses, pushed.commit == newest.commit)
        } else {
            Some("another context")
        };
        if let Some(fault) = fault {
            wrong.push(format!("{} {pushed:?}: {fault}: {statuses:#?}", site.name));
        }
    }
    wrong
}

/// A commit that was seen ends once: what failed may still succeed while it is the newest, and nothing follows a success.
fn fault_of(pushed: &PushedCommit, statuses: &[GiteaStatus], is_newest: bool) -> Option<&'static str> {
    // Overtaken before anybody saw it: the pushers wait for those that have to be seen.
    let last = statuses.last()?;
    let is_superseded = |status: &GiteaStatus| status.description.starts_with("superseded by ");
    let ends: Vec<&GiteaStatus> = statuses.iter().skip_while(|status| status.state == "pending").collect();
    let after_success: Vec<_> = ends.iter().skip_while(|status| status.state != "success").collect();
    if ends.is_empty() {
        Some("it never ended")
    } else if ends.iter().any(|status| status.state == "pending") {
        Some("it ended and began again")
    } else if after_success
        .iter()
        .any(|status| status.state != "success" || status.description != after_success[0].description)
    {
        Some("something followed its success")
    } else if ends[0].state != "success" && is_superseded(last) {
        Some("it failed, and was superseded afterwards")
    } else if pushed.is_hostile && last.state == "success" && !is_superseded(last) {
        Some("it is hostile and succeeded")
    } else if is_newest && (last.state != "success" || is_superseded(last)) {
        Some("it is the last one and did not succeed")
    } else {
        None
    }
}

/// What is wrong with what the cluster holds.
pub fn wrong_objects(hands: &Hands, sites: &[Site]) -> Vec<String> {
    hands.block_on(async {
        let options = ConnectOptions {
            kubeconfig: Some(hands.kubeconfig.clone()),
            context: Some("admin".to_owned()),
            ..ConnectOptions::default()
        };
        let cluster = KubeCluster::connect(options).await.unwrap();
        let mut found: BTreeMap<(&str, String, String), Object> = BTreeMap::new();
        let own = BTreeMap::from([(kinds::LABEL_MANAGED_BY.to_owned(), kinds::FIELD_MANAGER.to_owned())]);
        let everything = BTreeMap::new();
        for kind in kinds::ALL {
            // Everywhere: nothing is where no tenant is. A cluster has ConfigMaps and Services of its own.
            let labels = if kind.is_on_demand() { &own } else { &everything };
            // An API server that came back just now may say so for a while.
            let list = async || cluster.list(kind, None, labels).await.map_err(|error| move || error.to_string());
            for object in eventually(&format!("{} can be listed", kind.plural), list).await {
                found.insert((kind.kind, object.namespace().to_owned(), object.name().to_owned()), object);
            }
        }
        let mut wrong = Vec::new();
        for site in sites {
            for model in site.models() {
                let named = |kind: &'static str| (kind, site.namespace.clone(), model.clone());
                let (graph, record) = (found.remove(&named("DynamoGraphDeployment")), found.remove(&named("Model")));
                match (graph, record) {
                    (Some(graph), Some(record)) => {
                        wrong.extend(
                            fault_of_record(site, &graph, &record)
                                .map(|fault| format!("{model}: {fault}: {record:#?}")),
                        );
                    }
                    (graph, record) => {
                        wrong.push(format!("{model} has the graph {graph:#?}, and the record {record:#?}"))
                    }
                }
            }
        }
        wrong.extend(found.into_keys().map(|unexpected| format!("nobody wants {unexpected:?}")));
        wrong
    })
}

/// A record says what is there, of a commit that its source had, and nothing of a write that never came back.
fn fault_of_record(site: &Site, graph: &Object, object: &Object) -> Option<String> {
    let record = match Record::from_object(object) {
        Ok(record) => record,
        Err(error) => return Some(format!("it cannot be read: {error}")),
    };
    let [entry] = record.inventory.as_slice() else { return Some("it does not name one object".to_owned()) };
    let is_of_graph = entry.object.identity() == graph.reference().identity() && entry.uid.as_deref() == graph.uid();
    let state = record.state.as_ref().map(|state| (state.sync, state.health));
    if !is_of_graph || entry.generation != graph.generation() {
        Some(format!("it is not about {graph:#?}"))
    } else if record.has_stale_status() {
        Some("its status is about an earlier generation".to_owned())
    } else if state != Some((SyncState::Synced, Health::Healthy)) {
        Some(format!("it says {state:?}"))
    // What is sound of a hostile commit is synced, as of any other.
    } else if !site.pushed.iter().any(|pushed| pushed.commit == record.revision) {
        Some("it names no commit of its source".to_owned())
    } else {
        None
    }
}
