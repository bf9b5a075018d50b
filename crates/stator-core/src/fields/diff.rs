//! What differs between two objects, one line a field, as a plan shows it.

use super::field_set::MAX_DEPTH;
use super::schema::{ListType, StructuralSchema};
use super::type_ref::{TypeRef, ValueForm, values_equal};
use crate::object::{FieldPath, PathSegment};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// One field that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldDifference {
    /// Which field: the highest one that came, went or changed as a whole.
    pub path: FieldPath,
    /// What it was; `None` when it was not there.
    pub old: Option<Value>,
    /// What it becomes; `None` when it goes.
    pub new: Option<Value>,
}

/// What differs, sorted by path. Items of keyed lists and sets are matched by their keys, and only their order among
/// themselves counts; other lists and atomic maps differ as a whole. Numbers are compared by value.
pub fn diff(schema: &StructuralSchema, old: &Value, new: &Value) -> Vec<FieldDifference> {
    let mut differences = Vec::new();
    walk(TypeRef::Declared(&schema.root), Some(old), Some(new), &mut Vec::new(), &mut differences);
    differences.sort_by(|a, b| a.path.cmp(&b.path));
    differences
}

fn walk(
    r#type: TypeRef<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<PathSegment>,
    differences: &mut Vec<FieldDifference>,
) {
    let mut whole = |path: &[PathSegment]| {
        let path = FieldPath(path.to_vec());
        differences.push(FieldDifference { path, old: old.cloned(), new: new.cloned() });
    };
    let (Some(a), Some(b)) = (old, new) else {
        if old.is_some() || new.is_some() {
            whole(path);
        }
        return;
    };
    match (r#type.form(old), a, b) {
        (ValueForm::Map | ValueForm::Ambiguous, Value::Object(a), Value::Object(b))
            if !r#type.map_type().atomic && path.len() < MAX_DEPTH =>
        {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                path.push(PathSegment::Field(name.clone()));
                walk(r#type.field_type(name), a.get(name), b.get(name), path, differences);
                path.pop();
            }
        }
        (ValueForm::List, Value::Array(a), Value::Array(b))
            if *r#type.list_type() != ListType::Atomic && path.len() < MAX_DEPTH =>
        {
            let (Some((a_order, a)), Some((b_order, b))) = (items_by_key(r#type, a), items_by_key(r#type, b)) else {
                // A damaged list: items without keys, or the same key twice.
                if !same_lists(a, b) {
                    whole(path);
                }
                return;
            };
            let kept = |order: &[PathSegment], other: &BTreeMap<PathSegment, &Value>| -> Vec<PathSegment> {
                order.iter().filter(|step| other.contains_key(step)).cloned().collect()
            };
            if kept(&a_order, &b) != kept(&b_order, &a) {
                return whole(path);
            }
            let steps: BTreeSet<&PathSegment> = a_order.iter().chain(&b_order).collect();
            for step in steps {
                path.push(step.clone());
                walk(r#type.item_type(), a.get(step).copied(), b.get(step).copied(), path, differences);
                path.pop();
            }
        }
        (ValueForm::Map | ValueForm::Ambiguous | ValueForm::List | ValueForm::Scalar, a, b) => {
            if !values_equal(a, b) {
                whole(path);
            }
        }
    }
}

fn same_lists(a: &[Value], b: &[Value]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| values_equal(a, b))
}

/// The items of a list by what tells them apart, and their order; `None` when something does not.
fn items_by_key<'a>(
    r#type: TypeRef<'_>,
    items: &'a [Value],
) -> Option<(Vec<PathSegment>, BTreeMap<PathSegment, &'a Value>)> {
    let order: Vec<PathSegment> = items.iter().map(|item| r#type.identify(item).ok()).collect::<Option<_>>()?;
    let by_step: BTreeMap<PathSegment, &Value> = order.iter().cloned().zip(items).collect();
    (by_step.len() == order.len()).then_some((order, by_step))
}
