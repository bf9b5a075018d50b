//! From a plan to each model's queue of tasks. Everything is decided in the plan; this puts it in order.

use super::health_wait::WatchedObject;
use super::model_report::ModelReport;
use super::model_sync::ModelSync;
use super::protocol::MachineSettings;
use super::record_writer::RecordWriter;
use super::tasks::{ApplyTask, DeletePurpose, DeleteTask, SyncTask, stage_of, task_stage};
use serde_json::Value;
use stator_core::dynamo::kinds::{self, JOB};
use stator_core::finding::Finding;
use stator_core::object::{ObjectIdentity, ObjectRef, ObjectText};
use stator_model::plan::{
    Action, ApplyStep, Change, ChangeReason, DeleteStep, HoldKind, InventoryEntry, KeptBy, Plan, PlanStep,
    PlannedWrite, Record, SEED_MANAGER, join_reasons, replicas_only,
};
use stator_model::render::ApplyStage;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The models of a plan, with something to do or not.
pub(super) fn build_models(
    plan: Plan,
    records: Vec<Record>,
    settings: &MachineSettings,
) -> BTreeMap<String, ModelSync> {
    let Plan {
        api_version: _,
        kind: _,
        repository,
        environment,
        revision,
        base: _,
        digest: _,
        summary: _,
        changes,
        holds: _,
        held: _,
        retired,
        renames,
        elsewhere,
        folder,
        ownership,
        mut intents,
        findings,
        upgrade: _,
    } = plan;
    let mut stored: BTreeMap<String, Record> = records
        .into_iter()
        .filter(|record| ownership.foreign.binary_search(&record.model).is_err())
        .map(|record| (record.model.clone(), record))
        .collect();
    let mut by_model: BTreeMap<String, Vec<Change>> = BTreeMap::new();
    let is_recorded = |change: &Change| {
        let known = stored.get(&change.model).map(|record| record.inventory.as_slice()).unwrap_or_default();
        known.iter().any(|entry| entry.object == change.object)
    };
    let is_own = |change: &Change| {
        (change.action != Action::LeftBehind || is_recorded(change)) && elsewhere.binary_search(&change.model).is_err()
    };
    for change in changes.into_iter().filter(is_own) {
        by_model.entry(change.model.clone()).or_default().push(change);
    }
    for name in &retired {
        if stored.contains_key(name) {
            by_model.entry(name.clone()).or_default();
        }
    }
    let retired: BTreeSet<String> = retired.into_iter().collect();
    let predecessors: BTreeMap<String, String> = renames.iter().map(|(old, new)| (new.clone(), old.clone())).collect();
    let successors = Successors::of(&by_model, renames);
    by_model
        .into_iter()
        .map(|(name, changes)| {
            let stored = stored.remove(&name);
            // A model that git no longer has keeps the folder and the intent that it had.
            let is_wanted = changes.iter().any(|change| change.inventory.is_some());
            let (first, known) = (changes.first(), stored.as_ref());
            let namespace = known.map(|record| &record.namespace).or(first.map(|change| &change.object.namespace));
            let source = first.map(|change| &change.source).or(known.map(|record| &record.source));
            let blank = Record {
                model: name.clone(),
                namespace: namespace.cloned().unwrap_or_default(),
                repository: repository.clone(),
                environment: environment.clone(),
                source: source.cloned().unwrap_or_default(),
                folder: match known {
                    Some(known) if !is_wanted => known.folder.clone(),
                    Some(_) | None => folder.clone(),
                },
                owner: match known {
                    Some(known) if !is_wanted => known.owner.clone(),
                    Some(_) | None => ownership.owner.clone(),
                },
                intent: intents.remove(&name).or(known.map(|record| record.intent.clone())).unwrap_or_default(),
                revision: revision.clone(),
                ..Record::default()
            };
            let blank = with_earlier_names(blank, known, predecessors.get(&name));
            let is_damaged = ownership.damaged.binary_search(&name).is_ok();
            let mut recorder = RecordWriter::new(stored, blank, is_damaged);
            if settings.keeps_file_faults {
                recorder.keep_file_fault();
            } else {
                recorder.set_file_fault(file_fault(&changes, &findings));
            }
            if let Some(approval) = settings.approval.as_ref().filter(|approval| approval.models.contains(&name)) {
                recorder.add_history_line(format!("approved {}", approval.text));
            }
            let retired = retired.contains(&name);
            let successors = successors.of_model(&name, &changes);
            (name.clone(), build_model(name, changes, (recorder, retired, successors), settings))
        })
        .collect()
}

