//! Models that got another name, folder or both: git no longer has the one and newly has the other, which wants the same. The
//! old one serves until the new one does.

use crate::intent::model::ReplacementOrder;
use crate::plan::context::PlanContext;
use crate::plan::masking::recorded_intent;
use crate::plan::names::Rename;
use crate::plan::{Action, AddressMove, Change, ChangeReason, PlanStep, PlannedWrite, Record};
use crate::render::{ApplyStage, RenderedModel};
use std::collections::{BTreeMap, BTreeSet};

/// Finds which model takes the place of which: one that stands in the same file, else one with the same intent. It has no
/// record yet, or one that says whose place it takes. Once it was Healthy, nothing waits for it any more.
pub(in crate::plan) fn find_renames(context: &PlanContext<'_>) -> BTreeMap<String, Rename> {
    let gone: Vec<&Record> = context
        .records()
        .values()
        .copied()
        .filter(|record| !context.renders(&record.model) && context.other_folder_reason(&record.model).is_none())
        .collect();
    if gone.is_empty() {
        return BTreeMap::new();
    }
    let recorded = |model: &str| context.records().get(model).filter(|record| !record.is_journaled);
    let has_served = |record: &Record| record.state.as_ref().is_some_and(|state| state.health.is_good());
    let takes_place = |record: &Record| record.predecessor.is_some() && !has_served(record);
    let new: Vec<&RenderedModel> =
        context.models().filter(|one| recorded(&one.model).is_none_or(|record| takes_place(record))).collect();
    let intents: BTreeMap<&str, String> =
        new.iter().map(|one| (one.model.as_str(), recorded_intent(one).as_str().to_owned())).collect();
    let by_record = |record: &Record, one: &RenderedModel| {
        recorded(&one.model).and_then(|new| new.predecessor.as_deref()) == Some(record.model.as_str())
    };
    let is_new = |one: &RenderedModel| recorded(&one.model).is_none();
    let by_file =
        |record: &Record, one: &RenderedModel| is_new(one) && !record.source.is_empty() && one.source == record.source;
    let by_intent = |record: &Record, one: &RenderedModel| {
        is_new(one)
            && !record.intent.is_null()
            && intents.get(one.model.as_str()).is_some_and(|intent| intent == record.intent.as_str())
    };
    let gone: Vec<(&str, &Record)> = gone.into_iter().map(|record| (record.model.as_str(), record)).collect();
    pair(&gone, &new, &[&by_record, &by_file, &by_intent])
}

/// The same between two revisions, where nothing has a record.
pub(in crate::plan) fn compare_names(base: &[RenderedModel], head: &[RenderedModel]) -> BTreeMap<String, Rename> {
    let names = |side: &[RenderedModel]| side.iter().map(|one| one.model.clone()).collect::<BTreeSet<_>>();
    let (before, after) = (names(base), names(head));
    let new: Vec<&RenderedModel> = head.iter().filter(|one| !before.contains(&one.model)).collect();
    let by_file = |old: &RenderedModel, one: &RenderedModel| old.source == one.source;
    let by_intent = |old: &RenderedModel, one: &RenderedModel| old.intent == one.intent;
    let gone = base.iter().filter(|old| !after.contains(&old.model));
    let gone: Vec<(&str, &RenderedModel)> = gone.map(|old| (old.model.as_str(), old)).collect();
    pair(&gone, &new, &[&by_file, &by_intent])
}

/// Whether a model that appears is one that is gone.
type IsSame<'a, T> = &'a dyn Fn(&T, &RenderedModel) -> bool;

/// Gives each model that is gone, by name, one that appears, by the first way that finds one. Each takes one place.
fn pair<T>(gone: &[(&str, &T)], new: &[&RenderedModel], ways: &[IsSame<'_, T>]) -> BTreeMap<String, Rename> {
    let mut renames: BTreeMap<String, Rename> = BTreeMap::new();
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    for is_same in ways {
        for (name, old) in gone {
            if renames.contains_key(*name) {
                continue;
            }
            let found = new.iter().find(|one| !taken.contains(one.model.as_str()) && is_same(old, one));
            if let Some(rendered) = found {
                taken.insert(&rendered.model);
                renames.insert((*name).to_owned(), Rename::to(rendered));
            }
        }
    }
    renames
}

/// Says of what goes with a model's old name, and of the graph of its new one, that they are one model.
pub(in crate::plan) fn explain_names(renames: &BTreeMap<String, Rename>, changes: &mut [Change]) {
    for change in changes.iter_mut().filter(|change| change.action == Action::Delete) {
        if let Some(rename) = renames.get(&change.model) {
            let waits = rename.order == ReplacementOrder::NewFirst;
            let moves = AddressMove::default();
            change.reasons.push(ChangeReason::RenamedTo { model: rename.model.clone(), waits, moves });
        }
    }
    name_predecessors(renames, changes);
}

/// Says of the graph of a model's new name whose place it takes.
fn name_predecessors(renames: &BTreeMap<String, Rename>, changes: &mut [Change]) {
    let renamed_from: BTreeMap<&str, &str> =
        renames.iter().map(|(old, rename)| (rename.model.as_str(), old.as_str())).collect();
    let is_new_graph = |change: &Change| {
        change.action == Action::Create && ApplyStage::of_kind(&change.object.kind) == ApplyStage::Graph
    };
    for change in changes.iter_mut().filter(|change| is_new_graph(change)) {
        if let Some(old) = renamed_from.get(change.model.as_str()) {
            change.reasons.push(ChangeReason::RenamedFrom { model: (*old).to_owned() });
        }
    }
}

/// Has what goes with a model's old name follow its new one, and says so on both sides.
pub(in crate::plan) fn follow_renames(context: &PlanContext<'_>, changes: &mut [Change]) {
    for change in changes.iter_mut() {
        let Some(rename) = context.rename_of(&change.model) else { continue };
        let (Some(workload), PlanStep::Write(PlannedWrite::Delete(delete))) = (&rename.workload, &mut change.step)
        else {
            continue;
        };
        let waits = rename.order == ReplacementOrder::NewFirst;
        if waits {
            delete.after.get_or_insert_with(|| Box::new(workload.clone()));
        }
        let is_workload = delete.stage == ApplyStage::Graph;
        let wanted = context.models().flat_map(|one| &one.objects).map(|one| &one.object);
        let new = wanted.filter(|_| is_workload).find(|object| object.reference() == *workload);
        let live = context.live(&change.object);
        let moves = live.zip(new).map(|(old, new)| AddressMove::between(&old, new)).unwrap_or_default();
        change.reasons.push(ChangeReason::RenamedTo { model: rename.model.clone(), waits, moves });
    }
    name_predecessors(context.renames(), changes);
    // What the old one gives back is there for the new one, where it goes first.
    let mut given_back: BTreeMap<String, u64> = BTreeMap::new();
    for change in changes.iter().filter(|change| change.action == Action::Delete) {
        let first = context.rename_of(&change.model).filter(|rename| rename.order == ReplacementOrder::OldFirst);
        if let Some(rename) = first {
            *given_back.entry(rename.model.clone()).or_default() += change.gpus.before;
        }
    }
    for change in changes.iter_mut().filter(|change| change.action == Action::Create) {
        let free = given_back.get_mut(&change.model);
        if let Some(free) = free.filter(|_| ApplyStage::of_kind(&change.object.kind) == ApplyStage::Graph) {
            let used = (*free).min(change.gpus.peak);
            change.gpus.peak -= used;
            *free -= used;
        }
    }
}
