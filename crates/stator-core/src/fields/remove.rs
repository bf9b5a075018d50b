//! Taking fields out of a value, and taking everything else out.

use super::field_set::{FieldSet, MAX_DEPTH};
use super::schema::{ListType, StructuralSchema};
use super::type_ref::{TypeRef, ValueForm};
use crate::object::PathSegment;
use serde_json::{Map, Value};

/// The value without the fields of the set. A container that was taken apart to the last piece becomes `null`, as under
/// structured-merge-diff 6.4; what is atomic is only ever taken whole, by whoever holds it.
pub(super) fn remove_fields(r#type: TypeRef<'_>, value: &Value, set: &FieldSet, depth: usize) -> Value {
    if depth > MAX_DEPTH {
        return value.clone();
    }
    match (r#type.form(Some(value)), value) {
        (ValueForm::Scalar, _) => value.clone(),
        (ValueForm::Map | ValueForm::Ambiguous, Value::Object(map)) if !r#type.map_type().atomic => {
            let mut kept = Map::new();
            for (name, value) in map {
                let step = PathSegment::Field(name.clone());
                if !set.members.contains(&step) {
                    kept.insert(
                        name.clone(),
                        remove_below(r#type.field_type(name), value, set.children.get(&step), depth),
                    );
                }
            }
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        (ValueForm::List, Value::Array(items)) if *r#type.list_type() != ListType::Atomic => {
            let mut kept = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                let step = r#type.identify_or_index(index, item);
                if !set.members.contains(&step) {
                    kept.push(remove_below(r#type.item_type(), item, set.children.get(&step), depth));
                }
            }
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        (ValueForm::Map | ValueForm::Ambiguous | ValueForm::List, _) => Value::Null,
    }
}

fn remove_below(r#type: TypeRef<'_>, value: &Value, set: Option<&FieldSet>, depth: usize) -> Value {
    match set {
        Some(set) if !set.is_empty() => remove_fields(r#type, value, set, depth + 1),
        Some(_) | None => value.clone(),
    }
}

/// Only what is in the set: what one manager holds of an object, with the keys that tell its list items apart.
/// `null` when that is nothing. A container in the set without its parts comes out empty.
pub fn restrict_to(schema: &StructuralSchema, value: &Value, set: &FieldSet) -> Value {
    extract(TypeRef::Declared(&schema.root), value, set, false, 0).unwrap_or(Value::Null)
}

fn extract(r#type: TypeRef<'_>, value: &Value, set: &FieldSet, member: bool, depth: usize) -> Option<Value> {
    if depth > MAX_DEPTH {
        return member.then(|| value.clone());
    }
    match (r#type.form(Some(value)), value) {
        (ValueForm::Map | ValueForm::Ambiguous, Value::Object(map)) if !r#type.map_type().atomic => {
            let mut kept = Map::new();
            for (name, value) in map {
                let step = PathSegment::Field(name.clone());
                kept.extend(extract_step(r#type.field_type(name), value, set, &step, depth).map(|v| (name.clone(), v)));
            }
            (member || !kept.is_empty()).then_some(Value::Object(kept))
        }
        (ValueForm::List, Value::Array(items)) if *r#type.list_type() != ListType::Atomic => {
            let mut kept = Vec::new();
            for (index, item) in items.iter().enumerate() {
                let step = r#type.identify_or_index(index, item);
                let Some(mut part) = extract_step(r#type.item_type(), item, set, &step, depth) else { continue };
                if let (ListType::Map(keys), Value::Object(part), Value::Object(item)) =
                    (r#type.list_type(), &mut part, item)
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
        (ValueForm::Scalar | ValueForm::Map | ValueForm::Ambiguous | ValueForm::List, _) => {
            member.then(|| value.clone())
        }
    }
}

fn extract_step(r#type: TypeRef<'_>, value: &Value, set: &FieldSet, step: &PathSegment, depth: usize) -> Option<Value> {
    static NOTHING: FieldSet =
        FieldSet { members: std::collections::BTreeSet::new(), children: std::collections::BTreeMap::new() };
    let member = set.members.contains(step);
    match set.children.get(step) {
        Some(below) => extract(r#type, value, below, member, depth + 1),
        None if member => extract(r#type, value, &NOTHING, true, depth + 1),
        None => None,
    }
}
