//! A cluster is read as one, or not at all.

use super::{FaultyCluster, graph, record};
use crate::cluster::ClusterError;
use crate::sync::{GatherError, GatheredState, gather};
use stator_core::object::ObjectRef;

async fn gather_shop(cluster: &FaultyCluster, wanted: &[ObjectRef]) -> Result<GatheredState, GatherError> {
    gather(cluster, "shop", "prod", "prod", wanted).await
}

fn unserved() -> ClusterError {
    ClusterError::UnknownKind { api_version: "nvidia.com/v1beta1".to_owned(), kind: "DynamoGraphDeployment".to_owned() }
}

const LIST_GRAPHS: &str = "list DynamoGraphDeployment by label";

#[tokio::test]
async fn wanted_objects_without_our_labels_are_looked_up() {
    let foreign = graph("foreign", false);
    let cluster = FaultyCluster::holding([graph("ours", true), foreign.clone(), graph("else", false)]);
    let found = gather_shop(&cluster, &[foreign.reference()]).await.unwrap();
    let names: Vec<&str> = found.live.iter().map(|object| object.name()).collect();
    assert_eq!(names, ["foreign", "ours"]);
}

#[tokio::test]
async fn records_of_others_are_given_too_since_a_plan_must_not_write_over_them() {
    let mut other = record("b");
    other.environment = "staging".to_owned();
    let objects = [record("a"), other].map(|record| record.to_object().unwrap().0);
    let found = gather_shop(&FaultyCluster::holding(objects), &[]).await.unwrap();
    let models: Vec<&str> = found.records.iter().map(|record| record.model.as_str()).collect();
    assert_eq!(models, ["a", "b"]);
    assert!(found.damaged.is_empty(), "{:?}", found.damaged);
}

#[tokio::test]
async fn a_kind_that_is_not_served_matters_only_where_it_is_wanted() {
    let cluster = || FaultyCluster::default().refusing(LIST_GRAPHS, [unserved()]);
    assert_eq!(gather_shop(&cluster(), &[]).await.unwrap().live, []);
    let error = gather_shop(&cluster(), &[graph("a", true).reference()]).await.unwrap_err();
    assert_eq!(error.cause, unserved());
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_for_a_moment_is_asked_for_again() {
    let busy = || ClusterError::transient("busy");
    let cluster = FaultyCluster::holding([graph("a", true)]).refusing(LIST_GRAPHS, [busy(), busy()]);
    assert_eq!(gather_shop(&cluster, &[]).await.unwrap().live.len(), 1);
    let cluster = FaultyCluster::holding([graph("a", true)]).refusing(LIST_GRAPHS, [busy(), busy(), busy()]);
    assert_eq!(gather_shop(&cluster, &[]).await.unwrap_err().cause, busy());
}

#[tokio::test]
async fn a_list_or_a_look_up_that_fails_for_good_leaves_nothing_to_plan_on() {
    for call in [LIST_GRAPHS, "list Model", "get DynamoGraphDeployment foreign"] {
        let wanted = graph("foreign", false);
        let cluster = FaultyCluster::holding([wanted.clone()]).refusing(call, [ClusterError::Fenced]);
        let error = gather_shop(&cluster, &[wanted.reference()]).await.unwrap_err();
        assert_eq!(error.cause, ClusterError::Fenced, "{call}");
    }
}

#[tokio::test]
async fn records_elsewhere_that_cannot_be_listed_are_no_reason_to_plan_nothing() {
    let cluster = FaultyCluster::default().refusing("list Model by label", [ClusterError::Fenced]);
    assert!(gather_shop(&cluster, &[]).await.unwrap().orphaned_records.is_empty());
}
