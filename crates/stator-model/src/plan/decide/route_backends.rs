//! What a route sends requests to, and the same route for a graph of another name.

use crate::render::RenderedObject;
use serde_json::Value;
use stator_core::dynamo::addresses;
use stator_core::dynamo::kinds::HTTP_ROUTE;
use stator_core::object::Object;
use std::collections::{BTreeMap, BTreeSet};

/// A route with what it says of one graph's addresses said of another's; `None` where it names none of them.
pub(super) fn redirect(desired: &RenderedObject, from: &Object, to: &Object) -> Option<RenderedObject> {
    if desired.object.kind() != HTTP_ROUTE.kind || from.name() == to.name() {
        return None;
    }
    let moved: BTreeMap<String, String> = addresses::graph_addresses(from)
        .iter()
        .zip(addresses::graph_addresses(to))
        .map(|(old, new)| (old.name().to_owned(), new.name().to_owned()))
        .collect();
    let mut value = desired.object.value().clone();
    let mut has_moved = false;
    for name in backends_mut(&mut value).filter_map(|backend| backend.get_mut("name")) {
        if let Some(new) = name.as_str().and_then(|old| moved.get(old)) {
            *name = new.as_str().into();
            has_moved = true;
        }
    }
    let object = Object::from_value(value).ok().filter(|_| has_moved)?;
    Some(RenderedObject { object, ..desired.clone() })
}

fn backends_mut(route: &mut Value) -> impl Iterator<Item = &mut Value> {
    let rules = route.pointer_mut("/spec/rules").and_then(Value::as_array_mut).into_iter().flatten();
    rules.filter_map(|rule| rule.get_mut("backendRefs")?.as_array_mut()).flatten()
}

/// What a route sends requests to, by name; what has no share of them is left out.
pub(super) fn backends(route: &Object) -> BTreeSet<&str> {
    let rules = route.spec().get("rules").and_then(Value::as_array).into_iter().flatten();
    let all = rules.filter_map(|rule| rule.get("backendRefs")?.as_array()).flatten();
    let has_share = |backend: &&Value| backend.get("weight").and_then(Value::as_u64) != Some(0);
    all.filter(has_share).filter_map(|backend| backend.get("name")?.as_str()).collect()
}
