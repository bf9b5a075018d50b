//! Seeded schedules of faults over the reconciler and a cluster in a map: whatever goes wrong, the end is what the newest
//! commit says, nothing is deleted that no commit gave up, and nothing is written that no change explains.
//!
//! Attempts are carried out write by write. In between, and instead of an answer, a process dies or loses its lease, is told
//! to stop, is refused (403, 409), plans from a stale view, loses its watch with the events on it, or sees its clock jump.

use super::super::*;
use super::world::{Work, World, commit, identity, judged_as, refused_commit, summary};
use crate::controller::reconcile::attempt_report::{AttemptSummary, NextStep};
use crate::controller::reconcile::drift_repairs::{DriftFindings, DriftedField, RepairDecision};
use stator_core::retry::JitterSource;
use std::collections::{BTreeMap, BTreeSet};

#[path = "../../../../../tests/support/schedules.rs"]
mod schedule_seeds;

/// How many are tried.
const COUNT: &str = "STATOR_SCHEDULES";

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// What a commit, or the cluster, has: objects by name, each with a payload.
type Objects = BTreeMap<&'static str, LiveObject>;
type Files = BTreeMap<&'static str, usize>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LiveObject {
    payload: usize,
    uid: usize,
}

/// One write of an attempt, as it was planned.
#[derive(Clone, Debug)]
enum PlannedChange {
    Apply { name: &'static str, payload: usize, expected: Option<usize> },
    Delete { name: &'static str, uid: usize },
}

/// What is under way: an attempt, or restoring.
#[derive(Debug)]
struct Attempt {
    commit: String,
    todo: Vec<PlannedChange>,
    drift: DriftFindings,
    writes: usize,
    is_failed: bool,
    /// Objects that its view did not show as they were: its cache shows them later.
    unseen: BTreeSet<&'static str>,
}

struct Site {
    seed: u64,
    random: JitterSource,
    world: World,
    live: Objects,
    /// What records say was applied last.
    recorded: Files,
    /// Every commit, and whether its signature is refused; the newest is the last.
    commits: Vec<(String, Files, bool)>,
    attempt: Option<Attempt>,
    /// Objects whose change nobody has been told of yet.
    unreported: BTreeSet<&'static str>,
    earlier: Vec<Objects>,
    next_uid: usize,
    /// Writes that changed something, and those that changes of git and of others explain.
    writes: usize,
    explained: usize,
    deletes: usize,
    given_up: usize,
    story: Vec<String>,
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}\n{:?}", self.story.join("\n"), self.world.machine.phase);
            eprintln!("{}", schedule_seeds::how_to_repeat(COUNT, self.seed));
        }
    }
}

impl Site {
    fn new(seed: u64) -> Self {
        let start = ReconcilerStart { self_heal: true, seed, ..ReconcilerStart::default() };
        Self {
            seed,
            random: JitterSource::new(seed),
            world: World::new(start),
            live: Objects::new(),
            recorded: Files::new(),
            commits: vec![(String::new(), Files::new(), false)],
            attempt: None,
            unreported: BTreeSet::new(),
            earlier: Vec::new(),
            next_uid: 0,
            writes: 0,
            explained: 0,
            deletes: 0,
            given_up: 0,
            story: Vec::new(),
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.random.next_u64() % u64::try_from(limit).unwrap()).unwrap()
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.below(sides) == 0
    }

    fn files_of(&self, commit: &str) -> Files {
        self.commits.iter().find(|(name, _, _)| name == commit).map(|(_, files, _)| files.clone()).unwrap_or_default()
    }

    /// Git moves: some objects change, some go, some come.
    fn push(&mut self, is_refused: bool) {
        let before = self.commits.last().unwrap().1.clone();
        let mut files = before.clone();
        for _ in 0..=self.below(3) {
            let name = NAMES[self.below(NAMES.len())];
            if self.one_in(3) && files.len() > 1 {
                files.remove(name);
            } else {
                files.insert(name, self.below(4));
            }
        }
        let differs = |name: &&&str| before.get(**name) != files.get(**name);
        self.explained += NAMES.iter().filter(differs).count();
        self.given_up += before.keys().filter(|name| !files.contains_key(*name)).count();
        let name = format!("{:08x}", self.commits.len());
        self.story.push(format!("git has {name}: {files:?}{}", if is_refused { ", refused" } else { "" }));
        self.commits.push((name, files, is_refused));
    }

    fn poll(&mut self) {
        let (name, _, is_refused) = self.commits.last().unwrap().clone();
        if name.is_empty() {
            return;
        }
        self.world.tell(ReconcileEvent::CommitFound(if is_refused { refused_commit(&name) } else { commit(&name) }));
        self.look();
    }

