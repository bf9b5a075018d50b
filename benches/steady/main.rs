//! What a controller costs and how fast it is, as a user has it: the built program follows a source of the cluster, fetches
//! from Gitea, is told of pushes by Gitea's own webhooks, holds leases, and posts commit statuses.
//!
//! `cargo bench --bench steady` starts etcd, kube-apiserver, kube-controller-manager and Gitea as the tests do, and the built
//! program on an empty folder with a repository of 1,000 models (`-- --models N`), and prints the table that
//! `docs/performance.md` shows: the first sync beside bare loops of the same graphs, rest (`--rest SECONDS`), pushes and
//! drift (`--rounds N`), and pushes beside sources that fail. `--pages` serves pages as well, and `--json FILE` writes the rows.
//! `--check FILE` only counts requests, writes and allocations, and fails where there are a tenth more than in such a file.
//!
//! Dynamo's operator is played: it says of every graph that it is Ready, one after the other, in the namespace of the models
//! and in that of one of two bare loops. When graphs are applied is told by the operator's own watch, and when a status was
//! posted by a webhook of Gitea, as asking for either takes a good part of a small machine.

#[path = "../shared/bare_loop.rs"]
mod bare_loop;
mod counted;
#[path = "../shared/counting.rs"]
mod counting;
#[path = "../shared/counts.rs"]
mod counts;
#[path = "../shared/first_sync.rs"]
mod first_sync;
#[path = "../../tests/support/gitea/mod.rs"]
mod gitea;
#[path = "../shared/graphs.rs"]
mod graphs;
#[path = "../shared/hooks.rs"]
mod hooks;
#[path = "../shared/process.rs"]
mod process;
#[path = "../shared/processor_time.rs"]
mod processor_time;
mod reactions;
#[path = "../shared/report.rs"]
mod report;
#[path = "../shared/repository.rs"]
mod repository;
#[path = "../shared/scene.rs"]
mod scene;
#[path = "../../tests/support/testbed/mod.rs"]
mod testbed;

use bare_loop::RenderedRepository;
use first_sync::BareLoops;
use process::{ControllerRun, Program};
use reactions::Steady;
use report::{Flags, Report};
use repository::ModelRepository;
use scene::Scene;
use std::error::Error;
use std::time::Duration;
use testbed::{ControlPlane, Programs};

#[global_allocator]
static ALLOCATOR: counting::CountingAllocator = counting::CountingAllocator;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The namespace of the models, and of their source.
const NAMESPACE: &str = "steady";
/// The namespace of the controller's leases.
const LEASES: &str = "stator-system";

/// What has a controller serve pages, or not.
fn page_flags(with_pages: bool) -> &'static [&'static str] {
    if with_pages { &["--web"] } else { &[] }
}

fn main() -> Fallible<()> {
    if counting::run_if_asked()? {
        return Ok(());
    }
    let Some(flags) = Flags::of_bench() else { return Ok(()) };
    let plane = ControlPlane::start(&Programs::find()?)?;
    let gitea = gitea::Gitea::start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(&plane, &gitea, &flags))
}

async fn run(plane: &ControlPlane, gitea: &gitea::Gitea, flags: &Flags) -> Fallible<()> {
    let (models, rounds) = (flags.number("--models", 1000)?, flags.number("--rounds", 100)?);
    let (rest, with_pages) = (flags.number("--rest", 120)?, flags.is_given("--pages"));
    let parameters = serde_json::json!({"models": models, "rounds": rounds, "rest": rest, "pages": with_pages});
    let mut report = Report::new("steady", parameters);
    let scene = Scene::set(plane, gitea).await?;
    let check = flags.text("--check");
    if check.is_none() {
        let rest = Duration::from_secs(u64::try_from(rest)?);
        measure(&scene, models, (rounds, rest), with_pages, &mut report).await?;
    }
    counted::count(&scene, models, &mut report).await?;
    report.write(flags.text("--json"))?;
    match check {
        Some(file) => counted::compare(&report, file, models),
        None => Ok(()),
    }
}

async fn measure(
    scene: &Scene<'_>,
    models: usize,
    (rounds, rest): (usize, Duration),
    with_pages: bool,
    report: &mut Report,
) -> Fallible<()> {
    scene.operated_namespace(NAMESPACE).await?;
    scene.plane.namespace(LEASES).await;
    let repository = ModelRepository::new(scene.gitea, "models", NAMESPACE, models)?;
    scene.follow(&repository).await?;
    let rendered = RenderedRepository::of(repository.hosted.path())?;
    // Before and after, so that neither side has the better moment of the control plane.
    let mut bare = BareLoops::new();
    bare.run(scene, &rendered, "before").await?;
    let run = ControllerRun { program: Program::Built, leases: LEASES, sources: None, flags: page_flags(with_pages) };
    let (controller, first) = first_sync::first_sync(scene, &repository, models, &run).await?;
    bare.run(scene, &rendered, "after").await?;
    first.tell(&bare, models, report);

    let mut steady = Steady { scene, repository: &repository, controller, models, pushes: 0 };
    steady.rest(rest, with_pages, report).await?;
    let mut steady = steady.restart(with_pages, report).await?;
    steady.push_and_drift(rounds, report).await?;
    steady.drift_of_many(rounds, report).await?;
    steady.push_many(report).await?;
    steady.push_beside_failing(rounds.div_ceil(5), report).await?;
    steady.end(report).await
}
