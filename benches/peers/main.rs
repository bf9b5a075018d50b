//! stator beside other programs that sync repositories to clusters: the first sync, from the start of the processes to the
//! last graph, and a push, from Gitea's webhook until its graph is applied.
//!
//! `cargo bench --bench peers -- --flux-source PATH --flux-kustomize PATH --flux-definitions FOLDER` runs Flux's
//! source-controller and kustomize-controller, with the definitions of their kinds from `config/crd/bases` of both, and the
//! built stator, one after the other on the same control plane and Gitea. Flux gets the manifests that stator renders.
//! `--models N` and `--rounds N` are as for the bench `steady`, and so are `--json FILE` and the stand-in for Dynamo's
//! operator. A program that is not given is left out.

#[path = "../shared/bare_loop.rs"]
mod bare_loop;
#[path = "../shared/counting.rs"]
mod counting;
#[path = "../shared/counts.rs"]
mod counts;
mod flux;
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

use bare_loop::{RenderedRepository, bare_loop};
use flux::{Flux, FluxPrograms};
use process::{ControllerProcess, ControllerRun, Program};
use report::{Flags, RatioUnit, Report};
use repository::{HostedRepository, ModelRepository, all_names, name};
use scene::Scene;
use serde_json::{Value, json};
use std::error::Error;
use std::time::{Duration, Instant};
use testbed::{ControlPlane, Programs};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The namespaces of the models.
const OF_STATOR: &str = "by-stator";
const OF_FLUX: &str = "by-flux";
const LEASES: &str = "stator-system";

fn main() -> Fallible<()> {
    let Some(flags) = Flags::of_bench() else { return Ok(()) };
    let plane = ControlPlane::start(&Programs::find()?)?;
    let gitea = gitea::Gitea::start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(&plane, &gitea, &flags))
}

async fn run(plane: &ControlPlane, gitea: &gitea::Gitea, flags: &Flags) -> Fallible<()> {
    let (models, rounds) = (flags.number("--models", 1000)?, flags.number("--rounds", 20)?);
    let mut report = Report::new("peers", json!({"models": models, "rounds": rounds}));
    let scene = Scene::set(plane, gitea).await?;
    let repository = ModelRepository::new(gitea, "models", OF_STATOR, models)?;
    let rendered = RenderedRepository::of(repository.hosted.path())?;
    scene.operated_namespace("bare").await?;
    let bare = bare_loop(&scene.client, rendered.objects("bare")?).await?;
    scene.graphs.operator_rests().await?;
    report.time("bare loop of the same graphs", bare, "");

    let mut contender = Contender { scene: &scene, models, rounds, bare, report: &mut report };
    contender.stator(&repository).await?;
    let given = (flags.text("--flux-source"), flags.text("--flux-kustomize"), flags.text("--flux-definitions"));
    match given {
        (Some(source), Some(kustomize), Some(definitions)) => {
            contender.flux(&rendered, &FluxPrograms { source, kustomize, definitions }).await?;
        }
        _ => testbed::say(
            "Flux is left out: give --flux-source and --flux-kustomize, its programs, and --flux-definitions, a folder \
             with the definitions of their kinds",
        ),
    }
    testbed::say("Argo CD is left out: this bench cannot run it yet");
    report.write(flags.text("--json"))
}

/// What each program is measured with.
struct Contender<'a> {
    scene: &'a Scene<'a>,
    models: usize,
    rounds: usize,
    bare: Duration,
    report: &'a mut Report,
}