/// The same with what the record was taken over from, and whose place the model takes, now or earlier.
fn with_earlier_names(blank: Record, known: Option<&Record>, predecessor: Option<&String>) -> Record {
    let origin = |record: &Record| record.owner.as_ref().map(|owner| owner.origin().clone());
    let former = known.and_then(|known| match origin(known) {
        before if before.is_some() && before != origin(&blank) => before,
        Some(_) | None => known.former_origin.clone(),
    });
    let predecessor = predecessor.or(known.and_then(|known| known.predecessor.as_ref())).cloned();
    Record { former_origin: former, predecessor, ..blank }
}

/// Which models go first: those that take a model's place, and those whose graphs something of it waits for.
struct Successors {
    renames: BTreeMap<String, String>,
    /// Workload → the model that applies it.
    models: BTreeMap<ObjectIdentity, String>,
}

impl Successors {
    fn of(by_model: &BTreeMap<String, Vec<Change>>, renames: BTreeMap<String, String>) -> Self {
        let wanted = by_model.values().flatten().filter(|change| change.inventory.is_some());
        let models = wanted
            .flat_map(|change| change.objects().map(|object| (object.identity(), change.model.clone())))
            .collect();
        Self { renames, models }
    }

    /// Those of a model of which something goes.
    fn of_model(&self, name: &str, changes: &[Change]) -> Vec<String> {
        let deletions = changes.iter().filter_map(|change| match change.step.write() {
            Some(PlannedWrite::Delete(delete)) => Some(delete),
            Some(PlannedWrite::Apply(_) | PlannedWrite::Replace { .. }) | None => None,
        });
        let after = |delete: &DeleteStep| self.models.get(&delete.after.as_deref()?.identity()).cloned();
        let others: BTreeSet<String> =
            deletions.flat_map(|delete| self.renames.get(name).cloned().into_iter().chain(after(delete))).collect();
        others.into_iter().filter(|other| other != name).collect()
    }
}

/// What is wrong with a model's files, in a sentence: where the first error is, and what follows from it.
fn file_fault(changes: &[Change], findings: &[Finding]) -> Option<String> {
    let is_fault =
        |reason: &&ChangeReason| matches!(reason, ChangeReason::ModelFaulty | ChangeReason::Kept(KeptBy::ModelErrors));
    let (change, reason) = changes.iter().find_map(|change| Some((change, change.reasons.iter().find(is_fault)?)))?;
    let folder = |path: &str| path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned());
    let own = findings.iter().filter(|one| one.is_error() && folder(&one.location.file) == folder(&change.source));
    let place = own.map(|one| (&one.location.file, one.location.line, one.rule.id)).min();
    Some(match place {
        Some((file, line, rule)) => format!("{file}:{line} ({rule}): {reason}"),
        None => reason.to_string(),
    })
}

