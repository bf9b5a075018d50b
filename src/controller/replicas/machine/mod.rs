//! The rules of leases, without a clock and without a server: what is seen goes in, what is to be done comes out.
//!
//! Every replica has a lease of its own, so that the others know of it, and every shard has one that names its holder.
//! Nobody reads another's clock: a lease counts as given up once it was seen unchanged for as long as it lasts, by one's
//! own steady clock, and a holder stops well before that. Every write names the resource version that it goes out from,
//! so that of two who want a lease at the same moment the API server lets one through. From both follows that no two ever
//! write under one lease at a time, as long as no clock runs half as fast again as another: `tests/` tries it.

mod observed_lease;
mod plan;

#[cfg(test)]
mod tests;

pub(super) use observed_lease::{LeaseRole, LeaseState};

use super::shard_assignment;
use observed_lease::ObservedLease;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long all of it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// How long a lease that does not change still counts.
    pub lease_duration: Duration,
    /// How long after one renewal the next is due.
    pub renew_interval: Duration,
    /// How long after it asked for a renewal that was granted a holder may write.
    pub renew_deadline: Duration,
    /// The first pause after a write that failed; it doubles three times.
    pub retry_period: Duration,
    /// How long others are waited for after a start, before more than one shard is shared out.
    pub settle_period: Duration,
    /// After how long the lease of a replica that is gone is deleted.
    pub dead_lease_ttl: Duration,
}

impl Default for LeaseTerms {
    /// As other controllers have it, with a margin of five seconds between a holder's end and a successor's beginning.
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_interval: Duration::from_secs(5),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_millis(500),
            settle_period: Duration::from_secs(1),
            dead_lease_ttl: Duration::from_secs(90),
        }
    }
}

/// A lease that says more than this of how long it lasts is not believed: a hand may have written it.
const MAX_LEASE_DURATION: Duration = Duration::from_secs(60);

/// The version of a lease that was seen before the server's store was restored: none that a server gives, and older than all.
const BEFORE_RESTORE: &str = "0";

/// What a replica learns of leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeaseEvent {
    /// All leases that there are.
    Listed(Vec<LeaseState>),
    /// One was made, or changed.
    Seen(LeaseState),
    /// One was deleted; its last state.
    Deleted(LeaseState),
    /// What came of a write.
    Written(String, Result<Option<LeaseState>, LeaseWriteError>),
    /// What came of a read: the lease, or none.
    Read(String, Result<Option<LeaseState>, ()>),
    /// Nothing works under a shard any more that was to be let go.
    WorkEnded(u32),
    /// A shard's fence was found closed.
    FenceClosed(u32),
    /// This replica is to end.
    Leave,
    /// Time has passed.
    Tick,
}

/// Why a write was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseWriteError {
    /// The lease is not what it was taken for: somebody was faster.
    Conflict,
    /// Anything else. It may have been carried out all the same.
    Other,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeaseEffect {
    /// A write, to be answered with [`LeaseEvent::Written`]. Each lease has at most one write or read under way.
    Write(LeaseWrite),
    /// Reads a lease, to be answered with [`LeaseEvent::Read`].
    Read(String),
    /// A shard is held from now on, and its fence open for [`LeaseTerms::renew_deadline`] after the write was asked for whose answer
    /// this follows.
    OpenFence(u32),
    /// The fence of a shard that is held is open for as long, after a later write.
    ExtendFence(u32),
    /// Whatever works under a shard is to end between two writes; its fence stays open. Answered with [`LeaseEvent::WorkEnded`].
    DrainShard(u32),
    /// The fence of a shard is closed now, whatever works under it.
    CloseFence(u32),
}

/// A write of one lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeaseWrite {
    /// Its name.
    pub name: String,
    /// What it is about.
    pub role: LeaseRole,
    /// What is written.
    pub operation: LeaseOperation,
}

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeaseOperation {
    /// A lease that is not there, with this replica as its holder.
    Create,
    /// This replica has it now, which another one had, or nobody.
    Take {
        /// The state that this goes out from.
        from: LeaseState,
    },
    /// This replica has it still.
    Renew {
        /// As above.
        from: LeaseState,
    },
    /// Nobody has it: neither this replica nor one that did not renew it any more.
    Release {
        /// As above.
        from: LeaseState,
    },
    /// It is deleted.
    Delete {
        /// As above.
        from: LeaseState,
    },
}

