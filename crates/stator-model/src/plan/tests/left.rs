//! What a source synced and nothing in git is about any more: each plan lists it, and none deletes it.

use super::world::*;
use crate::plan::{
    Action, HoldKind, ModelStatusContext, Plan, PlanInput, Record, RepositoryAddress, RepositoryOrigin, SourceClaim,
    SourceIdentity, build_plan, model_statuses,
};
use serde_json::json;
use stator_core::object::{Object, ObjectText};

fn origin(text: &str) -> RepositoryOrigin {
    RepositoryOrigin::at_address(RepositoryAddress::parse(text).unwrap(), "")
}

fn here() -> SourceIdentity {
    SourceIdentity::Repository { origin: origin("https://git.example.com/team/models") }
}

/// A graph of four GPUs that `owner` synced.
fn left(model: &str, environment: &str, namespace: &str, owner: &SourceIdentity) -> Vec<Object> {
    let rendered = graph(model, [worker("decode", 2, 2, "vllm:1.2.0")]);
    let labelled = rendered.objects[0].object.clone().map(|mut value| {
        value["metadata"]["namespace"] = json!(namespace);
        value["metadata"]["uid"] = json!(format!("uid-{model}"));
        value["metadata"]["labels"]["stator.dev/environment"] = json!(environment);
        value["metadata"]["labels"]["stator.dev/owner-id"] = json!(owner.owner_id());
        value
    });
    let record = Record {
        model: model.into(),
        namespace: namespace.into(),
        repository: "models".into(),
        environment: environment.into(),
        source: format!("models/{model}/model.yaml"),
        owner: Some(owner.clone()),
        ..Record::default()
    };
    vec![labelled.unwrap(), record.to_object().unwrap().0]
}

/// A source with one model, beside what it may have left.
fn input(strays: impl IntoIterator<Item = Vec<Object>>) -> PlanInput {
    let story = PlanScenario::synced([small("here")]);
    let places = [("prod", "prod"), ("staging", "models-staging")].map(|(name, at)| (name.to_owned(), at.to_owned()));
    let mut claim = SourceClaim::new(here());
    claim.former_origins = vec![RepositoryOrigin::at_root_commit("0a1b2c3d4e5f", "")];
    let records = story.records.values().map(|record| Record { owner: Some(here()), ..record.clone() });
    PlanInput {
        records: records.collect(),
        owner: Some(claim),
        strays: strays.into_iter().flatten().map(ObjectText::from).collect(),
        places: places.into(),
        ..story.input()
    }
}

fn lines(plan: &Plan) -> Vec<String> {
    let left = plan.changes.iter().filter(|one| one.action == Action::LeftBehind);
    left.map(|one| format!("{} {}: {}", one.model, one.gpus.before, crate::plan::join_reasons(&one.reasons))).collect()
}

