//! The record in the cluster: an ApplySet's parent, its earlier form, and what it keeps of a model.

use super::world::*;
use crate::plan::{ObservedModelState, Record, RecordState, SyncState, UnreadableObject};
use serde_json::json;
use stator_core::dynamo::health::Health;
use stator_core::object::Object;

const DGD: &str = "DynamoGraphDeployment";

fn whole(record: &Record) -> Object {
    let (main, status) = record.to_object().unwrap();
    let mut whole = main.into_value();
    whole["status"] = status.into_value()["status"].take();
    Object::from_value(whole).unwrap()
}

/// What other tools see of a model: the parent, and the label of each member.
#[test]
fn a_model_is_an_apply_set() {
    let story = PlanScenario::synced([with_adapter(with_claim(small("llama"), "cache", "1Ti"), "llama-sql")]);
    let record = whole(&story.records["llama"]);
    let members: Vec<String> = ["PersistentVolumeClaim cache", "DynamoGraphDeployment llama", "DynamoModel llama-sql"]
        .iter()
        .map(|member| {
            let (kind, name) = member.split_once(' ').unwrap();
            let live = story.find(kind, name);
            format!("{member}: {}", live.labels()["applyset.kubernetes.io/part-of"])
        })
        .collect();
    let said = |pointer: &str| record.str_at(pointer).unwrap_or_default().to_owned();
    insta::assert_snapshot!([
        said("/metadata/labels/applyset.kubernetes.io~1id"),
        said("/metadata/annotations/applyset.kubernetes.io~1contains-group-kinds"),
        said("/metadata/annotations/applyset.kubernetes.io~1tooling").replace(env!("CARGO_PKG_VERSION"), "VERSION"),
        members.join("\n"),
    ].join("\n"), @r"
    applyset-lzoS4ZzJabuf8heYbNtNhBn6fKJGsoW5XC-v_oNNnxs-v1
    DynamoGraphDeployment.nvidia.com,DynamoModel.nvidia.com,PersistentVolumeClaim
    stator/VERSION
    PersistentVolumeClaim cache: applyset-lzoS4ZzJabuf8heYbNtNhBn6fKJGsoW5XC-v_oNNnxs-v1
    DynamoGraphDeployment llama: applyset-lzoS4ZzJabuf8heYbNtNhBn6fKJGsoW5XC-v_oNNnxs-v1
    DynamoModel llama-sql: applyset-lzoS4ZzJabuf8heYbNtNhBn6fKJGsoW5XC-v_oNNnxs-v1
    ");
    assert_eq!(said("/metadata/annotations/applyset.kubernetes.io~1additional-namespaces"), "");
}

#[test]
fn a_record_without_a_status_names_what_may_exist() {
    let story = PlanScenario::synced([with_claim(small("llama"), "cache", "1Ti")]);
    let record = &story.records["llama"];
    let mut object_only = whole(record).into_value();
    object_only.as_object_mut().unwrap().remove("status");
    let read = Record::from_object(&Object::from_value(object_only).unwrap()).unwrap();
    assert_eq!(read, record.to_pending_write(None));
    let pending: Vec<&str> = read.inventory.iter().map(|entry| entry.object.name.as_str()).collect();
    assert_eq!(pending, ["llama", "cache"]);
    assert!(read.inventory.iter().all(|entry| entry.uid.is_none() && entry.digest.is_empty()));
    assert!(read.inventory[0].prune && !read.inventory[1].prune);
}

/// An earlier stator kept these in `spec`, and no ApplySet.
#[test]
fn a_record_of_the_earlier_form_is_read_and_is_to_be_written_anew() {
    let story = PlanScenario::synced([small("llama")]);
    let record = &story.records["llama"];
    let mut old = whole(record).into_value();
    old["metadata"].as_object_mut().unwrap().remove("annotations");
    old["metadata"]["labels"].as_object_mut().unwrap().remove("applyset.kubernetes.io/id");
    old["spec"] = json!({"repository": "models", "environment": "prod", "source": record.source});
    let read = Record::from_object(&Object::from_value(old).unwrap()).unwrap();
    assert_eq!(read, Record { is_stale: true, ..record.clone() });
}

#[test]
fn a_model_whose_record_is_another_tools_is_neither_synced_nor_pruned() {
    let mut story = PlanScenario::synced([with_adapter(small("llama"), "llama-sql")]);
    let record = story.records.remove("llama").unwrap();
    let mut foreign = whole(&record).into_value();
    foreign["metadata"]["annotations"]["applyset.kubernetes.io/tooling"] = json!("kubectl/v1.36.3");
    let fault = Record::from_object(&Object::from_value(foreign).unwrap()).unwrap_err();
    story.damaged = vec![UnreadableObject {
        object: reference("Model", "llama"),
        message: fault.to_string(),
        is_foreign: fault.is_foreign(),
    }];
    story.rendered = vec![graph("llama", [worker("decode", 2, 1, "vllm:1.2.0")])];
    let plan = story.plan();
    insta::assert_snapshot!(show(&plan), @"
    Blocked llama DynamoGraphDeployment prod/llama none 1->1 peak 1
      - Model prod/llama is the parent of an ApplySet that `kubectl/v1.36.3` writes: two tools would prune each other's objects; delete that ApplySet with its own tool, or give the model another name
    Blocked llama DynamoModel prod/llama-sql none 0->0 peak 0
      - git no longer has it, but the model's record is damaged: delete it by hand
    warning[plan/damaged] : Model prod/llama is the parent of an ApplySet that `kubectl/v1.36.3` writes: two tools would prune each other's objects; delete that ApplySet with its own tool, or give the model another name
    warning[plan/leftover] models/llama/model.yaml: DynamoModel prod/llama-sql stays: git no longer has it, but the model's record is damaged: delete it by hand
    ");
    insta::assert_snapshot!(plan.findings[0].message, @"Model prod/llama is the parent of an ApplySet that `kubectl/v1.36.3` writes: two tools would prune each other's objects; delete that ApplySet with its own tool, or give the model another name");
}

/// A member's label that names another set: somebody else's tool prunes by it.
#[test]
fn an_object_of_another_apply_set_is_left_alone() {
    let mut story = PlanScenario::synced([small("llama")]);
    story.tamper(DGD, "llama", |value| {
        value["metadata"]["labels"]["applyset.kubernetes.io/part-of"] = json!("applyset-x-v1")
    });
    insta::assert_snapshot!(show(&story.plan()), @r"
    Blocked llama DynamoGraphDeployment prod/llama none 1->1 peak 1
      - belongs to another ApplySet (`applyset.kubernetes.io/part-of`): remove it from that one first
    ");
}

#[test]
fn what_an_older_stator_synced_gets_its_label_once() {
    let mut story = PlanScenario::synced([small("llama")]);
    story.tamper(DGD, "llama", |value| {
        for labels in ["/metadata/labels", "/metadata/managedFields/0/fieldsV1/f:metadata/f:labels"] {
            let labels = value.pointer_mut(labels).unwrap().as_object_mut().unwrap();
            labels.retain(|label, _| !label.ends_with("applyset.kubernetes.io/part-of"));
        }
    });
    insta::assert_snapshot!(show(&story.plan()), @r#"
    Update llama DynamoGraphDeployment prod/llama none 1->1 peak 1 [apply]
      metadata.labels["applyset.kubernetes.io/part-of"]: null -> "applyset-lzoS4ZzJabuf8heYbNtNhBn6fKJGsoW5XC-v_oNNnxs-v1" (stator)
      - adds the label by which other tools find the model's objects
    "#);
    story.sync();
}

#[test]
fn a_record_that_is_gone_is_a_reason_to_write() {
    let mut story = PlanScenario::synced([small("llama"), small("qwen")]);
    story.records.remove("llama");
    story.records.get_mut("qwen").unwrap().inventory[0].uid = None;
    insta::assert_snapshot!(show(&story.plan()), @"
    Keep llama DynamoGraphDeployment prod/llama none 1->1 peak 1
      - its record is missing; stator writes it again
    Keep qwen DynamoGraphDeployment prod/qwen none 1->1 peak 1
      - its record is incomplete; stator completes it
    ");
}

#[test]
fn the_record_keeps_the_intent_and_hides_what_looks_like_a_secret() {
    let mut story = PlanScenario::synced([small("llama")]);
    story.rendered[0].intent =
        json!({"model": "m", "env": {"HF_TOKEN": "hf_0123456789abcdef", "LOG_LEVEL": "info"}}).into();
    let plan = story.plan();
    insta::assert_snapshot!(plan.intents["llama"].to_text(), @r#"{"env":{"HF_TOKEN":"***","LOG_LEVEL":"info"},"model":"m"}"#);
    story.rendered[0].intent = json!({"model": "m", "env": {"LONG": "x".repeat(300 * 1024)}}).into();
    assert!(story.plan().intents["llama"].is_null(), "an object has a limit of its own");
}

#[test]
fn conditions_tell_what_a_waiting_tool_wants_to_know() {
    let mut state = None;
    let mut lines = Vec::new();
    for (time, sync, health, is_stuck) in [
        ("1", SyncState::Synced, Health::Progressing, false),
        ("2", SyncState::Synced, Health::Healthy, false),
        ("3", SyncState::Synced, Health::Healthy, false),
        ("4", SyncState::Synced, Health::Degraded, false),
        ("5", SyncState::Blocked, Health::Healthy, true),
        ("6", SyncState::Synced, Health::Failed, true),
        ("7", SyncState::OutOfSync, Health::Progressing, false),
        ("8", SyncState::Synced, Health::Suspended, false),
    ] {
        let seen = ObservedModelState {
            sync,
            health,
            is_stuck,
            message: format!("why {time}"),
            ..ObservedModelState::default()
        };
        let new = RecordState::new(seen, time, state.as_ref());
        let conditions: Vec<String> = new
            .conditions
            .iter()
            .map(|one| {
                format!(
                    "{}={} {} since {} [{}]",
                    one.kind, one.status, one.reason, one.last_transition_time, one.message
                )
            })
            .collect();
        lines.push(format!("{sync:?} {health}: {}", conditions.join("; ")));
        state = Some(new);
    }
    insta::assert_snapshot!(lines.join("\n"), @r"
    Synced Progressing: Ready=False Progressing since 1 [why 1]; Reconciling=True Progressing since 1 [why 1]; Stalled=False Progressing since 1 []
    Synced Healthy: Ready=True Healthy since 2 [why 2]; Reconciling=False Healthy since 2 []; Stalled=False Healthy since 1 []
    Synced Healthy: Ready=True Healthy since 2 [why 3]; Reconciling=False Healthy since 2 []; Stalled=False Healthy since 1 []
    Synced Degraded: Ready=False Degraded since 4 [why 4]; Reconciling=False Degraded since 2 []; Stalled=False Degraded since 1 []
    Blocked Healthy: Ready=False Blocked since 4 [why 5]; Reconciling=False Blocked since 2 []; Stalled=True Blocked since 5 [why 5]
    Synced Failed: Ready=False Failed since 4 [why 6]; Reconciling=False Failed since 2 []; Stalled=True Failed since 5 [why 6]
    OutOfSync Progressing: Ready=False OutOfSync since 4 [why 7]; Reconciling=True OutOfSync since 7 [why 7]; Stalled=False OutOfSync since 7 []
    Synced Suspended: Ready=True Suspended since 8 [why 8]; Reconciling=False Suspended since 8 []; Stalled=False Suspended since 7 []
    ");
}
