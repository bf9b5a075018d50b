//! From a plan to each model's queue of tasks. Everything is decided in the plan; this puts it in order.

use super::Settings;
use super::book::Book;
use super::health::Watched;
use super::model::ModelSync;
use serde_json::Value;
use stator_core::dynamo::kinds;
use stator_core::object::{Object, ObjectIdentity, ObjectRef};
use stator_model::plan::{
    Action, ApplyStep, Change, DeleteStep, HoldKind, InventoryEntry, Plan, Record, SEED_MANAGER, Step, replicas_only,
    with_replicas,
};
use stator_model::render::Stage;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// One thing that a model does. The front of the queue is what it is at.
#[derive(Clone, Debug)]
pub(super) enum Task {
    /// Apply an object.
    Apply(ApplyTask),
    /// Delete an object, pruned or about to be replaced.
    Delete(DeleteTask),
    /// Look until an object is really gone.
    AwaitGone {
        object: ObjectRef,
        uid: String,
        /// What is to be said in the history once it is gone.
        since: Option<std::time::Duration>,
    },
    /// Look whether a graph is Ready, so that its adapters may be applied at once.
    Gate(ObjectRef),
    /// Wait until every model has applied what it can.
    Barrier,
    /// Write the record as it is now.
    Record,
    /// Delete the record: the model is gone.
    Retire,
    /// Wait until the graph is Healthy, for adapters to be applied.
    AwaitGraph,
    /// Wait until everything is Healthy.
    AwaitHealth,
}

/// One server-side apply.
#[derive(Clone, Debug)]
pub(super) struct ApplyTask {
    pub object: Object,
    pub manager: &'static str,
    pub force: bool,
    pub stage: Stage,
    /// What the inventory says of it; uid and generation come with the answer.
    pub entry: InventoryEntry,
    /// The line for the history; `None` for the second and third apply of one change.
    pub line: Option<String>,
    /// Takes the uid that an earlier apply of this sync gave, so that it cannot create.
    pub follows: bool,
}

/// One delete.
#[derive(Clone, Debug)]
pub(super) struct DeleteTask {
    pub step: DeleteStep,
    /// True for a prune, false for the first half of a replace.
    pub prune: bool,
    pub line: String,
    /// A precondition failed: look what is there now before anything else.
    pub look: bool,
    /// How often it was looked.
    pub looks: u32,
}

/// The models of a plan, with something to do or not.
pub(super) fn models(plan: Plan, records: Vec<Record>, settings: &Settings) -> BTreeMap<String, ModelSync> {
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
        holds,
        retired,
        elsewhere,
        folder,
        mut intents,
        findings: _,
    } = plan;
    let held: BTreeSet<HoldKind> = holds.iter().filter(|hold| !hold.allowed).map(|hold| hold.kind).collect();
    let mut stored: BTreeMap<String, Record> = records
        .into_iter()
        .filter(|record| record.repository == repository && record.environment == environment)
        .map(|record| (record.model.clone(), record))
        .collect();
    let mut by_model: BTreeMap<String, Vec<Change>> = BTreeMap::new();
    for change in changes.into_iter().filter(|change| elsewhere.binary_search(&change.model).is_err()) {
        by_model.entry(change.model.clone()).or_default().push(change);
    }
    for name in &retired {
        if stored.contains_key(name) {
            by_model.entry(name.clone()).or_default();
        }
    }
    let retired: BTreeSet<String> = retired.into_iter().collect();
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
                intent: intents.remove(&name).or(known.map(|record| record.intent.clone())).unwrap_or_default(),
                revision: revision.clone(),
                ..Record::default()
            };
            let book = Book::new(stored, blank);
            let retired = retired.contains(&name);
            (name.clone(), model(name, changes, book, retired, &held, settings))
        })
        .collect()
}

fn model(
    name: String,
    changes: Vec<Change>,
    mut book: Book,
    retired: bool,
    held: &BTreeSet<HoldKind>,
    settings: &Settings,
) -> ModelSync {
    let mut blocked = Vec::new();
    let mut watched = BTreeMap::new();
    let (mut now, mut adapters, mut prune) = (Vec::new(), Vec::new(), Vec::new());
    let graph = changes
        .iter()
        .find(|change| stage_of(&change.object) == Stage::Graph && change.inventory.is_some())
        .map(|change| change.object.clone());
    book.reconcile(&changes, retired);
    for change in changes {
        let line = format!("{} {} ({})", change.action.word(), change.object, disruption(&change));
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
        if let Some(hold) = holding(action, &step, held) {
            blocked.push(format!("{object}: held back until `--allow {hold}`"));
            continue;
        }
        if action == Action::Blocked {
            blocked.push(if reasons.is_empty() {
                object.to_string()
            } else {
                format!("{object}: {}", reasons.join("; "))
            });
        }
        if let Some(entry) = &inventory {
            let mut one = Watched::new(object.clone(), entry.generation);
            one.gpus = gpus.before;
            one.gpu_sku = gpu_sku;
            one.planned = health.filter(|_| step == Step::Nothing);
            watched.insert(object.identity(), one);
        }
        match step {
            Step::Nothing => {}
            Step::Apply(apply) => {
                let tasks = applies(apply, inventory, line, &mut book);
                if stage_of(&object) == Stage::Adapter { adapters.extend(tasks) } else { now.extend(tasks) }
            }
            Step::Replace { delete, apply } => {
                let gone = Task::AwaitGone { object: object.clone(), uid: delete.uid.clone(), since: None };
                let delete = DeleteTask { step: delete, prune: false, line: String::new(), look: false, looks: 0 };
                let mut tasks = vec![Task::Delete(delete), gone];
                // What is created in its place must not ask for the uid of what is gone.
                let apply = ApplyStep { object: without_uid(apply.object), ..apply };
                tasks.extend(applies(apply, inventory, line, &mut book));
                if stage_of(&object) == Stage::Adapter { adapters.extend(tasks) } else { now.extend(tasks) }
            }
            Step::Delete(step) if settings.prune => {
                prune.push(DeleteTask { step, prune: true, line, look: false, looks: 0 });
            }
            Step::Delete(_) => {}
        }
    }

    // Volumes before graphs; the plan's order within a stage.
    now.sort_by_key(stage);
    prune.sort_by_key(|task| std::cmp::Reverse(task.step.stage));
    let mut tasks: VecDeque<Task> = now.into();
    if let (Some(graph), false) = (graph, adapters.is_empty()) {
        tasks.push_back(Task::Gate(graph));
    }
    tasks.extend(adapters);
    tasks.push_back(Task::Barrier);
    for task in prune {
        let gone = Task::AwaitGone { object: task.step.object.clone(), uid: task.step.uid.clone(), since: None };
        tasks.push_back(Task::Delete(task));
        if settings.wait {
            tasks.push_back(gone);
        }
    }
    tasks.push_back(if retired { Task::Retire } else { Task::Record });
    if settings.wait && !retired {
        tasks.push_back(Task::AwaitHealth);
        tasks.push_back(Task::Record);
    }
    ModelSync::new(name, tasks, book, watched, blocked)
}

