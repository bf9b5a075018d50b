//! The status of each model, from a plan and the live objects: what `status -o json` says.

use super::context::PlanContext;
use super::{Action, Change, ChangeReason, HoldKind, KeptBy, Plan, PlanInput, SyncState, masking};
use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;
use stator_core::dynamo::health::{self, Health, HealthContext, HealthVerdict};
use stator_core::dynamo::kinds::{ADAPTER, CLAIM, FIELD_MANAGER, GRAPH, JOB, REQUEST};
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use stator_core::object::{Object, ObjectRef};
use std::collections::{BTreeMap, BTreeSet};

/// One model's status.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelStatus {
    /// The model's name.
    pub name: String,
    /// The namespace of its objects.
    pub namespace: String,
    /// Path of its `model.yaml`, or where it was.
    pub source: String,
    /// Whether the cluster is as git says.
    pub sync: SyncState,
    /// The worst health of its objects.
    pub health: Health,
    /// True where waiting cannot make it healthy: an object of it has ended in failure for good.
    #[serde(skip)]
    pub is_lost: bool,
    /// The commit of the last sync that changed it; empty when there was none, or outside git.
    pub revision: String,
    /// GPUs that it holds now.
    pub gpus: u64,
    /// The SKU of those GPUs, where its graph says.
    pub gpu_sku: Option<String>,
    /// The main kind: a graph or a request; empty when nothing of it is left.
    pub kind: String,
    /// When its main object was created, RFC 3339; absent when it is not there.
    pub created: Option<String>,
    /// Fields that were changed in the cluster although git did not change. Sorted.
    pub drift: Vec<FieldDrift>,
    /// What most deserves to be known, in a sentence.
    pub message: String,
    /// How the last sync that did anything ended; absent when there was none.
    pub last_sync: Option<LastSync>,
    /// Each of its objects.
    pub objects: Vec<ObjectStatus>,
}

/// The end of a sync, as the record has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastSync {
    /// When, RFC 3339 in UTC.
    pub time: String,
    /// `Progressing` while health is waited for; after that the word of the outcome: `Synced`, `Unchanged`, `Healthy`, `Deleted`,
    /// `Deleting`, `Deferred`, `Held`, `Blocked`, `Failed`, `Cancelled` or `Superseded`.
    pub result: String,
    /// One sentence; empty when there is nothing to say.
    pub message: String,
}

/// One drifted field.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldDrift {
    /// Which object, as people write it: `DynamoGraphDeployment prod/llama`.
    pub object: String,
    /// Which field.
    pub path: String,
    /// What git says; `null` when it says nothing.
    pub want: Value,
    /// What the cluster holds; `null` when nothing.
    pub have: Value,
    /// The field manager that owns it there; empty where nobody recorded who changed it.
    pub owner: String,
}

/// One object's part in a model's status.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectStatus {
    /// The object.
    #[serde(flatten)]
    pub object: ObjectRef,
    /// What a sync would do with it.
    pub action: Action,
    /// Its health.
    pub health: Health,
    /// Why, in a sentence.
    pub message: String,
}

/// What is known besides the plan when health is judged.
#[derive(Clone, Debug, Default)]
pub struct ModelStatusContext {
    /// The time: with it, what cannot be deleted is found out.
    pub now: Option<jiff::Timestamp>,
    /// Pods of graphs that are not healthy, as far as anybody could read them: their reasons go into the messages.
    pub pods: Vec<Object>,
    /// What frontends of graphs with adapters serve, as far as anybody asked them.
    pub frontends: BTreeMap<FrontendService, FrontendAnswer>,
}

