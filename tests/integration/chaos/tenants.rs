//! Two tenants on a real API server, one of them hostile by every means: the other's pushes are applied about as soon as without
//! her, she sees nothing of theirs, and nothing that a policy forbids is ever written for her.
//!
//! `STATOR_TENANTS_SECONDS` says for how long she attacks (20; a nightly run takes ten minutes), and `STATOR_TENANTS_FACTOR` how
//! many times as long a push may take meanwhile, where that counts: on a machine that does nothing else.

use super::Dice;
use super::mallory::Mallory;
use super::site::{Hands, Site, own};
use super::world::World;
use crate::controller::process::ask;
use crate::gitea;
use crate::testbed::{self, until};
use aws_lc_rs::hmac;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The honest tenant's namespace, and the hostile one's.
pub const ALICE: &str = "chaos-alice";
pub const MALLORY: &str = "chaos-mallory";
/// Stands in every model of Alice's, and nowhere else.
pub const WORD: &str = "word-of-chaos-alice";
/// What Alice's webhooks are signed with.
pub const HOOK: &str = "hook-of-chaos-alice";
/// How often Alice pushes.
const PAUSE: Duration = Duration::from_secs(2);

#[test]
fn a_hostile_tenant_neither_delays_nor_sees_another_and_passes_no_policy() {
    let (Some(_), Some(_)) = (testbed::shared(), gitea::shared()) else { return };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<f64>().ok());
    let seconds = Duration::from_secs_f64(number("STATOR_TENANTS_SECONDS").unwrap_or(20.0));
    let mut world = World::found_with(&[ALICE, MALLORY], 2, 1, &["--web-listen", "127.0.0.1:0"]);
    declare_policies(&world.hands);
    let process = &world.controllers[0].process;
    let webhooks = process.address().to_owned();
    let said = process.said();
    let pages = said.split("Open http://").nth(1).and_then(|rest| rest.split('/').next()).expect("pages").to_owned();
    world.hands.secret(ALICE, "hook", &json!({"token": HOOK}));
    for site in world.sites.iter().filter(|site| site.namespace == ALICE) {
        site.configure(&world.hands, &json!({"interval": "24h", "webhook": {"secretRef": {"name": "hook"}}}));
    }
    let mut dice = Dice::new();
    let alone = (seconds / 4).min(Duration::from_secs(60));
    let alone = push_and_wait(&mut world.sites, &world.hands, &webhooks, &mut dice, alone);

    let mallory = Mallory::enter(&world.hands, world.plane, world.gitea, &webhooks, &pages);
    let ended = AtomicBool::new(false);
    let beside = std::thread::scope(|scope| {
        let attacks = mallory.attack(scope, &ended);
        let beside = push_and_wait(&mut world.sites, &world.hands, &webhooks, &mut dice, seconds);
        ended.store(true, Ordering::Relaxed);
        for (what, attack) in attacks {
            let count = attack.join().unwrap_or_else(|_| panic!("{what} failed"));
            testbed::say(&format!("tenants: {what}: {count}"));
            assert!(count > 0, "{what} never happened");
        }
        beside
    });

    let (alone, beside) = (Times::of(alone), Times::of(beside));
    testbed::say(&format!("tenants: alone {alone:?}, beside the attacks {beside:?}"));
    let factor = beside.median.as_secs_f64() / alone.median.as_secs_f64();
    assert!(number("STATOR_TENANTS_FACTOR").is_none_or(|most| factor <= most), "{factor:.2} times as long");
    let seen = mallory.sees();
    assert!(seen.is_empty(), "Mallory sees what is Alice's: {seen:#?}");
    let passed = mallory.has();
    assert!(passed.is_empty(), "a policy was passed: {passed:#?}");
    // Alice's are as her last commits say.
    for site in world.sites.iter().filter(|site| site.namespace == ALICE) {
        world.await_end_of(site);
        site.is_settled(&world.hands);
    }
    world.hands.tenants_are_apart(&[ALICE]);
    let controller = &mut world.controllers[0].process;
    assert!(!controller.said().contains("panicked"), "{}", testbed::tail(&controller.said(), 40));
    assert!(controller.end().success(), "{}", testbed::tail(&controller.said(), 40));
}

