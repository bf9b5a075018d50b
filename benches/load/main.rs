//! A controller in as much memory as the chart gives it, and everybody at once: signed deliveries beside unsigned ones, connections
//! that say nothing, readers of its pages, and pushes of which none may be lost.
//!
//! `cargo bench --bench load` prints a table, as in `docs/performance.md` (`-- --seconds N`, `--rate N` deliveries a second
//! of each kind, `--json FILE`), and fails where a goal is missed. It needs the right to make a cgroup.

mod crowd;
mod room;

#[path = "../shared/bare_loop.rs"]
mod bare_loop;
#[path = "../shared/counting.rs"]
mod counting;
#[path = "../shared/counts.rs"]
mod counts;
#[path = "../../tests/support/gitea/mod.rs"]
mod gitea;
#[path = "../shared/graphs.rs"]
mod graphs;
#[path = "../shared/hooks.rs"]
mod hooks;
#[path = "../shared/process.rs"]
mod process;
#[path = "../shared/report.rs"]
mod report;
#[path = "../shared/repository.rs"]
mod repository;
#[path = "../shared/scene.rs"]
mod scene;
#[path = "../../tests/support/testbed/mod.rs"]
mod testbed;

use crowd::{Crowd, Deliveries};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use process::{ControllerProcess, ControllerRun, Program};
use report::{Flags, Report};
use repository::{ModelRepository, all_names};
use room::Room;
use scene::Scene;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use testbed::{ControlPlane, Programs};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Sources that the deliveries are for, and sources that hear of real pushes alone.
const LOADED: usize = 20;
const PUSHED: usize = 5;
/// Connections that say nothing, and readers that follow the changes, as so many users.
const IDLE: usize = 500;
const READERS: usize = 100;
const USERS: usize = 7;
/// How often something is pushed.
const PUSH_INTERVAL: Duration = Duration::from_secs(4);
const LEASES: &str = "stator-system";
/// How long a signed delivery may take, for 99 of 100.
const DELIVERY_GOAL: Duration = Duration::from_millis(50);
/// How much more memory the last fifth of the time may take than the second one.
const GROWTH_GOAL: f64 = 1.1;

fn main() -> Fallible<()> {
    let Some(flags) = Flags::of_bench() else { return Ok(()) };
    let (seconds, rate) = (flags.number("--seconds", 300)?, flags.number("--rate", 200)?);
    let servers = || -> Fallible<_> {
        // Elsewhere they have machines of their own.
        testbed::give_way()?;
        Ok((ControlPlane::start(&Programs::find()?)?, gitea::Gitea::start()?))
    };
    let started = std::thread::scope(|scope| scope.spawn(servers).join());
    let (plane, gitea) = started.map_err(|_| "the servers could not be started")??;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut report = Report::new("load", serde_json::json!({"seconds": seconds, "rate": rate}));
    let missed = runtime.block_on(measure(&plane, &gitea, seconds, rate, &mut report))?;
    report.write(flags.text("--json"))?;
    if missed.is_empty() { Ok(()) } else { Err(format!("goals that were missed: {}", missed.join("; ")).into()) }
}

