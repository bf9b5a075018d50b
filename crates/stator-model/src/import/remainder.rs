//! What a guess leaves over: the smallest partial map that, merged over what is rendered, gives the target, and the
//! fields that have to go first.

use crate::render::strategic_merge;
use serde_json::{Map, Value};
use stator_core::dynamo::list_order::is_env_order_significant;
use stator_core::object::{FieldPath, KeyValue, PathSegment, Quantity};
use std::collections::BTreeMap;

/// Deeper than any object that an API server takes.
const MAX_DEPTH: usize = 100;

/// What is left over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RemainderPatch {
    /// To merge, as `template` and `overrides` merge.
    pub merge: Map<String, Value>,
    /// To remove before.
    pub remove: Vec<FieldPath>,
}

/// The difference from what is rendered to the target. `path` is where both are.
pub fn between(rendered: &Map<String, Value>, target: &Map<String, Value>, path: &FieldPath) -> RemainderPatch {
    let mut remove = Vec::new();
    let merge = map_remainder(rendered, target, path, &mut remove, 0);
    RemainderPatch { merge, remove }
}

fn map_remainder(
    rendered: &Map<String, Value>,
    target: &Map<String, Value>,
    path: &FieldPath,
    remove: &mut Vec<FieldPath>,
    depth: usize,
) -> Map<String, Value> {
    let mut merge = Map::new();
    for name in rendered.keys().filter(|name| !target.contains_key(*name)) {
        remove.push(path.field(name.clone()));
    }
    for (name, wanted) in target {
        let here = path.field(name.clone());
        if let Some(change) = field_remainder(name, rendered.get(name), wanted, &here, remove, depth) {
            merge.insert(name.clone(), change);
        }
    }
    merge
}

/// What to merge into one field, if anything.
fn field_remainder(
    name: &str,
    rendered: Option<&Value>,
    wanted: &Value,
    path: &FieldPath,
    remove: &mut Vec<FieldPath>,
    depth: usize,
) -> Option<Value> {
    let Some(rendered) = rendered else { return Some(wanted.clone()) };
    if rendered == wanted || (holds_quantity(path) && same_quantity(rendered, wanted)) {
        return None;
    }
    match (rendered, wanted) {
        (Value::Object(rendered), Value::Object(wanted)) if depth < MAX_DEPTH => {
            let below = map_remainder(rendered, wanted, path, remove, depth + 1);
            (!below.is_empty()).then_some(Value::Object(below))
        }
        (Value::Array(rendered), Value::Array(wanted)) if depth < MAX_DEPTH => {
            match list_remainder(name, rendered, wanted, path, remove, depth) {
                Some(items) => (!items.is_empty()).then_some(Value::Array(items)),
                None => {
                    if strategic_merge::list_keys(name).is_some() {
                        // Merged by key it would keep what is there, so it goes as a whole first.
                        remove.push(path.clone());
                    }
                    Some(Value::Array(wanted.clone()))
                }
            }
        }
        (_, _) => Some(wanted.clone()),
    }
}

/// What to merge into a list with keys; `None` when it has none, or its items cannot be distinguished.
fn list_remainder(
    name: &str,
    rendered: &[Value],
    wanted: &[Value],
    path: &FieldPath,
    remove: &mut Vec<FieldPath>,
    depth: usize,
) -> Option<Vec<Value>> {
    let keys = strategic_merge::list_keys(name)?;
    let before = by_key(keys, rendered)?;
    let after = by_key(keys, wanted)?;
    if name == "initContainers" && before.keys().ne(after.keys()) {
        return None;
    }
    if name == "env" && is_env_order_significant(wanted) && !is_order_kept(keys, rendered, wanted) {
        return None;
    }
    for step in before.keys().filter(|step| !after.contains_key(*step)) {
        remove.push(path.join((*step).clone()));
    }
    let mut merge = Vec::new();
    for item in wanted {
        let step = key_segment(keys, item)?;
        let here = path.join(step.clone());
        match before.get(&step) {
            None => merge.push(item.clone()),
            Some(old) if *old == item => {}
            Some(_) if strategic_merge::replaces_items(name) => merge.push(item.clone()),
            Some(old) => {
                let (Value::Object(old), Value::Object(new)) = (old, item) else {
                    merge.push(item.clone());
                    continue;
                };
                let mut change = map_remainder(old, new, &here, remove, depth + 1);
                if !change.is_empty() {
                    for (key, _) in keys {
                        if let Some(value) = new.get(*key) {
                            change.insert((*key).to_owned(), value.clone());
                        }
                    }
                    merge.push(Value::Object(change));
                }
            }
        }
    }
    Some(merge)
}

/// Whether the items come out in the wanted order when those that are not rendered are added at the end: a merge by key
/// moves nothing.
fn is_order_kept(keys: &[(&str, &str)], rendered: &[Value], wanted: &[Value]) -> bool {
    let steps = |items: &[Value]| items.iter().filter_map(|item| key_segment(keys, item)).collect::<Vec<_>>();
    let (rendered, wanted) = (steps(rendered), steps(wanted));
    let stays = rendered.iter().filter(|step| wanted.contains(step));
    let is_new = wanted.iter().filter(|step| !rendered.contains(step));
    stays.chain(is_new).eq(wanted.iter())
}

fn by_key<'a>(keys: &[(&str, &str)], items: &'a [Value]) -> Option<BTreeMap<PathSegment, &'a Value>> {
    let found: BTreeMap<PathSegment, &Value> =
        items.iter().map(|item| Some((key_segment(keys, item)?, item))).collect::<Option<_>>()?;
    (found.len() == items.len()).then_some(found)
}

fn key_segment(keys: &[(&str, &str)], item: &Value) -> Option<PathSegment> {
    let mut step = BTreeMap::new();
    for (name, default) in keys {
        match item.get(*name) {
            Some(value) => step.insert((*name).to_owned(), KeyValue::new(value)),
            None if default.is_empty() => return None,
            None => step.insert((*name).to_owned(), KeyValue::new(&Value::from(*default))),
        };
    }
    // Only text that a path can hold; everything else is replaced as a whole.
    let plain = |value: &KeyValue| !value.to_string().contains([']', ',', '=']);
    step.values().all(plain).then_some(PathSegment::Key(step))
}

/// Whether a field holds a quantity.
fn holds_quantity(path: &FieldPath) -> bool {
    path.0
        .iter()
        .any(|step| matches!(step, PathSegment::Field(name) if name == "resources" || name == "sharedMemorySize"))
}

/// Whether both are one amount, spelled otherwise: `1` and `"1"`, `1Gi` and `1024Mi`.
fn same_quantity(a: &Value, b: &Value) -> bool {
    Quantity::from_value(a).is_some_and(|amount| Some(amount) == Quantity::from_value(b))
}
