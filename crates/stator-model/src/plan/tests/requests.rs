//! Models by target: requests that follow each other, the graphs that they make, and what is locked.

use super::world::*;
use crate::plan::{ModelStatusContext, model_statuses};
use crate::render::{ApplyStage, RenderedModel};
use serde_json::{Value, json};
use stator_core::object::Object;

const REQUEST: &str = "DynamoGraphDeploymentRequest";
const GRAPH: &str = "DynamoGraphDeployment";

/// The model asks for something; each answer has a name of its own.
fn asked(hash: &str, ttft: u64, auto_apply: bool) -> RenderedModel {
    let mut model = small("llama");
    let spec = json!({"model": "m", "backend": "vllm", "autoApply": auto_apply, "sla": {"ttft": ttft, "itl": 20},
        "hardware": {"gpuSku": "h200_sxm", "totalGpus": 8}});
    let request = object(REQUEST, "nvidia.com/v1beta1", "llama", &format!("llama-{hash}"), spec);
    model.objects = vec![desired(request, ApplyStage::Graph, true)];
    model
}

/// The operator's answer.
fn phase(story: &mut PlanScenario, hash: &str, phase: &str) {
    story.tamper(REQUEST, &format!("llama-{hash}"), |value| {
        value["status"] = json!({"phase": phase, "observedGeneration": 1});
    });
}

/// The operator deploys what a request found: a graph that nobody owns.
fn deploy(story: &mut PlanScenario, hash: &str, state: &str) {
    let name = format!("llama-{hash}");
    phase(story, hash, if state == "successful" { "Deployed" } else { "Deploying" });
    story.tamper(REQUEST, &name, |value| value["status"]["dgdName"] = json!(format!("{name}-dgd")));
    let ready = if state == "successful" { "True" } else { "False" };
    let graph = json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": GRAPH,
        "metadata": {"name": format!("{name}-dgd"), "namespace": "prod", "uid": name, "generation": 1,
            "resourceVersion": "1", "labels": {"dgdr.nvidia.com/name": name}},
        "spec": {"components": [frontend(), worker("decode", 2, 4, "vllm:1.2.0")]},
        "status": {"state": state, "observedGeneration": 1, "conditions": [{"type": "Ready", "status": ready,
            "reason": "some_resources_are_not_ready",
            "message": format!("Resources not ready: {name}-dgd-decode-12345678: Component deployment not ready")}]},
    });
    let graph = Object::from_value(graph).unwrap();
    story.live.insert(graph.reference().identity(), graph);
}

/// The model's status: health, GPUs, message, and a line for each object.
fn described(story: &PlanScenario) -> String {
    let input = story.input();
    let all = model_statuses(&input, &story.plan(), &ModelStatusContext::default());
    let [model] = all.as_slice() else { panic!("{all:?}") };
    let objects: Vec<String> = model
        .objects
        .iter()
        .map(|one| format!("\n  {} {}: {} {}", one.object.kind, one.object.name, one.health, one.message))
        .collect();
    format!("{:?} {} {} GPUs: {}{}", model.sync, model.health, model.gpus, model.message, objects.join(""))
}

/// A wait ends with what its operator has given up, and only with that.
#[test]
fn a_model_is_lost_once_its_request_has_failed() {
    let mut story = PlanScenario::synced([asked("aaaa", 300, false)]);
    let is_lost = |story: &PlanScenario| {
        let all = model_statuses(&story.input(), &story.plan(), &ModelStatusContext::default());
        all.iter().map(|model| model.is_lost).collect::<Vec<_>>()
    };
    for (word, expected) in [("Profiling", false), ("Ready", false), ("Failed", true)] {
        phase(&mut story, "aaaa", word);
        assert_eq!(is_lost(&story), [expected], "{word}");
    }
}

