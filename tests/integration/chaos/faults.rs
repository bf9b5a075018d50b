//! Each fault, alone or with another: whatever was pushed meanwhile is applied once it is over, every commit has one
//! verdict, and nothing is written twice.
//!
//! `STATOR_FAULT_SCHEDULES` says how many schedules are tried (each fault once; a nightly run takes 300), `STATOR_SCHEDULE_SEED`
//! from which seed on, and `STATOR_FAULT_SECONDS` how long after a fault everything has to be as git says, where that counts:
//! on a machine that does nothing else.

use super::world::{Fault, World};
use super::{Dice, end};
use crate::{gitea, schedule_seeds, testbed};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How many are tried.
const COUNT: &str = "STATOR_FAULT_SCHEDULES";
/// The tenant.
const TENANT: &str = "chaos-alice";
/// Its sources.
const SOURCES: usize = 4;
/// How long a fault lasts; a replica is paused for longer than its leases last.
const WHILE: Duration = Duration::from_secs(4);
const LONGER_THAN_LEASES: Duration = Duration::from_secs(20);

#[test]
fn after_every_fault_the_last_commits_hold_and_nothing_was_written_twice() {
    let (Some(_), Some(_)) = (testbed::shared(), gitea::shared()) else { return };
    let limit = std::env::var("STATOR_FAULT_SECONDS").ok().and_then(|text| text.parse().ok()).map(Duration::from_secs);
    let mut world = World::found(&[TENANT], SOURCES);
    let born = world.uids();
    let mut took: BTreeMap<Fault, Vec<Duration>> = BTreeMap::new();
    let seeds = schedule_seeds::seeds(COUNT, Fault::ALL.len() as u64);
    for seed in seeds {
        let mut dice = Dice::of(seed);
        let faults = faults_of(seed, &mut dice);
        let complaints = world.complaints();
        push_some(&mut world, &mut dice);
        for (fault, which) in &faults {
            world.begin(*fault, *which);
        }
        push_some(&mut world, &mut dice);
        let is_long = faults.iter().any(|(fault, _)| *fault == Fault::ControllerPaused);
        std::thread::sleep(if is_long { LONGER_THAN_LEASES } else { WHILE });
        push_some(&mut world, &mut dice);
        for (fault, which) in faults.iter().rev() {
            world.end(*fault, *which);
        }

        let start = Instant::now();
        world.await_verdicts();
        let lasted = start.elapsed();
        world.is_settled();
        let noticed = world.complaints().saturating_sub(complaints);
        testbed::say(&format!(
            "seed {seed}: {faults:?}: {noticed} complaints, back after {:.1} s",
            lasted.as_secs_f64()
        ));
        let told = schedule_seeds::how_to_repeat(COUNT, seed);
        let wrong = [world.wrong_verdicts(), end::wrong_objects(&world.hands, &world.sites)].concat();
        assert!(wrong.is_empty(), "{faults:?}: {}\n{told}", wrong.join("\n"));
        assert_eq!(world.uids(), born, "{faults:?}: a model was deleted on the way\n{told}");
        // A commit changes a graph once.
        let generations = world.hands.generations(TENANT);
        for site in &world.sites {
            let generation = generations[&format!("{}-stays", site.name)];
            let commits = i64::try_from(site.commits()).unwrap();
            assert!(generation <= commits, "{faults:?}: generation {generation} after {commits} commits\n{told}");
        }
        assert!(limit.is_none_or(|limit| lasted <= limit), "{faults:?}: not back after {lasted:?}\n{told}");
        world.sites.iter_mut().for_each(|site| site.judged = site.pushed.len());
        for (fault, _) in faults {
            took.entry(fault).or_default().push(lasted);
        }
    }
    world.is_at_rest();
    // Once more, all of them: nothing was said of a commit after it had ended.
    world.sites.iter_mut().for_each(|site| site.judged = 0);
    let wrong = world.wrong_verdicts();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (fault, mut took) in took {
        took.sort();
        let (median, longest) = (took[took.len() / 2].as_secs_f64(), took[took.len() - 1].as_secs_f64());
        testbed::say(&format!("{fault:?}: {} times, back after {median:.1} s, at most {longest:.1} s", took.len()));
    }
}

/// As many seeds as there are faults have each of them, and half of the time another one beside it.
fn faults_of(seed: u64, dice: &mut Dice) -> Vec<(Fault, usize)> {
    let count = Fault::ALL.len() as u64;
    let (first, other) = (Fault::ALL[usize::try_from(seed % count).unwrap()], Fault::ALL[dice.roll(Fault::ALL.len())]);
    let which = dice.roll(2);
    let is_one = dice.roll(2) == 0 || first.breaks_the_same_as(other);
    if is_one { vec![(first, which)] } else { vec![(first, which), (other, 1 - which)] }
}

/// Changes some of the sources.
fn push_some(world: &mut World, dice: &mut Dice) {
    for site in &mut world.sites {
        if dice.roll(2) == 0 {
            site.push(dice);
        }
    }
}
