//! Taking fields out of a value, and taking everything else out.

use super::schema::{ListType, Schema};
use super::set::{FieldSet, MAX_DEPTH};
use super::typed::{Form, Type};
use crate::object::Segment;
use serde_json::{Map, Value};

/// The value without the fields of the set. A container that was taken apart to the last piece becomes `null`, as under
/// structured-merge-diff 6.4; what is atomic is only ever taken whole, by whoever holds it.
pub(super) fn remove(r#type: Type<'_>, value: &Value, set: &FieldSet, depth: usize) -> Value {
    if depth > MAX_DEPTH {
        return value.clone();
    }
    match (r#type.form(Some(value)), value) {
        (Form::Scalar, _) => value.clone(),
        (Form::Map | Form::Unsaid, Value::Object(map)) if !r#type.map().atomic => {
            let mut kept = Map::new();
            for (name, value) in map {
                let step = Segment::Field(name.clone());
                if !set.members.contains(&step) {
                    kept.insert(name.clone(), remove_below(r#type.field(name), value, set.children.get(&step), depth));
                }
            }
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        (Form::List, Value::Array(items)) if *r#type.list() != ListType::Atomic => {
            let mut kept = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                let step = r#type.identify_or_index(index, item);
                if !set.members.contains(&step) {
                    kept.push(remove_below(r#type.item(), item, set.children.get(&step), depth));
                }
            }
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        (Form::Map | Form::Unsaid | Form::List, _) => Value::Null,
    }
}

fn remove_below(r#type: Type<'_>, value: &Value, set: Option<&FieldSet>, depth: usize) -> Value {
    match set {
        Some(set) if !set.is_empty() => remove(r#type, value, set, depth + 1),
        Some(_) | None => value.clone(),
    }
}

/// Only what is in the set: what one manager holds of an object, with the keys that tell its list items apart.
/// `null` when that is nothing. A container in the set without its parts comes out empty.
pub fn restrict(schema: &Schema, value: &Value, set: &FieldSet) -> Value {
    extract(Type::Declared(&schema.root), value, set, false, 0).unwrap_or(Value::Null)
}

fn extract(r#type: Type<'_>, value: &Value, set: &FieldSet, member: bool, depth: usize) -> Option<Value> {
    if depth > MAX_DEPTH {
        return member.then(|| value.clone());
    }
    match (r#type.form(Some(value)), value) {
        (Form::Map | Form::Unsaid, Value::Object(map)) if !r#type.map().atomic => {
            let mut kept = Map::new();
            for (name, value) in map {
                let step = Segment::Field(name.clone());
                kept.extend(extract_step(r#type.field(name), value, set, &step, depth).map(|v| (name.clone(), v)));
            }
            (member || !kept.is_empty()).then_some(Value::Object(kept))
        }
        (Form::List, Value::Array(items)) if *r#type.list() != ListType::Atomic => {
            let mut kept = Vec::new();
            for (index, item) in items.iter().enumerate() {
                let step = r#type.identify_or_index(index, item);
                let Some(mut part) = extract_step(r#type.item(), item, set, &step, depth) else { continue };
                if let (ListType::Map(keys), Value::Object(part), Value::Object(item)) =
                    (r#type.list(), &mut part, item)
                {
                    for key in keys {
                        if let Some(value) = item.get(key) {
                            part.insert(key.clone(), value.clone());
                        }
                    }
                }
                kept.push(part);
            }
            (member || !kept.is_empty()).then_some(Value::Array(kept))
        }
        (Form::Scalar | Form::Map | Form::Unsaid | Form::List, _) => member.then(|| value.clone()),
    }
}

fn extract_step(r#type: Type<'_>, value: &Value, set: &FieldSet, step: &Segment, depth: usize) -> Option<Value> {
    static NOTHING: FieldSet =
        FieldSet { members: std::collections::BTreeSet::new(), children: std::collections::BTreeMap::new() };
    let member = set.members.contains(step);
    match set.children.get(step) {
        Some(below) => extract(r#type, value, below, member, depth + 1),
        None if member => extract(r#type, value, &NOTHING, true, depth + 1),
        None => None,
    }
}
