//! What a watch shows while health is waited for.

use super::drive::{CallInFlight, settings};
use super::world::{World, git, new_graphs};
use crate::sync::machine::{MachineEvent, MachineInput, SyncMachine};
use serde_json::json;
use stator_core::dynamo::kinds::{GRAPH, LABEL_MODEL};
use stator_core::object::Object;
use std::collections::VecDeque;
use std::time::Duration;

/// Feeds events, and what their calls answer, until nothing comes any more.
fn feed(mut machine: SyncMachine, world: &mut World, events: impl IntoIterator<Item = MachineEvent>) -> SyncMachine {
    let mut events: VecDeque<MachineEvent> = events.into_iter().collect();
    while let Some(event) = events.pop_front() {
        let (next, effects) = machine.step(MachineInput { now: Duration::ZERO, event });
        machine = next;
        events.extend(effects.iter().filter_map(CallInFlight::of).map(|call| call.carry_out(world)));
    }
    machine
}

#[test]
fn an_object_is_known_by_what_it_is_and_not_by_the_label_that_somebody_took_off() {
    let mut world = World::default();
    let (plan, bookkeeping) = world.plan(&git(&[("llama", &[(GRAPH, "llama", 1)])]));
    world.new_graphs = new_graphs(&plan);
    let machine = SyncMachine::new(plan, bookkeeping, settings(true));
    let machine = feed(machine, &mut world, [MachineEvent::Start]);
    assert!(!machine.is_done(), "the graph is not Ready yet");

    world.operator = true;
    let unlabelled = world.operate().into_iter().map(|event| {
        let MachineEvent::Observed(object) = event else { return event };
        let mut value = object.into_value();
        value["metadata"]["labels"][LABEL_MODEL] = json!("another");
        MachineEvent::Observed(Object::from_value(value).unwrap())
    });
    let unlabelled: Vec<MachineEvent> = unlabelled.collect();
    let machine = feed(machine, &mut world, unlabelled);
    assert!(machine.is_done(), "the wait goes on: {:#?}", machine.report());
    assert!(machine.report().is_success());
}
