//! What Dynamo's admission refuses, as far as it can be known without a cluster, and what it lets pass although it cannot
//! work. `validate`, `plan` and the embedded cluster judge by these rules and no others.
//!
//! Source: the operator's validating webhooks of the releases 1.2 and 1.5, their definitions, and the verdicts of real API
//! servers with both (`tests/data/dynamo/`). What holds from a release on asks [`super::release`]. Each rule carries the operator's own words, so that what is foreseen can be held against
//! what was said; `docs/dynamo.md` counts them.

mod adapter;
mod defaulting;
mod endpoint_picker;
mod gpu_memory;
mod graph;
mod grove;
mod image;
mod names;
mod operator_objects;
mod platform;
mod pod;
mod request;
pub mod rules;
mod schema;
#[cfg(test)]
mod tests;
mod topology;
mod update;
mod v1alpha1;

pub use defaulting::{fill_on_create, fill_on_write, refill_on_write, switch_checkpoints};
pub use image::{ImageTagFault, is_runtime_version, version_in_tag};
pub use platform::{Platform, PlatformRequirement};
pub use pod::starts_elastic_experts;
pub use update::{ChangeRemedy, UpdateAuthor, check_update};

use super::kinds;
use super::release::{Behaviour, Release};
use super::v1beta1::GraphSpec;
use crate::finding::Rule;
use crate::object::{FieldPath, KeyValue, Object, PathSegment};

/// How sure a refusal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdmissionOutcome {
    /// Admission denies the object.
    Denied,
    /// Admission denies it on clusters that lack what it needs, and which this one is is not known.
    DependsOnCluster(PlatformRequirement),
    /// Admission takes it, and it fails, or may fail, later: in the operator, on some clusters, or from a release on.
    /// These are stator's own findings.
    WouldFail,
}

/// One fault of an object, or of a change of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionFinding {
    /// Which rule.
    pub rule: Rule,
    /// Where in the object.
    pub path: FieldPath,
    /// What was found and what is allowed.
    pub message: String,
    /// The fix.
    pub help: String,
    /// How sure it is.
    pub outcome: AdmissionOutcome,
    /// What is wrong with an image's tag, where that is the fault.
    pub image_tag: Option<ImageTagFault>,
    /// What the operator says, where it is the operator that refuses; the API server judges form before.
    pub operator_message: Option<String>,
    /// What makes a forbidden change possible; `Correct` for an object that is refused as such.
    pub remedy: ChangeRemedy,
    /// Which of its checks the operator is at: it stops after the first that fails.
    operator_check: usize,
}

/// Every fault of an object, in the operator's order, those of form last. Kinds without rules have none.
///
/// With an unknown [`Platform`], what depends on it has [`AdmissionOutcome::DependsOnCluster`].
///
/// Of a release that is newer than the known ones nothing but the definitions that its cluster serves is known to refuse:
/// all else is [`AdmissionOutcome::WouldFail`].
pub fn check_object(object: &Object, platform: &Platform) -> Vec<AdmissionFinding> {
    let mut faults = run_webhook_checks(object, platform);
    faults.soften_for_unknown_release();
    schema::check(object, &mut faults);
    if platform.served.is_none() {
        faults.soften_for_unknown_release();
    }
    faults.findings
}

/// The part of [`check_object`] that the operator's webhooks judge, which is all that they see: form is the API server's matter.
pub fn check_operator_webhooks(object: &Object, platform: &Platform) -> Vec<AdmissionFinding> {
    let mut faults = run_webhook_checks(object, platform);
    faults.soften_for_unknown_release();
    faults.findings
}

fn run_webhook_checks<'a>(object: &Object, platform: &'a Platform) -> AdmissionCollector<'a> {
    let mut faults = AdmissionCollector::new(platform);
    let kind = object.kind();
    if kind == kinds::GRAPH.kind {
        if object.api_version() == v1alpha1::API_VERSION {
            v1alpha1::check(object, platform, &mut faults);
        } else {
            graph::check(object, platform, &mut faults);
        }
    } else if kind == kinds::REQUEST.kind {
        request::check(object, &mut faults);
    } else if kind == kinds::ADAPTER.kind {
        adapter::check(object, &mut faults);
    } else if kind == operator_objects::COMPONENT {
        operator_objects::check_component(object, &mut faults);
    } else if kind == operator_objects::CHECKPOINT {
        operator_objects::check_checkpoint(&mut faults);
    }
    faults
}

