//! Stories, and laws over random interleavings.

mod world;

use super::{LeaseEvent, LeaseRole, LeaseState};
use crate::controller::replicas::lease_names;
use proptest::prelude::*;
use std::time::Duration;
use world::{Time, Weather, World};

/// A network as it should be.
const FAIR: Weather = Weather { delay: 50, lost: 0, work: 300 };

fn world(shards: u32) -> World {
    World::new(shards, FAIR, 7)
}

/// Nobody else may write while one may.
fn one_at_a_time(world: &World) {
    for shard in 0..8 {
        let open = world.open(shard);
        assert!(open.len() <= 1, "at {} ms shard {shard} is open to {open:?}", world.now);
    }
}

/// Goes on until every shard is held by somebody who runs, and gives how long that took.
fn until_held(world: &mut World, shards: u32, longest: Time) -> Time {
    let began = world.now;
    while world.now < began + longest {
        let held = |shard: u32| world.open(shard).iter().any(|index| world.runs(*index));
        if (0..shards).all(held) {
            break;
        }
        world.run(world.now + 10, &mut one_at_a_time);
    }
    world.now - began
}

#[test]
fn one_of_three_leads_and_the_next_takes_over_when_it_crashes() {
    let mut world = world(1);
    for _ in 0..3 {
        world.start(1.0);
    }
    assert!(until_held(&mut world, 1, 60_000) < 1_000);
    world.run(60_000, &mut one_at_a_time);
    insta::assert_snapshot!(world.leases(), @r"
    stator-member-stator-0 stator-0 0
    stator-member-stator-1 stator-1 0
    stator-member-stator-2 stator-2 0
    stator-shard-0 stator-1 0
    ");
    let leader = world.open(0)[0];
    world.crash(leader);
    let took = until_held(&mut world, 1, 60_000);
    assert!((10_000..=15_200).contains(&took), "{took} ms");
    assert_eq!(world.gained, 2);
    // Its own lease is tidied away.
    world.run(world.now + 120_000, &mut one_at_a_time);
    insta::assert_snapshot!(world.leases(), @r"
    stator-member-stator-0 stator-0 0
    stator-member-stator-2 stator-2 0
    stator-shard-0 stator-0 1
    ");
}

/// Who comes while the leases of one that crashed still count, as a container that is started again, does not wait as long
/// as if it had crashed only then.
#[test]
fn a_successor_of_one_that_crashed_waits_no_longer_than_the_others() {
    for (shards, pause) in [(1, 1_000), (4, 4_000), (7, 9_000)] {
        let mut world = world(shards);
        for _ in 0..2 {
            world.start(1.0);
        }
        world.run(30_000, &mut one_at_a_time);
        let crashed = world.now;
        world.crash(0);
        world.run(crashed + pause, &mut one_at_a_time);
        world.start(1.0);
        until_held(&mut world, shards, 60_000);
        let took = world.now - crashed;
        assert!(took <= 15_500, "{shards} shards: {took} ms");
        world.run(world.now + 5_000, &mut one_at_a_time);
        assert!(world.loads().iter().all(|load| *load <= usize::try_from(shards).unwrap().div_ceil(2)));
    }
}

#[test]
fn a_leader_that_ends_hands_over_at_once() {
    let mut world = world(1);
    for _ in 0..2 {
        world.start(1.0);
    }
    until_held(&mut world, 1, 60_000);
    let leader = world.open(0)[0];
    world.leave(leader);
    world.run(world.now + 1_500, &mut one_at_a_time);
    assert!(world.replicas[leader].left);
    assert_eq!(world.open(0), [1 - leader]);
    insta::assert_snapshot!(world.leases(), @r"
    stator-member-stator-1 stator-1 0
    stator-shard-0 stator-1 1
    ");
}

#[test]
fn shards_are_shared_out_evenly_and_a_new_replica_gets_its_part() {
    let mut world = world(8);
    for _ in 0..2 {
        world.start(1.0);
    }
    world.run(10_000, &mut one_at_a_time);
    assert_eq!(world.loads(), [4, 4]);
    assert_eq!(world.gained, 8, "nobody had to give anything up");
    world.start(1.0);
    world.run(20_000, &mut one_at_a_time);
    let mut loads = world.loads();
    loads.sort_unstable();
    assert_eq!(loads, [2, 3, 3]);
    assert_eq!(world.gained, 10, "two shards moved");
}

#[test]
fn one_that_was_frozen_finds_itself_without_its_shard() {
    let mut world = world(1);
    for _ in 0..2 {
        world.start(1.0);
    }
    world.run(20_000, &mut one_at_a_time);
    let leader = world.open(0)[0];
    world.freeze(leader, true);
    world.run(60_000, &mut one_at_a_time);
    assert_eq!(world.open(0), [1 - leader]);
    world.freeze(leader, false);
    world.run(80_000, &mut one_at_a_time);
    assert_eq!(world.open(0), [1 - leader]);
    assert_eq!(world.loads().iter().sum::<usize>(), 1);
}

#[test]
fn one_that_loses_the_way_to_the_server_stops_by_itself_and_takes_up_again_what_nobody_took() {
    let mut world = world(1);
    let only = world.start(1.0);
    world.run(20_000, &mut one_at_a_time);
    world.cut(only, true);
    world.run(31_000, &mut one_at_a_time);
    assert!(world.open(0).is_empty());
    world.cut(only, false);
    assert!(until_held(&mut world, 1, 60_000) < 5_000);
}

#[test]
fn a_lease_that_somebody_deletes_is_put_back_by_its_holder() {
    let mut world = world(1);
    for _ in 0..3 {
        world.start(1.0);
    }
    world.run(20_000, &mut one_at_a_time);
    let leader = world.open(0);
    world.delete(&lease_names::shard_lease_name(0));
    world.run(60_000, &mut one_at_a_time);
    assert_eq!(world.open(0), leader);
    assert_eq!(world.gained, 1);
}

#[test]
fn who_shares_out_another_number_of_shards_waits_until_the_others_are_through() {
    let mut world = world(1);
    let old = world.start(1.0);
    world.run(10_000, &mut one_at_a_time);
    let new = world.start_with(1.0, 4);
    world.run(60_000, &mut one_at_a_time);
    assert_eq!(world.loads(), [1, 0]);
    world.leave(old);
    world.run(63_000, &mut one_at_a_time);
    assert_eq!(world.replicas[new].fences.len(), 4);
}

#[test]
fn what_is_seen_late_does_not_turn_time_back() {
    let own = super::ReplicaConfig { identity: "a".to_owned(), shards: 1, terms: super::LeaseTerms::default() };
    let mut machine = super::LeaseMachine::new(own);
    let lease = |version: u64, holder: &str| LeaseState {
        name: lease_names::shard_lease_name(0),
        role: LeaseRole::Shard(0),
        uid: "u".to_owned(),
        version: version.to_string(),
        holder: Some(holder.to_owned()),
        lease_duration: Duration::from_secs(15),
        shards: 1,
        transitions: 0,
    };
    let at = Duration::from_secs;
    machine.step(at(0), LeaseEvent::Listed(vec![lease(10, "b")]));
    machine.step(at(1), LeaseEvent::Seen(lease(9, "c")));
    machine.step(at(2), LeaseEvent::Deleted(lease(9, "c")));
    machine.step(at(3), LeaseEvent::Listed(vec![lease(10, "b")]));
    let known = &machine.observed[&lease_names::shard_lease_name(0)];
    assert_eq!((known.lease.holder.as_deref(), known.since), (Some("b"), at(0)));
}

/// It was forgotten, and its shard idle for twice as long as a lease lasts.
#[test]
fn a_list_that_was_made_before_a_lease_does_not_make_it_forgotten() {
    let own = super::ReplicaConfig { identity: "a".to_owned(), shards: 1, terms: super::LeaseTerms::default() };
    let mut machine = super::LeaseMachine::new(own);
    let (name, at) = (lease_names::shard_lease_name(0), Duration::from_secs);
    let lease = LeaseState {
        name: name.clone(),
        role: LeaseRole::Shard(0),
        uid: "u".to_owned(),
        version: "10".to_owned(),
        holder: Some("b".to_owned()),
        lease_duration: Duration::from_secs(15),
        shards: 1,
        transitions: 0,
    };
    machine.step(at(0), LeaseEvent::Listed(Vec::new()));
    machine.step(at(1), LeaseEvent::Seen(lease.clone()));
    let asked = machine.step(at(2), LeaseEvent::Listed(Vec::new()));
    assert_eq!(asked.last(), Some(&super::LeaseEffect::Read(name.clone())));
    machine.step(at(3), LeaseEvent::Read(name.clone(), Ok(Some(lease))));
    assert_eq!(machine.observed[&name].since, at(1));
    machine.step(at(4), LeaseEvent::Listed(Vec::new()));
    machine.step(at(5), LeaseEvent::Read(name.clone(), Ok(None)));
    assert!(!machine.observed.contains_key(&name), "it is gone");
}

#[test]
fn a_replica_that_left_does_not_come_back_by_what_is_told_late() {
    let own = super::ReplicaConfig { identity: "a".to_owned(), shards: 1, terms: super::LeaseTerms::default() };
    let mut machine = super::LeaseMachine::new(own);
    let lease = |version: u64| LeaseState {
        name: lease_names::member_lease_name("b"),
        role: LeaseRole::Member,
        uid: "u".to_owned(),
        version: version.to_string(),
        holder: Some("b".to_owned()),
        lease_duration: Duration::from_secs(15),
        shards: 1,
        transitions: 0,
    };
    let at = Duration::from_secs;
    machine.step(at(0), LeaseEvent::Listed(vec![lease(10)]));
    assert_eq!(machine.member_count(at(0)), 1);
    machine.step(at(1), LeaseEvent::Deleted(lease(12)));
    machine.step(at(2), LeaseEvent::Seen(lease(11)));
    assert_eq!(machine.member_count(at(2)), 0);
    machine.step(at(3), LeaseEvent::Seen(lease(13)));
    assert_eq!(machine.member_count(at(3)), 1, "it was made anew");
}

/// Row D5 of the review: after a restore of the server's store, leases ignored lower versions for ever.
#[test]
fn a_restored_server_is_believed_and_asked_no_more_than_before() {
    for crashed in [false, true] {
        let mut world = world(2);
        for _ in 0..3 {
            world.start(1.0);
        }
        world.run(30_000, &mut one_at_a_time);
        let backup = world.back_up();
        if crashed {
            // Those of the backup are not those of today.
            let holder = world.open(0)[0];
            world.crash(holder);
        }
        world.run(200_000, &mut one_at_a_time);
        let before = world.requests;
        world.restore(&backup);
        // Fences that were opened before the restore close by themselves.
        world.run(world.now + 15_000, &mut |_| ());
        world.run(world.now + 25_000, &mut one_at_a_time);
        assert_eq!(until_held(&mut world, 2, 1_000), 0, "crashed: {crashed}");
        assert!(world.requests - before < 200, "{} requests in 40 s", world.requests - before);
        // From then on all is as it was: what is seen is believed, and a crash is made up for.
        let holder = world.open(1)[0];
        world.crash(holder);
        assert!(until_held(&mut world, 2, 60_000) <= 20_000);
        world.run(world.now + 30_000, &mut one_at_a_time);
    }
}

/// Row D5: a write that is refused again and again is not sent again and again.
#[test]
fn a_conflict_that_a_read_does_not_explain_is_followed_by_a_pause() {
    let own = super::ReplicaConfig { identity: "a".to_owned(), shards: 1, terms: super::LeaseTerms::default() };
    let mut machine = super::LeaseMachine::new(own);
    let mut now = Duration::ZERO;
    let mut asked: Vec<super::LeaseEffect> = machine.step(now, LeaseEvent::Listed(Vec::new()));
    let mut writes = 0;
    while now < Duration::from_secs(60) {
        now += Duration::from_millis(1);
        let answers = std::mem::take(&mut asked).into_iter().map(|effect| match effect {
            super::LeaseEffect::Write(write) => {
                writes += 1;
                LeaseEvent::Written(write.name, Err(super::LeaseWriteError::Conflict))
            }
            super::LeaseEffect::Read(name) => LeaseEvent::Read(name, Ok(None)),
            effect @ (super::LeaseEffect::OpenFence(_)
            | super::LeaseEffect::ExtendFence(_)
            | super::LeaseEffect::DrainShard(_)
            | super::LeaseEffect::CloseFence(_)) => panic!("{effect:?}"),
        });
        let answers: Vec<_> = answers.chain([LeaseEvent::Tick]).collect();
        asked = answers.into_iter().flat_map(|answer| machine.step(now, answer)).collect();
    }
    assert!((2..100).contains(&writes), "{writes} writes in a minute");
}

/// What happens to somebody.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Start(u32),
    Crash(usize),
    Freeze(usize, Time),
    Cut(usize, Time),
    Leave(usize),
}

fn blow() -> impl Strategy<Value = (Time, Blow)> {
    let who = 0_usize..6;
    let long = 100_u64..40_000;
    let blow = prop_oneof![
        (80_u32..=120).prop_map(Blow::Start),
        who.clone().prop_map(Blow::Crash),
        (who.clone(), long.clone()).prop_map(|(who, long)| Blow::Freeze(who, long)),
        (who.clone(), long).prop_map(|(who, long)| Blow::Cut(who, long)),
        who.prop_map(Blow::Leave),
    ];
    (0_u64..12_000, blow)
}

fn rate(percent: u32) -> f64 {
    f64::from(percent) / 100.0
}

/// Deals the blows, and gives the world as it is then; whoever is frozen or cut off is let go at the end.
fn suffer(world: &mut World, blows: &[(Time, Blow)]) {
    let mut later: Vec<(Time, bool, usize)> = Vec::new();
    let release = |world: &mut World, later: &mut Vec<(Time, bool, usize)>, until: Time| {
        later.sort_unstable();
        while let Some((at, frozen, who)) = later.first().copied().filter(|(at, _, _)| *at <= until) {
            world.run(at, &mut one_at_a_time);
            if frozen {
                world.freeze(who, false)
            } else {
                world.cut(who, false)
            }
            later.remove(0);
        }
        world.run(until, &mut one_at_a_time);
    };
    for (pause, blow) in blows {
        let until = world.now + pause;
        release(world, &mut later, until);
        let there = |who: usize| who < world.replicas.len() && world.runs(who);
        match *blow {
            Blow::Start(percent) if world.replicas.len() < 6 => {
                world.start(rate(percent));
            }
            Blow::Crash(who) if there(who) => world.crash(who),
            Blow::Freeze(who, long) if there(who) => {
                world.freeze(who, true);
                later.push((world.now + long, true, who));
            }
            Blow::Cut(who, long) if there(who) && !world.is_cut(who) => {
                world.cut(who, true);
                later.push((world.now + long, false, who));
            }
            Blow::Leave(who) if there(who) => world.leave(who),
            Blow::Start(_) | Blow::Crash(_) | Blow::Freeze(..) | Blow::Cut(..) | Blow::Leave(_) => {}
        }
    }
    let until = later.iter().map(|(at, _, _)| *at).max().unwrap_or(world.now).max(world.now);
    release(world, &mut later, until);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    /// Whatever happens, no two fences of a shard are open at a time. And when it is over, every shard is held within
    /// twenty seconds, and they are shared out evenly.
    #[test]
    fn no_two_may_write_at_a_time_and_nothing_stays_idle(
        seed in any::<u64>(),
        shards in 1_u32..8,
        rates in proptest::collection::vec(80_u32..=120, 1..4),
        blows in proptest::collection::vec(blow(), 0..25),
        delay in 1_u64..3_000,
        lost in 0_u64..40,
    ) {
        let mut world = World::new(shards, Weather { delay, lost, work: 4_000 }, seed);
        for percent in &rates {
            world.start(rate(*percent));
        }
        suffer(&mut world, &blows);
        world.weather(FAIR);
        // One that nothing happened to, so that somebody is left.
        world.start(1.0);
        // What was on its way in the storm comes in.
        world.run(world.now + delay + 5_000, &mut one_at_a_time);
        let took = until_held(&mut world, shards, 60_000);
        prop_assert!(took <= 20_000, "{took} ms");
        world.run(world.now + 30_000, &mut one_at_a_time);
        prop_assert_eq!(until_held(&mut world, shards, 1_000), 0);
        let loads = world.loads();
        let most = usize::try_from(shards).unwrap().div_ceil(loads.len());
        prop_assert!(loads.iter().all(|load| *load <= most), "{loads:?} of {shards}");
    }

    /// With clocks that go a fifth too fast or too slow, a crash is made up for within twenty seconds, an orderly end
    /// within three.
    #[test]
    fn failover_is_quick(
        seed in any::<u64>(),
        shards in 1_u32..8,
        rates in proptest::collection::vec(80_u32..=120, 2..5),
        when in 8_000_u64..30_000,
        who in 0_usize..5,
        orderly in any::<bool>(),
    ) {
        let mut world = World::new(shards, Weather { delay: 100, lost: 0, work: 500 }, seed);
        for percent in &rates {
            world.start(rate(*percent));
        }
        world.run(when, &mut one_at_a_time);
        prop_assert_eq!(until_held(&mut world, shards, 1), 0);
        let who = who % rates.len();
        if orderly { world.leave(who) } else { world.crash(who) }
        let took = if orderly {
            let began = world.now;
            while !world.replicas[who].left && world.now < began + 10_000 {
                world.run(world.now + 10, &mut one_at_a_time);
            }
            world.now - began + until_held(&mut world, shards, 60_000)
        } else {
            until_held(&mut world, shards, 60_000)
        };
        prop_assert!(took <= if orderly { 3_000 } else { 20_000 }, "{took} ms");
    }
}
