//! The definition of `ModelSource` on a real API server: what it takes, what it refuses and how it says so, what
//! `kubectl get` shows, and what becomes of objects that were stored under another version of it.

use crate::testbed::{self, eventually};
use http::Request;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use stator::controller::report::source_status::{SourceStatusInput, build_status};
use stator::controller::sources::file;
use stator::controller::sources::registry::source_state::{SourceState, TimestampedRevision};
use stator::controller::sources::resolved_source::SourceKey;
use stator_git::source::model_source::crd::custom_resource_definition;
use stator_git::source::model_source::status::{MAX_POSTED_STATUSES, ModelSourceStatus, PostedStatus};
use std::collections::BTreeSet;
use std::time::Duration;

/// What the API server answers.
async fn ask(client: &kube::Client, method: &str, path: &str, kind: &str, body: &Value) -> Result<Value, String> {
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let request = request.header("accept", "application/json").body(body.to_string().into_bytes()).unwrap();
    client.request::<Value>(request).await.map_err(|error| {
        let kube::Error::Api(status) = error else { panic!("{error}") };
        status.message
    })
}

fn path(namespace: &str) -> String {
    format!("/apis/stator.dev/v1alpha1/namespaces/{namespace}/modelsources")
}

fn source(spec: &Value) -> Value {
    json!({"apiVersion": "stator.dev/v1alpha1", "kind": "ModelSource", "metadata": {"name": "models"}, "spec": spec})
}

/// Whether the API server would take a source, and what it says else.
async fn judged(client: &kube::Client, namespace: &str, source: &Value) -> Result<(), String> {
    let path = format!("{}?dryRun=All&fieldValidation=Strict", path(namespace));
    ask(client, "POST", &path, "application/json", source).await.map(drop)
}

/// A spec that is taken, with fields over it.
fn spec(over: &Value) -> Value {
    let mut spec = json!({"url": "https://git.example.com/team/models.git", "ref": {"branch": "main"}});
    let fields = spec.as_object_mut().unwrap();
    fields.extend(over.as_object().unwrap().clone());
    spec
}

