//! What holds a sync back: too many deletions, too many GPUs, replacements and adoptions that nobody asked for.
//! A repository that lost its settings is found as well.

pub(super) mod held_changes;

use super::{Record, rules};
use crate::plan::context::{PlanContext, SourceMarks};
use crate::plan::{
    Action, AddressMove, Change, ChangeReason, ForeignOwner, Hold, HoldKind, PlanStep, PlannedWrite, RewoundBranch,
};
use crate::render::RenderedText;
use stator_core::commit::short_commit;
use stator_core::dynamo::gpus;
use stator_core::dynamo::kinds::{CONFIG_MAP, JOB, LABEL_FILE};
use stator_core::finding::{Finding, Location};
use stator_core::manual;
use stator_core::object::JsonText;
use std::collections::{BTreeSet, HashMap};

/// Deletions that are never many, whatever they are a part of.
pub(super) const MIN_DELETION_LIMIT: usize = 5;

/// What the guards compare a plan's changes with.
pub(super) struct GuardLimits<'a> {
    /// How many deletions go without an approval; `None` is a share of the objects, see [`Self::present`].
    pub(super) max_deletions: Option<u32>,
    /// How many GPUs the environment may have at once.
    pub(super) max_gpus: Option<u32>,
    /// How many objects there are before the changes: what the deletions are a share of.
    pub(super) present: usize,
    /// The GPUs at their peak of everything that is not among the changes.
    pub(super) other_gpus: u64,
    /// What became of the branch, where it does not lead on from what was applied.
    pub(super) rewound: Option<&'a RewoundBranch>,
    /// The guards that somebody has released.
    pub(super) allow: &'a BTreeSet<HoldKind>,
}

impl GuardLimits<'_> {
    /// What the guards find in changes, of which `is_written` says whether a sync would write them.
    pub(super) fn find_holds(&self, changes: &[Change], is_written: impl Fn(&Change) -> bool) -> Vec<Hold> {
        let holds = [
            self.rollback_hold(changes, &is_written),
            self.replace_hold(changes),
            self.mass_delete_hold(changes),
            self.max_gpus_hold(changes, &is_written),
            self.adopt_hold(changes),
            self.move_hold(changes),
        ];
        holds.into_iter().flatten().collect()
    }

    /// An older commit was good once, signature included, and whoever answers for the git host may show it again. It is held
    /// where it changes nothing, too: what follows on it would pass for progress.
    fn rollback_hold(&self, changes: &[Change], is_written: impl Fn(&Change) -> bool) -> Option<Hold> {
        let RewoundBranch { from, to, holds_unchanged } = self.rewound?;
        (*holds_unchanged || changes.iter().any(is_written)).then(|| Hold {
            kind: HoldKind::Rollback,
            message: format!(
                "the branch points to {}, which does not descend from the applied commit {}",
                short_commit(to),
                short_commit(from)
            ),
            help: "check why the branch was moved, then allow it with --allow rollback".to_owned(),
            allowed: self.allow.contains(&HoldKind::Rollback),
        })
    }

    fn replace_hold(&self, changes: &[Change]) -> Option<Hold> {
        let replaced = changes.iter().filter(|one| one.action == Action::Replace);
        let (moved, again): (Vec<&Change>, Vec<&Change>) = replaced.partition(|one| one.address_move().is_some());
        let join = |some: &[&Change]| some.iter().map(|one| one.object.to_string()).collect::<Vec<_>>().join(", ");
        let again_message = format!("to be deleted and created again: {}", join(&again));
        let moved_names: Vec<String> = moved.iter().map(|one| one.moved_name()).collect();
        let moved_message = format!("to be replaced by a graph with another address: {}", moved_names.join(", "));
        let down = "the models are down until they have restarted";
        let (what, help) = match (again.is_empty(), moved.is_empty()) {
            (true, true) => return None,
            (false, true) => (again_message, down.to_owned()),
            (true, false) => (moved_message, "clients must then use the new address".to_owned()),
            (false, false) => (
                format!("{again_message}; {moved_message}"),
                format!("{down}, and clients of the graphs that move must then use the new address"),
            ),
        };
        Some(Hold {
            kind: HoldKind::Replace,
            message: format!("Dynamo forbids these changes in place; {what}"),
            help: format!("allow it with --allow replace: {help}"),
            allowed: self.allow.contains(&HoldKind::Replace),
        })
    }

    /// Whatever made an object that stator does not manage may still count on it, so that taking it over is a person's decision.
    fn adopt_hold(&self, changes: &[Change]) -> Option<Hold> {
        let names = objects_with(changes, Action::Adopt)?;
        Some(Hold {
            kind: HoldKind::Adopt,
            message: format!("already in the cluster, not managed by stator; would be taken over: {names}"),
            help: "allow it with --allow adopt, or give the model another name".to_owned(),
            allowed: self.allow.contains(&HoldKind::Adopt),
        })
    }

    /// What belongs to another source is blocked, as that one would take it back; a person may know that it was moved.
    fn move_hold(&self, changes: &[Change]) -> Option<Hold> {
        let is_move = |change: &&Change| change.reasons.iter().any(names_other_source);
        let names: Vec<String> = changes.iter().filter(is_move).map(|one| one.object.to_string()).collect();
        (!names.is_empty()).then(|| Hold {
            kind: HoldKind::Move,
            message: format!("belongs to another source; would be taken over: {}", names.join(", ")),
            help: "check that it was moved here, then allow it with --allow move".to_owned(),
            allowed: self.allow.contains(&HoldKind::Move),
        })
    }

    /// More deletions than max(5 objects, 20 %) in one plan look like a mistake in git more than like a wish.
    fn mass_delete_hold(&self, changes: &[Change]) -> Option<Hold> {
        let counts = |one: &&Change| one.action == Action::Delete && !one.is_outgoing() && one.loses_something();
        let deletions = changes.iter().filter(counts).count();
        let limit = match self.max_deletions {
            Some(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
            None => MIN_DELETION_LIMIT.max(self.present / 5),
        };
        (deletions > limit).then(|| Hold {
            kind: HoldKind::MassDelete,
            message: format!(
                "{deletions} of {} objects would be deleted; the limit without approval is {limit}",
                self.present
            ),
            help: format!(
                "check what git lost; if all of it is to go: {}",
                manual::page("how-to/prune-safely", "many-deletions-at-once")
            ),
            allowed: self.allow.contains(&HoldKind::MassDelete),
        })
    }

    fn max_gpus_hold(&self, changes: &[Change], is_written: impl Fn(&Change) -> bool) -> Option<Hold> {
        let limit = u64::from(self.max_gpus?);
        let peak = changes.iter().fold(self.other_gpus, |sum, one| sum.saturating_add(one.gpus.peak));
        (peak > limit && changes.iter().any(|one| needs_more_gpus(one) && is_written(one))).then(|| Hold {
            kind: HoldKind::MaxGpus,
            message: format!("up to {peak} GPUs would be needed at once; the environment's limit is {limit}"),
            help: "scale something down, set `rollout` to surge 0, or allow it with --allow max-gpus".to_owned(),
            allowed: self.allow.contains(&HoldKind::MaxGpus),
        })
    }
}

