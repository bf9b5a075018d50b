//! Pages of a controller: what it follows, and how that stands.

use super::bench;
use super::scene::Pages;
use crate::workbench::Workbench;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A source of that name, of a repository of this machine.
pub fn source(bench: &Workbench, name: &str, more: &str) -> String {
    let url = bench.root().canonicalize().unwrap();
    format!(
        "apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {{name: {name}}}\nspec:\n  url: {}\n  allowLocal: true\n  ref: {{branch: master}}\n  interval: 1s\n{more}---\n",
        url.display()
    )
}

pub fn controller(bench: &Workbench, folder: &Path) -> Command {
    let mut command = bench.command();
    command.current_dir(folder).args(["controller", "--source-file", "sources.yaml", "--listen", "127.0.0.1:0"]);
    command.args(["--cluster", "embedded:cluster", "--simulate-operator", "--simulate-speed", "1000", "--web"]);
    command
}

fn source_of(pages: &Pages, name: &str) -> Value {
    let all = pages.get("/api/v1/sources").json();
    let found = all["items"].as_array().unwrap().iter().find(|one| one["name"] == name).cloned();
    found.unwrap_or_default()
}

#[test]
fn a_push_is_seen_and_a_source_that_goes_takes_its_models_along() {
    let bench = bench();
    let first = bench.commit("first");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sources.yaml");
    fs_err::write(&file, source(&bench, "fleet", "")).unwrap();
    let mut pages = Pages::open(&mut controller(&bench, folder.path()));
    let healthy = "/api/v1/models?health=Healthy&sync=Synced&source=default/fleet";
    let total = |number: u64| move |answer: &super::scene::Answer| answer.json()["metadata"]["total"] == number;
    pages.shows(healthy, "three models", total(3));
    pages.shows("/api/v1/sources", "what was applied", |answer| {
        answer.json()["items"][0]["applied"]["commit"] == first.as_str()
    });
    let known = source_of(&pages, "fleet");
    assert_eq!((known["environment"].as_str(), known["label"].as_str()), (Some("staging"), Some("default/fleet")));

    bench.replace("models/alpha/model.yaml", "replicas: 2", "replicas: 3");
    let second = bench.commit("second");
    pages.shows("/api/v1/models/models/alpha", "the newer commit", |answer| {
        let model = answer.json();
        let replicas = model["replicas"].as_array().unwrap().iter().any(|one| one["wanted"] == 3 && one["ready"] == 3);
        model["revision"] == second.as_str() && model["health"] == "Healthy" && replicas
    });
    let page = pages.get("/sources").body;
    assert!(page.contains(&second[..7]) && page.contains("default/fleet"), "{page}");

    // A commit that cannot be read is told, and its models stay as they were last seen.
    bench.write("models/alpha/model.yaml", "nonsense: [");
    bench.commit("broken");
    pages.shows("/sources", "what is in the way", |answer| answer.body.contains("models/alpha/model.yaml"));
    pages.shows("/api/v1/models?q=alpha", "the model with errors", |answer| {
        answer.json()["items"][0]["message"].as_str().is_some_and(|message| message.contains("has errors"))
    });

    fs_err::write(&file, source(&bench, "other", "  suspend: true\n")).unwrap();
    pages.shows("/api/v1/models", "no model", total(0));
    pages.shows("/api/v1/sources", "the other source alone", |answer| {
        answer.json()["items"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).eq(["other"])
    });
    pages.shows("/sources", "that it is suspended", |answer| answer.body.contains("Suspended"));
    assert_eq!(pages.end().code(), Some(0));
}

