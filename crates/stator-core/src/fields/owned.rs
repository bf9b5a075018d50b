//! F(x): the fields that somebody who applies a value thereby owns.

use super::schema::{ListType, Schema};
use super::set::{FieldSet, MAX_DEPTH};
use super::typed::{Form, Type};
use crate::object::Segment;
use serde_json::Value;
use std::collections::BTreeSet;

impl FieldSet {
    /// The fields that whoever applies this value owns: leaves, items of keyed lists, and containers that the schema
    /// does not name. An empty keyed list or set yields nothing.
    pub fn of(schema: &Schema, value: &Value) -> Self {
        let mut set = Self::new();
        add(Type::Declared(&schema.root), value, &mut Vec::new(), &mut set);
        set
    }

    pub(super) fn of_type(r#type: Type<'_>, value: &Value) -> Self {
        let mut set = Self::new();
        add(r#type, value, &mut Vec::new(), &mut set);
        set
    }

    /// The set with every declared field that has members below it made a member, as pruning needs it: a struct whose
    /// last owned field goes, goes with it.
    pub(super) fn with_named_containers(&self, r#type: Type<'_>) -> Self {
        let mut members = self.members.clone();
        let is_map = matches!(r#type.form(None), Form::Map | Form::Unsaid);
        for step in self.children.keys() {
            if let Segment::Field(name) = step
                && is_map
                && r#type.declares(name)
            {
                members.insert(step.clone());
            }
        }
        let below = |(step, below): (&Segment, &Self)| (step.clone(), below.with_named_containers(r#type.step(step)));
        Self { members, children: self.children.iter().map(below).collect() }
    }

    /// The set as today's schema reads it: parts of what has become atomic since are the whole.
    pub(super) fn reconciled(&self, r#type: Type<'_>) -> Self {
        let mut out = Self { members: self.members.clone(), children: Default::default() };
        for (step, below) in &self.children {
            let inner = r#type.step(step);
            let atomic = match inner {
                Type::Declared(_) => match inner.form(None) {
                    Form::Map => inner.map().atomic,
                    Form::List => *inner.list() == ListType::Atomic,
                    Form::Scalar | Form::Unsaid => false,
                },
                Type::Deduced | Type::Whole => false,
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

fn add(r#type: Type<'_>, value: &Value, path: &mut Vec<Segment>, set: &mut FieldSet) {
    if path.len() >= MAX_DEPTH {
        set.insert(path);
        return;
    }
    match r#type.form(Some(value)) {
        Form::Scalar => set.insert(path),
        Form::Map | Form::Unsaid => {
            if r#type.map().atomic {
                set.insert(path);
            } else if let Value::Object(map) = value {
                for (name, value) in map {
                    path.push(Segment::Field(name.clone()));
                    add(r#type.field(name), value, path, set);
                    let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                    if empty || !r#type.declares(name) {
                        set.insert(path);
                    }
                    path.pop();
                }
            }
        }
        Form::List => {
            if *r#type.list() == ListType::Atomic {
                set.insert(path);
            } else if let Value::Array(items) = value {
                let steps: Vec<Segment> =
                    items.iter().enumerate().map(|(index, item)| r#type.identify_or_index(index, item)).collect();
                let (mut seen, mut twice) = (BTreeSet::new(), BTreeSet::new());
                for step in &steps {
                    if !seen.insert(step) {
                        twice.insert(step);
                    }
                }
                for (step, item) in steps.iter().zip(items) {
                    path.push(step.clone());
                    // Items that cannot be told apart are owned together, without a look inside.
                    if !twice.contains(step) {
                        add(r#type.item(), item, path, set);
                    }
                    set.insert(path);
                    path.pop();
                }
            }
        }
    }
}
