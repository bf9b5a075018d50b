//! Models that a plan has nothing to say of, so that the next plan need not look at them again.

use crate::plan::{Action, Change, GpuTotals, Plan, PlanInput, PlanScope, PlanStep, Record, UnchangedTotals};
use crate::render::{RenderedText, count_deprecated};
use stator_core::dynamo::kinds::REQUEST;
use stator_core::finding::Finding;
use stator_core::object::{ObjectIdentity, ObjectText};
use std::collections::{BTreeMap, HashMap};

/// A model whose objects and record are as git wants them.
#[derive(Clone, Debug)]
pub struct UnchangedModel<'a> {
    /// What it renders to.
    pub rendered: &'a RenderedText,
    /// Its lines in the plan: every one of its objects is kept.
    pub changes: Vec<&'a Change>,
    /// Those objects as the cluster has them.
    pub live: Vec<&'a ObjectText>,
    /// Its record.
    pub record: &'a Record,
    /// Its share of sums and guards.
    pub totals: UnchangedTotals,
    /// What was found in it, when it was read and when it was rendered.
    pub findings: Vec<Finding>,
}

/// The models of which a plan says nothing but their share of sums and guards, and what was found in them. All that was said
/// of them hangs from what is in [`UnchangedModel`], and from nobody else having one of their names or objects: whoever
/// sees to that may leave them out of the next plan's input, and say what they sum up to in [`PlanInput::unchanged`]. That
/// plan is the same one without their lines.
///
/// A model with an error is never among them, nor one with a request, whose graph is somebody else's object.
pub fn unchanged_models<'a>(input: &'a PlanInput, plan: &'a Plan) -> Vec<UnchangedModel<'a>> {
    if input.scope != PlanScope::All {
        return Vec::new();
    }
    let mut lines: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
    for change in &plan.changes {
        lines.entry(&change.model).or_default().push(change);
    }
    let own = crate::plan::context::own_records(input).into_iter();
    let records: HashMap<&str, &Record> = own.map(|record| (record.model.as_str(), record)).collect();
    let live: HashMap<ObjectIdentity, &ObjectText> =
        input.live.iter().map(|object| (object.reference().identity(), object)).collect();
    let one = |rendered: &'a RenderedText| {
        let changes = lines.get(rendered.model.as_str())?;
        let quiet = !rendered.findings.iter().any(Finding::is_error)
            && !rendered.objects.is_empty()
            && changes.len() == rendered.objects.len()
            && changes.iter().all(|change| is_kept(change) && change.source == rendered.source);
        if !quiet {
            return None;
        }
        let found: Option<Vec<&ObjectText>> =
            changes.iter().map(|change| live.get(&change.object.identity()).copied()).collect();
        let deprecated = count_deprecated(std::slice::from_ref(rendered));
        let mut rest = UnchangedTotals { objects: changes.len(), deprecated, ..UnchangedTotals::default() };
        for change in changes {
            rest.gpus.add(change.gpus);
            GpuTotals::add_by_sku(&mut rest.gpus_by_sku, &change.gpus_by_sku);
        }
        let record = records.get(rendered.model.as_str()).filter(|record| record.source == rendered.source)?;
        let read = input.model_findings.get(&rendered.source).into_iter().flatten();
        let findings = read.chain(&rendered.findings).cloned().collect();
        Some(UnchangedModel { rendered, changes: changes.clone(), live: found?, record, totals: rest, findings })
    };
    input.rendered.iter().filter_map(one).collect()
}

/// Nothing is to be done for it, and nothing is to be said of it.
fn is_kept(change: &Change) -> bool {
    change.action == Action::Keep
        && change.step == PlanStep::NoWrite
        && change.reasons.is_empty()
        && change.inventory.is_some()
        && change.object.kind != REQUEST.kind
}
