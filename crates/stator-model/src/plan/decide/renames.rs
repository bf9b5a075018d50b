//! Models that got another name, folder or both: git no longer has the one and newly has the other, which wants the same. The
//! old one serves until the new one does.

use crate::intent::model::ReplacementOrder;
use crate::plan::context::PlanContext;
use crate::plan::masking::recorded_intent;
use crate::plan::names::Rename;
use crate::plan::{Action, AddressMove, Change, ChangeReason, PlanStep, PlannedWrite, Record};
use crate::render::{ApplyStage, RenderedText};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

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
    let new: Vec<&RenderedText> =
        context.models().filter(|one| recorded(&one.model).is_none_or(|record| takes_place(record))).collect();
    let is_new = |one: &&RenderedText| recorded(&one.model).is_none();
    let ways: [Way<'_, Record>; 3] = [
        Way {
            of_gone: &|record| Some(record.model.clone()),
            of_new: &|one| recorded(&one.model).and_then(|new| new.predecessor.clone()),
        },
        Way {
            of_gone: &|record| Some(record.source.clone()).filter(|source| !source.is_empty()),
            of_new: &|one| Some(one).filter(is_new).map(|one| one.source.clone()),
        },
        Way {
            of_gone: &|record| Some(record.intent.to_text()).filter(|_| !record.intent.is_null()),
            of_new: &|one| Some(one).filter(is_new).map(|one| recorded_intent(one).to_text()),
        },
    ];
    let gone: Vec<(&str, &Record)> = gone.into_iter().map(|record| (record.model.as_str(), record)).collect();
    pair(&gone, &new, &ways)
}

/// The same between two revisions, where nothing has a record.
pub(in crate::plan) fn compare_names(base: &[RenderedText], head: &[RenderedText]) -> BTreeMap<String, Rename> {
    let names = |side: &[RenderedText]| side.iter().map(|one| one.model.clone()).collect::<BTreeSet<_>>();
    let (before, after) = (names(base), names(head));
    let new: Vec<&RenderedText> = head.iter().filter(|one| !before.contains(&one.model)).collect();
    let ways: [Way<'_, RenderedText>; 2] = [
        Way { of_gone: &|old| Some(old.source.clone()), of_new: &|one| Some(one.source.clone()) },
        Way { of_gone: &|old| Some(old.intent.to_text()), of_new: &|one| Some(one.intent.to_text()) },
    ];
    let gone = base.iter().filter(|old| !after.contains(&old.model));
    let gone: Vec<(&str, &RenderedText)> = gone.map(|old| (old.model.as_str(), old)).collect();
    pair(&gone, &new, &ways)
}

/// What a model that is gone and one that appears have in common, where they are the same.
struct Way<'a, T> {
    of_gone: &'a dyn Fn(&T) -> Option<String>,
    of_new: &'a dyn Fn(&RenderedText) -> Option<String>,
}

/// Gives each model that is gone, by name, one that appears, by the first way that finds one. Each takes one place.
fn pair<T>(gone: &[(&str, &T)], new: &[&RenderedText], ways: &[Way<'_, T>]) -> BTreeMap<String, Rename> {
    let mut renames: BTreeMap<String, Rename> = BTreeMap::new();
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    for way in ways {
        let open: Vec<_> = gone.iter().filter(|(name, _)| !renames.contains_key(*name)).collect();
        if open.is_empty() {
            break;
        }
        let mut candidates: HashMap<String, VecDeque<&RenderedText>> = HashMap::new();
        for one in new.iter().filter(|one| !taken.contains(one.model.as_str())) {
            if let Some(mark) = (way.of_new)(one) {
                candidates.entry(mark).or_default().push_back(one);
            }
        }
        for (name, old) in open {
            let found = (way.of_gone)(old).and_then(|mark| candidates.get_mut(&mark)?.pop_front());
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
        let new = wanted.filter(|_| is_workload).find(|object| object.reference() == workload);
        let live = context.live(&change.object);
        let moves = live.zip(new).map(|(old, new)| AddressMove::between(&old, &new.parse())).unwrap_or_default();
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
