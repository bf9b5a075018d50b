//! Routes that are planned to wait for the graphs that they lead to, and to follow one that is replaced.

use super::world::PlanScenario;
use crate::render::tests::{of_model, target};
use crate::render::{RenderTarget, RenderedModel, render};

fn model(name: &str, more: &str) -> RenderedModel {
    let text = format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: {name}}}\nspec:\n  model: openai/gpt-oss-120b\n  \
         engine: vllm\n  runtime: 1.2.0\n  serving:\n    worker: {{gpus: 1}}\n{more}"
    );
    let intent = of_model(serde_saphyr::from_str(&text).unwrap());
    render(&intent, &RenderTarget { namespace: "prod".to_owned(), ..target() })
}

fn routed(canary: &str) -> RenderedModel {
    model("chat", &format!("  route: {{gateway: {{name: public}}, hostnames: [chat.example.com]{canary}}}\n"))
}

fn serving() -> PlanScenario {
    let mut story = PlanScenario::synced([routed(""), model("next", "")]);
    story.ready("chat");
    story.ready("next");
    story.sync();
    story
}

#[test]
fn a_new_route_waits_for_its_graph_and_for_its_canary() {
    let mut story = PlanScenario::synced([]);
    story.rendered = vec![routed(", canary: {model: next, weight: 10}"), model("next", "")];
    insta::assert_snapshot!(story.show(), @r"
    Create chat DynamoGraphDeployment prod/chat none 0->1 peak 1 [apply]
      - is not in the cluster yet
    Create chat HTTPRoute prod/chat none 0->0 peak 0 [apply]
      - is not in the cluster yet
      - applied once graph chat is Ready
      - applied once graph next is Ready
    Create next DynamoGraphDeployment prod/next none 0->1 peak 1 [apply]
      - is not in the cluster yet
    ");
}

#[test]
fn a_share_that_is_taken_away_waits_for_nobody() {
    let mut story = serving();
    let waits = |story: &mut PlanScenario| -> Vec<String> {
        let plan = story.plan();
        let route = plan.changes.iter().find(|one| one.object.kind == "HTTPRoute").unwrap();
        let Some(crate::plan::PlannedWrite::Apply(apply)) = route.step.write() else { panic!("{route:#?}") };
        apply.after_graphs.iter().map(ToString::to_string).collect()
    };
    let canary = |weight: u32| vec![routed(&format!(", canary: {{model: next, weight: {weight}}}")), model("next", "")];
    story.rendered = canary(10);
    assert_eq!(waits(&mut story), ["DynamoGraphDeployment prod/next"]);
    story.sync();
    // More of what it leads to already, nothing of it, and no canary at all.
    story.rendered = canary(50);
    assert!(waits(&mut story).is_empty());
    story.sync();
    story.rendered = canary(0);
    assert!(waits(&mut story).is_empty());
    story.sync();
    story.rendered = canary(5);
    assert_eq!(waits(&mut story), ["DynamoGraphDeployment prod/next"], "it had no share");
    story.rendered = vec![routed(""), model("next", "")];
    assert!(waits(&mut story).is_empty());
}
