//! The generator itself is held to the schema: a field or a word that is never generated is a field that no law covers.

use super::valid;
use crate::intent::schema::{SchemaKind, document_schema};
use crate::intent::validate::validate_model;
use crate::render::render;
use crate::render::tests::{of_model, target};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;
use stator_core::finding::Finding;
use std::collections::BTreeSet;

/// The same models in every run: what has to be covered must not depend on luck.
fn models(count: usize) -> Vec<crate::intent::model::Model> {
    let seed = [7; 32];
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = valid();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

/// Every field and every word that the schema knows, as `Type.field` and `Type=word`.
fn declared(schema: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let definitions = schema["definitions"].as_object().unwrap();
    for (name, definition) in definitions {
        names.extend(properties(definition).map(|field| format!("{name}.{field}")));
        names.extend(words(definition).map(|word| format!("{name}={word}")));
    }
    names
}

fn properties(schema: &Value) -> impl Iterator<Item = &String> {
    schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys())
}

fn words(schema: &Value) -> impl Iterator<Item = &str> {
    let listed = schema["enum"].as_array().into_iter().flatten();
    let branches = schema["oneOf"].as_array().into_iter().flatten().map(|branch| &branch["const"]);
    listed.chain(branches).filter_map(Value::as_str)
}

/// Adds what a value uses of a schema.
fn used(root: &Value, name: &str, schema: &Value, value: &Value, found: &mut BTreeSet<String>) {
    if let Some(target) = schema["$ref"].as_str() {
        let name = target.rsplit('/').next().unwrap();
        return used(root, name, &root["definitions"][name], value, found);
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        used(root, name, part, value, found);
    }
    for branch in schema["anyOf"].as_array().into_iter().flatten().filter(|branch| fits(root, branch, value)) {
        used(root, name, branch, value, found);
    }
    found.extend(words(schema).filter(|word| Some(*word) == value.as_str()).map(|word| format!("{name}={word}")));
    for (key, below) in value.as_object().into_iter().flatten() {
        let field = &schema["properties"][key];
        if !field.is_null() {
            found.insert(format!("{name}.{key}"));
            used(root, "", field, below, found);
        }
        for free in schema["patternProperties"].as_object().into_iter().flat_map(|patterns| patterns.values()) {
            used(root, "", free, below, found);
        }
    }
    for item in value.as_array().into_iter().flatten() {
        used(root, "", &schema["items"], item, found);
    }
}

/// Whether a value is of this branch: a map by its fields, everything else by what it is.
fn fits(root: &Value, branch: &Value, value: &Value) -> bool {
    if let Some(target) = branch["$ref"].as_str().or_else(|| branch["allOf"][0]["$ref"].as_str()) {
        return fits(root, &root["definitions"][target.rsplit('/').next().unwrap()], value);
    }
    match value.as_object() {
        Some(map) => map.keys().all(|key| !branch["properties"][key].is_null()),
        None => !branch["properties"].is_object(),
    }
}

#[test]
fn every_field_and_every_word_of_the_schema_is_generated() {
    let schema = document_schema(SchemaKind::Intent);
    let mut found = BTreeSet::new();
    for model in models(700) {
        let value = serde_json::to_value(&model).unwrap();
        used(&schema, "Model", &schema, &value, &mut found);
    }
    let declared = declared(&schema);
    assert!(declared.contains("Worker.nodes") && declared.contains("RouterMode=kv"), "the schema was not read");
    let missed: Vec<String> = declared.difference(&found).cloned().collect();
    assert!(missed.is_empty(), "never generated: {missed:#?}");
}

#[test]
fn what_is_called_valid_is_valid_and_renders() {
    for model in models(300) {
        let intent = of_model(model);
        let faults: Vec<Finding> = validate_model(&intent.model, &intent.origins, target().platform.release())
            .into_iter()
            .chain(render(&intent, &target()).findings)
            .filter(Finding::is_error)
            .collect();
        assert!(faults.is_empty(), "{:#?}\n{faults:#?}", intent.model);
    }
}
