//! What the operator did with pairs of graphs one edit apart, against what a plan of the second says when the first is live.

use super::world::*;
use crate::plan::{Action, Disruption, PlannedWrite};
use crate::render::{ApplyStage, RenderedModel};
use serde_json::{Value, json};
use stator_core::dynamo::disruption;
use stator_core::dynamo::release::Release;
use stator_core::object::Object;

const PAIRS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/dynamo/oracle/updates.jsonl"));

/// A model that renders to this graph and nothing else.
fn model(graph: &Value) -> RenderedModel {
    let mut graph = graph.clone();
    graph["metadata"]["namespace"] = json!("prod");
    let name = graph["metadata"]["name"].as_str().unwrap().to_owned();
    let own = object("DynamoGraphDeployment", "nvidia.com/v1beta1", &name, &name, json!({}));
    for (label, value) in own.labels() {
        graph["metadata"]["labels"][label] = json!(value);
    }
    let graph = Object::from_value(graph).unwrap();
    let mut model = small(&name);
    model.objects = vec![desired(graph, ApplyStage::Graph, true)];
    model
}

#[test]
fn a_plan_of_every_update_says_what_the_operator_did_with_it() {
    let (mut pairs, mut counts_of_others, mut wrong) = (0, 0, Vec::new());
    for pair in PAIRS.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let mut story = PlanScenario::synced([model(&pair["old"])]);
        story.rendered = vec![model(&pair["new"])];
        let plan = story.plan();
        let [change] = plan.changes.as_slice() else { panic!("{}: {plan:#?}", pair["name"]) };
        let (action, class) = (change.action, change.disruption);
        let name = pair["name"].as_str().unwrap();
        // A keyed list in another order stays as it is, whatever another order would do.
        if name.starts_with("worker-env-order: ") || name.starts_with("components-reordered: ") {
            if action != Action::Keep {
                wrong.push(format!("{name}: {action:?} {class:?}"));
            }
            pairs += 1;
            continue;
        }
        // A count that a planner decides is nothing that git could change.
        if model(&pair["old"]).objects[0].object == model(&pair["new"]).objects[0].object {
            assert_eq!(action, Action::Keep, "{name}");
            assert!(name.starts_with("worker-replicas: ") && name.contains("disagg_planner"), "{name}");
            counts_of_others += 1;
            pairs += 1;
            continue;
        }
        let agrees = match (pair["admitted"].as_bool().unwrap(), pair["workersRoll"].as_bool().unwrap()) {
            // An order that names no component is put right in the intent; everything else takes a new graph. Neither
            // is sent as an update.
            (false, _) => {
                let mistaken = pair["name"].as_str().unwrap().starts_with("restart-order-unknown: ");
                let expected = if mistaken {
                    (Action::Blocked, Disruption::None)
                } else {
                    (Action::Replace, Disruption::Recreate)
                };
                (action, class) == expected && !matches!(change.step.write(), Some(PlannedWrite::Apply(_)))
            }
            (true, true) => {
                action == Action::Update && matches!(class, Disruption::ManagedRoll | Disruption::NativeRoll)
            }
            // A restart replaces pods and leaves the hash.
            (true, false) if pair["name"].as_str().unwrap().starts_with("restart-id") => {
                action == Action::Update && matches!(class, Disruption::RollingRestart | Disruption::NativeRoll)
            }
            (true, false) => {
                use Disruption::{AdapterOnly, FrontendRoll, None, Scale};
                action == Action::Update && matches!(class, None | AdapterOnly | Scale | FrontendRoll)
            }
        };
        if !agrees {
            wrong.push(format!("{}: {action:?} {class:?}, {}", pair["name"], pair["denied"]));
        }
        pairs += 1;
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!((pairs, counts_of_others), (168, 1));
}

const ORDERS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/dynamo/oracle/orders.jsonl"));

/// Row A1 of the review: pairs of graphs that differ in the order of one keyed list. Most of these orders move the hash of the
/// workers, which stator's classes know, so a plan keeps the order that is live and changes nothing.
#[test]
fn no_keyed_list_is_put_into_another_order() {
    let mut kept = 0;
    for pair in ORDERS.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let name = pair["name"].as_str().unwrap();
        let graph = |side: &str| model(&pair[side]).objects.remove(0).object;
        let class = disruption::classify_change(&graph("old"), &graph("new"), Release::V1_2).disruption;
        let rolls = matches!(class, Disruption::ManagedRoll | Disruption::NativeRoll);
        assert_eq!(rolls, pair["workersRoll"].as_bool().unwrap(), "{name}: {class}");
        if !name.starts_with("order of ") {
            continue;
        }
        let mut story = PlanScenario::synced([model(&pair["old"])]);
        story.rendered = vec![model(&pair["new"])];
        let plan = story.plan();
        let [change] = plan.changes.as_slice() else { panic!("{name}: {plan:#?}") };
        assert_eq!(change.action, Action::Keep, "{name}: {:#?}", change.fields);
        kept += 1;
    }
    assert_eq!(kept, 42);
}
