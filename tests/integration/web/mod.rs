//! Pages and API, as somebody reads them who opened the link: the real program on an embedded cluster.

mod browser;
mod changes;
mod contract;
mod controller;
pub mod doors;
mod drafts;
mod form;
mod hub;
mod kubernetes;
mod pods;
mod proposals;
pub mod scene;
mod schema;
mod schemathesis;

use crate::cli::{MOCK, fleet};
use crate::testbed::until;
use crate::workbench::Workbench;
use scene::Pages;
use std::process::Command;

/// Models `alpha`, `beta` and `gamma`, of which the last has GPUs and a price.
fn bench() -> Workbench {
    let stator = "\
apiVersion: stator.dev/v1alpha1
kind: Repository
metadata:
  name: fleet
spec:
  prices: {currency: $, gpuHour: {l40s: 2.5}}
  environments:
    staging: {namespace: models}
";
    let bench = Workbench::with(&[("stator.yaml", stator)]);
    for name in ["alpha", "beta"] {
        bench.write(&format!("models/{name}/model.yaml"), MOCK.replace("name: mock", &format!("name: {name}")));
    }
    let gpus = MOCK
        .replace("name: mock", "name: gamma")
        .replace("      replicas: 2\n", "      replicas: 2\n      gpus: 1\n  hardware:\n    gpu: l40s\n");
    bench.write("models/gamma/model.yaml", gpus.replace("engine: mocker", "engine: vllm"));
    bench
}

/// `stator sync --web` of a repository, which simulates the operator.
fn sync(bench: &Workbench) -> Command {
    let mut command = bench.command();
    command.args([
        "sync",
        "--cluster",
        "embedded",
        "--simulate-operator",
        "--simulate-speed",
        "1000",
        "--yes",
        "--web",
    ]);
    command
}

fn counts(pages: &Pages, path: &str) -> (Vec<String>, serde_json::Value) {
    let answer = pages.get(path);
    assert_eq!(answer.status, 200, "{answer:?}");
    let list = answer.json();
    let names = list["items"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned());
    (names.collect(), list)
}

/// Waits until all three models are healthy.
fn settled(pages: &Pages) {
    pages.shows("/api/v1/models?health=Healthy&sync=Synced", "three healthy models", |answer| {
        answer.json()["metadata"]["total"] == 3
    });
}

#[test]
fn the_link_opens_the_pages_once() {
    let bench = bench();
    let mut pages = Pages::start(&mut sync(&bench));
    let page = pages.get("/");
    assert_eq!((page.status, page.header("content-type")), (401, "text/html; charset=utf-8"));
    assert!(page.body.contains("Open the link that stator printed"), "{page:?}");
    let problem = pages.get("/api/v1/models");
    assert_eq!((problem.status, problem.header("content-type")), (401, "application/problem+json"));
    assert_eq!(problem.json()["type"], "/problems/sign-in-required");
    // What is there and what is not looks the same.
    assert_eq!(pages.get("/api/v1/nothing").body, problem.body);

    let link = pages.links().remove(0);
    assert_eq!(pages.get("/enter?token=wrong").status, 401);
    let entered = pages.enter(&link);
    assert_eq!((entered.status, entered.header("location")), (303, "/"));
    let cookie = entered.header("set-cookie");
    assert!(cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Strict"), "{cookie}");
    assert!(!link.contains(cookie.split(['=', ';']).nth(1).unwrap()), "the cookie is not in the link");
    assert_eq!(pages.get("/").status, 200);

    let again = pages.send_bare("GET", link.split_once(&pages.address).unwrap().1, &[("Host", &pages.address)]);
    assert_eq!(again.status, 401, "{again:?}");
    until("another link", || pages.links().len() == 2);
    let other = pages.links().remove(1);
    let path = other.split_once(&pages.address).unwrap().1.to_owned();
    assert_eq!(pages.send_bare("GET", &path, &[("Host", &pages.address)]).status, 303);
    assert_eq!(pages.send("GET", "/", &[("Cookie", "stator-1=x")]).status, 200, "another cookie beside it");
}

#[test]
fn another_host_reads_nothing() {
    let bench = bench();
    let pages = Pages::open(&mut sync(&bench));
    let port = pages.address.rsplit(':').next().unwrap();
    let cookie = pages.enter_cookie();
    for hosts in [
        vec![("Host", "evil.example.com".to_owned())],
        vec![("Host", format!("evil.example.com:{port}"))],
        vec![("Host", "127.0.0.1:1".to_owned())],
        vec![("Host", pages.address.clone()), ("Host", "evil.example.com".to_owned())],
        vec![],
    ] {
        let mut headers: Vec<(&str, &str)> = hosts.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("Cookie", &cookie));
        for path in ["/", "/api/v1/models", "/enter?token=x"] {
            let answer = pages.send_bare("GET", path, &headers);
            // Without any host, hyper or the gate refuses.
            assert!(matches!(answer.status, 400 | 421), "{hosts:?}: {answer:?}");
            assert!(!answer.body.contains("alpha"), "{answer:?}");
        }
    }
    assert_eq!(
        pages.send_bare("GET", "http://evil.example.com/", &[("Host", &pages.address), ("Cookie", &cookie)]).status,
        421
    );
    assert_eq!(pages.send_bare("GET", "/", &[("Host", &format!("LOCALHOST:{port}")), ("Cookie", &cookie)]).status, 200);
}

