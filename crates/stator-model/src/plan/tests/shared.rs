//! What several models use: a volume outlives whoever declared it, and nothing that is used is ever deleted.

use super::world::*;
use crate::intent::BrokenIntent;
use crate::plan::{HoldKind, PlannedWrite, RevisionComparison, UnreadableObject, compare_revisions};
use crate::render::{ApplyStage, RenderedModel};
use proptest::prelude::*;
use serde_json::json;
use stator_core::dynamo::references::names_used_by;
use stator_core::object::{ObjectIdentity, ObjectText};
use std::collections::BTreeSet;

const CLAIM: &str = "PersistentVolumeClaim";
const DGD: &str = "DynamoGraphDeployment";

/// The same model, whose worker mounts a claim.
fn mounting(mut rendered: RenderedModel, claim: &str) -> RenderedModel {
    for desired in rendered.objects.iter_mut().filter(|one| one.stage == ApplyStage::Graph) {
        let mounted = desired.object.clone().map(|mut value| {
            value["spec"]["components"][1]["podTemplate"]["spec"]["volumes"] =
                json!([{"name": "weights", "persistentVolumeClaim": {"claimName": claim}}]);
            value
        });
        desired.object = mounted.unwrap();
    }
    rendered
}

/// The same model, which declares a claim that is deleted with it.
fn declaring(rendered: RenderedModel, claim: &str, prune: bool) -> RenderedModel {
    let mut rendered = with_claim(rendered, claim, "1Ti");
    rendered.objects[0].prune = prune;
    rendered
}

fn deletes(story: &PlanScenario, kind: &str, name: &str) -> bool {
    let plan = story.plan();
    let mut deleted = plan.changes.iter().filter(|one| matches!(one.step.write(), Some(PlannedWrite::Delete(_))));
    deleted.any(|one| one.object.kind == kind && one.object.name == name)
}

