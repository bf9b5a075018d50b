//! A sync that is interrupted ends soon, however many models it has: with the calls that are in flight.

use super::drive::{CallInFlight, settings, settled, sync};
use super::stories::described;
use super::world::{World, git};
use crate::sync::CancelReason;
use crate::sync::machine::{MachineEvent, MachineInput, SyncMachine};
use stator_core::dynamo::kinds::GRAPH;
use stator_core::outcome::SyncOutcome;
use std::time::Duration;

/// One step of a machine, and the calls that it begins.
fn step(machine: SyncMachine, now: Duration, event: MachineEvent, calls: &mut Vec<CallInFlight>) -> SyncMachine {
    let (machine, effects) = machine.step(MachineInput { now, event });
    calls.extend(effects.iter().filter_map(CallInFlight::of));
    machine
}

#[test]
fn an_interrupted_sync_begins_nothing_for_long() {
    let wanted = git(&[("a", &[(GRAPH, "a", 1)]), ("b", &[(GRAPH, "b", 1)]), ("c", &[(GRAPH, "c", 1)])]);
    // However far it came.
    for answered in 0..12 {
        let mut world = World::operated();
        let (plan, bookkeeping) = world.plan(&wanted);
        world.new_graphs = super::world::new_graphs(&plan);
        let mut calls = Vec::new();
        let machine = SyncMachine::new(plan, bookkeeping, settings(false));
        let mut machine = step(machine, Duration::ZERO, MachineEvent::Start, &mut calls);
        for _ in 0..answered {
            if calls.is_empty() {
                break;
            }
            let event = calls.remove(0).carry_out(&mut world);
            machine = step(machine, Duration::ZERO, event, &mut calls);
        }
        if machine.is_done() {
            continue;
        }
        let start = Duration::from_secs(60);
        machine = step(machine, start, MachineEvent::Cancel(CancelReason::Interrupted), &mut calls);
        let mut now;
        while machine.wake_at().is_some() {
            now = machine.wake_at().unwrap_or_default();
            assert!(now <= start + Duration::from_secs(2), "after {answered} answers it waits until {now:?}");
            let before = calls.len();
            machine = step(machine, now, MachineEvent::Tick, &mut calls);
            assert!(calls.len() <= before || now < start + Duration::from_secs(2), "something is begun at the end");
        }
        // What is in flight is all that is left, and ends it.
        for call in std::mem::take(&mut calls) {
            let event = call.carry_out(&mut world);
            machine = step(machine, start + Duration::from_secs(3), event, &mut calls);
        }
        assert!(machine.is_done() && calls.is_empty(), "after {answered} answers");
        let report = machine.report();
        assert_eq!(report.models.len(), 3, "{}", described(&report));
        let is_fine = |result| matches!(result, SyncOutcome::Cancelled | SyncOutcome::Synced | SyncOutcome::Healthy);
        assert!(report.cancelled && report.models.iter().all(|model| is_fine(model.result)), "{}", described(&report));
        assert!(sync(&mut world, &wanted, &super::drive::Drive::default()).report.unwrap().is_success());
        settled(&mut world, &wanted);
    }
}