/// The status of every model that the plan is about, sorted by name. `plan` must have been made from `input`.
pub fn model_statuses(input: &PlanInput, plan: &Plan, sight: &ModelStatusContext) -> Vec<ModelStatus> {
    let context = PlanContext::new(input);
    let mut by_model: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
    for change in &plan.changes {
        by_model.entry(&change.model).or_default().push(change);
    }
    // A model without a line has errors, or its objects are gone already.
    let rendered = input.rendered.iter().map(|one| one.model.as_str());
    let broken = input.broken.iter().filter_map(|one| one.name.as_deref());
    for name in rendered.chain(broken).chain(context.records().keys().copied()).filter(|name| input.scope.covers(name))
    {
        by_model.entry(name).or_default();
    }
    let faulty = models_with_errors(input, &context);
    by_model
        .into_iter()
        .map(|(name, changes)| model_status(&context, sight, name, &changes, faulty.contains(name)))
        .collect()
}

fn models_with_errors<'a>(input: &'a PlanInput, context: &PlanContext<'a>) -> BTreeSet<&'a str> {
    let errors = input.rendered.iter().filter(|one| one.findings.iter().any(stator_core::finding::Finding::is_error));
    // A file that is too broken to say its name is still the one that the record names.
    let sources: BTreeSet<&str> = input.broken.iter().map(|one| one.source.as_str()).collect();
    let recorded = context.records().values().filter(|record| sources.contains(record.source.as_str()));
    errors
        .map(|one| one.model.as_str())
        .chain(input.broken.iter().filter_map(|one| one.name.as_deref()))
        .chain(recorded.map(|record| record.model.as_str()).filter(|model| !context.renders(model)))
        .collect()
}

fn model_status(
    context: &PlanContext<'_>,
    sight: &ModelStatusContext,
    name: &str,
    changes: &[&Change],
    faulty: bool,
) -> ModelStatus {
    let input = context.input;
    let record = context.records().get(name).copied();
    let rendered = input.rendered.iter().find(|one| one.model == name);
    let broken = input.broken.iter().find(|one| one.name.as_deref() == Some(name));
    let objects: Vec<PlannedObject<'_>> =
        changes.iter().map(|change| PlannedObject { change, live: context.live(&change.object) }).collect();
    let bases = ServedBases::of_objects(&objects);
    let judged: Vec<(&Change, HealthVerdict)> = objects
        .iter()
        .map(|one| {
            let verdict = evaluate_object_health(context, sight, one);
            let endpoints = one.live.as_ref().and_then(health::AdapterEndpoints::from_adapter);
            let verdict = match endpoints {
                Some(one) => bases.limit_adapter(&one, verdict, sight),
                None => verdict,
            };
            (one.change, verdict)
        })
        .collect();
    let is_main = |one: &&PlannedObject<'_>| [GRAPH.kind, REQUEST.kind].contains(&one.change.object.kind.as_str());
    let is_wanted = |one: &&PlannedObject<'_>| one.change.inventory.is_some();
    let mut mains = objects.iter().filter(is_main);
    let main = mains.clone().find(is_wanted).or_else(|| mains.next());
    // A request that waits for its successor says nothing of the model any more, least of all that it failed.
    let counts = |change: &Change| {
        change.inventory.is_some() || (change.object.kind != REQUEST.kind && change.action != Action::LeftBehind)
    };
    let counted: Vec<&(&Change, HealthVerdict)> = judged.iter().filter(|(change, _)| counts(change)).collect();
    let counted = if counted.is_empty() { judged.iter().collect() } else { counted };
    let health = if judged.is_empty() {
        Health::Unknown
    } else {
        counted.iter().map(|(_, one)| one.health).max().unwrap_or_default()
    };
    let sync = sync_state(changes, faulty);
    let source = rendered
        .map(|one| one.source.clone())
        .or_else(|| broken.map(|one| one.source.clone()))
        .or_else(|| record.map(|one| one.source.clone()))
        .or_else(|| changes.first().map(|one| one.source.clone()))
        .unwrap_or_default();
    let live = main.and_then(|one| one.live.as_ref());
    ModelStatus {
        name: name.to_owned(),
        namespace: input.namespace.clone(),
        source,
        sync,
        health,
        is_lost: counted.iter().any(|(_, one)| one.terminal && !one.health.is_good()),
        revision: record.map(|one| one.revision.clone()).unwrap_or_default(),
        gpus: changes.iter().fold(0, |sum, one| sum.saturating_add(one.gpus.before)),
        gpu_sku: changes.iter().find_map(|one| one.gpu_sku.clone()),
        kind: main.map(|one| one.change.object.kind.clone()).unwrap_or_default(),
        created: live.and_then(|live| live.str_at("/metadata/creationTimestamp")).map(str::to_owned),
        drift: drifted_fields(context, &objects),
        message: status_message(&counted, changes, faulty, (sync, health), rendered.is_some() || broken.is_some()),
        last_sync: record.and_then(|record| record.history.first()).map(|outcome| LastSync {
            time: outcome.time.clone(),
            result: outcome.result.clone(),
            message: outcome.message.clone(),
        }),
        objects: objects
            .iter()
            .zip(&judged)
            .flat_map(|(one, (_, verdict))| object_statuses(context, sight, one, verdict))
            .collect(),
    }
}

