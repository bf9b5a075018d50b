//! Which of what drifted an attempt puts back: what may not be is taken out of its plan.

use super::attempt_cache::ReportedFindings;
use super::drift_repairs::{DriftFindings, DriftedField, RepairDecision, RepairLimits};
use super::source_board::SourceBoard;
use stator_cluster::sync::SyncReport;
use stator_core::dynamo::kinds::FIELD_MANAGER;
use stator_core::object::ObjectIdentity;
use stator_model::plan::{self, Action, Change, ChangeReason, Plan, PlanStep, Record, Summary, join_reasons};
use std::collections::{BTreeMap, BTreeSet};

/// Fields of one object that are remembered at most: the first by path. One that is fought over is among them as long as no
/// more of them differ.
const MAX_FIELDS: usize = 32;

/// What was decided about drift.
#[derive(Clone, Debug, Default)]
pub(super) struct RepairChoice {
    /// What the plan puts back, and what it leaves.
    pub(super) findings: DriftFindings,
    /// Objects whose pause is not over, with their models: they are put back soon, and no verdict changes for that.
    pub(super) waiting: BTreeMap<ObjectIdentity, String>,
    /// Objects that are disputed, with their models.
    disputed: BTreeMap<ObjectIdentity, String>,
    /// What it puts back, with their models.
    repaired: BTreeMap<ObjectIdentity, String>,
}

/// What of a plan is drift that a sync puts back, with who wrote it, where `managedFields` say so: whoever takes a field away
/// owns nothing of it, and neither does a webhook that changes what stator applies.
fn find_repairable(plan: &Plan, records: &[Record]) -> BTreeMap<ObjectIdentity, BTreeSet<DriftedField>> {
    let drifted = plan::drifted_objects(plan, records).into_iter().filter(|(_, heals)| *heals);
    let of = |(change, _): (&Change, bool)| {
        let fields = change.fields.iter().take(MAX_FIELDS).map(|field| DriftedField {
            path: field.path.to_string(),
            writer: Some(field.owner.clone()).filter(|owner| owner != FIELD_MANAGER),
        });
        (change.object.identity(), fields.collect())
    };
    drifted.map(of).collect()
}

impl RepairChoice {
    /// Takes out of a plan what the limits do not let it put back. What is disputed is blocked in it instead. `records` are
    /// those that the plan was made of.
    pub(super) fn apply(plan: &mut Plan, records: &[Record], limits: &RepairLimits) -> Self {
        let mut choice = Self::default();
        for (identity, fields) in find_repairable(plan, records) {
            let decision = limits.decide(&identity, &fields);
            let Some(change) = plan.changes.iter_mut().find(|change| change.object.identity() == identity) else {
                continue;
            };
            match decision {
                RepairDecision::Repair => {
                    choice.repaired.insert(identity.clone(), change.model.clone());
                    choice.findings.repaired.insert(identity, fields);
                }
                RepairDecision::Wait => {
                    choice.waiting.insert(identity.clone(), change.model.clone());
                    choice.findings.waiting.insert(identity);
                    leave_for_now(change, &mut plan.summary);
                }
                RepairDecision::LeaveDisputed(disputed) => {
                    choice.disputed.insert(identity.clone(), change.model.clone());
                    choice.findings.disputed.insert(identity);
                    block(change, &disputed, &mut plan.summary);
                }
            }
        }
        choice
    }

    /// What came of it: where nothing was applied of a model, nothing of it was put back.
    pub(super) fn findings_of(&self, report: &SyncReport) -> DriftFindings {
        let has_applied = |model: &String| report.models.iter().any(|one| one.name == *model && one.applied > 0);
        let mut findings = self.findings.clone();
        findings.repaired.retain(|identity, _| self.repaired.get(identity).is_some_and(has_applied));
        findings
    }

    /// The models of objects that wait, without those that are disputed as well.
    pub(super) fn waiting_models(&self) -> BTreeSet<String> {
        let disputed = self.disputed_models();
        self.waiting.values().filter(|model| !disputed.contains(*model)).cloned().collect()
    }

    /// The models of objects that are disputed.
    pub(super) fn disputed_models(&self) -> BTreeSet<String> {
        self.disputed.values().cloned().collect()
    }
}

impl SourceBoard {
    /// Says in the log which objects are left as they are from now on, as their repair does not stick.
    pub(super) fn report_disputes(&self, plan: &Plan, known: &mut ReportedFindings) {
        let is_dispute = |reason: &ChangeReason| matches!(reason, ChangeReason::RepairUndone { .. });
        let disputed = plan.changes.iter().filter(|change| change.reasons.iter().any(is_dispute));
        let mut reported = BTreeSet::new();
        for change in disputed {
            let message = format!("{}: {}", change.object, join_reasons(&change.reasons));
            if !known.disputes.contains(&message) {
                tracing::warn!(source = %self.source.key, model = change.model, "{message}");
            }
            reported.insert(message);
        }
        known.disputes = reported;
    }
}

/// Leaves an object as it is until its pause is over. One that is not there is nothing to wait for, and nothing to be called
/// healthy.
fn leave_for_now(change: &mut Change, summary: &mut Summary) {
    let is_absent = change.action == Action::Create;
    let count = summary.count_mut(change);
    *count = count.saturating_sub(1);
    change.step = PlanStep::NoWrite;
    if is_absent {
        change.action = Action::Blocked;
        change.inventory = None;
        change.reasons = vec![ChangeReason::DeletedAgain];
        summary.blocked += 1;
    } else {
        change.action = Action::Keep;
        summary.keep += 1;
    }
}

fn block(change: &mut Change, disputed: &BTreeSet<DriftedField>, summary: &mut Summary) {
    let mut writers: BTreeMap<&Option<String>, Vec<String>> = BTreeMap::new();
    for field in disputed {
        writers.entry(&field.writer).or_default().push(field.path.clone());
    }
    let reason =
        |(writer, paths): (&Option<String>, Vec<String>)| ChangeReason::RepairUndone { paths, writer: writer.clone() };
    change.reasons = writers.into_iter().map(reason).collect();
    let count = summary.count_mut(change);
    *count = count.saturating_sub(1);
    change.action = Action::Blocked;
    change.step = PlanStep::NoWrite;
    summary.blocked += 1;
}
