//! Replicas, each with a clock of its own, and an API server that keeps leases: an event may come late, twice or not
//! at all, and anybody may crash, freeze, or lose the way to the server at any moment.

use crate::controller::replicas::lease_names;
use crate::controller::replicas::machine::{
    LeaseEffect, LeaseEvent, LeaseMachine, LeaseOperation, LeaseRole, LeaseState, LeaseTerms, LeaseWrite,
    LeaseWriteError, ReplicaConfig,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// True time, in milliseconds.
pub type Time = u64;

/// What a replica does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Runs,
    /// Does nothing, and its clock goes on.
    Frozen,
    /// Is gone for good.
    Dead,
}

/// One replica.
pub struct Replica {
    machine: LeaseMachine,
    identity: String,
    /// How fast its clock goes.
    rate: f64,
    mode: Mode,
    /// Whether it reaches the server.
    cut: bool,
    /// Shards and when their fences close, by its own clock.
    pub fences: BTreeMap<u32, Duration>,
    /// Shards whose work is to end, and when it has.
    ending: BTreeMap<u32, Time>,
    wake: Option<Duration>,
    pub left: bool,
}

/// Something on its way.
#[derive(Clone, Debug)]
enum Mail {
    /// To the server.
    Asked {
        replica: usize,
        asked: Duration,
        write: LeaseWrite,
    },
    ReadAsked {
        replica: usize,
        name: String,
    },
    /// To a replica.
    Event {
        replica: usize,
        event: LeaseEvent,
        asked: Option<Duration>,
    },
    /// A replica's watch is opened anew.
    Listing {
        replica: usize,
    },
}

/// How unkind the world is.
#[derive(Clone, Debug)]
pub struct Weather {
    /// The longest that a message takes.
    pub delay: Time,
    /// Of a hundred events, requests and answers, how many are lost.
    pub lost: u64,
    /// The longest that work takes to end.
    pub work: Time,
}

pub struct World {
    pub now: Time,
    terms: LeaseTerms,
    shards: u32,
    pub replicas: Vec<Replica>,
    leases: BTreeMap<String, LeaseState>,
    version: u64,
    mail: BTreeMap<(Time, u64), Mail>,
    sent: u64,
    chance: u64,
    weather: Weather,
    /// When each shard's fences were last open for somebody.
    pub last_held: BTreeMap<u32, Time>,
    /// How often each shard was given to somebody.
    pub gained: usize,
    /// How often the server was asked for anything.
    pub requests: usize,
}

/// What a server's store held once.
#[derive(Clone, Debug)]
pub struct Backup {
    leases: BTreeMap<String, LeaseState>,
    version: u64,
}

impl World {
    pub fn new(shards: u32, weather: Weather, seed: u64) -> Self {
        Self {
            now: 0,
            terms: LeaseTerms::default(),
            shards,
            replicas: Vec::new(),
            leases: BTreeMap::new(),
            version: 100,
            mail: BTreeMap::new(),
            sent: 0,
            chance: seed | 1,
            weather,
            last_held: BTreeMap::new(),
            gained: 0,
            requests: 0,
        }
    }

    /// A number below `end`.
    fn roll(&mut self, end: u64) -> u64 {
        // xorshift64: any will do.
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance % end.max(1)
    }

    pub fn start(&mut self, rate: f64) -> usize {
        self.start_with(rate, self.shards)
    }

    pub fn start_with(&mut self, rate: f64, shards: u32) -> usize {
        let index = self.replicas.len();
        let identity = format!("stator-{index}");
        let own = ReplicaConfig { identity: identity.clone(), shards, terms: self.terms };
        self.replicas.push(Replica {
            machine: LeaseMachine::new(own),
            identity,
            rate,
            mode: Mode::Runs,
            cut: false,
            fences: BTreeMap::new(),
            ending: BTreeMap::new(),
            wake: None,
            left: false,
        });
        self.post(Mail::Listing { replica: index });
        index
    }

    fn clock(&self, replica: usize) -> Duration {
        // Truncated to whole microseconds, as a clock's reading is.
        Duration::from_micros((self.now as f64 * 1000.0 * self.replicas[replica].rate) as u64)
    }

    fn post(&mut self, mail: Mail) {
        let delay = 1 + self.roll(self.weather.delay);
        self.sent += 1;
        self.mail.insert((self.now + delay, self.sent), mail);
    }

    pub fn crash(&mut self, replica: usize) {
        self.replicas[replica].mode = Mode::Dead;
    }

    pub fn freeze(&mut self, replica: usize, frozen: bool) {
        let mode = &mut self.replicas[replica].mode;
        match (*mode, frozen) {
            (Mode::Runs, true) => *mode = Mode::Frozen,
            (Mode::Frozen, false) => *mode = Mode::Runs,
            _ => {}
        }
    }

    pub fn cut(&mut self, replica: usize, cut: bool) {
        self.replicas[replica].cut = cut;
        if !cut {
            self.post(Mail::Listing { replica });
        }
    }

