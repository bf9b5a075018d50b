//! What a controller does that has synced everything: rest, pushes, drift, and pushes beside sources that fail.

use super::bare_loop::{RenderedRepository, bare_loop};
use super::first_sync::beside_operator;
use super::graphs::replicas;
use super::process::{ControllerProcess, ControllerRun, Program};
use super::report::{RatioUnit, Report};
use super::repository::{ModelRepository, all_names, name};
use super::scene::{CONTEXT, Scene};
use super::{Fallible, LEASES, page_flags};
use serde_json::{Value, json};
use stator_cluster::cluster::{ApplyRequest, Cluster};
use stator_core::dynamo::kinds;
use stator_core::object::{Object, ObjectRef};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Sources that fail, beside the one that is measured.
const FAILING: usize = 20;
/// Models that drift one after the other, and how often such ones are taken.
const DRIFTING: usize = 10;
const DRIFT_BATCHES: usize = 5;
/// As many replicas as somebody sets by hand.
const FOREIGN_REPLICAS: i64 = 77;

/// A controller at rest, and who disturbs it.
pub(crate) struct Steady<'a> {
    pub(crate) scene: &'a Scene<'a>,
    pub(crate) repository: &'a ModelRepository<'a>,
    pub(crate) controller: ControllerProcess,
    pub(crate) models: usize,
    /// How often something was pushed: each push has other replicas.
    pub(crate) pushes: i64,
}

/// When what came of a push.
pub(crate) struct PushTimes {
    from_push: Duration,
    from_webhook: Duration,
    to_verdict: Duration,
}

