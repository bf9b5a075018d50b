//! What people see when they change, break or share things.

use super::world::*;
use crate::intent::repository::Guards;
use crate::plan::HoldKind;
use crate::render::ApplyStage;
use serde_json::{Value, json};

const DGD: &str = "DynamoGraphDeployment";

fn llama(image: &str, decode: u64) -> crate::render::RenderedModel {
    graph("llama", [worker("prefill", 2, 2, image), worker("decode", decode, 4, image)])
}

#[test]
fn a_new_model_is_created_volume_first_and_adapter_last() {
    let model = with_claim(with_adapter(small("llama"), "llama-sql"), "cache", "500Gi");
    insta::assert_snapshot!(PlanScenario::of([model]).show(), @r#"
    Create llama PersistentVolumeClaim prod/cache none 0->0 peak 0 [apply]
      - is not in the cluster yet
    Create llama DynamoGraphDeployment prod/llama none 0->1 peak 1 [apply]
      - is not in the cluster yet
    Create llama DynamoModel prod/llama-sql adapter-only 0->0 peak 0 [apply]
      - is not in the cluster yet
      - applied once graph llama is Ready
    "#);
}

#[test]
fn an_unchanged_repository_keeps_everything() {
    let story =
        PlanScenario::synced([with_claim(with_adapter(small("llama"), "llama-sql"), "cache", "500Gi"), small("qwen")]);
    insta::assert_snapshot!(story.show(), @r#"
    Keep llama PersistentVolumeClaim prod/cache none 0->0 peak 0
    Keep llama DynamoGraphDeployment prod/llama none 1->1 peak 1
    Keep llama DynamoModel prod/llama-sql none 0->0 peak 0
    Keep qwen DynamoGraphDeployment prod/qwen none 1->1 peak 1
    "#);
}

#[test]
fn scaling_and_a_new_image() {
    let mut story = PlanScenario::synced([llama("vllm:1.2.0", 2)]);
    story.rendered = vec![llama("vllm:1.2.0", 3)];
    insta::assert_snapshot!(story.show(), @r#"
    Update llama DynamoGraphDeployment prod/llama scale 12->16 peak 16 [apply]
      spec.components[name=decode].replicas: 2 -> 3 (stator)
      - changed in git
    "#);
    story.sync();
    story.rendered = vec![llama("vllm:1.2.1", 3)];
    insta::assert_snapshot!(story.show(), @r#"
    Update llama DynamoGraphDeployment prod/llama managed-roll 16->16 peak 22 [apply]
      spec.components[name=decode].podTemplate.spec.containers[name=main].image: "vllm:1.2.0" -> "vllm:1.2.1" (stator)
      spec.components[name=prefill].podTemplate.spec.containers[name=main].image: "vllm:1.2.0" -> "vllm:1.2.1" (stator)
      - changed in git
      - all 2 worker components roll (decode, prefill): the operator hashes them together
    "#);
    story.sync();
}

#[test]
fn what_the_operator_writes_is_no_drift() {
    let mut story = PlanScenario::synced([small("llama")]);
    story.edit("dynamo-operator", DGD, "llama", |value| {
        value["metadata"]["finalizers"] = json!(["nvidia.com/finalizer"]);
        value["metadata"]["annotations"] =
            json!({"nvidia.com/current-worker-hash": "5810b51e", "nvidia.com/dgd-spec": "{}"});
    });
    story.tamper(DGD, "llama", |value| value["status"] = json!({"state": "successful"}));
    insta::assert_snapshot!(story.show(), @"Keep llama DynamoGraphDeployment prod/llama none 1->1 peak 1");
}

#[test]
fn an_edited_file_is_drift_and_is_healed() {
    let mut story = PlanScenario::synced([small("llama")]);
    story.tamper(DGD, "llama", |value| value["spec"]["components"][1]["replicas"] = json!(7));
    insta::assert_snapshot!(story.show(), @"
    Update llama DynamoGraphDeployment prod/llama scale 7->1 peak 7 [apply]
      spec.components[name=decode].replicas: 7 -> 1 (stator)
      - drifted: changed in the cluster, not in git
    ");
    story.sync();
}

#[test]
fn an_added_argument_is_drift_too() {
    let mut story = PlanScenario::synced([small("llama")]);
    story.tamper(DGD, "llama", |value| {
        value["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["args"] = json!(["--model", "m", "--x"]);
    });
    insta::assert_snapshot!(story.show(), @r#"
    Update llama DynamoGraphDeployment prod/llama managed-roll 1->1 peak 2 [apply]
      spec.components[name=decode].podTemplate.spec.containers[name=main].args: ["--model","m","--x"] -> ["--model","m"] (stator)
      - drifted: changed in the cluster, not in git
    "#);
    story.sync();
}

#[test]
fn another_manager_is_named_and_not_overruled() {
    let mut story = PlanScenario::synced([small("llama")]);
    story.edit("kubectl-edit", DGD, "llama", |value| {
        value["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["image"] = json!("vllm:hotfix");
    });
    insta::assert_snapshot!(story.show(), @r#"
    Blocked llama DynamoGraphDeployment prod/llama none 1->1 peak 1
      spec.components[name=decode].podTemplate.spec.containers[name=main].image: "vllm:hotfix" -> "vllm:1.2.0" (kubectl-edit)
      - spec.components[name=decode].podTemplate.spec.containers[name=main].image: owned by kubectl-edit; write its value into the intent, or name kubectl-edit in `spec.takeOver` to take it back
    "#);
    story.rendered[0].take_over = vec!["kubectl-edit".into()];
    insta::assert_snapshot!(story.show(), @r#"
    Update llama DynamoGraphDeployment prod/llama managed-roll 1->1 peak 2 [force]
      spec.components[name=decode].podTemplate.spec.containers[name=main].image: "vllm:hotfix" -> "vllm:1.2.0" (kubectl-edit)
      - drifted: changed in the cluster, not in git
      - takes fields back from kubectl-edit
    "#);
    story.sync();
}

#[test]
fn a_field_that_git_no_longer_has_is_removed() {
    let mut with_env = small("llama");
    with_env.objects[0].object = with_env.objects[0]
        .object
        .clone()
        .map(|mut value| {
            value["spec"]["env"] = json!([{"name": "LOG", "value": "debug"}]);
            value
        })
        .unwrap();
    let mut story = PlanScenario::synced([with_env]);
    story.rendered = vec![small("llama")];
    insta::assert_snapshot!(story.show(), @r#"
    Update llama DynamoGraphDeployment prod/llama managed-roll 1->1 peak 2 [apply]
      spec.env: [{"name":"LOG","value":"debug"}] -> null (stator)
      - changed in git
    "#);
    story.sync();
}

fn scaled(seed: u64) -> crate::render::RenderedModel {
    let mut decode = worker("decode", seed, 4, "vllm:1.2.0");
    decode["scalingAdapter"] = json!({});
    graph("llama", [decode])
}

#[test]
fn a_scaling_adapter_owns_the_count() {
    let mut story = PlanScenario::synced([scaled(2)]);
    let count = |story: &PlanScenario| story.find(DGD, "llama").value()["spec"]["components"][1]["replicas"].clone();
    assert_eq!(count(&story), json!(2), "seeded");
    story.edit("dynamo-operator", DGD, "llama", |value| value["spec"]["components"][1]["replicas"] = json!(6));
    insta::assert_snapshot!(story.show(), @"Keep llama DynamoGraphDeployment prod/llama none 24->24 peak 24");
    story.sync();
    assert_eq!(count(&story), json!(6));
}

#[test]
fn a_count_is_handed_over_to_an_adapter_without_a_jump() {
    let mut story = PlanScenario::synced([graph("llama", [worker("decode", 5, 4, "vllm:1.2.0")])]);
    story.rendered = vec![scaled(1)];
    insta::assert_snapshot!(story.show(), @r#"
    Update llama DynamoGraphDeployment prod/llama scale 20->20 peak 20 [apply]
      spec.components[name=decode].scalingAdapter: null -> {} (stator)
      - changed in git
    "#);
    story.sync();
    assert_eq!(story.find(DGD, "llama").value()["spec"]["components"][1]["replicas"], json!(5));
}

#[test]
fn what_dynamo_forbids_in_place_is_a_replacement_that_somebody_must_allow() {
    let mut story = PlanScenario::synced([small("llama")]);
    story.rendered =
        vec![graph("llama", [worker("prefill", 1, 1, "vllm:1.2.0"), worker("decode", 1, 1, "vllm:1.2.0")])];
    insta::assert_snapshot!(story.show(), @r#"
    Replace llama DynamoGraphDeployment prod/llama recreate 1->2 peak 2
      spec.components[name=prefill]: null -> {"name":"prefill","podTemplate":{"spec":{"containers":[{"args":["--model","m"],"image":"vllm:1.2.0","name":"main","resources":{"limits":{"nvidia.com/gpu":"1"}}}],"nodeSelector":{"nvidia.com/gpu.product":"NVIDIA-H200"}}},"replicas":1,"type":"prefill"} (stator)
      - changed in git
      - Dynamo forbids adding component `prefill` in place
      - held back: `--allow replace` deletes it and creates it again
    hold Replace allowed=false: Dynamo forbids these changes in place; to be deleted and created again: DynamoGraphDeployment prod/llama
    "#);
    story.allow = vec![HoldKind::Replace];
    insta::assert_snapshot!(story.show(), @r#"
    Replace llama DynamoGraphDeployment prod/llama recreate 1->2 peak 2 [replace]
      spec.components[name=prefill]: null -> {"name":"prefill","podTemplate":{"spec":{"containers":[{"args":["--model","m"],"image":"vllm:1.2.0","name":"main","resources":{"limits":{"nvidia.com/gpu":"1"}}}],"nodeSelector":{"nvidia.com/gpu.product":"NVIDIA-H200"}}},"replicas":1,"type":"prefill"} (stator)
      - changed in git
      - Dynamo forbids adding component `prefill` in place
    hold Replace allowed=true: Dynamo forbids these changes in place; to be deleted and created again: DynamoGraphDeployment prod/llama
    "#);
    story.sync();
}

#[test]
fn an_interrupted_replacement_is_finished() {
    let mut story = PlanScenario::synced([small("llama")]);
    story.tamper(DGD, "llama", |value| {
        value["metadata"]["deletionTimestamp"] = json!("2026-11-21T00:00:00Z");
        value["metadata"]["finalizers"] = json!(["nvidia.com/finalizer"]);
    });
    insta::assert_snapshot!(story.show(), @"
    Create llama DynamoGraphDeployment prod/llama none 0->1 peak 1 [replace]
      - is being deleted since 2026-11-21T00:00:00Z (waiting for finalizer nvidia.com/finalizer): created again once it is gone
    ");
}

#[test]
fn a_claim_that_would_shrink_is_left_alone() {
    let mut story = PlanScenario::synced([with_claim(small("llama"), "cache", "500Gi")]);
    story.rendered = vec![with_claim(small("llama"), "cache", "100Gi")];
    story.allow = vec![HoldKind::Replace];
    insta::assert_snapshot!(story.show(), @r#"
    Blocked llama PersistentVolumeClaim prod/cache none 0->0 peak 0
      spec.resources.requests.storage: "500Gi" -> "100Gi" (stator)
      - a claim cannot shrink; give the smaller claim another name
    Keep llama DynamoGraphDeployment prod/llama none 1->1 peak 1
    "#);
}

#[test]
fn objects_of_others_are_left_alone() {
    let mut story = PlanScenario::of([]);
    for (name, labels) in [
        ("nobody", json!({})),
        ("argo", json!({"argocd.argoproj.io/instance": "x"})),
        ("other", json!({"stator.dev/repository": "theirs", "stator.dev/environment": "prod"})),
    ] {
        let model = small(name);
        let bare = model.objects[0]
            .object
            .clone()
            .map(|mut value| {
                value["metadata"]["labels"] = labels;
                value
            })
            .unwrap();
        story.write(&bare, "kubectl", false);
        story.rendered.push(model);
    }
    insta::assert_snapshot!(story.show(), @r#"
    Adopt argo DynamoGraphDeployment prod/argo none 1->1 peak 1
      metadata.labels["app.kubernetes.io/managed-by"]: null -> "stator" (stator)
      metadata.labels["applyset.kubernetes.io/part-of"]: null -> "applyset-BOz7jvvVOKdDmKDxV2F2A_JywNKsThh7QDLTqedODWo-v1" (stator)
      metadata.labels["argocd.argoproj.io/instance"]: "x" -> null (kubectl)
      metadata.labels["stator.dev/environment"]: null -> "prod" (stator)
      metadata.labels["stator.dev/model"]: null -> "argo" (stator)
      metadata.labels["stator.dev/repository"]: null -> "models" (stator)
      - already exists and is managed by Argo CD (`argocd.argoproj.io/instance`): allow its adoption once Argo CD no longer manages it, or give the model another name
      - field ownership moves to stator from kubectl
      - held back: `--allow adopt` takes it over
    Adopt nobody DynamoGraphDeployment prod/nobody none 1->1 peak 1
      metadata.labels["app.kubernetes.io/managed-by"]: null -> "stator" (kubectl)
      metadata.labels["applyset.kubernetes.io/part-of"]: null -> "applyset-33wHxfTdAmcAJbyAUYUuZm_X4hzX7P_FcM_tEDGuD4Q-v1" (kubectl)
      metadata.labels["stator.dev/environment"]: null -> "prod" (kubectl)
      metadata.labels["stator.dev/model"]: null -> "nobody" (kubectl)
      metadata.labels["stator.dev/repository"]: null -> "models" (kubectl)
      - already exists and is not managed by stator or another tool: allow its adoption, or give the model another name
      - field ownership moves to stator from kubectl
      - held back: `--allow adopt` takes it over
    Blocked other DynamoGraphDeployment prod/other none 1->1 peak 1
      - belongs to repository `theirs`, environment `prod`: rename it here, remove it there first, or take it over with `--allow move`
    hold Adopt allowed=false: already in the cluster, not managed by stator; would be taken over: DynamoGraphDeployment prod/argo, DynamoGraphDeployment prod/nobody
    hold Move allowed=false: belongs to another source; would be taken over: DynamoGraphDeployment prod/other
    warning[plan/still-managed] models/argo/model.yaml: DynamoGraphDeployment prod/argo is managed by Argo CD (`argocd.argoproj.io/instance`)
    "#);
    story.allow = vec![HoldKind::Adopt];
    insta::assert_snapshot!(story.show(), @r#"
    Adopt argo DynamoGraphDeployment prod/argo none 1->1 peak 1 [apply]
      metadata.labels["app.kubernetes.io/managed-by"]: null -> "stator" (stator)
      metadata.labels["applyset.kubernetes.io/part-of"]: null -> "applyset-BOz7jvvVOKdDmKDxV2F2A_JywNKsThh7QDLTqedODWo-v1" (stator)
      metadata.labels["argocd.argoproj.io/instance"]: "x" -> null (kubectl)
      metadata.labels["stator.dev/environment"]: null -> "prod" (stator)
      metadata.labels["stator.dev/model"]: null -> "argo" (stator)
      metadata.labels["stator.dev/repository"]: null -> "models" (stator)
      - already exists and is managed by Argo CD: taken over, as allowed
      - field ownership moves to stator from kubectl
    Adopt nobody DynamoGraphDeployment prod/nobody none 1->1 peak 1 [apply]
      metadata.labels["app.kubernetes.io/managed-by"]: null -> "stator" (kubectl)
      metadata.labels["applyset.kubernetes.io/part-of"]: null -> "applyset-33wHxfTdAmcAJbyAUYUuZm_X4hzX7P_FcM_tEDGuD4Q-v1" (kubectl)
      metadata.labels["stator.dev/environment"]: null -> "prod" (kubectl)
      metadata.labels["stator.dev/model"]: null -> "nobody" (kubectl)
      metadata.labels["stator.dev/repository"]: null -> "models" (kubectl)
      - already exists and is not managed by stator or another tool: taken over, as allowed
      - field ownership moves to stator from kubectl
    Blocked other DynamoGraphDeployment prod/other none 1->1 peak 1
      - belongs to repository `theirs`, environment `prod`: rename it here, remove it there first, or take it over with `--allow move`
    hold Adopt allowed=true: already in the cluster, not managed by stator; would be taken over: DynamoGraphDeployment prod/argo, DynamoGraphDeployment prod/nobody
    hold Move allowed=false: belongs to another source; would be taken over: DynamoGraphDeployment prod/other
    warning[plan/still-managed] models/argo/model.yaml: DynamoGraphDeployment prod/argo is managed by Argo CD (`argocd.argoproj.io/instance`)
    "#);
}

#[test]
fn two_models_share_a_claim_that_both_render_alike() {
    let claim = |name: &str, size: &str| with_claim(small(name), "cache", size);
    insta::assert_snapshot!(PlanScenario::of([claim("b", "500Gi"), claim("a", "500Gi")]).show(), @r#"
    Create a PersistentVolumeClaim prod/cache none 0->0 peak 0 [apply]
      - is not in the cluster yet
    Create a DynamoGraphDeployment prod/a none 0->1 peak 1 [apply]
      - is not in the cluster yet
    Keep b PersistentVolumeClaim prod/cache none 0->0 peak 0
      - shared: model a renders the same object and applies it
    Create b DynamoGraphDeployment prod/b none 0->1 peak 1 [apply]
      - is not in the cluster yet
    "#);
    insta::assert_snapshot!(PlanScenario::of([claim("b", "500Gi"), claim("a", "100Gi")]).show(), @r#"
    Blocked a PersistentVolumeClaim prod/cache none 0->0 peak 0
      - is rendered by b (models/b/model.yaml) as well: give one of them another name
    Create a DynamoGraphDeployment prod/a none 0->1 peak 1 [apply]
      - is not in the cluster yet
    Blocked b PersistentVolumeClaim prod/cache none 0->0 peak 0
      - is rendered by a (models/a/model.yaml) as well: give one of them another name
    Create b DynamoGraphDeployment prod/b none 0->1 peak 1 [apply]
      - is not in the cluster yet
    error[plan/duplicate-object] models/a/model.yaml: PersistentVolumeClaim `cache` is rendered by several models: a, b
    error[plan/duplicate-object] models/b/model.yaml: PersistentVolumeClaim `cache` is rendered by several models: a, b
    "#);
    PlanScenario::of([claim("b", "500Gi"), claim("a", "500Gi")]).sync();
}

#[test]
fn a_change_in_the_middle_of_a_rollout_is_warned_of() {
    let mut story = PlanScenario::synced([small("llama")]);
    story.tamper(DGD, "llama", |value| value["status"] = json!({"rollingUpdate": {"phase": "InProgress"}}));
    story.rendered = vec![graph("llama", [worker("decode", 1, 1, "vllm:1.1.0")])];
    insta::assert_snapshot!(story.show(), @r#"
    Update llama DynamoGraphDeployment prod/llama managed-roll 1->1 peak 2 [apply]
      spec.components[name=decode].podTemplate.spec.containers[name=main].image: "vllm:1.2.0" -> "vllm:1.1.0" (stator)
      - changed in git
      - DynamoGraphDeployment prod/llama is in the middle of a rolling update; changing its workers again may delete the new pods immediately
    warning[plan/mid-rollout] models/llama/model.yaml: DynamoGraphDeployment prod/llama is in the middle of a rolling update; changing its workers again may delete the new pods immediately
    "#);
}

#[test]
fn the_gpu_budget_holds_growth_back() {
    let mut story = PlanScenario::synced([llama("vllm:1.2.0", 2), small("qwen")]);
    story.guards = Guards { max_deletions: None, max_gpus: Some(16) };
    story.rendered = vec![llama("vllm:1.2.0", 4), small("qwen")];
    insta::assert_snapshot!(story.show(), @r#"
    Update llama DynamoGraphDeployment prod/llama scale 12->20 peak 20
      spec.components[name=decode].replicas: 2 -> 4 (stator)
      - changed in git
      - held back: the environment would exceed its GPU limit
    Keep qwen DynamoGraphDeployment prod/qwen none 1->1 peak 1
    hold MaxGpus allowed=false: up to 21 GPUs would be needed at once; the environment's limit is 16
    "#);
    story.allow = vec![HoldKind::MaxGpus];
    assert!(story.show().contains("[apply]"));
}

#[test]
fn a_damaged_object_blocks_only_itself() {
    let mut story = PlanScenario::synced([small("llama"), small("qwen")]);
    story.tamper(DGD, "llama", |value| value["metadata"]["managedFields"] = json!("oops"));
    story.rendered.remove(1);
    story.rendered.push(graph("qwen", [worker("decode", 2, 1, "vllm:1.2.0")]));
    insta::assert_snapshot!(story.show(), @r#"
    Blocked llama DynamoGraphDeployment prod/llama none 1->1 peak 1
      - its record of field owners is damaged: metadata.managedFields: not a list; remove `metadata.managedFields`
    Update qwen DynamoGraphDeployment prod/qwen scale 1->2 peak 2 [apply]
      spec.components[name=decode].replicas: 1 -> 2 (stator)
      - changed in git
    "#);
}

#[test]
fn a_field_that_the_schema_lacks_is_named() {
    let mut model = small("llama");
    let odd = model.objects[0].object.clone().map(|mut value| {
        value["spec"]["components"][1]["sharedMemory"] = json!("1Gi");
        value
    });
    let mut story = PlanScenario::synced([small("llama")]);
    model.objects[0] = desired(odd.unwrap(), ApplyStage::Graph, true);
    story.rendered = vec![model];
    insta::assert_snapshot!(story.show(), @r#"
    Blocked llama DynamoGraphDeployment prod/llama none 1->1 peak 1
      - failed to create typed patch object: spec.components[name=decode].sharedMemory: field not declared in schema
    "#);
}

#[test]
fn hostile_live_objects_end_in_a_plan() {
    let mut story = PlanScenario::synced([small("llama")]);
    for spec in [json!(null), json!([]), json!({"components": {"a": 1}}), json!({"components": [1, {"name": 3}]})] {
        story.tamper(DGD, "llama", |value| value["spec"] = spec);
        let plan = story.plan();
        assert_eq!(plan.changes.len(), 1);
        assert_ne!(plan.changes[0].action, crate::plan::Action::Keep);
        let _json: Value = serde_json::to_value(&plan).unwrap();
    }
}

#[test]
fn a_deleted_graph_that_a_guard_holds_back_has_drifted() {
    let mut story = PlanScenario::synced([small("a"), small("b")]);
    story.live.retain(|identity, _| identity.name != "a");
    story.guards = Guards { max_deletions: None, max_gpus: Some(1) };
    let plan = story.plan();
    let line = plan.changes.iter().find(|change| change.object.name == "a").unwrap();
    assert_eq!(line.step.held_by(), Some(HoldKind::MaxGpus));
    let records: Vec<_> = story.records.values().cloned().collect();
    let drifted = crate::plan::drifted_models(&plan, &records);
    assert_eq!(drifted.into_iter().collect::<Vec<_>>(), [("a".to_owned(), false)]);
}
