//! The rules of leases, without a clock and without a server: what is seen goes in, what is to be done comes out.
//!
//! Every replica has a lease of its own, so that the others know of it, and every shard has one that names its holder.
//! Nobody reads another's clock: a lease counts as given up once it was seen unchanged for as long as it lasts, by one's
//! own steady clock, and a holder stops well before that. Every write names the resource version that it goes out from,
//! so that of two who want a lease at the same moment the API server lets one through. From both follows that no two ever
//! write under one lease at a time, as long as no clock runs half as fast again as another: `tests/` tries it.

mod known;
mod plan;

#[cfg(test)]
mod tests;

pub(super) use known::{Lease, Role};

use super::share;
use known::Known;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long all of it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long a lease that does not change still counts.
    pub lasts: Duration,
    /// How long after one renewal the next is due.
    pub renew: Duration,
    /// How long after it asked for a renewal that was granted a holder may write.
    pub valid: Duration,
    /// The first pause after a write that failed; it doubles three times.
    pub again: Duration,
    /// How long others are waited for after a start, before more than one shard is shared out.
    pub settle: Duration,
    /// After how long the lease of a replica that is gone is deleted.
    pub dead: Duration,
}

impl Default for Terms {
    /// As other controllers have it, with a margin of five seconds between a holder's end and a successor's beginning.
    fn default() -> Self {
        Self {
            lasts: Duration::from_secs(15),
            renew: Duration::from_secs(5),
            valid: Duration::from_secs(10),
            again: Duration::from_millis(500),
            settle: Duration::from_secs(1),
            dead: Duration::from_secs(90),
        }
    }
}

/// A lease that says more than this of how long it lasts is not believed: a hand may have written it.
const LONGEST: Duration = Duration::from_secs(60);

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// All leases that there are.
    Listed(Vec<Lease>),
    /// One was made, or changed.
    Seen(Lease),
    /// One was deleted; its last state.
    Deleted(Lease),
    /// What came of a write.
    Written(String, Result<Option<Lease>, Refusal>),
    /// What came of a read: the lease, or none.
    Read(String, Result<Option<Lease>, ()>),
    /// Nothing works under a shard any more that was to be let go.
    Ended(u32),
    /// A shard's fence was found closed.
    Closed(u32),
    /// This replica is to end.
    Leave,
    /// Time has passed.
    Tick,
}

/// Why a write was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The lease is not what it was taken for: somebody was faster.
    Conflict,
    /// Anything else. It may have been carried out all the same.
    Other,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// A write, to be answered with [`Event::Written`]. Each lease has at most one write or read under way.
    Write(Write),
    /// Reads a lease, to be answered with [`Event::Read`].
    Read(String),
    /// A shard is held from now on, and its fence open for [`Terms::valid`] after the write was asked for whose answer
    /// this follows.
    Hold(u32),
    /// The fence of a shard that is held is open for as long, after a later write.
    Extend(u32),
    /// Whatever works under a shard is to end between two writes; its fence stays open. Answered with [`Event::Ended`].
    Drop(u32),
    /// The fence of a shard is closed now, whatever works under it.
    Close(u32),
}

/// A write of one lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    /// Its name.
    pub name: String,
    /// What it is about.
    pub role: Role,
    /// What is written.
    pub what: What,
}

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A lease that is not there, with this replica as its holder.
    Create,
    /// This replica has it now, which another one had, or nobody.
    Take {
        /// The state that this goes out from.
        from: Lease,
    },
    /// This replica has it still.
    Renew {
        /// As above.
        from: Lease,
    },
    /// Nobody has it.
    Release {
        /// As above.
        from: Lease,
    },
    /// It is deleted.
    Delete {
        /// As above.
        from: Lease,
    },
}

/// A shard that is held.
#[derive(Clone, Copy, Debug)]
struct Tenure {
    /// When its fence closes.
    until: Duration,
    /// When it is to be renewed.
    renew: Duration,
    stage: Stage,
}

/// How far a shard is let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not at all.
    Held,
    /// Work is ending.
    Ending,
    /// Work has ended.
    Ended,
}

/// What is under way for a lease.
#[derive(Clone, Copy, Debug)]
struct Flight {
    /// When it was asked for.
    asked: Duration,
    kind: FlightKind,
}

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlightKind {
    /// A read.
    Read,
    /// A write by somebody who holds the shard.
    Renewal,
    /// Any other write.
    Write,
}