async fn measure(
    plane: &ControlPlane,
    gitea: &gitea::Gitea,
    seconds: usize,
    rate: usize,
    report: &mut Report,
) -> Fallible<Vec<&'static str>> {
    let scene = Scene::set(plane, gitea).await?;
    plane.namespace(LEASES).await;
    let mut repositories = Vec::new();
    for number in 0..LOADED + PUSHED {
        let namespace = format!("load-{number:02}");
        scene.operated_namespace(&namespace).await?;
        let repository = ModelRepository::new(gitea, &namespace, &namespace, 1)?;
        scene.follow(&repository).await?;
        repositories.push(repository);
    }
    let first: Vec<_> = repositories
        .iter()
        .map(|one| scene.graphs.expect(one.namespace(), &all_names(0..1), 1))
        .collect::<Fallible<_>>()?;
    let users = users(plane, &repositories).await?;

    let flags = ["--web-listen", "127.0.0.1:0"];
    let run = ControllerRun { program: Program::Built, leases: LEASES, sources: None, flags: &flags };
    let mut controller = ControllerProcess::start(plane, &run)?;
    let room = Room::of_the_chart()?;
    room.admit(controller.id())?;
    let webhooks = controller.address()?.to_owned();
    let pages = controller.pages()?;
    for arrival in first {
        arrival.arrived().await?;
    }
    controller.settled().await?;

    scene.hooks.lead_to(&webhooks);
    let crowd = Crowd::start(&webhooks, &pages, &users)?;
    let load = Duration::from_secs(u64::try_from(seconds)?);
    let paths = (0..LOADED).map(|number| format!("/webhooks/gitea/load-{number:02}/models")).collect::<Vec<_>>();
    let paths = Arc::new(paths);
    // Each in a task of its own: a push keeps the thread that it is made on.
    let signed = tokio::spawn(Deliveries::signed(&webhooks, Arc::clone(&paths)).send(rate, load));
    let unsigned = tokio::spawn(Deliveries::unsigned(&webhooks, paths).send(rate, load));
    let pushes = push(&scene, &repositories[LOADED..], load);
    let memory = sample_memory(&controller, load);
    let (signed, unsigned, pushes, memory) = tokio::join!(signed, unsigned, pushes, memory);
    let (mut signed, unsigned, mut pushes, memory) = (signed??, unsigned??, pushes?, memory?);
    let heard = crowd.end().await;

    let mut missed = Vec::new();
    let mut goal = |is_kept: bool, what: &'static str| {
        if !is_kept {
            missed.push(what);
        }
    };
    let p99 = signed.percentile(99);
    let text = format!("{}, p50 {}, p99 {}", signed.times.len(), millis(signed.percentile(50)), millis(p99));
    report.row("signed deliveries, and how long each took", (p99.as_secs_f64(), "s"), &text, "p99 < 50 ms");
    goal(p99 < DELIVERY_GOAL, "99 of 100 signed deliveries within 50 ms");
    let lost = signed.times.len() - signed.accepted;
    report.row("of these not accepted", (lost as f64, "deliveries"), &lost.to_string(), "0");
    goal(lost == 0 && signed.times.len() == rate * seconds, "no signed delivery refused");
    let refused = format!("{} of {}", unsigned.refused, unsigned.times.len());
    report.row("unsigned deliveries that were refused", (unsigned.refused as f64, "deliveries"), &refused, "all");
    goal(unsigned.accepted == 0, "no unsigned delivery accepted");
    pushes.sort();
    let text = format!("{}, p50 {}, most {}", pushes.len(), seconds_of(&pushes, 50), seconds_of(&pushes, 100));
    let most = pushes.last().copied().unwrap_or_default();
    report.row(
        "real pushes beside them, each from the webhook until it was applied",
        (most.as_secs_f64(), "s"),
        &text,
        "none lost",
    );
    let text = format!("{} of {IDLE} still there, or let in again", heard.idle);
    report.row("connections that say nothing", (heard.idle as f64, "connections"), &text, "");
    let text = format!("{} and more, {} signed in again", heard.least_events, heard.reconnects);
    report.row(
        &format!("events that each of {READERS} readers heard"),
        (heard.least_events as f64, "events"),
        &text,
        "some",
    );
    goal(heard.least_events > 0, "every reader hears of changes");
    let (early, late) = (middle(&memory, 1), middle(&memory, 4));
    let growth = late as f64 / early as f64;
    let fifths: Vec<String> = (0..5).map(|fifth| middle(&memory, fifth).to_string()).collect();
    let text = format!("{} MiB in each fifth of the time", fifths.join(", "));
    report.row("memory", (growth, "times"), &text, "at most 1.1 times");
    goal(growth <= GROWTH_GOAL, "memory stays as it is");
    let (peak, kills) = (room.peak()? >> 20, room.kills()?);
    let text = format!("{peak} of {} MiB, {kills} kills", room.bytes() >> 20);
    report.row("most memory that the cgroup had", (peak as f64, "MiB"), &text, "0 kills");
    goal(kills == 0 && controller.memory("VmRSS").is_ok(), "nobody is killed");
    Ok(missed)
}

