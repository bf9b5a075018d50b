//! Which replica should hold which shard. Every replica that knows the same members and holders computes the same.

use crate::controller::sources::owned_shards::stable_hash;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A number from 0 to 1 that looks like chance, and is the same for the same parts.
pub(super) fn stable_fraction(parts: &[&str]) -> f64 {
    f64::from(u32::try_from(stable_hash(parts) >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

/// How much a member weighs a shard.
fn rendezvous_weight(member: &str, shard: u32) -> u64 {
    stable_hash(&[member, &shard.to_string()])
}

/// The shards and who is to hold each, for these members. Who holds one keeps it, up to an equal share (some one more,
/// where it does not come out even); the rest goes by rendezvous hashing to those who have less: every member weighs every
/// shard, and the heaviest pairs come first. So a member that comes or goes moves its own share and nothing else, and
/// with one shard a leader stays one for as long as he lives.
pub fn assign_shards<'a>(
    shards: u32,
    members: &BTreeSet<&'a str>,
    holders: &BTreeMap<u32, &str>,
) -> BTreeMap<u32, &'a str> {
    let count = u32::try_from(members.len()).unwrap_or(u32::MAX);
    if count == 0 {
        return BTreeMap::new();
    }
    let (least, mut one_more) = (shards / count, shards % count);
    let mut own: Vec<(&str, Vec<u32>)> = members
        .iter()
        .map(|member| {
            let held = holders.iter().filter(|(shard, holder)| **shard < shards && *holder == member);
            let mut held: Vec<u32> = held.map(|(shard, _)| *shard).collect();
            held.sort_by_cached_key(|shard| Reverse(rendezvous_weight(member, *shard)));
            (*member, held)
        })
        .collect();
    own.sort_by_key(|(member, held)| (Reverse(held.len()), *member));
    let mut shares = BTreeMap::new();
    let mut load: BTreeMap<&str, u32> = BTreeMap::new();
    let mut reserve = |member: &'a str| {
        let load = load.entry(member).or_default();
        let fits = *load < least || (*load == least && one_more > 0);
        if fits {
            one_more -= u32::from(*load == least);
            *load += 1;
        }
        fits
    };
    for (member, held) in own {
        for shard in held {
            if reserve(member) {
                shares.insert(shard, member);
            }
        }
    }
    let mut pairs: Vec<(u64, u32, &str)> = (0..shards)
        .filter(|shard| !shares.contains_key(shard))
        .flat_map(|shard| members.iter().map(move |member| (rendezvous_weight(member, shard), shard, *member)))
        .collect();
    pairs.sort_unstable_by(|one, other| other.cmp(one));
    for (_, shard, member) in pairs {
        if !shares.contains_key(&shard) && reserve(member) {
            shares.insert(shard, member);
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("stator-{number}-x7k2p")).collect()
    }

    fn of(shards: u32, names: &[String], holders: &BTreeMap<u32, String>) -> BTreeMap<u32, String> {
        let members = names.iter().map(String::as_str).collect();
        let holders = holders.iter().map(|(shard, holder)| (*shard, holder.as_str())).collect();
        assign_shards(shards, &members, &holders).into_iter().map(|(shard, name)| (shard, name.to_owned())).collect()
    }

    fn moved(before: &BTreeMap<u32, String>, after: &BTreeMap<u32, String>) -> usize {
        before.iter().filter(|(shard, holder)| after.get(shard) != Some(holder)).count()
    }

    #[test]
    fn a_leader_stays_one_whoever_comes() {
        let leader = BTreeMap::from([(0, names(1).remove(0))]);
        for count in 1..8 {
            assert_eq!(of(1, &names(count), &leader), leader);
        }
    }

    proptest! {
        #[test]
        fn every_shard_has_one_holder_and_nobody_more_than_his_share(
            shards in 1_u32..40,
            members in 1_usize..12,
            before in proptest::collection::btree_map(0_u32..50, 0_usize..14, 0..40),
        ) {
            let holders = before.into_iter().map(|(shard, member)| (shard, names(14).remove(member))).collect();
            let shares = of(shards, &names(members), &holders);
            prop_assert_eq!(shares.len(), usize::try_from(shards).unwrap());
            let most = usize::try_from(shards).unwrap().div_ceil(members);
            let least = usize::try_from(shards).unwrap() / members;
            for name in names(members) {
                let load = shares.values().filter(|holder| **holder == name).count();
                prop_assert!((least..=most).contains(&load), "{name} holds {load} of {shards}");
            }
            prop_assert_eq!(of(shards, &names(members), &shares), shares, "what is shared out stays");
        }

        #[test]
        fn a_member_that_comes_or_goes_moves_its_share_alone(shards in 1_u32..64, members in 2_usize..10) {
            let all = names(members);
            let (one, others) = all.split_first().unwrap();
            let before = of(shards, &all, &BTreeMap::new());
            let own = before.values().filter(|holder| *holder == one).count();
            let without = of(shards, others, &before);
            prop_assert_eq!(moved(&before, &without), own);
            let again = of(shards, &all, &without);
            prop_assert!(moved(&without, &again) <= usize::try_from(shards).unwrap().div_ceil(members));
        }
    }
}