/// A line of the plan, and the object that it is about as it is.
struct PlannedObject<'a> {
    change: &'a Change,
    live: Option<Object>,
}

/// What the graphs of a model have for adapters, by base model.
#[derive(Default)]
struct ServedBases {
    ready_workers: BTreeMap<String, u64>,
    frontends: BTreeMap<String, FrontendService>,
}

impl ServedBases {
    fn of_objects(objects: &[PlannedObject<'_>]) -> Self {
        Self::of_graphs(objects.iter().filter_map(|one| one.live.as_ref()))
    }

    fn of_graphs<'a>(graphs: impl Iterator<Item = &'a Object>) -> Self {
        let mut bases = Self::default();
        for graph in graphs {
            let frontend = FrontendService::of_graph(graph);
            for (base, ready) in health::ready_workers(graph) {
                if let Some(frontend) = &frontend {
                    bases.frontends.entry(base.clone()).or_insert_with(|| frontend.clone());
                }
                let sum = bases.ready_workers.entry(base).or_default();
                *sum = sum.saturating_add(ready);
            }
        }
        bases
    }

    fn limit_adapter(
        &self,
        adapter: &health::AdapterEndpoints,
        verdict: HealthVerdict,
        sight: &ModelStatusContext,
    ) -> HealthVerdict {
        let ready = self.ready_workers.get(&adapter.base_model).copied().unwrap_or(0);
        let verdict = adapter.check_against_workers(verdict, ready);
        match self.frontends.get(&adapter.base_model).and_then(|frontend| sight.frontends.get(frontend)) {
            Some(answer) => adapter.check_against_frontend(verdict, answer),
            None => verdict,
        }
    }
}

/// The frontends that tell more of models whose adapters are loaded.
pub fn frontends_of_adapters(input: &PlanInput, plan: &Plan, models: &[ModelStatus]) -> BTreeSet<FrontendService> {
    let context = PlanContext::new(input);
    let mut changes: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
    for change in &plan.changes {
        changes.entry(&change.model).or_default().push(change);
    }
    let mut found = BTreeSet::new();
    for model in models {
        let is_loaded = |object: &&ObjectStatus| object.object.kind == ADAPTER.kind && object.health == Health::Healthy;
        let mut loaded = model.objects.iter().filter(is_loaded).filter_map(|one| context.live(&one.object)).peekable();
        if loaded.peek().is_none() {
            continue;
        }
        let changes = changes.get(model.name.as_str()).map(Vec::as_slice).unwrap_or_default();
        let graphs: Vec<Object> = changes.iter().filter_map(|change| context.live(&change.object)).collect();
        let mut bases = ServedBases::of_graphs(graphs.iter());
        let adapters = loaded.filter_map(|adapter| health::AdapterEndpoints::from_adapter(&adapter));
        found.extend(adapters.filter_map(|adapter| bases.frontends.remove(&adapter.base_model)));
    }
    found
}