/// Tokens of users who may read the models and sources of each namespace, which the API server is asked about one by one.
async fn users(plane: &ControlPlane, repositories: &[ModelRepository<'_>]) -> Fallible<Vec<String>> {
    const READERS: &str = "load-readers";
    let (admin, post) = (plane.admin().await, PostParams::default());
    plane.namespace(READERS).await;
    let metadata = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let rule = PolicyRule {
        verbs: vec!["list".to_owned(), "get".to_owned()],
        api_groups: Some(vec!["stator.dev".to_owned()]),
        resources: Some(vec!["models".to_owned(), "modelsources".to_owned()]),
        ..PolicyRule::default()
    };
    let role = ClusterRole { metadata: metadata(READERS), rules: Some(vec![rule]), ..ClusterRole::default() };
    Api::all(admin.clone()).create(&post, &role).await?;
    let api_group = "rbac.authorization.k8s.io".to_owned();
    let group = format!("system:serviceaccounts:{READERS}");
    let binding = RoleBinding {
        metadata: metadata(READERS),
        role_ref: RoleRef { api_group: api_group.clone(), kind: "ClusterRole".to_owned(), name: READERS.to_owned() },
        subjects: Some(vec![Subject {
            api_group: Some(api_group),
            kind: "Group".to_owned(),
            name: group,
            ..Subject::default()
        }]),
    };
    for repository in repositories {
        Api::namespaced(admin.clone(), repository.namespace()).create(&post, &binding).await?;
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(admin, READERS);
    let mut tokens = Vec::new();
    for number in 0..USERS {
        let name = format!("reader-{number}");
        accounts.create(&post, &ServiceAccount { metadata: metadata(&name), ..ServiceAccount::default() }).await?;
        let spec = TokenRequestSpec {
            audiences: vec!["stator".to_owned()],
            expiration_seconds: Some(7200),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let answer = accounts.create_token_request(&name, &post, &request).await?;
        tokens.push(answer.status.ok_or("no token")?.token);
    }
    Ok(tokens)
}

/// Pushes to one source after the other, and tells how long each took from Gitea's webhook to the graph.
async fn push(scene: &Scene<'_>, repositories: &[ModelRepository<'_>], load: Duration) -> Fallible<Vec<Duration>> {
    let (start, mut times) = (Instant::now(), Vec::new());
    for (replicas, repository) in (2_i64..).zip(repositories.iter().cycle()) {
        if start.elapsed() + PUSH_INTERVAL > load {
            break;
        }
        repository.commit_change(0..1, replicas)?;
        let expected = scene.graphs.expect(repository.namespace(), &all_names(0..1), replicas)?;
        let pushed = Instant::now();
        repository.hosted.push()?;
        let applied = expected.arrived().await?.last;
        times.push(applied.duration_since(scene.hooks.delivered(&repository.hosted.head()?).await?));
        tokio::time::sleep(PUSH_INTERVAL.saturating_sub(pushed.elapsed())).await;
    }
    Ok(times)
}

/// Resident memory in MiB, once a second.
async fn sample_memory(controller: &ControllerProcess, load: Duration) -> Fallible<Vec<u64>> {
    let (start, mut samples) = (Instant::now(), Vec::new());
    while start.elapsed() < load {
        samples.push(controller.memory("VmRSS")?);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(samples)
}

/// The middle of a fifth of samples.
fn middle(samples: &[u64], fifth: usize) -> u64 {
    let width = samples.len() / 5;
    let mut part: Vec<u64> = samples.iter().skip(fifth * width).take(width.max(1)).copied().collect();
    part.sort_unstable();
    part.get(part.len() / 2).copied().unwrap_or_default()
}

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

fn seconds_of(sorted: &[Duration], percent: usize) -> String {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    format!("{:.2} s", sorted.get(at).copied().unwrap_or_default().as_secs_f64())
}
