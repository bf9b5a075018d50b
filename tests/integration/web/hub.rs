//! Pages of several clusters at once, and those that a person opens.

use super::scene::Pages;
use crate::cli::fleet;
use crate::testbed;
use crate::workbench::write_program;

#[tokio::test(flavor = "multi_thread")]
async fn one_cluster_is_shown_and_one_is_away() {
    let Some(plane) = testbed::shared() else { return };
    let namespace = plane.namespace("hub").await;
    let bench = fleet();
    // Two contexts of one server, and one of a server that is not there.
    let own = fs_err::read_to_string(plane.kubeconfig()).unwrap();
    let mut both: serde_json::Value = serde_saphyr::from_str(&own).unwrap();
    let named = |list: &str, from: &str| {
        let found = both[list].as_array().unwrap().iter().find(|one| one["name"] == from);
        found.cloned().unwrap_or_else(|| panic!("{list} {from}: {both}"))
    };
    let (mut east, mut away) = (named("contexts", "admin"), named("contexts", "admin"));
    let cluster = east["context"]["cluster"].as_str().unwrap().to_owned();
    let mut nowhere = named("clusters", &cluster);
    (east["name"], away["name"], away["context"]["cluster"]) = ("east".into(), "west".into(), "nowhere".into());
    (nowhere["name"], nowhere["cluster"]["server"]) = ("nowhere".into(), "https://127.0.0.1:1".into());
    both["contexts"].as_array_mut().unwrap().extend([east, away]);
    both["clusters"].as_array_mut().unwrap().push(nowhere);
    bench.write("kubeconfig", serde_json::to_string(&both).unwrap());
    let command = |args: &[&str]| {
        let mut command = bench.command();
        command.args(args).env_remove("STATOR_CLUSTER").env("KUBECONFIG", bench.path("kubeconfig"));
        command
    };
    let synced = ["sync", "--yes", "-e", "prod", "-n", &namespace, "--context", "admin"];
    bench.finish(&mut command(&synced)).success();

    let pages = Pages::open(&mut command(&["server", "--web", "--context", "east", "--context", "west"]));
    let place = format!("{namespace}@east");
    let list = format!("/api/v1/models?namespace={namespace}%40east");
    let row = pages.shows(&list, "the model of the east", |answer| answer.json()["metadata"]["total"] == 1).json();
    assert_eq!(row["items"][0]["source"], "east", "{row}");
    let sources = pages.shows("/sources", "that the west is away", |answer| answer.body.contains("Away")).body;
    assert!(sources.contains("west") && sources.contains("it is away"), "{sources}");
    assert!(pages.get("/").body.contains("west: its models are unknown: it is away"));
    let model = format!("/models/{}/mock", place.replace('@', "%40"));
    let page = pages.get(&model).body;
    assert!(page.contains("kubectl") && page.contains("--context east"), "{page}");
    assert!(!page.contains("Edit model.yaml") && !page.contains(">Propose<"), "{page}");
    assert_eq!(pages.get(&format!("/api/v1{model}")).json()["namespace"], place.as_str());
    let tree = pages.get(&format!("/api/v1{model}/tree")).json();
    assert_eq!(tree["models"][0]["objects"][0]["name"], "mock", "{tree}");
    // Nothing is changed from here.
    let edit = pages.get(&format!("{model}/edit"));
    assert!(edit.status == 409 && edit.body.contains("several clusters"), "{edit:?}");
    assert_eq!(pages.post("/api/v1/sources/-/east/sync", "application/json", "").status, 409);

    // What changes is shown.
    bench.replace("models/mock/model.yaml", "replicas: 2", "replicas: 3");
    bench.finish(&mut command(&synced)).success();
    pages.shows(&format!("/api/v1{model}"), "three replicas", |answer| {
        answer.json()["replicas"].as_array().is_some_and(|all| all.iter().any(|one| one["wanted"] == 3))
    });

    let unknown = bench.finish(&mut command(&["server", "--web", "--context", "north"])).exits(2);
    assert!(unknown.stderr.contains("the kubeconfig has no context north"), "{unknown}");
    let several = bench.finish(&mut command(&["server", "--context", "east", "--context", "west"])).exits(2);
    assert!(several.stderr.contains("several contexts work only with --web"), "{several}");
}

#[test]
fn a_browser_is_opened_at_a_model() {
    let bench = super::bench();
    let opened = bench.path("opened");
    fs_err::create_dir(bench.path("bin")).unwrap();
    for name in ["xdg-open", "gio", "gnome-open", "kde-open", "wslview"] {
        let script = format!("#!/bin/sh\nfor last; do :; done\necho \"$last\" > {}\n", opened.display());
        write_program(&bench.path(&format!("bin/{name}")), script.as_bytes());
    }
    let path = format!("{}:{}", bench.path("bin").display(), std::env::var("PATH").unwrap());
    let team = bench.finish(bench.command().args([
        "open",
        "alpha",
        "--web-url",
        "https://stator.example.com",
        "--no-browser",
    ]));
    assert_eq!(team.success().stdout, "https://stator.example.com/models/models/alpha\n");
    let two = bench.finish(bench.command().args(["open", "alpha", "beta"])).exits(2);
    assert!(two.stderr.contains("more than one model is named"), "{two}");
    let none = bench.finish(bench.command().args(["open", "nothing", "--no-browser"])).exits(2);
    assert!(none.stderr.contains("nothing"), "{none}");

    let mut pages = Pages::start(bench.command().args(["open", "alpha", "--cluster", "embedded"]).env("PATH", path));
    testbed::until("a browser", || fs_err::read_to_string(&opened).is_ok_and(|text| text.ends_with('\n')));
    let address = fs_err::read_to_string(&opened).unwrap();
    assert!(address.trim_end().ends_with("&to=/models/models/alpha"), "{address}");
    let entered = pages.enter(address.trim_end());
    assert_eq!((entered.status, entered.header("location")), (303, "/models/models/alpha"), "{entered:?}");
    pages.shows("/models/models/alpha", "the model", |answer| answer.status == 200);
    assert!(pages.shows("/api/v1/models", "all models", |one| one.json()["metadata"]["total"] == 3).status == 200);
    // Nobody is led elsewhere.
    let link = pages.links().pop().unwrap();
    let away = pages.enter(&format!("{link}&to=//evil.example.com"));
    assert_eq!(away.header("location"), "/", "{away:?}");
}
