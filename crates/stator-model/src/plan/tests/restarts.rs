//! A restart that git asks for: never of a graph that is only just made, and once of one that runs.

use super::world::{PlanScenario, graph, new_first, small, worker};
use crate::plan::HoldKind;
use crate::render::RenderedModel;
use serde_json::json;
use stator_core::object::Object;

const DGD: &str = "DynamoGraphDeployment";

fn restarting(mut model: RenderedModel, id: &str) -> RenderedModel {
    let graph = model.objects[0].object.clone().map(|mut value| {
        value["spec"]["restart"] = json!({"id": id});
        value
    });
    model.objects[0].object = graph.unwrap();
    model
}

fn restart_of<'a>(story: &'a PlanScenario, name: &str) -> Option<&'a str> {
    story.find(DGD, name).spec().pointer("/restart/id").and_then(serde_json::Value::as_str)
}

#[test]
fn a_new_graph_is_not_restarted_and_the_next_restart_is_carried_out_once() {
    let mut story = PlanScenario::synced([restarting(small("llama"), "one")]);
    assert_eq!(restart_of(&story, "llama"), None);

    // Another change brings no restart with it.
    story.rendered = vec![restarting(graph("llama", [worker("decode", 2, 1, "vllm:1.2.0")]), "one")];
    insta::assert_snapshot!(story.show(), @"
    Update llama DynamoGraphDeployment prod/llama scale 1->2 peak 2 [apply]
      spec.components[name=decode].replicas: 1 -> 2 (stator)
      - changed in git
    ");
    story.sync();
    assert_eq!(restart_of(&story, "llama"), None);

    story.rendered = vec![restarting(graph("llama", [worker("decode", 2, 1, "vllm:1.2.0")]), "two")];
    insta::assert_snapshot!(story.show(), @r#"
    Update llama DynamoGraphDeployment prod/llama rolling-restart 2->2 peak 3 [apply]
      metadata.annotations: {"stator.dev/created-with-restart":"one"} -> null (stator)
      spec.restart: null -> {"id":"two"} (stator)
      - changed in git
      - a new restart id restarts every component in place, one after the other, workers included
    "#);
    story.sync();
    assert_eq!(restart_of(&story, "llama"), Some("two"));
}

#[test]
fn a_graph_that_takes_the_place_of_another_is_not_restarted() {
    for order in [std::convert::identity, new_first] {
        let mut story = PlanScenario::synced([order(restarting(small("llama"), "one"))]);
        story.ready("llama");
        story.rendered = vec![order(restarting(small("llama"), "two"))];
        story.sync();
        story.ready("llama");
        let parts = [worker("decode", 1, 1, "vllm:1.2.0"), worker("prefill", 1, 1, "vllm:1.2.0")];
        story.rendered = vec![order(restarting(graph("llama", parts), "two"))];
        story.allow = vec![HoldKind::Replace];
        let plan = story.plan();
        story.carry_out(&plan);
        let made = story
            .live
            .values()
            .find(|one| one.kind() == DGD && one.spec()["components"].as_array().unwrap().len() == 3);
        assert_eq!(made.unwrap().spec().get("restart"), None);
    }
}

/// A webhook of typed code writes `name: ""` and `parameters: null` for what it has no value for; what is stored is read
/// without the null.
#[test]
fn what_a_typed_webhook_writes_back_at_each_apply_is_no_change() {
    let mut model = small("llama");
    let graph = model.objects[0].object.clone().map(|mut value| {
        let plugins = json!({"plugins": [{"type": "queue-scorer"}], "schedulingProfiles": [{"name": "all"}]});
        let picker = json!({"name": "epp", "type": "epp", "replicas": 1, "eppConfig": {"config": plugins}});
        value["spec"]["components"].as_array_mut().unwrap().push(picker);
        value
    });
    model.objects[0].object = graph.unwrap();
    let mut story = PlanScenario::synced([model]);
    let written = |value: &mut serde_json::Value| {
        value["spec"]["components"][2]["eppConfig"]["config"]["plugins"][0]["name"] = json!("");
    };
    story.edit("stator", DGD, "llama", written);
    let live = story.find(DGD, "llama").clone();
    let mut answer = live.clone().into_value();
    answer["spec"]["components"][2]["eppConfig"]["config"]["plugins"][0]["parameters"] = json!(null);
    answer["metadata"]["generation"] = json!(live.generation().unwrap() + 1);
    let mut input = story.input();
    input.answers.dry_runs = [(live.reference().identity(), Object::from_value(answer).unwrap())].into();
    insta::assert_snapshot!(super::world::show(&crate::plan::build_plan(&input)), @r#"
    Blocked llama DynamoGraphDeployment prod/llama none 1->1 peak 1
      spec.components[name=epp].eppConfig.config.plugins: [{"name":"","type":"queue-scorer"}] -> [{"type":"queue-scorer"}] (stator)
      - spec.components[name=epp].eppConfig.config.plugins: owned by stator; write its value into the intent, or name stator in `spec.takeOver` to take it back
    "#);
}

/// Removing the last annotation of an apply would take the map with all that nobody owns.
#[test]
fn an_annotation_that_git_drops_takes_none_of_the_operators_along() {
    let mut model = small("llama");
    let plain = model.objects[0].object.clone();
    let annotated = plain.clone().map(|mut value| {
        value["metadata"]["annotations"] = json!({"team": "search"});
        value
    });
    model.objects[0].object = annotated.unwrap();
    let mut story = PlanScenario::synced([model.clone()]);
    story.tamper(DGD, "llama", |value| {
        value["metadata"]["annotations"]["nvidia.com/workload-provider"] = json!("grove");
    });
    model.objects[0].object = plain;
    story.rendered = vec![model];
    insta::assert_snapshot!(story.show(), @r#"
    Update llama DynamoGraphDeployment prod/llama none 1->1 peak 1 [apply]
      metadata.annotations.team: "search" -> null (stator)
      - changed in git
    "#);
    story.sync();
    let left = story.find(DGD, "llama").annotations().into_iter().collect::<Vec<_>>();
    assert_eq!(left, [("nvidia.com/workload-provider", "grove")]);
}