/// Row N1 of the second review: `a` declares the volume, `b` mounts it, and `a` is removed.
#[test]
fn a_volume_that_another_model_mounts_outlives_the_model_that_declared_it() {
    let mut story = PlanScenario::synced([
        mounting(declaring(small("a"), "weights", true), "weights"),
        mounting(small("b"), "weights"),
    ]);
    story.rendered.remove(0);
    insta::assert_snapshot!(story.show(), @"
    Keep b DynamoGraphDeployment prod/b none 1->1 peak 1
    Delete a DynamoGraphDeployment prod/a delete 1->0 peak 1 [delete]
      - model a is no longer in git
    Keep a PersistentVolumeClaim prod/weights none 0->0 peak 0
      - git no longer has it; it stays, because DynamoGraphDeployment prod/b uses it
    ");
    story.sync();
    assert!(story.records.contains_key("a"), "until the volume is gone somebody has to know whose it was");
    // The last user goes, and the volume with it.
    story.rendered = vec![small("c")];
    insta::assert_snapshot!(story.show(), @"
    Create c DynamoGraphDeployment prod/c none 0->1 peak 1 [apply]
      - is not in the cluster yet
    Delete a PersistentVolumeClaim prod/weights delete 0->0 peak 0 [delete]
      - model a is no longer in git
    Delete b DynamoGraphDeployment prod/b delete 1->0 peak 1 [delete]
      - model b is no longer in git
    retired: a, b
    ");
    story.sync();
    assert!(story.live.values().all(|one| one.kind() != CLAIM));
    assert_eq!(story.records.keys().collect::<Vec<_>>(), ["c"]);
}

/// Row N1: `a` only gives its volume another name.
#[test]
fn a_volume_that_is_given_another_name_stays_for_whoever_mounts_it() {
    let mut story =
        PlanScenario::synced([mounting(declaring(small("a"), "old", true), "old"), mounting(small("b"), "old")]);
    story.rendered[0] = mounting(declaring(small("a"), "new", true), "new");
    assert!(!deletes(&story, CLAIM, "old"));
    story.sync();
    // `b` follows: its volume goes once it runs on the other.
    story.rendered[1] = mounting(small("b"), "new");
    let shown = story.show();
    assert!(
        shown.contains("deleted once DynamoGraphDeployment prod/b, which uses it until then, is Healthy"),
        "{shown}"
    );
    story.carry_out(&story.plan());
    assert!(story.live.values().any(|one| one.name() == "old"));
    story.ready("a");
    story.ready("b");
    story.sync();
    assert!(story.live.values().all(|one| one.name() != "old"));
}

/// Row N1: what cannot be read may be a user, whether it was ever synced or not.
#[test]
fn a_model_with_errors_uses_what_it_may_use() {
    let mut story =
        PlanScenario::synced([declaring(small("a"), "weights", true), mounting(small("b"), "weights"), small("c")]);
    story.rendered = vec![small("c")];
    story.broken = vec![BrokenIntent { source: "models/b/model.yaml".into(), name: Some("b".into()) }];
    assert!(!deletes(&story, CLAIM, "weights") && deletes(&story, DGD, "a"), "{}", story.show());
    // One that was never synced has nothing that runs, and may want the volume all the same.
    let mut story = PlanScenario::synced([declaring(small("a"), "weights", true), small("c")]);
    story.rendered = vec![small("c")];
    story.broken = vec![BrokenIntent { source: "models/c/model.prod.yaml".into(), name: Some("c".into()) }];
    insta::assert_snapshot!(story.show(), @"
    Keep c DynamoGraphDeployment prod/c none 1->1 peak 1
    Delete a DynamoGraphDeployment prod/a delete 1->0 peak 1 [delete]
      - model a is no longer in git
    Keep a PersistentVolumeClaim prod/weights none 0->0 peak 0
      - git no longer has it; it stays, because models/c/model.prod.yaml has errors and may use it
    ");
}

/// Row N1: two declare it, and one of them never said that it may go.
#[test]
fn a_volume_goes_only_when_all_who_declare_it_agree() {
    for (agrees, goes) in [(true, true), (false, false)] {
        let (a, b) = (declaring(small("a"), "weights", true), declaring(small("b"), "weights", agrees));
        let mut story = PlanScenario::synced([a, b, small("c")]);
        story.rendered = vec![small("c")];
        assert_eq!(deletes(&story, CLAIM, "weights"), goes, "{}", story.show());
    }
}

/// What a hand has damaged may be a user; a record uses nothing.
#[test]
fn a_damaged_graph_may_use_a_volume() {
    for (kind, goes) in [(DGD, false), ("Model", true), (CLAIM, true)] {
        let mut story = PlanScenario::synced([declaring(small("a"), "weights", true), small("c")]);
        story.rendered = vec![small("c")];
        let object = reference(kind, "other");
        story.damaged = vec![UnreadableObject { object, message: "not YAML".into(), is_foreign: false }];
        assert_eq!(deletes(&story, CLAIM, "weights"), goes, "{}", story.show());
    }
}

/// Two others let go of it in the same commit: it stays until both run without it.
#[test]
fn a_volume_waits_for_all_who_let_go_of_it() {
    let story = |claim: &str| [mounting(small("b"), claim), mounting(small("d"), claim), small("c")];
    let mut before = vec![declaring(small("a"), "weights", true)];
    before.extend(story("weights"));
    let mut scenario = PlanScenario::synced(before);
    scenario.rendered = story("other").into();
    assert!(!deletes(&scenario, CLAIM, "weights"), "{}", scenario.show());
    let plan = scenario.plan();
    scenario.carry_out(&plan);
    assert!(deletes(&scenario, CLAIM, "weights"), "{}", scenario.show());
}

/// A graph of somebody else in the namespace, which no label of stator's is on.
#[test]
fn whoever_mounts_a_volume_keeps_it_whosever_he_is() {
    let mut story = PlanScenario::synced([declaring(small("a"), "weights", true), small("c")]);
    story.rendered = vec![small("c")];
    let mut input = story.input();
    let other = mounting(small("theirs"), "weights");
    input.users = vec![ObjectText::from(&other.objects[0].object)];
    let plan = crate::plan::build_plan(&input);
    assert!(show(&plan).contains("it stays, because DynamoGraphDeployment prod/theirs uses it"), "{}", show(&plan));
}

/// A guard holds back what uses it.
#[test]
fn a_volume_waits_for_the_approval_that_its_user_waits_for() {
    let mut story = PlanScenario::synced([mounting(declaring(small("a"), "weights", true), "weights"), small("c")]);
    story.rendered = vec![small("c")];
    story.guards.max_deletions = Some(0);
    let plan = story.plan();
    let held: Vec<_> =
        plan.changes.iter().filter_map(|one| Some((one.object.kind.as_str(), one.step.held_by()?))).collect();
    assert_eq!(held, [(DGD, HoldKind::MassDelete), (CLAIM, HoldKind::MassDelete)]);
}

/// One model of a random commit.
#[derive(Clone, Debug)]
struct AnyModel {
    declares: Option<(usize, bool)>,
    mounts: Option<usize>,
    is_broken: bool,
    image: u8,
}

const CLAIMS: [&str; 3] = ["weights", "adapters", "scratch"];
const MODELS: [&str; 4] = ["m0", "m1", "m2", "m3"];

fn any_model() -> impl Strategy<Value = Option<AnyModel>> {
    let declares = proptest::option::of((0..CLAIMS.len(), proptest::bool::weighted(0.8)));
    let model = (declares, proptest::option::of(0..CLAIMS.len()), proptest::bool::weighted(0.15), 0_u8..3);
    let model = model.prop_map(|(declares, mounts, is_broken, image)| AnyModel { declares, mounts, is_broken, image });
    proptest::option::weighted(0.7, model)
}

fn any_commit() -> impl Strategy<Value = Vec<Option<AnyModel>>> {
    proptest::collection::vec(any_model(), MODELS.len())
}

/// Has git say what a commit does. A model with errors is in it as a file that cannot be used.
fn check_out(story: &mut PlanScenario, commit: &[Option<AnyModel>]) {
    story.rendered = vec![small("stays")];
    story.broken.clear();
    for (name, model) in MODELS.iter().zip(commit) {
        let Some(model) = model else { continue };
        if model.is_broken {
            let source = format!("models/{name}/model.yaml");
            story.broken.push(BrokenIntent { source, name: Some((*name).to_owned()) });
            continue;
        }
        let mut rendered = graph(name, [worker("decode", 1, 1, &format!("vllm:1.2.{}", model.image))]);
        if let Some((claim, prune)) = model.declares {
            rendered = declaring(rendered, CLAIMS[claim], prune);
        }
        if let Some(claim) = model.mounts {
            rendered = mounting(rendered, CLAIMS[claim]);
        }
        story.rendered.push(rendered);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 2))]

    /// Through any commits, with models that share, come, go and break: no plan deletes a volume that a graph names once the
    /// plan is carried out, nor one that a model with errors may name.
    #[test]
    fn nothing_that_is_used_is_ever_deleted(commits in proptest::collection::vec(any_commit(), 1..5), held in any::<bool>()) {
        let mut story = PlanScenario::of([]);
        if held {
            story.guards.max_deletions = Some(1);
        }
        for commit in &commits {
            check_out(&mut story, commit);
            let plan = story.plan();
            let goes: BTreeSet<ObjectIdentity> = plan.changes.iter()
                .filter(|one| matches!(one.step.write(), Some(PlannedWrite::Delete(_))))
                .map(|one| one.object.identity())
                .collect();
            let mut after = story.clone();
            after.carry_out(&plan);
            let used: BTreeSet<String> = after.live.values()
                .chain(story.rendered.iter().flat_map(|one| &one.objects).map(|one| &one.object))
                .flat_map(|user| names_used_by(user).remove(CLAIM).unwrap_or_default())
                .collect();
            for identity in goes.iter().filter(|identity| identity.kind == CLAIM) {
                let waits = after.live.contains_key(identity);
                prop_assert!(waits || !used.contains(&identity.name), "{identity:?} is used: {}", show(&plan));
                prop_assert!(story.broken.is_empty(), "{identity:?} may be used: {}", show(&plan));
            }
            // And what nobody names any more does go, where all agree and nothing is unknown.
            story.carry_out(&plan);
            let names: Vec<String> = story.live.values().filter(|one| one.kind() == DGD).map(|one| one.name().to_owned()).collect();
            names.iter().for_each(|name| story.ready(name));
        }
    }
}

/// What a pull request shows, with no cluster to ask.
#[test]
fn a_preview_keeps_a_volume_that_another_model_mounts() {
    let base = [mounting(declaring(small("a"), "weights", true), "weights"), mounting(small("b"), "weights")];
    let comparison =
        RevisionComparison { base: &texts(&base), head: &texts(&base[1..]), ..RevisionComparison::default() };
    insta::assert_snapshot!(show(&compare_revisions(&comparison)), @"
    Keep a PersistentVolumeClaim prod/weights none 0->0 peak 0
      - git no longer has it; it stays, because DynamoGraphDeployment prod/b uses it
    Keep b DynamoGraphDeployment prod/b none 1->1 peak 1
    Delete a DynamoGraphDeployment prod/a delete 1->0 peak 1
      - is no longer in git
    ");
}