/// An object, and the graph that it made.
fn object_statuses(
    context: &PlanContext<'_>,
    sight: &ModelStatusContext,
    one: &PlannedObject<'_>,
    verdict: &HealthVerdict,
) -> Vec<ObjectStatus> {
    let change = one.change;
    let mut list = vec![ObjectStatus {
        object: change.object.clone(),
        action: change.action,
        health: verdict.health,
        message: verdict.message.clone(),
    }];
    if let Some(graph) = one.live.as_ref().and_then(|live| context.graph_made_by(live)) {
        let HealthVerdict { health, message, terminal: _ } = evaluate_graph_health(&graph, sight);
        let message = format!("{message}; created by request {}", change.object.name);
        list.push(ObjectStatus { object: graph.reference(), action: Action::Keep, health, message });
    }
    list
}

/// The verdict on a graph that a request made.
fn evaluate_graph_health(graph: &Object, sight: &ModelStatusContext) -> HealthVerdict {
    let known = HealthContext { now: sight.now, ..HealthContext::default() };
    with_pod_causes(health::assess_health_in_context(graph, known), graph, &sight.pods)
}

/// The health of a live object at the generation that was applied; what is not there is on its way or is not.
fn evaluate_object_health(
    context: &PlanContext<'_>,
    sight: &ModelStatusContext,
    one: &PlannedObject<'_>,
) -> HealthVerdict {
    let change = one.change;
    let verdict_of = |health, message: &str| HealthVerdict { health, message: message.to_owned(), terminal: false };
    match &one.live {
        Some(live) => {
            let applied =
                context.inventory_entry(&change.object).filter(|(_, entry)| entry.uid.as_deref() == live.uid());
            let applied_generation = applied.and_then(|(_, entry)| entry.generation);
            let known = HealthContext { applied_generation, healthy_at: None, now: sight.now };
            let verdict = match context.graph_made_by(live) {
                Some(graph) => {
                    let made = evaluate_graph_health(&graph, sight);
                    health::assess_request_health(live, known, &graph, made)
                }
                None => with_pod_causes(health::assess_health_in_context(live, known), live, &sight.pods),
            };
            // A claim may be bound only once a pod mounts it, and none does any more.
            if is_kept_for_its_data(change) && verdict.health == Health::Progressing {
                verdict_of(Health::Healthy, "is kept with its data")
            } else {
                verdict
            }
        }
        None if context.unreadable_reason(&change.object).is_some() => {
            verdict_of(Health::Unknown, "cannot be read from the cluster")
        }
        None if change.action == Action::Keep => verdict_of(Health::Progressing, "is applied with another model"),
        None => verdict_of(Health::Progressing, "does not exist yet"),
    }
}

fn is_kept_for_its_data(change: &Change) -> bool {
    change.reasons.iter().any(|reason| matches!(reason, ChangeReason::Kept(KeptBy::Data)))
}

/// The verdict on a graph or a download with what its pods say of it.
fn with_pod_causes(verdict: HealthVerdict, live: &Object, pods: &[Object]) -> HealthVerdict {
    if (live.kind() != GRAPH.kind && live.kind() != JOB.kind)
        || matches!(verdict.health, Health::Healthy | Health::Suspended)
    {
        return verdict;
    }
    let causes = health::pods::pod_problems(&live.reference(), pods).join("; ");
    if causes.is_empty() {
        return verdict;
    }
    let causes = stator_core::mask::redact_message(&causes, live.value());
    HealthVerdict { message: format!("{}; {causes}", verdict.message), ..verdict }
}

/// Whether stator cannot touch the object as it is: it is blocked, or nobody has approved its adoption.
fn is_out_of_reach(change: &Change) -> bool {
    change.action == Action::Blocked || change.step.held_by() == Some(HoldKind::Adopt)
}