    /// Somebody else changes or deletes an object.
    fn meddle(&mut self) {
        let Some(name) = NAMES.iter().copied().find(|name| self.live.contains_key(name)) else { return };
        let name = if self.one_in(2) { name } else { NAMES[self.below(NAMES.len())] };
        let (payload, is_deleted) = (10 + self.below(4), self.one_in(3));
        let before = self.live.clone();
        let Some(object) = self.live.get_mut(name) else { return };
        object.payload = payload;
        if is_deleted {
            self.live.remove(name);
        }
        self.earlier.push(before);
        self.explained += 1;
        self.unreported.insert(name);
        self.story.push(format!("somebody {} {name}", if is_deleted { "deletes" } else { "changes" }));
    }

    /// What has begun is planned.
    fn look(&mut self) {
        let limits = match (&self.world.work, &self.attempt) {
            (Some(Work::Attempt), None) => self.world.pass.as_ref().map(|pass| pass.limits.clone()).unwrap_or_default(),
            (Some(Work::Restore(_)), None) => self.world.machine.pauses.repairs.limits(self.world.now),
            (Some(Work::Gate) | None, _) | (Some(Work::Attempt | Work::Restore(_)), Some(_)) => return,
        };
        let is_restoring = matches!(self.world.work, Some(Work::Restore(_)));
        let commit = match &self.world.work {
            Some(Work::Restore(commit)) => commit.clone(),
            Some(Work::Attempt | Work::Gate) | None => self.world.announced.last().cloned().unwrap(),
        };
        let is_stale = self.one_in(5) && !self.earlier.is_empty();
        let index = self.below(self.earlier.len().max(1));
        let view = if is_stale { self.earlier[index].clone() } else { self.live.clone() };
        self.earlier.push(self.live.clone());
        self.story.push(format!("{:?} of {commit}{}", self.world.work, if is_stale { ", stale view" } else { "" }));
        let files = self.files_of(&commit);
        let mut attempt = Attempt {
            commit,
            todo: Vec::new(),
            drift: DriftFindings::default(),
            writes: 0,
            is_failed: false,
            unseen: NAMES.into_iter().filter(|name| view.get(name) != self.live.get(name)).collect(),
        };
        for (name, payload) in &files {
            let seen = view.get(name);
            let is_drift = self.recorded.get(name) == Some(payload);
            // Whatever else differs from the last good commit is the newest one's matter.
            if is_restoring && !is_drift {
                continue;
            }
            if seen.is_some_and(|object| object.payload == *payload) {
                continue;
            }
            // What git and the record agree about was changed by somebody else.
            if is_drift {
                let field = DriftedField { path: "spec.payload".to_owned(), writer: Some("somebody".to_owned()) };
                let fields: BTreeSet<_> = seen.map(|_| field).into_iter().collect();
                let object = identity(name);
                match limits.decide(&object, &fields) {
                    RepairDecision::Repair => {
                        attempt.drift.repaired.insert(object, fields);
                    }
                    RepairDecision::Wait => {
                        attempt.drift.waiting.insert(object);
                        continue;
                    }
                    RepairDecision::LeaveDisputed(_) => {
                        attempt.drift.disputed.insert(object);
                        continue;
                    }
                }
            }
            attempt.todo.push(PlannedChange::Apply {
                name,
                payload: *payload,
                expected: seen.map(|object| object.uid),
            });
        }
        let is_given_up = |name: &&str| !is_restoring && !files.contains_key(*name);
        for (name, object) in view.iter().filter(|(name, _)| is_given_up(name)) {
            attempt.todo.push(PlannedChange::Delete { name, uid: object.uid });
        }
        // The cache shows by the end what changed by now.
        self.unreported.clear();
        if is_restoring {
            self.attempt = Some(attempt);
            return;
        }
        let (changing, drift) = (attempt.todo.len(), attempt.drift.clone());
        let plan = Box::new(PlanFindings { changing, drift, ..PlanFindings::default() });
        self.world.tell(ReconcileEvent::AttemptPlanned { plan, is_watched: true });
        if self.world.is_executing {
            self.attempt = Some(attempt);
        } else {
            self.unreported.extend(attempt.unseen);
            self.forget_records(&attempt.commit);
            self.story.push(format!("{} is as it was", attempt.commit));
            self.look();
        }
    }

    /// A record of what somebody else deleted, and git gave up, goes.
    fn forget_records(&mut self, commit: &str) {
        let (files, live) = (self.files_of(commit), &self.live);
        self.recorded.retain(|name, _| files.contains_key(name) || live.contains_key(name));
    }