/// How long pushes took.
#[derive(Debug)]
#[expect(dead_code, reason = "printed")]
struct Times {
    pushes: usize,
    median: Duration,
    longest: Duration,
}

impl Times {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self { pushes: times.len(), median: times[times.len() / 2], longest: times[times.len() - 1] }
    }
}

/// Alice pushes for so long, and waits each time until it is applied. Her git host delivers the push at once: how long Gitea
/// takes for that is not what is measured.
fn push_and_wait(sites: &mut [Site], hands: &Hands, webhooks: &str, dice: &mut Dice, lasts: Duration) -> Vec<Duration> {
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < lasts || times.len() < 3 {
        let site = &mut sites[times.len() % 2];
        assert_eq!(site.namespace, ALICE);
        site.push(dice);
        let pushed = Instant::now();
        deliver(webhooks, site);
        until("a push of Alice's is applied", || site.is_applied(hands));
        times.push(pushed.elapsed());
        std::thread::sleep(PAUSE.saturating_sub(pushed.elapsed()));
    }
    times
}

/// Tells of a push as Gitea does.
fn deliver(webhooks: &str, site: &Site) {
    let body = r#"{"ref":"refs/heads/main"}"#;
    let key = hmac::Key::new(hmac::HMAC_SHA256, HOOK.as_bytes());
    let head = format!(
        "POST /webhooks/gitea/{ALICE}/{} HTTP/1.1\r\nContent-Type: application/json\r\nX-Gitea-Event: push\r\nX-Gitea-Delivery: {}\r\nX-Gitea-Signature: {}",
        site.name,
        uuid::Uuid::new_v4(),
        hex::encode(hmac::sign(&key, body.as_bytes()))
    );
    assert_eq!(ask(webhooks, &head, body.as_bytes()).0, 202, "Alice's own delivery");
}

/// What administrators allow both, and the same by the API server itself for what is written beside stator.
fn declare_policies(hands: &Hands) {
    let policy = |name: &str, spec: Value| json!({"apiVersion": "stator.dev/v1alpha1", "kind": "FleetPolicy", "metadata": {"name": name}, "spec": spec});
    let both = policy(
        "both",
        json!({
            "pods": {"level": "baseline"}, "images": {"registries": ["nvcr.io/nvidia"]}, "serviceAccounts": [],
            "secrets": [], "quotas": {"models": 40, "files": 20_000},
        }),
    );
    let mallorys = policy(
        "mallory",
        json!({"appliesTo": {"namespaces": [MALLORY]}, "destinations": [MALLORY], "quotas": {"sources": 6}}),
    );
    let apply = |resource: &ApiResource, object: &Value| {
        let api: Api<DynamicObject> = Api::all_with(hands.client(), resource);
        let name = object["metadata"]["name"].as_str().unwrap();
        hands.block_on(api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(object))).unwrap();
    };
    for object in [&both, &mallorys] {
        apply(&own("FleetPolicy", "fleetpolicies"), object);
    }
    let text = serde_json::to_vec(&both).unwrap();
    let read = stator_model::fleet_policy::read_policies("both.yaml", &text).unwrap();
    for object in stator_model::fleet_policy::export::admission_policies(&read[0]) {
        let object = serde_json::to_value(&object).unwrap();
        let kind = object["kind"].as_str().unwrap().to_owned();
        let resource = ApiResource {
            group: "admissionregistration.k8s.io".into(),
            version: "v1".into(),
            api_version: "admissionregistration.k8s.io/v1".into(),
            plural: if kind.ends_with("Binding") {
                "validatingadmissionpolicybindings"
            } else {
                "validatingadmissionpolicies"
            }
            .into(),
            kind,
        };
        apply(&resource, &object);
    }
}