#[tokio::test(flavor = "multi_thread")]
async fn each_rule_is_broken_with_its_own_sentence() {
    let Some(plane) = testbed::shared() else { return };
    let namespace = plane.namespace("source-rules").await;
    let client = plane.admin().await;
    let secret = json!({"name": "keys"});
    let faulty = [
        json!({"allowLocal": true}),
        json!({"url": "http://git.example.com/team/models.git"}),
        json!({"url": "/srv/models.git"}),
        json!({"url": "git@git.example.com:team/models.git"}),
        json!({"url": "https://me:canary@git.example.com/team/models.git"}),
        json!({"url": "https://-x.example.com/team/models.git"}),
        json!({"url": "https://git.example.com/team/../models.git"}),
        json!({"ref": {"branch": "main", "tag": "v1"}}),
        json!({"ref": {"branch": "-upload"}}),
        json!({"ref": {"tag": "v1..2"}}),
        json!({"ref": {"commit": "abc1234"}}),
        json!({"path": "../elsewhere"}),
        json!({"interval": "soon"}),
        json!({"timeout": "9000h"}),
        json!({"schedule": "* * * *"}),
        json!({"schedule": "* * * * *", "timeZone": "Europe/Zürich"}),
        json!({"timeZone": "UTC"}),
        json!({"windows": [{"kind": "deny", "schedule": "never ever", "duration": "1h"}]}),
        json!({"windows": [{"kind": "deny", "schedule": "@daily", "duration": "1y"}]}),
        json!({"windows": [{"kind": "deny", "schedule": "@daily", "duration": "1h", "timeZone": "Mars/Zürich"}]}),
        json!({"webhook": {"secretRef": secret}}),
        json!({"previews": true, "forge": {"type": "gitea"}}),
        json!({"previews": true, "forge": {"type": "gitea", "secretRef": secret}, "ref": {"semver": "1.x"}}),
        json!({"forge": {"type": "gitea", "url": "https://me:canary@git.example.com/"}}),
        json!({"forge": {"type": "gitea", "targetUrl": "javascript:alert('canary')"}}),
        json!({"verify": {"mode": "Tag", "secretRef": secret}}),
    ];
    let mut told = String::new();
    for over in &faulty {
        let refusal = judged(&client, &namespace, &source(&spec(over))).await.unwrap_err();
        // An API server quotes what is wrong, and an address may have a password in it.
        assert!(!refusal.contains("canary"), "{refusal}");
        let refusal = refusal.replace("ModelSource.stator.dev \"models\" is invalid: ", "");
        told.push_str(&format!("{over}\n  {refusal}\n"));
    }
    insta::assert_snapshot!(told, @r#"
    {"allowLocal":true}
      spec: Invalid value: `allowLocal` is only for a file of sources: in a cluster, a path would be on the controller's machine, next to the mirrors of other tenants
    {"url":"http://git.example.com/team/models.git"}
      spec: Invalid value: `url`: `http://` is not encrypted; write `https://`, or set `allowInsecure: true`
    {"url":"/srv/models.git"}
      [spec: Invalid value: `url`: write `https://HOST/PATH`, `ssh://USER@HOST/PATH` or `USER@HOST:PATH`, spec: Invalid value: `url`: the address has no valid host; write it as in `https://git.example.com/team/models.git`, spec: Invalid value: an SSH address needs `secretRef` with a secret that has `identity` and `known_hosts`; for a public repository write the `https://` address]
    {"url":"git@git.example.com:team/models.git"}
      spec: Invalid value: an SSH address needs `secretRef` with a secret that has `identity` and `known_hosts`; for a public repository write the `https://` address
    {"url":"https://me:canary@git.example.com/team/models.git"}
      [spec: Invalid value: `url`: credentials do not belong in the address; put them into the secret that `secretRef` names, spec: Invalid value: `url`: the address has no valid host; write it as in `https://git.example.com/team/models.git`]
    {"url":"https://-x.example.com/team/models.git"}
      [spec: Invalid value: `url`: the address has no valid host; write it as in `https://git.example.com/team/models.git`, spec: Invalid value: `url`: the address has no path to a repository, or one with a space, `..`, `?`, `#`, `%` or an empty part in it]
    {"url":"https://git.example.com/team/../models.git"}
      spec: Invalid value: `url`: the address has no path to a repository, or one with a space, `..`, `?`, `#`, `%` or an empty part in it
    {"ref":{"branch":"main","tag":"v1"}}
      spec.ref: Invalid value: `ref` takes exactly one of `branch`, `tag`, `commit` and `semver`
    {"ref":{"branch":"-upload"}}
      spec.ref.branch: Invalid value: "-upload": it is not a valid branch name: write it as `git branch` does
    {"ref":{"tag":"v1..2"}}
      spec.ref.tag: Invalid value: "v1..2": it is not a valid tag name: write it as `git tag` does
    {"ref":{"commit":"abc1234"}}
      spec.ref.commit: Invalid value: "abc1234": it is not a commit: write all 40 hexadecimal digits
    {"path":"../elsewhere"}
      spec.path: Invalid value: "../elsewhere": `path` leaves the repository, or points into `.git`; write a folder from its root, as `clusters/prod`
    {"interval":"soon"}
      spec.interval: Invalid value: "soon": write a duration from one second to a year, as `30s`, `5m` or `1h30m`
    {"timeout":"9000h"}
      spec.timeout: Invalid value: "9000h": write a duration from one second to a year, as `30s`, `5m` or `1h30m`
    {"schedule":"* * * *"}
      spec.schedule: Invalid value: "* * * *": a schedule has five fields: minute, hour, day of the month, month, day of the week; `*/5 * * * *` is every five minutes
    {"schedule":"* * * * *","timeZone":"Europe/Zürich"}
      spec.timeZone: Invalid value: "Europe/Zürich": it is not a time zone: write its IANA name, such as `Europe/Zurich` or `UTC`
    {"timeZone":"UTC"}
      spec: Invalid value: `timeZone` without a `schedule`; windows have their own time zone
    {"windows":[{"duration":"1h","kind":"deny","schedule":"never ever"}]}
      spec.windows[0].schedule: Invalid value: "never ever": a schedule has five fields: minute, hour, day of the month, month, day of the week; `*/5 * * * *` is every five minutes
    {"windows":[{"duration":"1y","kind":"deny","schedule":"@daily"}]}
      spec.windows[0].duration: Invalid value: "1y": write a duration from one second to a year, as `30s`, `5m` or `1h30m`
    {"windows":[{"duration":"1h","kind":"deny","schedule":"@daily","timeZone":"Mars/Zürich"}]}
      spec.windows[0].timeZone: Invalid value: "Mars/Zürich": it is not a time zone: write its IANA name, such as `Europe/Zurich` or `UTC`
    {"webhook":{"secretRef":{"name":"keys"}}}
      spec: Invalid value: `webhook` without `forge.type`: the host that signs the calls is unknown
    {"forge":{"type":"gitea"},"previews":true}
      spec: Invalid value: `previews` without `forge.secretRef`: comments need a token
    {"forge":{"secretRef":{"name":"keys"},"type":"gitea"},"previews":true,"ref":{"semver":"1.x"}}
      spec: Invalid value: `previews` without `ref.branch`: pull requests need a base branch
    {"forge":{"type":"gitea","url":"https://me:canary@git.example.com/"}}
      spec: Invalid value: `forge.url` is not an `https://` address, or contains credentials; `http://` needs `allowInsecure: true`
    {"forge":{"targetUrl":"javascript:alert('canary')","type":"gitea"}}
      spec.forge: Invalid value: `forge.targetUrl` is not an `https://` or `http://` address, or contains credentials
    {"verify":{"mode":"Tag","secretRef":{"name":"keys"}}}
      spec: Invalid value: `verify` requires a signed tag, but `ref` does not follow a tag: write `ref.tag` or `ref.semver`, or `mode: Head`
    "#);
    let schema = custom_resource_definition();
    let mut unheard: BTreeSet<String> = messages(&schema).into_iter().collect();
    unheard.retain(|message| !told.contains(message.as_str()));
    assert_eq!(unheard, BTreeSet::new(), "a rule that nothing here breaks");
    judged(&client, &namespace, &source(&spec(&json!({})))).await.unwrap();
}

/// The messages of all rules below a value.
fn messages(value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) => {
            let own = map.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
            let own = own.map(|rule| rule["message"].as_str().unwrap().to_owned());
            own.chain(map.values().flat_map(messages)).collect()
        }
        Value::Array(items) => items.iter().flat_map(messages).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// The YAML documents of a block: all of it, or what a console block writes into a file with `<<END`.
fn documents(block: &str) -> Vec<String> {
    let (fence, body) = block.split_once('\n').unwrap_or_default();
    let text = if fence.starts_with("console") {
        let lines = body.lines().map(|line| line.strip_prefix("> ").unwrap_or("---"));
        lines.collect::<Vec<_>>().join("\n")
    } else {
        body.to_owned()
    };
    text.split("---\n").map(str::to_owned).collect()
}

/// Every `ModelSource` that a page shows. What is for a file on one's own machine alone says so.
#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_the_pages_are_taken() {
    let Some(plane) = testbed::shared() else { return };
    let namespace = plane.namespace("source-examples").await;
    let client = plane.admin().await;
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = vec![root.join("README.md")];
    for folder in ["docs", "docs/how-to", "docs/reference"] {
        let entries = fs_err::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        pages.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    let mut taken = 0;
    for page in pages {
        let text = fs_err::read_to_string(&page).unwrap();
        let mut fences = text.split("\n```");
        // Before the first fence is prose, and then every second piece.
        fences.next();
        for block in fences.step_by(2) {
            for document in documents(block) {
                let Ok(Value::Object(mut object)) = serde_saphyr::from_str::<Value>(&document) else { continue };
                if object.get("kind") != Some(&json!("ModelSource")) {
                    continue;
                }
                object["metadata"]["namespace"] = json!(namespace);
                let local = object["spec"]["allowLocal"] == json!(true);
                match judged(&client, &namespace, &Value::Object(object)).await {
                    Ok(()) if !local => taken += 1,
                    Err(refusal) if local && refusal.contains("`allowLocal` is only for a file of sources") => {}
                    judged => panic!("{}: {judged:?}\n{document}", page.display()),
                }
            }
        }
    }
    assert!(taken > 0, "the pages show no source");
}

/// A status as large as one gets.
fn full() -> ModelSourceStatus {
    let long = |length: usize| "\u{10348}".repeat(length);
    let revision =
        |letter: char| Some(TimestampedRevision { commit: letter.to_string().repeat(64), at: Timestamp::UNIX_EPOCH });
    let mut standing = SourceState { seen: revision('a'), attempted: revision('a'), ..SourceState::default() };
    standing.applied = revision('b');
    standing.environment = Some(long(253));
    standing.handled_request = Some(long(5000));
    standing.rejected_requests = [long(5000)].into();
    standing.next_window = Some(Timestamp::UNIX_EPOCH);
    let status = build_status(
        &standing,
        &SourceStatusInput {
            key: &SourceKey::new("default", "models"),
            generation: 1,
            previous: &ModelSourceStatus::default(),
            remarks: &[],
            now: Timestamp::UNIX_EPOCH,
        },
    );
    let one =
        PostedStatus { context: long(255), revision: "a".repeat(64), state: "pending".into(), description: long(1024) };
    ModelSourceStatus { statuses: vec![one; MAX_POSTED_STATUSES], ..status }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_has_a_door_of_its_own_and_is_shown_in_columns() {
    let Some(plane) = testbed::shared() else { return };
    let namespace = plane.namespace("source-status").await;
    let client = plane.admin().await;
    let made = spec(&json!({"ref": {"semver": ">=1.0.0"}, "suspend": false}));
    let object = ask(&client, "POST", &path(&namespace), "application/json", &source(&made)).await.unwrap();
    assert_eq!((&object["metadata"]["generation"], object.get("status")), (&json!(1), None));

    let mut apply = source(&json!({}));
    apply.as_object_mut().unwrap().remove("spec");
    apply["status"] = serde_json::to_value(full()).unwrap();
    let door = format!("{}/models/status?fieldManager=stator-controller&fieldValidation=Strict", path(&namespace));
    let written = ask(&client, "PATCH", &door, "application/apply-patch+yaml", &apply).await.unwrap();
    assert_eq!(ModelSourceStatus::read(&written), full());
    assert_eq!(written["metadata"]["generation"], 1, "a status is no new spec");
    assert!(written.to_string().len() < 100_000, "{}", written.to_string().len());

    // What is applied anew without a field is without it: nobody else owns it.
    let conditions = json!([{"type": "Ready", "status": "False", "reason": "Held", "message": "7 of 9 would go",
        "lastTransitionTime": "2026-11-21T10:00:00Z", "observedGeneration": 1}]);
    apply["status"] = json!({"commit": "abc1234", "models": {"ready": "8/9", "total": 9, "healthy": 8, "notHealthy": 1,
        "drifted": 0}, "environment": "prod", "conditions": conditions});
    let written = ask(&client, "PATCH", &door, "application/apply-patch+yaml", &apply).await.unwrap();
    assert_eq!(written["status"], apply["status"]);
    // The front door does not change it.
    let front = format!("{}/models", path(&namespace));
    let merge = "application/merge-patch+json";
    let left =
        ask(&client, "PATCH", &front, merge, &json!({"status": {"commit": "mine"}, "spec": {"suspend": true}})).await;
    assert_eq!(left.unwrap()["status"]["commit"], "abc1234");
    let wrong = json!({"status": {"conditions": [{"type": "Ready", "status": "Maybe"}]}});
    let refusal = ask(&client, "PATCH", &format!("{front}/status"), merge, &wrong).await.unwrap_err();
    assert!(refusal.contains("supported values: \"True\", \"False\", \"Unknown\""), "{refusal}");

    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let request = Request::get(path(&namespace)).header("accept", accept).body(Vec::new()).unwrap();
    let table: Value = client.request(request).await.unwrap();
    let columns = table["columnDefinitions"].as_array().unwrap();
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    let shown: Vec<String> = columns
        .iter()
        .zip(cells)
        .filter(|(column, _)| column["name"] != "Age")
        .map(|(column, cell)| {
            let wide = if column["priority"] == 0 { "" } else { " (wide)" };
            format!("{}{wide}: {cell}", column["name"].as_str().unwrap())
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    Name: "models"
    URL (wide): "https://git.example.com/team/models.git"
    Ref: ">=1.0.0"
    Environment (wide): "prod"
    Revision: "abc1234"
    Models: "8/9"
    GPUs (wide): null
    Suspended (wide): true
    Ready: "False"
    Status: "7 of 9 would go"
    "#);

    let names = ask(&client, "GET", "/apis/stator.dev/v1alpha1", "application/json", &Value::Null).await.unwrap();
    let resources = names["resources"].as_array().unwrap();
    let own = resources.iter().find(|one| one["name"] == "modelsources").unwrap();
    assert_eq!((&own["shortNames"], &own["categories"]), (&json!(["msrc"]), &json!(["stator"])));
}

/// The definition under another group, so that the other tests go on with theirs.
fn definition(group: &str, change: impl FnOnce(&mut Value)) -> CustomResourceDefinition {
    let mut definition = custom_resource_definition();
    definition["metadata"]["name"] = json!(format!("earliersources.{group}"));
    definition["spec"]["group"] = json!(group);
    // Other tests share the server, and `kubectl get modelsource` is to find stator's own.
    definition["spec"]["names"]["plural"] = json!("earliersources");
    definition["spec"]["names"]["singular"] = json!("earliersource");
    definition["spec"]["names"]["shortNames"] = json!([]);
    definition["spec"]["names"]["categories"] = json!([]);
    change(&mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]);
    serde_json::from_value(definition).unwrap()
}

/// Installs a definition as `kubectl apply --server-side` does, and waits until a source is read and written by it:
/// `known` is a field that only it has, where it has one.
async fn install(client: &kube::Client, definition: &CustomResourceDefinition) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition.metadata.name.clone().unwrap();
    let params = PatchParams::apply("stator-tests").force();
    let applied = api.patch(&name, &params, &Patch::Apply(definition)).await.unwrap();
    let generation = applied.metadata.generation;
    let established = |found: &CustomResourceDefinition| {
        let conditions = found.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let mut faults = conditions.clone().filter(|one| one.type_ == "NonStructuralSchema" && one.status == "True");
        assert!(faults.next().is_none(), "{found:?}");
        conditions
            .filter(|one| ["Established", "NamesAccepted"].contains(&one.type_.as_str()))
            .all(|one| one.status == "True")
            && found.status.as_ref().is_some_and(|status| status.conditions.is_some())
    };
    crate::testbed::say(&format!("{name}: generation {generation:?}"));
    eventually("the definition is established", async || {
        let found = api.get(&name).await.unwrap();
        established(&found).then_some(()).ok_or(move || format!("{found:?}"))
    })
    .await;
}

/// How long a question waits for its answer before it is asked anew: while a definition changes, some get none.
const ANSWERED: Duration = Duration::from_secs(60);

/// Asks until the answer is as it should be: a definition is served a moment after it was taken.
async fn until(
    client: &kube::Client,
    what: (&str, &str, &str, &Value),
    fits: impl Fn(&Result<Value, String>) -> bool,
) -> Value {
    let (method, path, kind, body) = what;
    eventually(&format!("{method} {path} is answered as it should be"), async || {
        let answer = match tokio::time::timeout(ANSWERED, ask(client, method, path, kind, body)).await {
            Ok(answer) => answer,
            Err(_) => Err("no answer".to_owned()),
        };
        if fits(&answer) { Ok(answer.unwrap_or_default()) } else { Err(move || format!("{answer:?}")) }
    })
    .await
}

/// An object that was stored when the definition knew less, and one that was stored when it knew more.
#[tokio::test(flavor = "multi_thread")]
async fn objects_of_another_version_of_the_definition_are_read_and_written() {
    let Some(plane) = testbed::shared() else { return };
    let namespace = plane.namespace("source-upgrade").await;
    let client = plane.admin().await;
    let group = "older.stator.dev";
    // As it was before notifications, self-heal and the counts of models, and without any rule.
    let older = definition(group, |properties| {
        strip(properties);
        let fields = properties["spec"]["properties"].as_object_mut().unwrap();
        ["notifications", "selfHeal", "statusPerModel"].iter().for_each(|name| drop(fields.remove(*name).unwrap()));
        let fields = properties["status"]["properties"].as_object_mut().unwrap();
        ["models", "plan", "held", "nextWindow"].iter().for_each(|name| drop(fields.remove(*name).unwrap()));
    });
    let later = definition(group, |properties| {
        properties["spec"]["properties"]["colour"] = json!({"type": "string"});
        properties["status"]["properties"]["mood"] = json!({"type": "string"});
    });
    let path = format!("/apis/{group}/v1alpha1/namespaces/{namespace}/earliersources");
    let object = |name: &str, spec: &Value| json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "ModelSource", "metadata": {"name": name}, "spec": spec});
    let json = "application/json";
    let merge = "application/merge-patch+json";

    install(&client, &older).await;
    // Taken then, and against a rule of today.
    let old = object("old", &spec(&json!({"timeZone": "UTC", "interval": "90s"})));
    until(&client, ("POST", &path, json, &old), Result::is_ok).await;
    let said = json!({"status": {"commit": "abc1234", "phase": "Idle", "models": {"total": 3}}});
    let kept = until(&client, ("PATCH", &format!("{path}/old/status"), merge, &said), Result::is_ok).await;
    assert_eq!(kept["status"].get("models"), None, "the older definition knows no counts");

    install(&client, &later).await;
    let new = object("new", &spec(&json!({"colour": "green"})));
    until(&client, ("POST", &path, json, &new), |answer| {
        answer.as_ref().is_ok_and(|object| object["spec"]["colour"] == "green")
            || answer.as_ref().is_err_and(|error| error.contains("already exists"))
    })
    .await;
    let said = json!({"status": {"commit": "def5678", "mood": "good"}});
    until(&client, ("PATCH", &format!("{path}/new/status"), merge, &said), Result::is_ok).await;

    install(&client, &definition(group, |_| {})).await;
    // Read: what is not known is not shown, and the rest is.
    let nothing = Value::Null;
    let read = until(&client, ("GET", &format!("{path}/new"), json, &nothing), |answer| {
        answer.as_ref().is_ok_and(|object| object["spec"].get("colour").is_none())
    })
    .await;
    assert_eq!(ModelSourceStatus::read(&read).commit.as_deref(), Some("def5678"));
    let read = until(&client, ("GET", &format!("{path}/old"), json, &nothing), Result::is_ok).await;
    assert_eq!(read["spec"], old["spec"]);
    assert_eq!(ModelSourceStatus::read(&read).phase, "Idle");
    // Written: status, and a spec in which nothing else is touched, though it breaks a rule that came later.
    let status = ModelSourceStatus { phase: "Suspended".into(), ..full() };
    for name in ["old", "new"] {
        let mut apply = object(name, &nothing);
        apply.as_object_mut().unwrap().remove("spec");
        apply["status"] = serde_json::to_value(&status).unwrap();
        let door = format!("{path}/{name}/status?fieldManager=stator-controller&force=true");
        let written = until(&client, ("PATCH", &door, "application/apply-patch+yaml", &apply), Result::is_ok).await;
        assert_eq!(ModelSourceStatus::read(&written), status, "{name}");
        let front = format!("{path}/{name}");
        let asked = json!({"metadata": {"annotations": {"stator.dev/requestedAt": "now"}}});
        until(&client, ("PATCH", &front, merge, &asked), Result::is_ok).await;
    }
    let refused = ask(&client, "PATCH", &format!("{path}/old"), merge, &json!({"spec": {"suspend": true}})).await;
    assert!(refused.unwrap_err().contains("`timeZone` without a `schedule`"), "the rule is told once the spec changes");
    let mended = json!({"spec": {"suspend": true, "timeZone": null}});
    let mended = ask(&client, "PATCH", &format!("{path}/old"), merge, &mended).await.unwrap();
    assert_eq!(mended["spec"]["suspend"], true);
}

