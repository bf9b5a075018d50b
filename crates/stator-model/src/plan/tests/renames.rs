//! A model that gets another name, folder or both serves until it does so under its new name.

use super::world::*;
use crate::intent::BrokenIntent;
use crate::plan::{HoldKind, PlannedWrite, Record, RevisionComparison, compare_revisions};
use crate::render::RenderedModel;
use serde_json::json;
use stator_core::finding::{Finding, Location};

const DGD: &str = "DynamoGraphDeployment";

/// A model in a folder of its own name, with an intent that others do not have.
fn model(name: &str, intent: &str) -> RenderedModel {
    RenderedModel { intent: json!({"model": intent, "engine": "vllm"}).into(), ..small(name) }
}

/// The same, replaced old-first because the intent says so.
fn old_first(rendered: RenderedModel) -> RenderedModel {
    let mut intent = rendered.intent.parse();
    intent["rollout"] = json!({"replace": "old-first"});
    RenderedModel { intent: intent.into(), ..rendered }
}

/// What a sync records besides the objects.
fn keep_intents(story: &mut PlanScenario) {
    let plan = story.plan();
    for (model, record) in &mut story.records {
        if let Some(intent) = plan.intents.get(model) {
            *record = Record { intent: intent.clone(), ..record.clone() };
        }
    }
}

fn synced(models: impl IntoIterator<Item = RenderedModel>) -> PlanScenario {
    let mut story = PlanScenario::synced(models);
    keep_intents(&mut story);
    story
}

fn has_graph(story: &PlanScenario, name: &str) -> bool {
    story.live.values().any(|one| one.kind() == DGD && one.name() == name)
}