/// Row N4 of the second review, each way to lose something.
#[test]
fn what_nothing_in_git_is_about_any_more_is_listed() {
    let before = SourceIdentity::Repository { origin: RepositoryOrigin::at_root_commit("0a1b2c3d4e5f", "") };
    let input = input([
        left("renamed", "production", "prod", &here()),
        left("removed", "test", "models-test", &here()),
        left("moved", "prod", "old-prod", &here()),
        left("remoteless", "prod", "prod", &before),
    ]);
    let plan = build_plan(&input);
    insta::assert_snapshot!(lines(&plan).join("\n"), @"
    moved 4: was synced for environment `prod`, which has another namespace now: if no other source has it, run `kubectl delete dynamographdeployments.nvidia.com moved -n old-prod`, or declare it again and take it over with `--allow move`
    remoteless 4: was synced by the repository that began with commit 0a1b2c3, this source's former identity, and git no longer has it: if no other source has it, run `kubectl delete dynamographdeployments.nvidia.com remoteless -n prod`, or declare it again and take it over with `--allow move`
    removed 4: was synced for environment `test`, which `stator.yaml` no longer has: if no other source has it, run `kubectl delete dynamographdeployments.nvidia.com removed -n models-test`, or declare it again and take it over with `--allow move`
    renamed 4: was synced for environment `production`, which `stator.yaml` no longer has: if no other source has it, run `kubectl delete dynamographdeployments.nvidia.com renamed -n prod`, or declare it again and take it over with `--allow move`
    ");
    assert_eq!((plan.summary.left_behind, plan.summary.delete, plan.retired.len()), (4, 0, 0));
    assert_eq!(plan.summary.gpus.before, 17);
    let status = model_statuses(&input, &plan, &ModelStatusContext::default());
    let described: Vec<String> =
        status.iter().map(|one| format!("{} {:?} {} {}", one.name, one.sync, one.gpus, one.message)).collect();
    insta::assert_snapshot!(described.join("\n"), @"
    here OutOfSync 1 the operator has not observed it yet
    moved Synced 4 left behind: DynamoGraphDeployment old-prod/moved was synced for environment `prod`, which has another namespace now: if no other source has it, run `kubectl delete dynamographdeployments.nvidia.com moved -n old-prod`, or declare it again and take it over with `--allow move`
    remoteless Synced 4 left behind: DynamoGraphDeployment prod/remoteless was synced by the repository that began with commit 0a1b2c3, this source's former identity, and git no longer has it: if no other source has it, run `kubectl delete dynamographdeployments.nvidia.com remoteless -n prod`, or declare it again and take it over with `--allow move`
    removed Synced 4 left behind: DynamoGraphDeployment models-test/removed was synced for environment `test`, which `stator.yaml` no longer has: if no other source has it, run `kubectl delete dynamographdeployments.nvidia.com removed -n models-test`, or declare it again and take it over with `--allow move`
    renamed Synced 4 left behind: DynamoGraphDeployment prod/renamed was synced for environment `production`, which `stator.yaml` no longer has: if no other source has it, run `kubectl delete dynamographdeployments.nvidia.com renamed -n prod`, or declare it again and take it over with `--allow move`
    ");
}

/// What another plan names, or another source has, is nobody's leftover.
#[test]
fn what_somebody_has_is_not_left_behind() {
    let fork = SourceIdentity::Repository { origin: origin("https://git.example.com/me/models") };
    let beside = SourceIdentity::ModelSource {
        namespace: "team-b".into(),
        name: "models".into(),
        uid: "u1".into(),
        origin: here().origin().clone(),
    };
    let own = SourceIdentity::ModelSource {
        namespace: "team-a".into(),
        name: "models".into(),
        uid: "u2".into(),
        origin: here().origin().clone(),
    };
    let mut input = input([
        left("other-plan", "staging", "models-staging", &here()),
        left("fork", "prod", "prod", &fork),
        left("fork-elsewhere", "test", "models-test", &fork),
        left("beside", "test", "team-b", &beside),
    ]);
    input.owner = Some(SourceClaim::new(own));
    assert_eq!(lines(&build_plan(&input)), [] as [&str; 0]);
    // A record whose model has a line is reported there.
    let mut record = left("here", "production", "prod", &here()).split_off(1);
    assert_eq!(lines(&build_plan(&super::left::input([std::mem::take(&mut record)]))), [] as [&str; 0]);
    // A part of the models, or a root file that cannot be read, is no ground to say so.
    let mut input = super::left::input([left("removed", "test", "models-test", &here())]);
    input.scope = crate::plan::PlanScope::Models(["here".to_owned()].into());
    assert_eq!(lines(&build_plan(&input)), [] as [&str; 0]);
    input.scope = crate::plan::PlanScope::All;
    input.places.clear();
    assert_eq!(lines(&build_plan(&input)), [] as [&str; 0]);
}

/// Its address changed, and what git still has was taken over from there with `--allow move`.
#[test]
fn what_was_not_taken_over_with_the_rest_is_listed() {
    let before = SourceIdentity::Repository { origin: origin("https://old.example.com/team/models") };
    let mut input = input([left("forgotten", "prod", "prod", &before)]);
    assert_eq!(lines(&build_plan(&input)), [] as [&str; 0], "nothing says that it is this source's");
    input.records[0].former_origin = Some(before.origin().clone());
    insta::assert_snapshot!(lines(&build_plan(&input)).join("\n"), @"forgotten 4: was synced by repository old.example.com/team/models, this source's former identity, and git no longer has it: if no other source has it, run `kubectl delete dynamographdeployments.nvidia.com forgotten -n prod`, or declare it again and take it over with `--allow move`");
}

/// A record whose objects are gone, or may not be listed.
#[test]
fn a_record_is_listed_where_it_is_all_that_is_left() {
    let alone = left("removed", "test", "models-test", &here()).split_off(1);
    insta::assert_snapshot!(lines(&build_plan(&input([alone]))).join("\n"), @"removed 0: was synced for environment `test`, which `stator.yaml` no longer has: if no other source has it, run `kubectl delete models.stator.dev removed -n models-test`, or declare it again and take it over with `--allow move`");
}

/// Row N7: the last model is removed, and its graph was deleted by hand.
#[test]
fn a_record_that_names_nothing_goes_when_somebody_allows_it() {
    let mut story = PlanScenario::synced([small("last")]);
    story.rendered.clear();
    story.live.clear();
    assert!(story.plan().retired.is_empty());
    let described = model_statuses(&story.input(), &story.plan(), &ModelStatusContext::default());
    insta::assert_snapshot!(described[0].message, @"git no longer has it, and none of its objects exist in the cluster: `stator sync --allow delete` deletes its record");
    story.allow = vec![HoldKind::Delete];
    assert_eq!(story.plan().retired, ["last"]);
    story.sync();
    assert!(story.records.is_empty());
}

/// Row N7: somebody changed the label that says whose it is.
#[test]
fn an_owner_label_that_somebody_changed_is_told() {
    let mut input = input([]);
    let mut value = input.live[0].parse().into_value();
    value["metadata"]["labels"]["stator.dev/owner-id"] = json!("mine");
    input.live = vec![Object::from_value(value).unwrap().into()];
    insta::assert_snapshot!(show(&build_plan(&input)), @"
    Blocked here DynamoGraphDeployment prod/here none 1->1 peak 1
      - has the label `stator.dev/owner-id=mine`, which is not this source's: if the label was edited, or was this source's before, take it over with `--allow move`
    hold Move allowed=false: belongs to another source; would be taken over: DynamoGraphDeployment prod/here
    ");
}