impl Steady<'_> {
    /// What it costs when nothing happens.
    pub(crate) async fn rest(&mut self, rest: Duration, with_pages: bool, report: &mut Report) -> Fallible<()> {
        if with_pages {
            // The pages look once more half a minute after the last change.
            tokio::time::sleep(Duration::from_secs(75)).await;
        }
        let (before, cpu, start) = (self.scene.counts.now().await?, self.controller.cpu()?, Instant::now());
        tokio::time::sleep(rest).await;
        let share = 100.0 * (self.controller.cpu()? - cpu).as_secs_f64() / start.elapsed().as_secs_f64();
        let asked = self.scene.counts.now().await?.since(&before);
        let goal = if with_pages { "< 0.2 %" } else { "< 1 %" };
        report.row("processor time at rest, of a core", (share, "%"), &format!("{share:.2} %"), goal);
        let by_stator = asked.by_stator();
        report.row("requests at rest", (by_stator.total() as f64, "requests"), &by_stator.to_string(), "watches alone");
        let leases = asked.total() - by_stator.total();
        let each = leases as f64 * 60.0 / rest.as_secs_f64();
        report.row("leases renewed at rest", (each, "a minute"), &format!("{each:.0} a minute"), "");
        let memory = self.controller.memory("VmRSS")?;
        let goal = "≤ 80 MiB at 1,000, ≤ 250 MiB at 10,000";
        report.row("memory at rest", (memory as f64, "MiB"), &format!("{memory} MiB"), goal);
        Ok(())
    }

    /// Pushes of one model, and after each drift of the same.
    pub(crate) async fn push_and_drift(&mut self, rounds: usize, report: &mut Report) -> Fallible<()> {
        let (mut pushed, mut healed, mut asked) = (Vec::new(), Vec::new(), None);
        for round in 0..rounds {
            let number = round % self.models;
            let before = self.scene.counts.now().await?;
            pushed.push(self.push(number..number + 1).await?);
            self.controller.settled().await?;
            asked = Some(self.scene.counts.now().await?.since(&before).by_stator());
            healed.push(self.drift(number).await?);
            self.controller.settled().await?;
        }
        let times = |of: fn(&PushTimes) -> Duration| pushed.iter().map(of).collect::<Vec<_>>();
        let what = "push of one model, from Gitea's webhook until its graph is applied";
        report.percentiles(what, &mut times(|one| one.from_webhook), "p95 < 1 s");
        report.percentiles("the same from the start of `git push`", &mut times(|one| one.from_push), "");
        let what = "from the start of `git push` to the commit status `success`";
        report.percentiles(what, &mut times(|one| one.to_verdict), "");
        let what = "drift, from the foreign write until it is healed";
        report.percentiles(what, &mut healed, "p95 < 1 s");
        if let Some(asked) = asked {
            report.row(
                "requests for a push of one model",
                (asked.total() as f64, "requests"),
                &asked.to_string(),
                "no list",
            );
        }
        Ok(())
    }

    /// Pushes other replicas of these models, and waits until they are said to be healthy.
    pub(crate) async fn push(&mut self, numbers: Range<usize>) -> Fallible<PushTimes> {
        self.pushes += 1;
        let wanted = 100 + self.pushes;
        self.repository.commit_change(numbers.clone(), wanted)?;
        let wait = self.scene.graphs.expect(self.repository.namespace(), &all_names(numbers), wanted)?;
        let (commit, start) = (self.repository.hosted.head()?, Instant::now());
        self.repository.hosted.push()?;
        let delivered = self.scene.hooks.delivered(&commit).await?;
        let applied = wait.arrived().await?.last;
        let verdict = self.scene.hooks.success(&commit, CONTEXT).await?;
        Ok(PushTimes {
            from_push: applied.saturating_duration_since(start),
            from_webhook: applied.saturating_duration_since(delivered),
            to_verdict: verdict.saturating_duration_since(start),
        })
    }

    /// Somebody writes to a model, and it is healed. The same hand every time: drift that comes back at once is healed with
    /// growing pauses, but for a new commit.
    async fn drift(&self, number: usize) -> Fallible<Duration> {
        let reference = kinds::GRAPH.reference(self.repository.namespace(), &name(number));
        let graph = self.scene.kube.get(&reference).await?.ok_or("the graph is gone")?;
        let (wanted, one) = (replicas(&graph), all_names(number..number + 1));
        let foreign = self.scene.graphs.expect(self.repository.namespace(), &one, FOREIGN_REPLICAS)?;
        let request = ApplyRequest::new(scaled(&graph, FOREIGN_REPLICAS)?, "somebody");
        self.scene.kube.apply(&ApplyRequest { force: true, ..request }).await?;
        let answered = Instant::now();
        foreign.arrived().await?;
        let healed = self.scene.graphs.expect(self.repository.namespace(), &one, wanted)?.arrived().await?;
        Ok(healed.last.saturating_duration_since(answered))
    }

    /// Somebody writes to one model in each second, whatever is being healed then.
    pub(crate) async fn drift_of_many(&mut self, first: usize, report: &mut Report) -> Fallible<()> {
        let mut healed = Vec::new();
        for batch in 0..DRIFT_BATCHES {
            let first = first + batch * DRIFTING;
            for number in first.min(self.models)..(first + DRIFTING).min(self.models) {
                let start = Instant::now();
                healed.push(self.drift(number).await?);
                tokio::time::sleep(Duration::from_secs(1).saturating_sub(start.elapsed())).await;
            }
            self.controller.settled().await?;
        }
        report.percentiles(&format!("drift of {DRIFTING} models, one in each second"), &mut healed, "p95 < 1 s");
        Ok(())
    }

    /// Pushes of several models at once; the largest one beside a bare loop of as many.
    pub(crate) async fn push_many(&mut self, report: &mut Report) -> Fallible<()> {
        let models = self.models;
        for many in [10, 100].into_iter().filter(|many| *many <= models) {
            let pushed = self.push(0..many).await?;
            self.controller.settled().await?;
            report.time(&format!("push of {many} models, from Gitea's webhook"), pushed.from_webhook, "");
            report.time(&format!("push of {many} models, to the commit status `success`"), pushed.to_verdict, "");
            let bare = self.bare_loop_of(many).await?;
            report.time(&format!("bare loop of {many} changed graphs"), bare, "");
            let ratio = pushed.from_webhook.as_secs_f64() / bare.as_secs_f64();
            report.ratio(&format!("push of {many} models, in such bare loops"), ratio, RatioUnit::Times, "");
        }
        Ok(())
    }

    /// The same change as the last push, in the namespace of a bare loop.
    async fn bare_loop_of(&self, many: usize) -> Fallible<Duration> {
        let objects = RenderedRepository::of(self.repository.hosted.path())?.objects(&beside_operator("after"))?;
        let changed = objects.into_iter().take(many).collect();
        let took = bare_loop(&self.scene.client, changed).await?;
        self.scene.graphs.operator_rests().await?;
        Ok(took)
    }

    /// Pushes of one model beside sources that fail: of half of them the repository is broken, of the others it is nowhere.
    pub(crate) async fn push_beside_failing(&mut self, rounds: usize, report: &mut Report) -> Fallible<()> {
        const ELSEWHERE: &str = "failing";
        self.scene.plane.namespace(ELSEWHERE).await;
        self.scene.credentials(ELSEWHERE).await?;
        let gitea = self.scene.gitea;
        let broken = |number| ModelRepository::broken(gitea, number, ELSEWHERE);
        let broken = (0..FAILING / 2).map(broken).collect::<Fallible<Vec<_>>>()?;
        let nowhere = (0..FAILING - broken.len()).map(|number| format!("{}/team/nowhere-{number}.git", gitea.url()));
        let urls: Vec<String> = broken.iter().map(|one| one.hosted.host().url()).chain(nowhere).collect();
        for (number, url) in urls.iter().enumerate() {
            let spec = json!({
                "url": url, "ref": {"branch": "main"}, "interval": "1s", "secretRef": {"name": "git"},
            });
            self.scene.source(ELSEWHERE, &format!("failing-{number}"), spec).await?;
        }
        self.controller.until_sources_fail(FAILING).await?;
        let mut beside = Vec::new();
        for round in 0..rounds {
            let number = round % self.models;
            // It never rests now.
            beside.push(self.push(number..number + 1).await?.from_webhook);
        }
        let what = format!("push of one model beside {FAILING} sources that fail, from the webhook");
        report.percentiles(&what, &mut beside, "as without");
        Ok(())
    }

    /// The most memory that it held so far. Ends it, and starts it again on the same folder.
    pub(crate) async fn restart(self, with_pages: bool, report: &mut Report) -> Fallible<Self> {
        let memory = self.controller.memory("VmHWM")?;
        let goal = "≤ 150 MiB at 1,000, ≤ 500 MiB at 10,000";
        report.row("peak memory of a first sync", (memory as f64, "MiB"), &format!("{memory} MiB"), goal);
        // Nobody waits for a lease that was given up: what is left is the process, its repository and the cluster.
        let run =
            ControllerRun { program: Program::Built, leases: LEASES, sources: None, flags: page_flags(with_pages) };
        let data = self.controller.end().await?;
        let mut controller = ControllerProcess::start_on(data, self.scene.plane, &run)?;
        let goal = "≤ 1 s at 1,000, ≤ 5 s at 10,000";
        report.time("restart on a warm mirror, to the first decision", controller.first_decision()?, goal);
        self.scene.hooks.lead_to(controller.address()?);
        controller.settled().await?;
        let memory = controller.memory("VmRSS")?;
        report.row(
            "memory at rest after a restart",
            (memory as f64, "MiB"),
            &format!("{memory} MiB"),
            "≤ 80 MiB at 1,000",
        );
        Ok(Self { controller, ..self })
    }

    /// The most memory that it ever held. Ends it.
    pub(crate) async fn end(self, report: &mut Report) -> Fallible<()> {
        let memory = self.controller.memory("VmHWM")?;
        let goal = "≤ 150 MiB at 1,000, ≤ 500 MiB at 10,000";
        report.row("peak memory", (memory as f64, "MiB"), &format!("{memory} MiB"), goal);
        self.controller.end().await.map(drop)
    }
}

/// The worker's replicas, as somebody else would have them.
fn scaled(graph: &Object, replicas: i64) -> Fallible<Object> {
    let components = graph.spec().get("components").and_then(Value::as_array).into_iter().flatten();
    let workers: Vec<Value> = components
        .filter(|one| one["type"] == "worker" || one["name"] == "worker")
        .map(|one| json!({"name": one["name"], "replicas": replicas}))
        .collect();
    let ObjectRef { api_version, kind, namespace, name } = graph.reference();
    Ok(Object::from_value(json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace},
        "spec": {"components": workers},
    }))?)
}
