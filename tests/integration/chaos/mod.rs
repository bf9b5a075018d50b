//! Twenty sources of two tenants on a real API server and a real Gitea, while one thing after the other breaks: every
//! commit ends in one verdict, nothing is deleted that should stay, and the end is what the last commits say.
//!
//! `STATOR_CHAOS_SECONDS` says for how long things break, and `STATOR_CHAOS_SEED` in which order.

mod clock;
mod controller;
mod end;
mod faults;
mod gate;
mod mallory;
mod operator;
mod site;
mod tenants;
mod world;

use crate::gitea;
use crate::testbed;
use site::Site;
use std::time::{Duration, Instant};
use world::{Fault, World};

/// Sources of each tenant.
const SOURCES: usize = 10;
/// The honest tenant's namespace, and the hostile one's.
const TENANTS: [&str; 2] = ["chaos-alice", "chaos-mallory"];
/// What breaks around them.
const FAULTS: [Fault; 5] = [
    Fault::ApiServerRestarted,
    Fault::EtcdPaused,
    Fault::ForgeRestarted,
    Fault::ControllerKilled,
    Fault::ControllerKilled,
];
/// How often something is pushed.
const BEAT: Duration = Duration::from_millis(700);

/// Chance that is the same for the same seed.
struct Dice(u64);

impl Dice {
    fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(2) | 1)
    }

    /// From the environment, or a new one, which is said.
    fn new() -> Self {
        let given = std::env::var("STATOR_CHAOS_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| uuid::Uuid::new_v4().as_u128() as u64 | 1);
        testbed::say(&format!("chaos with STATOR_CHAOS_SEED={seed}"));
        Self(seed)
    }

    /// A number below `sides`.
    fn roll(&mut self, sides: usize) -> usize {
        // Knuth's multiplier; the upper bits are the better ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

#[test]
fn whatever_breaks_every_commit_has_one_verdict_and_the_last_ones_hold() {
    let (Some(_), Some(_)) = (testbed::shared(), gitea::shared()) else { return };
    let seconds = std::env::var("STATOR_CHAOS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let mut world = World::found(&TENANTS, SOURCES);
    let born = world.uids();

    let (mut dice, start) = (Dice::new(), Instant::now());
    let mut next = start + Duration::from_secs(5);
    while start.elapsed() < Duration::from_secs(seconds) {
        let which = dice.roll(world.sites.len());
        world.sites[which].push(&mut dice);
        if dice.roll(4) == 0 {
            world.sites[which].await_sight();
        }
        std::thread::sleep(BEAT);
        if Instant::now() > next {
            let fault = FAULTS[dice.roll(FAULTS.len())];
            testbed::say(&format!("chaos after {} s: {fault:?}", start.elapsed().as_secs()));
            let which = dice.roll(2);
            world.begin(fault, which);
            std::thread::sleep(Duration::from_secs(2));
            world.end(fault, which);
            next = Instant::now() + Duration::from_secs(6);
        }
    }

    world.await_verdicts();
    world.is_settled();
    let told = world.wrong_verdicts();
    assert!(told.is_empty(), "{}", told.join("\n"));
    let held = end::wrong_objects(&world.hands, &world.sites);
    assert!(held.is_empty(), "{}", held.join("\n"));
    // The models that nobody removed are the objects that they were: none was deleted and made again.
    assert_eq!(world.uids(), born, "a model was deleted on the way");
    world.hands.tenants_are_apart(&TENANTS);
    world.is_at_rest();
    let commits: usize = world.sites.iter().map(Site::commits).sum();
    testbed::say(&format!("chaos: {commits} commits, {} controllers killed", world.killed));
}