#[test]
fn models_are_listed_filtered_sorted_and_paged() {
    let bench = bench();
    let pages = Pages::open(&mut sync(&bench));
    settled(&pages);
    let names = |path: &str| counts(&pages, path).0.join(" ");
    assert_eq!(names("/api/v1/models?sort=name"), "alpha beta gamma");
    assert_eq!(names("/api/v1/models?sort=-name"), "gamma beta alpha");
    assert_eq!(names("/api/v1/models?gpu=l40s"), "gamma");
    assert_eq!(names("/api/v1/models?namespace=other"), "");
    assert_eq!(names("/api/v1/models?q=BET"), "beta");
    assert_eq!(names("/api/v1/models?source=fleet&health=Failed"), "");
    let (first, list) = counts(&pages, "/api/v1/models?sort=name&limit=2");
    assert_eq!((first.join(" "), list["metadata"]["remainingItemCount"].as_u64()), ("alpha beta".to_owned(), Some(1)));
    let next = list["metadata"]["continue"].as_str().unwrap();
    let (second, list) = counts(&pages, &format!("/api/v1/models?sort=name&limit=2&continue={next}"));
    assert_eq!((second.join(" "), list["metadata"]["first"].as_u64()), ("gamma".to_owned(), Some(3)));
    assert_eq!(list["metadata"].get("continue"), None);
    assert_eq!(pages.get(&format!("/api/v1/models?sort=-name&limit=2&continue={next}")).status, 410);

    // What costs is told, and a page has the same words as the command line.
    assert_eq!(list["items"][0]["cost"], serde_json::json!({"currency": "$", "perHour": 5.0}));
    let page = pages.get("/?sort=name").body;
    let status = bench.run(["status", "--cluster", "embedded", "-o", "json"]).success().json();
    for model in status["models"].as_array().unwrap() {
        assert!(page.contains(model["message"].as_str().unwrap()), "{page}");
    }
    assert!(page.contains("2 l40s") && page.contains("Cost now: $5.00/h"), "{page}");
    assert_eq!(pages.get("/api/v1/capacity").json()["items"][0]["used"], 2);

    let tagged = pages.get("/api/v1/models?sort=name");
    let tag = tagged.header("etag").to_owned();
    assert_eq!(tag.len(), 34, "{tagged:?}");
    let same = pages.send("GET", "/api/v1/models?sort=name", &[("If-None-Match", &format!("\"x\", W/{tag}"))]);
    assert_eq!((same.status, same.body.as_str(), same.header("etag")), (304, "", tag.as_str()));
    assert_eq!(pages.send("GET", "/api/v1/models?sort=-name", &[("If-None-Match", &tag)]).status, 200);

    let refused = pages.get("/api/v1/models?helth=Failed");
    assert_eq!((refused.status, refused.header("content-type")), (400, "application/problem+json"));
    assert_eq!(refused.json()["errors"][0]["help"], "did you mean `health`?");
    let page = pages.get("/?helth=Failed");
    assert_eq!(page.status, 400);
    assert!(page.body.contains("did you mean `health`?"), "{page:?}");
}

