//! Seeded schedules of faults over several processes: whatever goes wrong and in whatever order, the end is the one without
//! faults, nothing is deleted that no commit gave up, and no object is written more than its changes explain.
//!
//! A schedule says how git moves and what happens to each process that syncs it: it crashes, is cancelled, is refused
//! (403, 409), plans from a stale view, misses events, sees its clock jump, or loses its leadership while calls of it are
//! still on their way.

use super::drive::{CallInFlight, settings, settled, sync};
use super::world::{Fault, Git, World, journals_identity, model_record, reference};
use crate::sync::CancelReason;
use crate::sync::machine::tests::drive::Drive;
use crate::sync::machine::{CallResult, ClusterCall, MachineEffect, MachineEvent, MachineInput, SyncMachine};
use stator_core::dynamo::served_models::FrontendAnswer;
use stator_core::object::ObjectIdentity;
use stator_core::retry::JitterSource;
use stator_model::plan::PlannedWrite;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

#[path = "../../../../../../tests/support/schedules.rs"]
mod schedule_seeds;

/// How many are tried.
const COUNT: &str = "STATOR_SCHEDULES";

/// Chance that is the same for the same seed.
struct Chance(JitterSource);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.0.next_u64() % u64::try_from(limit).unwrap()).unwrap()
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.below(sides) == 0
    }

    /// Up to four models, each with up to a claim, two graphs, two adapters and two downloads.
    fn git(&mut self, fewest: usize) -> Git {
        let mut git = Git::new();
        while git.len() < fewest + self.below(5 - fewest) {
            let model = self.below(4);
            let mut objects = BTreeMap::new();
            for _ in 0..=self.below(3) {
                let far = if self.one_in(7) { 100 } else { 0 };
                let payload = u64::try_from(1 + self.below(3)).unwrap() + far;
                let (kind, index) = (self.below(4), self.below(2));
                // What a Job does cannot be changed: another one is another Job.
                let payload = if kind == 3 { 1 } else { payload };
                objects.insert((kind, format!("m{model}-{index}")), payload);
            }
            git.insert(format!("m{model}"), objects);
        }
        git
    }
}

/// What may go wrong with a process at one of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// It dies, and what it asked for may still happen.
    Crash,
    /// Ctrl-C, or a newer commit.
    Cancel,
    /// The cluster answers the next call with a fault, or loses the answer.
    Call(Fault),
    /// What watches show from now on, it does not see for a while.
    DeafEars(usize),
    /// Its clock jumps ahead.
    ClockJump(Duration),
    /// Somebody else has its lease: nothing that it sends from now on leaves the process.
    LeaderChange,
}

impl Trouble {
    fn any(chance: &mut Chance) -> Self {
        const FAULTS: [Fault; 7] = [
            Fault::Before,
            Fault::After,
            Fault::Forbidden,
            Fault::Conflict,
            Fault::Precondition,
            Fault::Invalid,
            Fault::Full,
        ];
        match chance.below(10) {
            0 => Self::Crash,
            1 => Self::Cancel,
            2 => Self::DeafEars(1 + chance.below(10)),
            3 => Self::ClockJump(Duration::from_secs(60 * u64::try_from(1 + chance.below(600)).unwrap())),
            4 => Self::LeaderChange,
            _ => Self::Call(FAULTS[chance.below(FAULTS.len())]),
        }
    }
}

/// How the processes of a schedule came on, for whoever reads of a failure.
struct Story {
    seed: u64,
    lines: Vec<String>,
}

impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}\n{}", self.lines.join("\n"), schedule_seeds::how_to_repeat(COUNT, self.seed));
        }
    }
}

/// Everything that goes on.
struct Schedule {
    chance: Chance,
    world: World,
    /// How the cluster looked at earlier moments.
    earlier: Vec<World>,
    /// Calls of processes that are gone, which still arrive.
    late: Vec<CallInFlight>,
    story: Story,
}

fn identity_of(call: &CallInFlight) -> Option<ObjectIdentity> {
    let call = match call {
        CallInFlight::Model(_, call) => call,
        CallInFlight::WriteJournal(..) | CallInFlight::DeleteJournal(..) => return Some(journals_identity()),
    };
    match call {
        ClusterCall::WriteRecord { record, .. } => Some(model_record(&record.model)),
        ClusterCall::Apply(request) => Some(request.object.reference().identity()),
        ClusterCall::Delete { object, .. } => Some(object.identity()),
        ClusterCall::DeleteRecord(_)
        | ClusterCall::Read(_)
        | ClusterCall::ReadPods(_)
        | ClusterCall::AskFrontend(_) => None,
    }
}

