//! stator beside other programs that sync repositories to clusters: the first sync, from the start of the processes to the
//! last graph, and a push, from Gitea's webhook until its graph is applied.
//!
//! `cargo bench --bench peers -- --flux-source PATH --flux-kustomize PATH --flux-definitions FOLDER --argo PATH --argo-redis
//! PATH --argo-definitions FOLDER` runs the built stator, Flux's source-controller and kustomize-controller, with the
//! definitions of their kinds from `config/crd/bases` of both, and Argo CD's repo-server and application-controller, which
//! are both the program `argocd`, with a redis-server and the definitions from its `manifests/crds`, one after the other on
//! the same control plane and Gitea. The others get the manifests that stator renders. `--models N` and `--rounds N` are as
//! for the bench `steady`, and so are `--json FILE` and the stand-in for Dynamo's operator. A program that is not given is
//! left out.

mod argo;
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
mod peer;
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

use argo::Argo;
use bare_loop::{RenderedRepository, bare_loop, objects_of};
use flux::Flux;
use kube::api::{DeleteParams, ListParams};
use peer::{ManifestRepository, Peer};
use process::{ControllerProcess, ControllerRun, Program};
use report::{Flags, RatioUnit, Report};
use repository::{HostedRepository, ModelRepository, all_names};
use scene::Scene;
use serde_json::json;
use stator_core::dynamo::kinds;
use std::error::Error;
use std::time::Duration;
use testbed::{ControlPlane, Programs};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The namespace of the models of stator.
const OF_STATOR: &str = "by-stator";
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

    let mut contest = Contest { scene: &scene, models, rounds, bare, report: &mut report };
    contest.clear("bare").await?;
    contest.stator(&repository).await?;
    contest.peer(&rendered, Flux::given(flags)).await?;
    contest.peer(&rendered, Argo::given(flags)).await?;
    report.write(flags.text("--json"))
}

/// What each program is measured with.
struct Contest<'a> {
    scene: &'a Scene<'a>,
    models: usize,
    rounds: usize,
    bare: Duration,
    report: &'a mut Report,
}

impl Contest<'_> {
    async fn stator(&mut self, repository: &ModelRepository<'_>) -> Fallible<()> {
        self.scene.operated_namespace(OF_STATOR).await?;
        self.scene.plane.namespace(LEASES).await;
        self.scene.follow(repository).await?;
        let wait = self.scene.graphs.expect(OF_STATOR, &all_names(0..self.models), 1)?;
        let run = ControllerRun { program: Program::Built, leases: LEASES, sources: None, flags: &[] };
        let mut controller = ControllerProcess::start(self.scene.plane, &run)?;
        self.scene.hooks.lead_to(controller.address()?);
        self.first_sync("stator", wait.arrived().await?.last.saturating_duration_since(controller.started));
        self.scene.graphs.operator_rests().await?;
        let commit = async |number: usize, replicas| {
            controller.settled().await?;
            repository.commit_change(number..number + 1, replicas)
        };
        let pushed = self.pushes(&repository.hosted, OF_STATOR, commit, async || Ok(())).await?;
        self.tell("stator", pushed, controller.memory("VmHWM")?);
        self.scene.hooks.lead_nowhere();
        controller.end().await?;
        self.clear(OF_STATOR).await
    }

    /// Measures a program, where one is given.
    async fn peer<'p, P: Peer<'p>>(&mut self, rendered: &RenderedRepository, given: Option<P>) -> Fallible<()> {
        let Some(program) = given else {
            testbed::say(&format!("{} is left out: give {}", P::NAME, P::FLAGS));
            return Ok(());
        };
        self.scene.operated_namespace(P::NAMESPACE).await?;
        program.install(self.scene).await?;
        let repository = ManifestRepository::new(self.scene, rendered, P::NAMESPACE)?;
        P::follow(self.scene, &repository.hosted).await?;
        self.scene.have_delivered(&repository.hosted);
        let wait = self.scene.graphs.expect(P::NAMESPACE, &all_names(0..self.models), 1)?;
        let mut processes = program.start(self.scene).await?;
        let (started, ids) = (processes.started, processes.ids());
        let measured = async {
            self.first_sync(P::NAME, wait.arrived().await?.last.saturating_duration_since(started));
            self.scene.graphs.operator_rests().await?;
            let commit = async |number, replicas| {
                process::until_rest(&ids).await?;
                repository.commit_change(number, replicas)
            };
            self.pushes(&repository.hosted, P::NAMESPACE, commit, async || P::notify(self.scene).await).await
        };
        let pushed = tokio::select! {
            pushed = measured => pushed?,
            ended = processes.until_ended() => return ended,
        };
        self.tell(P::NAME, pushed, processes.peak_mib()?);
        drop(processes);
        self.clear(P::NAMESPACE).await
    }

    /// Pushes of one model each: from Gitea's webhook until the graph is applied.
    async fn pushes(
        &self,
        repository: &HostedRepository<'_>,
        namespace: &str,
        mut commit: impl AsyncFnMut(usize, i64) -> Fallible<()>,
        notify: impl AsyncFn() -> Fallible<()>,
    ) -> Fallible<Vec<Duration>> {
        let mut pushed = Vec::new();
        for round in 0..self.rounds {
            let (number, replicas) = (round % self.models, 2 + i64::try_from(round)?);
            commit(number, replicas).await?;
            let wait = self.scene.graphs.expect(namespace, &all_names(number..number + 1), replicas)?;
            let head = repository.head()?;
            repository.push()?;
            let delivered = self.scene.hooks.delivered(&head).await?;
            notify().await?;
            pushed.push(wait.arrived().await?.last.saturating_duration_since(delivered));
        }
        Ok(pushed)
    }

    /// Deletes the graphs of who is through, so that they are no burden to the next one.
    async fn clear(&self, namespace: &str) -> Fallible<()> {
        let graphs = objects_of(&self.scene.client, &kinds::GRAPH, namespace);
        graphs.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        Ok(())
    }

    fn first_sync(&mut self, who: &str, took: Duration) {
        self.report.time(&format!("{who}: first sync, from the start to the last graph"), took, "");
        let times = took.as_secs_f64() / self.bare.as_secs_f64();
        self.report.ratio(&format!("{who}: the same, in bare loops"), times, RatioUnit::Times, "");
    }

    fn tell(&mut self, who: &str, mut pushed: Vec<Duration>, peak: u64) {
        self.report.percentiles(&format!("{who}: push of one model, from the webhook"), &mut pushed, "");
        self.report.row(&format!("{who}: peak memory"), (peak as f64, "MiB"), &format!("{peak} MiB"), "");
    }
}