fn build_model(
    name: String,
    changes: Vec<Change>,
    (mut recorder, retired, successors): (RecordWriter, bool, Vec<String>),
    settings: &MachineSettings,
) -> ModelSync {
    let (mut blocked, mut held) = (Vec::new(), Vec::new());
    let mut watched = BTreeMap::new();
    let (mut now, mut followers, mut prune) = (Vec::new(), Vec::new(), Vec::new());
    let (mut replaced, mut outgoing) = (Vec::new(), BTreeMap::new());
    let mut going = Vec::new();
    let (mut download, mut before_jobs) = (None, BTreeMap::new());
    let graph = changes
        .iter()
        .filter(|change| stage_of(&change.object) == ApplyStage::Graph)
        .find_map(|change| {
            // Of a graph that comes up beside the one that it replaces, the entry is the new one's.
            let entry = change.inventory.as_ref()?;
            Some(if change.step.write().is_some() { &entry.object } else { &change.object })
        })
        .cloned();
    recorder.repair_inventory(&changes, retired);
    for change in changes {
        let line = format!("{} {} ({})", change.action.as_str(), change.object, disruption_name(&change));
        let Change {
            model: _,
            source: _,
            object,
            action,
            disruption: _,
            fields: _,
            gpus,
            gpu_sku,
            gpus_by_sku: _,
            gpu_range: _,
            cost: _,
            reasons,
            step,
            inventory,
            health,
            before: _,
            after: _,
        } = change;
        if let Some(guard) = step.held_by() {
            held.push(match guard {
                // Right after an accident nobody is told how to complete it.
                HoldKind::MassDelete => format!("{object}: held back by the guard {}", guard.as_str()),
                HoldKind::Replace
                | HoldKind::Delete
                | HoldKind::Adopt
                | HoldKind::Move
                | HoldKind::MaxGpus
                | HoldKind::Rollback => format!("{object}: held back until `--allow {}`", guard.as_str()),
            });
            continue;
        }
        if action == Action::Blocked {
            blocked.push(if reasons.is_empty() {
                object.to_string()
            } else {
                format!("{object}: {}", join_reasons(&reasons))
            });
        }
        if let Some(entry) = &inventory {
            let is_new = entry.object != object;
            let mut one = WatchedObject::new(entry.object.clone(), entry.generation);
            one.gpus = if is_new { 0 } else { gpus.before };
            one.gpu_sku = gpu_sku;
            one.planned = health.filter(|_| step == PlanStep::NoWrite);
            watched.insert(entry.object.identity(), one);
        }
        match awaited_download(&step) {
            Some(job) if object.kind == JOB.kind => drop(before_jobs.insert(object.identity(), job)),
            Some(job) => download = download.or(Some(job)),
            None => {}
        }
        match step {
            // What is held back was left above: it is not waited for either.
            PlanStep::NoWrite | PlanStep::Held { .. } => {}
            PlanStep::AwaitGone { uid } => going.push((object, uid, join_reasons(&reasons))),
            PlanStep::Write(PlannedWrite::Apply(apply)) => {
                let tasks = apply_tasks(apply, inventory, line, graph.as_ref(), &mut recorder);
                if follows_graph(&tasks) { followers.extend(tasks) } else { now.extend(tasks) }
            }
            PlanStep::Write(PlannedWrite::Replace { delete, apply }) if delete.after.is_some() => {
                recorder.mark_outgoing(&delete);
                now.extend(apply_tasks(apply, inventory, line.clone(), graph.as_ref(), &mut recorder));
                let line = format!("delete {object} (delete)");
                outgoing.insert(object.identity(), outgoing_object(object, gpus.before));
                replaced.push((delete, line));
            }
            PlanStep::Write(PlannedWrite::Replace { delete, apply }) => {
                let gone = SyncTask::AwaitGone { object: object.clone(), uid: delete.uid.clone(), since: None };
                let delete = delete_task(delete, DeletePurpose::Replace, String::new());
                let mut tasks = vec![SyncTask::Delete(delete), gone];
                // What is created in its place must not ask for the uid of what is gone.
                let successor = without_uid(&apply.object);
                let apply = ApplyStep { object: successor, planned_resource_version: None, ..apply };
                tasks.extend(apply_tasks(apply, inventory, line, graph.as_ref(), &mut recorder));
                if follows_graph(&tasks) { followers.extend(tasks) } else { now.extend(tasks) }
            }
            PlanStep::Write(PlannedWrite::Delete(step)) if step.after.is_some() => {
                outgoing.insert(object.identity(), outgoing_object(object, gpus.before));
                replaced.push((step, line));
            }
            PlanStep::Write(PlannedWrite::Delete(step)) if settings.prune => {
                prune.push(delete_task(step, DeletePurpose::Prune, line));
            }
            PlanStep::Write(PlannedWrite::Delete(_)) => {}
        }
    }

    // Volumes before graphs; the plan's order within a stage.
    now.sort_by_key(|task| (task_stage(task), place_among_jobs(task, &before_jobs)));
    prune.sort_by_key(|task| std::cmp::Reverse(task.step.stage));
    if let Some(job) = download {
        let at = now.iter().position(|task| task_stage(task) > ApplyStage::Download).unwrap_or(now.len());
        now.insert(at, SyncTask::CheckDownload(job.clone()));
        // One that another model applies is waited for here as well.
        watched.entry(job.identity()).or_insert_with(|| WatchedObject::new(job, None));
    }
    for (job, before) in before_jobs {
        let is_jobs = |task: &SyncTask| task.created_object().is_some_and(|(object, _)| object.identity() == job);
        if let Some(at) = now.iter().position(is_jobs) {
            now.insert(at, SyncTask::CheckDownload(before.clone()));
            watched.entry(before.identity()).or_insert_with(|| WatchedObject::new(before, None));
        }
    }
    let mut tasks: VecDeque<SyncTask> = now.into();
    followers.sort_by_key(task_stage);
    let needed: BTreeSet<ObjectRef> = followers.iter().flat_map(awaited_graphs).cloned().collect();
    for other in needed.into_iter().filter(|other| graph.as_ref() != Some(other)) {
        tasks.push_back(SyncTask::CheckGraph(other.clone()));
        // That of a canary is another model's, and is waited for here as well.
        watched.entry(other.identity()).or_insert_with(|| WatchedObject::new(other, None));
    }
    if let (Some(graph), false) = (&graph, followers.is_empty() && replaced.is_empty()) {
        tasks.push_back(SyncTask::CheckGraph(graph.clone()));
    }
    tasks.extend(followers);
    tasks.push_back(SyncTask::Barrier);
    let mut put_off = Vec::new();
    for (object, uid, why) in going {
        if settings.wait {
            tasks.push_back(SyncTask::AwaitGone { object, uid, since: None });
        } else {
            put_off.push(format!("{object} {why}"));
        }
    }
    for task in prune {
        let gone = SyncTask::AwaitGone { object: task.step.object.clone(), uid: task.step.uid.clone(), since: None };
        tasks.push_back(SyncTask::Delete(task));
        if settings.wait {
            tasks.push_back(gone);
        }
    }
    let awaited = replaced.iter().filter_map(|(step, _): &(DeleteStep, String)| step.after.as_deref());
    let awaited: BTreeSet<ObjectRef> = awaited.filter(|other| graph.as_ref() != Some(other)).cloned().collect();
    for other in awaited {
        // Another model's, which is applied by now: what it was before says nothing.
        tasks.push_back(SyncTask::CheckGraph(other.clone()));
        watched.entry(other.identity()).or_insert_with(|| WatchedObject::new(other, None));
    }
    let waits_for_others = retired && !replaced.is_empty();
    let replaced = outgoing_tasks(replaced, settings);
    if settings.wait && waits_for_others {
        tasks.push_back(SyncTask::AwaitHealth);
    }
    if settings.wait && !retired {
        tasks.extend([SyncTask::WriteRecord, SyncTask::AwaitHealth]);
        tasks.extend(replaced);
        tasks.push_back(SyncTask::WriteRecord);
    } else {
        tasks.extend(replaced);
        tasks.push_back(if retired { SyncTask::DeleteRecord } else { SyncTask::WriteRecord });
    }
    let report = ModelReport::new(blocked, held);
    let mut model = ModelSync::new(name, tasks, recorder, (watched, outgoing), report, (retired, successors));
    model.own_graph = graph;
    put_off.into_iter().for_each(|going| model.report.add_going(going));
    model
}