/// The faults of a graph's restart order, which are judged on update as on create.
pub(super) fn check_restart_order(object: &Object) -> Vec<AdmissionFinding> {
    if object.kind() != kinds::GRAPH.kind || object.spec().pointer("/restart/strategy/order").is_none() {
        return Vec::new();
    }
    let platform = Platform::default();
    let mut faults = AdmissionCollector::new(&platform);
    // A live graph that cannot be read as one is the schema's matter.
    if let Ok(spec) = GraphSpec::from_value(object.spec()) {
        graph::check_restart_order(&spec, &mut faults);
    }
    faults.findings
}

/// What the operator says when it denies: the words of the first of its checks that fails, one a line.
pub fn denial_message<'a>(refusals: impl IntoIterator<Item = &'a AdmissionFinding>) -> Option<String> {
    let mut refused: Vec<(usize, &str)> = refusals
        .into_iter()
        .filter(|refusal| refusal.outcome == AdmissionOutcome::Denied)
        .filter_map(|refusal| Some((refusal.operator_check, refusal.operator_message.as_deref()?)))
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
struct AdmissionCollector<'a> {
    findings: Vec<AdmissionFinding>,
    operator_check: usize,
    platform: &'a Platform,
}

impl<'a> AdmissionCollector<'a> {
    fn new(platform: &'a Platform) -> Self {
        Self { findings: Vec::new(), operator_check: 0, platform }
    }

    /// Whether the operator does that.
    fn has(&self, behaviour: Behaviour) -> bool {
        self.platform.release().has(behaviour)
    }

    /// What a release that stator does not know refuses is not known.
    fn soften_for_unknown_release(&mut self) {
        if self.platform.release() != Release::Newer {
            return;
        }
        for finding in self.findings.iter_mut().filter(|finding| finding.outcome == AdmissionOutcome::Denied) {
            finding.outcome = AdmissionOutcome::WouldFail;
            finding.message = format!("Dynamo {} refuses: {}", Release::Newer.nearest_known(), finding.message);
        }
    }

    /// The operator's next check.
    fn next_operator_check(&mut self) {
        self.operator_check += 1;
    }

    /// Refused by the CRD's own rules; the operator is not asked.
    fn deny_by_schema(&mut self, rule: Rule, path: FieldPath, message: impl Into<String>, help: impl Into<String>) {
        self.push(rule, path, message.into(), help.into(), AdmissionOutcome::Denied, None);
    }

    /// Refused by the operator, in these words.
    fn deny(
        &mut self,
        rule: Rule,
        path: FieldPath,
        message: impl Into<String>,
        help: impl Into<String>,
        words: impl Into<String>,
    ) {
        self.push(rule, path, message.into(), help.into(), AdmissionOutcome::Denied, Some(words.into()));
    }

    /// Refused by the operator, in these words, where the cluster lacks something.
    fn deny_unless_met(
        &mut self,
        need: PlatformRequirement,
        path: FieldPath,
        message: impl Into<String>,
        help: impl Into<String>,
        words: impl Into<String>,
    ) {
        let (weight, message) = match self.platform.satisfies(need) {
            Some(true) => return,
            Some(false) => (AdmissionOutcome::Denied, message.into()),
            None => (AdmissionOutcome::DependsOnCluster(need), format!("depends on the cluster: {}", message.into())),
        };
        self.push(need.rule(), path, message, help.into(), weight, Some(words.into()));
    }

    fn warn(&mut self, rule: Rule, path: FieldPath, message: impl Into<String>, help: impl Into<String>) {
        self.push(rule, path, message.into(), help.into(), AdmissionOutcome::WouldFail, None);
    }

    /// Refused by the operator where it does that; on releases before, stator's own finding.
    fn deny_since(
        &mut self,
        behaviour: Behaviour,
        rule: Rule,
        path: FieldPath,
        message: impl Into<String>,
        help: impl Into<String>,
        words: impl Into<String>,
    ) {
        if self.has(behaviour) {
            self.deny(rule, path, message, help, words);
        } else {
            self.warn(rule, path, message, help);
        }
    }

    fn push(
        &mut self,
        rule: Rule,
        path: FieldPath,
        message: String,
        help: String,
        weight: AdmissionOutcome,
        words: Option<String>,
    ) {
        let section = self.operator_check;
        self.findings.push(AdmissionFinding {
            rule,
            path,
            message,
            help,
            outcome: weight,
            image_tag: None,
            operator_message: words,
            remedy: ChangeRemedy::Correct,
            operator_check: section,
        });
    }
}

/// `spec.components[name=…]`.
fn component_path(name: &str) -> FieldPath {
    FieldPath::from_fields(["spec", "components"]).join(name_segment(name))
}

/// `[name=…]`.
fn name_segment(name: &str) -> PathSegment {
    PathSegment::Key([("name".to_owned(), KeyValue::new(&name.into()))].into())
}
