//! Twenty sources of two tenants on a real API server and a real Gitea, while one thing after the other breaks: every
//! commit ends in one verdict, nothing is deleted that should stay, and the end is what the last commits say.
//!
//! `STATOR_CHAOS_SECONDS` says for how long things break, and `STATOR_CHAOS_SEED` in which order.

mod end;
mod operator;
mod site;

use crate::controller::process::Process;
use crate::gitea::{self, Gitea};
use crate::testbed::{self, ControlPlane, Programs, until};
use operator::Operator;
use site::{Hands, Site};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Sources of each tenant.
const SOURCES: usize = 10;
/// The honest tenant's namespace, and the hostile one's.
const TENANTS: [&str; 2] = ["chaos-alice", "chaos-mallory"];
/// How often something is pushed.
const BEAT: Duration = Duration::from_millis(700);

/// Chance that is the same for the same seed.
struct Dice(u64);

impl Dice {
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

/// What may break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A replica of the controller is killed, and another process takes its place.
    Controller(usize),
    /// The API server is killed and comes back.
    ApiServer,
    /// etcd answers nothing for some seconds.
    Etcd,
    /// The git host is killed and comes back.
    Gitea,
}

/// Everything that can break.
struct World {
    plane: ControlPlane,
    gitea: &'static Gitea,
    hands: Hands,
    controllers: Vec<Process>,
    killed: usize,
}

impl World {
    fn controller(hands: &Hands, number: usize) -> Process {
        let data = hands.folder.path().join(format!("data-{number}"));
        let mut command = hands.bench.command();
        command.current_dir(hands.folder.path()).arg("controller").arg("--kubeconfig").arg(&hands.kubeconfig);
        command.args(["--context", "admin", "--listen", "127.0.0.1:0", "--shards", "4"]);
        command.args(["--lease-namespace", "chaos-system", "--identity", &format!("replica-{number}")]);
        Process::start("a controller", command.arg("--data").arg(data))
    }

    /// The last lines that the controllers wrote of a source.
    fn said_of(&self, site: &Site) -> String {
        let said = self.controllers.iter().map(Process::said).collect::<Vec<_>>().join("\n");
        let lines: Vec<&str> = said.lines().filter(|line| line.contains(&site.name)).collect();
        testbed::tail(&lines.join("\n"), 20)
    }

    fn breaks(&mut self, fault: Fault) {
        match fault {
            Fault::Controller(which) => {
                self.killed += 1;
                self.controllers[which].kill();
                self.controllers[which] = Self::controller(&self.hands, 2 + self.killed);
            }
            Fault::ApiServer => {
                self.plane.restart("kube-apiserver");
            }
            Fault::Etcd => {
                self.plane.signal("etcd", "-STOP");
                std::thread::sleep(Duration::from_secs(4));
                self.plane.signal("etcd", "-CONT");
            }
            Fault::Gitea => {
                self.gitea.kill();
                std::thread::sleep(Duration::from_secs(2));
                self.gitea.restart();
            }
        }
    }
}

#[test]
fn whatever_breaks_every_commit_has_one_verdict_and_the_last_ones_hold() {
    let (Some(_), Some(_)) = (testbed::shared(), gitea::shared()) else { return };
    let seconds = std::env::var("STATOR_CHAOS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let plane = ControlPlane::start(&Programs::find().unwrap()).unwrap();
    let gitea: &'static Gitea = Box::leak(Box::new(Gitea::start().unwrap()));
    let hands = Hands::of(&plane);
    for namespace in TENANTS.into_iter().chain(["chaos-system"]) {
        hands.namespace(&plane, namespace);
    }
    let operator = Operator::start(&plane, &TENANTS);
    let mut sites: Vec<Site> = Vec::new();
    for tenant in TENANTS {
        hands.tenant(gitea, tenant);
        for number in 0..SOURCES {
            sites.push(Site::found(&hands, gitea, tenant, number));
        }
    }
    let controllers = (0..2).map(|number| World::controller(&hands, number)).collect();
    let mut world = World { plane, gitea, hands, controllers, killed: 0 };
    for site in &sites {
        until(&format!("{} is synced for the first time", site.name), || site.is_done(&world.hands));
    }
    let born: BTreeMap<String, String> = TENANTS.into_iter().flat_map(|tenant| world.hands.uids(tenant)).collect();

    let (mut dice, start) = (Dice::new(), Instant::now());
    let mut next = start + Duration::from_secs(5);
    while start.elapsed() < Duration::from_secs(seconds) {
        let which = dice.roll(sites.len());
        sites[which].push(&mut dice);
        if dice.roll(4) == 0 {
            sites[which].await_sight();
        }
        std::thread::sleep(BEAT);
        if Instant::now() > next {
            let fault = match dice.roll(5) {
                0 => Fault::ApiServer,
                1 => Fault::Etcd,
                2 => Fault::Gitea,
                which => Fault::Controller(which - 3),
            };
            testbed::say(&format!("chaos after {} s: {fault:?}", start.elapsed().as_secs()));
            world.breaks(fault);
            next = Instant::now() + Duration::from_secs(8);
        }
    }

    // Everything stands again; what was committed and not pushed while the host was away is pushed now.
    for site in &mut sites {
        site.push_what_is_left();
    }
    for site in &sites {
        until(&format!("{} is as its last commit says", site.name), || {
            site.is_done(&world.hands).map_err(|seen| || format!("{}\n{}", seen(), world.said_of(site)))
        });
    }
    for site in &sites {
        site.await_verdicts();
        site.is_settled(&world.hands);
    }
    let told: Vec<String> = sites.iter().flat_map(end::wrong_verdicts).collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
    let held = end::wrong_objects(&world.hands, &sites);
    assert!(held.is_empty(), "{}", held.join("\n"));
    // The models that nobody removed are the objects that they were: none was deleted and made again.
    let now: BTreeMap<String, String> = TENANTS.into_iter().flat_map(|tenant| world.hands.uids(tenant)).collect();
    for (model, uid) in &born {
        assert_eq!(now.get(model), Some(uid), "{model} was deleted on the way");
    }
    world.hands.tenants_are_apart(&TENANTS);
    let before = world.hands.versions(&TENANTS);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(world.hands.versions(&TENANTS), before, "something is written at rest");
    testbed::say(&format!(
        "chaos: {} commits, {} controllers killed",
        sites.iter().map(Site::commits).sum::<usize>(),
        world.killed
    ));
    drop(operator);
}