#[test]
fn pages_need_a_file_of_sources_that_is_followed() {
    let bench = bench();
    bench.commit("first");
    bench.write("sources.yaml", source(&bench, "fleet", ""));
    let refused =
        bench.run(["controller", "--source-file", "sources.yaml", "--cluster", "embedded", "--once", "--web"]);
    insta::assert_snapshot!(refused, @"
        exit 2
        ----- stdout -----
        ----- stderr -----
        Using the embedded cluster in .stator/cluster.
        error: --web and --web-listen do not work with --once, which ends when everything is synced
        hint: omit them
    ");
    let refused =
        bench.run(["controller", "--source-file", "sources.yaml", "--cluster", "embedded", "--web-url", "https://x/"]);
    insta::assert_snapshot!(refused, @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    error: --web-url works only with pages of a cluster's sources
    hint: pass --web-listen without --source-file, or omit it
    ");
    for (url, fault) in [
        ("ftp://x", "begin with https"),
        ("https://x/path", "a scheme and a host"),
        ("https://me:pass@x", "a scheme and a host"),
        ("https://x/#a", "a scheme and a host"),
        ("x", "not a URL"),
    ] {
        let refused = bench.run(["controller", "--web", "--web-url", url]).to_string();
        assert!(refused.starts_with("exit 2") && refused.contains(fault), "{refused}");
    }
}

/// The interval is an hour: what happens, somebody asked for.
#[test]
fn a_source_is_synced_and_a_held_plan_approved_from_its_page() {
    let bench = bench();
    bench.commit("first");
    let folder = tempfile::tempdir().unwrap();
    let text = source(&bench, "fleet", "  guards: {maxGpus: 2}\n").replace("interval: 1s", "interval: 1h");
    fs_err::write(folder.path().join("sources.yaml"), text).unwrap();
    let pages = Pages::open(&mut controller(&bench, folder.path()));
    let healthy = "/api/v1/models?health=Healthy&sync=Synced";
    pages.shows(healthy, "three models", |answer| answer.json()["metadata"]["total"] == 3);
    let page = pages.get("/sources/default/fleet").body;
    for word in ["Sync now", "Suspend", "Approve", "Resume"] {
        assert_eq!(page.contains(&format!(">{word}</a>")), word == "Sync now", "{word}: {page}");
    }

    bench.replace("models/gamma/model.yaml", "replicas: 2", "replicas: 4");
    let commit = bench.commit("Scale gamma to four");
    let confirm = pages.get("/sources/default/fleet/sync");
    assert!(confirm.status == 200 && confirm.body.contains("method=\"post\""), "{confirm:?}");
    let asked = pages.submit("/sources/default/fleet/sync", &[]);
    assert_eq!((asked.status, asked.header("location")), (303, "/sources/default/fleet?done=sync"), "{asked:?}");
    assert!(pages.get("/sources/default/fleet?done=sync").body.contains("The sync was requested."));
    pages.shows("/api/v1/sources/default/fleet", "what is held", |answer| {
        answer.json()["heldCommit"] == commit.as_str()
    });
    pages.shows("/changes", "what the next sync does", |answer| {
        answer.body.contains("Scale gamma to four") && answer.body.contains("2 → 4")
    });
    assert!(pages.get(&format!("/changes?commit={}", &commit[..8])).body.contains("models/gamma"));

    let source = pages.get("/api/v1/sources/default/fleet").json();
    let plan = source["heldPlan"].as_str().unwrap().to_owned();
    let page = pages.get("/sources/default/fleet/approve").body;
    assert!(page.contains(&commit) && page.contains(&plan), "{page}");
    // Another plan or commit is not what was shown.
    for (commit, plan) in [(commit.as_str(), "0".repeat(64)), ("0000000", plan.clone()), ("", String::new())] {
        let stale = pages.submit("/sources/default/fleet/approve", &[("commit", commit), ("plan", &plan)]);
        assert_eq!(stale.status, 409, "{stale:?}");
    }
    let body = serde_json::json!({"commit": commit, "plan": plan}).to_string();
    let approved = pages.post("/api/v1/sources/default/fleet/approve", "application/json", &body);
    assert_eq!((approved.status, approved.json()["action"].as_str()), (202, Some("approve")), "{approved:?}");
    pages.shows("/api/v1/models/models/gamma", "four workers", |answer| {
        answer.json()["replicas"].as_array().is_some_and(|all| all.iter().any(|one| one["ready"] == 4))
    });
    pages.shows("/api/v1/sources/default/fleet", "nothing held", |answer| answer.json().get("heldPlan").is_none());

    // What a file says, nobody changes from here.
    let refused = pages.post("/api/v1/sources/default/fleet/suspend", "application/json", "");
    assert_eq!((refused.status, refused.json()["type"].as_str()), (409, Some("/problems/not-possible")), "{refused:?}");
    assert_eq!(pages.get("/sources/default/fleet/suspend").status, 409);
    assert_eq!(pages.get("/sources/default/nothing").status, 404);
    assert_eq!(pages.get("/sources/default/fleet/explode").status, 404);
    for (query, body) in [("", "{\"comit\": 1}"), ("", "[]"), ("", "{\"plan\": \"x\"}"), ("?force=true", "")] {
        let odd = pages.post(&format!("/api/v1/sources/default/fleet/sync{query}"), "application/json", body);
        assert_eq!(odd.status, 400, "{query} {body}: {odd:?}");
    }
}