/// Whether what is to be done comes once a graph is Healthy.
fn follows_graph(tasks: &[SyncTask]) -> bool {
    tasks.iter().any(|task| awaited_graphs(task).next().is_some())
}

/// The graphs that must be Healthy before a task.
fn awaited_graphs(task: &SyncTask) -> impl Iterator<Item = &ObjectRef> {
    let graphs = if let SyncTask::Apply(task) = task { task.after_graphs.as_slice() } else { &[] };
    graphs.iter()
}

/// Behind how many Jobs of its model a Job runs.
fn place_among_jobs(task: &SyncTask, before: &BTreeMap<ObjectIdentity, ObjectRef>) -> usize {
    let Some((object, _)) = task.created_object() else { return 0 };
    let mut job = object.identity();
    let mut place = 0_usize;
    // Each waits for one that runs earlier, so that this ends.
    while let Some(earlier) = before.get(&job).filter(|_| place < before.len()) {
        place = place.saturating_add(1);
        job = earlier.identity();
    }
    place
}

/// The Job that a write waits for.
fn awaited_download(step: &PlanStep) -> Option<ObjectRef> {
    match step.write()? {
        PlannedWrite::Apply(apply) | PlannedWrite::Replace { delete: _, apply } => apply.after.as_deref().cloned(),
        PlannedWrite::Delete(_) => None,
    }
}

