//! The table against the definitions that Dynamo ships.

use super::definitions::{document_of, take_back};
use super::*;
use crate::fields;
use serde_json::{Value, json};

/// The definitions of 1.2 and 1.5 that both releases bundle.
fn in_both() -> Vec<(&'static str, &'static str)> {
    let kinds = fields::bundled_kinds();
    kinds.filter(|(version, kind)| fields::bundled_document("1.2", version, kind).is_some()).collect()
}

/// A schema without the order of what has none, and without the rules that a later release removed.
fn comparable(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let removed = |rule: &Value| {
                CHANGES
                    .iter()
                    .any(|row| matches!(row.change, Change::RuleRemoved(message) if rule["message"] == message))
            };
            let mut fields = serde_json::Map::new();
            for (name, value) in map {
                let value = match (name.as_str(), value) {
                    ("x-kubernetes-validations", Value::Array(rules)) => {
                        rules.iter().filter(|rule| !removed(rule)).cloned().collect()
                    }
                    ("required" | "enum", Value::Array(items)) => {
                        let mut items = items.clone();
                        items.sort_by_key(ToString::to_string);
                        Value::Array(items)
                    }
                    _ => comparable(value),
                };
                if value != json!([]) {
                    fields.insert(name.clone(), value);
                }
            }
            Value::Object(fields)
        }
        Value::Array(items) => items.iter().map(comparable).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn differences(one: &Value, other: &Value, at: &str, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            for name in one.keys().chain(other.keys().filter(|name| !one.contains_key(*name))) {
                let (a, b) = (one.get(name).unwrap_or(&Value::Null), other.get(name).unwrap_or(&Value::Null));
                differences(a, b, &format!("{at}/{name}"), found);
            }
        }
        (one, other) if one == other => {}
        (one, other) => found.push(format!("{at}: {one} is not {other}").chars().take(300).collect()),
    }
}

#[test]
fn the_definitions_of_the_oldest_release_follow_from_the_newest_and_the_table() {
    let kinds = in_both();
    assert!(kinds.len() >= 7, "{kinds:?}");
    for (api_version, kind) in kinds {
        let oldest = fields::bundled_document("1.2", api_version, kind).unwrap();
        let mut newest = fields::bundled_document("1.5", api_version, kind).unwrap();
        take_back(&mut newest.openapi, Release::V1_2, kind);
        let mut found = Vec::new();
        differences(&comparable(&newest.openapi), &comparable(&oldest.openapi), "", &mut found);
        assert_eq!(found, Vec::<String>::new(), "{kind} at {api_version}");
    }
}

#[test]
fn every_row_of_the_table_is_about_something_that_the_definitions_have() {
    let texts: Vec<String> = fields::bundled_kinds()
        .flat_map(|(version, kind)| ["1.2", "1.5"].map(|release| fields::bundled_document(release, version, kind)))
        .flatten()
        .map(|document| document.openapi.to_string())
        .collect();
    let known = |text: &str| texts.iter().any(|schema| schema.contains(&serde_json::to_string(text).unwrap()));
    for row in CHANGES {
        let names = match row.change {
            Change::Field(_, path) | Change::MaxLength(path) => path.split('.').collect::<Vec<_>>(),
            Change::Rule(message) | Change::RuleRemoved(message) => vec![message],
            Change::Required(path, name)
            | Change::Optional(path, name)
            | Change::Value(path, name)
            | Change::DefaultRemoved(path, name) => path.split('.').chain([name]).collect(),
        };
        assert!(names.iter().all(|name| known(name)), "{row:?}");
        assert!(Release::KNOWN[1..].contains(&row.since), "{row:?}");
    }
    assert!(Behaviour::ALL.iter().all(|behaviour| Release::KNOWN[1..].contains(&behaviour.since())));
}

#[test]
fn a_cluster_is_known_by_the_definitions_that_it_serves() {
    let serve = |change: &dyn Fn(&mut Value), release: Release| {
        let graph = |version: &str| {
            let mut openapi =
                document_of(release, &format!("nvidia.com/{version}"), "DynamoGraphDeployment").unwrap().openapi;
            change(&mut openapi);
            json!({"name": version, "served": true, "schema": {"openAPIV3Schema": openapi}})
        };
        let definition = json!({
            "metadata": {"name": "dynamographdeployments.nvidia.com", "uid": "u", "resourceVersion": "7"},
            "spec": {"group": "nvidia.com", "names": {"kind": "DynamoGraphDeployment"}, "versions": [graph("v1alpha1"), graph("v1beta1")]},
        });
        Definitions::from_served(&[definition]).unwrap()
    };
    for release in Release::KNOWN {
        let served = serve(&|_| {}, release);
        assert_eq!(served.release(), release);
        assert!(served.are_served() && served.are_of(&[json!({"metadata": {"uid": "u", "resourceVersion": "7"}})]));
        assert!(!served.are_of(&[json!({"metadata": {"uid": "u", "resourceVersion": "8"}})]));
    }
    let newer =
        serve(&|schema| schema["properties"]["spec"]["properties"]["roles"] = json!({"type": "object"}), Release::V1_5);
    assert_eq!(newer.release(), Release::Newer);
    assert_eq!(
        Definitions::from_served(&[json!({"metadata": {"name": "x"}})]),
        Err(DefinitionsError::Malformed("x".to_owned()))
    );
    assert_eq!(Definitions::from_served(&[]), Err(DefinitionsError::NoGraphs));
}

#[test]
fn a_release_is_read_from_what_people_write() {
    let read = |text: &str| text.parse::<Release>().map_err(|error| error.to_string());
    assert_eq!(read("1.4"), Ok(Release::V1_4));
    assert_eq!(read("v1.4.1"), Ok(Release::V1_4));
    assert_eq!(read("1.6"), Ok(Release::Newer));
    assert_eq!(read("2.0"), Ok(Release::Newer));
    for text in ["", "1", "1.", "1.x", "1.4-rc1", "1.4.1.2", "latest", "99999999999.1", "+1.4"] {
        assert!(read(text).unwrap_err().contains("is not a release of Dynamo"), "{text}");
    }
    assert_eq!(
        read("1.1"),
        Err("Dynamo 1.1 is not supported; the oldest release that stator works with is 1.2".to_owned())
    );
    assert!(Release::KNOWN.iter().all(|release| release.as_str().parse() == Ok(*release)));
    assert!(Release::KNOWN.is_sorted() && Release::V1_5 < Release::Newer);
}

#[test]
fn a_field_is_dated_by_the_table() {
    let dated = |path: &[&str]| release_of_field("DynamoGraphDeployment", path);
    assert_eq!(dated(&["spec", "components", "minAvailable"]), Some(Release::V1_3));
    assert_eq!(dated(&["spec", "components", "experimental", "checkpoint", "job", "podTemplate"]), Some(Release::V1_3));
    assert_eq!(dated(&["spec", "priorityClassName"]), Some(Release::V1_3));
    assert_eq!(dated(&["spec", "components", "podTemplate", "spec", "priorityClassName"]), None);
    assert_eq!(dated(&["spec", "components", "experimental"]), None);
    assert_eq!(dated(&["spec", "components", "nonsense"]), None);
}
