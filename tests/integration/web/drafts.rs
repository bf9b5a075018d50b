//! Models that a program sends: rendered and planned as a sync would, and written nowhere.

use super::scene::{Answer, Pages};
use super::schema::faults;
use super::{bench, settled, sync};
use crate::workbench::Workbench;
use serde_json::{Value, json};
use std::process::Command;

const YAML: &str = "application/yaml";

/// Applies a patch to a repository with git itself.
#[track_caller]
pub fn apply_patch(bench: &Workbench, patch: &str) {
    bench.write(".model.patch", patch);
    let file = bench.root().join(".model.patch");
    let applied = Command::new("git").arg("apply").arg(&file).current_dir(bench.root()).output().unwrap();
    assert!(applied.status.success(), "{}\n{patch}", String::from_utf8_lossy(&applied.stderr));
    fs_err::remove_file(file).unwrap();
}

/// That an answer is as the API describes it.
#[track_caller]
fn is_described(pages: &Pages, path: &str, answer: &Answer) {
    let document = pages.get("/api/v1/openapi.json").json();
    let responses = &document["paths"][path.split('?').next().unwrap()]["post"]["responses"];
    let kind = if answer.status == 200 { "application/json" } else { "application/problem+json" };
    assert_eq!(answer.header("content-type"), kind, "{answer:?}");
    let schema = &responses[answer.status.to_string()]["content"][kind]["schema"];
    assert!(schema.is_object(), "{path}: {answer:?}");
    assert_eq!(faults(&document, schema, &answer.json(), path), Vec::<String>::new());
    if answer.status != 200 {
        assert_eq!(pages.get(answer.json()["type"].as_str().unwrap()).status, 200, "{answer:?}");
    }
}

#[test]
fn a_model_is_rendered_and_planned_and_nothing_is_written() {
    let bench = bench();
    let pages = Pages::open(&mut sync(&bench));
    settled(&pages);
    let file = "models/gamma/model.yaml";
    let before = bench.read(file);
    let more = before.replace("replicas: 2", "replicas: 4 # for the fair");
    let live = || pages.get("/api/v1/models/models/gamma/manifest").body;
    let (was, objects) = (live(), pages.get("/api/v1/models/models/gamma/objects").body);

    let rendered = pages.post("/api/v1/render", YAML, &more);
    is_described(&pages, "/api/v1/render", &rendered);
    let told = rendered.json();
    assert_eq!((&told["file"], &told["model"], &told["isNew"]), (&json!(file), &json!("gamma"), &json!(false)));
    assert!(told["objects"][0]["yaml"].as_str().unwrap().contains("replicas: 4"), "{told}");
    // The same as the command line renders of the file.
    let alone = Workbench::with(&[("stator.yaml", bench.read("stator.yaml").as_str()), (file, more.as_str())]);
    let command = alone.run(["render", "-o", "yaml"]).success().result();
    let graph: Value = serde_saphyr::from_str(told["objects"][0]["yaml"].as_str().unwrap()).unwrap();
    let wanted: Value =
        serde_saphyr::from_str(command.split("---\n").find(|one| !one.trim().is_empty()).unwrap()).unwrap();
    assert_eq!(graph["spec"], wanted["spec"]);

    let planned = pages.post("/api/v1/plan?dryRun=client&source=fleet", YAML, &more);
    is_described(&pages, "/api/v1/plan", &planned);
    let plan = planned.json();
    assert_eq!((&plan["gpus"]["before"], &plan["gpus"]["after"]), (&json!(2), &json!(4)), "{plan}");
    assert!(plan["gpus"]["peak"].as_u64().unwrap() >= 4, "{plan}");
    assert_eq!((&plan["cost"]["beforeHour"], &plan["cost"]["afterHour"]), (&json!(5.0), &json!(10.0)), "{plan}");
    assert_eq!(plan["disruption"], "scale", "{plan}");
    let change = &plan["changes"][0];
    assert_eq!((&change["action"], &change["fields"][0]["new"]), (&json!("update"), &json!(4)), "{plan}");
    assert!(!change["reasons"].as_array().unwrap().is_empty(), "{plan}");

    // The same as JSON, which is YAML too.
    let as_json: Value = serde_saphyr::from_str(&more).unwrap();
    let planned = pages.post("/api/v1/plan", "application/json; charset=utf-8", &as_json.to_string());
    assert_eq!(planned.json()["changes"], plan["changes"]);
    // What is in git already changes nothing.
    let same = pages.post("/api/v1/plan", YAML, &before).json();
    assert_eq!(
        (&same["patch"], &same["changes"][0]["action"], &same["disruption"]),
        (&json!(""), &json!("keep"), &json!("none"))
    );

    assert_eq!(
        (live(), pages.get("/api/v1/models/models/gamma/objects").body, bench.read(file)),
        (was, objects, before)
    );
    // The patch is what makes it so, and then it is what the plan said.
    apply_patch(&bench, plan["patch"].as_str().unwrap());
    assert_eq!(bench.read(file), more);
}