/// A schema without its rules.
fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("x-kubernetes-validations");
            map.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What is wrong with a source in a file, as far as an object shows it: what is in secrets, it does not.
fn told_of_a_file(source: &Value) -> Vec<String> {
    let read = file::parse_file("sources.yaml", source.to_string().as_bytes());
    let messages = read.findings.iter().filter(|finding| finding.is_error()).map(|finding| finding.message.clone());
    messages.filter(|message| !message.starts_with("there is no secret")).collect()
}

fn maybe(values: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Option<Value>> {
    prop_oneof![2 => Just(None), 1 => values.prop_map(Some)].boxed()
}

fn texts(known: &'static [&'static str], form: &'static str) -> BoxedStrategy<Value> {
    prop_oneof![3 => prop::sample::select(known).prop_map(|text| json!(text)), 1 => form.prop_map(|text| json!(text))]
        .boxed()
}

fn flags() -> BoxedStrategy<Value> {
    any::<bool>().prop_map(|flag| json!(flag)).boxed()
}

fn secrets() -> BoxedStrategy<Value> {
    texts(&["git", "a.b", "No"], "[a-z.-]{0,4}").prop_map(|name| json!({"name": name})).boxed()
}

fn urls() -> BoxedStrategy<Value> {
    let known: &[&str] = &[
        "https://git.example.com/team/models.git",
        "https://git.example.com:8443/a/b/",
        "ssh://git@h:2222/a.git",
        "git@h:a/b",
        "http://h/a",
        "ssh://[2001:db8::1]:7999/a",
        "https://h.",
        "https://h./a",
        "git@h:/a",
        "h:a//",
        "h:a@b",
        "git:a/b",
        "https://me@h/a",
        "ssh://me:x@h/a",
        "https://h:0/a",
        "https://h:65536/a",
        "https://h:065535/a",
        "https://h/a//b",
        "https://h/-a",
        "git@h:-a",
        "https://h/./a",
        "h:.",
        "https://h/a%20b",
        "ext::sh",
        "git://h/a",
        "https://h/ä",
    ];
    texts(Box::leak(known.to_vec().into_boxed_slice()), "(https|http|ssh|git)(://|:|::)[a-c.@:/?#%_ -]{0,9}")
}

