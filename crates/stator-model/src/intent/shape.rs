//! What defaults say of one way to serve a model, where the model is served in another; and what they say of all workers.
//!
//! A folder holds models of different shapes: with `sla`, with one kind of workers, with prefill and decode apart. Defaults
//! are for all of them, so that what does not fit a model's own shape is no fault of the model and is left out.

use super::yaml::{YamlEntry, YamlNode, YamlValue};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The fields of `serving` that hold workers.
pub const WORKERS: [&str; 3] = ["worker", "prefill", "decode"];
/// Those that serve prefill and decode apart.
const APART: [&str; 2] = ["prefill", "decode"];
/// The ways to name a worker's program, of which it has one.
const PROGRAM: [&str; 3] = ["command", "shell", "module"];

/// Takes out of merged defaults what is for another shape than that of the model's own `spec`.
pub fn drop_other_shapes(defaults: &mut YamlNode, own: &YamlNode) {
    match (own.get("serving"), own.get("sla")) {
        (None, Some(_)) => remove(defaults, |key| key == "serving"),
        (Some(serving), None) => {
            remove(defaults, |key| key == "sla");
            drop_other_workers(defaults, serving);
        }
        // Neither says how it is served, so that defaults may; both is a fault that is reported.
        (None, None) | (Some(_), Some(_)) => {}
    }
}

fn drop_other_workers(defaults: &mut YamlNode, own: &YamlNode) {
    let Some(serving) = field_mut(defaults, "serving") else { return };
    let together = own.get("worker").is_some();
    let apart = APART.iter().any(|role| own.get(role).is_some());
    match (together, apart) {
        (true, false) => remove(serving, |key| APART.contains(&key)),
        (false, true) => remove(serving, |key| key == "worker"),
        (false, false) | (true, true) => {}
    }
}

/// The fields of `serving` that a model has its workers in: by its own layers, else by its defaults.
pub fn worker_fields<'a>(own: Option<&YamlNode>, defaults: impl Iterator<Item = &'a YamlNode>) -> Vec<&'static str> {
    let has = |spec: &YamlNode, field: &str| spec.get("serving").is_some_and(|serving| serving.get(field).is_some());
    let fields_of = |spec: &YamlNode| WORKERS.into_iter().filter(|field| has(spec, field)).collect::<Vec<_>>();
    let fields = own.map(fields_of).unwrap_or_default();
    if !fields.is_empty() || own.is_some_and(|own| own.get("sla").is_some()) {
        return fields;
    }
    let of_defaults: BTreeSet<&'static str> = defaults.flat_map(fields_of).collect();
    of_defaults.into_iter().collect()
}

/// A layer in two: its `workers` as if they were written for each of the workers, and the rest of it, which is stronger. One
/// without `workers`, or for a model without workers, is the rest alone.
pub fn split_workers<'a>(layer: &'a YamlNode, fields: &[&str]) -> (Option<YamlNode>, Cow<'a, YamlNode>) {
    let YamlValue::Map(entries) = &layer.value else { return (None, Cow::Borrowed(layer)) };
    let Some(shared) = entries.iter().find(|entry| &*entry.key == "workers").filter(|_| !fields.is_empty()) else {
        return (None, Cow::Borrowed(layer));
    };
    let entry = |key: &str, value| YamlEntry { key: key.into(), key_span: shared.key_span, value };
    let map = |entries| YamlNode { value: YamlValue::Map(entries), span: shared.value.span };
    let each = fields.iter().map(|field| entry(field, shared.value.clone())).collect();
    let mut rest = layer.clone();
    remove(&mut rest, |key| key == "workers");
    (Some(map(vec![entry("serving", map(each))])), Cow::Owned(rest))
}

/// Takes out of weaker layers what a layer says in another way: the program of a worker.
pub fn drop_other_programs(base: &mut YamlNode, over: &YamlNode) {
    for parent in ["serving", "components"] {
        let (Some(below), Some(above)) = (field_mut(base, parent), over.get(parent)) else { continue };
        for change in above.entries() {
            let Some(component) = field_mut(below, &change.key) else { continue };
            if PROGRAM.iter().any(|field| change.value.get(field).is_some()) {
                remove(component, |key| PROGRAM.contains(&key) && change.value.get(key).is_none());
            }
        }
    }
}

fn field_mut<'a>(node: &'a mut YamlNode, key: &str) -> Option<&'a mut YamlNode> {
    let YamlValue::Map(entries) = &mut node.value else { return None };
    entries.iter_mut().find(|entry| &*entry.key == key).map(|entry| &mut entry.value)
}

fn remove(node: &mut YamlNode, is_removed: impl Fn(&str) -> bool) {
    if let YamlValue::Map(entries) = &mut node.value {
        entries.retain(|entry| !is_removed(&entry.key));
    }
}
