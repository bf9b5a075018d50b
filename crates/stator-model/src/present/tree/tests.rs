use super::*;
use crate::plan::{Action, ObjectStatus, SyncState};
use serde_json::json;
use stator_core::dynamo::health::Health;

fn object(kind: &str, name: &str, uid: &str, owner: &str, status: Value) -> OwnedObject {
    let mut metadata =
        json!({"name": name, "namespace": "prod", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"});
    if !owner.is_empty() {
        metadata["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Any", "name": "any", "uid": owner}]);
    }
    let value = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "status": status});
    OwnedObject::of(&Object::from_value(value).unwrap(), format!("{}s", kind.to_lowercase()))
}

fn model(objects: &[(&str, &str, Health)]) -> ModelStatus {
    let reference = |kind: &str, name: &str| ObjectRef {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace: "prod".to_owned(),
        name: name.to_owned(),
    };
    let objects = objects.iter().map(|(kind, name, health)| ObjectStatus {
        object: reference(kind, name),
        action: Action::Keep,
        health: *health,
        message: String::new(),
    });
    ModelStatus {
        name: "llama".to_owned(),
        namespace: "prod".to_owned(),
        source: "llama/model.yaml".to_owned(),
        sync: SyncState::Synced,
        health: Health::Progressing,
        is_lost: false,
        revision: String::new(),
        gpus: 0,
        gpu_sku: None,
        kind: String::new(),
        created: None,
        drift: Vec::new(),
        message: "worker has 1 of 2 replicas".to_owned(),
        last_sync: None,
        objects: objects.collect(),
    }
}

fn table(forest: &ObjectForest) -> String {
    forest_table(forest, "2026-01-01T03:00:00Z".parse().unwrap(), &TerminalOptions::default())
}

