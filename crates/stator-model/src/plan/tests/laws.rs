//! What holds whatever is changed.

use super::world::*;
use crate::plan::{
    Action, HoldKind, Plan, PlanDraft, PlanInput, PlannedWrite, ServerAnswers, UntriedCause, build_plan,
};
use crate::render::RenderedModel;
use proptest::prelude::*;
use serde_json::{Value, json};
use stator_core::dynamo::graph_components::named_components;
use stator_core::dynamo::replica_intent::ReplicaIntent;
use stator_core::object::Object;
use std::collections::BTreeSet;

/// A model with anything about it that a revision may change in place or by replacement.
fn model(name: &'static str) -> impl Strategy<Value = RenderedModel> {
    (1_u64..4, 0_u64..3, 0_u8..3, any::<bool>(), any_scaler(), any::<bool>()).prop_map(
        move |(replicas, gpus, image, split, scaler, adapter)| {
            let image = format!("vllm:1.2.{image}");
            let mut decode = worker("decode", replicas, gpus, &image);
            let mut workers = Vec::new();
            match scaler {
                Scaler::Nobody => {}
                Scaler::Adapter => decode["scalingAdapter"] = json!({}),
                Scaler::Planner(config) => workers.push(planner(config)),
                Scaler::Anybody => drop(decode.as_object_mut().unwrap().remove("replicas")),
            }
            workers.insert(0, decode);
            if split {
                workers.insert(0, worker("prefill", 1, gpus, &image));
            }
            let rendered = graph(name, workers);
            if adapter { with_adapter(rendered, &format!("{name}-sql")) } else { rendered }
        },
    )
}

