//! What pods name is not deleted while they may name it, whoever declared it: claims, files, what devices are claimed by.

use super::context::PlanContext;
use super::{Change, ChangeReason, DeleteStep, HoldKind, KeptBy, PlanStep, PlannedWrite};
use stator_core::dynamo::kinds::{JOURNAL, LABEL_FILE, RECORD};
use stator_core::dynamo::references::{NAMED_BY_PODS, is_named_by, names_of};
use stator_core::finding::Finding;
use stator_core::object::{ObjectIdentity, ObjectRef, ObjectText};
use std::collections::BTreeMap;

/// Who uses an object that is to be deleted, once this plan is carried out.
enum Use {
    /// Somebody whose change is held back, and by what.
    Held(ObjectRef, HoldKind),
    /// Somebody who goes on using it.
    By(ObjectRef),
    /// Somebody of another model who uses it until its change is through.
    Until(ObjectRef),
    /// Perhaps somebody that cannot be read.
    Perhaps(String),
}

/// Everybody who may name objects that pods need, live and wanted, of any model.
struct Users<'a> {
    live: Vec<&'a ObjectText>,
    desired: Vec<ObjectText>,
    /// What cannot be read: a file with errors, or a damaged object.
    unknown: Option<String>,
}

impl<'a> Users<'a> {
    fn of(context: &'a PlanContext<'_>) -> Self {
        let input = context.input;
        let desired = context.models().flat_map(|one| &one.objects).map(|one| &one.object);
        let faulty = input.rendered.iter().filter(|one| one.findings.iter().any(Finding::is_error));
        let files = input.broken.iter().map(|one| &one.source).chain(faulty.map(|one| &one.source));
        let may_use = |kind: &str| kind != RECORD.kind && kind != JOURNAL.kind && is_user(kind);
        let damaged = input.unreadable.iter().filter(|one| may_use(&one.object.kind)).map(|one| one.object.to_string());
        Self {
            live: input.live.iter().chain(&input.users).filter(|one| is_user(one.kind())).collect(),
            desired: desired.filter(|one| is_user(one.kind())).map(ObjectText::from).collect(),
            unknown: files.cloned().chain(damaged).min(),
        }
    }
}

/// Whether an object of this kind may have pods, or make objects that have.
fn is_user(kind: &str) -> bool {
    !NAMED_BY_PODS.iter().any(|named| named.kind == kind)
}

/// Keeps what is to be deleted and is used by somebody that stays. Of somebody whose change is held back it waits for the
/// same approval; of another model's graph that no longer names it, for that graph to be Healthy.
pub(super) fn keep_used(context: &PlanContext<'_>, changes: &mut [Change]) {
    let is_candidate = |change: &Change| !is_user(&change.object.kind) && deletion(change).is_some();
    if !changes.iter().any(is_candidate) {
        return;
    }
    let users = Users::of(context);
    let lines: BTreeMap<ObjectIdentity, usize> = changes
        .iter()
        .enumerate()
        .flat_map(|(index, change)| change.objects().map(move |object| (object.identity(), index)))
        .collect();
    let uses: Vec<(usize, Use)> = (0..changes.len())
        .filter(|index| changes.get(*index).is_some_and(is_candidate))
        .filter_map(|index| Some((index, find_use(context, &users, changes, &lines, index)?)))
        .collect();
    for (index, used) in uses {
        let Some(change) = changes.get_mut(index) else { continue };
        let cause = match used {
            Use::Held(by, guard) => {
                change.step.hold_back(guard);
                KeptBy::StillUsed { by, is_held: true }
            }
            Use::By(by) => {
                *change = Change::new(&change.model, &change.source, change.object.clone());
                KeptBy::StillUsed { by, is_held: false }
            }
            Use::Until(by) => {
                if let PlanStep::Write(PlannedWrite::Delete(delete)) = &mut change.step {
                    delete.after = Some(Box::new(by.clone()));
                }
                change.reasons.push(ChangeReason::UsedUntil { by });
                continue;
            }
            Use::Perhaps(source) => {
                *change = Change::new(&change.model, &change.source, change.object.clone());
                KeptBy::PerhapsUsed { source }
            }
        };
        change.reasons.push(ChangeReason::Kept(cause));
    }
}

fn deletion(change: &Change) -> Option<&DeleteStep> {
    match change.step.write()? {
        PlannedWrite::Delete(delete) => Some(delete),
        PlannedWrite::Apply(_) | PlannedWrite::Replace { .. } => None,
    }
}

/// The use that keeps an object longest.
fn find_use(
    context: &PlanContext<'_>,
    users: &Users<'_>,
    changes: &[Change],
    lines: &BTreeMap<ObjectIdentity, usize>,
    index: usize,
) -> Option<Use> {
    let change = changes.get(index)?;
    let delete = deletion(change)?;
    let object = context.live(&change.object)?;
    let names = names_of(&object);
    let names_it =
        |user: &ObjectText| user.reference().namespace == change.object.namespace && is_named_by(&names, user);
    if let Some(user) = users.desired.iter().find(|user| names_it(user)) {
        return Some(Use::By(user.reference().clone()));
    }
    let mut until = None;
    for user in users.live.iter().filter(|user| names_it(user)) {
        let line = lines.get(&user.reference().identity()).and_then(|line| changes.get(*line));
        let graph = user.reference().clone();
        let Some(line) = line else {
            // A graph on its way out has a line where it is the source's; whoever it is, it comes back to nobody.
            if user.parse().is_deleting() {
                continue;
            }
            return Some(Use::By(graph));
        };
        match &line.step {
            PlanStep::Held { by, would: _ } => return Some(Use::Held(graph, *by)),
            PlanStep::AwaitGone { .. } => {}
            PlanStep::NoWrite if user.parse().is_deleting() => {}
            PlanStep::NoWrite => return Some(Use::By(graph)),
            PlanStep::Write(PlannedWrite::Delete(going)) => {
                let leaves_first = going.after.is_none() || going.after == delete.after;
                until = until.or(going.after.as_deref().filter(|_| !leaves_first).cloned());
            }
            PlanStep::Write(PlannedWrite::Apply(_) | PlannedWrite::Replace { .. }) => {
                // What the change makes of it names the object no longer, or it would be wanted.
                let graph = line.inventory.as_ref().map_or(graph, |entry| entry.object.clone());
                until = until.or(Some(graph).filter(|graph| delete.after.as_deref() != Some(graph)));
            }
        }
    }
    let is_file = object.labels().contains_key(LABEL_FILE);
    match (&users.unknown, until) {
        // The name of a file's ConfigMap is a digest, which nobody writes down.
        (Some(source), _) if !is_file => Some(Use::Perhaps(source.clone())),
        (Some(_) | None, until) => until.map(Use::Until),
    }
}