fn references() -> BoxedStrategy<Value> {
    let names = || {
        texts(
            &["main", "feature/x", "v1.0.0", "a.lock", "a.lockx", "@", "a@{b", "ümlaut"],
            "[ab./@{~^:?*\\[\\\\ -]{1,6}",
        )
    };
    let commits = texts(
        &["0123456789abcdef0123456789abcdef01234567", "0123abc", "G123456789abcdef0123456789abcdef01234567"],
        "[0-9a-f]{39,41}",
    );
    let one = prop_oneof![
        names().prop_map(|name| json!({"branch": name})),
        names().prop_map(|name| json!({"tag": name})),
        commits.prop_map(|commit| json!({"commit": commit})),
        Just(json!({"semver": ">=1.0.0 <2.0.0"})),
    ];
    prop_oneof![
        12 => one,
        1 => Just(json!({})),
        1 => names().prop_map(|name| json!({"branch": name, "semver": "1.x"})),
        1 => Just(json!({"head": "main"})),
    ]
    .boxed()
}

fn durations() -> BoxedStrategy<Value> {
    texts(
        &["1m", "90s", "1h30m", "1500ms", "8784h", "8785h", "999ms", "0s", "1.5h", "1.5h1m"],
        "[0-9]{0,2}(h|m|s|ms|d|.5s| )([0-9]{1,3}(h|m|s|ms|w))?",
    )
}

