//! What a command is about: folders, files, names and labels (rows U5 and U7 of the new user's list).

use super::MOCK;
use crate::workbench::Workbench;
use insta::assert_snapshot;
use regex::Regex;

/// Three models of two teams in two folders.
fn teams() -> Workbench {
    let bench = Workbench::with(&[("stator.yaml", super::ROOT)]);
    for (folder, name, team) in [("chat", "chat", "search"), ("chat", "rank", "search"), ("vision", "ocr", "ads")] {
        let model = MOCK.replace("name: mock", &format!("name: {name}\n  labels:\n    team: {team}"));
        bench.write(&format!("{folder}/{name}/model.yaml"), model);
    }
    bench
}

/// The graphs that `render` shows.
fn rendered(bench: &Workbench, targets: &[&str]) -> String {
    let graphs = bench.run(["render", "-e", "prod", "-o", "name"].iter().chain(targets)).success().result();
    graphs.lines().filter_map(|line| line.strip_prefix("dynamographdeployment/models/")).collect::<Vec<_>>().join(" ")
}

#[test]
fn models_are_meant_by_folder_file_name_and_label() {
    let bench = teams();
    for (targets, expected) in [
        (&[] as &[&str], "chat ocr rank"),
        (&["chat"], "chat rank"),
        (&["rank"], "rank"),
        (&["model/models/rank"], "rank"),
        (&["rank", "vision"], "ocr rank"),
        (&["chat/chat/model.yaml", "ocr"], "chat ocr"),
        (&["-l", "team=search"], "chat rank"),
        (&["-l", "team notin (search)"], "ocr"),
        (&["chat/chat", "vision", "-l", "team=ads"], "ocr"),
        (&["-l", "team=search,!canary", "rank"], "rank"),
        (&["-l", "tier"], ""),
    ] {
        assert_eq!(rendered(&bench, targets), expected, "{targets:?}");
    }
    assert_snapshot!(bench.run(["render", "-e", "prod", "rnak"]), @r"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: `rnak` is neither a path nor a model of the environment
    hint: did you mean `rank`?
    ");
    assert_snapshot!(bench.run(["render", "-e", "prod", "-l", "team=>x"]), @r"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: invalid value 'team=>x' for '--selector <SELECTOR>': `>x` is not the value of a label; use `key=value`, `key!=value`, `key in (a,b)`, `key notin (a,b)`, `key` or `!key`, separated by commas

    For more information, try '--help'.
    ");
    assert_snapshot!(bench.run(["render", "-e", "prod", "-l", "tier"]), @"
    exit 0
    ----- stdout -----
    ----- stderr -----
    note: no model matches the selector `tier`
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    ");
}

#[test]
fn a_sync_and_its_plan_touch_only_what_is_meant() {
    let bench = teams();
    let on = ["-e", "prod", "--cluster", "embedded"];
    let run = |verb: &str, more: &[&str]| bench.run([verb].iter().chain(&on).chain(more));
    assert_snapshot!(run("plan", &["rank", "vision", "-l", "team=search", "-o", "text"]).success().result(), @r"
    fleet / prod against live

    rank  chat/rank/model.yaml
      + create DynamoGraphDeployment models/rank
          · is not in the cluster yet

    Plan: 1 to create, 0 to change, 0 to delete, 0 unchanged.

    Next:
    stator sync rank vision -l 'team=search' -e prod --cluster embedded
    ");
    run("sync", &["--yes", "-l", "team=search"]).success();
    // How long ago that was decides the width of columns, too.
    let rows = run("status", &["--no-headers", "-o", "wide", "--sort-by", "sync"]).success().result();
    let rows = Regex::new(" +").unwrap().replace_all(&rows, " ").into_owned();
    assert_snapshot!(Regex::new(r"\b[0-9]+s\b").unwrap().replace_all(&rows, "AGE"), @"
    ocr OutOfSync Progressing 0 - - models DynamoGraphDeployment vision/ocr/model.yaml - does not exist yet
    chat Synced Unknown 0 - AGE models DynamoGraphDeployment chat/chat/model.yaml Synced AGE ago the operator has not observed it yet
    rank Synced Unknown 0 - AGE models DynamoGraphDeployment chat/rank/model.yaml Synced AGE ago the operator has not observed it yet
    ");
    run("sync", &["--yes"]).success();
    // A model that git no longer has is known by its record, and by its name alone.
    bench.remove("chat/rank/model.yaml");
    bench.remove("vision/ocr/model.yaml");
    run("sync", &["--yes", "rank", "--allow", "delete,mass-delete"]).success();
    assert_eq!(run("status", &["-o", "name"]).success().result(), "model/models/chat\nmodel/models/ocr\n");
    assert_snapshot!(run("sync", &["--yes", "rank"]), @r"
    exit 2
    ----- stdout -----
    ----- stderr -----
    Using the embedded cluster in .stator/cluster.
    error: `rank` is neither a path nor a model of the environment
    hint: check the spelling; `stator status` lists the models of the environment
    ");
    assert_snapshot!(run("describe", &["chat/chat"]).success().result().lines().next().unwrap_or_default(), @"Name:      chat");
    assert_snapshot!(run("history", &["chat/chat", "-o", "json"]).success().json()["model"], @r#""chat""#);
}

#[test]
fn revisions_are_compared_for_what_either_of_them_means() {
    let bench = teams();
    bench.commit("three models");
    bench.replace("chat/rank/model.yaml", "team: search", "team: ads");
    bench.remove("vision/ocr/model.yaml");
    let plan = bench.run(["plan", "-e", "prod", "--from", "HEAD", "-l", "team=ads"]).success().result();
    assert!(plan.contains("ocr") && plan.contains("rank") && !plan.contains("chat/chat"), "{plan}");
    let plan = bench.run(["plan", "-e", "prod", "--from", "HEAD", "ocr"]).success().result();
    assert!(plan.contains("ocr") && !plan.contains("rank"), "{plan}");
}

#[test]
fn several_folders_are_validated_and_formatted_with_paths_from_the_root() {
    let bench = teams();
    for name in ["chat/rank", "vision/ocr"] {
        bench.replace(&format!("{name}/model.yaml"), "engine: mocker", "engine: vlm");
    }
    assert_snapshot!(bench.run(["validate", "-o", "concise", "chat/chat", "vision"]), @"
    exit 1
    ----- stdout -----
    vision/ocr/model.yaml:9:11: error[schema/unknown-word] `spec.engine` is `vlm`; expected one of `vllm`, `sglang`, `trtllm`, `mocker`, `custom`, `auto` (Did you mean `vllm`?)
    Found 1 error (2 models checked).
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    ");
    assert_snapshot!(bench.run(["validate", "-o", "concise", "rank", "chat"]), @"
    exit 1
    ----- stdout -----
    chat/rank/model.yaml:9:11: error[schema/unknown-word] `spec.engine` is `vlm`; expected one of `vllm`, `sglang`, `trtllm`, `mocker`, `custom`, `auto` (Did you mean `vllm`?)
    Found 1 error (2 models checked).
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    ");
    let other = Workbench::with(&[("stator.yaml", super::ROOT)]);
    let elsewhere = other.root().display().to_string();
    let output = bench.run(["validate", "chat", elsewhere.as_str()]).exits(2);
    assert!(
        output.stderr.contains("are in different repositories\nhint: run the command once for each repository"),
        "{output}"
    );

    bench.replace(
        "chat/chat/model.yaml",
        "apiVersion: stator.dev/v1alpha1\nkind: Model",
        "kind:   Model\napiVersion: stator.dev/v1alpha1",
    );
    assert_snapshot!(bench.run(["fmt", "--diff", "chat"]), @r"
    exit 1
    ----- stdout -----
    --- a/chat/chat/model.yaml
    +++ b/chat/chat/model.yaml
    @@ -1,5 +1,5 @@
    -kind:   Model
     apiVersion: stator.dev/v1alpha1
    +kind: Model
     metadata:
       name: chat
       labels:
    ----- stderr -----
    1 file would change, 1 is formatted already
    ");
    bench.run(["fmt", "--check", "vision"]).success();
    bench.run(["fmt", "chat"]).success();
    assert_snapshot!(bench.run(["fmt", "--diff", "chat"]), @r"
    exit 0
    ----- stdout -----
    ----- stderr -----
    0 files would change, 2 are formatted already
    ");
}

#[test]
fn standard_input_is_a_file_like_any_other() {
    let bench = Workbench::empty();
    let pipe = |arguments: &[&str], input: &str| {
        bench.write("input", input);
        let input = std::fs::File::open(bench.path("input")).unwrap();
        bench.finish(bench.command().args(arguments).stdin(input))
    };
    assert_snapshot!(pipe(&["validate", "-", "-o", "concise"], &MOCK.replace("mocker", "vlm")), @"
    exit 1
    ----- stdout -----
    model.yaml:7:11: error[schema/unknown-word] `spec.engine` is `vlm`; expected one of `vllm`, `sglang`, `trtllm`, `mocker`, `custom`, `auto` (Did you mean `vllm`?)
    Found 1 error (1 model checked).
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    ");
    pipe(&["validate", "-"], MOCK).success();
    let jumbled = "kind:   Model\napiVersion: stator.dev/v1alpha1 # here\nmetadata: {name: a}\n";
    assert_snapshot!(pipe(&["fmt", "-"], jumbled), @r"
    exit 0
    ----- stdout -----
    apiVersion: stator.dev/v1alpha1 # here
    kind: Model
    metadata: {name: a}
    ----- stderr -----
    ");
    pipe(&["fmt", "-", "--check"], jumbled).exits(1);
    assert_eq!(pipe(&["fmt", "-"], MOCK).success().result(), MOCK);
    // Lines of a block that begin with other white space than spaces are left as they are, without a word.
    for odd in ["a: |+\n\n \t  b {\n  }\n", "a: >\n \u{a0}\u{a0}b\n ü\n", "a: |\n  \u{3000}b\n  c\n"] {
        let output = pipe(&["fmt", "-"], odd).success();
        assert_eq!((output.result(), output.notes()), (odd.to_owned(), String::new()));
    }
    assert_snapshot!(pipe(&["fmt", "-"], "kind: ["), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: standard input: line 1, column 7: unclosed bracket '[' at char 6 line 1 column 7; run `stator validate` to see every error
    hint: `stator explain model` lists the fields of a model.yaml
    ");
    pipe(&["fmt", "-", "models"], MOCK).exits(2);
}

#[test]
fn the_version_is_data_too() {
    let bench = Workbench::empty();
    let json = bench.run(["version", "-o", "json"]).success().json();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert!(json["apiVersions"].as_array().is_some_and(|all| all.contains(&"nvidia.com/v1beta1".into())), "{json}");
    assert!(bench.run(["version"]).success().result().starts_with(concat!("stator ", env!("CARGO_PKG_VERSION"))));
}
