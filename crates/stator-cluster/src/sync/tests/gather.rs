//! A cluster is read as one, or not at all.

use super::{FaultyCluster, graph, record};
use crate::cluster::ClusterError;
use crate::sync::{GatherError, GatheredState, gather};
use stator_core::dynamo::kinds::{CLAIM, CONFIG_MAP, JOB};
use stator_core::object::ObjectRef;
use stator_model::plan::{InventoryEntry, UnlistedCause};

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
    assert!(gather_shop(&cluster, &[]).await.unwrap().strays.is_empty());
}

const LIST_CONFIG_MAPS: &str = "list ConfigMap by label";

fn forbidden() -> ClusterError {
    ClusterError::Forbidden { message: "configmaps is forbidden".to_owned(), fix: "grant `list`".to_owned() }
}

#[tokio::test]
async fn config_maps_are_listed_only_where_something_names_one() {
    let calls = |cluster: &FaultyCluster| cluster.calls().contains(&LIST_CONFIG_MAPS.to_owned());
    let cluster = FaultyCluster::holding([record("a").to_object().unwrap().0]);
    gather_shop(&cluster, &[graph("a", true).reference()]).await.unwrap();
    assert!(!calls(&cluster), "{:?}", cluster.calls());

    let mut naming = record("a");
    naming.inventory = vec![InventoryEntry::pending(CONFIG_MAP.reference("prod", "a-file"), true)];
    for (objects, wanted) in
        [(vec![], vec![CONFIG_MAP.reference("prod", "a-file")]), (vec![naming.to_object().unwrap().0], vec![])]
    {
        let cluster = FaultyCluster::holding(objects);
        gather_shop(&cluster, &wanted).await.unwrap();
        assert!(calls(&cluster), "{:?}", cluster.calls());
    }
}

#[tokio::test]
async fn a_kind_that_may_not_be_listed_is_said_where_it_is_needed_and_looked_up_nowhere() {
    for kind in [CONFIG_MAP, CLAIM, JOB] {
        let call = format!("list {} by label", kind.kind);
        let cluster = FaultyCluster::holding([graph("a", true)]).refusing(&call, [forbidden()]);
        let found = gather_shop(&cluster, &[]).await.unwrap();
        assert_eq!((found.live.len(), found.unlisted), (1, Vec::new()), "{}", kind.kind);

        let cluster = FaultyCluster::holding([graph("a", true)]).refusing(&call, [forbidden()]);
        let found = gather_shop(&cluster, &[kind.reference("prod", "x")]).await.unwrap();
        assert_eq!(found.live.len(), 1);
        let [unlisted] = &found.unlisted[..] else { panic!("{:?}", found.unlisted) };
        assert_eq!(unlisted.kind, kind);
        assert!(matches!(unlisted.cause, UnlistedCause::Forbidden { .. }), "{unlisted:?}");
        assert!(!cluster.calls().iter().any(|call| call.starts_with("get ")), "{:?}", cluster.calls());
    }
}
