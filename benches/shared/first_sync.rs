//! A controller on an empty folder: from the start of the process to the last graph and to the verdict, beside bare loops.
#![allow(dead_code, reason = "shared by benches, of which none uses all")]

use super::Fallible;
use super::bare_loop::{RenderedRepository, bare_loop};
use super::counts::RequestCounts;
use super::process::{ControllerProcess, ControllerRun};
use super::processor_time::ProcessorTimes;
use super::report::{RatioUnit, Report};
use super::repository::{ModelRepository, all_names};
use super::scene::{CONTEXT, Scene};
use std::time::Duration;

/// What bare loops took: with nobody else at work, and with the operator that a sync has beside it.
pub(crate) struct BareLoops {
    alone: Vec<Duration>,
    beside_operator: Vec<Duration>,
}

impl BareLoops {
    pub(crate) fn new() -> Self {
        Self { alone: Vec::new(), beside_operator: Vec::new() }
    }

    /// Runs one of each, in namespaces of their own.
    pub(crate) async fn run(&mut self, scene: &Scene<'_>, rendered: &RenderedRepository, turn: &str) -> Fallible<()> {
        let alone = format!("bare-alone-{turn}");
        scene.plane.namespace(&alone).await;
        self.alone.push(bare_loop(&scene.client, rendered.objects(&alone)?).await?);
        let beside = beside_operator(turn);
        scene.operated_namespace(&beside).await?;
        self.beside_operator.push(bare_loop(&scene.client, rendered.objects(&beside)?).await?);
        scene.graphs.operator_rests().await
    }
}

/// The namespace of a bare loop beside the operator.
pub(crate) fn beside_operator(turn: &str) -> String {
    format!("bare-beside-operator-{turn}")
}

/// What a first sync took, from the start of the process.
pub(crate) struct FirstSync {
    first_graph: Duration,
    last_graph: Duration,
    verdict: Duration,
    cpu: Duration,
    processor_times: String,
    pub(crate) requests: RequestCounts,
}

/// Starts the controller, and waits for the verdict on the newest commit.
pub(crate) async fn first_sync(
    scene: &Scene<'_>,
    repository: &ModelRepository<'_>,
    models: usize,
    run: &ControllerRun<'_>,
) -> Fallible<(ControllerProcess, FirstSync)> {
    let before = scene.counts.now().await?;
    let times = ProcessorTimes::now()?;
    let wait = scene.graphs.expect(repository.namespace(), &all_names(0..models), 1)?;
    let mut controller = ControllerProcess::start(scene.plane, run)?;
    scene.hooks.lead_to(controller.address()?);
    let graphs = wait.arrived().await?;
    let verdict = scene.hooks.success(&repository.hosted.head()?, CONTEXT).await?;
    let processor_times = ProcessorTimes::now()?.since(&times);
    let cpu = controller.cpu()?;
    controller.settled().await?;
    let since_start = |then: std::time::Instant| then.saturating_duration_since(controller.started);
    let first = FirstSync {
        first_graph: since_start(graphs.first),
        last_graph: since_start(graphs.last),
        verdict: since_start(verdict),
        cpu,
        processor_times,
        requests: scene.counts.now().await?.since(&before),
    };
    Ok((controller, first))
}

impl FirstSync {
    pub(crate) fn tell(&self, bare: &BareLoops, models: usize, report: &mut Report) {
        let mean = |times: &[Duration]| times.iter().map(Duration::as_secs_f64).sum::<f64>() / times.len() as f64;
        let (alone, beside) = (mean(&bare.alone), mean(&bare.beside_operator));
        for (what, seconds) in [("bare loop, each graph", alone), ("the same beside the operator", beside)] {
            let each = 1000.0 * seconds / models as f64;
            report.row(what, (each, "ms"), &format!("{each:.2} ms"), "");
        }
        report.time("first sync, from the start of the process to the first graph", self.first_graph, "");
        report.time("to the last graph", self.last_graph, "");
        let rate = beside / self.last_graph.as_secs_f64();
        let what = "to the last graph, of the rate of the bare loop beside the operator";
        report.ratio(what, rate, RatioUnit::Percent, "≥ 95 %");
        let rate = alone / self.last_graph.as_secs_f64();
        report.ratio("the same, of the rate of the bare loop alone", rate, RatioUnit::Percent, "");
        report.time("to the commit status `success`", self.verdict, "");
        let times = self.verdict.as_secs_f64() / beside;
        report.ratio("the same, in bare loops beside the operator", times, RatioUnit::Times, "≤ 2.2");
        let times = self.verdict.as_secs_f64() / alone;
        report.ratio("the same, in bare loops alone", times, RatioUnit::Times, "");
        let of_all = (self.cpu.as_secs_f64(), "s of the controller");
        report.row("processor time until then", of_all, &self.processor_times, "");
        let requests = self.requests.by_stator();
        report.count("requests of the first sync", requests.total(), "requests", &requests.to_string());
        let writes = requests.writes();
        report.count("writes among them", writes, "writes", &writes.to_string());
    }
}