/// Whether a reason is that something belongs to another source, or did until it was taken over.
pub(super) fn names_other_source(reason: &ChangeReason) -> bool {
    matches!(
        reason,
        ChangeReason::Moved { .. }
            | ChangeReason::Foreign(
                ForeignOwner::Source { .. } | ForeignOwner::Repository { .. } | ForeignOwner::OwnerLabel { .. }
            )
    )
}

/// The objects that an action is for, in a list for a message; `None` when there is none.
fn objects_with(changes: &[Change], action: Action) -> Option<String> {
    let names: Vec<String> =
        changes.iter().filter(|one| one.action == action).map(|one| one.object.to_string()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Finds what the guards say of a plan against a cluster, and holds those writes back.
pub(super) fn apply_guards(context: &PlanContext<'_>, changes: &mut [Change]) -> Vec<Hold> {
    let input = context.input;
    let shown: BTreeSet<_> = changes.iter().map(|one| one.object.identity()).collect();
    // Models out of scope hold their GPUs as well.
    let out_of_scope = input
        .live
        .iter()
        .filter(|object| !shown.contains(&object.reference().identity()))
        .filter(|object| context.other_source(&SourceMarks::of_text(object)).is_none())
        .fold(0_u64, |sum, object| sum.saturating_add(gpus::gpu_use(&object.parse()).total()));
    let present = changes.iter().filter(|one| one.action != Action::Create && one.counts_as_present()).count();
    let limits = GuardLimits {
        max_deletions: input.guards.max_deletions,
        max_gpus: input.guards.max_gpus,
        present: present + input.unchanged.totals.objects,
        other_gpus: out_of_scope.saturating_add(input.unchanged.totals.gpus.peak),
        rewound: input.rewound.as_ref(),
        allow: &input.allow,
    };
    let holds = limits.find_holds(changes, |one| one.step.write().is_some());
    for hold in holds.iter().filter(|hold| !hold.allowed) {
        for change in changes.iter_mut().filter(|one| one.step.write().is_some() && is_held_by(one, hold.kind)) {
            change.step.hold_back(hold.kind);
            change.reasons.push(ChangeReason::Held(hold.kind));
        }
    }
    holds
}

/// Whether a guard holds a write of this kind back once it has found too much of it.
fn is_held_by(change: &Change, guard: HoldKind) -> bool {
    match guard {
        HoldKind::MassDelete => change.action == Action::Delete && !change.is_outgoing(),
        HoldKind::MaxGpus => needs_more_gpus(change),
        HoldKind::Rollback => true,
        // These are opt-ins, which the decision on each object has heeded already.
        HoldKind::Replace | HoldKind::Delete | HoldKind::Adopt | HoldKind::Move => false,
    }
}

fn needs_more_gpus(change: &Change) -> bool {
    change.gpus.peak > change.gpus.before
}

impl Change {
    /// True for what goes only once another has taken its place: a graph, or a file's former content.
    fn is_outgoing(&self) -> bool {
        matches!(&self.step, PlanStep::Write(PlannedWrite::Delete(delete)) if delete.after.is_some())
            || self
                .reasons
                .iter()
                .any(|reason| matches!(reason, ChangeReason::FileSuperseded { .. } | ChangeReason::RenamedTo { .. }))
    }

    /// Whether something is lost with the object. A ConfigMap of `spec.files` goes with the graph that mounts it, and a Job
    /// has done what it was for.
    fn loses_something(&self) -> bool {
        let label = |side: &JsonText| side.parse().get("metadata")?.get("labels")?.get(LABEL_FILE).cloned();
        let is_file = self.object.kind == CONFIG_MAP.kind && self.before.as_ref().and_then(label).is_some();
        !is_file && self.object.kind != JOB.kind
    }

    /// Where clients have to go, of a graph whose replacement comes up before it goes.
    fn address_move(&self) -> Option<&AddressMove> {
        self.reasons.iter().find_map(|reason| {
            if let ChangeReason::NewGraphFirst { graph: _, moves } = reason { Some(moves) } else { None }
        })
    }

    /// The object with its new addresses.
    fn moved_name(&self) -> String {
        let to = self.address_move().map(|moves| moves.to.as_slice()).unwrap_or_default();
        let to: Vec<String> = to.iter().map(ToString::to_string).collect();
        if to.is_empty() { self.object.to_string() } else { format!("{} (then {})", self.object, to.join(", ")) }
    }

    /// True for objects that stator holds in the cluster: the ones that a share of deletions is a share of.
    fn counts_as_present(&self) -> bool {
        matches!(self.action, Action::Delete | Action::Deleting) || self.inventory.is_some()
    }
}

/// How many models a message names.
const MAX_NAMES: usize = 3;

/// What speaks against syncing a folder that no `stator.yaml` names: records of a repository with a name, for the same
/// models from the same files. `records` are those of all repositories.
pub fn lost_settings_finding<'a>(
    rendered: &[RenderedText],
    records: impl IntoIterator<Item = &'a Record>,
) -> Option<Finding> {
    let sources: HashMap<&str, &str> = rendered.iter().map(|one| (one.model.as_str(), one.source.as_str())).collect();
    let mut same: Vec<&Record> = records
        .into_iter()
        .filter(|record| record.folder.is_none())
        .filter(|record| sources.get(record.model.as_str()) == Some(&record.source.as_str()))
        .collect();
    same.sort_by_key(|record| (&record.repository, &record.environment, &record.namespace, &record.model));
    let first = *same.first()?;
    let of_first = same.iter().filter(|one| {
        (&one.repository, &one.environment, &one.namespace) == (&first.repository, &first.environment, &first.namespace)
    });
    let names: Vec<&str> = of_first.map(|one| one.model.as_str()).collect();
    let shown = names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(MAX_NAMES);
    let shown = if more > 0 { format!("{shown} and {more} more") } else { shown };
    let Record { repository, environment, namespace, .. } = first;
    Some(Finding::error(
        rules::LOST_SETTINGS,
        Location::file("stator.yaml"),
        format!(
            "there is no stator.yaml here, but repository `{repository}`, environment `{environment}`, has synced {shown} \
             from the same files to namespace {namespace}"
        ),
        "restore the root stator.yaml, or give this folder one with another `metadata.name` if it is another repository",
    ))
}

#[cfg(test)]
mod tests;