/// Who scales a worker.
#[derive(Clone, Copy, Debug)]
enum Scaler {
    Nobody,
    Adapter,
    Planner(&'static str),
    Anybody,
}

fn any_scaler() -> impl Strategy<Value = Scaler> {
    let configs = [r#"{"environment":"kubernetes"}"#, r#"{"environment":"kubernetes","mode":"prefill"}"#, "unknown"];
    let planner = proptest::sample::select(configs.to_vec()).prop_map(Scaler::Planner);
    prop_oneof![2 => Just(Scaler::Nobody), 2 => Just(Scaler::Adapter), 1 => planner, 1 => Just(Scaler::Anybody)]
}

fn planner(config: &str) -> Value {
    let main = json!({"name": "main", "image": "planner:1.2.0", "args": ["--config", config]});
    json!({"name": "planner", "type": "planner", "replicas": 1, "podTemplate": {"spec": {"containers": [main]}}})
}

/// The counts that an apply on an object that is there holds it to, and may not.
fn foreign_counts(model: &RenderedModel, plan: &Plan) -> Vec<String> {
    let graph = &model.objects[0];
    let applies = plan.changes.iter().filter_map(|change| match change.step.write() {
        Some(PlannedWrite::Apply(step)) if step.planned_resource_version.is_some() => Some(step.object.parse()),
        Some(PlannedWrite::Apply(_) | PlannedWrite::Replace { .. } | PlannedWrite::Delete(_)) | None => None,
    });
    let is_graph = |object: &Object| object.reference().identity() == graph.object.reference().identity();
    let foreign = applies.filter(is_graph).flat_map(|object| {
        let counted = named_components(object.spec()).filter(|(_, component)| component.get("replicas").is_some());
        let left = counted.filter(|(name, _)| graph.replicas.is_left_to_others(name));
        left.map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    });
    foreign.collect()
}

/// What a server may say of a plan's open questions, in the order of `says`.
fn answers(input: &PlanInput, plan: &Plan, says: &[u8]) -> ServerAnswers {
    let mut found = ServerAnswers::default();
    let mut says = says.iter().cycle();
    for apply in plan.unexplained_applies() {
        let identity = apply.object.reference().identity();
        let live = input.live.iter().find(|one| one.reference().identity() == identity);
        match (says.next(), live) {
            // As it is: nothing would change. With a field of its own: less or more would.
            (Some(0), Some(live)) => drop(found.dry_runs.insert(identity, live.parse())),
            (Some(1), Some(live)) => {
                let changed = live.parse().map(|mut value| {
                    value["spec"]["backendFramework"] = json!("sglang");
                    value
                });
                found.dry_runs.insert(identity, changed.unwrap());
            }
            (Some(2), _) => drop(found.untried.insert(identity, UntriedCause::TooMany)),
            (Some(_) | None, _) => {}
        }
    }
    for (apply, _) in plan.replacements().filter(|_| says.next() != Some(&0)) {
        found.refused_replacements.insert(apply.object.reference().identity(), "exceeded quota: gpus".to_owned());
    }
    found
}

fn repository() -> impl Strategy<Value = Vec<RenderedModel>> {
    // One model always stays: an empty render never prunes.
    (model("always"), proptest::option::of(model("a")), proptest::option::of(model("b")))
        .prop_map(|(always, a, b)| [Some(always), a, b].into_iter().flatten().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]

    /// A plan that was carried out leaves nothing to do, through any history of revisions and drift.
    #[test]
    fn carrying_a_plan_out_leaves_nothing_to_do(
        revisions in proptest::collection::vec(repository(), 1..4),
        drift in any::<bool>(),
    ) {
        let mut story = PlanScenario::of([]);
        story.allow = vec![HoldKind::Replace, HoldKind::MassDelete];
        for revision in revisions {
            story.rendered = revision;
            if drift && !story.live.is_empty() && story.live.values().any(|one| one.name() == "always") {
                story.tamper("DynamoGraphDeployment", "always", |value| value["spec"]["components"][0]["replicas"] = json!(9));
            }
            for model in &story.rendered {
                prop_assert_eq!(foreign_counts(model, &story.plan()), Vec::<String>::new());
            }
            story.sync();
            let writes = story.writes;
            let plan = story.plan();
            story.carry_out(&plan);
            prop_assert_eq!(story.writes, writes);
            prop_assert!(plan.changes.iter().all(|change| change.action == Action::Keep));
        }
    }

    /// What is learned of a plan in the making, a step at a time, gives the plan that knew all of it from the beginning.
    #[test]
    fn a_plan_that_learns_is_the_one_that_knew(
        (before, after) in (repository(), repository()),
        foreign in any::<bool>(),
        is_new_first in any::<bool>(),
        says in proptest::collection::vec(0_u8..4, 1..6),
        allowed in proptest::sample::subsequence(
            vec![HoldKind::Replace, HoldKind::Adopt, HoldKind::Move, HoldKind::MassDelete, HoldKind::Delete], 0..4,
        ),
    ) {
        let mut story = PlanScenario::synced(before);
        if foreign {
            story.edit("scaler", "DynamoGraphDeployment", "always", |value| value["metadata"]["labels"] = json!({}));
            story.records.clear();
        }
        story.rendered = after.into_iter().map(|one| if is_new_first { new_first(one) } else { one }).collect();
        let mut input = story.input();
        let mut draft = PlanDraft::new(input.clone());
        prop_assert_eq!(draft.plan(), build_plan(&input));
        input.answers = answers(&input, &draft.plan(), &says);
        draft.answer(input.answers.clone());
        prop_assert_eq!(draft.plan(), build_plan(&input));
        let allowed: BTreeSet<HoldKind> = allowed.into_iter().collect();
        input.allow.extend(allowed.clone());
        draft.allow(allowed);
        prop_assert_eq!(draft.plan(), build_plan(&input));
        input.answers = answers(&input, &draft.plan(), &says[1..]);
        draft.answer(input.answers.clone());
        prop_assert_eq!(draft.plan(), build_plan(&input));
    }

    /// A count that somebody else wrote stays, whoever owns it: where git insists on its own, it is a conflict.
    #[test]
    fn a_count_that_somebody_else_wrote_stays(model in model("always"), count in 4_u64..9) {
        let intent = model.objects[0].replicas.get("decode");
        let mut story = PlanScenario::synced([model]);
        let is_decode = |component: &&mut Value| component["name"] == "decode";
        story.edit("scaler", "DynamoGraphDeployment", "always", |value| {
            let components = value["spec"]["components"].as_array_mut().unwrap();
            components.iter_mut().find(is_decode).unwrap()["replicas"] = json!(count);
        });
        let plan = story.plan();
        story.carry_out(&plan);
        let insists = matches!(intent, Some(ReplicaIntent::Git(_)));
        let expected = if insists { Action::Blocked } else { Action::Keep };
        prop_assert_eq!(plan.changes.iter().find(|one| one.object.kind == "DynamoGraphDeployment").unwrap().action, expected);
        let live = story.find("DynamoGraphDeployment", "always").clone();
        let (_, decode) = named_components(live.spec()).find(|(name, _)| *name == "decode").unwrap();
        prop_assert_eq!(decode["replicas"].as_u64(), Some(count));
    }
}
