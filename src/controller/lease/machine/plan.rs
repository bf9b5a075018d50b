//! What to do, from what is known.

use super::known::Known;
use super::{Effect, Flight, FlightKind, Machine, Role, Stage, What, Write};
use crate::controller::lease::names;
use crate::controller::lease::share::shares;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl Machine {
    pub(super) fn plan(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        if !self.listed {
            return;
        }
        self.plan_own(now, effects);
        let shares = self.shares(now);
        let mine: BTreeSet<u32> =
            shares.iter().filter(|(_, holder)| **holder == self.own.identity).map(|(shard, _)| *shard).collect();
        for shard in self.tenures.keys().copied().collect::<Vec<_>>() {
            self.plan_held(shard, mine.contains(&shard), now, effects);
        }
        for shard in 0..self.own.shards {
            if !self.tenures.contains_key(&shard) {
                self.plan_other(shard, mine.contains(&shard), now, effects);
            }
        }
        self.plan_dead(now, effects);
    }

    /// The replicas that live and share out as many shards, as far as is known. This one counts from when it has a lease,
    /// so that the others come to the same, until it leaves.
    fn members(&self, now: Duration) -> BTreeSet<&str> {
        let own = self.own.identity.as_str();
        let lives = |known: &&Known| {
            known.lease.role == Role::Member
                && known.lease.shards == self.own.shards
                && known.is_held(now, &self.own.terms)
        };
        let others = self.known.values().filter(lives).filter_map(|known| known.lease.holder.as_deref());
        let this = (self.entered.is_some() && !self.leaving).then_some(own);
        others.filter(|holder| *holder != own).chain(this).collect()
    }

    /// How many replicas live.
    pub(in crate::controller::lease) fn member_count(&self, now: Duration) -> usize {
        self.members(now).len()
    }

    fn shares(&self, now: Duration) -> BTreeMap<u32, String> {
        let mut holders: BTreeMap<u32, &str> =
            self.known.values().filter_map(|known| Some((shard(known)?, known.lease.holder.as_deref()?))).collect();
        // Also where somebody deleted the lease meanwhile.
        holders.extend(self.tenures.keys().map(|shard| (*shard, self.own.identity.as_str())));
        let shares = shares(self.own.shards, &self.members(now), &holders);
        shares.into_iter().map(|(shard, holder)| (shard, holder.to_owned())).collect()
    }

    /// Whether a replica that shares out another number of shards holds one: until it is through, the same source would
    /// be in two shards. Where both hold some already, those of the smaller number stay.
    fn is_divided_otherwise(&self, now: Duration, fewer: bool) -> bool {
        self.known.values().any(|known| {
            let other = known.lease.shards != self.own.shards && (!fewer || known.lease.shards < self.own.shards);
            let own = known.lease.holder.as_ref() == Some(&self.own.identity);
            shard(known).is_some() && other && !own && known.is_held(now, &self.own.terms)
        })
    }

    /// This replica's own lease.
    fn plan_own(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        let name = names::member(&self.own.identity);
        let from = self.known.get(&name).map(|known| known.lease.clone());
        let what = match from {
            // The others share out without this one before it lets anything go, so that nothing lies idle.
            Some(from) if self.leaving => What::Delete { from },
            Some(from) if now >= self.enter => What::Renew { from },
            None if !self.leaving => What::Create,
            Some(_) | None => return,
        };
        self.write(name, Role::Member, what, now, effects);
    }

    fn plan_held(&mut self, shard: u32, is_mine: bool, now: Duration, effects: &mut Vec<Effect>) {
        let stays = is_mine && !self.leaving && !self.is_divided_otherwise(now, true);
        let Some(tenure) = self.tenures.get_mut(&shard) else { return };
        if tenure.stage == Stage::Held && !stays {
            tenure.stage = Stage::Ending;
            effects.push(Effect::Drop(shard));
        }
        let (stage, renew) = (tenure.stage, tenure.renew);
        let name = names::shard(shard);
        let from = self.known.get(&name).map(|known| known.lease.clone());
        match stage {
            Stage::Ended => {
                self.lose(shard, effects);
                self.plan_other(shard, false, now, effects);
            }
            Stage::Held | Stage::Ending if now >= renew || from.is_none() => {
                let what = from.map_or(What::Create, |from| What::Renew { from });
                self.write(name, Role::Shard(shard), what, now, effects);
            }
            Stage::Held | Stage::Ending => {}
        }
    }

    /// A shard that is not held.
    fn plan_other(&mut self, shard: u32, is_mine: bool, now: Duration, effects: &mut Vec<Effect>) {
        let name = names::shard(shard);
        let known = self.known.get(&name);
        let takes = is_mine && !self.leaving && !self.is_divided_otherwise(now, false);
        let settled = self.own.shards == 1 || self.entered.is_some_and(|at| now >= at + self.own.terms.settle);
        let what = match known.map(|known| (known, known.lease.clone())) {
            Some((known, from)) if known.lease.holder.as_ref() == Some(&self.own.identity) => {
                // An answer that was lost, or a tenure that ran out: nobody else took it so far.
                if takes { What::Take { from } } else { What::Release { from } }
            }
            Some((known, from)) if takes && known.lease.holder.is_none() && settled => What::Take { from },
            Some((known, from)) if takes && !known.is_held(now, &self.own.terms) => What::Take { from },
            None if takes && settled && !self.vanished.contains_key(&shard) => What::Create,
            Some(_) | None => return,
        };
        self.write(name, Role::Shard(shard), what, now, effects);
    }

    /// Leases that nobody needs any more. One of the replicas sees to it.
    fn plan_dead(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        if self.leaving || self.members(now).first() != Some(&self.own.identity.as_str()) {
            return;
        }
        let dead = |known: &&Known| {
            let is_old = now >= known.since + self.own.terms.dead.max(known.lasts(&self.own.terms));
            let is_own = known.lease.holder.as_ref() == Some(&self.own.identity);
            match known.lease.role {
                Role::Member => is_old && !is_own,
                // One beyond the number of shards is of a time when there were more.
                Role::Shard(shard) => is_old && !is_own && shard >= self.own.shards,
            }
        };
        let dead: Vec<_> = self.known.values().filter(dead).map(|known| known.lease.clone()).collect();
        for from in dead {
            self.write(from.name.clone(), from.role, What::Delete { from }, now, effects);
        }
    }

    fn write(&mut self, name: String, role: Role, what: What, now: Duration, effects: &mut Vec<Effect>) {
        if self.flights.contains_key(&name) || self.again.contains_key(&name) {
            return;
        }
        let is_held = matches!(role, Role::Shard(shard) if self.tenures.contains_key(&shard));
        let kind = if is_held { FlightKind::Renewal } else { FlightKind::Write };
        self.flights.insert(name.clone(), Flight { asked: now, kind });
        effects.push(Effect::Write(Write { name, role, what }));
    }
}

/// The number of a shard's lease.
fn shard(known: &Known) -> Option<u32> {
    match known.lease.role {
        Role::Shard(shard) => Some(shard),
        Role::Member => None,
    }
}
