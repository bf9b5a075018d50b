//! What Dynamo's admission refuses when an object is created, as far as it can be known without a cluster, and what it
//! lets pass although it cannot work.
//!
//! Source: the operator's validating webhooks of release 1.2 and the verdicts of a real API server in
//! `tests/data/dynamo/oracle/creates.jsonl`. Rules about updates belong to the plan, which knows the live object. Faults of
//! form (unknown fields, types, patterns) are the schema's matter.

mod adapter;
mod graph;
mod pod;
mod request;
pub mod rules;
#[cfg(test)]
mod tests;

use super::kinds;
use super::v1beta1::GraphSpec;
use crate::finding::Rule;
use crate::object::{FieldPath, KeyValue, Object, Segment};

/// How sure a refusal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Admission denies the object.
    Refused,
    /// Admission takes it, and it fails, or may fail, later: in the operator, on some clusters, or from a release on.
    WouldFail,
}

/// One fault of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which rule.
    pub rule: Rule,
    /// Where in the object.
    pub path: FieldPath,
    /// What was found and what is allowed.
    pub message: String,
    /// The fix.
    pub help: String,
    /// Refused, or admitted and failing.
    pub weight: Weight,
}

/// Every fault of an object, in the order of the object's fields. Kinds without rules have none.
pub fn check(object: &Object) -> Vec<Refusal> {
    let mut faults = Faults::default();
    match object.kind() {
        kind if kind == kinds::GRAPH.kind => graph::check(object, &mut faults),
        kind if kind == kinds::REQUEST.kind => request::check(object, &mut faults),
        kind if kind == kinds::ADAPTER.kind => adapter::check(object, &mut faults),
        _ => {}
    }
    faults.0
}

/// The faults of a restart's order, which are judged on update as on create, whatever was there before.
pub(super) fn restart(spec: &GraphSpec) -> Vec<Refusal> {
    let mut faults = Faults::default();
    graph::restart(spec, &mut faults);
    faults.0
}

#[derive(Debug, Default)]
struct Faults(Vec<Refusal>);

impl Faults {
    fn refused(&mut self, rule: Rule, path: FieldPath, message: impl Into<String>, help: impl Into<String>) {
        let (message, help) = (message.into(), help.into());
        self.0.push(Refusal { rule, path, message, help, weight: Weight::Refused });
    }

    fn would_fail(&mut self, rule: Rule, path: FieldPath, message: impl Into<String>, help: impl Into<String>) {
        let (message, help) = (message.into(), help.into());
        self.0.push(Refusal { rule, path, message, help, weight: Weight::WouldFail });
    }
}

/// `spec.components[name=…]`.
pub(super) fn component_path(name: &str) -> FieldPath {
    FieldPath::of(["spec", "components"]).join(named(name))
}

/// `[name=…]`.
fn named(name: &str) -> Segment {
    Segment::Key([("name".to_owned(), KeyValue::new(&name.into()))].into())
}