#[test]
fn a_new_model_and_one_under_another_name() {
    let bench = bench();
    let pages = Pages::open(&mut sync(&bench));
    settled(&pages);
    let text = bench.read("models/alpha/model.yaml");
    let planned = pages.post("/api/v1/plan", YAML, &text.replace("name: alpha", "name: delta")).json();
    assert_eq!((&planned["file"], &planned["isNew"]), (&json!("models/delta/model.yaml"), &json!(true)));
    assert_eq!(planned["changes"][0]["action"], "create", "{planned}");
    apply_patch(&bench, planned["patch"].as_str().unwrap());
    assert!(bench.read("models/delta/model.yaml").contains("name: delta"));
    fs_err::remove_dir_all(bench.path("models/delta")).unwrap();

    let path = "/api/v1/plan?file=models/alpha/model.yaml";
    let renamed = pages.post(path, YAML, &text.replace("name: alpha", "name: delta")).json();
    let actions: Vec<&str> =
        renamed["changes"].as_array().unwrap().iter().map(|one| one["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["create", "delete"], "{renamed}");
    // Two models of one name are one too many.
    let twice = pages.post("/api/v1/plan?file=models/delta/model.yaml", YAML, &text);
    assert_eq!((twice.status, &twice.json()["errors"][0]["code"]), (422, &json!("layout/duplicate-name")), "{twice:?}");
}

#[test]
fn errors_name_the_field_and_the_fix() {
    let bench = bench();
    let pages = Pages::open(&mut sync(&bench));
    settled(&pages);
    let text = bench.read("models/alpha/model.yaml");
    let hostile = text.replace("worker:", "wroker:").replace("engine: mocker", "engine: <script>alert(1)</script>");
    for path in ["/api/v1/render", "/api/v1/plan"] {
        let refused = pages.post(path, YAML, &hostile);
        assert_eq!(refused.status, 422, "{refused:?}");
        is_described(&pages, path, &refused);
        let errors = refused.json()["errors"].clone();
        let engine = errors.as_array().unwrap().iter().find(|one| one["pointer"] == "#/spec/engine").unwrap().clone();
        assert_eq!((&engine["line"], &engine["found"]), (&json!(7), &json!("<script>alert(1)</script>")), "{engine}");
        assert!(engine["allowed"].as_array().unwrap().contains(&json!("mocker")), "{engine}");
        let worker =
            errors.as_array().unwrap().iter().find(|one| one["pointer"] == "#/spec/serving/wroker").unwrap().clone();
        assert!(worker["help"].as_str().unwrap().contains("worker"), "{worker}");
    }
    for text in ["a: [", "", "\u{0}", "- a", "a: &x 1\nb: *x\n"] {
        let refused = pages.post("/api/v1/plan", YAML, text);
        assert_eq!(refused.status, 422, "{text:?}: {refused:?}");
        assert!(refused.json()["errors"][0]["code"].is_string(), "{text:?}: {refused:?}");
    }
    for (query, status) in [("?dryRun=sever", 400), ("?sorce=fleet", 400), ("?source=other", 400), ("?file=../x", 400)]
    {
        let refused = pages.post(&format!("/api/v1/plan{query}"), YAML, &text);
        assert_eq!(refused.status, status, "{query}: {refused:?}");
        is_described(&pages, "/api/v1/plan", &refused);
    }
}

#[test]
fn only_these_pages_may_send_and_only_so_much() {
    let bench = bench();
    let pages = Pages::open(&mut sync(&bench));
    settled(&pages);
    let text = bench.read("models/alpha/model.yaml");
    let cookie = pages.enter_cookie();
    let own = format!("http://{}", pages.address);
    let base = [("Host", pages.address.as_str()), ("Content-Type", YAML)];
    let with_cookie = [&base[..], &[("Cookie", cookie.as_str())]].concat();
    for path in ["/api/v1/plan", "/api/v1/render", "/new", "/models/models/alpha/edit"] {
        let is_page = !path.starts_with("/api");
        let types = if is_page { "application/x-www-form-urlencoded" } else { YAML };
        let told = |answer: Answer| {
            assert!(answer.header("content-security-policy").starts_with("default-src 'none'"), "{answer:?}");
            answer.status
        };
        let send = |headers: &[(&str, &str)]| {
            told(pages.post_bare(
                path,
                &[&with_cookie[..1], headers, &[("Cookie", cookie.as_str()), ("Content-Type", types)]].concat(),
                &text,
            ))
        };
        assert_eq!(
            told(pages.post_bare(path, &[&base[..], &[("Origin", own.as_str())]].concat(), &text)),
            401,
            "{path}: no cookie"
        );
        assert_eq!(
            told(pages.post_bare(path, &with_cookie, &text)),
            403,
            "{path}: who does not say where it comes from"
        );
        for headers in [
            &[("Origin", "http://evil.example.com")][..],
            &[("Origin", "null")],
            &[("Origin", "http://127.0.0.1:1")],
            &[("Sec-Fetch-Site", "cross-site")],
            &[("Sec-Fetch-Site", "same-site")],
            &[("Sec-Fetch-Site", "none")],
            &[("Origin", own.as_str()), ("Sec-Fetch-Site", "cross-site")],
            &[("Origin", "http://evil.example.com"), ("Sec-Fetch-Site", "same-origin")],
            &[("Origin", own.as_str()), ("Origin", "http://evil.example.com")],
        ] {
            assert_eq!(send(headers), 403, "{path}: {headers:?}");
        }
        assert_ne!(send(&[("Origin", own.as_str())]), 403, "{path}");
        assert_ne!(send(&[("Sec-Fetch-Site", "same-origin")]), 403, "{path}");
        let typed = |media_type: &str| told(pages.post(path, media_type, &text));
        assert_eq!(typed("text/plain"), 415, "{path}");
        assert_eq!(typed("multipart/form-data; boundary=x"), 415, "{path}");
        assert_eq!(typed(if is_page { YAML } else { "application/x-www-form-urlencoded" }), 415, "{path}");
        let large = "#".repeat((1 << 20) + 1);
        assert_eq!(told(pages.post(path, types, &large)), 413, "{path}");
    }
    let fits = text.clone() + &"#".repeat((1 << 20) - text.len());
    assert_eq!(pages.post("/api/v1/render", YAML, &fits).status, 200);
    is_described(&pages, "/api/v1/plan", &pages.post("/api/v1/plan", "text/plain", &text));
    is_described(&pages, "/api/v1/plan", &pages.post("/api/v1/plan", YAML, &"#".repeat((1 << 20) + 1)));
    is_described(&pages, "/api/v1/plan", &pages.post_bare("/api/v1/plan", &with_cookie, &text));
}

/// What cannot fit is said before it is in git: in the form's plan, by `stator plan`, and on the page of the GPUs.
#[test]
fn a_plan_that_needs_more_gpus_than_there_are_says_so() {
    let bench = bench();
    bench.replace("stator.yaml", "{namespace: models}", "{namespace: models, platform: {gpus: {l40s: 3}}}");
    let pages = Pages::open(&mut sync(&bench));
    settled(&pages);
    let known = pages.get("/api/v1/capacity").json()["items"][0].clone();
    assert_eq!(
        (&known["used"], &known["allocatable"], &known["exceeded"]),
        (&2.into(), &3.into(), &false.into()),
        "{known}"
    );
    let wanted = bench.read("models/gamma/model.yaml").replace("replicas: 2", "replicas: 4");
    let plan = pages.post("/api/v1/plan?file=models%2Fgamma%2Fmodel.yaml", "application/yaml", &wanted);
    assert!(
        plan.status == 200 && plan.body.contains("up to 4 l40s GPUs are needed at once, and the cluster has 3"),
        "{plan:?}"
    );
    bench.write("models/gamma/model.yaml", wanted);
    let told = bench.run(["plan", "--cluster", "embedded"]).to_string();
    assert!(told.contains("warning[plan/capacity]") && told.contains("the cluster has 3; 2 are in use"), "{told}");
    pages.shows("/capacity", "that it does not fit", |answer| answer.body.contains("does not fit"));
    pages.shows("/changes", "what changes", |answer| answer.body.contains("l40s: 2 now, 4 after"));
}
