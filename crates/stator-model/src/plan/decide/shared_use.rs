//! What pods name is not deleted while they may name it, whoever declared it: claims, files, what devices are claimed by.

use crate::plan::context::PlanContext;
use crate::plan::{Change, ChangeReason, DeleteStep, HoldKind, KeptBy, PlanStep, PlannedWrite};
use rayon::prelude::*;
use stator_core::dynamo::kinds::{JOURNAL, LABEL_FILE, RECORD};
use stator_core::dynamo::references::{NAMED_BY_PODS, is_named_by, names_of, names_used_by};
use stator_core::finding::Finding;
use stator_core::object::{Object, ObjectIdentity, ObjectRef, ObjectText};
use std::collections::{BTreeMap, BTreeSet};

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

/// Names of objects that pods need, by kind.
type Names = BTreeMap<&'static str, BTreeSet<String>>;

/// Somebody who names objects that pods need.
struct User {
    object: ObjectRef,
    is_deleting: bool,
    names: Names,
}

impl User {
    fn of(object: &Object) -> Self {
        Self { object: object.reference(), is_deleting: object.is_deleting(), names: names_used_by(object) }
    }

    fn uses(&self, namespace: &str, names: &Names) -> bool {
        let mut shared = names.iter().filter_map(|(kind, own)| Some((self.names.get(kind)?, own)));
        self.object.namespace == namespace && shared.any(|(used, own)| !used.is_disjoint(own))
    }
}

/// Everybody who names one of some objects, live and wanted, of any model.
struct Users {
    live: Vec<User>,
    desired: Vec<User>,
    /// What cannot be read: a file with errors, or a damaged object.
    unknown: Option<String>,
}

impl Users {
    /// Each object is looked into once, whatever the number of names.
    fn of(context: &PlanContext<'_>, names: &Names) -> Self {
        let input = context.input;
        let desired: Vec<&ObjectText> = context.models().flat_map(|one| &one.objects).map(|one| &one.object).collect();
        let live: Vec<&ObjectText> = input.live.iter().chain(&input.users).collect();
        let faulty = input.rendered.iter().filter(|one| one.findings.iter().any(Finding::is_error));
        let files = input.broken.iter().map(|one| &one.source).chain(faulty.map(|one| &one.source));
        let may_use = |kind: &str| kind != RECORD.kind && kind != JOURNAL.kind && is_user(kind);
        let damaged = input.unreadable.iter().filter(|one| may_use(&one.object.kind)).map(|one| one.object.to_string());
        let is_possible = |one: &&ObjectText| is_user(one.kind()) && is_named_by(names, one);
        Self {
            live: live.into_par_iter().filter(is_possible).map(|one| User::of(&one.parse())).collect(),
            desired: desired
                .into_par_iter()
                .filter(|one| is_user(one.kind()))
                .map(|one| User::of(&one.parse()))
                .collect(),
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
pub(in crate::plan) fn keep_used(context: &PlanContext<'_>, changes: &mut [Change]) {
    let is_candidate = |change: &Change| !is_user(&change.object.kind) && deletion(change).is_some();
    let candidates: Vec<(usize, Object)> = changes
        .iter()
        .enumerate()
        .filter(|(_, change)| is_candidate(change))
        .filter_map(|(index, change)| Some((index, context.live(&change.object)?)))
        .collect();
    if candidates.is_empty() {
        return;
    }
    let mut names = Names::new();
    for (kind, own) in candidates.iter().flat_map(|(_, object)| names_of(object)) {
        names.entry(kind).or_default().extend(own);
    }
    let users = Users::of(context, &names);
    let lines: BTreeMap<ObjectIdentity, usize> = changes
        .iter()
        .enumerate()
        .flat_map(|(index, change)| change.objects().map(move |object| (object.identity(), index)))
        .collect();
    let uses: Vec<(usize, Use)> = candidates
        .iter()
        .filter_map(|(index, object)| Some((*index, find_use(&users, changes, &lines, (*index, object))?)))
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
    users: &Users,
    changes: &[Change],
    lines: &BTreeMap<ObjectIdentity, usize>,
    (index, object): (usize, &Object),
) -> Option<Use> {
    let change = changes.get(index)?;
    let delete = deletion(change)?;
    let names = names_of(object);
    let names_it = |user: &&User| user.uses(&change.object.namespace, &names);
    if let Some(user) = users.desired.iter().find(names_it) {
        return Some(Use::By(user.object.clone()));
    }
    let mut awaited: BTreeSet<ObjectRef> = BTreeSet::new();
    for user in users.live.iter().filter(names_it) {
        let line = lines.get(&user.object.identity()).and_then(|line| changes.get(*line));
        let graph = user.object.clone();
        let Some(line) = line else {
            // A graph on its way out has a line where it is the source's; whoever it is, it comes back to nobody.
            if user.is_deleting {
                continue;
            }
            return Some(Use::By(graph));
        };
        match &line.step {
            PlanStep::Held { by, would: _ } => return Some(Use::Held(graph, *by)),
            PlanStep::AwaitGone { .. } => {}
            PlanStep::NoWrite if user.is_deleting => {}
            PlanStep::NoWrite => return Some(Use::By(graph)),
            PlanStep::Write(PlannedWrite::Delete(going)) => awaited.extend(going.after.as_deref().cloned()),
            PlanStep::Write(PlannedWrite::Apply(_) | PlannedWrite::Replace { .. }) => {
                // What the change makes of it names the object no longer, or it would be wanted.
                awaited.insert(line.inventory.as_ref().map_or(graph, |entry| entry.object.clone()));
            }
        }
    }
    let is_file = object.labels().contains_key(LABEL_FILE);
    if let Some(source) = users.unknown.as_ref().filter(|_| !is_file) {
        // The name of a file's ConfigMap is a digest, which nobody writes down.
        return Some(Use::Perhaps(source.clone()));
    }
    // One graph can be waited for; where there are several, the object goes with a later sync.
    match (awaited.pop_first()?, awaited.pop_first()) {
        (_, Some(other)) => Some(Use::By(other)),
        (graph, None) if delete.after.as_deref() == Some(&graph) => None,
        (graph, None) => Some(Use::Until(graph)),
    }
}
