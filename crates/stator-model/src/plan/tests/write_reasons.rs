//! What a plan says of each write, and what it records, one cause at a time.

use super::world::*;
use crate::plan::{
    Action, Change, HoldKind, InventoryEntry, SEED_MANAGER, UnchangedSummary, UnchangedTotals, build_plan,
    replicas_only, with_replicas,
};
use crate::render::RenderedModel;
use serde_json::json;
use stator_core::dynamo::kinds::{FIELD_MANAGER, LABEL_OWNER_ID};
use std::collections::BTreeMap;

const DGD: &str = "DynamoGraphDeployment";

fn reasons(story: &PlanScenario) -> Vec<String> {
    story.plan().changes.iter().flat_map(|one| one.reasons.iter().map(ToString::to_string)).collect()
}

/// The change of an object by name.
fn change(story: &PlanScenario, name: &str) -> Change {
    story.plan().changes.iter().find(|one| one.object.name == name).unwrap().clone()
}

#[test]
fn an_adapter_waits_for_its_graph_only_while_that_is_not_ready() {
    let mut story = PlanScenario::synced([small("llama")]);
    story.rendered = vec![with_adapter(small("llama"), "llama-sql")];
    insta::assert_snapshot!(story.show(), @"
    Keep llama DynamoGraphDeployment prod/llama none 1->1 peak 1
    Create llama DynamoModel prod/llama-sql adapter-only 0->0 peak 0 [apply]
      - is not in the cluster yet
      - applied once graph llama is Ready
    ");
    story.ready("llama");
    insta::assert_snapshot!(story.show(), @"
    Keep llama DynamoGraphDeployment prod/llama none 1->1 peak 1
    Create llama DynamoModel prod/llama-sql adapter-only 0->0 peak 0 [apply]
      - is not in the cluster yet
    ");
}

/// A release that claims the object from now on will write it again, whatever it holds now.
#[test]
fn an_object_that_another_tool_claims_is_held_although_nothing_of_it_differs() {
    let mut story = PlanScenario::synced([small("llama")]);
    story.tamper(DGD, "llama", |value| {
        value["metadata"]["annotations"]["meta.helm.sh/release-name"] = json!("llama");
    });
    insta::assert_snapshot!(story.show(), @r#"
    Adopt llama DynamoGraphDeployment prod/llama none 1->1 peak 1
      metadata.annotations: {"meta.helm.sh/release-name":"llama"} -> null (stator)
      - already exists and is managed by Helm (`meta.helm.sh/release-name`): allow its adoption once Helm no longer manages it, or give the model another name
      - held back: `--allow adopt` takes it over
    hold Adopt allowed=false: already in the cluster, not managed by stator; would be taken over: DynamoGraphDeployment prod/llama
    warning[plan/still-managed] models/llama/model.yaml: DynamoGraphDeployment prod/llama is managed by Helm (`meta.helm.sh/release-name`)
    "#);
    let change = change(&story, "llama");
    assert_eq!((change.action, change.inventory), (Action::Adopt, None));
}

/// stator's field is declared by another manager alone, with the value that git has.
fn lose_field(story: &mut PlanScenario) {
    story.tamper(DGD, "llama", |value| {
        let entries = value["metadata"]["managedFields"].as_array_mut().unwrap();
        let own = entries.iter_mut().find(|entry| entry["manager"] == FIELD_MANAGER).unwrap();
        let removed = own["fieldsV1"]["f:spec"].as_object_mut().unwrap().remove("f:backendFramework");
        assert!(removed.is_some());
    });
}

#[test]
fn a_field_that_stator_no_longer_owns_is_declared_again() {
    let mut story = PlanScenario::synced([small("llama")]);
    lose_field(&mut story);
    insta::assert_snapshot!(story.show(), @"
    Update llama DynamoGraphDeployment prod/llama none 1->1 peak 1 [apply]
      - drifted: changed in the cluster, not in git
      - stator lost its field ownership and takes it back
    ");
}

/// A sync that ended after the count was held under a second name: the field is still stator's as well.
#[test]
fn a_count_that_stator_still_owns_is_released() {
    let mut decode = worker("decode", 2, 4, "vllm:1.2.0");
    decode["scalingAdapter"] = json!({});
    let model = graph("llama", [decode]);
    let counts = BTreeMap::from([("decode".to_owned(), 2)]);
    assert_eq!(model.objects[0].replicas.seeds(), counts);
    let mut story = PlanScenario::synced([model.clone()]);
    story.live.clear();
    story.write(&with_replicas(&model.objects[0].object, &counts), FIELD_MANAGER, false);
    story.write(&replicas_only(&model.objects[0].object, &counts), SEED_MANAGER, false);
    insta::assert_snapshot!(reasons(&story).join("\n"), @"adds the label by which other tools find the model's objects");
}

#[test]
fn an_adoption_does_not_speak_of_ownership_that_was_never_there() {
    let mut story = PlanScenario::of([small("llama")]);
    let graph = small("llama").objects[0].object.clone();
    story.write(&graph, "kubectl", false);
    story.tamper(DGD, "llama", |value| drop(value["metadata"].as_object_mut().unwrap().remove("labels")));
    insta::assert_snapshot!(reasons(&story).join("\n"), @"
    already exists and is not managed by stator or another tool: allow its adoption, or give the model another name
    field ownership moves to stator from kubectl
    held back: `--allow adopt` takes it over
    ");
}

/// A worker more than the live graph has: Dynamo forbids it in place.
fn apart() -> RenderedModel {
    graph("llama", [worker("prefill", 1, 1, "vllm:1.2.0"), worker("decode", 1, 1, "vllm:1.2.0")])
}

#[test]
fn a_forbidden_change_says_why_the_object_is_not_made_again() {
    let mut story = PlanScenario::synced([small("llama")]);
    story.rendered = vec![apart()];
    story.rendered[0].objects[0].prune = false;
    story.allow = vec![HoldKind::Replace];
    insta::assert_snapshot!(reasons(&story).join("\n"), @"Dynamo forbids adding component `prefill` in place, and it is never deleted automatically: delete it by hand");
    // Somebody else's, with stator's own reach: only an object of stator's is made again.
    let mut story = PlanScenario::of([apart()]);
    story.write(&small("llama").objects[0].object, "kubectl", false);
    story.tamper(DGD, "llama", |value| drop(value["metadata"].as_object_mut().unwrap().remove("labels")));
    story.allow = vec![HoldKind::Replace, HoldKind::Adopt];
    insta::assert_snapshot!(reasons(&story).join("\n"), @"Dynamo forbids adding component `prefill` in place: stator creates only its own objects again");
}

#[test]
fn labels_that_say_whose_an_object_is_are_no_change_of_the_model() {
    let mut story = PlanScenario::synced([small("llama")]);
    for one in &mut story.rendered[0].objects {
        one.object = one
            .object
            .clone()
            .map(|mut value| {
                value["metadata"]["labels"][LABEL_OWNER_ID] = json!("0123456789abcdef");
                value
            })
            .unwrap();
    }
    insta::assert_snapshot!(story.show(), @r#"
    Update llama DynamoGraphDeployment prod/llama none 1->1 peak 1 [apply]
      metadata.labels["stator.dev/owner-id"]: null -> "0123456789abcdef" (stator)
      - adds ownership labels; no restart
    "#);
}

/// Others raise the generation too, so what was recorded stands as long as stator has nothing to write.
#[test]
fn the_recorded_generation_stands_while_it_is_of_this_object_and_this_text() {
    let generation = |change_record: &dyn Fn(&mut InventoryEntry)| {
        let mut story = PlanScenario::synced([small("llama")]);
        story.tamper(DGD, "llama", |value| value["metadata"]["generation"] = json!(2));
        change_record(&mut story.records.get_mut("llama").unwrap().inventory[0]);
        change(&story, "llama").inventory.unwrap().generation
    };
    assert_eq!(generation(&|_| {}), Some(1), "somebody else's write raised it");
    assert_eq!(generation(&|entry| entry.uid = Some("other".to_owned())), Some(2), "another object of the name");
    assert_eq!(generation(&|entry| entry.digest = "other".to_owned()), Some(2), "another text was applied");
    assert_eq!(generation(&|entry| entry.generation = Some(9)), Some(2), "a generation that never was");
    assert_eq!(generation(&|entry| entry.generation = None), Some(2), "none was seen yet");
}

/// Twenty models of which six are no longer in git, besides three new ones and one that somebody else has.
fn many() -> PlanScenario {
    let names: Vec<String> = (0..20).map(|number| format!("m{number:02}")).collect();
    let mut story = PlanScenario::synced(names.iter().map(|name| small(name)));
    story.rendered.drain(..6);
    story.rendered.extend(["new-a", "new-b", "new-c", "foreign"].map(small));
    let mut foreign = small("foreign").objects[0].object.clone();
    foreign = foreign
        .map(|mut value| {
            value["metadata"]["labels"]["stator.dev/repository"] = json!("others");
            value
        })
        .unwrap();
    story.write(&foreign, FIELD_MANAGER, false);
    story
}

#[test]
fn a_share_of_deletions_is_of_what_stator_has_in_the_cluster() {
    let mut story = many();
    let plan = story.plan();
    assert_eq!(change(&story, "foreign").action, Action::Blocked);
    insta::assert_snapshot!(plan.holds[0].message, @"6 of 20 objects would be deleted; the limit without approval is 5");
    // What nothing changes of counts too, although the plan does not show it.
    let mut input = story.input();
    let totals = UnchangedTotals { objects: 80, ..UnchangedTotals::default() };
    input.unchanged = UnchangedSummary { models: 80, totals, ..UnchangedSummary::default() };
    let holds: Vec<HoldKind> = build_plan(&input).holds.iter().map(|hold| hold.kind).collect();
    assert_eq!(holds, [HoldKind::Move]);
    // Deletions are held, and only those.
    story.rendered[0] = graph("m06", [worker("decode", 2, 1, "vllm:1.2.0")]);
    assert!(change(&story, "m06").step.write().is_some());
    assert!(change(&story, "m00").step.write().is_none());
}

/// Whatever else carries stator's labels is not stator's to delete: a ServiceAccount, a Secret that somebody copied labels to.
#[test]
fn an_object_of_a_kind_that_stator_does_not_manage_is_no_part_of_a_plan() {
    let mut story = PlanScenario::synced([small("llama")]);
    let account = object("ServiceAccount", "v1", "llama", "llama", json!({}));
    story.live.insert(account.reference().identity(), account);
    insta::assert_snapshot!(story.show(), @"Keep llama DynamoGraphDeployment prod/llama none 1->1 peak 1");
}

#[test]
fn a_claim_goes_with_its_model_only_where_it_was_recorded_as_deletable() {
    for (prune, expected) in [(true, Action::Delete), (false, Action::Keep)] {
        let mut model = with_claim(small("llama"), "cache", "1Ti");
        model.objects[0].prune = prune;
        let mut story = PlanScenario::synced([model, small("other")]);
        story.rendered.remove(0);
        assert_eq!(change(&story, "cache").action, expected);
    }
}
