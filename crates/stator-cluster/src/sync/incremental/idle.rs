//! Whether a sync would leave a model alone: asked of the machine itself, so that there is no second opinion.

use crate::sync::machine::{MachineEffect, MachineEvent, MachineInput, MachineSettings, SyncMachine};
use stator_core::object::ObjectText;
use stator_model::plan::{Plan, PlanOwnership, Summary, SyncBookkeeping, UnchangedModel};
use std::time::Duration;

/// Whether a sync that waits for health would make no call for a model, and call it well.
pub(super) fn is_idle(plan: &Plan, settled: &UnchangedModel<'_>) -> bool {
    let name = &settled.rendered.model;
    let alone = Plan {
        api_version: plan.api_version,
        kind: plan.kind,
        repository: plan.repository.clone(),
        environment: plan.environment.clone(),
        revision: plan.revision.clone(),
        base: plan.base.clone(),
        digest: String::new(),
        summary: Summary::default(),
        changes: settled.changes.iter().map(|change| (*change).clone()).collect(),
        holds: Vec::new(),
        held: stator_model::plan::HeldChanges::default(),
        retired: Vec::new(),
        renames: std::collections::BTreeMap::new(),
        upgrade: None,
        elsewhere: Vec::new(),
        folder: plan.folder.clone(),
        ownership: PlanOwnership { owner: plan.ownership.owner.clone(), ..PlanOwnership::default() },
        intents: plan.intents.get(name).map(|intent| (name.clone(), intent.clone())).into_iter().collect(),
        findings: Vec::new(),
    };
    let settings = MachineSettings {
        wait: true,
        prune: true,
        keeps_file_faults: false,
        progress_deadline: Duration::from_secs(60),
        timeout: None,
        concurrency: 1,
        attempts: 1,
        started: jiff::Timestamp::UNIX_EPOCH,
        seed: 0,
        approval: None,
    };
    let live: Vec<ObjectText> = settled.live.iter().map(|text| (*text).clone()).collect();
    let mut machine = SyncMachine::new(
        alone,
        SyncBookkeeping { records: vec![settled.record.clone()], journals: Vec::new() },
        settings,
    );
    for event in [MachineEvent::Start, MachineEvent::Listed(live)] {
        let (next, effects) = machine.step(MachineInput { now: Duration::ZERO, event });
        machine = next;
        if effects.iter().any(|effect| matches!(effect, MachineEffect::Call { .. })) {
            return false;
        }
        if machine.is_done() {
            return machine.report().models.iter().all(|outcome| outcome.result.is_success());
        }
    }
    false
}
