//! Graphs that are planned to wait for their weights.

use super::world::{PlanScenario, show, texts};
use crate::plan::{Action, RevisionComparison, compare_revisions};
use crate::render::RenderedModel;
use crate::render::tests::{of_model, target};
use crate::render::{RenderTarget, render};
use serde_json::json;

const ONE: &str = "hf://openai/gpt-oss-120b@b5c939de8f754692c1647ca79fbf85e8c1e70f8a";
const TWO: &str = "hf://openai/gpt-oss-120b@0123456789012345678901234567890123456789";

fn model(name: &str, source: &str, replicas: u32, more: &str) -> RenderedModel {
    let text = format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: {name}}}\nspec:\n  model: openai/gpt-oss-120b\n  \
         engine: vllm\n  runtime: 1.2.0\n  weights: {{source: '{source}', claim: {{name: cache, size: 9Gi}}{more}}}\n  \
         serving:\n    worker: {{gpus: 1, replicas: {replicas}}}\n"
    );
    let intent = of_model(serde_saphyr::from_str(&text).unwrap());
    render(&intent, &RenderTarget { namespace: "prod".to_owned(), ..target() })
}

/// The Job controller says how a download stands.
fn set_status(story: &mut PlanScenario, kind: &str) {
    let jobs: Vec<String> =
        story.live.values().filter(|one| one.kind() == "Job").map(|one| one.name().to_owned()).collect();
    for job in jobs {
        let conditions = json!([{"type": kind, "status": "True", "reason": "", "message": ""}]);
        story.tamper("Job", &job, |value| value["status"] = json!({"conditions": conditions}));
    }
}

fn serving() -> PlanScenario {
    let mut story = PlanScenario::synced([model("chat", ONE, 1, "")]);
    set_status(&mut story, "Complete");
    story.ready("chat");
    story.sync();
    assert!(story.plan().changes.iter().all(|one| one.action == Action::Keep), "{}", story.show());
    story
}

