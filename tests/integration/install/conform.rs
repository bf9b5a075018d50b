//! What the chart makes is what the API server's own schemas say, unknown fields refused.

use super::{rendered, values};
use crate::testbed;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// Every kind of the API server, as one file each: `deployment-apps-v1.json`.
fn schemas(openapi: &Value, folder: &Path) {
    let mut definitions = openapi["definitions"].clone();
    for (name, definition) in definitions.as_object_mut().unwrap() {
        if name.ends_with(".api.resource.Quantity") {
            *definition = json!({"type": ["string", "number"]});
        }
        strict(definition);
    }
    for (name, definition) in openapi["definitions"].as_object().unwrap() {
        for kind in definition["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
            let text = |key: &str| kind[key].as_str().unwrap_or_default().to_lowercase();
            let group = match text("group") {
                group if group.is_empty() => String::new(),
                group => format!("-{}", group.split('.').next().unwrap_or_default()),
            };
            let file = format!("{}{group}-{}.json", text("kind"), text("version"));
            // Options of requests are of every group, and are no objects.
            if text("kind").ends_with("options") || text("kind") == "watchevent" {
                continue;
            }
            let used = json!({"$ref": format!("#/definitions/{name}"), "definitions": reached(&definitions, name)});
            fs_err::write(folder.join(file), used.to_string()).unwrap();
        }
    }
}

/// The definitions that one needs.
fn reached(all: &Value, name: &str) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let mut open = vec![name.to_owned()];
    while let Some(name) = open.pop() {
        if found.contains_key(&name) {
            continue;
        }
        references(&all[&name], &mut open);
        found.insert(name.clone(), all[&name].clone());
    }
    found
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            found.extend(
                map.get("$ref").and_then(Value::as_str).and_then(|path| Some(path.rsplit_once('/')?.1.to_owned())),
            );
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Refuses what is not named, and takes either form where Kubernetes does.
fn strict(value: &mut Value) {
    let Some(map) = value.as_object_mut() else { return };
    if map.get("format").is_some_and(|format| format == "int-or-string") {
        map.remove("format");
        map.insert("type".to_owned(), json!(["string", "integer"]));
    }
    if map.contains_key("properties") && !map.contains_key("additionalProperties") {
        map.insert("additionalProperties".to_owned(), json!(false));
    }
    for key in ["properties", "definitions"] {
        map.get_mut(key).and_then(Value::as_object_mut).into_iter().flat_map(|all| all.values_mut()).for_each(strict);
    }
    for key in ["items", "additionalProperties"] {
        map.get_mut(key).into_iter().for_each(strict);
    }
}

/// Runs kubeconform. Gives whether it is content, and what it says.
fn judged(program: &Path, folders: &[&Path], manifests: &str) -> (bool, String) {
    let mut command = Command::new(program);
    command.args(["-strict", "-summary", "-output", "text"]);
    for folder in folders {
        let place = folder.join("{{.ResourceKind}}{{.KindSuffix}}.json");
        command.arg("-schema-location").arg(place);
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut input, text) = (child.stdin.take().unwrap(), manifests.to_owned());
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut input, text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_it_makes_follows_the_schemas() {
    let (Some(program), Some(plane)) = (testbed::kubeconform(), testbed::shared()) else { return };
    let request = http::Request::get("/openapi/v2").header("Accept", "application/json").body(Vec::new()).unwrap();
    let openapi: Value = plane.admin().await.request(request).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    schemas(&openapi, folder.path());
    // Kinds that others define are in the data: those fields of them that are used.
    let others = super::at("tests/data/chart");
    let folders = [folder.path(), others.as_path()];
    for name in ["", "ha", "namespaced", "everything"] {
        let file = values(name);
        let arguments: &[&str] = if name.is_empty() { &[] } else { &["--values", file.to_str().unwrap()] };
        let Some(manifests) = rendered(arguments) else { return };
        let (good, said) = judged(program, &folders, &manifests);
        assert!(good && said.contains("Skipped: 0"), "{name}: {said}");
    }
    // The check can say no, to what is missing and to what nobody knows.
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {replicas: 1, replica: 2}\n";
    let (good, said) = judged(program, &folders, deployment);
    assert!(!good && said.contains("replica") && said.contains("selector"), "{said}");
    let policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: x}\nspec: {egres: []}\n";
    assert!(!judged(program, &folders, policy).0);
    let monitor =
        "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: x}\nspec: {endpoints: []}\n";
    assert!(!judged(program, &folders, monitor).0);
}