    /// Carries one write out, as an API server does: not over another object than was meant.
    fn carry_out(&mut self, change: &PlannedChange) -> bool {
        match change {
            PlannedChange::Apply { name, payload, expected } => {
                let uid = self.live.get(name).map(|object| object.uid);
                if expected.is_some() && *expected != uid {
                    return false;
                }
                self.recorded.insert(name, *payload);
                if self.live.get(name).is_none_or(|object| object.payload != *payload) {
                    self.next_uid += 1;
                    self.live.insert(name, LiveObject { payload: *payload, uid: uid.unwrap_or(self.next_uid) });
                    self.writes += 1;
                }
            }
            PlannedChange::Delete { name, uid } => {
                if self.live.get(name).is_some_and(|object| object.uid != *uid) {
                    return false;
                }
                self.recorded.remove(name);
                if self.live.remove(name).is_some() {
                    self.writes += 1;
                    self.deletes += 1;
                }
            }
        }
        true
    }

    /// One write of what is under way, or its end.
    fn go_on(&mut self, faults: bool) {
        match self.world.work {
            Some(Work::Gate) => {
                self.world.check_gate();
                return self.look();
            }
            Some(Work::Attempt | Work::Restore(_)) => {}
            None => return,
        }
        let Some(mut attempt) = self.attempt.take() else { panic!("{:?} was not planned", self.world.work) };
        if self.world.is_cancelled {
            return self.finish(attempt, true);
        }
        let Some(change) = attempt.todo.pop() else { return self.finish(attempt, false) };
        match if faults { self.below(8) } else { 7 } {
            0 => {
                self.story.push(format!("{change:?} is refused"));
                attempt.is_failed = true;
            }
            1 => {
                self.story.push(format!("the answer to {change:?} is lost"));
                self.carry_out(&change);
                attempt.is_failed = true;
            }
            _ => {
                attempt.is_failed |= !self.carry_out(&change);
                attempt.writes += 1;
            }
        }
        self.attempt = Some(attempt);
    }

    fn finish(&mut self, attempt: Attempt, is_cancelled: bool) {
        let Attempt { commit, todo: _, drift, writes, is_failed, unseen } = attempt;
        self.unreported.extend(unseen);
        if !is_failed && !is_cancelled && self.world.work == Some(Work::Attempt) {
            self.forget_records(&commit);
        }
        self.story.push(format!("{commit} after {writes} writes: failed {is_failed}, cancelled {is_cancelled}"));
        let event = if matches!(self.world.work, Some(Work::Restore(_))) {
            let outcome = match (is_cancelled, is_failed) {
                (true, _) => RestoreOutcome::Cancelled,
                (false, true) => RestoreOutcome::Failed,
                (false, false) => RestoreOutcome::Restored,
            };
            let report = RestoreReport { outcome, drift, left_drifted: None };
            ReconcileEvent::RestoreFinished { report, is_watched: true }
        } else {
            let next = match (is_failed, writes) {
                (true, 0) => NextStep::RetrySlowly,
                (true, _) => NextStep::Retry,
                (false, 0) => NextStep::Watch { statuses: false },
                (false, _) => NextStep::Settle,
            };
            let summary = AttemptSummary { is_success: !is_failed, drift, ..summary(next) };
            let outcome = if is_cancelled { AttemptOutcome::Cancelled } else { judged_as(summary) };
            ReconcileEvent::AttemptFinished { outcome, is_watched: true }
        };
        self.world.tell(event);
        self.look();
    }

    /// Another process goes on with what is stored: nothing of what the last one knew.
    fn start_anew(&mut self) {
        self.attempt = None;
        let start = ReconcilerStart {
            self_heal: true,
            previously_applied: self.world.applied.clone(),
            seed: self.random.next_u64(),
            ..ReconcilerStart::default()
        };
        let world = &mut self.world;
        world.machine = SourceReconciler::new(start);
        (world.work, world.is_cancelled, world.result, world.judged) = (None, false, None, None);
        world.announced.clear();
        self.poll();
    }

    /// A replica loses its lease. One write of it may still be on its way; the next leader begins after that.
    fn change_leader(&mut self) {
        self.story.push("another replica leads".to_owned());
        let late = self.attempt.as_mut().and_then(|attempt| attempt.todo.pop());
        if let Some(change) = late.filter(|_| self.one_in(2)) {
            self.carry_out(&change);
        }
        if matches!(self.world.work, Some(Work::Attempt)) {
            self.world.tell(ReconcileEvent::AttemptFinished { outcome: AttemptOutcome::FencedOff, is_watched: true });
            assert_eq!(self.world.result, Some(ReconcileResult::Stopped));
        }
        self.start_anew();
    }