/// Row N3 of the second review: name and folder change in one commit.
#[test]
fn a_renamed_model_serves_until_its_new_name_is_healthy() {
    let mut story = synced([with_adapter(model("aa", "qwen"), "aa-sql"), model("stays", "llama")]);
    story.rendered[0] = with_adapter(model("az", "qwen"), "az-sql");
    insta::assert_snapshot!(story.show(), @"
    Create az DynamoGraphDeployment prod/az none 0->1 peak 1 [apply]
      - is not in the cluster yet
      - takes the place of model aa
    Create az DynamoModel prod/az-sql adapter-only 0->0 peak 0 [apply]
      - is not in the cluster yet
      - applied once graph az is Ready
    Keep stays DynamoGraphDeployment prod/stays none 1->1 peak 1
    Delete aa DynamoModel prod/aa-sql adapter-only 0->0 peak 0 [delete]
      - model aa is no longer in git
      - model az takes its place; this one stays until that is Healthy
    Delete aa DynamoGraphDeployment prod/aa delete 1->0 peak 1 [delete]
      - model aa is no longer in git
      - model az takes its place; this one stays until that is Healthy; the address moves from Service `aa-frontend` to Service `az-frontend`
    retired: aa
    ");
    let plan = story.plan();
    story.carry_out(&plan);
    keep_intents(&mut story);
    assert!(has_graph(&story, "aa") && has_graph(&story, "az"));
    // A broken image: for as long as it takes, the old one serves.
    let plan = story.plan();
    assert!(show(&plan).contains("model az takes its place; this one stays until that is Healthy"), "{}", show(&plan));
    story.carry_out(&plan);
    assert!(has_graph(&story, "aa"));
    story.ready("az");
    story.sync();
    assert!(!has_graph(&story, "aa") && !story.records.contains_key("aa"));
}

/// Only the name in the file changes, or only the folder.
#[test]
fn a_new_name_in_the_same_file_is_a_rename_whatever_else_changes() {
    let mut story = synced([model("aa", "qwen"), model("stays", "llama")]);
    story.rendered[0] = RenderedModel { source: "models/aa/model.yaml".into(), ..model("az", "other") };
    assert!(story.show().contains("takes the place of model aa"), "{}", story.show());
    // Another folder under the same name is no change at all.
    story.rendered[0] = RenderedModel { source: "moved/model.yaml".into(), ..model("aa", "qwen") };
    assert!(!story.show().contains("takes the place"), "{}", story.show());
    story.sync();
}

/// Row N3: a guard holds the new one back.
#[test]
fn a_renamed_model_serves_while_a_guard_holds_its_new_name_back() {
    let mut story = synced([model("aa", "qwen"), model("stays", "llama")]);
    story.guards.max_gpus = Some(2);
    story.rendered[0] = model("az", "qwen");
    insta::assert_snapshot!(story.show(), @"
    Create az DynamoGraphDeployment prod/az none 0->1 peak 1
      - is not in the cluster yet
      - takes the place of model aa
      - held back: the environment would exceed its GPU limit
    Keep stays DynamoGraphDeployment prod/stays none 1->1 peak 1
    Delete aa DynamoGraphDeployment prod/aa delete 1->0 peak 1
      - model aa is no longer in git
      - model az takes its place; this one stays until that is Healthy; the address moves from Service `aa-frontend` to Service `az-frontend`
      - keeps serving, because its replacement DynamoGraphDeployment prod/az is held back
    hold MaxGpus allowed=false: up to 3 GPUs would be needed at once; the environment's limit is 2
    ");
    let plan = story.plan();
    story.carry_out(&plan);
    assert!(has_graph(&story, "aa") && story.records.contains_key("aa") && plan.retired.is_empty());
}

/// `rollout.replace: old-first` says that there are no GPUs for both.
#[test]
fn a_renamed_model_goes_first_where_its_intent_says_so() {
    let mut story = synced([old_first(model("aa", "qwen")), model("stays", "llama")]);
    story.guards.max_gpus = Some(2);
    story.rendered[0] = old_first(model("az", "qwen"));
    insta::assert_snapshot!(story.show(), @"
    Create az DynamoGraphDeployment prod/az none 0->1 peak 0 [apply]
      - is not in the cluster yet
      - takes the place of model aa
    Keep stays DynamoGraphDeployment prod/stays none 1->1 peak 1
    Delete aa DynamoGraphDeployment prod/aa delete 1->0 peak 1 [delete]
      - model aa is no longer in git
      - model az takes its place, once this is gone; the address moves from Service `aa-frontend` to Service `az-frontend`
    retired: aa
    ");
    assert_eq!(story.plan().renames.get("aa").map(String::as_str), Some("az"), "the sync applies the new one first");
    story.sync();
    assert!(!has_graph(&story, "aa") && has_graph(&story, "az"));
    // Where the new one cannot be made, nothing goes: somebody else's graph has its name.
    keep_intents(&mut story);
    story.rendered[0] = old_first(model("b", "qwen"));
    story.write(&object(DGD, "nvidia.com/v1beta1", "b", "b", json!({})), "kubectl", false);
    assert!(!story.show().contains("[delete]"), "{}", story.show());
}

/// Row N3: a policy refuses the new one, or its file cannot be read.
#[test]
fn a_renamed_model_serves_while_its_new_file_has_errors() {
    let mut story = synced([model("aa", "qwen"), model("stays", "llama")]);
    let fault =
        Finding::error(crate::intent::rules::POLICY_VIOLATED, Location::default(), "too big", "make it smaller");
    let refused = RenderedModel { objects: Vec::new(), findings: vec![fault], ..model("az", "qwen") };
    story.rendered[0] = refused;
    insta::assert_snapshot!(story.show(), @"
    Keep aa DynamoGraphDeployment prod/aa none 1->1 peak 1
      - git no longer has it; it stays, because its replacement, model az, has errors
    Keep stays DynamoGraphDeployment prod/stays none 1->1 peak 1
    error[policy/violated] : too big
    ");
    story.rendered.remove(0);
    story.broken = vec![BrokenIntent { source: "models/az/model.yaml".into(), name: Some("az".into()) }];
    insta::assert_snapshot!(story.show(), @"
    Keep aa DynamoGraphDeployment prod/aa none 1->1 peak 1
      - git no longer has it, but models/az/model.yaml has errors, and it may belong to that model
    Keep stays DynamoGraphDeployment prod/stays none 1->1 peak 1
    ");
    assert!(story.plan().retired.is_empty());
}

/// Two of one intent: each has a successor of its own, and what has none goes.
#[test]
fn each_model_takes_the_place_of_one() {
    let mut story = synced([model("a", "qwen"), model("b", "qwen"), model("c", "qwen"), model("stays", "llama")]);
    story.allow = vec![HoldKind::MassDelete];
    story.rendered = vec![model("x", "qwen"), model("y", "qwen"), model("stays", "llama")];
    let plan = story.plan();
    let pairs: Vec<(&str, &str)> = plan.renames.iter().map(|(old, new)| (old.as_str(), new.as_str())).collect();
    assert_eq!(pairs, [("a", "x"), ("b", "y")]);
    let now = plan.changes.iter().filter(|one| match one.step.write() {
        Some(PlannedWrite::Delete(delete)) => delete.after.is_none(),
        Some(PlannedWrite::Apply(_) | PlannedWrite::Replace { .. }) | None => false,
    });
    assert_eq!(now.map(|one| one.model.as_str()).collect::<Vec<_>>(), ["c"]);
}

/// One that served long before is nobody's new name.
#[test]
fn a_model_that_was_healthy_before_takes_nobodys_place() {
    let mut story = synced([model("aa", "qwen"), model("az", "qwen"), model("stays", "llama")]);
    let seen = crate::plan::ObservedModelState {
        health: stator_core::dynamo::health::Health::Healthy,
        ..crate::plan::ObservedModelState::default()
    };
    story.records.get_mut("az").unwrap().state = Some(crate::plan::RecordState::new(seen, NOW, None));
    story.rendered.remove(0);
    assert!(story.plan().renames.is_empty());
    story.sync();
    assert!(!has_graph(&story, "aa"));
}

/// What a pull request shows, with no cluster to ask.
#[test]
fn a_preview_shows_a_rename_as_one() {
    let (base, head) = ([model("aa", "qwen"), model("stays", "llama")], [model("az", "qwen"), model("stays", "llama")]);
    let comparison = RevisionComparison { base: &texts(&base), head: &texts(&head), ..RevisionComparison::default() };
    insta::assert_snapshot!(show(&compare_revisions(&comparison)), @"
    Create az DynamoGraphDeployment prod/az none 0->1 peak 1
      - is new
      - takes the place of model aa
    Keep stays DynamoGraphDeployment prod/stays none 1->1 peak 1
    Delete aa DynamoGraphDeployment prod/aa delete 1->0 peak 1
      - is no longer in git
      - model az takes its place; this one stays until that is Healthy
    ");
}
