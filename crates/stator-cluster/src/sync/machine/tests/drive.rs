//! A driver that can be stopped at any write, and what every story ends with.

use super::world::{Git, World};
use crate::sync::machine::{ClusterCall, MachineEffect, MachineEvent, MachineInput, MachineSettings, SyncMachine};
use crate::sync::{CancelReason, SyncProgress, SyncReport};
use stator_core::retry::JitterSource;
use stator_model::plan::{Change, Journal, Plan, SyncBookkeeping};
use std::collections::VecDeque;
use std::time::Duration;

/// How one run is driven.
#[derive(Clone, Debug)]
pub struct Drive {
    pub settings: MachineSettings,
    /// The order in which calls come back, and when the operator works.
    pub order: u64,
    /// The process dies instead of making the n-th write.
    pub crash_at: Option<usize>,
    /// Ctrl-C before the n-th step.
    pub cancel_at: Option<usize>,
}

impl Default for Drive {
    fn default() -> Self {
        Self { settings: settings(true), order: 1, crash_at: None, cancel_at: None }
    }
}

pub fn settings(wait: bool) -> MachineSettings {
    MachineSettings {
        wait,
        prune: true,
        keeps_file_faults: false,
        progress_deadline: Duration::from_secs(1800),
        timeout: None,
        concurrency: 3,
        attempts: 4,
        started: "2026-01-01T00:00:00Z".parse().unwrap(),
        seed: 7,
        approval: None,
    }
}

/// What came of a run; `None` for the report of one that died.
pub struct Ran {
    pub report: Option<SyncReport>,
    pub progress: Vec<SyncProgress>,
    pub elapsed: Duration,
}

/// Plans and syncs once.
pub fn sync(world: &mut World, git: &Git, drive: &Drive) -> Ran {
    let (plan, bookkeeping) = world.plan(git);
    sync_plan(world, plan, bookkeeping, drive)
}

/// A call in flight.
#[derive(Clone, Debug)]
pub enum CallInFlight {
    Model(String, ClusterCall),
    WriteJournal(usize, Box<Journal>),
    DeleteJournal(usize, String, Option<String>),
}

impl CallInFlight {
    /// What an effect asks for; `None` for one that is no call.
    pub fn of(effect: &MachineEffect) -> Option<Self> {
        match effect.clone() {
            MachineEffect::Call { model, call } => Some(Self::Model(model, call)),
            MachineEffect::WriteJournal { part, journal } => Some(Self::WriteJournal(part, journal)),
            MachineEffect::DeleteJournal { part, namespace: _, name, uid } => {
                Some(Self::DeleteJournal(part, name, uid))
            }
            MachineEffect::Watch | MachineEffect::Report(_) => None,
        }
    }

    /// Whether it changes nothing.
    pub fn is_read(&self) -> bool {
        matches!(self, Self::Model(_, ClusterCall::Read(_)))
    }

    /// What comes of it.
    pub fn carry_out(self, world: &mut World) -> MachineEvent {
        match self {
            Self::Model(model, call) => {
                let answer = world.call(&call);
                MachineEvent::CallFinished { model, answer }
            }
            Self::WriteJournal(part, journal) => {
                MachineEvent::JournalFinished { part, result: world.write_journal(&journal) }
            }
            Self::DeleteJournal(part, name, uid) => {
                MachineEvent::JournalFinished { part, result: world.delete_journal(&name, uid.as_ref()) }
            }
        }
    }
}

pub fn sync_plan(world: &mut World, plan: Plan, bookkeeping: SyncBookkeeping, drive: &Drive) -> Ran {
    let Drive { settings, order, crash_at, cancel_at } = drive;
    world.new_graphs = super::world::new_graphs(&plan);
    world.downloads = super::world::downloads(&plan);
    let mut machine = SyncMachine::new(plan, bookkeeping, settings.clone());
    let mut chance = JitterSource::new(*order);
    let mut now = Duration::ZERO;
    let mut calls: Vec<CallInFlight> = Vec::new();
    let mut events = VecDeque::from([MachineEvent::Start]);
    let mut progress = Vec::new();
    let before = world.writes.len();
    for step in 0..200_000 {
        if *cancel_at == Some(step) {
            events.push_front(MachineEvent::Cancel(CancelReason::Interrupted));
        }
        let event = events.pop_front().unwrap_or(MachineEvent::Tick);
        let (next, effects) = machine.step(MachineInput { now, event });
        machine = next;
        for effect in effects {
            calls.extend(CallInFlight::of(&effect));
            match effect {
                MachineEffect::Call { .. }
                | MachineEffect::WriteJournal { .. }
                | MachineEffect::DeleteJournal { .. } => {}
                MachineEffect::Watch => {
                    events.push_back(MachineEvent::Listed(world.live.values().map(Into::into).collect()))
                }
                MachineEffect::Report(report) => progress.push(report),
            }
        }
        assert!(calls.len() <= settings.concurrency, "more calls at a time than allowed");
        if machine.is_done() {
            assert!(calls.is_empty(), "a call is left over");
            return Ran { report: Some(machine.report()), progress, elapsed: now };
        }
        if !events.is_empty() {
            continue;
        }
        if !calls.is_empty() && chance.duration_up_to(Duration::from_millis(9)) > Duration::from_millis(1) {
            let pick =
                usize::try_from(chance.duration_up_to(Duration::from_millis(1000)).as_millis()).unwrap() % calls.len();
            let call = calls.swap_remove(pick);
            if *crash_at == Some(world.writes.len() - before) && !call.is_read() {
                return Ran { report: None, progress, elapsed: now };
            }
            events.push_back(call.carry_out(world));
        } else {
            events.extend(world.operate());
            if calls.is_empty() && events.is_empty() {
                let wake = machine.wake_at().expect("a machine that waits says until when");
                assert!(wake > now, "it wants to be woken at {wake:?}, and does nothing then");
                now = wake;
            }
        }
    }
    panic!("the machine does not end");
}

/// What every story ends with: nothing is left to do, and doing it writes nothing.
pub fn settled(world: &mut World, git: &Git) {
    while !world.operate().is_empty() {}
    assert!(world.journals.is_empty(), "journals are left: {:#?}", world.journals);
    let (plan, bookkeeping) = world.plan(git);
    let pending: Vec<&Change> = plan.changes.iter().filter(|change| change.step.write().is_some()).collect();
    assert!(pending.is_empty(), "still to do: {pending:#?}");
    let before = world.writes.len();
    let ran = sync_plan(world, plan, bookkeeping, &Drive::default());
    assert_eq!(world.writes[before..], [] as [String; 0], "a second sync writes");
    let report = ran.report.unwrap();
    assert!(report.is_success() && report.writes == 0, "{report:#?}");
}
