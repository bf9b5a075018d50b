//! What a first sync, ten pushes and a time of rest cost in requests, writes and allocations, which are the same on every
//! machine; and whether that is more than an earlier run wrote down.

use super::Fallible;
use super::first_sync::first_sync;
use super::process::{ControllerRun, Program};
use super::reactions::Steady;
use super::report::{Report, print_line};
use super::repository::ModelRepository;
use super::scene::Scene;
use serde_json::Value;
use std::time::Duration;

const NAMESPACE: &str = "counted";
const PUSHES: usize = 10;
const REST: Duration = Duration::from_secs(30);

/// By how much of its number a count may be higher, and by how much in any case: a watch may end, and be opened again.
const TOLERANCE: f64 = 0.1;
const SLACK: &[(&str, f64)] = &[("requests", 2.0), ("writes", 2.0), ("allocations", 20_000.0)];

/// Counts, with a controller of its own, and adds the rows.
pub(crate) async fn count(scene: &Scene<'_>, models: usize, report: &mut Report) -> Fallible<()> {
    scene.operated_namespace(NAMESPACE).await?;
    let repository = ModelRepository::new(scene.gitea, NAMESPACE, NAMESPACE, models)?;
    scene.follow(&repository).await?;
    // A sync that waits writes more, and it waits longer the busier the machine is.
    scene.graphs.hurry_operator();
    let run = ControllerRun { program: Program::Counting, leases: NAMESPACE, sources: Some(NAMESPACE), flags: &[] };
    let (mut controller, first) = first_sync(scene, &repository, models, &run).await?;
    let allocations = controller.allocations()?;
    tell(report, "a first sync", &first.requests.by_stator(), allocations);
    let mut steady = Steady { scene, repository: &repository, controller, models, pushes: 0 };
    let phases: [(&str, usize); 2] = [("ten pushes of one model", PUSHES), ("30 s of rest", 0)];
    for (phase, pushes) in phases {
        let (before, allocated) = (scene.counts.now().await?, steady.controller.allocations()?);
        for number in 0..pushes {
            let number = number % models;
            steady.push(number..number + 1).await?;
            steady.controller.settled().await?;
        }
        if pushes == 0 {
            tokio::time::sleep(REST).await;
        }
        let allocations = steady.controller.allocations()? - allocated;
        tell(report, phase, &scene.counts.now().await?.since(&before).by_stator(), allocations);
    }
    steady.controller.end().await.map(drop)
}

fn tell(report: &mut Report, phase: &str, requests: &super::counts::RequestCounts, allocations: u64) {
    let (total, writes) = (requests.total(), requests.writes());
    report.count(&format!("{phase}: requests"), total, "requests", &format!("{total}: {requests}"));
    report.count(&format!("{phase}: writes"), writes, "writes", &writes.to_string());
    let thousands = format!("{} thousand", allocations / 1000);
    report.count(&format!("{phase}: allocations"), allocations, "allocations", &thousands);
}

/// Compares the counts with those of a file. An error names each that is too high.
pub(crate) fn compare(report: &Report, file: &str, models: usize) -> Fallible<()> {
    let known: Value = serde_json::from_str(&fs_err::read_to_string(file)?)?;
    if known["parameters"]["models"] != models {
        let with = &known["parameters"]["models"];
        return Err(format!("{file} is about {with} models; run with `--models {with}`").into());
    }
    let mut more = Vec::new();
    let mut compared = 0;
    for row in known["rows"].as_array().into_iter().flatten() {
        let (what, unit) = (row["what"].as_str().unwrap_or_default(), row["unit"].as_str().unwrap_or_default());
        let Some((_, slack)) = SLACK.iter().find(|(name, _)| *name == unit) else { continue };
        let Some((before, now)) = row["value"].as_f64().zip(report.value(what)) else { continue };
        compared += 1;
        if now > before + (before * TOLERANCE).max(*slack) {
            more.push(format!("{what}: {now} now, {before} before"));
        }
    }
    if compared == 0 {
        return Err(format!("{file} has no counts; write it with `--json {file}`").into());
    }
    if more.is_empty() {
        return Ok(());
    }
    for line in &more {
        print_line(line);
    }
    let how = format!("if that is meant, write the file again with `--json {file}`");
    Err(format!("{} counts above are more than a tenth higher than in {file}; {how}", more.len()).into())
}
