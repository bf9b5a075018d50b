//! Records as objects, status, comparison of revisions, and the shape of the JSON.

use super::world::*;
use crate::intent::{BrokenIntent, UnreadCause, UnreadPlace};
use crate::plan::{
    InventoryEntry, ModelStatusContext, ObservedModelState, Record, RecordState, RevisionComparison, compare_revisions,
    model_statuses,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use stator_core::object::Object;

const DGD: &str = "DynamoGraphDeployment";

#[test]
fn a_record_becomes_an_object_and_comes_back() {
    let story = PlanScenario::synced([with_claim(small("llama"), "cache", "1Ti")]);
    let record = &story.records["llama"];
    let (main, status) = record.to_object().unwrap();
    let mut whole = main.into_value();
    whole["status"] = status.into_value()["status"].take();
    assert_eq!(whole["status"]["inventory"][1]["kind"], "PersistentVolumeClaim");
    assert_eq!(whole["metadata"]["labels"]["stator.dev/repository"], "models");
    assert_eq!(&Record::from_object(&Object::from_value(whole).unwrap()).unwrap(), record);
}

#[test]
fn a_damaged_record_says_where() {
    let story = PlanScenario::synced([small("llama")]);
    let (main, status) = story.records["llama"].to_object().unwrap();
    let read = |change: &dyn Fn(&mut Value)| {
        let mut whole = main.clone().into_value();
        whole["status"] = status.clone().into_value()["status"].take();
        change(&mut whole);
        match Record::from_object(&Object::from_value(whole).unwrap()) {
            Ok(_) => "fine".to_owned(),
            Err(fault) => fault.to_string(),
        }
    };
    let said = [
        read(&|value| value["status"]["inventory"][0]["digest"] = json!(7)),
        read(&|value| value["status"] = json!("x")),
        read(&|value| drop(value["metadata"]["annotations"].as_object_mut().unwrap().remove("stator.dev/source"))),
        read(&|value| value["metadata"]["annotations"]["stator.dev/objects"] = json!("[{}]")),
        read(&|value| drop(value["metadata"].as_object_mut().unwrap().remove("labels"))),
        read(&|value| value["metadata"]["name"] = json!("copy")),
        read(&|value| value["metadata"]["annotations"]["applyset.kubernetes.io/tooling"] = json!("kubectl/v1.36.3")),
        read(&|value| value["kind"] = json!("Secret")),
        read(&|value| value["status"] = Value::Null),
    ];
    insta::assert_snapshot!(said.join("\n"), @r"
    Model prod/llama: `status.inventory[0]` cannot be read: invalid type: integer `7`, expected a string; correct it, or delete the record if the model is still in git
    Model prod/llama: `status` cannot be read: expected a map, found a string; correct it, or delete the record if the model is still in git
    Model prod/llama: `metadata.annotations[stator.dev/source]` cannot be read: it is missing; correct it, or delete the record if the model is still in git
    Model prod/llama: `metadata.annotations[stator.dev/objects]` cannot be read: missing field `apiVersion` at line 1 column 3; correct it, or delete the record if the model is still in git
    Model prod/llama: `metadata.labels[stator.dev/repository]` cannot be read: it is missing; correct it, or delete the record if the model is still in git
    Model prod/copy carries the label `applyset.kubernetes.io/id: applyset-lzoS4ZzJabuf8heYbNtNhBn6fKJGsoW5XC-v_oNNnxs-v1`, which is that of another object: it is a copy and is ignored; delete it
    Model prod/llama is the parent of an ApplySet that `kubectl/v1.36.3` writes: two tools would prune each other's objects; delete that ApplySet with its own tool, or give the model another name
    Secret prod/llama is not a Model of stator.dev: leave it out
    fine
    ");
}

#[test]
fn status_tells_drift_from_a_change_in_git() {
    let mut story = PlanScenario::synced([small("llama"), small("qwen"), small("held")]);
    story.tamper(DGD, "llama", |value| value["spec"]["components"][1]["replicas"] = json!(7));
    story.rendered[1] = graph("qwen", [worker("decode", 2, 1, "vllm:1.2.0")]);
    story.edit("kubectl-edit", DGD, "held", |value| value["spec"]["components"][1]["replicas"] = json!(4));
    let input = story.input();
    let lines: Vec<String> = model_statuses(&input, &story.plan(), &ModelStatusContext::default())
        .iter()
        .map(|model| {
            let json = serde_json::to_value(model).unwrap();
            format!(
                "{} {} {} {} {} {}",
                json["name"], json["sync"], json["health"], json["gpus"], json["drift"], json["message"]
            )
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    "held" "Blocked" "Unknown" 4 [{"have":4,"object":"DynamoGraphDeployment prod/held","owner":"kubectl-edit","path":"spec.components[name=decode].replicas","want":1}] "held: spec.components[name=decode].replicas: owned by kubectl-edit; write its value into the intent, or name kubectl-edit in `spec.takeOver` to take it back"
    "llama" "OutOfSync" "Unknown" 7 [{"have":7,"object":"DynamoGraphDeployment prod/llama","owner":"","path":"spec.components[name=decode].replicas","want":1}] "the operator has not observed it yet"
    "qwen" "OutOfSync" "Unknown" 1 [] "the operator has not observed it yet"
    "#);
}

#[test]
fn the_worst_object_is_the_models_health() {
    let mut story = PlanScenario::synced([with_adapter(small("llama"), "llama-sql")]);
    story.tamper(DGD, "llama", |value| {
        value["status"] = json!({"observedGeneration": 1, "state": "successful",
            "conditions": [{"type": "Ready", "status": "True"}]});
    });
    let models = model_statuses(&story.input(), &story.plan(), &ModelStatusContext::default());
    insta::assert_snapshot!(format!("{} {}: {}", models[0].health, models[0].kind, models[0].message), @"Unknown DynamoGraphDeployment: llama-sql: the operator has not observed it yet");
}

#[test]
fn two_revisions_are_compared_without_a_cluster() {
    let base = [small("gone"), small("same"), graph("llama", [worker("decode", 2, 4, "vllm:1.2.0")])];
    let head = [small("same"), graph("llama", [worker("decode", 3, 4, "vllm:1.2.1")]), small("new")];
    let comparison = RevisionComparison {
        base: &texts(&base),
        head: &texts(&head),
        base_revision: "aaa",
        head_revision: "bbb",
        ..RevisionComparison::default()
    };
    let plan = compare_revisions(&comparison);
    insta::assert_snapshot!(show(&plan), @r#"
    Update llama DynamoGraphDeployment prod/llama managed-roll 8->12 peak 16
      spec.components[name=decode].podTemplate.spec.containers[name=main].image: "vllm:1.2.0" -> "vllm:1.2.1" (stator)
      spec.components[name=decode].replicas: 2 -> 3 (stator)
    Create new DynamoGraphDeployment prod/new none 0->1 peak 1
      - is new
      - takes the place of model gone
    Keep same DynamoGraphDeployment prod/same none 1->1 peak 1
    Delete gone DynamoGraphDeployment prod/gone delete 1->0 peak 1
      - is no longer in git
      - model new takes its place; this one stays until that is Healthy
    "#);
    assert_eq!(plan.base, "aaa");
}

/// Rows B1 and B3 of the review: a comparison announces no deletion that a sync would not make.
#[test]
fn a_comparison_leaves_open_what_it_cannot_read() {
    let base = [small("gone"), small("same")];
    let head = [small("same")];
    let link = [UnreadPlace { path: "models/gone".into(), cause: UnreadCause::SymbolicLink }];
    let nameless = [BrokenIntent { source: "elsewhere/model.yaml".into(), name: None }];
    let comparison = RevisionComparison { base: &texts(&base), head: &texts(&head), ..RevisionComparison::default() };
    let deletions = |comparison: &RevisionComparison<'_>| {
        let plan = compare_revisions(comparison);
        (plan.summary.delete, plan.findings.iter().filter(|one| one.is_error()).count())
    };
    assert_eq!(deletions(&comparison), (1, 0));
    assert_eq!(deletions(&RevisionComparison { unread: &link, ..comparison.clone() }), (0, 1));
    assert_eq!(deletions(&RevisionComparison { broken: &nameless, ..comparison.clone() }), (0, 0));
}

#[test]
fn the_json_is_the_contracts() {
    let mut story = PlanScenario::synced([small("llama")]);
    story.rendered = vec![graph("llama", [worker("decode", 2, 1, "vllm:1.2.0")])];
    let mut json = serde_json::to_value(story.plan()).unwrap();
    json["digest"] = json!("…");
    insta::assert_snapshot!(serde_json::to_string_pretty(&json).unwrap(), @r#"
    {
      "apiVersion": "stator.dev/v1alpha1",
      "base": "live",
      "changes": [
        {
          "action": "update",
          "disruption": "scale",
          "fields": [
            {
              "new": 2,
              "old": 1,
              "owner": "stator",
              "path": "spec.components[name=decode].replicas"
            }
          ],
          "gpuSku": "h200_sxm",
          "gpus": {
            "after": 2,
            "before": 1,
            "peak": 2
          },
          "gpusBySku": {
            "h200_sxm": {
              "after": 2,
              "before": 1,
              "peak": 2
            }
          },
          "model": "llama",
          "object": {
            "apiVersion": "nvidia.com/v1beta1",
            "kind": "DynamoGraphDeployment",
            "name": "llama",
            "namespace": "prod"
          },
          "reasons": [
            "changed in git"
          ],
          "source": "models/llama/model.yaml"
        }
      ],
      "digest": "…",
      "environment": "prod",
      "findings": [],
      "holds": [],
      "kind": "Plan",
      "repository": "models",
      "revision": "abc1234",
      "summary": {
        "adopt": 0,
        "blocked": 0,
        "create": 0,
        "delete": 0,
        "deleting": 0,
        "gpus": {
          "after": 2,
          "before": 1,
          "peak": 2
        },
        "gpusBySku": {
          "h200_sxm": {
            "after": 2,
            "before": 1,
            "peak": 2
          }
        },
        "held": 0,
        "keep": 0,
        "leftBehind": 0,
        "models": {
          "llama": {
            "gpus": {
              "after": 2,
              "before": 1,
              "peak": 2
            },
            "gpusBySku": {
              "h200_sxm": {
                "after": 2,
                "before": 1,
                "peak": 2
              }
            }
          }
        },
        "replace": 0,
        "update": 1
      }
    }
    "#);
}

/// Every field of a plan's JSON is one that the schema declares, at every level.
#[test]
fn the_schema_knows_every_field_of_a_plan() {
    fn walk(root: &Value, schema: &Value, value: &Value, path: &str) {
        let schema = match schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str()) {
            Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
            None => schema,
        };
        match value {
            Value::Object(map) if schema.get("properties").is_some() => {
                for (name, field) in map {
                    let declared = schema["properties"].get(name);
                    walk(root, declared.unwrap_or_else(|| panic!("{path}.{name}")), field, &format!("{path}.{name}"));
                }
            }
            Value::Array(list) => list.iter().for_each(|one| walk(root, &schema["items"], one, path)),
            Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut story = PlanScenario::synced([small("llama")]);
    story.tamper(DGD, "llama", |value| value["status"] = json!({"rollingUpdate": {"phase": "InProgress"}}));
    story.rendered =
        vec![graph("llama", [worker("prefill", 2, 1, "vllm:1.2.1"), worker("decode", 2, 1, "vllm:1.2.0")])];
    let schema = crate::plan::schema();
    walk(&schema, &schema, &serde_json::to_value(story.plan()).unwrap(), "");
    assert_eq!(schema["properties"]["apiVersion"]["type"], "string");
}

#[test]
fn the_digest_moves_with_what_would_be_done_and_with_nothing_else() {
    let mut story = PlanScenario::synced([small("llama"), small("qwen")]);
    story.rendered[0] = graph("llama", [worker("decode", 2, 1, "vllm:1.2.0")]);
    let before = story.plan().digest;
    story.tamper(DGD, "llama", |value| {
        value["metadata"]["resourceVersion"] = json!("99");
        value["status"] = json!({"state": "pending"});
    });
    assert_eq!(story.plan().digest, before);
    story.tamper(DGD, "llama", |value| value["spec"]["components"][1]["replicas"] = json!(5));
    assert_ne!(story.plan().digest, before);
}

proptest! {
    /// Whatever a record holds, it reads back as it was.
    #[test]
    fn records_survive_the_way_through_the_cluster(
        texts in proptest::collection::vec(".{1,12}", 8),
        generation in any::<Option<i64>>(),
        prune in any::<bool>(),
    ) {
        let record = Record {
            model: texts[0].clone(), namespace: texts[1].clone(), repository: texts[2].clone(),
            environment: texts[3].clone(), source: texts[4].clone(), revision: texts[5].clone(),
            folder: prune.then(|| texts[6].clone()),
            inventory: vec![InventoryEntry {
                object: reference("Any", &texts[6]), uid: prune.then(|| texts[7].clone()), generation,
                digest: texts[7].clone(), prune,
            }],
            intent: json!({"model": texts[5], "env": {"A": texts[6]}}).into(),
            state: prune.then(|| RecordState::new(ObservedModelState { gpus: 8, ..ObservedModelState::default() }, &texts[7], None)),
            ..Record::default()
        };
        let (main, status) = record.to_object().unwrap();
        let mut whole = main.into_value();
        whole["status"] = status.into_value()["status"].take();
        prop_assert_eq!(Record::from_object(&Object::from_value(whole).unwrap()).unwrap(), record);
    }
}