    pub fn leave(&mut self, replica: usize) {
        self.step(replica, LeaseEvent::Leave, None);
    }

    pub fn weather(&mut self, weather: Weather) {
        self.weather = weather;
    }

    pub fn runs(&self, replica: usize) -> bool {
        self.replicas[replica].mode == Mode::Runs && !self.replicas[replica].left
    }

    pub fn is_cut(&self, replica: usize) -> bool {
        self.replicas[replica].cut
    }

    /// The replicas whose fence of a shard is open now.
    pub fn open(&self, shard: u32) -> Vec<usize> {
        let dead = |replica: &Replica| replica.mode == Mode::Dead;
        (0..self.replicas.len())
            .filter(|index| !dead(&self.replicas[*index]))
            .filter(|index| self.replicas[*index].fences.get(&shard).is_some_and(|until| self.clock(*index) < *until))
            .collect()
    }

    /// How many shards each replica that runs works on.
    pub fn loads(&self) -> Vec<usize> {
        (0..self.replicas.len())
            .filter(|index| self.runs(*index))
            .map(|index| self.replicas[index].machine.owned_shards().count())
            .collect()
    }

    pub fn leases(&self) -> String {
        let lines = self
            .leases
            .values()
            .map(|lease| format!("{} {} {}", lease.name, lease.holder.as_deref().unwrap_or("-"), lease.transitions));
        lines.collect::<Vec<_>>().join("\n")
    }

    pub fn back_up(&self) -> Backup {
        Backup { leases: self.leases.clone(), version: self.version }
    }

    /// Somebody restores the server's store: its versions go back as well, and every watch breaks.
    pub fn restore(&mut self, backup: &Backup) {
        (self.leases, self.version) = (backup.leases.clone(), backup.version);
        for replica in 0..self.replicas.len() {
            self.post(Mail::Listing { replica });
        }
    }

    /// A hand deletes a lease.
    pub fn delete(&mut self, name: &str) {
        if let Some(mut gone) = self.leases.remove(name) {
            self.version += 1;
            gone.version = self.version.to_string();
            self.publish(LeaseEvent::Deleted(gone));
        }
    }

    /// Lets time go on, looking at the law at every moment at which anything happens.
    pub fn run(&mut self, until: Time, law: &mut impl FnMut(&Self)) {
        while self.now < until {
            let next_mail = self.mail.keys().next().map(|(at, _)| *at);
            let wakes = (0..self.replicas.len()).filter(|index| self.runs(*index)).filter_map(|index| {
                let replica = &self.replicas[index];
                let wake = replica.wake.map(|at| (at.as_micros() as f64 / 1000.0 / replica.rate).ceil() as Time);
                wake.into_iter().chain(replica.ending.values().copied()).min()
            });
            let next = next_mail.into_iter().chain(wakes).min().unwrap_or(until);
            self.now = next.max(self.now + 1).min(until);
            self.deliver();
            self.tick();
            for shard in 0..self.shards {
                if !self.open(shard).is_empty() {
                    self.last_held.insert(shard, self.now);
                }
            }
            law(self);
        }
    }

    fn tick(&mut self) {
        for index in 0..self.replicas.len() {
            if !self.runs(index) {
                continue;
            }
            let over: Vec<u32> = {
                let ending = &self.replicas[index].ending;
                ending.iter().filter(|(_, at)| **at <= self.now).map(|(shard, _)| *shard).collect()
            };
            for shard in over {
                self.replicas[index].ending.remove(&shard);
                self.step(index, LeaseEvent::WorkEnded(shard), None);
            }
            if self.replicas[index].wake.is_some_and(|at| at <= self.clock(index)) {
                self.step(index, LeaseEvent::Tick, None);
            }
        }
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.mail.first_entry() {
            if entry.key().0 > self.now {
                return;
            }
            match entry.remove() {
                Mail::Event { replica, event, asked } => {
                    if self.replicas[replica].mode == Mode::Frozen {
                        // It waits in the socket.
                        self.post(Mail::Event { replica, event, asked });
                    } else if self.runs(replica) {
                        self.step(replica, event, asked);
                    }
                }
                Mail::Asked { replica, asked, write } => {
                    self.requests += 1;
                    let name = write.name.clone();
                    let result =
                        if self.is_lost(replica) { Err(LeaseWriteError::Other) } else { self.write(replica, &write) };
                    // The answer may be lost too, after the write was carried out.
                    let answer = if self.is_lost(replica) { Err(LeaseWriteError::Other) } else { result };
                    self.post(Mail::Event { replica, event: LeaseEvent::Written(name, answer), asked: Some(asked) });
                }
                Mail::ReadAsked { replica, name } => {
                    self.requests += 1;
                    let lost = self.is_lost(replica);
                    let found = if lost { Err(()) } else { Ok(self.leases.get(&name).cloned()) };
                    self.post(Mail::Event { replica, event: LeaseEvent::Read(name, found), asked: None });
                }
                Mail::Listing { replica } => {
                    if self.replicas[replica].cut {
                        continue;
                    }
                    let leases = self.leases.values().cloned().collect();
                    self.post(Mail::Event { replica, event: LeaseEvent::Listed(leases), asked: None });
                }
            }
        }
    }