fn sync_state(changes: &[&Change], faulty: bool) -> SyncState {
    if faulty || changes.iter().any(|one| is_out_of_reach(one)) {
        SyncState::Blocked
    } else if changes.is_empty() {
        SyncState::Unknown
    } else if changes.iter().all(|one| matches!(one.action, Action::Keep | Action::LeftBehind)) {
        SyncState::Synced
    } else {
        SyncState::OutOfSync
    }
}

/// Fields that differ although what git wants is what was applied last.
fn drifted_fields(context: &PlanContext<'_>, objects: &[PlannedObject<'_>]) -> Vec<FieldDrift> {
    let mut list = Vec::new();
    for PlannedObject { change, live } in objects {
        let recorded = context.inventory_entry(&change.object).map(|(_, entry)| entry.digest.as_str());
        let wanted = change.inventory.as_ref().map(|entry| entry.digest.as_str());
        if recorded.is_none() || recorded != wanted {
            continue;
        }
        let object = change.object.to_string();
        if change.action == Action::Create && live.as_ref().is_none_or(Object::is_deleting) {
            list.push(FieldDrift {
                object,
                path: String::new(),
                want: Value::from("present"),
                have: Value::Null,
                owner: String::new(),
            });
            continue;
        }
        list.extend(change.fields.iter().map(|field| FieldDrift {
            object: object.clone(),
            path: field.path.to_string(),
            want: masking::without_side_marks(&field.new),
            have: masking::without_side_marks(&field.old),
            // A field of stator that others changed was changed without a field manager, or removed: nobody knows by whom.
            owner: if field.owner == FIELD_MANAGER { String::new() } else { field.owner.clone() },
        }));
    }
    list.sort_by(|a, b| (&a.object, &a.path).cmp(&(&b.object, &b.path)));
    list
}

fn status_message(
    judged: &[&(&Change, HealthVerdict)],
    changes: &[&Change],
    faulty: bool,
    (sync, health): (SyncState, Health),
    is_wanted: bool,
) -> String {
    if faulty {
        return "has errors: see `stator validate`".to_owned();
    }
    // What is left behind says nothing of a model that git has.
    let is_left = |change: &Change| change.action == Action::LeftBehind;
    if let Some(left) = changes.first().filter(|_| changes.iter().all(|one| is_left(one))) {
        return format!("left behind: {} {}", left.object, super::join_reasons(&left.reasons));
    }
    if let Some((change, _)) = judged.iter().find(|(change, _)| is_out_of_reach(change)) {
        return format!("{}: {}", change.object.name, super::join_reasons(&change.reasons));
    }
    if judged.is_empty() {
        let nothing = "none of its objects exist in the cluster";
        return if is_wanted {
            nothing.to_owned()
        } else {
            format!("git no longer has it, and {nothing}: `stator sync --allow delete` deletes its record")
        };
    }
    let worst = judged.iter().filter(|(_, verdict)| verdict.health == health);
    // Among equals the graph says more than its volume: a claim is only ever the word where it is the worst.
    let worst = worst.min_by_key(|(change, _)| change.object.kind == CLAIM.kind);
    let several = judged.len() > 1;
    match (worst, sync) {
        (Some((change, verdict)), _) if !matches!(health, Health::Healthy | Health::Suspended) => {
            if several {
                format!("{}: {}", change.object.name, verdict.message)
            } else {
                verdict.message.clone()
            }
        }
        (_, SyncState::OutOfSync) => {
            let pending =
                changes.iter().filter(|change| !matches!(change.action, Action::Keep | Action::LeftBehind)).count();
            format!("{pending} of {} objects differ from git", changes.len())
        }
        (Some((_, verdict)), _) => verdict.message.clone(),
        (None, _) => String::new(),
    }
}
