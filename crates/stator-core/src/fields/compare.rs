//! What differs between two values, as sets of fields.

use super::field_set::{FieldSet, MAX_DEPTH};
use super::schema::ListType;
use super::type_ref::{TypeRef, ValueForm, values_equal};
use crate::object::PathSegment;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Which fields went, changed and came.
#[derive(Debug, Default)]
pub(super) struct FieldComparison {
    pub(super) removed: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) added: FieldSet,
}

impl FieldComparison {
    pub(super) fn between(r#type: TypeRef<'_>, old: Option<&Value>, new: Option<&Value>) -> Self {
        let mut comparison = Self::default();
        compare(r#type, old, new, &mut Vec::new(), &mut comparison);
        comparison
    }

    /// Leaves out some fields with all that is in them.
    pub(super) fn without(self, ignored: &FieldSet) -> Self {
        Self {
            removed: self.removed.without(ignored),
            modified: self.modified.without(ignored),
            added: self.added.without(ignored),
        }
    }

    fn compare_leaf(&mut self, old: Option<&Value>, new: Option<&Value>, path: &[PathSegment]) {
        match (old, new) {
            (None, _) => self.added.insert(path),
            (_, None) => self.removed.insert(path),
            (Some(old), Some(new)) if !values_equal(old, new) => self.modified.insert(path),
            (Some(_), Some(_)) => {}
        }
    }
}

fn compare(
    r#type: TypeRef<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<PathSegment>,
    out: &mut FieldComparison,
) {
    if old.is_none() && new.is_none() {
        return;
    }
    if path.len() >= MAX_DEPTH {
        return out.compare_leaf(old, new, path);
    }
    let (old_form, new_form) = (r#type.form(old), r#type.form(new));
    let was_leaf = if new.is_none() {
        compare_as(old_form, r#type, old, new, path, out)
    } else if old.is_none() || old_form == new_form {
        compare_as(new_form, r#type, old, new, path, out)
    } else {
        // The form changed: what the old one held is gone, what the new one holds is there.
        compare_as(old_form, r#type, old, new, path, out);
        compare_as(new_form, r#type, old, new, path, out)
    };
    if !was_leaf {
        match (old, new) {
            (None, _) => out.added.insert(path),
            (_, None) => out.removed.insert(path),
            (Some(_), Some(_)) => {}
        }
    }
}

/// Compares in one form; true when the two were compared as one.
fn compare_as(
    form: ValueForm,
    r#type: TypeRef<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<PathSegment>,
    out: &mut FieldComparison,
) -> bool {
    match form {
        ValueForm::Scalar => {
            out.compare_leaf(old, new, path);
            true
        }
        ValueForm::Map | ValueForm::Ambiguous => {
            let (a, b) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
            if r#type.map_type().atomic || (a.is_none_or(Map::is_empty) && b.is_none_or(Map::is_empty)) {
                out.compare_leaf(old, new, path);
                return true;
            }
            for (name, value) in a.into_iter().flatten() {
                path.push(PathSegment::Field(name.clone()));
                compare(r#type.field_type(name), Some(value), b.and_then(|b| b.get(name)), path, out);
                path.pop();
            }
            for (name, value) in b.into_iter().flatten() {
                if a.is_none_or(|a| !a.contains_key(name)) {
                    path.push(PathSegment::Field(name.clone()));
                    compare(r#type.field_type(name), None, Some(value), path, out);
                    path.pop();
                }
            }
            false
        }
        ValueForm::List => {
            let (a, b) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
            if *r#type.list_type() == ListType::Atomic || (a.is_none_or(Vec::is_empty) && b.is_none_or(Vec::is_empty)) {
                out.compare_leaf(old, new, path);
                return true;
            }
            let mut items: BTreeMap<PathSegment, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
            for (index, item) in a.into_iter().flatten().enumerate() {
                items.entry(r#type.identify_or_index(index, item)).or_default().0.push(item);
            }
            for (index, item) in b.into_iter().flatten().enumerate() {
                items.entry(r#type.identify_or_index(index, item)).or_default().1.push(item);
            }
            for (step, (a, b)) in items {
                path.push(step);
                compare_item(r#type.item_type(), &a, &b, path, out);
                path.pop();
            }
            false
        }
    }
}

/// Compares the items of one identity. A healthy list has at most one on each side; several are compared as one.
fn compare_item(
    r#type: TypeRef<'_>,
    a: &[&Value],
    b: &[&Value],
    path: &mut Vec<PathSegment>,
    out: &mut FieldComparison,
) {
    match (a.len(), b.len()) {
        (0 | 1, 0 | 1) => compare(r#type, a.first().copied(), b.first().copied(), path, out),
        (2.., 2..) => {
            if a.len() != b.len() || a.iter().zip(b).any(|(a, b)| !values_equal(a, b)) {
                out.modified.insert(path);
            }
        }
        (2.., _) => {
            compare(r#type, None, b.first().copied(), path, out);
            out.removed.insert(path);
        }
        (_, 2..) => {
            compare(r#type, a.first().copied(), None, path, out);
            out.added.insert(path);
        }
    }
}
