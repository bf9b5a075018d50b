//! `{append, prepend, remove}` in place of a list: what a layer adds to the list of the weaker ones, and takes from it.

use super::yaml::{YamlEntry, YamlNode, YamlSpan, YamlValue};
use serde_json::Value;

/// The fields of an edit.
pub const FIELDS: [&str; 3] = ["append", "prepend", "remove"];

/// Whether a map that stands in place of a list is meant as an edit of it.
pub fn is_edit<P>(entries: &[YamlEntry<P>]) -> bool {
    entries.iter().any(|entry| FIELDS.contains(&&*entry.key))
}

/// How many items a layer may take away from one list: each is looked for in all of it.
pub const MAX_REMOVED: usize = 100;

/// The list that comes of an edit, and the items of `remove` that the list does not have.
///
/// An item that is a map goes where it has all the fields that `remove` says of it. A list in `remove` takes items that
/// follow each other: a flag and its value.
pub fn apply_edit(base: Option<&YamlNode>, edit: &YamlNode) -> (YamlNode, Vec<YamlSpan>) {
    let mut items: Vec<(&YamlNode, Value)> = list(base).iter().map(|item| (item, item.to_json())).collect();
    let mut unmatched = Vec::new();
    for removed in list(edit.get("remove")).iter().take(MAX_REMOVED) {
        let run = match removed.to_json() {
            Value::Array(run) => run,
            one @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => vec![one],
        };
        if !remove_run(&mut items, &run) {
            unmatched.push(removed.span);
        }
    }
    let kept = items.into_iter().map(|(item, _)| item);
    let whole = list(edit.get("prepend")).iter().chain(kept).chain(list(edit.get("append"))).cloned().collect();
    (YamlNode { value: YamlValue::List(whole), span: edit.span }, unmatched)
}

fn list(node: Option<&YamlNode>) -> &[YamlNode] {
    match node.map(|node| &node.value) {
        Some(YamlValue::List(items)) => items,
        Some(
            YamlValue::Map(_) | YamlValue::Invalid | YamlValue::Bool(_) | YamlValue::Number(_) | YamlValue::Text(_),
        )
        | None => &[],
    }
}

/// Takes a run of items away wherever it stands, and says whether it stood anywhere.
fn remove_run(items: &mut Vec<(&YamlNode, Value)>, run: &[Value]) -> bool {
    let before = items.len();
    let mut kept = Vec::with_capacity(before);
    let mut rest = items.as_slice();
    while let Some((first, others)) = rest.split_first() {
        let here = rest.get(..run.len()).filter(|window| !window.is_empty());
        if here.is_some_and(|window| window.iter().zip(run).all(|((_, item), wanted)| matches(item, wanted))) {
            rest = rest.get(run.len()..).unwrap_or_default();
        } else {
            kept.push(first.clone());
            rest = others;
        }
    }
    *items = kept;
    items.len() < before
}

fn matches(item: &Value, wanted: &Value) -> bool {
    match (item, wanted) {
        (Value::Object(item), Value::Object(fields)) => fields.iter().all(|(key, value)| item.get(key) == Some(value)),
        (_, _) => item == wanted,
    }
}