    /// The process is told to end, and does between two writes.
    fn stop(&mut self) {
        self.story.push("it is told to stop".to_owned());
        self.world.tell(ReconcileEvent::Shutdown);
        if let Some(attempt) = self.attempt.take() {
            self.finish(attempt, true);
        }
        assert_eq!(self.world.result, Some(ReconcileResult::Stopped));
        self.start_anew();
    }

    /// Whoever watches is told of what changed, or that the watch is gone.
    fn report_drift(&mut self, is_lost: bool) {
        if self.world.machine.drift_interest().is_none() {
            return;
        }
        if is_lost {
            self.story.push(format!("the watch is lost, and with it {:?}", self.unreported));
            self.unreported.clear();
            self.world.tell(ReconcileEvent::Drifted(DriftSignal::Lost));
        } else if let Some(name) = self.unreported.pop_first() {
            self.world.tell(ReconcileEvent::Drifted(DriftSignal::Drift(identity(name))));
        }
        self.look();
    }

    fn pass_time(&mut self, time: Duration) {
        self.world.now += time;
        if self.world.machine.wake_at().is_some_and(|wake| wake <= self.world.now) {
            self.world.tell(ReconcileEvent::TimerDue);
        }
        self.look();
    }

    fn happen(&mut self) {
        match self.below(20) {
            0 => {
                let is_refused = self.one_in(5);
                self.push(is_refused);
                self.poll();
            }
            1 => self.poll(),
            2 => self.meddle(),
            3 => {
                self.story.push("it dies".to_owned());
                self.start_anew();
            }
            4 => self.change_leader(),
            5 => self.stop(),
            6 => self.report_drift(true),
            7 | 8 => self.report_drift(false),
            9 => {
                let hours = self.below(50);
                self.story.push(format!("the clock jumps by {hours} h"));
                self.pass_time(Duration::from_secs(3600 * u64::try_from(hours).unwrap()));
            }
            10 => {
                let opens_in = if self.one_in(2) { Some(Duration::from_secs(7200)) } else { None };
                self.world.close_window(opens_in);
            }
            11 => self.world.open_window(),
            12 if self.world.machine.awaits_access() => {
                self.world.tell(ReconcileEvent::AccessRestored);
                self.look();
            }
            12 | 13 => self.pass_time(Duration::from_secs(7)),
            _ => self.go_on(true),
        }
    }

    /// Nothing goes wrong any more, until nothing is left to do.
    fn come_to_rest(&mut self) {
        self.story.push("nothing goes wrong any more".to_owned());
        self.world.open_window();
        if self.commits.last().unwrap().2 || self.commits.len() == 1 {
            self.push(false);
        }
        self.poll();
        for _ in 0..400 {
            let is_resting =
                matches!(self.world.machine.phase, ReconcilePhase::Watching { is_refused: false, next_look: None, .. });
            if self.world.work.is_some() {
                self.go_on(false);
            } else if !self.unreported.is_empty() && self.world.machine.drift_interest().is_some() {
                self.report_drift(false);
            } else if is_resting {
                return;
            } else if let Some(wake) = self.world.machine.wake_at() {
                self.pass_time(wake.saturating_sub(self.world.now));
            } else {
                self.poll();
            }
        }
        panic!("it does not come to rest");
    }
}

fn end_is_the_one_without_faults(seed: u64) {
    let mut site = Site::new(seed);
    site.push(false);
    site.poll();
    for _ in 0..20 + site.below(80) {
        site.happen();
    }
    site.come_to_rest();
    let (newest, files, _) = site.commits.last().unwrap().clone();
    let live: Files = site.live.iter().map(|(name, object)| (*name, object.payload)).collect();
    assert_eq!(live, files, "the end is another one");
    assert_eq!(site.recorded, files, "records say something else");
    assert_eq!((site.world.judged.as_ref(), site.world.applied.as_ref()), (Some(&newest), Some(&newest)));
    assert!(site.writes <= 2 * site.explained, "{} writes, {} changes", site.writes, site.explained);
    assert!(site.deletes <= site.given_up, "{} deletes, {} explained", site.deletes, site.given_up);
}

#[test]
fn whatever_goes_wrong_the_end_of_a_source_is_what_its_newest_commit_says() {
    schedule_seeds::seeds(COUNT, 2000).for_each(end_is_the_one_without_faults);
}