impl Schedule {
    fn tell(&mut self, line: impl Into<String>) {
        self.story.lines.push(line.into());
    }

    /// A process plans what git says, and syncs until it is through or dead. Late calls of others arrive meanwhile.
    fn run(&mut self, git: &Git, troubles: usize) {
        let is_stale = !self.earlier.is_empty() && self.chance.one_in(4);
        let view = match is_stale {
            true => self.earlier[self.chance.below(self.earlier.len())].clone(),
            false => self.world.clone(),
        };
        self.earlier.push(self.world.clone());
        let (plan, bookkeeping) = view.plan(git);
        self.tell(format!("a process plans {git:?}{}", if is_stale { " from a stale view" } else { "" }));
        let doomed: BTreeSet<String> = plan
            .changes
            .iter()
            .filter_map(|change| match change.step.write() {
                Some(PlannedWrite::Delete(delete) | PlannedWrite::Replace { delete, .. }) => {
                    Some(format!("delete {}", delete.object))
                }
                Some(PlannedWrite::Apply(_)) | None => None,
            })
            .collect();
        let settings = settings(self.chance.one_in(2));
        let concurrency = settings.concurrency;
        let mut machine = SyncMachine::new(plan, bookkeeping, settings);
        let mut troubles: BTreeMap<usize, Trouble> =
            (0..troubles).map(|_| (self.chance.below(60), Trouble::any(&mut self.chance))).collect();
        let (mut now, mut deaf, mut is_fenced, mut step) = (Duration::ZERO, 0, false, 0);
        let mut calls: Vec<CallInFlight> = Vec::new();
        let mut events = VecDeque::from([MachineEvent::Start]);
        let mut fault: Option<Fault> = None;
        loop {
            step += 1;
            assert!(step < 200_000, "the machine does not end");
            if let Some(trouble) = troubles.remove(&step) {
                self.tell(format!("step {step}: {trouble:?}"));
                match trouble {
                    Trouble::Crash => return self.lose(calls),
                    Trouble::Cancel => {
                        let superseded = CancelReason::Superseded { revision: "def5678".to_owned() };
                        let why = if self.chance.one_in(2) { CancelReason::Interrupted } else { superseded };
                        events.push_front(MachineEvent::Cancel(why));
                    }
                    Trouble::Call(next) => fault = Some(next),
                    Trouble::DeafEars(times) => deaf = times,
                    Trouble::ClockJump(by) => now += by,
                    Trouble::LeaderChange => {
                        is_fenced = true;
                        self.late.extend(calls.iter().cloned());
                    }
                }
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
                        events.push_back(MachineEvent::Listed(self.world.live.values().map(Into::into).collect()));
                    }
                    MachineEffect::Report(_) => {}
                }
            }
            assert!(calls.len() <= concurrency, "more calls at a time than allowed");
            if machine.is_done() {
                return;
            }
            if !events.is_empty() {
                continue;
            }
            if !self.late.is_empty() && self.chance.one_in(3) {
                let index = self.chance.below(self.late.len());
                let call = self.late.swap_remove(index);
                call.carry_out(&mut self.world);
            }
            if !calls.is_empty() && !self.chance.one_in(6) {
                let call = calls.swap_remove(self.chance.below(calls.len()));
                events.push_back(if is_fenced { fenced(call) } else { self.call(call, fault.take(), &doomed) });
                continue;
            }
            let seen = self.world.operate();
            if deaf > 0 {
                deaf -= 1;
                if deaf == 0 {
                    // A watch that missed something says so, and everything is listed again.
                    events.push_back(MachineEvent::Listed(self.world.live.values().map(Into::into).collect()));
                }
            } else {
                events.extend(seen);
            }
            if calls.is_empty() && events.is_empty() {
                now = machine.wake_at().expect("a machine that waits says until when").max(now);
            }
        }
    }

    /// A call that is carried out deletes nothing but what its process planned to.
    fn call(&mut self, call: CallInFlight, fault: Option<Fault>, doomed: &BTreeSet<String>) -> MachineEvent {
        if let (Some(identity), Some(fault)) = (identity_of(&call), fault) {
            self.world.faults.insert(identity, VecDeque::from([fault]));
        }
        let before = self.world.writes.len();
        let answer = call.carry_out(&mut self.world);
        for write in self.world.writes[before..].iter().filter(|write| write.starts_with("delete")) {
            assert!(doomed.contains(write), "{write} is in no plan: {doomed:?}");
        }
        self.world.faults.clear();
        answer
    }

    /// Of the calls of a process that died, some were sent.
    fn lose(&mut self, calls: Vec<CallInFlight>) {
        for call in calls {
            if self.chance.one_in(2) {
                self.late.push(call);
            }
        }
    }

    fn arrive(&mut self) {
        for call in std::mem::take(&mut self.late) {
            call.carry_out(&mut self.world);
        }
    }
}