#[test]
fn what_controllers_made_is_below_what_it_was_made_for() {
    let model = model(&[
        ("PersistentVolumeClaim", "llama-cache", Health::Healthy),
        ("DynamoGraphDeployment", "llama", Health::Progressing),
    ]);
    let live = [
        object("PersistentVolumeClaim", "llama-cache", "c", "", json!({"phase": "Bound"})),
        object("DynamoGraphDeployment", "llama", "g", "", json!({})),
    ];
    let waiting = json!({
        "phase": "Pending",
        "conditions": [{"type": "Ready", "status": "False", "message": "containers with unready status"}],
        "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}],
    });
    let owned = [
        object("Pod", "llama-worker-1", "p1", "d2", waiting),
        object(
            "Pod",
            "llama-worker-0",
            "p0",
            "d2",
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
        ),
        object(
            "Deployment",
            "llama-worker",
            "d2",
            "w",
            json!({"conditions": [{"type": "Available", "status": "False", "message": "too few replicas"}]}),
        ),
        object("DynamoComponentDeployment", "llama-worker", "w", "g", json!({})),
        object("Pod", "another", "x", "y", json!({})),
    ];
    let forest = build_forest(&[model], &live, &owned, Vec::new());
    insta::assert_snapshot!(table(&forest), @"
    OBJECT                                          STATE         AGE  MESSAGE
    model/llama                                     Progressing   -    Synced: worker has 1 of 2 replicas
    ├── PersistentVolumeClaim/llama-cache           Healthy       3h   -
    └── DynamoGraphDeployment/llama                 Progressing   3h   -
        └── DynamoComponentDeployment/llama-worker  -             3h   -
            └── Deployment/llama-worker             NotAvailable  3h   too few replicas
                ├── Pod/llama-worker-0              Ready         3h   -
                └── Pod/llama-worker-1              NotReady      3h   ImagePullBackOff in container main: no such image
    ");
    insta::assert_snapshot!(forest_names(&forest), @"
    persistentvolumeclaim/prod/llama-cache
    dynamographdeployment/prod/llama
    dynamocomponentdeployment/prod/llama-worker
    deployment/prod/llama-worker
    pod/prod/llama-worker-0
    pod/prod/llama-worker-1
    ");
}

#[test]
fn what_could_not_be_looked_at_is_told() {
    let unlisted =
        |resource: &str| UnlistedResource { resource: resource.to_owned(), message: "eve may not".to_owned() };
    let forest = build_forest(&[model(&[])], &[], &[], vec![unlisted("pods"), unlisted("deployments.apps")]);
    insta::assert_snapshot!(table(&forest), @"
    OBJECT       STATE        AGE  MESSAGE
    model/llama  Progressing  -    Synced: worker has 1 of 2 replicas
    could not be listed, so objects may be missing: deployments.apps, pods (eve may not)
    ");
    let bare = TerminalOptions { rows_only: true, ..TerminalOptions::default() };
    assert!(!forest_table(&forest, jiff::Timestamp::UNIX_EPOCH, &bare).contains("pods"));
}

/// A cluster may hold anything: objects that own each other, and names that would move a terminal's cursor.
#[test]
fn circles_end_and_hostile_names_are_text() {
    let model = model(&[("DynamoGraphDeployment", "llama", Health::Healthy)]);
    let live = [object("DynamoGraphDeployment", "llama", "g", "b", json!({}))];
    let owned = [
        object("A", "\u{1b}[2Ja", "a", "g", json!({})),
        object("B", "b", "b", "a", json!({})),
        object("A", "again", "g", "b", json!({})),
    ];
    let forest = build_forest(&[model], &live, &owned, Vec::new());
    let text = table(&forest);
    assert!(text.lines().count() == 5 && !text.contains('\u{1b}'), "{text}");
    assert_eq!(uids_below(&["g".to_owned()].into(), &owned).len(), 3);
}

/// Owner references are anybody's to write: a tree of objects that all own each other is no larger than they are many.
#[test]
fn a_tree_is_never_larger_than_what_there_is() {
    let model = model(&[("DynamoGraphDeployment", "llama", Health::Healthy)]);
    let live = [object("DynamoGraphDeployment", "llama", "0", "", json!({}))];
    let uids: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    let of = |uid: &String| OwnedObject { owners: uids.clone(), ..object("ConfigMap", uid, uid, "", json!({})) };
    let owned: Vec<OwnedObject> = uids.iter().skip(1).map(of).collect();
    let forest = build_forest(&[model], &live, &owned, Vec::new());
    assert_eq!(forest_names(&forest).lines().count(), uids.len());
}

#[test]
fn a_state_is_what_an_objects_own_status_says() {
    let state = |kind: &str, status: Value| {
        let one = object(kind, "a", "a", "", status);
        format!("{} {}", one.state, one.message).trim().to_owned()
    };
    let condition =
        |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status, "message": "why"}]});
    assert_eq!(state("Job", condition("Complete", "True")), "Complete");
    assert_eq!(state("Job", condition("Failed", "True")), "Failed why");
    assert_eq!(state("Deployment", condition("Available", "False")), "NotAvailable why");
    assert_eq!(state("PersistentVolumeClaim", json!({"phase": "Bound"})), "Bound");
    assert_eq!(
        state("Pod", json!({"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False"}]})),
        "Succeeded"
    );
    assert_eq!(state("ConfigMap", json!({})), "");
    assert_eq!(state("Widget", json!({"phase": 3, "conditions": "none"})), "");
}

#[test]
fn what_is_below_something_that_may_not_be_seen_stays_in_the_tree() {
    let model = model(&[("DynamoGraphDeployment", "llama", Health::Healthy)]);
    let live = [object("DynamoGraphDeployment", "llama", "g", "", json!({}))];
    let owned = vec![
        object("PodCliqueSet", "llama", "s", "g", json!({})),
        object("PodClique", "llama-worker", "c", "s", json!({})),
        object("Pod", "llama-worker-0", "p", "c", json!({})),
    ];
    let visible = keep_visible(owned, |one| one.resource == "pods");
    let forest = build_forest(&[model], &live, &visible, Vec::new());
    assert_eq!(forest_names(&forest), "dynamographdeployment/prod/llama\npod/prod/llama-worker-0\n");
}

#[test]
fn owners_that_own_each_other_are_few() {
    let uids: Vec<String> = (0..40).map(|number| format!("c{number}")).chain(["g".to_owned()]).collect();
    let all = |uid: &str, kind: &str| OwnedObject { owners: uids.clone(), ..object(kind, uid, uid, "", json!({})) };
    let mut owned: Vec<OwnedObject> = uids[..40].iter().map(|uid| all(uid, "ConfigMap")).collect();
    owned.push(all("p", "Pod"));
    let visible = keep_visible(owned, |one| one.resource == "pods");
    assert_eq!((visible.len(), visible[0].owners.len()), (1, 41));
}
