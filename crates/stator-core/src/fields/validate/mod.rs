//! Judging an object as an API server does: names and labels, the structural schema, then the schema's CEL rules.

mod cel_rules;
mod metadata;
mod structure;

use super::field_set::MAX_DEPTH;
use super::schema::{ListType, SchemaNode, StructuralSchema};
use super::type_ref::{TypeRef, too_deep, values_equal};
use crate::object::{FieldPath, PathSegment};
use serde_json::Value;

/// One value that an API server refuses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SchemaViolation {
    /// Where. List items are named by position, as an API server names them.
    pub path: FieldPath,
    /// What is wrong, in the API server's words, some of which name the path once more.
    pub message: String,
    /// The same without the path.
    pub summary: String,
    /// What kind of rule is broken.
    pub kind: ViolationKind,
}

/// The kinds of [`SchemaViolation`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ViolationKind {
    /// A required field is absent, or is an empty string.
    MissingValue,
    /// The value is not among those that are listed.
    UnsupportedValue,
    /// A rule in CEL does not hold.
    BrokenRule {
        /// The message that the schema declares for the rule, by which it is known; its expression where it has none.
        rule: String,
    },
    /// A rule in CEL could not be evaluated: an API server may say either.
    UnevaluatedRule,
    /// The value has another type, length, range, form or number of items than it may have.
    InvalidValue,
}

/// A violation as it is found.
struct ValidationIssue {
    violation: SchemaViolation,
    /// The value that was judged: the field itself, or the map that lacks it.
    checked_path: FieldPath,
    /// Rules in CEL may count on this check, so they wait until it passes.
    blocking: bool,
}

impl ValidationIssue {
    fn invalid(path: &[PathSegment], value: &Value, reason: &str) -> Self {
        Self::new(path, format!("Invalid value: {value}: {reason}"))
    }

    fn new(path: &[PathSegment], message: String) -> Self {
        let path = FieldPath(path.to_vec());
        let summary = message.clone();
        Self {
            checked_path: path.clone(),
            violation: SchemaViolation { path, message, summary, kind: ViolationKind::InvalidValue },
            blocking: false,
        }
    }

    /// A refusal in whose words the path stands between the value and the reason.
    fn invalid_in_body(path: &[PathSegment], value: &str, reason: &str) -> Self {
        let mut issue =
            Self::new(path, format!("Invalid value: {value}: {} in body {reason}", FieldPath(path.to_vec())));
        issue.violation.summary = format!("Invalid value: {value}: {reason}");
        issue
    }

    fn of_kind(mut self, kind: ViolationKind) -> Self {
        self.violation.kind = kind;
        self
    }

    fn into_blocking(mut self) -> Self {
        self.blocking = true;
        self
    }
}

/// What is wrong with an object, sorted by field; empty when it is valid. Fill in defaults first.
///
/// With the object as it was, rules about a transition are judged as well, and what was already wrong and has not
/// changed is let pass, as an API server does.
pub fn validate(schema: &StructuralSchema, value: &Value, old: Option<&Value>) -> Vec<(FieldPath, String)> {
    violations(schema, value, old).into_iter().map(|one| (one.path, one.message)).collect()
}

/// What [`validate`] finds, with the kind of each fault.
pub fn violations(schema: &StructuralSchema, value: &Value, old: Option<&Value>) -> Vec<SchemaViolation> {
    violations_except(schema, value, old, &[])
}

/// As [`violations`], without the rules in CEL that declare one of these messages, for callers who judge by those
/// themselves: a rule over a whole list takes most of the time.
pub fn violations_except(
    schema: &StructuralSchema,
    value: &Value,
    old: Option<&Value>,
    covered: &[&str],
) -> Vec<SchemaViolation> {
    if too_deep(value) || old.is_some_and(too_deep) {
        return vec![too_deep_violation()];
    }
    let mut faults = Vec::new();
    metadata::check(&schema.root, value, old.is_none(), &mut faults);
    structure::check(&schema.root, value, &mut Vec::new(), &mut faults);
    // As an API server: the rules may take for granted that values have their types and are not too many.
    if !faults.iter().any(|fault| fault.blocking) {
        cel_rules::check(&schema.root, value, old, covered, &mut Vec::new(), &mut faults);
    }
    if let Some(old) = old {
        faults.retain(|fault| !is_unchanged_at(&schema.root, value, old, &fault.checked_path.0));
    }
    let mut violations: Vec<_> = faults.into_iter().map(|issue| issue.violation).collect();
    violations.sort();
    violations.dedup();
    violations
}

fn too_deep_violation() -> SchemaViolation {
    ValidationIssue::new(&[], format!("nested more than {MAX_DEPTH} levels deep")).violation
}

/// True when what stands at a path of the new object is what stood there before. Items of a list without keys have no
/// predecessor.
fn is_unchanged_at(root: &SchemaNode, new: &Value, old: &Value, path: &[PathSegment]) -> bool {
    let (mut r#type, mut new, mut old) = (TypeRef::Declared(root), new, old);
    if path.is_empty() {
        return false;
    }
    for step in path {
        let below = match step {
            PathSegment::Field(name) => new.get(name).zip(old.get(name)),
            PathSegment::Index(index) => {
                new.get(index).and_then(|item| Some((item, predecessor(r#type, item, old.as_array()?)?)))
            }
            PathSegment::Key(_) | PathSegment::Item(_) => None,
        };
        let Some((below_new, below_old)) = below else { return false };
        (new, old) = (below_new, below_old);
        r#type = r#type.step_type(step);
    }
    values_equal(new, old)
}

/// The item of the old list that an item of the new list was, by its keys.
fn predecessor<'a>(list: TypeRef<'_>, item: &Value, old: &'a [Value]) -> Option<&'a Value> {
    match list.list_type() {
        ListType::Map(_) => {
            let identity = list.identify(item).ok()?;
            old.iter().find(|candidate| list.identify(candidate).is_ok_and(|other| other == identity))
        }
        ListType::Atomic | ListType::Set => None,
    }
}
