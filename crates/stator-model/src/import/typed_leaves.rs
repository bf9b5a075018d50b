//! How many leaves of manifests have a field with a meaning of its own.

use super::{FieldCoverage, shell};
use crate::intent::model::Model;
use crate::render::engine;
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

/// What a command line says: a flag with its value is one leaf, and so is every other word; in a script that a shell runs,
/// everything that is no flag is one leaf together. `named` are names of flags and fields, which say where the value of a
/// field stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LineLeaves {
    named: usize,
    written: usize,
}

fn line_leaves(command: &[String], args: &[String]) -> LineLeaves {
    let mut found = LineLeaves::default();
    let mut is_value = false;
    for item in command.iter().chain(args) {
        let names = engine::flag_names(item);
        found.named = found.named.saturating_add(names.len());
        if engine::only_flag_names(item).is_some() {
            is_value = false;
        } else if item.contains(char::is_whitespace) && !item.trim_start().starts_with(['{', '[']) {
            let mut script = item.clone();
            names.iter().rev().for_each(|name| script.replace_range(name.range.clone(), ""));
            let words = shell::split_words(&script);
            let flags = words.iter().filter(|word| is_flag(&word.text)).count();
            // The name of a field stands behind its flag.
            let fields = field_names(&script).min(flags);
            found.named = found.named.saturating_add(fields);
            found.written = found.written.saturating_add(flags.saturating_sub(fields)).saturating_add(1);
            is_value = false;
        } else if is_flag(item) {
            found.written = found.written.saturating_add(1);
            is_value = !item.contains('=');
        } else {
            // A name of a field beside its flag is the flag's value.
            let is_name = item.starts_with('<') && item.ends_with('>');
            if is_name && is_value {
                found.named = found.named.saturating_add(1);
                found.written = found.written.saturating_sub(1);
            } else if !is_value {
                found.written = found.written.saturating_add(1);
            }
            is_value = false;
        }
    }
    found
}

/// How many names of fields, such as `<maxLength>`, a script has.
fn field_names(script: &str) -> usize {
    let parts = script.split('<').skip(1).filter_map(|part| part.split_once('>'));
    parts.filter(|(name, _)| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic())).count()
}

fn is_flag(word: &str) -> bool {
    word.starts_with('-') && word.len() > 1 && word.parse::<f64>().is_err()
}

/// Leaves of a manifest, its command lines by their flags.
fn manifest_leaves(value: &Value) -> usize {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let texts = |field: &str| -> Option<Vec<String>> {
                map.get(field)?.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
            };
            let lines = (texts("command"), texts("args"));
            let of_lines = match &lines {
                (None, None) => 0,
                (command, args) => {
                    let (command, args) = (command.as_deref().unwrap_or_default(), args.as_deref().unwrap_or_default());
                    let leaves = line_leaves(command, args);
                    leaves.named.saturating_add(leaves.written)
                }
            };
            let is_line =
                |field: &str| (field == "command" && lines.0.is_some()) || (field == "args" && lines.1.is_some());
            let rest = map.iter().filter(|(field, _)| !is_line(field)).map(|(_, below)| manifest_leaves(below));
            of_lines.saturating_add(rest.sum())
        }
        Value::Array(items) if !items.is_empty() => items.iter().map(manifest_leaves).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => 1,
    }
}

/// How many leaves the targets and the Jobs that became `weights` have, and how many of them a model has in `command`, `args`,
/// `template`, `overrides`, `manifests` and files. An argument that names a field (`<model>`) or a flag (`<--model>`) says where the value of that field stands,
/// and counts as the field.
pub fn measure_coverage(model: &Model, targets: &[Value], downloads: &[Value]) -> FieldCoverage {
    let spec = &model.spec;
    let mut templates: Vec<&Map<String, Value>> = Vec::new();
    let mut written = 0_usize;
    let mut count_line = |command: &[String], args: &[String]| {
        written = written.saturating_add(line_leaves(command, args).written);
    };
    if let Some(serving) = &spec.serving {
        if let Some(frontend) = &serving.frontend {
            templates.extend(&frontend.template);
            count_line(frontend.command.as_deref().unwrap_or_default(), &frontend.args);
        }
        for (_, worker) in serving.workers() {
            templates.extend(&worker.template);
            count_line(worker.command.as_deref().unwrap_or_default(), &worker.args);
        }
    }
    for component in spec.components.values() {
        templates.extend(&component.template);
        count_line(&component.command, &component.args);
    }
    let count =
        |map: &Map<String, Value>| if map.is_empty() { 0 } else { count_leaves(&json!(map)) - count_name_leaves(map) };
    let contents = spec.manifests.iter().flat_map(|one| [&one.spec, &one.data, &one.binary_data]).flatten();
    let unmapped: usize = templates.into_iter().map(count).sum::<usize>()
        + spec.overrides.iter().map(|one| count(&one.merge) + one.remove.len()).sum::<usize>()
        + contents.map(count).sum::<usize>()
        + spec.files.len()
        + written;
    let all = targets.iter().chain(downloads);
    let leaves = all.map(|target| manifest_leaves(&equivalence::normalize_document(target))).sum();
    FieldCoverage { leaves, unmapped }
}
