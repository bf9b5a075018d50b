//! What the operator did with pairs of graphs one edit apart, against what a plan of the second says when the first is live.

use super::world::*;
use crate::plan::{Action, Disruption, Plan, PlannedWrite, build_plan};
use crate::render::{ApplyStage, RenderedModel};
use serde_json::{Value, json};
use stator_core::dynamo::admission::{self, AdmissionOutcome, Platform};
use stator_core::dynamo::release::Release;
use stator_core::dynamo::{disruption, equivalence};
use stator_core::object::Object;

/// What the operator of a release did with pairs of graphs.
fn verdicts(release: Release, file: &str) -> Vec<Value> {
    let folder = match release {
        Release::V1_2 => "oracle",
        Release::V1_5 => "1.5/oracle",
        Release::V1_3 | Release::V1_4 | Release::Newer => panic!("no verdicts of {release}"),
    };
    let path = format!("{}/../../tests/data/dynamo/{folder}/{file}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = fs_err::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn dynamo(release: Release) -> Platform {
    Platform { dynamo: Some(release), ..Platform::default() }
}

/// The plan of the second graph where the first is live, for the Dynamo of a release.
fn plan_of(pair: &Value, platform: &Platform) -> Plan {
    let mut story = PlanScenario::synced([model(&pair["old"])]);
    let name = pair["old"]["metadata"]["name"].as_str().unwrap();
    story.tamper("DynamoGraphDeployment", name, |live| {
        admission::fill_on_create("DynamoGraphDeployment", live, platform, "1.5.0");
    });
    story.rendered = vec![model(&pair["new"])];
    let mut input = story.input();
    input.platform = platform.clone();
    build_plan(&input)
}

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
    for pair in verdicts(Release::V1_2, "updates") {
        let plan = plan_of(&pair, &dynamo(Release::V1_2));
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

/// The same of 1.5, whose pairs were applied to a live operator. What the operator refuses of the new graph as such, `validate`
/// refuses; all else that it refuses, the plan sends in another way or not at all.
#[test]
fn a_plan_for_the_newest_release_says_what_its_operator_did() {
    let groups = |group: &str| Platform::from_api_groups([group]);
    let (mut pairs, mut two_writes, mut wrong) = (0, 0, Vec::new());
    for (file, platform) in [("updates", groups("inference.networking.k8s.io")), ("updates-grove", groups("grove.io"))]
    {
        let platform = Platform { dynamo: Some(Release::V1_5), checkpoints: Some(false), ..platform };
        for pair in verdicts(Release::V1_5, file) {
            pairs += 1;
            let name = pair["name"].as_str().unwrap();
            let is_refused = |graph: &Value| {
                let found = admission::check_object(&Object::from_value(graph.clone()).unwrap(), &platform);
                found.iter().any(|one| {
                    one.outcome == AdmissionOutcome::Denied && one.rule != admission::rules::RESTART_ON_CREATE
                })
            };
            if is_refused(&pair["new"]) {
                assert_eq!(pair["admitted"], false, "{name}");
                continue;
            }
            let plan = plan_of(&pair, &platform);
            let [change] = plan.changes.as_slice() else { panic!("{name}: {plan:#?}") };
            let (action, class) = (change.action, change.disruption);
            let Some(PlannedWrite::Apply(apply)) = change.step.write() else {
                // Nothing is sent, or a new graph is: nothing that the operator could refuse.
                if pair["workersRoll"] == true && action != Action::Keep {
                    wrong.push(format!("{file}: {name}: {action:?} {class}"));
                }
                continue;
            };
            two_writes += usize::from(apply.first.is_some());
            // Only the server knows that two spellings are one, and a plan asks it by a dry run.
            if equivalence::differences(&pair["old"], &pair["new"]).is_empty() {
                continue;
            }
            let rolls = matches!(class, Disruption::ManagedRoll | Disruption::NativeRoll | Disruption::OnDelete);
            let restarts = class == Disruption::RollingRestart || name.contains("restart");
            let agrees = match pair["workersRoll"].as_bool() {
                // By the wish of the graph or of Grove's users, or at the next change of the spec.
                Some(_) if class == Disruption::Recreate || pair["late"] == true => true,
                Some(true) => rolls,
                Some(false) => !rolls || restarts,
                None => apply.first.is_some() || !apply.seed_replicas.is_empty(),
            };
            if !agrees {
                wrong.push(format!("{file}: {name}: {action:?} {class}, {} {}", pair["workersRoll"], pair["denied"]));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!((pairs, two_writes), (304 + 57, 2));
}

/// Row A1 of the review: pairs of graphs that differ in the order of one keyed list. Most of these orders move the hash of the
/// workers, which stator's classes know, so a plan keeps the order that is live and changes nothing.
#[test]
fn no_keyed_list_is_put_into_another_order() {
    let mut kept = 0;
    let of = |release| verdicts(release, "orders").into_iter().map(move |pair| (release, pair));
    for (release, pair) in of(Release::V1_2).chain(of(Release::V1_5)) {
        let name = pair["name"].as_str().unwrap();
        let graph = |side: &str| model(&pair[side]).objects.remove(0).object;
        let class = disruption::classify_change(&graph("old"), &graph("new"), &dynamo(release)).disruption;
        let rolls = matches!(class, Disruption::ManagedRoll | Disruption::NativeRoll);
        assert_eq!(rolls, pair["workersRoll"].as_bool().unwrap(), "{name}: {class}");
        if !name.starts_with("order of ") {
            continue;
        }
        let plan = plan_of(&pair, &dynamo(release));
        let [change] = plan.changes.as_slice() else { panic!("{name}: {plan:#?}") };
        assert_eq!(change.action, Action::Keep, "{name}: {:#?}", change.fields);
        kept += 1;
    }
    assert_eq!(kept, 2 * 42);
}