/// A shard that is held.
#[derive(Clone, Copy, Debug)]
struct ShardTenure {
    /// When its fence closes.
    until: Duration,
    /// When it is to be renewed.
    renew: Duration,
    stage: TenureStage,
}

/// How far a shard is let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TenureStage {
    /// Not at all.
    Held,
    /// Work is ending.
    Draining,
    /// Work has ended.
    Drained,
}

/// What is under way for a lease.
#[derive(Clone, Copy, Debug)]
struct LeaseRequest {
    /// When it was asked for.
    requested_at: Duration,
    kind: LeaseRequestKind,
}

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaseRequestKind {
    /// A read.
    Read,
    /// A write by somebody who holds the shard.
    Renewal,
    /// Any other write.
    Write,
}

/// Who this is, and what it is one of.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplicaConfig {
    /// What no other replica is called, and none was.
    pub identity: String,
    /// How many shards there are.
    pub shards: u32,
    /// How long all of it takes.
    pub terms: LeaseTerms,
}

/// One replica's view of all leases, and what it does about them.
#[derive(Clone, Debug, Default)]
pub(super) struct LeaseMachine {
    config: ReplicaConfig,
    /// Whether all leases are known.
    listed: bool,
    observed: BTreeMap<String, ObservedLease>,
    /// The server's store was restored: not before then is a shard taken. Whoever had one by what was lost writes no longer
    /// then.
    restored_until: Option<Duration>,
    /// Shards whose lease was deleted while somebody held it: not before then is a new one made.
    vanished: BTreeMap<u32, Duration>,
    /// Leases of replicas that left, and since when: a late event of one does not bring it back.
    departed: BTreeMap<String, ObservedLease>,
    tenures: BTreeMap<u32, ShardTenure>,
    in_flight: BTreeMap<String, LeaseRequest>,
    /// Not before then is something tried again.
    retry_at: BTreeMap<String, Duration>,
    /// How often in a row something failed.
    failures: BTreeMap<String, u32>,
    /// When the replica's own lease is to be renewed.
    renew_own_at: Duration,
    /// When it was first seen among the others.
    joined_at: Option<Duration>,
    leaving: bool,
    /// How often a shard was gained, or lost.
    transitions: u64,
}