/// Who this is, and what it is one of.
#[derive(Clone, Debug)]
pub(super) struct Own {
    /// What no other replica is called, and none was.
    pub identity: String,
    /// How many shards there are.
    pub shards: u32,
    /// How long all of it takes.
    pub terms: Terms,
}

/// One replica's view of all leases, and what it does about them.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    own: Own,
    /// Whether all leases are known.
    listed: bool,
    known: BTreeMap<String, Known>,
    /// Shards whose lease was deleted while somebody held it: not before then is a new one made.
    vanished: BTreeMap<u32, Duration>,
    tenures: BTreeMap<u32, Tenure>,
    flights: BTreeMap<String, Flight>,
    /// Not before then is something tried again.
    again: BTreeMap<String, Duration>,
    /// How often in a row something failed.
    failures: BTreeMap<String, u32>,
    /// When the replica's own lease is to be renewed.
    enter: Duration,
    /// When it was first seen among the others.
    entered: Option<Duration>,
    leaving: bool,
    /// How often a shard was gained, or lost.
    transitions: u64,
}

impl Machine {
    pub(super) fn new(own: Own) -> Self {
        Self {
            own,
            listed: false,
            known: BTreeMap::new(),
            vanished: BTreeMap::new(),
            tenures: BTreeMap::new(),
            flights: BTreeMap::new(),
            again: BTreeMap::new(),
            failures: BTreeMap::new(),
            enter: Duration::ZERO,
            entered: None,
            leaving: false,
            transitions: 0,
        }
    }

    /// Takes an event in. `now` is this replica's own steady clock, which goes on while it is frozen.
    pub(super) fn step(&mut self, now: Duration, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        // First of all, whatever came: a process that was frozen learns here that it was.
        self.lapse(now, &mut effects);
        self.absorb(now, event, &mut effects);
        self.plan(now, &mut effects);
        effects
    }

    /// The shards that are held, and not about to be let go.
    pub(super) fn held(&self) -> impl Iterator<Item = u32> {
        self.tenures.iter().filter(|(_, tenure)| tenure.stage == Stage::Held).map(|(shard, _)| *shard)
    }

    /// Whether nothing is left to release, once this replica is leaving.
    pub(super) fn has_left(&self) -> bool {
        let own = |known: &Known| known.lease.holder.as_deref() == Some(self.own.identity.as_str());
        self.leaving && self.tenures.is_empty() && self.flights.is_empty() && !self.known.values().any(own)
    }

    /// Whether all leases are known.
    pub(super) fn has_listed(&self) -> bool {
        self.listed
    }

    /// How often a shard was gained, or lost.
    pub(super) fn transitions(&self) -> u64 {
        self.transitions
    }

    /// When something is due by itself, if nothing is told before.
    pub(super) fn wake_at(&self, now: Duration) -> Option<Duration> {
        let terms = &self.own.terms;
        let tenures = self.tenures.values().flat_map(|tenure| [tenure.until, tenure.renew]);
        let others = self.known.values().flat_map(|known| [known.ends(terms), known.since + terms.dead]);
        let own = [Some(self.enter), self.entered.map(|at| at + terms.settle)].into_iter().flatten();
        let due = tenures.chain(others).chain(own).chain(self.vanished.values().copied());
        due.chain(self.again.values().copied()).filter(|at| *at > now).min()
    }

    /// Ends what has run out.
    fn lapse(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        let over: Vec<u32> =
            self.tenures.iter().filter(|(_, tenure)| now >= tenure.until).map(|(shard, _)| *shard).collect();
        over.into_iter().for_each(|shard| self.lose(shard, effects));
        self.vanished.retain(|_, until| *until > now);
        self.again.retain(|_, until| *until > now);
    }

    fn lose(&mut self, shard: u32, effects: &mut Vec<Effect>) {
        if self.tenures.remove(&shard).is_some() {
            self.transitions += 1;
            effects.push(Effect::Close(shard));
        }
    }

