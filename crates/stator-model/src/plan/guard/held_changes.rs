//! What guards hold back of a plan, as one value: what somebody approves is exactly this, and nothing that came later.

use crate::plan::{Action, Change, HoldKind, PlanInput, PlanStep, RewoundBranch};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use stator_core::object::ObjectIdentity;
use std::collections::BTreeSet;

/// The changes that wait for approval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldChanges {
    objects: BTreeSet<HeldObject>,
    /// The move of the branch, which waits although it may change nothing.
    rewound: Option<RewoundBranch>,
    digest: String,
}

/// One object that something is held back of, and what holds it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HeldObject {
    model: String,
    object: ObjectIdentity,
    guard: HoldKind,
}

impl HeldChanges {
    /// Of the changes of a plan.
    pub(in crate::plan) fn of(changes: &[Change], rewound: Option<RewoundBranch>) -> Self {
        let mut hash = Sha256::new();
        if let Some(RewoundBranch { from, to, holds_unchanged: _ }) = &rewound {
            hash.update(json!({"guard": HoldKind::Rollback, "from": from, "to": to}).to_string().as_bytes());
            hash.update(b"\n");
        }
        let mut objects = BTreeSet::new();
        for (change, guard) in changes.iter().filter_map(|change| Some((change, guard_of(change)?))) {
            let would = match &change.step {
                PlanStep::Held { by: _, would } => crate::plan::totals::write_digest_input(would),
                PlanStep::NoWrite | PlanStep::AwaitGone { .. } | PlanStep::Write(_) => {
                    json!(crate::plan::join_reasons(&change.reasons))
                }
            };
            let line = json!({
                "model": change.model, "object": change.object, "action": change.action, "guard": guard, "would": would,
            });
            hash.update(line.to_string().as_bytes());
            hash.update(b"\n");
            objects.insert(HeldObject { model: change.model.clone(), object: change.object.identity(), guard });
        }
        let is_empty = objects.is_empty() && rewound.is_none();
        let digest = if is_empty { String::new() } else { hex::encode(hash.finalize()) };
        Self { objects, rewound, digest }
    }

    /// SHA-256 over what waits: which objects, as which live ones, why, and what would be done to each. Empty where nothing
    /// waits.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The models that something waits of.
    pub fn models(&self) -> BTreeSet<String> {
        self.objects.iter().map(|held| held.model.clone()).collect()
    }

    /// Whether nothing waits but what waits of the other as well: an approved sync that was interrupted has less left.
    pub fn is_part_of(&self, other: &Self) -> bool {
        self.objects.is_subset(&other.objects) && (self.rewound.is_none() || self.rewound == other.rewound)
    }
}

/// The move of the branch that is held by itself, unless it was allowed.
pub(in crate::plan) fn held_rewind(input: &PlanInput) -> Option<RewoundBranch> {
    let is_held = |one: &RewoundBranch| one.holds_unchanged && !input.allow.contains(&HoldKind::Rollback);
    input.rewound.clone().filter(is_held)
}

/// What an approval would release of a change. What belongs to another source is blocked, until somebody approves the move.
fn guard_of(change: &Change) -> Option<HoldKind> {
    let is_moved =
        change.action == Action::Blocked && change.reasons.iter().any(crate::plan::guard::names_other_source);
    change.step.held_by().or(is_moved.then_some(HoldKind::Move))
}
