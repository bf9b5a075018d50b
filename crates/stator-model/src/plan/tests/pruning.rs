//! What is deleted, and what never is.

use super::world::*;
use crate::intent::BrokenIntent;
use crate::plan::{
    Action, HoldKind, ModelStatusContext, PlanScope, PlannedWrite, UnreadableObject, join_reasons, model_statuses,
};
use serde_json::json;

const DGD: &str = "DynamoGraphDeployment";

fn three() -> PlanScenario {
    PlanScenario::synced([with_claim(with_adapter(small("a"), "a-sql"), "cache", "1Ti"), small("b"), small("c")])
}

#[test]
fn a_removed_model_goes_adapter_first_and_its_weights_stay() {
    let mut story = three();
    story.rendered.remove(0);
    insta::assert_snapshot!(story.show(), @r#"
    Keep a PersistentVolumeClaim prod/cache none 0->0 peak 0
      - git no longer has it; it is kept because it holds data: delete it by hand
    Keep b DynamoGraphDeployment prod/b none 1->1 peak 1
    Keep c DynamoGraphDeployment prod/c none 1->1 peak 1
    Delete a DynamoModel prod/a-sql adapter-only 0->0 peak 0 [delete]
      - model a is no longer in git
    Delete a DynamoGraphDeployment prod/a delete 1->0 peak 1 [delete]
      - model a is no longer in git
    retired: a
    "#);
    story.sync();
    insta::assert_snapshot!(story.show(), @r#"
    Keep a PersistentVolumeClaim prod/cache none 0->0 peak 0
      - git no longer has it; it is kept because it holds data: delete it by hand
    Keep b DynamoGraphDeployment prod/b none 1->1 peak 1
    Keep c DynamoGraphDeployment prod/c none 1->1 peak 1
    "#);
}

/// Many storage classes bind a claim only once a pod mounts it: the model would be Progressing for ever.
#[test]
fn a_claim_that_is_kept_is_nothing_to_wait_for() {
    let mut story = three();
    story.tamper("PersistentVolumeClaim", "cache", |claim| claim["status"] = json!({"phase": "Pending"}));
    story.rendered.remove(0);
    story.sync();
    let all = model_statuses(&story.input(), &story.plan(), &ModelStatusContext::default());
    let removed = all.iter().find(|model| model.name == "a").unwrap();
    insta::assert_snapshot!(format!("{} {:?} {}", removed.health, removed.sync, removed.objects[0].message), @"Healthy Synced is kept with its data");
}

#[test]
fn a_broken_model_keeps_its_objects() {
    let mut story = three();
    story.rendered.remove(1);
    story.broken = vec![BrokenIntent { source: "models/b/model.yaml".into(), name: None }];
    assert!(!story.show().contains("[delete]"), "found by its path");
    insta::assert_snapshot!(story.show(), @r#"
    Keep a PersistentVolumeClaim prod/cache none 0->0 peak 0
    Keep a DynamoGraphDeployment prod/a none 1->1 peak 1
    Keep a DynamoModel prod/a-sql none 0->0 peak 0
    Keep b DynamoGraphDeployment prod/b none 1->1 peak 1
      - git no longer has it, and its model has errors: kept until they are fixed
    Keep c DynamoGraphDeployment prod/c none 1->1 peak 1
    "#);
    // A file that nobody knows may hold any of the models that are missing.
    story.broken = vec![BrokenIntent { source: "elsewhere/model.yaml".into(), name: None }];
    assert!(!story.show().contains("[delete]"));
    assert!(story.plan().retired.is_empty());
}

#[test]
fn a_sync_of_one_model_leaves_the_others_out() {
    let mut story = three();
    story.rendered = vec![small("b")];
    story.scope = PlanScope::Models(["b".to_owned()].into());
    insta::assert_snapshot!(story.show(), @"Keep b DynamoGraphDeployment prod/b none 1->1 peak 1");
}

#[test]
fn an_empty_render_never_prunes() {
    let mut story = three();
    story.rendered.clear();
    story.allow = vec![HoldKind::MassDelete, HoldKind::Delete];
    let plan = story.plan();
    assert!(plan.changes.iter().all(|change| change.step.write().is_none()));
    assert!(plan.retired.is_empty());
    assert_eq!(plan.summary.blocked, 5);
}

#[test]
fn many_deletions_wait_for_a_release() {
    let names: Vec<String> = (0..20).map(|number| format!("m{number:02}")).collect();
    let mut story = PlanScenario::synced(names.iter().map(|name| small(name)));
    story.rendered.truncate(14);
    let held = story.plan();
    assert!(held.changes.iter().all(|change| change.step.write().is_none()));
    let mut deletions = held.changes.iter().filter(|change| change.action == Action::Delete);
    assert!(deletions.clone().all(|change| change.step.held_by() == Some(HoldKind::MassDelete)));
    assert_eq!(serde_json::to_value(deletions.next_back().unwrap()).unwrap()["heldBy"], "mass-delete");
    assert!(held.retired.is_empty());
    insta::assert_snapshot!(format!("{:?}", held.holds), @r#"[Hold { kind: MassDelete, message: "6 of 20 objects would be deleted; the limit without approval is 5", help: "check what git lost; if all of it is to go: https://stator.dev/docs/how-to/prune-safely#many-deletions-at-once", allowed: false }]"#);
    story.allow = vec![HoldKind::MassDelete];
    assert_eq!(
        story
            .plan()
            .changes
            .iter()
            .filter(|change| matches!(change.step.write(), Some(PlannedWrite::Delete(_))))
            .count(),
        6
    );
    story.allow.clear();
    // Five are few.
    story.rendered = names[..15].iter().map(|name| small(name)).collect();
    assert!(story.plan().holds.is_empty());
    // The environment may say otherwise.
    story.guards.max_deletions = Some(0);
    assert_eq!(story.plan().holds.len(), 1);
}

#[test]
fn only_what_label_record_and_manager_call_stators_is_deleted() {
    let removed = |change: &dyn Fn(&mut PlanScenario)| {
        let mut story = three();
        story.rendered.remove(1);
        change(&mut story);
        let plan = story.plan();
        let line = plan.changes.iter().find(|one| one.object.name == "b").unwrap();
        assert!(!matches!(line.step.write(), Some(PlannedWrite::Delete(_))), "{:?}", line.reasons);
        // Row C2 of the review: what is left is counted and said, and its record stays.
        assert!(line.action != Action::Blocked || !plan.retired.contains(&"b".to_owned()));
        let leftovers = plan.findings.iter().filter(|one| one.rule.id == "plan/leftover").count();
        format!("{} {leftovers}: {}", line.action.as_str(), join_reasons(&line.reasons))
    };
    let reasons = [
        removed(&|story| story.tamper(DGD, "b", |value| value["metadata"]["uid"] = json!("another"))),
        removed(&|story| {
            story.tamper(DGD, "b", |value| {
                value["metadata"]["labels"].as_object_mut().unwrap().remove("stator.dev/repository");
            });
        }),
        removed(&|story| story.tamper(DGD, "b", |value| value["metadata"]["managedFields"] = json!([]))),
        removed(&|story| {
            story.tamper(DGD, "b", |value| {
                value["metadata"]["annotations"] = json!({"meta.helm.sh/release-name": "x"});
            });
        }),
        removed(&|story| drop(story.records.remove("b"))),
        removed(&|story| {
            story.records.remove("b");
            story.damaged = vec![UnreadableObject {
                object: reference("Model", "b"),
                message: "not YAML".into(),
                is_foreign: false,
            }];
        }),
        removed(&|story| story.keep_leftovers = true),
    ];
    insta::assert_snapshot!(reasons.join("\n"), @"
    blocked 1: git no longer has it, but it is not the object that stator created: its uid differs: delete it by hand
    blocked 1: git no longer has it, but its labels no longer mark it as managed by stator: delete it by hand
    blocked 1: git no longer has it, but stator is not among its field managers: delete it by hand
    keep 1: git no longer has it, but it is managed by Helm (`meta.helm.sh/release-name`): remove it from Helm first, or two tools would fight: delete it by hand
    blocked 1: git no longer has it, but no record shows that stator created it: delete it by hand
    blocked 1: git no longer has it, but the model's record is damaged: delete it by hand
    keep 0: git no longer has it; it is kept because pruning is off
    ");
}

#[test]
fn a_crash_between_apply_and_record_loses_nothing() {
    let mut story = three();
    // A record or a journal named it, and the answer never came.
    story.records.get_mut("b").unwrap().inventory[0].uid = None;
    let plan = story.plan();
    let line = plan.changes.iter().find(|one| one.object.name == "b").unwrap();
    assert_eq!(line.inventory.as_ref().unwrap().uid.as_deref(), story.find(DGD, "b").uid());
    // Removed from git at that very moment, it goes all the same.
    story.rendered.remove(1);
    story.sync();
    assert!(!story.live.values().any(|one| one.name() == "b"));
}

#[test]
fn an_object_that_moves_to_another_model_is_not_deleted() {
    let mut story = three();
    let mut moved = story.rendered.remove(2);
    moved.model = "d".into();
    moved.objects[0].object = moved.objects[0]
        .object
        .clone()
        .map(|mut value| {
            value["metadata"]["labels"]["stator.dev/model"] = json!("d");
            value
        })
        .unwrap();
    story.rendered.push(moved);
    let plan = show(&story.plan());
    assert!(!plan.contains("[delete]"));
    assert!(plan.contains("moves here from model c"), "{plan}");
    story.sync();
}