    fn absorb(&mut self, now: Duration, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Listed(leases) => {
                self.listed = true;
                let gone: Vec<String> =
                    self.known.keys().filter(|name| !leases.iter().any(|one| one.name == **name)).cloned().collect();
                gone.into_iter().for_each(|name| self.forget(&name, now));
                leases.into_iter().for_each(|lease| self.see(lease, now, effects));
            }
            Event::Seen(lease) => self.see(lease, now, effects),
            Event::Deleted(lease) => {
                // Somebody may have made it anew meanwhile, and been seen to.
                if self.known.get(&lease.name).is_none_or(|known| !known.lease.is_newer_than(&lease)) {
                    self.forget(&lease.name, now);
                }
            }
            Event::Written(name, result) => self.written(&name, result, now, effects),
            Event::Read(name, result) => {
                let asked = self.flights.remove(&name).map(|flight| flight.asked);
                match result {
                    Ok(Some(lease)) => self.see(lease, now, effects),
                    // What was seen after the question was asked is news, and the answer is not.
                    Ok(None) if self.known.get(&name).is_none_or(|known| Some(known.since) <= asked) => {
                        self.forget(&name, now);
                    }
                    Ok(None) => {}
                    Err(()) => self.pause(name, now),
                }
            }
            Event::Ended(shard) => {
                if let Some(tenure) = self.tenures.get_mut(&shard).filter(|tenure| tenure.stage == Stage::Ending) {
                    tenure.stage = Stage::Ended;
                }
            }
            Event::Closed(shard) => self.lose(shard, effects),
            Event::Leave => self.leaving = true,
            Event::Tick => {}
        }
    }

    /// A lease as it is now, if it is not older than what is known already.
    fn see(&mut self, lease: Lease, now: Duration, effects: &mut Vec<Effect>) {
        if let Some(known) = self.known.get(&lease.name)
            && (known.lease.version == lease.version || known.lease.is_newer_than(&lease))
        {
            return;
        }
        if let Role::Shard(shard) = lease.role {
            self.vanished.remove(&shard);
            if lease.holder.as_ref() != Some(&self.own.identity) {
                // Another one has it, by whatever right: a hand may have written it.
                self.lose(shard, effects);
            }
        }
        self.known.insert(lease.name.clone(), Known { lease, since: now });
    }

    fn forget(&mut self, name: &str, now: Duration) {
        let Some(gone) = self.known.remove(name) else { return };
        let held_by_another = gone.lease.holder.as_ref().is_some_and(|holder| *holder != self.own.identity);
        if let (Role::Shard(shard), true) = (gone.lease.role, held_by_another) {
            // Its holder may not know yet, and puts it back.
            self.vanished.insert(shard, now + gone.lasts(&self.own.terms));
        }
    }

    /// Leaves a lease alone for a while: longer each time, and not as long as the others do.
    fn pause(&mut self, name: String, now: Duration) {
        let failures = self.failures.entry(name.clone()).or_default();
        let pause = self.own.terms.again * (1 << (*failures).min(3));
        let chance = share::chance(&[&self.own.identity, &name, &failures.to_string()]);
        *failures = failures.saturating_add(1);
        self.again.insert(name, now + pause.mul_f64(0.75 + chance / 2.0));
    }

    fn written(
        &mut self,
        name: &str,
        result: Result<Option<Lease>, Refusal>,
        now: Duration,
        effects: &mut Vec<Effect>,
    ) {
        let Some(flight) = self.flights.remove(name) else { return };
        if result.is_ok() {
            self.failures.remove(name);
        }
        match result {
            Ok(Some(lease)) => {
                let granted = lease.holder.as_ref() == Some(&self.own.identity);
                let role = lease.role;
                let overtaken = self.known.get(name).is_some_and(|known| known.lease.is_newer_than(&lease));
                self.see(lease, now, effects);
                if granted && !overtaken {
                    self.granted(role, flight, now, effects);
                }
            }
            Ok(None) => drop(self.known.remove(name)),
            Err(Refusal::Conflict) => {
                self.flights.insert(name.to_owned(), Flight { asked: now, kind: FlightKind::Read });
                effects.push(Effect::Read(name.to_owned()));
            }
            Err(Refusal::Other) => self.pause(name.to_owned(), now),
        }
    }

    fn granted(&mut self, role: Role, flight: Flight, now: Duration, effects: &mut Vec<Effect>) {
        let Terms { valid, renew, .. } = self.own.terms;
        let Flight { asked, kind } = flight;
        match role {
            Role::Member => {
                self.enter = asked + renew;
                self.entered.get_or_insert(now);
            }
            Role::Shard(shard) => match self.tenures.get_mut(&shard) {
                Some(tenure) => {
                    (tenure.until, tenure.renew) = (asked + valid, asked + renew);
                    effects.push(Effect::Extend(shard));
                }
                // An answer that comes too late gives nothing, nor one to a tenure that ended meanwhile.
                None if kind == FlightKind::Write && now < asked + valid => {
                    self.transitions += 1;
                    let tenure = Tenure { until: asked + valid, renew: asked + renew, stage: Stage::Held };
                    self.tenures.insert(shard, tenure);
                    effects.push(Effect::Hold(shard));
                }
                None => {}
            },
        }
    }
}
