//! What differs between two objects, one line a field, as a plan shows it.

use super::schema::{ListType, Schema};
use super::set::MAX_DEPTH;
use super::typed::{Form, Type, same};
use crate::object::{FieldPath, Segment};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// One field that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Which field: the highest one that came, went or changed as a whole.
    pub path: FieldPath,
    /// What it was; `None` when it was not there.
    pub old: Option<Value>,
    /// What it becomes; `None` when it goes.
    pub new: Option<Value>,
}

/// What differs, sorted by path. Items of keyed lists and sets are matched by their keys, and only their order among
/// themselves counts; other lists and atomic maps differ as a whole. Numbers are compared by value.
pub fn diff(schema: &Schema, old: &Value, new: &Value) -> Vec<Difference> {
    let mut differences = Vec::new();
    walk(Type::Declared(&schema.root), Some(old), Some(new), &mut Vec::new(), &mut differences);
    differences.sort_by(|a, b| a.path.cmp(&b.path));
    differences
}

fn walk(
    r#type: Type<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<Segment>,
    differences: &mut Vec<Difference>,
) {
    let mut whole = |path: &[Segment]| {
        let path = FieldPath(path.to_vec());
        differences.push(Difference { path, old: old.cloned(), new: new.cloned() });
    };
    let (Some(a), Some(b)) = (old, new) else {
        if old.is_some() || new.is_some() {
            whole(path);
        }
        return;
    };
    match (r#type.form(old), a, b) {
        (Form::Map | Form::Unsaid, Value::Object(a), Value::Object(b))
            if !r#type.map().atomic && path.len() < MAX_DEPTH =>
        {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                path.push(Segment::Field(name.clone()));
                walk(r#type.field(name), a.get(name), b.get(name), path, differences);
                path.pop();
            }
        }
        (Form::List, Value::Array(a), Value::Array(b))
            if *r#type.list() != ListType::Atomic && path.len() < MAX_DEPTH =>
        {
            let (Some((a_order, a)), Some((b_order, b))) = (keyed(r#type, a), keyed(r#type, b)) else {
                // A damaged list: items without keys, or the same key twice.
                if !same_lists(a, b) {
                    whole(path);
                }
                return;
            };
            let kept = |order: &[Segment], other: &BTreeMap<Segment, &Value>| -> Vec<Segment> {
                order.iter().filter(|step| other.contains_key(step)).cloned().collect()
            };
            if kept(&a_order, &b) != kept(&b_order, &a) {
                return whole(path);
            }
            let steps: BTreeSet<&Segment> = a_order.iter().chain(&b_order).collect();
            for step in steps {
                path.push(step.clone());
                walk(r#type.item(), a.get(step).copied(), b.get(step).copied(), path, differences);
                path.pop();
            }
        }
        (Form::Map | Form::Unsaid | Form::List | Form::Scalar, a, b) => {
            if !same(a, b) {
                whole(path);
            }
        }
    }
}

fn same_lists(a: &[Value], b: &[Value]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

/// The items of a list by what tells them apart, and their order; `None` when something does not.
fn keyed<'a>(r#type: Type<'_>, items: &'a [Value]) -> Option<(Vec<Segment>, BTreeMap<Segment, &'a Value>)> {
    let order: Vec<Segment> = items.iter().map(|item| r#type.identify(item).ok()).collect::<Option<_>>()?;
    let by_step: BTreeMap<Segment, &Value> = order.iter().cloned().zip(items).collect();
    (by_step.len() == order.len()).then_some((order, by_step))
}