impl Contender<'_> {
    async fn stator(&mut self, repository: &ModelRepository<'_>) -> Fallible<()> {
        self.scene.operated_namespace(OF_STATOR).await?;
        self.scene.plane.namespace(LEASES).await;
        self.scene.follow(repository).await?;
        let wait = self.scene.graphs.expect(OF_STATOR, &all_names(0..self.models), 1)?;
        let run = ControllerRun { program: Program::Built, leases: LEASES, sources: None, with_pages: false };
        let mut controller = ControllerProcess::start(self.scene.plane, &run)?;
        self.scene.hooks.lead_to(controller.address()?);
        self.first_sync("stator", wait.arrived().await?.last.saturating_duration_since(controller.started));
        self.scene.graphs.operator_rests().await?;
        let mut pushed = Vec::new();
        for round in 0..self.rounds {
            controller.settled().await?;
            let (number, replicas) = (round % self.models, 2 + i64::try_from(round)?);
            repository.commit_change(number..number + 1, replicas)?;
            pushed.push(self.push(&repository.hosted, OF_STATOR, number, replicas).await?);
        }
        let peak = controller.memory("VmHWM")?;
        self.tell("stator", &mut pushed, peak);
        self.scene.hooks.lead_nowhere();
        controller.end().await.map(drop)
    }

    async fn flux(&mut self, rendered: &RenderedRepository, programs: &FluxPrograms<'_>) -> Fallible<()> {
        self.scene.operated_namespace(OF_FLUX).await?;
        flux::install(self.scene, programs.definitions).await?;
        let gitea = self.scene.gitea;
        let repository = tokio::task::block_in_place(|| HostedRepository::empty(gitea, "manifests"))?;
        let objects = rendered.objects(OF_FLUX)?;
        let manifest = |number: usize, object: &Value| (format!("{}.yaml", name(number)), object.to_string());
        let files = objects.iter().enumerate().map(|(number, object)| manifest(number, object.value()));
        repository.commit(&files.collect::<Vec<_>>())?;
        repository.push_first();
        flux::follow(self.scene, &repository, OF_FLUX).await?;
        let wait = self.scene.graphs.expect(OF_FLUX, &all_names(0..self.models), 1)?;
        let mut flux = Flux::start(self.scene.plane, programs)?;
        let arrival = tokio::select! {
            arrival = wait.arrived() => arrival?,
            ended = flux.until_ended() => return ended,
        };
        self.first_sync("Flux", arrival.last.saturating_duration_since(flux.started));
        self.scene.graphs.operator_rests().await?;
        let mut pushed = Vec::new();
        for round in 0..self.rounds {
            // As long as stator is given to come to rest.
            tokio::time::sleep(Duration::from_secs(2)).await;
            let (number, replicas) = (round % self.models, 2 + i64::try_from(round)?);
            let mut object = objects.get(number).ok_or("no such object")?.value().clone();
            graphs::set_replicas(&mut object, replicas);
            repository.commit(&[manifest(number, &object)])?;
            pushed.push(self.push(&repository, OF_FLUX, number, replicas).await?);
        }
        let peak = flux.peak_mib()?;
        self.tell("Flux", &mut pushed, peak);
        Ok(())
    }

    /// Pushes what is committed; from Gitea's webhook until the graph is applied.
    async fn push(
        &self,
        repository: &HostedRepository<'_>,
        namespace: &str,
        number: usize,
        replicas: i64,
    ) -> Fallible<Duration> {
        let wait = self.scene.graphs.expect(namespace, &all_names(number..number + 1), replicas)?;
        let commit = repository.head()?;
        repository.push()?;
        let delivered: Instant = self.scene.hooks.delivered(&commit).await?;
        if namespace == OF_FLUX {
            flux::notify(self.scene, namespace).await?;
        }
        Ok(wait.arrived().await?.last.saturating_duration_since(delivered))
    }

    fn first_sync(&mut self, who: &str, took: Duration) {
        self.report.time(&format!("{who}: first sync, from the start to the last graph"), took, "");
        let times = took.as_secs_f64() / self.bare.as_secs_f64();
        self.report.ratio(&format!("{who}: the same, in bare loops"), times, RatioUnit::Times, "");
    }

    fn tell(&mut self, who: &str, pushed: &mut [Duration], peak: u64) {
        self.report.percentiles(&format!("{who}: push of one model, from the webhook"), pushed, "");
        self.report.row(&format!("{who}: peak memory"), (peak as f64, "MiB"), &format!("{peak} MiB"), "");
    }
}
