//! Tokens of every known form in a repository that a controller follows: nothing that it says or shows holds one.

use super::notified::Receiver;
use super::objects::{Stage, hosted, spec};
use super::process::ask;
use super::told::Operator;
use super::{Scene, fleet, head};
use crate::canaries::{assert_no_canary, canaries, write_canaries, write_refused_canaries};
use crate::cli::MOCK;
use crate::testbed::{self, until};
use crate::web::scene::Pages;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::json;

const MODEL: &str = "/api/v1/models/models/mock";

/// Reads every page and every answer of the API, and looks for tokens in them. The page that edits a model shows its file as
/// it is in git, to those who may read it.
fn no_page_shows_a_token(pages: &Pages, when: &str) {
    let mut paths: Vec<String> = [
        "/",
        "/?q=mock",
        "/sources",
        "/capacity",
        "/models/models/mock",
        "/models/models/refused-0",
        "/api/v1/models",
        "/api/v1/sources",
        "/api/v1/capacity",
        MODEL,
    ]
    .map(str::to_owned)
    .to_vec();
    paths.extend(["status", "objects", "drift", "history", "events", "manifest"].map(|part| format!("{MODEL}/{part}")));
    for path in paths {
        assert_no_canary(&pages.get(&path).body, &format!("{path} {when}"));
    }
}

#[test]
fn pages_notifications_metrics_and_the_log_hold_no_token() {
    let (slack, pager) = (Receiver::start(&[]), Receiver::start(&[]));
    let bench = fleet(0);
    write_canaries(&bench, "models/mock", MOCK, 0);
    let scene = Scene::of(bench);
    let bench = &scene.bench;
    let notifications = "  allowInsecure: true\n  notifications:\n  - {type: slack, secretRef: {name: slack}}\n  - {type: webhook, secretRef: {name: pager}, events: [failed, recovered, synced]}\n";
    let secret = |name: &str, receiver: &Receiver| {
        let url = format!("http://{}/{name}", receiver.address);
        format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{url: '{url}'}}\n---\n")
    };
    scene.declare(&(scene.source("models", notifications) + &secret("slack", &slack) + &secret("pager", &pager)));
    let mut command = scene.command();
    command.args(["--listen", "127.0.0.1:0", "--web"]).env("STATOR_LOG", "debug");
    let mut pages = Pages::open(&mut command);
    let synced = |commit: &str| {
        pages.shows(MODEL, "a commit that is synced", |answer| {
            answer.status == 200 && {
                let model = answer.json();
                model["revision"] == commit && model["health"] == "Healthy" && model["sync"] == "Synced"
            }
        });
    };
    synced(&head(bench));
    let manifest = pages.get(&format!("{MODEL}/manifest")).body;
    assert!(manifest.matches("***").count() > 2 * canaries().len(), "{manifest}");
    no_page_shows_a_token(&pages, "of the first commit");

    // Somebody changes a value in the cluster, and puts another token there.
    let file = scene.folder.path().join("cluster/models/dynamographdeployments/mock.yaml");
    let all = canaries();
    let live = fs_err::read_to_string(&file).unwrap();
    assert!(live.contains(&all[0]), "{live}");
    fs_err::write(&file, live.replace(&all[0], &all[1])).unwrap();
    until("the value is put back", || scene.graph("models", "mock").contains(&all[0]));
    no_page_shows_a_token(&pages, "after drift");

    write_canaries(bench, "models/mock", MOCK, 1);
    let second = bench.commit(&format!("use {}", all[0]));
    synced(&second);
    no_page_shows_a_token(&pages, "of the second commit");

    // What a program sends as a draft, with another token in place of each.
    let draft = bench.read("models/mock/model.yaml").replace(&all[0], &all[1]).replace("replicas: 2", "replicas: 3");
    let rendered = pages.post("/api/v1/render", "application/yaml", &draft);
    assert_eq!(rendered.status, 200, "{rendered:?}");
    assert_no_canary(&rendered.body, "a draft that is rendered");
    let planned = pages.post("/api/v1/plan", "application/yaml", &draft);
    assert_eq!(planned.status, 200, "{planned:?}");
    let mut plan = planned.json();
    // A patch is what the caller sent, and the file that it changes.
    plan["patch"].take();
    assert_no_canary(&plan.to_string(), "the plan of a draft");

    write_refused_canaries(bench, "models/refused", MOCK);
    bench.commit(&format!("refuse {}", all[0]));
    until("the failure is told", || !slack.taken().is_empty() && pager.taken().len() >= 2);
    pages.shows("/sources", "what is in the way", |answer| answer.body.contains("models/refused-"));
    no_page_shows_a_token(&pages, "of the refused commit");
    for (_, body) in slack.taken().iter().chain(&pager.taken()) {
        assert_no_canary(body, "a notification");
    }
    let said = pages.said();
    let address = said.split("Listening on http://").nth(1).unwrap().split(',').next().unwrap();
    let metrics = ask(address, "GET /metrics HTTP/1.1", b"").1;
    assert!(metrics.contains("stator_source_ready"), "{metrics}");
    assert_no_canary(&metrics, "the metrics");
    assert_eq!(pages.end().code(), Some(0));
    assert_no_canary(&pages.said(), "the log");
}

#[test]
fn events_and_statuses_in_the_cluster_hold_no_token() {
    let Some(plane) = testbed::shared() else { return };
    let stage = Stage::on(plane);
    let namespace = "canaries-told";
    stage.namespace(namespace);
    let _operator = Operator::plays(&stage, namespace);
    let (bench, git) = hosted(1);
    write_canaries(&bench, "models/mock", MOCK, 0);
    let first = bench.commit("tokens everywhere");
    stage.declare(namespace, "models", spec(&git, &json!({"targetNamespace": namespace})));
    let scoped = ["--watch-namespace", namespace, "--lease-namespace", namespace];
    let mut controller = stage.run(&bench, "controller", "controller", &scoped);
    let source = || {
        stage.runtime.block_on(stage.objects(namespace, "ModelSource").get("models")).unwrap().data["status"].clone()
    };
    until("the first commit is synced", || source()["revision"]["applied"] == first.as_str());
    write_canaries(&bench, "models/mock", MOCK, 1);
    let second = bench.commit("other tokens");
    until("the second commit is synced", || source()["revision"]["applied"] == second.as_str());
    write_refused_canaries(&bench, "models/refused", MOCK);
    let refused = bench.commit("models that are refused");
    let events = || {
        let events: Api<Event> = Api::namespaced(stage.client.clone(), namespace);
        serde_json::to_string(&stage.runtime.block_on(events.list(&ListParams::default())).unwrap().items).unwrap()
    };
    until("the refusal is told", || {
        source()["revision"]["seen"] == refused.as_str() && events().contains("models/refused-")
    });
    assert_no_canary(&events(), "the events");
    assert_no_canary(&source().to_string(), "the status of the source");
    let models = stage.runtime.block_on(stage.objects(namespace, "Model").list(&ListParams::default())).unwrap();
    assert_no_canary(&serde_json::to_string(&models.items).unwrap(), "the models");
    assert_eq!(controller.end().code(), Some(0));
    assert_no_canary(&controller.said(), "the log");
}
