//! What several parts say alike, said once: of the workers of a model under `workers`, of all its pods under `pod`.

use crate::intent::model::Model;
use serde_json::{Map, Value};

/// Fields of a component that are its own, even where two say the same.
const OWN_FIELDS: [&str; 3] = ["name", "type", "replicas"];

/// The field whose values layers replace whole.
const VARIABLES: &str = "env";

/// The part that all values have, map by map; a list or scalar is shared whole or not at all, and so is a variable.
pub fn shared_part(values: &[&Value]) -> Option<Value> {
    shared_maps(values, false)
}

fn shared_maps(values: &[&Value], is_whole: bool) -> Option<Value> {
    let [first, rest @ ..] = values else { return None };
    if rest.iter().all(|other| other == first) {
        return Some((*first).clone());
    }
    if is_whole {
        return None;
    }
    let maps: Vec<&Map<String, Value>> = values.iter().map(|value| value.as_object()).collect::<Option<_>>()?;
    let (first, rest) = maps.split_first()?;
    let shared: Map<String, Value> = first
        .iter()
        .filter_map(|(key, own)| {
            let others = rest.iter().map(|map| map.get(key)).collect::<Option<Vec<_>>>()?;
            let all: Vec<&Value> = std::iter::once(own).chain(others).collect();
            let part = if key == VARIABLES { shared_variables(&all) } else { shared_maps(&all, false) };
            Some((key.clone(), part?))
        })
        .collect();
    (!shared.is_empty()).then_some(Value::Object(shared))
}

fn shared_variables(all: &[&Value]) -> Option<Value> {
    let maps: Vec<&Map<String, Value>> = all.iter().map(|value| value.as_object()).collect::<Option<_>>()?;
    let (first, rest) = maps.split_first()?;
    let is_shared = |(name, value): &(&String, &Value)| rest.iter().all(|map| map.get(*name) == Some(value));
    let shared: Map<String, Value> = first.iter().filter(is_shared).map(|(k, v)| (k.clone(), v.clone())).collect();
    (!shared.is_empty()).then_some(Value::Object(shared))
}

/// A value without what is shared of it, and without the maps that this empties.
pub fn without(value: &mut Value, shared: &Value) {
    let (Value::Object(map), Value::Object(shared)) = (value, shared) else { return };
    for (key, part) in shared {
        if let Some(own) = map.get_mut(key) {
            without(own, part);
            if own == part || own.as_object().is_some_and(Map::is_empty) {
                map.remove(key);
            }
        }
    }
}

/// The model with what its workers have in common under `workers`, and what all its pods have under `pod`; `None` where there
/// is nothing of either. It means the same only after its layers are merged.
pub fn with_common_parts(model: &Model) -> Option<Model> {
    let mut spec = serde_json::to_value(&model.spec).ok()?;
    let before = spec.clone();
    lift_pods(&mut spec);
    lift_workers(&mut spec);
    if spec == before {
        return None;
    }
    Some(Model { spec: serde_json::from_value(spec).ok()?, ..model.clone() })
}

/// The paths of all components.
fn components(spec: &Value) -> Vec<[String; 2]> {
    let of = |group: &str| -> Vec<[String; 2]> {
        let map = spec.get(group).and_then(Value::as_object).into_iter().flatten();
        map.filter(|(_, value)| value.is_object()).map(|(name, _)| [group.to_owned(), name.clone()]).collect()
    };
    [of("serving"), of("components")].concat()
}

fn component<'a>(spec: &'a mut Value, [group, name]: &[String; 2]) -> Option<&'a mut Value> {
    spec.get_mut(group)?.get_mut(name)
}

fn lift_pods(spec: &mut Value) {
    let paths = components(spec);
    let pods: Option<Vec<Value>> =
        paths.iter().map(|path| component(spec, path).and_then(|one| one.get("pod")).cloned()).collect();
    let Some(pods) = pods.filter(|pods| pods.len() > 1 && spec.get("pod").is_none()) else { return };
    let Some(shared) = shared_part(&pods.iter().collect::<Vec<_>>()) else { return };
    for path in &paths {
        if let Some(Value::Object(one)) = component(spec, path) {
            if let Some(pod) = one.get_mut("pod") {
                without(pod, &shared);
            }
            if one.get("pod") == Some(&shared) || one.get("pod") == Some(&Value::Object(Map::new())) {
                one.remove("pod");
            }
        }
    }
    spec["pod"] = shared;
}

fn lift_workers(spec: &mut Value) {
    let workers: Vec<[String; 2]> =
        ["prefill", "decode"].map(|role| ["serving".to_owned(), role.to_owned()]).into_iter().collect();
    let values: Option<Vec<Value>> = workers.iter().map(|path| component(spec, path).cloned()).collect();
    let Some(mut values) = values.filter(|_| spec.get("workers").is_none()) else { return };
    for map in values.iter_mut().filter_map(Value::as_object_mut) {
        map.retain(|field, _| !OWN_FIELDS.contains(&field.as_str()));
    }
    let Some(shared) = shared_part(&values.iter().collect::<Vec<_>>()) else { return };
    for path in &workers {
        if let Some(own) = component(spec, path) {
            without(own, &shared);
        }
    }
    spec["workers"] = shared;
}

#[cfg(test)]
mod tests {
    use super::{shared_part, without};
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    fn merge(base: &Value, own: &Value) -> Value {
        match (base, own) {
            (Value::Object(base), Value::Object(own)) => {
                let mut merged = base.clone();
                for (key, value) in own {
                    let value = base.get(key).map_or_else(|| value.clone(), |below| merge(below, value));
                    merged.insert(key.clone(), value);
                }
                Value::Object(merged)
            }
            (_, own) => own.clone(),
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![(0..3_i32).prop_map(Value::from), Just(json!(["a"])), Just(json!({}))];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop::collection::btree_map("[a-c]", inner, 1..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<String, Value>>()))
        })
    }

    proptest! {
        /// What is shared and what is left are the whole again.
        #[test]
        fn nothing_is_lost_and_nothing_is_added(values in prop::collection::vec(value(), 2..4)) {
            let all: Vec<&Value> = values.iter().collect();
            if let Some(shared) = shared_part(&all) {
                for one in &values {
                    let mut own = one.clone();
                    without(&mut own, &shared);
                    let whole = if *one == shared { shared.clone() } else { merge(&shared, &own) };
                    prop_assert_eq!(&whole, one);
                }
            }
        }
    }
}