#[test]
fn drift_is_shown_with_its_owner_as_it_comes() {
    let bench = bench();
    let mut pages = Pages::open(&mut sync(&bench));
    settled(&pages);
    let mut stream = pages.stream(&[]);
    stream.line("HTTP/1.1 200").unwrap();
    bench.replace(".stator/cluster/models/dynamographdeployments/alpha.yaml", "replicas: 2", "replicas: 5");
    // Whoever reads again at each event, and never else, comes to see it. What settles late may be told before.
    let drift = loop {
        assert!(stream.line("event: changed").is_some(), "nothing more is told");
        let drift = pages.get("/api/v1/models/models/alpha/drift");
        if drift.json()["items"].as_array().is_some_and(|items| !items.is_empty()) {
            break drift;
        }
    };
    let field = &drift.json()["items"][0];
    assert_eq!((&field["have"], &field["want"]), (&5.into(), &2.into()), "{field}");
    // The commands of the page are those that tell the same.
    let model = pages.get("/api/v1/models/models/alpha").json();
    for command in model["commands"].as_array().unwrap() {
        let command = command["command"].as_str().unwrap();
        let words = shlex::split(command).unwrap();
        let told = bench.run(&words[1..]).success().result();
        assert!(told.contains("alpha") || told.contains("Healthy"), "{command}: {told}");
    }
    let page = pages.get("/models/models/alpha").body;
    assert!(page.contains("OutOfSync") && page.contains(field["path"].as_str().unwrap()), "{page}");
    assert_eq!(counts(&pages, "/api/v1/models?drift=true").0, ["alpha"]);
    // Whoever comes back and missed something is told at once.
    let mut back = pages.stream(&[("Last-Event-ID", "1")]);
    assert!(back.line("id: ").is_some());
    // An open stream does not keep the process.
    assert_eq!(pages.end().code(), Some(0));
    assert_eq!(stream.line("event: never"), None);
}

#[test]
fn hostile_records_are_text() {
    let bench = bench();
    let pages = Pages::open(&mut sync(&bench));
    settled(&pages);
    let hostile = "</td><script>alert(1)</script>\u{202e}evil";
    let record = ".stator/cluster/models/models/alpha.yaml";
    let text = bench.read(record);
    let line = text.lines().find(|line| line.trim_start().starts_with("result: ")).unwrap();
    let head = line.split_once(": ").unwrap().0;
    let hostile_line = format!("{head}: {}", serde_json::to_string(hostile).unwrap());
    bench.replace(record, line, &hostile_line);
    pages.shows("/api/v1/models/models/alpha/history", "what was written", |answer| answer.body.contains("evil"));
    assert_eq!(pages.get("/api/v1/models/models/alpha/history").json()["items"][0]["result"], hostile);
    for path in ["/", "/models/models/alpha", "/sources", "/capacity"] {
        let page = pages.get(path).body;
        assert!(!page.contains("<script>") && !page.contains('\u{202e}'), "{page}");
    }
    assert!(
        pages.get("/models/models/alpha").body.contains("&lt;script&gt;")
            || pages.get("/models/models/alpha").body.contains("&#60;script&#62;")
    );
}

#[test]
fn pages_are_for_this_machine_alone() {
    let bench = fleet();
    let refused = bench.run(["status", "-e", "staging", "--cluster", "embedded", "--web-listen", "0.0.0.0:8090"]);
    insta::assert_snapshot!(refused, @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    error: other machines can reach 0.0.0.0:8090, and anyone with the link sees everything
    hint: use --web-listen 127.0.0.1:8090, and reach it from elsewhere through `ssh -L`
    ");
    let refused = bench.run(["sync", "--source", "models", "--web"]);
    insta::assert_snapshot!(refused, @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: --web and --web-listen do not work with --source, because the controller runs the sync
    hint: omit them
    ");
}
