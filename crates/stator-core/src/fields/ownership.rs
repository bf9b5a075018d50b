//! F(x): the fields that somebody who applies a value thereby owns.

use super::field_set::{FieldSet, MAX_DEPTH};
use super::schema::{ListType, StructuralSchema};
use super::type_ref::{TypeRef, ValueForm};
use crate::object::PathSegment;
use serde_json::Value;
use std::collections::BTreeSet;

impl FieldSet {
    /// The fields that whoever applies this value owns: leaves, items of keyed lists, and containers that the schema
    /// does not name. An empty keyed list or set yields nothing.
    pub fn from_value(schema: &StructuralSchema, value: &Value) -> Self {
        let mut set = Self::new();
        collect_owned(TypeRef::Declared(&schema.root), value, &mut Vec::new(), &mut set);
        set
    }

    pub(super) fn from_typed_value(r#type: TypeRef<'_>, value: &Value) -> Self {
        let mut set = Self::new();
        collect_owned(r#type, value, &mut Vec::new(), &mut set);
        set
    }

    /// The set with every declared field that has members below it made a member, as pruning needs it: a struct whose
    /// last owned field goes, goes with it.
    pub(super) fn with_named_containers(&self, r#type: TypeRef<'_>) -> Self {
        let mut members = self.members.clone();
        let is_map = matches!(r#type.form(None), ValueForm::Map | ValueForm::Ambiguous);
        for step in self.children.keys() {
            if let PathSegment::Field(name) = step
                && is_map
                && r#type.declares(name)
            {
                members.insert(step.clone());
            }
        }
        let below =
            |(step, below): (&PathSegment, &Self)| (step.clone(), below.with_named_containers(r#type.step_type(step)));
        Self { members, children: self.children.iter().map(below).collect() }
    }

    /// The set as today's schema reads it: parts of what has become atomic since are the whole.
    pub(super) fn reconciled(&self, r#type: TypeRef<'_>) -> Self {
        let mut out = Self { members: self.members.clone(), children: Default::default() };
        for (step, below) in &self.children {
            let inner = r#type.step_type(step);
            let atomic = match inner {
                TypeRef::Declared(_) => match inner.form(None) {
                    ValueForm::Map => inner.map_type().atomic,
                    ValueForm::List => *inner.list_type() == ListType::Atomic,
                    ValueForm::Scalar | ValueForm::Ambiguous => false,
                },
                TypeRef::Deduced | TypeRef::Atomic => false,
            };
            if atomic && !below.is_empty() {
                out.members.insert(step.clone());
            } else {
                out.children.insert(step.clone(), below.reconciled(inner));
            }
        }
        out
    }
}

fn collect_owned(r#type: TypeRef<'_>, value: &Value, path: &mut Vec<PathSegment>, set: &mut FieldSet) {
    if path.len() >= MAX_DEPTH {
        set.insert(path);
        return;
    }
    match r#type.form(Some(value)) {
        ValueForm::Scalar => set.insert(path),
        ValueForm::Map | ValueForm::Ambiguous => {
            if r#type.map_type().atomic {
                set.insert(path);
            } else if let Value::Object(map) = value {
                for (name, value) in map {
                    path.push(PathSegment::Field(name.clone()));
                    collect_owned(r#type.field_type(name), value, path, set);
                    let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                    if empty || !r#type.declares(name) {
                        set.insert(path);
                    }
                    path.pop();
                }
            }
        }
        ValueForm::List => {
            if *r#type.list_type() == ListType::Atomic {
                set.insert(path);
            } else if let Value::Array(items) = value {
                let steps: Vec<PathSegment> =
                    items.iter().enumerate().map(|(index, item)| r#type.identify_or_index(index, item)).collect();
                let (mut seen, mut twice) = (BTreeSet::new(), BTreeSet::new());
                for step in &steps {
                    if !seen.insert(step) {
                        twice.insert(step);
                    }
                }
                for (step, item) in steps.iter().zip(items) {
                    path.push(step.clone());
                    // Items that cannot be distinguished are owned together, without looking inside.
                    if !twice.contains(step) {
                        collect_owned(r#type.item_type(), item, path, set);
                    }
                    set.insert(path);
                    path.pop();
                }
            }
        }
    }
}
