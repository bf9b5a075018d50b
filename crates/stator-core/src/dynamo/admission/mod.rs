//! What Dynamo's admission refuses, as far as it can be known without a cluster, and what it lets pass although it cannot
//! work. `validate`, `plan` and the embedded cluster judge by these rules and no others.
//!
//! Source: the operator's validating webhooks of release 1.2, its CRDs, and the verdicts of a real API server in
//! `tests/data/dynamo/oracle/`. Each rule carries the operator's own words, so that what is foreseen can be held against
//! what was said; `docs/dynamo.md` counts them.

mod adapter;
mod alpha;
mod graph;
mod memory;
mod names;
mod picker;
mod platform;
mod pod;
mod request;
pub mod rules;
mod schema;
#[cfg(test)]
mod tests;
mod topology;
mod update;

pub use platform::{Need, Platform};
pub use update::{Remedy, Writer, update};

use super::kinds;
use super::v1beta1::GraphSpec;
use crate::finding::Rule;
use crate::object::{FieldPath, KeyValue, Object, Segment};

/// How sure a refusal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Admission denies the object.
    Refused,
    /// Admission denies it on clusters that lack what it needs, and which this one is is not known.
    Depends(Need),
    /// Admission takes it, and it fails, or may fail, later: in the operator, on some clusters, or from a release on.
    /// These are stator's own findings.
    WouldFail,
}

/// One fault of an object, or of a change of one.
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
    /// How sure it is.
    pub weight: Weight,
    /// What the operator says, where it is the operator that refuses; the API server judges form before.
    pub words: Option<String>,
    /// What makes a forbidden change possible; `Correct` for an object that is refused as such.
    pub remedy: Remedy,
    /// Which of its checks the operator is at: it stops after the first that fails.
    section: usize,
}

/// Every fault of an object, in the operator's order, those of form last. Kinds without rules have none.
///
/// With an unknown [`Platform`], what depends on it has [`Weight::Depends`].
pub fn check(object: &Object, platform: &Platform) -> Vec<Refusal> {
    let mut faults = webhooks(object, platform);
    schema::check(object, &mut faults);
    faults.found
}

/// The part of [`check`] that the operator's webhooks judge, which is all that they see: form is the API server's matter.
pub fn operator(object: &Object, platform: &Platform) -> Vec<Refusal> {
    webhooks(object, platform).found
}

fn webhooks<'a>(object: &Object, platform: &'a Platform) -> Faults<'a> {
    let mut faults = Faults::new(platform);
    let kind = object.kind();
    if kind == kinds::GRAPH.kind {
        if object.api_version() == alpha::API_VERSION {
            alpha::check(object, platform, &mut faults);
        } else {
            graph::check(object, platform, &mut faults);
        }
    } else if kind == kinds::REQUEST.kind {
        request::check(object, &mut faults);
    } else if kind == kinds::ADAPTER.kind {
        adapter::check(object, &mut faults);
    }
    faults
}

/// The faults of a graph's restart order, which are judged on update as on create.
pub(super) fn restart(object: &Object) -> Vec<Refusal> {
    if object.kind() != kinds::GRAPH.kind || object.spec().pointer("/restart/strategy/order").is_none() {
        return Vec::new();
    }
    let platform = Platform::default();
    let mut faults = Faults::new(&platform);
    // A live graph that cannot be read as one is the schema's matter.
    if let Ok(spec) = GraphSpec::read(object.spec()) {
        graph::restart(&spec, &mut faults);
    }
    faults.found
}

/// What the operator says when it denies: the words of the first of its checks that fails, one a line.
pub fn denial<'a>(refusals: impl IntoIterator<Item = &'a Refusal>) -> Option<String> {
    let mut refused: Vec<(usize, &str)> = refusals
        .into_iter()
        .filter(|refusal| refusal.weight == Weight::Refused)
        .filter_map(|refusal| Some((refusal.section, refusal.words.as_deref()?)))
        .collect();
    refused.sort_by_key(|(section, _)| *section);
    let (first, _) = *refused.first()?;
    let mut words: Vec<&str> =
        refused.into_iter().take_while(|(section, _)| *section == first).map(|(_, words)| words).collect();
    words.dedup();
    Some(words.join("\n"))
}

/// Faults as they are found.
#[derive(Debug)]
struct Faults<'a> {
    found: Vec<Refusal>,
    section: usize,
    platform: &'a Platform,
}

impl<'a> Faults<'a> {
    fn new(platform: &'a Platform) -> Self {
        Self { found: Vec::new(), section: 0, platform }
    }

    /// The operator's next check.
    fn section(&mut self) {
        self.section += 1;
    }

    /// Refused by the CRD's own rules; the operator is not asked.
    fn refused(&mut self, rule: Rule, path: FieldPath, message: impl Into<String>, help: impl Into<String>) {
        self.push(rule, path, message.into(), help.into(), Weight::Refused, None);
    }

    /// Refused by the operator, in these words.
    fn refused_as(
        &mut self,
        rule: Rule,
        path: FieldPath,
        message: impl Into<String>,
        help: impl Into<String>,
        words: impl Into<String>,
    ) {
        self.push(rule, path, message.into(), help.into(), Weight::Refused, Some(words.into()));
    }

    /// Refused by the operator, in these words, where the cluster lacks something.
    fn depends(
        &mut self,
        need: Need,
        path: FieldPath,
        message: impl Into<String>,
        help: impl Into<String>,
        words: impl Into<String>,
    ) {
        let (weight, message) = match self.platform.has(need) {
            Some(true) => return,
            Some(false) => (Weight::Refused, message.into()),
            None => (Weight::Depends(need), format!("depends on the cluster: {}", message.into())),
        };
        self.push(need.rule(), path, message, help.into(), weight, Some(words.into()));
    }

    fn would_fail(&mut self, rule: Rule, path: FieldPath, message: impl Into<String>, help: impl Into<String>) {
        self.push(rule, path, message.into(), help.into(), Weight::WouldFail, None);
    }

    fn push(
        &mut self,
        rule: Rule,
        path: FieldPath,
        message: String,
        help: String,
        weight: Weight,
        words: Option<String>,
    ) {
        let section = self.section;
        self.found.push(Refusal { rule, path, message, help, weight, words, remedy: Remedy::Correct, section });
    }
}

/// `spec.components[name=…]`.
fn component_path(name: &str) -> FieldPath {
    FieldPath::of(["spec", "components"]).join(named(name))
}

/// `[name=…]`.
fn named(name: &str) -> Segment {
    Segment::Key([("name".to_owned(), KeyValue::new(&name.into()))].into())
}