/// What a process hears that lost its lease, whatever it asks for.
fn fenced(call: CallInFlight) -> MachineEvent {
    use crate::cluster::ClusterError::Fenced;
    let (model, call) = match call {
        CallInFlight::Model(model, call) => (model, call),
        CallInFlight::WriteJournal(part, _) | CallInFlight::DeleteJournal(part, ..) => {
            return MachineEvent::JournalFinished { part, result: Err(Fenced) };
        }
    };
    let answer = match call {
        ClusterCall::WriteRecord { .. } | ClusterCall::DeleteRecord(_) => CallResult::Recorded(Err(Fenced)),
        ClusterCall::Apply(_) => CallResult::Applied(Err(Fenced)),
        ClusterCall::Delete { .. } => CallResult::Deleted(Err(Fenced)),
        ClusterCall::Read(_) => CallResult::Read(Err(Fenced)),
        ClusterCall::ReadPods(_) => CallResult::Pods(Vec::new()),
        ClusterCall::AskFrontend(frontend) => CallResult::Served(frontend, FrontendAnswer::NotAsked),
    };
    MachineEvent::CallFinished { model, answer }
}

/// Syncs without faults until nothing is left to do: finalizers take a second look.
fn come_to_rest(world: &mut World, git: &Git) {
    for _ in 0..3 {
        while !world.operate().is_empty() {}
        sync(world, git, &Drive::default());
    }
}

/// Objects that a plan of git would write.
fn changed(world: &World, git: &Git) -> usize {
    world.plan(git).0.changes.iter().filter(|change| change.step.write().is_some()).count()
}

/// What was done to objects since then; records are not counted.
fn object_writes(world: &World, from: usize) -> Vec<String> {
    let is_of_object = |write: &&String| write.starts_with("apply") || write.starts_with("delete");
    let mut writes: Vec<String> = world.writes[from..].iter().filter(is_of_object).cloned().collect();
    writes.sort();
    writes
}

fn end_is_the_one_without_faults(seed: u64) {
    let mut chance = Chance(JitterSource::new(seed));
    let (old, new) = (chance.git(0), chance.git(1));
    // Some schedules have a commit in between.
    let middle = if chance.one_in(3) { Some(chance.git(1)) } else { None };
    let mut start = World::operated();
    if chance.one_in(3) {
        start.finalizers = [1, 2].map(|kind| reference(kind, "any").kind).into();
    }
    come_to_rest(&mut start, &old);
    let lines = vec![format!("git has {old:?}, then {middle:?}, then {new:?}")];
    let mut schedule =
        Schedule { chance, world: start, earlier: Vec::new(), late: Vec::new(), story: Story { seed, lines } };
    if let Some(middle) = &middle {
        let (from, most_writes) = (schedule.world.writes.len(), 2 * changed(&schedule.world, middle));
        let troubles = 1 + schedule.chance.below(3);
        schedule.run(middle, troubles);
        // The lease of whoever synced an earlier commit lasts longer than what he sent is on its way.
        schedule.arrive();
        schedule.earlier.clear();
        assert!(object_writes(&schedule.world, from).len() <= most_writes);
    }
    let from = schedule.world.writes.len();
    let mut undisturbed = schedule.world.clone();
    while !undisturbed.operate().is_empty() {}
    let most_writes = 2 * changed(&undisturbed, &new);
    come_to_rest(&mut undisturbed, &new);
    for _ in 0..=schedule.chance.below(3) {
        let troubles = 1 + schedule.chance.below(4);
        schedule.run(&new, troubles);
    }
    schedule.arrive();
    schedule.tell("nothing goes wrong any more");
    let mut world = std::mem::take(&mut schedule.world);
    come_to_rest(&mut world, &new);

    assert_eq!(world.state(), undisturbed.state(), "the end is another one");
    let writes = object_writes(&world, from);
    assert!(writes.len() <= most_writes, "{} writes, {most_writes} explained: {writes:#?}", writes.len());
    assert_eq!(writes, object_writes(&undisturbed, from), "not what is written without faults");
    settled(&mut world, &new);
}

#[test]
fn whatever_goes_wrong_the_end_of_a_sync_is_the_one_without_faults() {
    schedule_seeds::seeds(COUNT, 1000).for_each(end_is_the_one_without_faults);
}
