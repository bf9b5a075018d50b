//! How many leaves of manifests have a field with a meaning of its own.

use super::FieldCoverage;
use crate::intent::model::Model;
use serde_json::{Map, Value, json};
use stator_core::dynamo::equivalence;
use stator_core::dynamo::registry::MAIN_CONTAINER;

/// How many leaves a value has: scalars, and maps and lists that are empty.
pub fn count_leaves(value: &Value) -> usize {
    match value {
        Value::Object(map) if !map.is_empty() => map.values().map(count_leaves).sum(),
        Value::Array(items) if !items.is_empty() => items.iter().map(count_leaves).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => 1,
    }
}

/// How many leaves of a partial map only say which item is meant: the name of a component, and that of `main`.
fn count_name_leaves(map: &Map<String, Value>) -> usize {
    let items = |field: &str, below: &Value| {
        let list = below.as_array().into_iter().flatten();
        list.filter(|item| item.get("name").is_some_and(|name| field == "components" || name == MAIN_CONTAINER)).count()
    };
    map.iter()
        .map(|(field, below)| {
            let here = if matches!(field.as_str(), "components" | "containers") { items(field, below) } else { 0 };
            let inside = match below {
                Value::Object(map) => count_name_leaves(map),
                Value::Array(items) => items.iter().filter_map(Value::as_object).map(count_name_leaves).sum(),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
            };
            here + inside
        })
        .sum()
}

/// How many of the targets' leaves there are, and how many a model has in `command`, `args`, `template`, `overrides` and
/// `manifests`. An argument that names a field (`<model>`) says where the value of that field stands, and counts as the field.
pub fn measure_coverage(model: &Model, targets: &[Value]) -> FieldCoverage {
    let spec = &model.spec;
    let mut templates: Vec<&Map<String, Value>> = Vec::new();
    let mut words: Vec<&String> = Vec::new();
    if let Some(serving) = &spec.serving {
        if let Some(frontend) = &serving.frontend {
            templates.extend(&frontend.template);
            words.extend(frontend.command.iter().flatten().chain(&frontend.args));
        }
        for (_, worker) in serving.workers() {
            templates.extend(&worker.template);
            words.extend(worker.command.iter().flatten().chain(&worker.args));
        }
    }
    for component in spec.components.values() {
        templates.extend(&component.template);
        words.extend(component.command.iter().chain(&component.args));
    }
    let count =
        |map: &Map<String, Value>| if map.is_empty() { 0 } else { count_leaves(&json!(map)) - count_name_leaves(map) };
    let contents = spec.manifests.iter().flat_map(|one| [&one.spec, &one.data, &one.binary_data]).flatten();
    let names_a_field =
        |word: &&&String| word.starts_with('<') && word.ends_with('>') && !word.contains(char::is_whitespace);
    let unmapped: usize = templates.into_iter().map(count).sum::<usize>()
        + spec.overrides.iter().map(|one| count(&one.merge) + one.remove.len()).sum::<usize>()
        + contents.map(count).sum::<usize>()
        + words.iter().filter(|word| !names_a_field(word)).count();
    let leaves = targets.iter().map(|target| count_leaves(&equivalence::normalize_document(target))).sum();
    FieldCoverage { leaves, unmapped }
}