    fn is_lost(&mut self, replica: usize) -> bool {
        self.replicas[replica].cut || self.roll(100) < self.weather.lost
    }

    /// Tells everybody; whoever misses it lists again later, as a watch that broke does.
    fn publish(&mut self, event: LeaseEvent) {
        for replica in 0..self.replicas.len() {
            if self.is_lost(replica) {
                self.sent += 1;
                let later = self.now + 500 + self.roll(4000);
                self.mail.insert((later, self.sent), Mail::Listing { replica });
            } else {
                self.post(Mail::Event { replica, event: event.clone(), asked: None });
            }
        }
    }

    /// What an API server does.
    fn write(&mut self, replica: usize, write: &LeaseWrite) -> Result<Option<LeaseState>, LeaseWriteError> {
        let identity = self.replicas[replica].identity.clone();
        let existing = self.leases.get(&write.name).cloned();
        let from = match &write.operation {
            LeaseOperation::Create => None,
            LeaseOperation::Take { from }
            | LeaseOperation::Renew { from }
            | LeaseOperation::Release { from }
            | LeaseOperation::Delete { from } => Some(from),
        };
        match (from, &existing) {
            (None, Some(_)) | (Some(_), None) => return Err(LeaseWriteError::Conflict),
            (Some(from), Some(existing)) if (&from.uid, &from.version) != (&existing.uid, &existing.version) => {
                return Err(LeaseWriteError::Conflict);
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
        self.version += 1;
        let version = self.version.to_string();
        if let (LeaseOperation::Delete { .. }, Some(existing)) = (&write.operation, &existing) {
            self.leases.remove(&write.name);
            self.publish(LeaseEvent::Deleted(LeaseState { version, ..existing.clone() }));
            return Ok(None);
        }
        let mut lease = existing.unwrap_or_else(|| LeaseState {
            name: write.name.clone(),
            role: write.role,
            uid: format!("uid-{version}"),
            version: String::new(),
            holder: None,
            lease_duration: self.terms.lease_duration,
            shards: self.shards,
            transitions: 0,
        });
        lease.version = version;
        lease.shards = self.replicas[replica].machine.config.shards;
        match &write.operation {
            LeaseOperation::Release { .. } => lease.holder = None,
            LeaseOperation::Create | LeaseOperation::Renew { .. } => lease.holder = Some(identity),
            LeaseOperation::Take { .. } => {
                lease.transitions += i32::from(lease.holder.as_ref() != Some(&identity));
                lease.holder = Some(identity);
            }
            LeaseOperation::Delete { .. } => {}
        }
        assert_eq!(lease.role == LeaseRole::Member, lease_names::parse_shard_number(&lease.name).is_none());
        self.leases.insert(write.name.clone(), lease.clone());
        self.publish(LeaseEvent::Seen(lease.clone()));
        Ok(Some(lease))
    }

    fn step(&mut self, index: usize, event: LeaseEvent, asked: Option<Duration>) {
        let now = self.clock(index);
        let effects = self.replicas[index].machine.step(now, event);
        for effect in effects {
            let valid = self.terms.renew_deadline;
            match effect {
                LeaseEffect::Write(write) => self.post(Mail::Asked { replica: index, asked: now, write }),
                LeaseEffect::Read(name) => self.post(Mail::ReadAsked { replica: index, name }),
                LeaseEffect::OpenFence(shard) => {
                    let replica = &mut self.replicas[index];
                    assert!(!replica.fences.contains_key(&shard), "held twice by one");
                    replica.fences.insert(shard, asked.expect("an answer") + valid);
                    self.gained += 1;
                }
                LeaseEffect::ExtendFence(shard) => {
                    let until = self.replicas[index].fences.get_mut(&shard).expect("held");
                    *until = asked.expect("an answer") + valid;
                }
                LeaseEffect::DrainShard(shard) => {
                    let work = self.roll(self.weather.work);
                    self.replicas[index].ending.insert(shard, self.now + 1 + work);
                }
                LeaseEffect::CloseFence(shard) => {
                    self.replicas[index].fences.remove(&shard).expect("held");
                    self.replicas[index].ending.remove(&shard);
                }
            }
        }
        let replica = &mut self.replicas[index];
        replica.left = replica.machine.has_left();
        replica.wake = replica.machine.wake_at(now);
        let fences: BTreeSet<u32> = replica.fences.keys().copied().collect();
        let tenures: BTreeSet<u32> = replica.machine.tenures.keys().copied().collect();
        assert_eq!(fences, tenures, "what is told is what is so");
    }
}
