//! A graph that is replaced new-first: which of two graphs a plan is about, whatever became of the last sync.

use super::world::{PlanScenario, graph, new_first, show, small, texts, worker};
use crate::intent::model::ReplacementOrder;
use crate::plan::{
    Action, Change, HoldKind, Plan, PlannedWrite, RevisionComparison, alternate_graph_name, compare_revisions,
};
use crate::render::RenderedModel;
use proptest::prelude::*;
use serde_json::json;
use stator_core::object::Object;
use std::collections::BTreeSet;

const DGD: &str = "DynamoGraphDeployment";

/// One worker: what the stories begin with.
fn together() -> RenderedModel {
    new_first(small("llama"))
}

/// Prefill and decode apart, which no graph of one worker becomes in place.
fn apart(replicas: u64) -> RenderedModel {
    new_first(graph("llama", [worker("decode", replicas, 1, "vllm:1.2.0"), worker("prefill", 1, 1, "vllm:1.2.0")]))
}

/// What no graph of either kind becomes in place.
fn planned() -> RenderedModel {
    new_first(graph("llama", [worker("worker", 1, 1, "vllm:1.2.0")]))
}

fn second() -> String {
    alternate_graph_name("llama")
}

/// A model of one graph that serves.
fn serving() -> PlanScenario {
    let mut story = PlanScenario::synced([together()]);
    story.ready("llama");
    story
}

/// The same with its replacement on the way.
fn half_way() -> PlanScenario {
    let mut story = serving();
    story.rendered = vec![apart(1)];
    story.allow = vec![HoldKind::Replace];
    let plan = story.plan();
    story.carry_out(&plan);
    story.allow.clear();
    story
}

fn graphs(story: &PlanScenario) -> Vec<String> {
    story.live.values().filter(|one| one.kind() == DGD).map(|one| one.name().to_owned()).collect()
}

/// A plan without its fields.
fn brief(plan: &Plan) -> String {
    let shown = show(plan);
    let lines: Vec<&str> = shown.lines().filter(|line| !line.starts_with("  ") || line.starts_with("  -")).collect();
    lines.join("\n")
}

fn lines(story: &PlanScenario) -> Vec<String> {
    let does = |change: &Change| match change.step.write() {
        None => "nothing".to_owned(),
        Some(PlannedWrite::Apply(_)) => "apply".to_owned(),
        Some(PlannedWrite::Replace { delete, apply }) => {
            let order = if delete.after.is_some() { "then" } else { "after" };
            format!("apply {} {order} delete {}", apply.object.name(), delete.object.name)
        }
        Some(PlannedWrite::Delete(step)) => {
            format!("delete after {}", step.after.as_ref().map_or("nothing", |after| after.name.as_str()))
        }
    };
    let plan = story.plan();
    plan.changes.iter().map(|one| format!("{} {}: {}", one.action.as_str(), one.object.name, does(one))).collect()
}