/// The applies of one change: one, or three where replicas are seeded and then left to whoever scales.
fn applies(step: ApplyStep, inventory: Option<InventoryEntry>, line: String, book: &mut Book) -> Vec<Task> {
    // Who owns what is settled by server-side apply itself, and status alone moves the resource version: the uid in
    // the object is what must still be true.
    let ApplyStep { object, stage, force, planned_resource_version: _, seed_replicas } = step;
    let entry = inventory.unwrap_or_else(|| InventoryEntry {
        object: object.reference(),
        uid: None,
        generation: None,
        digest: String::new(),
        prune: stage != Stage::Cache,
    });
    book.intend(&entry);
    let task = |object: Object, manager: &'static str, line: Option<String>, follows: bool| {
        Task::Apply(ApplyTask { object, manager, force: force && !follows, stage, entry: entry.clone(), line, follows })
    };
    if seed_replicas.is_empty() {
        return vec![task(object, kinds::MANAGER, Some(line), false)];
    }
    vec![
        task(with_replicas(&object, &seed_replicas), kinds::MANAGER, Some(line), false),
        task(replicas_only(&object, &seed_replicas), SEED_MANAGER, None, true),
        task(object, kinds::MANAGER, None, true),
    ]
}

/// The object as one that a create may make.
fn without_uid(object: Object) -> Object {
    let fallback = object.clone();
    object
        .map(|mut value| {
            if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("uid");
            }
            value
        })
        .unwrap_or(fallback)
}

/// What holds a step back, as `--allow` names it.
fn holding(action: Action, step: &Step, held: &BTreeSet<HoldKind>) -> Option<&'static str> {
    let (kind, word) = match step {
        Step::Nothing if action == Action::Delete => (HoldKind::MassDelete, "mass-delete"),
        Step::Nothing if action == Action::Replace => (HoldKind::Replace, "replace"),
        Step::Nothing if action == Action::Adopt => (HoldKind::Adopt, "adopt"),
        Step::Nothing if matches!(action, Action::Create | Action::Update) => (HoldKind::MaxGpus, "max-gpus"),
        Step::Nothing => return None,
        Step::Apply(_) if action == Action::Adopt => (HoldKind::Adopt, "adopt"),
        Step::Apply(_) => return None,
        // An object that is on its way out already is made again whatever else waits for a release.
        Step::Replace { .. } if action != Action::Replace => return None,
        Step::Replace { .. } => (HoldKind::Replace, "replace"),
        Step::Delete(_) => (HoldKind::MassDelete, "mass-delete"),
    };
    held.contains(&kind).then_some(word)
}

/// When an object is applied, by its kind.
pub(super) fn stage_of(object: &ObjectRef) -> Stage {
    if object.kind == kinds::CLAIM.kind {
        Stage::Cache
    } else if object.kind == kinds::ADAPTER.kind {
        Stage::Adapter
    } else {
        Stage::Graph
    }
}

fn stage(task: &Task) -> Stage {
    match task {
        Task::Apply(task) => task.stage,
        Task::Delete(task) => task.step.stage,
        Task::AwaitGone { object, .. } => stage_of(object),
        Task::Gate(_) | Task::Barrier | Task::Record | Task::Retire | Task::AwaitGraph | Task::AwaitHealth => {
            Stage::Adapter
        }
    }
}

/// Whether a task is about an object.
pub(super) fn concerns(task: &Task, identity: &ObjectIdentity) -> bool {
    match task {
        Task::Apply(task) => task.object.reference().identity() == *identity,
        Task::Delete(task) => task.step.object.identity() == *identity,
        Task::AwaitGone { object, .. } => object.identity() == *identity,
        Task::Gate(_) | Task::Barrier | Task::Record | Task::Retire | Task::AwaitGraph | Task::AwaitHealth => false,
    }
}

fn disruption(change: &Change) -> String {
    serde_json::to_value(change.disruption).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