/// A graph that serves until another has taken its place.
fn outgoing_object(object: ObjectRef, gpus: u64) -> WatchedObject {
    let mut one = WatchedObject::new(object, None);
    one.gpus = gpus;
    one
}

fn delete_task(step: DeleteStep, purpose: DeletePurpose, history_line: String) -> DeleteTask {
    DeleteTask { step, purpose, history_line, recheck: false, rechecks: 0 }
}

/// The graphs go whose place others have taken; then everything is waited for again.
fn outgoing_tasks(replaced: Vec<(DeleteStep, String)>, settings: &MachineSettings) -> Vec<SyncTask> {
    let mut tasks = Vec::new();
    for (step, line) in replaced {
        let Some(successor) = step.after.as_deref().cloned() else { continue };
        let gone = SyncTask::AwaitGone { object: step.object.clone(), uid: step.uid.clone(), since: None };
        tasks.push(SyncTask::Delete(delete_task(step, DeletePurpose::ReplacedBy(successor), line)));
        if settings.wait {
            tasks.extend([gone, SyncTask::AwaitHealth]);
        }
    }
    tasks
}

/// The applies of one change: one, two where Dynamo refuses both in one write, or three where replicas are seeded and then
/// left to whoever scales.
fn apply_tasks(
    step: ApplyStep,
    inventory: Option<InventoryEntry>,
    line: String,
    graph: Option<&ObjectRef>,
    recorder: &mut RecordWriter,
) -> Vec<SyncTask> {
    // Who owns what is settled by server-side apply itself, and status alone moves the resource version: the uid in
    // the object is what must still be true.
    let leading = step.leading_object();
    let ApplyStep {
        first,
        object,
        stage,
        force,
        planned_resource_version,
        seed_replicas,
        transfer,
        after: _,
        after_graphs,
    } = step;
    let after_graphs = match stage {
        ApplyStage::Adapter => graph.into_iter().cloned().collect(),
        ApplyStage::Cache | ApplyStage::Download | ApplyStage::Graph | ApplyStage::Exposure => after_graphs,
    };
    let creates = planned_resource_version.is_none();
    let entry = inventory.unwrap_or_else(|| InventoryEntry {
        object: object.reference().clone(),
        uid: None,
        generation: None,
        digest: String::new(),
        prune: stage != ApplyStage::Cache,
    });
    recorder.mark_intended(&entry);
    let task = |object: ObjectText, manager: &'static str, line: Option<String>, follows: bool| {
        SyncTask::Apply(ApplyTask {
            object,
            manager,
            force: force && manager == kinds::FIELD_MANAGER,
            transfer: transfer.clone().filter(|_| !follows),
            stage,
            after_graphs: after_graphs.clone(),
            entry: entry.clone(),
            history_line: line,
            follows,
            creates: creates && !follows,
            recheck: false,
            rechecks: 0,
        })
    };
    if first.is_none() && seed_replicas.is_empty() {
        return vec![task(object, kinds::FIELD_MANAGER, Some(line), false)];
    }
    let mut tasks = vec![task(leading.into(), kinds::FIELD_MANAGER, Some(line), false)];
    if !seed_replicas.is_empty() {
        tasks.push(task(replicas_only(&object.parse(), &seed_replicas).into(), SEED_MANAGER, None, true));
    }
    tasks.push(task(object, kinds::FIELD_MANAGER, None, true));
    tasks
}

/// The object as one that a create may make.
fn without_uid(object: &ObjectText) -> ObjectText {
    let creatable = object.parse().map(|mut value| {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("uid");
        }
        value
    });
    creatable.map_or_else(|_| object.clone(), ObjectText::from)
}

fn disruption_name(change: &Change) -> String {
    serde_json::to_value(change.disruption).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
