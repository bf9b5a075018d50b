//! The kustomizations make the objects that the chart makes.
//!
//! `STATOR_BLESS=1` writes what is taken over from the chart: all objects of the base, and those that an overlay adds. What
//! an overlay changes is written by hand, in its patches.

use super::{at, called, objects, rendered, values};
use crate::testbed;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// An object without what only Helm has.
fn plain(mut object: Value) -> Value {
    for (path, names) in [
        ("/metadata/labels", &["helm.sh/chart", "app.kubernetes.io/managed-by"][..]),
        ("/metadata/annotations", &["helm.sh/resource-policy"][..]),
    ] {
        if let Some(map) = object.pointer_mut(path).and_then(Value::as_object_mut) {
            names.iter().for_each(|name| drop(map.remove(*name)));
        }
    }
    if object.pointer("/metadata/annotations").is_some_and(|map| map.as_object().is_none_or(serde_json::Map::is_empty))
        && let Some(metadata) = object["metadata"].as_object_mut()
    {
        metadata.remove("annotations");
    }
    object
}

fn by_name(text: &str) -> BTreeMap<String, Value> {
    objects(text).into_iter().map(|object| (called(&object), plain(object))).collect()
}

fn of_chart(name: &str) -> Option<BTreeMap<String, Value>> {
    let file = values(name);
    let arguments: &[&str] = if name.is_empty() { &[] } else { &["--values", file.to_str().unwrap()] };
    rendered(arguments).map(|text| by_name(&text))
}

/// What `kubectl kustomize` makes; the namespace, which a chart never makes, is looked at by itself.
fn of_kustomization(folder: &str) -> Option<BTreeMap<String, Value>> {
    let mut command = Command::new(testbed::kubectl()?);
    let output = command.arg("kustomize").arg(at("deploy/kustomize").join(folder)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut made = by_name(&String::from_utf8(output.stdout).unwrap());
    let namespace = made.remove("Namespace /stator-system").expect("the namespace");
    assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
    Some(made)
}

fn write(file: &str, objects: Vec<&Value>) {
    let mut text = "# Of the chart: `STATOR_BLESS=1 cargo test --test integration install::` writes this.\n".to_owned();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(object).unwrap());
    }
    fs_err::write(at("deploy/kustomize").join(file), text).unwrap();
}

#[test]
fn they_make_what_the_chart_makes() {
    let Some(base) = of_chart("") else { return };
    let overlays = [("ha", of_chart("ha").unwrap()), ("namespaced", of_chart("namespaced").unwrap())];
    if std::env::var("STATOR_BLESS").is_ok_and(|value| value == "1") {
        let definition = |name: &str| name.starts_with("CustomResourceDefinition ");
        let take = |wanted: &dyn Fn(&str) -> bool, all: &BTreeMap<String, Value>| -> Vec<Value> {
            all.iter().filter(|(name, _)| wanted(name)).map(|(_, object)| object.clone()).collect()
        };
        write("base/crds.yaml", take(&definition, &base).iter().collect());
        write("base/stator.yaml", take(&|name| !definition(name), &base).iter().collect());
        for (name, all) in &overlays {
            let added = take(&|name| !base.contains_key(name), all);
            write(&format!("overlays/{name}/added.yaml"), added.iter().collect());
        }
    }
    let Some(made) = of_kustomization("base") else { return };
    differ("base", &base, &made);
    for (name, expected) in &overlays {
        differ(name, expected, &of_kustomization(&format!("overlays/{name}")).unwrap());
    }
}

fn differ(what: &str, chart: &BTreeMap<String, Value>, kustomization: &BTreeMap<String, Value>) {
    let names = |of: &BTreeMap<String, Value>| of.keys().cloned().collect::<Vec<String>>();
    assert_eq!(names(chart), names(kustomization), "{what}");
    for (name, object) in chart {
        same(what, name, object, &kustomization[name]);
    }
}

fn same(what: &str, name: &str, chart: &Value, kustomization: &Value) {
    let (left, right) = (format!("{chart:#}"), format!("{kustomization:#}"));
    assert!(
        left == right,
        "{what}: {name}\n{}",
        stator_model::present::patch::unified_diff(("chart", &left), ("kustomization", &right))
    );
}
