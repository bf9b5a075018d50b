//! What to do, from what is known.

use super::observed_lease::ObservedLease;
use super::{
    LeaseEffect, LeaseMachine, LeaseOperation, LeaseRequest, LeaseRequestKind, LeaseRole, LeaseWrite, TenureStage,
};
use crate::controller::replicas::lease_names;
use crate::controller::replicas::shard_assignment::assign_shards;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl LeaseMachine {
    pub(super) fn plan_writes(&mut self, now: Duration, effects: &mut Vec<LeaseEffect>) {
        if !self.listed {
            return;
        }
        self.plan_member_lease(now, effects);
        let shares = self.shard_assignment(now);
        let mine: BTreeSet<u32> =
            shares.iter().filter(|(_, holder)| **holder == self.config.identity).map(|(shard, _)| *shard).collect();
        for shard in self.tenures.keys().copied().collect::<Vec<_>>() {
            self.plan_owned_shard(shard, mine.contains(&shard), now, effects);
        }
        for shard in 0..self.config.shards {
            if !self.tenures.contains_key(&shard) {
                self.plan_unowned_shard(shard, mine.contains(&shard), now, effects);
            }
        }
        self.plan_dead_leases(now, effects);
    }

    /// The replicas that live and share out as many shards, as far as is known. This one counts from when it has a lease,
    /// so that the others come to the same, until it leaves.
    fn live_members(&self, now: Duration) -> BTreeSet<&str> {
        let own = self.config.identity.as_str();
        let lives = |known: &&ObservedLease| {
            known.lease.role == LeaseRole::Member
                && known.lease.shards == self.config.shards
                && known.is_held(now, &self.config.terms)
        };
        let others = self.observed.values().filter(lives).filter_map(|known| known.lease.holder.as_deref());
        let this = (self.joined_at.is_some() && !self.leaving).then_some(own);
        others.filter(|holder| *holder != own).chain(this).collect()
    }

    /// How many replicas live.
    pub(in crate::controller::replicas) fn member_count(&self, now: Duration) -> usize {
        self.live_members(now).len()
    }

    fn shard_assignment(&self, now: Duration) -> BTreeMap<u32, String> {
        let mut holders: BTreeMap<u32, &str> = self
            .observed
            .values()
            .filter_map(|known| Some((shard_number_of(known)?, known.lease.holder.as_deref()?)))
            .collect();
        // Also where somebody deleted the lease meanwhile.
        holders.extend(self.tenures.keys().map(|shard| (*shard, self.config.identity.as_str())));
        let shares = assign_shards(self.config.shards, &self.live_members(now), &holders);
        shares.into_iter().map(|(shard, holder)| (shard, holder.to_owned())).collect()
    }

    /// Whether a replica that shares out another number of shards holds one: until it is through, the same source would
    /// be in two shards. Where both hold some already, those of the smaller number stay.
    fn conflicts_in_shard_count(&self, now: Duration, fewer: bool) -> bool {
        self.observed.values().any(|known| {
            let other = known.lease.shards != self.config.shards && (!fewer || known.lease.shards < self.config.shards);
            let own = known.lease.holder.as_ref() == Some(&self.config.identity);
            shard_number_of(known).is_some() && other && !own && known.is_held(now, &self.config.terms)
        })
    }

    /// This replica's own lease.
    fn plan_member_lease(&mut self, now: Duration, effects: &mut Vec<LeaseEffect>) {
        let name = lease_names::member_lease_name(&self.config.identity);
        let from = self.observed.get(&name).map(|known| known.lease.clone());
        let what = match from {
            // The others share out without this one before it lets anything go, so that nothing lies idle.
            Some(from) if self.leaving => LeaseOperation::Delete { from },
            Some(from) if now >= self.renew_own_at => LeaseOperation::Renew { from },
            None if !self.leaving => LeaseOperation::Create,
            Some(_) | None => return,
        };
        self.request_write(name, LeaseRole::Member, what, now, effects);
    }

    fn plan_owned_shard(&mut self, shard: u32, is_mine: bool, now: Duration, effects: &mut Vec<LeaseEffect>) {
        let stays = is_mine && !self.leaving && !self.conflicts_in_shard_count(now, true);
        let Some(tenure) = self.tenures.get_mut(&shard) else { return };
        if tenure.stage == TenureStage::Held && !stays {
            tenure.stage = TenureStage::Draining;
            effects.push(LeaseEffect::DrainShard(shard));
        }
        let (stage, renew) = (tenure.stage, tenure.renew);
        let name = lease_names::shard_lease_name(shard);
        let from = self.observed.get(&name).map(|known| known.lease.clone());
        match stage {
            TenureStage::Drained => {
                self.lose_shard(shard, effects);
                self.plan_unowned_shard(shard, false, now, effects);
            }
            TenureStage::Held | TenureStage::Draining if now >= renew || from.is_none() => {
                let what = from.map_or(LeaseOperation::Create, |from| LeaseOperation::Renew { from });
                self.request_write(name, LeaseRole::Shard(shard), what, now, effects);
            }
            TenureStage::Held | TenureStage::Draining => {}
        }
    }

    /// A shard that is not held.
    fn plan_unowned_shard(&mut self, shard: u32, is_mine: bool, now: Duration, effects: &mut Vec<LeaseEffect>) {
        let name = lease_names::shard_lease_name(shard);
        let known = self.observed.get(&name);
        let may_take = !self.leaving && self.restored_until.is_none() && !self.conflicts_in_shard_count(now, false);
        let takes = is_mine && may_take;
        let settled =
            self.config.shards == 1 || self.joined_at.is_some_and(|at| now >= at + self.config.terms.settle_period);
        let what = match known.map(|known| (known, known.lease.clone())) {
            Some((known, from)) if known.lease.holder.as_ref() == Some(&self.config.identity) => {
                // An answer that was lost, or a tenure that ran out: nobody else took it so far.
                if takes {
                    LeaseOperation::Take { from }
                } else if is_mine && self.restored_until.is_some() && !self.leaving {
                    return;
                } else {
                    LeaseOperation::Release { from }
                }
            }
            Some((known, from)) if takes && known.lease.holder.is_none() && settled => LeaseOperation::Take { from },
            Some((known, from)) if takes && !known.is_held(now, &self.config.terms) => LeaseOperation::Take { from },
            // Whose part it is may have started since, and would wait as long again.
            Some((known, from)) if may_take && known.is_given_up(now, &self.config.terms) => {
                LeaseOperation::Release { from }
            }
            None if takes && settled && !self.vanished.contains_key(&shard) => LeaseOperation::Create,
            Some(_) | None => return,
        };
        self.request_write(name, LeaseRole::Shard(shard), what, now, effects);
    }

    /// Leases that nobody needs any more. One of the replicas deletes them; that a replica is gone, whoever saw it first says.
    fn plan_dead_leases(&mut self, now: Duration, effects: &mut Vec<LeaseEffect>) {
        let terms = self.config.terms;
        let given_up = |known: &&ObservedLease| {
            known.lease.role == LeaseRole::Member
                && known.lease.holder.as_ref() != Some(&self.config.identity)
                && known.is_given_up(now, &terms)
        };
        let gone: Vec<_> = self.observed.values().filter(given_up).map(|known| known.lease.clone()).collect();
        for from in gone {
            self.request_write(from.name.clone(), from.role, LeaseOperation::Release { from }, now, effects);
        }
        if self.leaving || self.live_members(now).first() != Some(&self.config.identity.as_str()) {
            return;
        }
        let dead = |known: &&ObservedLease| {
            let is_old = now >= known.since + self.config.terms.dead_lease_ttl.max(known.valid_for(&self.config.terms));
            let is_own = known.lease.holder.as_ref() == Some(&self.config.identity);
            match known.lease.role {
                LeaseRole::Member => is_old && !is_own,
                // One beyond the number of shards is of a time when there were more.
                LeaseRole::Shard(shard) => is_old && !is_own && shard >= self.config.shards,
            }
        };
        let dead: Vec<_> = self.observed.values().filter(dead).map(|known| known.lease.clone()).collect();
        for from in dead {
            self.request_write(from.name.clone(), from.role, LeaseOperation::Delete { from }, now, effects);
        }
    }

    fn request_write(
        &mut self,
        name: String,
        role: LeaseRole,
        what: LeaseOperation,
        now: Duration,
        effects: &mut Vec<LeaseEffect>,
    ) {
        if self.in_flight.contains_key(&name) || self.retry_at.contains_key(&name) {
            return;
        }
        let is_held = matches!(role, LeaseRole::Shard(shard) if self.tenures.contains_key(&shard));
        let kind = if is_held { LeaseRequestKind::Renewal } else { LeaseRequestKind::Write };
        self.in_flight.insert(name.clone(), LeaseRequest { requested_at: now, kind });
        effects.push(LeaseEffect::Write(LeaseWrite { name, role, operation: what }));
    }
}

/// The number of a shard's lease.
fn shard_number_of(known: &ObservedLease) -> Option<u32> {
    match known.lease.role {
        LeaseRole::Shard(shard) => Some(shard),
        LeaseRole::Member => None,
    }
}
