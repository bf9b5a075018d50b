//! Judging an object as an API server does: names and labels, the structural schema, then the schema's CEL rules.

mod metadata;
mod rules;
mod structure;

use super::schema::{ListType, Node, Schema};
use super::set::MAX_DEPTH;
use super::typed::{Type, same, too_deep};
use crate::object::{FieldPath, Segment};
use serde_json::Value;

/// One fault. List items are named by position, as an API server names them.
struct Fault {
    path: FieldPath,
    /// The value that was judged: the field itself, or the map that lacks it.
    judged: FieldPath,
    message: String,
    /// Rules in CEL may count on this check, so they wait until it passes.
    blocking: bool,
}

impl Fault {
    fn invalid(path: &[Segment], value: &Value, reason: &str) -> Self {
        Self::plain(path, format!("Invalid value: {value}: {reason}"))
    }

    fn plain(path: &[Segment], message: String) -> Self {
        let path = FieldPath(path.to_vec());
        Self { judged: path.clone(), path, message, blocking: false }
    }

    fn blocking(mut self) -> Self {
        self.blocking = true;
        self
    }
}

/// What is wrong with an object, sorted by field; empty when it is valid. Fill in defaults first.
///
/// With the object as it was, rules about a transition are judged as well, and what was already wrong and has not
/// changed is let pass, as an API server does.
pub fn validate(schema: &Schema, value: &Value, old: Option<&Value>) -> Vec<(FieldPath, String)> {
    if too_deep(value) || old.is_some_and(too_deep) {
        return vec![(FieldPath::root(), format!("nested more than {MAX_DEPTH} levels deep"))];
    }
    let mut faults = Vec::new();
    metadata::check(&schema.root, value, old.is_none(), &mut faults);
    structure::check(&schema.root, value, &mut Vec::new(), &mut faults);
    // As an API server: the rules may take for granted that values have their types and are not too many.
    if !faults.iter().any(|fault| fault.blocking) {
        rules::check(&schema.root, value, old, &mut Vec::new(), &mut faults);
    }
    if let Some(old) = old {
        faults.retain(|fault| !unchanged(&schema.root, value, old, &fault.judged.0));
    }
    let mut faults: Vec<_> = faults.into_iter().map(|fault| (fault.path, fault.message)).collect();
    faults.sort();
    faults.dedup();
    faults
}

/// The part of [`validate`] that no rule in CEL has a say in: names and labels, and the structural schema. Much
/// quicker, for callers who judge what the rules ask for themselves.
pub fn validate_form(schema: &Schema, value: &Value) -> Vec<(FieldPath, String)> {
    if too_deep(value) {
        return vec![(FieldPath::root(), format!("nested more than {MAX_DEPTH} levels deep"))];
    }
    let mut faults = Vec::new();
    metadata::check(&schema.root, value, true, &mut faults);
    structure::check(&schema.root, value, &mut Vec::new(), &mut faults);
    let mut faults: Vec<_> = faults.into_iter().map(|fault| (fault.path, fault.message)).collect();
    faults.sort();
    faults.dedup();
    faults
}

/// True when what stands at a path of the new object is what stood there before. Items of a list without keys have no
/// predecessor.
fn unchanged(root: &Node, new: &Value, old: &Value, path: &[Segment]) -> bool {
    let (mut r#type, mut new, mut old) = (Type::Declared(root), new, old);
    if path.is_empty() {
        return false;
    }
    for step in path {
        let below = match step {
            Segment::Field(name) => new.get(name).zip(old.get(name)),
            Segment::Index(index) => {
                new.get(index).and_then(|item| Some((item, predecessor(r#type, item, old.as_array()?)?)))
            }
            Segment::Key(_) | Segment::Item(_) => None,
        };
        let Some((below_new, below_old)) = below else { return false };
        (new, old) = (below_new, below_old);
        r#type = r#type.step(step);
    }
    same(new, old)
}

/// The item of the old list that an item of the new list was, by its keys.
fn predecessor<'a>(list: Type<'_>, item: &Value, old: &'a [Value]) -> Option<&'a Value> {
    match list.list() {
        ListType::Map(_) => {
            let identity = list.identify(item).ok()?;
            old.iter().find(|candidate| list.identify(candidate).is_ok_and(|other| other == identity))
        }
        ListType::Atomic | ListType::Set => None,
    }
}