impl LeaseMachine {
    pub(super) fn new(config: ReplicaConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Takes an event in. `now` is this replica's own steady clock, which goes on while it is frozen.
    pub(super) fn step(&mut self, now: Duration, event: LeaseEvent) -> Vec<LeaseEffect> {
        let mut effects = Vec::new();
        // First of all, whatever came: a process that was frozen learns here that it was.
        self.expire_tenures(now, &mut effects);
        self.apply_event(now, event, &mut effects);
        self.plan_writes(now, &mut effects);
        effects
    }

    /// The shards that are held, and not about to be let go.
    pub(super) fn owned_shards(&self) -> impl Iterator<Item = u32> {
        self.tenures.iter().filter(|(_, tenure)| tenure.stage == TenureStage::Held).map(|(shard, _)| *shard)
    }

    /// Whether nothing is left to release, once this replica is leaving.
    pub(super) fn has_left(&self) -> bool {
        let own = |known: &ObservedLease| known.lease.holder.as_deref() == Some(self.config.identity.as_str());
        self.leaving && self.tenures.is_empty() && self.in_flight.is_empty() && !self.observed.values().any(own)
    }

    /// Whether all leases are known.
    pub(super) fn has_listed(&self) -> bool {
        self.listed
    }

    /// How often a shard was gained, or lost.
    pub(super) fn transitions(&self) -> u64 {
        self.transitions
    }

    /// When something is due by itself, if no event comes before.
    pub(super) fn wake_at(&self, now: Duration) -> Option<Duration> {
        let terms = &self.config.terms;
        let tenures = self.tenures.values().flat_map(|tenure| [tenure.until, tenure.renew]);
        let others =
            self.observed.values().flat_map(|known| [known.expires_at(terms), known.since + terms.dead_lease_ttl]);
        let own = [Some(self.renew_own_at), self.joined_at.map(|at| at + terms.settle_period)].into_iter().flatten();
        let own = own.chain(self.restored_until);
        let due = tenures.chain(others).chain(own).chain(self.vanished.values().copied());
        due.chain(self.retry_at.values().copied()).filter(|at| *at > now).min()
    }

    /// Ends what has run out.
    fn expire_tenures(&mut self, now: Duration, effects: &mut Vec<LeaseEffect>) {
        let over: Vec<u32> =
            self.tenures.iter().filter(|(_, tenure)| now >= tenure.until).map(|(shard, _)| *shard).collect();
        over.into_iter().for_each(|shard| self.lose_shard(shard, effects));
        self.vanished.retain(|_, until| *until > now);
        let terms = &self.config.terms;
        self.departed.retain(|_, gone| gone.expires_at(terms) > now);
        self.restored_until = self.restored_until.filter(|until| *until > now);
        self.retry_at.retain(|_, until| *until > now);
    }

    fn lose_shard(&mut self, shard: u32, effects: &mut Vec<LeaseEffect>) {
        if self.tenures.remove(&shard).is_some() {
            self.transitions += 1;
            effects.push(LeaseEffect::CloseFence(shard));
        }
    }

    fn apply_event(&mut self, now: Duration, event: LeaseEvent, effects: &mut Vec<LeaseEffect>) {
        match event {
            LeaseEvent::Listed(leases) => {
                self.listed = true;
                let gone: Vec<String> =
                    self.observed.keys().filter(|name| !leases.iter().any(|one| one.name == **name)).cloned().collect();
                // A list that was made before a lease was comes late: what it does not have is asked for by name.
                gone.into_iter().for_each(|name| self.request_read(name, now, effects));
                leases.into_iter().for_each(|lease| self.observe_lease(lease, now, effects));
            }
            LeaseEvent::Seen(lease) => self.observe_lease(lease, now, effects),
            LeaseEvent::Deleted(lease) => {
                // Somebody may have made it anew meanwhile, and been seen to.
                if self.observed.get(&lease.name).is_none_or(|known| !known.lease.is_newer_than(&lease)) {
                    self.forget_lease(&lease.name, now);
                    if lease.role == LeaseRole::Member {
                        self.departed.insert(lease.name.clone(), ObservedLease { lease, since: now });
                    }
                }
            }
            LeaseEvent::Written(name, result) => self.handle_write_result(&name, result, now, effects),
            LeaseEvent::Read(name, result) => {
                let asked = self.in_flight.remove(&name).map(|flight| flight.requested_at);
                let known = self.observed.get(&name).map(|known| (known.lease.version.clone(), known.since));
                match result {
                    Ok(Some(lease)) => {
                        // A read shows what is so when it is asked for. One that is older than what was known by then is of
                        // a store that somebody restored.
                        let is_restored = self
                            .observed
                            .get(&name)
                            .is_some_and(|known| Some(known.since) <= asked && known.lease.is_newer_than(&lease));
                        if is_restored {
                            self.forget_versions(now);
                        }
                        self.observe_lease(lease, now, effects);
                    }
                    // What was seen after the question was asked is news, and the answer is not.
                    Ok(None) if self.observed.get(&name).is_none_or(|known| Some(known.since) <= asked) => {
                        self.forget_lease(&name, now);
                    }
                    Ok(None) => {}
                    Err(()) => return self.back_off(name, now),
                }
                // A write was refused before this: it is not sent again at once for the same reason.
                let news = self.observed.get(&name).map(|known| (known.lease.version.clone(), known.since));
                if known == news {
                    self.back_off(name, now);
                }
            }
            LeaseEvent::WorkEnded(shard) => {
                if let Some(tenure) =
                    self.tenures.get_mut(&shard).filter(|tenure| tenure.stage == TenureStage::Draining)
                {
                    tenure.stage = TenureStage::Drained;
                }
            }
            LeaseEvent::FenceClosed(shard) => self.lose_shard(shard, effects),
            LeaseEvent::Leave => self.leaving = true,
            LeaseEvent::Tick => {}
        }
    }

    /// A lease as it is now, if it is not older than what is known already.
    fn observe_lease(&mut self, lease: LeaseState, now: Duration, effects: &mut Vec<LeaseEffect>) {
        if let Some(known) = self.observed.get(&lease.name)
            && (known.lease.version == lease.version || known.lease.is_newer_than(&lease))
        {
            return;
        }
        if self.departed.get(&lease.name).is_some_and(|gone| gone.lease.is_newer_than(&lease)) {
            return;
        }
        if let LeaseRole::Shard(shard) = lease.role {
            self.vanished.remove(&shard);
            if lease.holder.as_ref() != Some(&self.config.identity) {
                // Another one has it, by whatever right: a hand may have written it.
                self.lose_shard(shard, effects);
            }
        }
        self.observed.insert(lease.name.clone(), ObservedLease { lease, since: now });
    }

    /// Time went back: what comes next of every lease is true, whatever its version.
    fn forget_versions(&mut self, now: Duration) {
        for known in self.observed.values_mut() {
            known.lease.version = BEFORE_RESTORE.to_owned();
        }
        self.departed.clear();
        self.restored_until = Some(now + self.config.terms.lease_duration);
    }

    fn forget_lease(&mut self, name: &str, now: Duration) {
        let Some(gone) = self.observed.remove(name) else { return };
        let held_by_another = gone.lease.holder.as_ref().is_some_and(|holder| *holder != self.config.identity);
        if let (LeaseRole::Shard(shard), true) = (gone.lease.role, held_by_another) {
            // Its holder may not know yet, and puts it back.
            self.vanished.insert(shard, now + gone.valid_for(&self.config.terms));
        }
    }

    /// Asks for a lease, unless an answer about it is on its way.
    fn request_read(&mut self, name: String, now: Duration, effects: &mut Vec<LeaseEffect>) {
        if !self.in_flight.contains_key(&name) {
            self.in_flight.insert(name.clone(), LeaseRequest { requested_at: now, kind: LeaseRequestKind::Read });
            effects.push(LeaseEffect::Read(name));
        }
    }

    /// Leaves a lease alone for a while: longer each time, and not as long as the others do.
    fn back_off(&mut self, name: String, now: Duration) {
        let failures = self.failures.entry(name.clone()).or_default();
        let pause = self.config.terms.retry_period * (1 << (*failures).min(3));
        let chance = shard_assignment::stable_fraction(&[&self.config.identity, &name, &failures.to_string()]);
        *failures = failures.saturating_add(1);
        self.retry_at.insert(name, now + pause.mul_f64(0.75 + chance / 2.0));
    }

    fn handle_write_result(
        &mut self,
        name: &str,
        result: Result<Option<LeaseState>, LeaseWriteError>,
        now: Duration,
        effects: &mut Vec<LeaseEffect>,
    ) {
        let Some(flight) = self.in_flight.remove(name) else { return };
        if result.is_ok() {
            self.failures.remove(name);
        }
        match result {
            Ok(Some(lease)) => {
                let granted = lease.holder.as_ref() == Some(&self.config.identity);
                let role = lease.role;
                let overtaken = self.observed.get(name).is_some_and(|known| known.lease.is_newer_than(&lease));
                self.observe_lease(lease, now, effects);
                if granted && !overtaken {
                    self.handle_grant(role, flight, now, effects);
                }
            }
            Ok(None) => drop(self.observed.remove(name)),
            Err(LeaseWriteError::Conflict) => self.request_read(name.to_owned(), now, effects),
            Err(LeaseWriteError::Other) => self.back_off(name.to_owned(), now),
        }
    }

    fn handle_grant(&mut self, role: LeaseRole, flight: LeaseRequest, now: Duration, effects: &mut Vec<LeaseEffect>) {
        let LeaseTerms { renew_deadline: valid, renew_interval: renew, .. } = self.config.terms;
        let LeaseRequest { requested_at: asked, kind } = flight;
        match role {
            LeaseRole::Member => {
                self.renew_own_at = asked + renew;
                self.joined_at.get_or_insert(now);
            }
            LeaseRole::Shard(shard) => match self.tenures.get_mut(&shard) {
                Some(tenure) => {
                    (tenure.until, tenure.renew) = (asked + valid, asked + renew);
                    effects.push(LeaseEffect::ExtendFence(shard));
                }
                // An answer that comes too late gives nothing, nor one to a tenure that ended meanwhile.
                None if kind == LeaseRequestKind::Write && now < asked + valid => {
                    self.transitions += 1;
                    let tenure = ShardTenure { until: asked + valid, renew: asked + renew, stage: TenureStage::Held };
                    self.tenures.insert(shard, tenure);
                    effects.push(LeaseEffect::OpenFence(shard));
                }
                None => {}
            },
        }
    }
}