#[test]
fn it_is_held_until_allowed_and_names_the_new_address() {
    let mut story = serving();
    story.rendered = vec![apart(1)];
    insta::assert_snapshot!(brief(&story.plan()), @"
    Replace llama DynamoGraphDeployment prod/llama managed-roll 1->2 peak 3
      - changed in git
      - Dynamo forbids adding component `prefill` in place
      - DynamoGraphDeployment prod/llama-fc5a1 is created beside it; this one is deleted once the new one is Healthy; the address moves from Service `llama-frontend` to Service `llama-fc5a1-frontend`
      - held back: `--allow replace` creates the new graph and deletes this one once the new one is Healthy
    hold Replace allowed=false: Dynamo forbids these changes in place; to be replaced by a graph with another address: DynamoGraphDeployment prod/llama (then Service `llama-fc5a1-frontend`)
    ");
    story.allow = vec![HoldKind::Replace];
    insta::assert_snapshot!(brief(&story.plan()), @"
    Replace llama DynamoGraphDeployment prod/llama managed-roll 1->2 peak 3 [replace]
      - changed in git
      - Dynamo forbids adding component `prefill` in place
      - DynamoGraphDeployment prod/llama-fc5a1 is created beside it; this one is deleted once the new one is Healthy; the address moves from Service `llama-frontend` to Service `llama-fc5a1-frontend`
    hold Replace allowed=true: Dynamo forbids these changes in place; to be replaced by a graph with another address: DynamoGraphDeployment prod/llama (then Service `llama-fc5a1-frontend`)
    ");
}

#[test]
fn old_first_is_the_default_and_stays() {
    let mut story = serving();
    story.rendered = vec![RenderedModel { replacement: ReplacementOrder::OldFirst, ..apart(1) }];
    story.allow = vec![HoldKind::Replace];
    assert_eq!(lines(&story), ["replace llama: apply llama after delete llama"]);
    story.sync();
    assert_eq!(graphs(&story), ["llama"]);
}

#[test]
fn the_old_one_goes_once_the_new_one_is_healthy_and_the_next_replacement_has_its_name() {
    let mut story = half_way();
    assert_eq!(graphs(&story), ["llama".to_owned(), second()]);
    // Nobody has to allow it again: that the new one is there says that it was.
    insta::assert_snapshot!(brief(&story.plan()), @"
    Keep llama DynamoGraphDeployment prod/llama-fc5a1 none 2->2 peak 2
    Delete llama DynamoGraphDeployment prod/llama delete 1->0 peak 1 [delete]
      - DynamoGraphDeployment prod/llama-fc5a1 takes its place; this one keeps serving until that graph is Healthy; the address moves from Service `llama-frontend` to Service `llama-fc5a1-frontend`
    ");
    let plan = story.plan();
    story.carry_out(&plan);
    assert_eq!(graphs(&story).len(), 2, "the old one serves while the new one is not Healthy");
    story.ready(&second());
    story.sync();
    assert_eq!(graphs(&story), [second()]);
    insta::assert_snapshot!(brief(&story.plan()), @"Keep llama DynamoGraphDeployment prod/llama-fc5a1 none 2->2 peak 2");
    // In place, as any change.
    story.rendered = vec![apart(2)];
    assert_eq!(lines(&story), [format!("update {}: apply", second())]);
    story.sync();
    story.ready(&second());
    // And back.
    story.rendered = vec![together()];
    story.allow = vec![HoldKind::Replace];
    assert_eq!(lines(&story), [format!("replace {0}: apply llama then delete {0}", second())]);
    let plan = story.plan();
    story.carry_out(&plan);
    story.ready("llama");
    story.allow.clear();
    story.sync();
    assert_eq!(graphs(&story), ["llama"]);
}

#[test]
fn a_change_half_way_goes_to_the_new_one_in_place() {
    let mut story = half_way();
    story.rendered = vec![apart(3)];
    assert_eq!(
        lines(&story),
        [format!("update {}: apply", second()), format!("delete llama: delete after {}", second())]
    );
}

#[test]
fn a_further_replacement_half_way_makes_the_unfinished_one_again_and_the_old_one_serves() {
    let mut story = half_way();
    story.rendered = vec![planned()];
    insta::assert_snapshot!(brief(&story.plan()), @"
    Replace llama DynamoGraphDeployment prod/llama-fc5a1 recreate 2->1 peak 2
      - changed in git
      - Dynamo forbids removing component `decode` in place
      - Dynamo forbids removing component `prefill` in place
      - Dynamo forbids adding component `worker` in place
      - DynamoGraphDeployment prod/llama keeps serving meanwhile; the address moves from Service `llama-frontend` to Service `llama-fc5a1-frontend`
      - held back: `--allow replace` deletes it and creates it again
    Delete llama DynamoGraphDeployment prod/llama delete 1->0 peak 1
      - DynamoGraphDeployment prod/llama-fc5a1 takes its place; this one keeps serving until that graph is Healthy; the address moves from Service `llama-frontend` to Service `llama-fc5a1-frontend`
      - keeps serving, because its replacement DynamoGraphDeployment prod/llama-fc5a1 is held back
    hold Replace allowed=false: Dynamo forbids these changes in place; to be deleted and created again: DynamoGraphDeployment prod/llama-fc5a1
    ");
    story.allow = vec![HoldKind::Replace];
    assert_eq!(
        lines(&story),
        [
            format!("replace {0}: apply {0} after delete {0}", second()),
            format!("delete llama: delete after {}", second()),
        ]
    );
    let plan = story.plan();
    story.carry_out(&plan);
    assert_eq!(graphs(&story).len(), 2);
    story.ready(&second());
    story.allow.clear();
    story.sync();
    assert_eq!(graphs(&story), [second()]);
    assert_eq!(story.find(DGD, &second()).spec()["components"][1]["name"], "worker");
}

#[test]
fn of_two_that_serve_a_further_replacement_makes_the_one_again_that_was_to_go() {
    let mut story = half_way();
    story.ready(&second());
    story.tamper(DGD, "llama", |value| value["metadata"]["creationTimestamp"] = json!("2026-11-20T00:00:00Z"));
    story.tamper(DGD, &second(), |value| value["metadata"]["creationTimestamp"] = json!("2026-11-21T00:00:00Z"));
    story.rendered = vec![planned()];
    story.allow = vec![HoldKind::Replace];
    assert_eq!(
        lines(&story),
        [
            "replace llama: apply llama after delete llama".to_owned(),
            format!("delete {}: delete after llama", second()),
        ]
    );
}

#[test]
fn taken_back_half_way_the_unfinished_one_goes() {
    let mut story = half_way();
    story.rendered = vec![together()];
    insta::assert_snapshot!(brief(&story.plan()), @"
    Keep llama DynamoGraphDeployment prod/llama none 1->1 peak 1
    Delete llama DynamoGraphDeployment prod/llama-fc5a1 delete 2->0 peak 2 [delete]
      - DynamoGraphDeployment prod/llama takes its place; this one keeps serving until that graph is Healthy; the address moves from Service `llama-fc5a1-frontend` to Service `llama-frontend`
    ");
    story.sync();
    assert_eq!(graphs(&story), ["llama"]);
}

#[test]
fn a_model_that_is_removed_takes_both_with_it() {
    let mut story = half_way();
    story.rendered = vec![small("other")];
    let deleted = format!("delete {}: delete after nothing", second());
    assert_eq!(lines(&story)[1..], ["delete llama: delete after nothing".to_owned(), deleted]);
    // Out of prune, nothing of it goes, but what was replaced goes in any case.
    let mut story = half_way();
    story.keep_leftovers = true;
    assert_eq!(lines(&story)[1], format!("delete llama: delete after {}", second()));
}

#[test]
fn a_record_that_is_lost_changes_nothing_of_it() {
    let mut story = half_way();
    story.ready(&second());
    story.sync();
    story.records.clear();
    assert_eq!(lines(&story), [format!("keep {}: nothing", second())]);
    // What is gone comes back where clients know it.
    let mut story = half_way();
    story.ready(&second());
    story.sync();
    story.live.clear();
    assert_eq!(lines(&story), [format!("create {}: apply", second())]);
}

#[test]
fn the_old_one_serves_while_the_new_one_is_blocked_or_held() {
    let mut story = half_way();
    story.edit("kubectl-edit", DGD, &second(), |value| {
        value["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["image"] = json!("vllm:hotfix");
    });
    story.rendered =
        vec![new_first(graph("llama", [worker("decode", 1, 1, "vllm:1.2.1"), worker("prefill", 1, 1, "vllm:1.2.0")]))];
    insta::assert_snapshot!(brief(&story.plan()), @"
    Blocked llama DynamoGraphDeployment prod/llama-fc5a1 none 2->2 peak 2
      - spec.components[name=decode].podTemplate.spec.containers[name=main].image: owned by kubectl-edit; write its value into the intent, or name kubectl-edit in `spec.takeOver` to take it back
    Keep llama DynamoGraphDeployment prod/llama none 1->1 peak 1
      - keeps serving, because its replacement DynamoGraphDeployment prod/llama-fc5a1 is blocked
    ");
    let mut story = half_way();
    story.guards.max_gpus = Some(2);
    story.rendered = vec![apart(4)];
    insta::assert_snapshot!(brief(&story.plan()), @"
    Update llama DynamoGraphDeployment prod/llama-fc5a1 scale 2->5 peak 5
      - changed in git
      - held back: the environment would exceed its GPU limit
    Delete llama DynamoGraphDeployment prod/llama delete 1->0 peak 1
      - DynamoGraphDeployment prod/llama-fc5a1 takes its place; this one keeps serving until that graph is Healthy; the address moves from Service `llama-frontend` to Service `llama-fc5a1-frontend`
      - keeps serving, because its replacement DynamoGraphDeployment prod/llama-fc5a1 is held back
    hold MaxGpus allowed=false: up to 6 GPUs would be needed at once; the environment's limit is 2
    ");
}

#[test]
fn the_gpus_of_both_are_its_peak_and_more_than_the_limit_hold_it_back() {
    let mut story = serving();
    story.rendered = vec![apart(1)];
    story.allow = vec![HoldKind::Replace];
    story.guards.max_gpus = Some(2);
    insta::assert_snapshot!(brief(&story.plan()), @"
    Replace llama DynamoGraphDeployment prod/llama managed-roll 1->2 peak 3
      - changed in git
      - Dynamo forbids adding component `prefill` in place
      - DynamoGraphDeployment prod/llama-fc5a1 is created beside it; this one is deleted once the new one is Healthy; the address moves from Service `llama-frontend` to Service `llama-fc5a1-frontend`
      - held back: the environment would exceed its GPU limit
    hold Replace allowed=true: Dynamo forbids these changes in place; to be replaced by a graph with another address: DynamoGraphDeployment prod/llama (then Service `llama-fc5a1-frontend`)
    hold MaxGpus allowed=false: up to 3 GPUs would be needed at once; the environment's limit is 2
    ");
    story.guards.max_gpus = Some(3);
    assert_eq!(story.plan().holds.iter().filter(|hold| !hold.allowed).count(), 0);
    // Old-first would have had space.
    story.guards.max_gpus = Some(2);
    story.rendered = vec![RenderedModel { replacement: ReplacementOrder::OldFirst, ..apart(1) }];
    assert_eq!(lines(&story), ["replace llama: apply llama after delete llama"]);
}

#[test]
fn what_stands_in_the_way_of_a_second_graph_is_said() {
    let blocked = |story: &PlanScenario| {
        let plan = story.plan();
        let blocked = plan.changes.iter().find(|one| one.action == Action::Blocked).unwrap();
        blocked.reasons.last().unwrap().to_string()
    };
    let mut story = serving();
    story.allow = vec![HoldKind::Replace];
    let mut other = small(&second());
    other.source = "models/other/model.yaml".to_owned();
    story.rendered = vec![apart(1), other];
    insta::assert_snapshot!(blocked(&story), @"cannot be replaced new-first, because DynamoGraphDeployment prod/llama-fc5a1 is another object: rename or delete it, or set `rollout.replace: old-first`");

    let mut story = serving();
    story.allow = vec![HoldKind::Replace];
    story.rendered = vec![apart(1)];
    let theirs = json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": DGD, "metadata": {"name": second(), "namespace": "prod"},
        "spec": {"components": [{"name": "worker", "type": "worker"}]},
    });
    story.write(&Object::from_value(theirs).unwrap(), "kubectl", false);
    insta::assert_snapshot!(blocked(&story), @"cannot be replaced new-first, because DynamoGraphDeployment prod/llama-fc5a1 is another object: rename or delete it, or set `rollout.replace: old-first`");

    let mut story = serving();
    story.allow = vec![HoldKind::Replace];
    let mut global = worker("prefill", 1, 1, "vllm:1.2.0");
    global["globalDynamoNamespace"] = json!(true);
    story.rendered = vec![new_first(graph("llama", [worker("decode", 1, 1, "vllm:1.2.0"), global]))];
    insta::assert_snapshot!(blocked(&story), @"cannot be replaced new-first, because component `prefill` has `globalDynamoNamespace: true` and both graphs would find each other's workers: set `rollout.replace: old-first`");

    // The first one is still on its way out when git wants its kind again.
    let mut story = half_way();
    story.ready(&second());
    story.tamper(DGD, "llama", |value| {
        value["metadata"]["deletionTimestamp"] = json!("2026-11-21T00:00:00Z");
        value["metadata"]["finalizers"] = json!(["nvidia.com/finalizer"]);
    });
    story.allow = vec![HoldKind::Replace];
    story.rendered = vec![planned()];
    insta::assert_snapshot!(blocked(&story), @"cannot be replaced new-first yet, because DynamoGraphDeployment prod/llama, which it replaced, is still being deleted: sync again once it is gone");
}

#[test]
fn what_the_cluster_refuses_to_create_beside_it_is_not_tried() {
    let mut story = serving();
    story.rendered = vec![apart(1)];
    story.allow = vec![HoldKind::Replace];
    let mut input = story.input();
    let plan = crate::plan::build_plan(&input);
    let (apply, is_beside) = plan.replacements().next().unwrap();
    assert_eq!((apply.object.name(), is_beside), (second().as_str(), true));
    input.answers.refused_replacements.insert(apply.object.reference().identity(), "exceeded quota: gpus".to_owned());
    insta::assert_snapshot!(brief(&crate::plan::build_plan(&input)), @"
    Blocked llama DynamoGraphDeployment prod/llama none 1->1 peak 1
      - changed in git
      - Dynamo forbids adding component `prefill` in place
      - is not deleted, because the cluster would refuse to re-create it: exceeded quota: gpus; fix that, then sync again
    ");
}

#[test]
fn a_preview_says_that_a_new_graph_comes_first() {
    let (base, head) = ([together()], [apart(1)]);
    let comparison = RevisionComparison { base: &texts(&base), head: &texts(&head), ..RevisionComparison::default() };
    insta::assert_snapshot!(brief(&compare_revisions(&comparison)), @"
    Replace llama DynamoGraphDeployment prod/llama managed-roll 1->2 peak 3
      - Dynamo forbids adding component `prefill` in place
      - a new graph is created beside it; this one is deleted once the new one is Healthy
    hold Replace allowed=false: Dynamo forbids these changes in place; to be replaced by a graph with another address: DynamoGraphDeployment prod/llama
    ");
}

/// As long as a model's name, or as long as one may be that leaves space for what the operator makes of it; and a name.
#[test]
fn an_alternate_name_follows_from_the_models_and_is_not_much_longer() {
    assert_eq!(alternate_graph_name("llama"), "llama-fc5a1");
    assert_ne!(alternate_graph_name("llama-2"), alternate_graph_name("llama-3"));
    for length in 1..=63 {
        let model = "m".repeat(length);
        let other = alternate_graph_name(&model);
        assert!(other.len() <= length.max(24), "{other}");
        assert_ne!(other, model);
        assert!(other.parse::<crate::intent::scalar::ModelName>().is_ok(), "{other}");
    }
    assert_eq!(alternate_graph_name(&format!("{}-x", "m".repeat(17))), format!("{}-c2714", "m".repeat(17)));
}

/// What happens to a model, one thing after the other.
#[derive(Clone, Debug)]
enum Step {
    /// git wants another graph.
    Want(usize),
    /// Somebody says `--allow replace`, for the next sync alone.
    Allow,
    /// A sync, which ends after so many of its lines.
    Sync(usize),
    /// The operator brings one of the graphs up.
    Ready(bool),
    /// Somebody deletes the record.
    Forget,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0_usize..5).prop_map(Step::Want),
        Just(Step::Allow),
        (0_usize..4).prop_map(Step::Sync),
        any::<bool>().prop_map(Step::Ready),
        Just(Step::Forget),
    ];
    proptest::collection::vec(step, 1..24)
}

fn wanted(which: usize) -> RenderedModel {
    [together(), apart(1), apart(2), planned(), RenderedModel { replacement: ReplacementOrder::OldFirst, ..planned() }]
        [which]
        .clone()
}

fn serves(story: &PlanScenario) -> bool {
    story.live.values().any(|one| stator_core::dynamo::health::assess_health(one, None).health.is_good())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 2, ..ProptestConfig::default() })]

    /// Whatever git says and whenever a sync ends: there are never more than the two graphs; nothing that is Healthy is
    /// deleted unless another graph is, or git wants it old-first; and what nobody disturbs any more ends as one graph as
    /// git says, and an empty plan.
    #[test]
    fn two_graphs_at_most_one_that_serves_and_an_end(steps in steps()) {
        let mut story = serving();
        for step in steps {
            match step {
                Step::Want(which) => story.rendered = vec![wanted(which)],
                Step::Allow => story.allow = vec![HoldKind::Replace],
                Step::Sync(lines) => {
                    let served = serves(&story);
                    let mut plan = story.plan();
                    let alone = plan.changes.iter().filter(|one| one.object.kind == DGD).count() == 1;
                    plan.changes.truncate(lines);
                    let in_place = |one: &Change| matches!(
                        one.step.write(), Some(PlannedWrite::Replace { delete, .. }) if delete.after.is_none()
                    );
                    let changed = plan.changes.iter().any(|one| in_place(one) || one.action == Action::Update);
                    let old_first = story.rendered[0].replacement == ReplacementOrder::OldFirst;
                    story.carry_out(&plan);
                    story.allow.clear();
                    prop_assert!(!served || serves(&story) || changed, "nothing serves any more");
                    prop_assert!(old_first || !(plan.changes.iter().any(in_place) && alone), "{}", show(&plan));
                }
                Step::Ready(first) => {
                    let name = if first { "llama".to_owned() } else { second() };
                    if graphs(&story).contains(&name) {
                        story.ready(&name);
                    }
                }
                // Of two graphs without a record, the other one is blocked: nothing is deleted that may be somebody's.
                Step::Forget if graphs(&story).len() == 1 => story.records.clear(),
                Step::Forget => {}
            }
            let names: BTreeSet<String> = graphs(&story).into_iter().collect();
            prop_assert!(names.len() <= 2 && names.iter().all(|name| *name == "llama" || *name == second()));
        }
        story.allow = vec![HoldKind::Replace];
        for _ in 0..4 {
            let plan = story.plan();
            story.carry_out(&plan);
            for name in graphs(&story) {
                story.ready(&name);
            }
        }
        let plan = story.plan();
        prop_assert_eq!(graphs(&story).len(), 1, "{}", show(&plan));
        prop_assert!(plan.changes.iter().all(|one| one.action == Action::Keep), "{}", show(&plan));
    }
}