#[test]
fn a_request_is_made_again_under_its_new_name_and_the_old_one_waits() {
    let mut story = PlanScenario::synced([asked("aaaa", 300, false)]);
    story.rendered = vec![asked("bbbb", 200, false)];
    insta::assert_snapshot!(story.show(), @"
    Create llama DynamoGraphDeploymentRequest prod/llama-bbbb none 0->0 peak 0 [apply]
      - is not in the cluster yet
      - profiling is simulated and uses no GPUs; the result is stored, not deployed
    Delete llama DynamoGraphDeploymentRequest prod/llama-aaaa delete 0->0 peak 0 [delete]
      - deleted once request llama-bbbb has succeeded
    ");
    story.carry_out(&story.plan());
    assert!(story.live.values().any(|one| one.name() == "llama-aaaa"), "it waits");
    phase(&mut story, "bbbb", "Ready");
    insta::assert_snapshot!(story.show(), @r#"
    Keep llama DynamoGraphDeploymentRequest prod/llama-bbbb none 0->0 peak 0
    Delete llama DynamoGraphDeploymentRequest prod/llama-aaaa delete 0->0 peak 0 [delete]
      - the model no longer has it
    "#);
}

/// A graph serves until the request's own does; an adapter of it is nothing that a request's graph could take over.
#[test]
fn a_model_that_asks_instead_keeps_its_graph_meanwhile_and_nothing_else() {
    let mut story = PlanScenario::synced([with_adapter(small("llama"), "llama-sql")]);
    story.rendered = vec![asked("aaaa", 300, true)];
    insta::assert_snapshot!(story.show(), @"
    Create llama DynamoGraphDeploymentRequest prod/llama-aaaa none 0->0 peak 8 [apply]
      - is not in the cluster yet
      - profiling is simulated and uses no GPUs; the graph that it creates uses up to 8 GPUs
    Delete llama DynamoModel prod/llama-sql adapter-only 0->0 peak 0 [delete]
      - the model no longer has it
    Delete llama DynamoGraphDeployment prod/llama delete 1->0 peak 1 [delete]
      - deleted once request llama-aaaa has succeeded
    ");
}

#[test]
fn a_request_that_failed_stays_until_the_intent_asks_again_and_says_nothing_of_the_next_attempt() {
    let mut story = PlanScenario::synced([asked("aaaa", 300, false)]);
    story.tamper(REQUEST, "llama-aaaa", |value| {
        value["status"] = json!({"phase": "Failed", "observedGeneration": 1, "conditions": [
            {"type": "Profiling", "status": "False", "reason": "SweepingDecodeFailed",
             "message": "profiling failed: no configuration meets ttft 300 ms"}]});
    });
    insta::assert_snapshot!(story.show(), @r#"
    Keep llama DynamoGraphDeploymentRequest prod/llama-aaaa none 0->0 peak 0
      - the request failed while profiling (SweepingDecodeFailed): profiling failed: no configuration meets ttft 300 ms; change the targets in `sla`, or increase `sla.attempt` by one to try again
    "#);
    insta::assert_snapshot!(described(&story), @r#"
    Synced Failed 0 GPUs: the request failed while profiling (SweepingDecodeFailed): profiling failed: no configuration meets ttft 300 ms; change the targets in `sla`, or increase `sla.attempt` by one to try again
      DynamoGraphDeploymentRequest llama-aaaa: Failed the request failed while profiling (SweepingDecodeFailed): profiling failed: no configuration meets ttft 300 ms; change the targets in `sla`, or increase `sla.attempt` by one to try again
    "#);
    let writes = story.writes;
    story.sync();
    assert_eq!(story.writes, writes, "nothing tries again by itself");
    story.rendered = vec![asked("attempt2", 300, false)];
    story.carry_out(&story.plan());
    phase(&mut story, "attempt2", "Profiling");
    insta::assert_snapshot!(described(&story), @"
    OutOfSync Progressing 0 GPUs: profiling
      DynamoGraphDeploymentRequest llama-attempt2: Progressing profiling
      DynamoGraphDeploymentRequest llama-aaaa: Failed the request failed while profiling (SweepingDecodeFailed): profiling failed: no configuration meets ttft 300 ms; change the targets in `sla`, or increase `sla.attempt` by one to try again
    ");
}

#[test]
fn the_graph_that_a_request_made_is_part_of_its_model() {
    let mut story = PlanScenario::synced([asked("aaaa", 300, true)]);
    deploy(&mut story, "aaaa", "pending");
    insta::assert_snapshot!(described(&story), @r#"
    Synced Progressing 8 GPUs: graph llama-aaaa-dgd: waiting for decode: its pods are not available yet
      DynamoGraphDeploymentRequest llama-aaaa: Progressing graph llama-aaaa-dgd: waiting for decode: its pods are not available yet
      DynamoGraphDeployment llama-aaaa-dgd: Progressing waiting for decode: its pods are not available yet; created by request llama-aaaa
    "#);
    deploy(&mut story, "aaaa", "successful");
    insta::assert_snapshot!(described(&story), @r#"
    Synced Healthy 8 GPUs: deployed as llama-aaaa-dgd
      DynamoGraphDeploymentRequest llama-aaaa: Healthy deployed as llama-aaaa-dgd
      DynamoGraphDeployment llama-aaaa-dgd: Healthy all components are ready; created by request llama-aaaa
    "#);
    insta::assert_snapshot!(story.show(), @"Keep llama DynamoGraphDeploymentRequest prod/llama-aaaa none 8->8 peak 8");
    // Another's graph of that name is no part of it.
    story.tamper(GRAPH, "llama-aaaa-dgd", |value| value["metadata"]["labels"] = json!({}));
    assert!(!described(&story).contains("created by"));
}

#[test]
fn a_graph_that_degrades_after_it_was_deployed_shows_through_its_request() {
    let mut story = PlanScenario::synced([asked("aaaa", 300, true)]);
    deploy(&mut story, "aaaa", "pending");
    phase(&mut story, "aaaa", "Deployed");
    story.tamper(REQUEST, "llama-aaaa", |value| value["status"]["dgdName"] = json!("llama-aaaa-dgd"));
    assert!(described(&story).contains("Progressing"), "{}", described(&story));
    story.live.retain(|_, object| object.kind() != GRAPH);
    story.tamper(REQUEST, "llama-aaaa", |value| {
        value["status"] = json!({"phase": "Failed", "observedGeneration": 1, "conditions": [
            {"type": "DeploymentReady", "status": "False", "reason": "DeploymentDeleted",
             "message": "Deployment was deleted by user. Create a new DGDR to redeploy."}]});
    });
    insta::assert_snapshot!(described(&story), @r#"
    Synced Failed 0 GPUs: the request failed while deploying (DeploymentDeleted): Deployment was deleted by user. Create a new DGDR to redeploy; increase `sla.attempt` by one to create it again
      DynamoGraphDeploymentRequest llama-aaaa: Failed the request failed while deploying (DeploymentDeleted): Deployment was deleted by user. Create a new DGDR to redeploy; increase `sla.attempt` by one to create it again
    "#);
}

#[test]
fn a_lock_makes_the_graph_and_lets_the_request_go() {
    let mut story = PlanScenario::synced([asked("aaaa", 300, false)]);
    phase(&mut story, "aaaa", "Ready");
    story.rendered = vec![small("llama")];
    insta::assert_snapshot!(story.show(), @r#"
    Create llama DynamoGraphDeployment prod/llama none 0->1 peak 1 [apply]
      - is not in the cluster yet
    Delete llama DynamoGraphDeploymentRequest prod/llama-aaaa delete 0->0 peak 0 [delete]
      - the model no longer has it
    "#);
    story.sync();
    assert!(story.live.values().all(|object| object.kind() == GRAPH));
}

#[test]
fn a_request_that_deployed_leaves_its_graph_when_its_result_is_locked() {
    let mut story = PlanScenario::synced([asked("aaaa", 300, true)]);
    deploy(&mut story, "aaaa", "successful");
    story.rendered = vec![small("llama")];
    insta::assert_snapshot!(story.show(), @r#"
    Create llama DynamoGraphDeployment prod/llama none 0->1 peak 1 [apply]
      - is not in the cluster yet
    Delete llama DynamoGraphDeploymentRequest prod/llama-aaaa delete 8->8 peak 8 [delete]
      - the model no longer has it
      - the graph that it created, llama-aaaa-dgd, is not managed by stator and keeps serving: run `kubectl delete dynamographdeployment llama-aaaa-dgd -n prod` when it is no longer used
    "#);
    story.sync();
    assert!(story.live.values().any(|object| object.name() == "llama-aaaa-dgd"));
}

/// Row N6 of the second review: the graph of a request that is gone is nobody's, and is not forgotten.
#[test]
fn the_graph_of_a_request_that_went_is_listed_until_it_is_deleted() {
    let mut story = PlanScenario::synced([asked("aaaa", 300, true)]);
    deploy(&mut story, "aaaa", "successful");
    let plan = story.plan();
    assert_eq!(plan.summary.gpus_by_sku.keys().collect::<Vec<_>>(), ["h200_sxm"], "as the request says");
    story.rendered = vec![asked("bbbb", 200, true)];
    story.carry_out(&story.plan());
    deploy(&mut story, "bbbb", "successful");
    story.sync();
    insta::assert_snapshot!(story.show(), @"
    LeftBehind llama DynamoGraphDeployment prod/llama-aaaa-dgd none 8->8 peak 8
      - was created by request llama-aaaa, which is gone; nothing manages it, and it keeps serving: run `kubectl delete dynamographdeployment llama-aaaa-dgd -n prod` when it is no longer used
    Keep llama DynamoGraphDeploymentRequest prod/llama-bbbb none 8->8 peak 8
    ");
    // The model goes, and is known by it.
    story.rendered = vec![small("other")];
    story.sync();
    assert!(story.records.contains_key("llama"));
    insta::assert_snapshot!(story.show(), @"
    LeftBehind llama DynamoGraphDeployment prod/llama-aaaa-dgd none 8->8 peak 8
      - was created by request llama-aaaa, which is gone; nothing manages it, and it keeps serving: run `kubectl delete dynamographdeployment llama-aaaa-dgd -n prod` when it is no longer used
    LeftBehind llama DynamoGraphDeployment prod/llama-bbbb-dgd none 8->8 peak 8
      - was created by request llama-bbbb, which is gone; nothing manages it, and it keeps serving: run `kubectl delete dynamographdeployment llama-bbbb-dgd -n prod` when it is no longer used
    Keep other DynamoGraphDeployment prod/other none 1->1 peak 1
    ");
    story.live.retain(|_, object| object.kind() != GRAPH || object.name() == "other");
    story.sync();
    assert_eq!(story.records.keys().collect::<Vec<_>>(), ["other"]);
}

#[test]
fn a_locked_graph_serves_on_while_another_target_is_profiled() {
    let mut story = PlanScenario::synced([small("llama")]);
    story.rendered = vec![asked("bbbb", 200, false)];
    insta::assert_snapshot!(story.show(), @r#"
    Keep llama DynamoGraphDeployment prod/llama none 1->1 peak 1
      - keeps serving, and is changed in place once the result of request llama-bbbb is locked (`stator lock`)
    Create llama DynamoGraphDeploymentRequest prod/llama-bbbb none 0->0 peak 0 [apply]
      - is not in the cluster yet
      - profiling is simulated and uses no GPUs; the result is stored, not deployed
    "#);
    story.sync();
    phase(&mut story, "bbbb", "Ready");
    let shown = story.show();
    assert!(!shown.contains("[delete]"), "a recommendation serves nobody: {shown}");
    // Locked again, the same graph is changed in place.
    story.rendered = vec![graph("llama", [worker("decode", 1, 2, "vllm:1.2.0")])];
    insta::assert_snapshot!(story.show(), @r#"
    Update llama DynamoGraphDeployment prod/llama managed-roll 1->2 peak 3 [apply]
      spec.components[name=decode].podTemplate.spec.containers[name=main].resources.limits["nvidia.com/gpu"]: "1" -> "2" (stator)
      - changed in git
    Delete llama DynamoGraphDeploymentRequest prod/llama-bbbb delete 0->0 peak 0 [delete]
      - the model no longer has it
    "#);
}

#[test]
fn where_dynamo_deploys_by_itself_the_old_graph_goes_when_the_new_one_is_ready() {
    let mut story = PlanScenario::synced([small("llama")]);
    story.rendered = vec![asked("bbbb", 200, true)];
    story.carry_out(&story.plan());
    deploy(&mut story, "bbbb", "pending");
    insta::assert_snapshot!(story.show(), @"
    Keep llama DynamoGraphDeploymentRequest prod/llama-bbbb none 8->8 peak 8
    Delete llama DynamoGraphDeployment prod/llama delete 1->0 peak 1 [delete]
      - deleted once request llama-bbbb has succeeded
    ");
    deploy(&mut story, "bbbb", "successful");
    insta::assert_snapshot!(story.show(), @r#"
    Keep llama DynamoGraphDeploymentRequest prod/llama-bbbb none 8->8 peak 8
    Delete llama DynamoGraphDeployment prod/llama delete 1->0 peak 1 [delete]
      - the model no longer has it
    "#);
}

#[test]
fn a_request_with_a_hostile_status_ends_in_a_plan() {
    let mut story = PlanScenario::synced([asked("aaaa", 300, true)]);
    let names = [json!(null), json!(3), json!(""), json!("llama-aaaa"), json!({"a": 1})];
    for name in names {
        story.tamper(REQUEST, "llama-aaaa", |value: &mut Value| value["status"] = json!({"dgdName": name}));
        assert_eq!(story.plan().changes.len(), 1);
        let _shown = described(&story);
    }
}
