//! Many sources at rest, as the built program runs them on an API server, with pages: nobody is asked anything.

use super::STATOR;
use super::objects::{Stage, spec};
use super::process::Process;
use super::told::Operator;
use crate::cli::MOCK;
use crate::git_server::GitServer;
use crate::testbed::{self, until};
use crate::workbench::Workbench;
use serde_json::json;
use std::collections::BTreeMap;

const SOURCES: usize = 40;
const NAMESPACE: &str = "resting";
/// Renewals of a lease, each five seconds after the other, for which nothing may happen: longer than a minute, which is the
/// longest that anything that a source does by itself is apart.
const RENEWALS: u64 = 14;

/// The values of a metric, by its labels.
fn values(controller: &Process, metric: &str) -> BTreeMap<String, u64> {
    let text = controller.gets("/metrics").1;
    let lines = text.lines().filter_map(|line| line.strip_prefix(metric)?.strip_prefix('{')?.rsplit_once("} "));
    lines.map(|(labels, value)| (labels.to_owned(), value.parse::<f64>().unwrap() as u64)).collect()
}

/// Requests to the API server that are no watches.
fn requests(controller: &Process) -> BTreeMap<String, u64> {
    let mut counted = values(controller, "stator_kube_requests_total");
    counted.retain(|labels, _| !labels.contains("verb=\"watch\""));
    counted
}

fn renewals(controller: &Process) -> u64 {
    values(controller, "stator_lease_renewals_total").values().sum()
}

/// What came in between, without what leases are kept with: how many of those there were, and all others.
fn since(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> (u64, BTreeMap<String, u64>) {
    let count =
        |(labels, count): (&String, &u64)| (labels.clone(), count - before.get(labels).copied().unwrap_or_default());
    let new: BTreeMap<String, u64> = after.iter().map(count).filter(|(_, more)| *more > 0).collect();
    let (leases, others): (BTreeMap<_, _>, BTreeMap<_, _>) = new
        .into_iter()
        .partition(|(labels, _)| ["get", "patch", "apply"].iter().any(|verb| labels.contains(&format!("\"{verb}\""))));
    (leases.values().sum(), others)
}

#[test]
fn many_sources_at_rest_ask_nobody_anything() {
    let Some(plane) = testbed::shared() else { return };
    let stage = Stage::on(plane);
    stage.namespace(NAMESPACE);
    let bench = Workbench::empty();
    for number in 0..SOURCES {
        let settings = STATOR.replace("namespace: models", &format!("namespace: {NAMESPACE}"));
        bench.write(
            &format!("teams/{number}/stator.yaml"),
            settings.replace("name: fleet", &format!("name: team-{number}")),
        );
        let model = MOCK.replace("name: mock", &format!("name: mock-{number}"));
        bench.write(&format!("teams/{number}/models/mock-{number}/model.yaml"), model);
    }
    bench.commit("first");
    let git = GitServer::start(bench.root().parent().unwrap());
    for number in 0..SOURCES {
        let own = json!({"path": format!("teams/{number}"), "interval": "24h"});
        stage.declare(NAMESPACE, &format!("source-{number}"), spec(&git, &own));
    }
    let _operator = Operator::plays(&stage, NAMESPACE);
    let arguments = ["--watch-namespace", NAMESPACE, "--lease-namespace", NAMESPACE, "--web-listen", "127.0.0.1:0"];
    let mut controller = stage.run(&bench, "controller", "controller", &arguments);
    until("all are synced and healthy", || {
        let ready = values(&controller, "stator_source_ready").values().sum::<u64>();
        (ready == SOURCES as u64).then_some(()).ok_or(move || format!("{ready} of {SOURCES} are ready"))
    });
    let objects = || ["ModelSource", "Model", "DynamoGraphDeployment"].map(|kind| stage.there(NAMESPACE, kind));
    // The last statuses are written, and what is looked at a while longer was looked at.
    until("a minute goes by without a request", || {
        let (asked, there, began) = (requests(&controller), objects(), renewals(&controller));
        git.asked();
        until("leases are renewed", || renewals(&controller) >= began + RENEWALS);
        let (leases, others) = since(&asked, &requests(&controller));
        let asked_git = git.asked().len();
        // The replica's lease is written, and the namespace's is read and written half as often. Each source that asks for
        // something once would be forty more.
        let is_quiet = others.is_empty() && leases <= 2 * RENEWALS && asked_git == 0 && objects() == there;
        is_quiet.then_some(()).ok_or(move || format!("{others:?}, {leases} for leases, {asked_git} of the git host"))
    });
    assert_eq!(values(&controller, "stator_forge_requests_total"), BTreeMap::new());
    assert_eq!(controller.end().code(), Some(0));
}
