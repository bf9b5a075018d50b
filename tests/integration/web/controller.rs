//! Pages of a controller: what it follows, and how that stands.

use super::bench;
use super::scene::Pages;
use crate::workbench::Workbench;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A source of that name, of a repository of this machine.
fn source(bench: &Workbench, name: &str, more: &str) -> String {
    let url = bench.root().canonicalize().unwrap();
    format!(
        "apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {{name: {name}}}\nspec:\n  url: {}\n  allowLocal: true\n  ref: {{branch: master}}\n  interval: 1s\n{more}---\n",
        url.display()
    )
}

fn controller(bench: &Workbench, folder: &Path) -> Command {
    let mut command = bench.command();
    command.current_dir(folder).args(["controller", "--source", "sources.yaml", "--listen", "127.0.0.1:0"]);
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
    let refused = bench.run(["controller", "--source", "sources.yaml", "--cluster", "embedded", "--once", "--web"]);
    insta::assert_snapshot!(refused, @"
        exit 2
        ----- stdout -----
        ----- stderr -----
        Using the embedded cluster in .stator/cluster.
        error: --web and --web-listen do not work with --once, which ends when everything is synced
        hint: omit them
    ");
    let refused =
        bench.run(["controller", "--source", "sources.yaml", "--cluster", "embedded", "--web-url", "https://x/"]);
    insta::assert_snapshot!(refused, @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    error: --web-url works only with pages of a cluster's sources
    hint: pass --web-listen without --source, or omit it
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
