//! What is looked at again when something changes: that alone, where it concerns nothing else.

use super::scene::Pages;
use super::{bench, counts, settled, sync};
use crate::testbed::until;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

const BETA: &str = ".stator/cluster/models/dynamographdeployments/beta.yaml";

#[test]
fn a_changed_file_is_shown_without_a_look_at_other_models() {
    let bench = bench();
    bench
        .run(["sync", "--cluster", "embedded", "--simulate-operator", "--simulate-speed", "1000", "--yes", "--wait"])
        .success();
    // Nothing happens in the cluster anymore, whose objects would be looked at again, and the broken one with them.
    let pages = Pages::open(bench.command().args(["status", "--cluster", "embedded", "--web"]));
    settled(&pages);
    // Who reads this cannot go on.
    let graph = bench.read(BETA);
    bench.write(BETA, "nothing: [");
    bench.replace("models/alpha/model.yaml", "replicas: 2", "replicas: 3");
    let out_of_sync = "/api/v1/models?sync=OutOfSync";
    pages.shows(out_of_sync, "what the file says", |answer| answer.body.contains("alpha"));
    assert_eq!(counts(&pages, out_of_sync).0, ["alpha"]);
    bench.replace("models/alpha/model.yaml", "replicas: 3", "replicas: 2");
    pages.shows(out_of_sync, "that it is as before", |answer| answer.json()["metadata"]["total"] == 0);
    assert_eq!(pages.get("/api/v1/models").json()["notices"], serde_json::json!([]));

    // Settings are about every model.
    bench.replace("stator.yaml", "l40s: 2.5", "l40s: 3");
    let notice = |answer: &super::scene::Answer| answer.json()["notices"].to_string().contains("beta");
    pages.shows("/api/v1/models", "that not all can be read", notice);
    bench.write(BETA, graph);
    pages.shows("/api/v1/models?gpu=l40s", "the price", |answer| answer.json()["items"][0]["cost"]["perHour"] == 6.0);
    // A model that is new may be anything to the others.
    bench.write("models/delta/model.yaml", crate::cli::MOCK.replace("name: mock", "name: delta"));
    pages.shows("/api/v1/models", "another model", |answer| answer.json()["metadata"]["total"] == 4);
    bench.remove("models/delta");
    pages.shows("/api/v1/models", "one less", |answer| answer.json()["metadata"]["total"] == 3);
}

#[test]
fn a_repository_in_a_hidden_folder_is_watched() {
    let bench = bench();
    for file in ["stator.yaml", "models/alpha/model.yaml", "models/beta/model.yaml", "models/gamma/model.yaml"] {
        bench.write(&format!(".fleet/{file}"), bench.read(file));
    }
    let pages = Pages::open(sync(&bench).current_dir(bench.path(".fleet")));
    settled(&pages);
    bench.replace(".fleet/models/alpha/model.yaml", "replicas: 2", "replicas: 3");
    pages.shows("/api/v1/models?sync=OutOfSync", "the change", |answer| answer.body.contains("alpha"));
}

#[test]
fn a_command_with_pages_prints_what_they_show() {
    let bench = bench();
    bench.run(["sync", "--cluster", "embedded", "--yes"]).success();
    let printed = bench.run(["status", "--cluster", "embedded"]).success().stdout;
    let mut command = bench.command();
    command.args(["status", "--cluster", "embedded", "--web"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let shown: Vec<String> = lines.take(printed.lines().count()).collect();
    child.kill().unwrap();
    until("it ends", || child.try_wait().unwrap());
    // Ages go on.
    let is_age = |word: &&str| word.ends_with(['s', 'm']) && word.starts_with(|c: char| c.is_ascii_digit());
    let plain = |line: &str| line.split_whitespace().filter(|word| !is_age(word)).collect::<Vec<_>>().join(" ");
    let printed: Vec<String> = printed.lines().map(plain).collect();
    assert_eq!(shown.iter().map(|line| plain(line)).collect::<Vec<_>>(), printed);
    // A look that fails says why, as without pages.
    let refused = bench.run(["status", "--cluster", "embedded", "--web", "nothing"]).exits(2);
    assert!(refused.stderr.contains("`nothing` is neither a path nor a model"), "{refused}");
}