/// Whether a schedule has five fields can be told; what is in them can not.
fn schedules() -> BoxedStrategy<Value> {
    prop::sample::select(vec![
        "*/5 * * * *",
        "0 18 * * mon-fri",
        " @daily ",
        "@hourly",
        "* * * *",
        "* * * * * *",
        "? * * * *",
        "@never",
    ])
    .prop_map(|text| json!(text))
    .boxed()
}

fn zones() -> BoxedStrategy<Value> {
    prop::sample::select(vec![
        "UTC",
        "Europe/Zurich",
        "America/Argentina/Ushuaia",
        "Etc/GMT+1",
        "Europe/Zürich",
        "",
        "Europe/",
    ])
    .prop_map(|text| json!(text))
    .boxed()
}

fn map(fields: Vec<(&'static str, BoxedStrategy<Option<Value>>)>) -> BoxedStrategy<Value> {
    let (names, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
    values
        .prop_map(move |values| {
            let given = names.iter().zip(values).filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
            Value::Object(given.collect())
        })
        .boxed()
}

fn always(values: BoxedStrategy<Value>) -> BoxedStrategy<Option<Value>> {
    values.prop_map(Some).boxed()
}

fn words(words: &'static [&'static str]) -> BoxedStrategy<Value> {
    prop::sample::select(words).prop_map(|word| json!(word)).boxed()
}

fn specs() -> BoxedStrategy<Value> {
    let pages: &[&str] = &["https://h/a?b#c", "http://h", "javascript:alert(1)", "https://me@h/", "ftp://h/"];
    let forge = map(vec![
        ("type", always(words(&["github", "gitlab", "gitea", "bitbucket", "azure", "GitHub"]))),
        ("url", maybe(words(Box::leak(pages.to_vec().into_boxed_slice())))),
        ("secretRef", maybe(secrets())),
        ("context", maybe(texts(&["stator"], "[a-z]{0,3}"))),
        ("targetUrl", maybe(words(Box::leak(pages.to_vec().into_boxed_slice())))),
    ]);
    let window = map(vec![
        ("kind", always(words(&["allow", "deny", "deny", "close"]))),
        ("schedule", always(schedules())),
        ("duration", always(durations())),
        ("timeZone", maybe(zones())),
    ]);
    let events = prop::collection::vec(prop::sample::select(vec!["synced", "failed", "held", "Held"]), 0..3);
    let notification = (words(&["slack", "webhook", "mail"]), secrets(), events)
        .prop_map(|(kind, secret, events)| json!({"type": kind, "secretRef": secret, "events": events}));
    map(vec![
        ("url", always(urls())),
        ("ref", always(references())),
        ("allowInsecure", maybe(flags())),
        ("path", maybe(texts(&[".", "a/b", "./a/", "a//b", "..", "a/.git", "a/..b"], "[ab./\\\\]{1,5}"))),
        ("environment", maybe(texts(&["prod", "Prod", "9a"], "[a-z9-]{1,4}"))),
        ("interval", maybe(durations())),
        ("timeout", maybe(durations())),
        ("schedule", maybe(schedules())),
        ("timeZone", maybe(zones())),
        ("secretRef", maybe(secrets())),
        ("forge", maybe(forge)),
        ("webhook", maybe(secrets().prop_map(|secret| json!({"secretRef": secret})))),
        ("previews", maybe(flags())),
        (
            "verify",
            maybe(
                (words(&["Head", "HEAD", "Tag", "TagAndHEAD", "tag"]), secrets())
                    .prop_map(|(mode, secret)| json!({"mode": mode, "secretRef": secret})),
            ),
        ),
        ("targetNamespace", maybe(texts(&["models", "a_b"], "[a-z-]{1,3}"))),
        ("prune", maybe(flags())),
        ("selfHeal", maybe(flags())),
        ("guards", maybe((-1_i64..12_000_000).prop_map(|most| json!({"maxGpus": most})))),
        ("windows", maybe(prop::collection::vec(window, 0..3).prop_map(Value::Array))),
        ("notifications", maybe(prop::collection::vec(notification, 0..3).prop_map(Value::Array))),
        ("colour", prop_oneof![30 => Just(None), 1 => Just(Some(json!("green")))].boxed()),
    ])
}

/// A source is no other one in a file than in a cluster.
#[test]
fn a_file_and_a_cluster_take_the_same_sources() {
    let Some(plane) = testbed::shared() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let namespace = runtime.block_on(plane.namespace("source-property"));
    let client = runtime.block_on(plane.admin());
    let counts = std::cell::Cell::new((0, 0));
    let judge = |spec: &Value| {
        let source = source(spec);
        let cluster = runtime.block_on(judged(&client, &namespace, &source));
        let file = told_of_a_file(&source);
        let (taken, refused) = counts.get();
        counts.set(if cluster.is_ok() { (taken + 1, refused) } else { (taken, refused + 1) });
        prop_assert_eq!(cluster.is_ok(), file.is_empty(), "{}\ncluster: {:?}\nfile: {:?}", source, cluster, file);
        Ok(())
    };
    let config = Config { failure_persistence: None, ..Config::default() };
    let runs = |cases: u32| TestRunner::new(Config { cases, ..config.clone() });
    let one = |name: &'static str, values: BoxedStrategy<Value>, more: Value| {
        let strategy = values.prop_map(move |value| {
            let mut spec = spec(&more);
            spec[name] = value;
            spec
        });
        runs(config.cases).run(&strategy, |spec| judge(&spec)).unwrap_or_else(|error| panic!("{name}: {error}"));
    };
    // One field at a time, so that no other fault hides it, and then all together.
    one("url", urls(), json!({"secretRef": {"name": "git"}, "allowInsecure": true}));
    one("url", urls(), json!({}));
    one("ref", references(), json!({}));
    one("interval", durations(), json!({}));
    runs(config.cases * 2).run(&specs(), |spec| judge(&spec)).unwrap_or_else(|error| panic!("{error}"));
    let (taken, refused) = counts.get();
    assert!(taken > 100 && refused > 100, "{taken} taken, {refused} refused");
}
