//! What admission forbids to change after creation.

use super::{Forbidden, Remedy};
use crate::dynamo::admission::{self, component_path};
use crate::dynamo::v1beta1::GraphSpec;
use crate::object::{FieldPath, Object};
use serde_json::Value;
use std::collections::BTreeMap;

/// The components of a graph's spec by name.
pub(super) fn by_name(spec: &Value) -> BTreeMap<&str, &Value> {
    spec.get("components")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|component| Some((component.get("name")?.as_str()?, component)))
        .collect()
}

fn frozen(path: FieldPath, message: impl Into<String>) -> Forbidden {
    Forbidden { path, message: message.into(), remedy: Remedy::Replace }
}

fn wrong(path: FieldPath, message: impl Into<String>) -> Forbidden {
    Forbidden { path, message: message.into(), remedy: Remedy::Correct }
}

/// The frozen fields of a graph: component set, backend, node topology, topology constraints, shared GPU memory.
pub(super) fn graph(old: &Value, new: &Value) -> Vec<Forbidden> {
    let mut faults = Vec::new();
    let (before, after) = (by_name(old), by_name(new));
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        faults.push(frozen(component_path(name), format!("Dynamo forbids removing component `{name}` in place")));
    }
    for name in after.keys().filter(|name| !before.contains_key(*name)) {
        faults.push(frozen(component_path(name), format!("Dynamo forbids adding component `{name}` in place")));
    }
    for (field, what) in [("backendFramework", "the backend"), ("topologyConstraint", "the topology constraint")] {
        if present(old.get(field)) != present(new.get(field)) {
            let path = FieldPath::of(["spec", field]);
            faults.push(frozen(path, format!("Dynamo forbids changing {what} of a graph in place")));
        }
    }
    for (name, component) in &after {
        let Some(previous) = before.get(name) else { continue };
        let path = component_path(name);
        if present(previous.get("multinode")).is_some() != present(component.get("multinode")).is_some() {
            let message = format!("Dynamo forbids turning component `{name}` from one node to several or back");
            faults.push(frozen(path.field("multinode"), message));
        }
        if present(previous.get("topologyConstraint")) != present(component.get("topologyConstraint")) {
            let message = format!("Dynamo forbids changing the topology constraint of component `{name}` in place");
            faults.push(frozen(path.field("topologyConstraint"), message));
        }
        if between_pods(previous) != between_pods(component) {
            let message = format!("Dynamo forbids changing GPU memory shared between pods of `{name}` in place");
            faults.push(frozen(path.field("experimental"), message));
        }
    }
    faults
}

fn present(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

/// The frozen part of GPU memory sharing: only the mode between pods is, with its failover.
fn between_pods(component: &Value) -> Option<(Option<&Value>, u64)> {
    let experimental = component.get("experimental")?;
    let mode = experimental.pointer("/gpuMemoryService/mode").and_then(Value::as_str)?;
    (mode == "InterPod").then(|| {
        let failover = present(experimental.get("failover"));
        let shadows = failover.and_then(|one| one.get("numShadows")).and_then(Value::as_u64).unwrap_or(1);
        (failover.and_then(|one| one.get("mode")), if failover.is_some() { shadows } else { 0 })
    })
}

/// A restart order that admission refuses whatever was there before.
pub(super) fn restart(spec: &Value) -> Vec<Forbidden> {
    if spec.pointer("/restart/strategy").is_none() {
        return Vec::new();
    }
    // A live graph that cannot be read as one is the schema's matter.
    let faults = GraphSpec::read(spec).map(|spec| admission::restart(&spec)).unwrap_or_default();
    faults.into_iter().map(|fault| wrong(fault.path, format!("{}; {}", fault.message, fault.help))).collect()
}

/// A claim only grows. It holds weights, so stator never deletes it to change it.
pub(super) fn claim(old: &Object, new: &Object) -> Vec<Forbidden> {
    let strip = |object: &Object| {
        let mut spec = object.spec().clone();
        if let Some(map) = spec.as_object_mut() {
            map.remove("resources");
            map.remove("volumeName");
        }
        spec
    };
    let (before, after) = (strip(old), strip(new));
    let mut faults = Vec::new();
    let empty = serde_json::Map::new();
    for (field, value) in after.as_object().unwrap_or(&empty) {
        if before.get(field) != Some(value) {
            faults.push(wrong(
                FieldPath::of(["spec", field]),
                format!("a claim's `{field}` cannot be changed; give the new claim another name"),
            ));
        }
    }
    let size = |object: &Object| object.text("/spec/resources/requests/storage").and_then(bytes);
    if let (Some(before), Some(after)) = (size(old), size(new))
        && after < before
    {
        faults.push(wrong(
            FieldPath::of(["spec", "resources", "requests", "storage"]),
            "a claim cannot shrink; give the smaller claim another name",
        ));
    }
    faults
}

/// A quantity of bytes, in thousandths so that `1500m` counts; `None` for what is none.
fn bytes(text: &str) -> Option<u128> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(split)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let factor: u128 = match suffix {
        "" => 1_000,
        "m" => 1,
        "k" => 1_000_000,
        "M" => 1_000_000_000,
        "G" => 1_000_000_000_000,
        "T" => 1_000_000_000_000_000,
        "P" => 1_000_000_000_000_000_000,
        "E" => 1_000_000_000_000_000_000_000,
        "Ki" => 1_000 << 10,
        "Mi" => 1_000 << 20,
        "Gi" => 1_000 << 30,
        "Ti" => 1_000 << 40,
        "Pi" => 1_000 << 50,
        "Ei" => 1_000 << 60,
        _ => return None,
    };
    let mut sum = whole.parse::<u128>().ok()?.checked_mul(factor)?;
    let mut unit = factor;
    for digit in fraction.bytes() {
        unit /= 10;
        sum = sum.checked_add(u128::from(digit.checked_sub(b'0')?).checked_mul(unit)?)?;
    }
    Some(sum)
}