#[test]
fn a_new_graph_waits_for_its_download() {
    let mut story = PlanScenario::synced([]);
    story.rendered = vec![model("chat", ONE, 1, "")];
    insta::assert_snapshot!(story.show(), @"
    Create chat PersistentVolumeClaim prod/cache none 0->0 peak 0 [apply]
      - is not in the cluster yet
    Create chat Job prod/weights-gpt-oss-120b-b55363e555 none 0->0 peak 0 [apply]
      - is not in the cluster yet
      - downloads hf://openai/gpt-oss-120b@b5c939de8f754692c1647ca79fbf85e8c1e70f8a; the graph is applied once the download is complete
    Create chat DynamoGraphDeployment prod/chat none 0->1 peak 1 [apply]
      - is not in the cluster yet
      - applied once Job prod/weights-gpt-oss-120b-b55363e555 is complete
    ");
}

#[test]
fn another_revision_is_downloaded_beside_the_one_that_is_served() {
    let mut story = serving();
    story.rendered = vec![model("chat", TWO, 1, "")];
    insta::assert_snapshot!(story.show(), @r#"
    Keep chat PersistentVolumeClaim prod/cache none 0->0 peak 0
    Create chat Job prod/weights-gpt-oss-120b-64195bfe3f none 0->0 peak 0 [apply]
      - is not in the cluster yet
      - downloads hf://openai/gpt-oss-120b@0123456789012345678901234567890123456789; the graph is applied once the download is complete
    Update chat DynamoGraphDeployment prod/chat managed-roll 1->1 peak 2 [apply]
      metadata.annotations["stator.dev/weights"]: "hf://openai/gpt-oss-120b@b5c939de8f754692c1647ca79fbf85e8c1e70f8a" -> "hf://openai/gpt-oss-120b@0123456789012345678901234567890123456789" (stator)
      spec.components[name=worker].podTemplate.spec.containers[name=main].args: ["--model","/opt/model-cache/hub/models--openai--gpt-oss-120b/snapshots/b5c939de8f754692c1647ca79fbf85e8c1e70f8a","--served-model-name","openai/gpt-oss-120b"] -> ["--model","/opt/model-cache/hub/models--openai--gpt-oss-120b/snapshots/0123456789012345678901234567890123456789","--served-model-name","openai/gpt-oss-120b"] (stator)
      - changed in git
      - applied once Job prod/weights-gpt-oss-120b-64195bfe3f is complete; until then it keeps serving unchanged
    Delete chat Job prod/weights-gpt-oss-120b-b55363e555 none 0->0 peak 0 [delete]
      - the model no longer has it
      - deleted once DynamoGraphDeployment prod/chat is Healthy; the downloaded files stay on the volume
    "#);
    let plan = story.plan();
    let graph = plan.changes.iter().find(|one| one.object.kind == "DynamoGraphDeployment").unwrap();
    let Some(crate::plan::PlannedWrite::Apply(apply)) = graph.step.write() else { panic!("{}", show(&plan)) };
    assert_eq!(apply.after.as_ref().unwrap().kind, "Job");
}

#[test]
fn what_serves_the_same_weights_changes_at_once() {
    let mut story = serving();
    // Another Job of the same revision: it fetches more files to the same folder.
    story.rendered = vec![model("chat", ONE, 2, ", include: ['*.json']")];
    insta::assert_snapshot!(story.show(), @"
    Keep chat PersistentVolumeClaim prod/cache none 0->0 peak 0
    Create chat Job prod/weights-gpt-oss-120b-5f6b5b5354 none 0->0 peak 0 [apply]
      - is not in the cluster yet
      - downloads hf://openai/gpt-oss-120b@b5c939de8f754692c1647ca79fbf85e8c1e70f8a; the graph is applied once the download is complete
    Update chat DynamoGraphDeployment prod/chat scale 1->2 peak 2 [apply]
      spec.components[name=worker].replicas: 1 -> 2 (stator)
      - changed in git
    Delete chat Job prod/weights-gpt-oss-120b-b55363e555 none 0->0 peak 0 [delete]
      - the model no longer has it
      - deleted once DynamoGraphDeployment prod/chat is Healthy; the downloaded files stay on the volume
    ");
}

#[test]
fn models_share_a_download_and_each_graph_waits_for_it() {
    let mut story = PlanScenario::synced([]);
    story.rendered = vec![model("a", ONE, 1, ""), model("b", ONE, 1, "")];
    insta::assert_snapshot!(story.show(), @"
    Create a PersistentVolumeClaim prod/cache none 0->0 peak 0 [apply]
      - is not in the cluster yet
    Create a Job prod/weights-gpt-oss-120b-b55363e555 none 0->0 peak 0 [apply]
      - is not in the cluster yet
      - downloads hf://openai/gpt-oss-120b@b5c939de8f754692c1647ca79fbf85e8c1e70f8a; the graph is applied once the download is complete
    Create a DynamoGraphDeployment prod/a none 0->1 peak 1 [apply]
      - is not in the cluster yet
      - applied once Job prod/weights-gpt-oss-120b-b55363e555 is complete
    Keep b PersistentVolumeClaim prod/cache none 0->0 peak 0
      - shared: model a renders the same object and applies it
    Keep b Job prod/weights-gpt-oss-120b-b55363e555 none 0->0 peak 0
      - shared: model a renders the same object and applies it
    Create b DynamoGraphDeployment prod/b none 0->1 peak 1 [apply]
      - is not in the cluster yet
      - applied once Job prod/weights-gpt-oss-120b-b55363e555 is complete
    ");
    // When the model that applies it goes, the other one has it.
    let mut story = PlanScenario::synced([model("a", ONE, 1, ""), model("b", ONE, 1, "")]);
    set_status(&mut story, "Complete");
    story.rendered.remove(0);
    let shown = story.show();
    assert!(!shown.contains("Delete a Job"), "{shown}");
}

#[test]
fn a_graph_waits_as_long_as_its_download_is_not_complete() {
    let mut story = serving();
    story.rendered = vec![model("chat", TWO, 1, "")];
    let mut plan = story.plan();
    plan.changes.retain(|one| one.object.kind == "Job" && one.action == Action::Create);
    story.carry_out(&plan);
    for (ended, waits) in [("Failed", true), ("Suspended", true), ("Complete", false)] {
        set_status(&mut story, ended);
        let shown = story.show();
        assert_eq!(shown.contains("applied once Job"), waits, "{ended}: {shown}");
    }
}

#[test]
fn revisions_are_compared_in_the_same_words() {
    let (base, head) = ([model("chat", ONE, 1, "")], [model("chat", TWO, 1, "")]);
    let comparison = RevisionComparison { base: &texts(&base), head: &texts(&head), ..RevisionComparison::default() };
    insta::assert_snapshot!(show(&compare_revisions(&comparison)), @r#"
    Keep chat PersistentVolumeClaim prod/cache none 0->0 peak 0
    Create chat Job prod/weights-gpt-oss-120b-64195bfe3f none 0->0 peak 0
      - is new
      - downloads hf://openai/gpt-oss-120b@0123456789012345678901234567890123456789; the graph is applied once the download is complete
    Update chat DynamoGraphDeployment prod/chat managed-roll 1->1 peak 2
      metadata.annotations["stator.dev/weights"]: "hf://openai/gpt-oss-120b@b5c939de8f754692c1647ca79fbf85e8c1e70f8a" -> "hf://openai/gpt-oss-120b@0123456789012345678901234567890123456789" (stator)
      spec.components[name=worker].podTemplate.spec.containers[name=main].args: ["--model","/opt/model-cache/hub/models--openai--gpt-oss-120b/snapshots/b5c939de8f754692c1647ca79fbf85e8c1e70f8a","--served-model-name","openai/gpt-oss-120b"] -> ["--model","/opt/model-cache/hub/models--openai--gpt-oss-120b/snapshots/0123456789012345678901234567890123456789","--served-model-name","openai/gpt-oss-120b"] (stator)
      - applied once Job prod/weights-gpt-oss-120b-64195bfe3f is complete; until then it keeps serving unchanged
    Delete chat Job prod/weights-gpt-oss-120b-b55363e555 none 0->0 peak 0
      - is no longer in git
    "#);
}
