//! A cluster in a map, and a plan in thirty lines.

use crate::cluster::{
    ApplyOutcome, ApplyRequest, ApplyResponse, ClusterError, DeleteOutcome, FieldConflict, NO_OBJECTS_VERSION,
    Preconditions,
};
use crate::sync::machine::tasks::stage_of;
use crate::sync::machine::{
    CallResult, ClusterCall, ExpectedRecord, JournalWriteResult, MachineEvent, RecordWriteResult,
};
use serde_json::{Value, json};
use stator_core::dynamo::health::assess_health;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::dynamo::served_models::FrontendAnswer;
use stator_core::object::{FieldPath, JsonText, Object, ObjectIdentity, ObjectRef};
use stator_model::plan::{
    Action, ApplyStep, Change, DeleteStep, InventoryEntry, Journal, Plan, PlanOwnership, PlanStep, PlannedWrite,
    Record, Summary, SyncBookkeeping, merge_journals,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What git wants: models, each with objects by kind and name, each with a payload.
pub type Git = BTreeMap<String, BTreeMap<(usize, String), u64>>;

/// Payloads from here on are of graphs that come up beside what they replace.
const NEW_FIRST: u64 = 500;

const KINDS: [ObjectKind; 4] = [kinds::CLAIM, kinds::GRAPH, kinds::ADAPTER, kinds::JOB];

/// A model by name, with its objects by kind and name and their payloads.
pub type GitModel<'a> = (&'a str, &'a [(ObjectKind, &'a str, u64)]);

pub fn git(models: &[GitModel<'_>]) -> Git {
    models
        .iter()
        .map(|(model, objects)| {
            let objects = objects.iter().map(|(kind, name, payload)| {
                ((KINDS.iter().position(|one| one == kind).unwrap(), (*name).to_owned()), *payload)
            });
            ((*model).to_owned(), objects.collect())
        })
        .collect()
}

pub fn reference(kind: usize, name: &str) -> ObjectRef {
    let kind = KINDS[kind];
    kind.reference("prod", name)
}

fn desired(model: &str, object: &ObjectRef, payload: u64, has_frontend: bool) -> Object {
    let mut spec = json!({"payload": payload, "components": [{"name": "decode"}]});
    if has_frontend {
        spec = json!({
            "payload": payload, "modelType": "lora", "modelName": object.name, "baseModelName": "m",
            "components": [{"name": "decode", "modelRef": {"name": "m"}}, {"name": "frontend", "type": "frontend"}],
        });
    }
    Object::from_value(json!({
        "apiVersion": object.api_version, "kind": object.kind,
        "metadata": {"name": object.name, "namespace": object.namespace, "labels": {
            kinds::LABEL_MANAGED_BY: kinds::FIELD_MANAGER, kinds::LABEL_MODEL: model,
        }},
        "spec": spec,
    }))
    .unwrap()
}

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not carried out, and may be in a moment.
    Before,
    /// It is carried out, and the answer is lost.
    After,
    /// The cluster refuses it.
    Invalid,
    /// Another manager owns a field (409).
    Conflict,
    /// The object was written since (409).
    Precondition,
    /// Whoever asks may not (403).
    Forbidden,
    /// The disk is full.
    Full,
}

/// The cluster.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub live: BTreeMap<ObjectIdentity, Object>,
    pub records: BTreeMap<String, Record>,
    /// What syncs left, by name.
    pub journals: BTreeMap<String, Journal>,
    /// Every write that was carried out, in order.
    pub writes: Vec<String>,
    /// Kinds whose objects wait for a finalizer.
    pub finalizers: BTreeSet<String>,
    /// Whether nobody takes finalizers away.
    pub keeps_finalizers: bool,
    /// Whether the operator makes graphs Healthy.
    pub operator: bool,
    pub faults: BTreeMap<ObjectIdentity, VecDeque<Fault>>,
    /// Models whose file is not called after them.
    pub sources: BTreeMap<String, String>,
    /// Whether a renamed model stays until its new name is Healthy.
    pub renames_wait: bool,
    /// Pods, whoever's they are.
    pub pods: Vec<Object>,
    /// The graphs whose pods somebody asked for, in order.
    pub looks: Vec<String>,
    /// Graphs that another takes the place of, with that one: they must go only while it is Healthy.
    pub new_graphs: BTreeMap<ObjectIdentity, ObjectIdentity>,
    /// Whether downloads fail.
    pub breaks_downloads: bool,
    /// Graphs that are to serve what a Job downloads: they must not be written before it is complete.
    pub downloads: BTreeMap<ObjectIdentity, ObjectIdentity>,
    /// What frontends answer, one after the other, the last one for ever. Graphs have none where this is empty.
    pub answers: VecDeque<FrontendAnswer>,
    /// How often frontends were asked.
    pub questions: usize,
    counter: u64,
}

impl World {
    /// A cluster whose operator works.
    pub fn operated() -> Self {
        Self { operator: true, ..Self::default() }
    }

    fn count(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// What a status update does: a new resource version, and nothing else.
    pub fn touch(&mut self, identity: &ObjectIdentity) {
        let version = self.count().to_string();
        if let Some(object) = self.live.get_mut(identity) {
            set(object, "/metadata/resourceVersion", json!(version));
        }
    }

    /// Somebody deletes an object and makes another of that name.
    pub fn remake(&mut self, identity: &ObjectIdentity) {
        let uid = format!("other-{}", self.count());
        if let Some(object) = self.live.get_mut(identity) {
            set(object, "/metadata/uid", json!(uid));
        }
        self.touch(identity);
    }

    /// The operator catches up with everything; what is going goes.
    pub fn operate(&mut self) -> Vec<MachineEvent> {
        let mut events = Vec::new();
        let going: Vec<ObjectIdentity> = self
            .live
            .iter()
            .filter(|(_, object)| object.is_deleting() && !self.keeps_finalizers)
            .map(|(identity, _)| identity.clone())
            .collect();
        for identity in going {
            if let Some(object) = self.live.remove(&identity) {
                events.push(MachineEvent::Gone(object.reference()));
            }
        }
        let version = self.count().to_string();
        // Volumes are bound by the storage's own provisioner, operator or not.
        for object in self.live.values_mut().filter(|object| object.kind() == kinds::CLAIM.kind) {
            if object.str_at("/status/phase").is_none() {
                set(object, "/status", json!({"phase": "Bound"}));
                set(object, "/metadata/resourceVersion", json!(version));
                events.push(MachineEvent::Observed(object.clone()));
            }
        }
        if !self.operator {
            return events;
        }
        for object in self.live.values_mut() {
            if object.kind() == kinds::JOB.kind && object.status().is_null() {
                let (ended, reason) =
                    if self.breaks_downloads { ("Failed", "BackoffLimitExceeded") } else { ("Complete", "") };
                let status = json!({
                    "startTime": "2026-01-01T00:00:00Z",
                    "conditions": [{"type": ended, "status": "True", "reason": reason, "message": ""}],
                });
                set(object, "/status", status);
                set(object, "/metadata/resourceVersion", json!(version));
                events.push(MachineEvent::Observed(object.clone()));
            }
            if object.kind() == kinds::CLAIM.kind || object.kind() == kinds::JOB.kind {
                continue;
            }
            let generation = object.generation().unwrap();
            if object.status().get("observedGeneration").and_then(Value::as_i64) == Some(generation) {
                continue;
            }
            let mut value = object.value().clone();
            value["status"] = json!({
                "components": {"decode": {"readyReplicas": 1}},
                "observedGeneration": generation, "state": "successful",
                "totalEndpoints": 1, "readyEndpoints": 1, "endpoints": [{"ready": true}],
                "conditions": [
                    {"type": "Ready", "status": "True", "reason": "all_resources_are_ready", "message": ""},
                    {"type": "EndpointsReady", "status": "True", "observedGeneration": generation},
                ],
            });
            value["metadata"]["resourceVersion"] = json!(version);
            *object = Object::from_value(value).unwrap();
            events.push(MachineEvent::Observed(object.clone()));
        }
        events
    }

    /// The plan for a desired state, with the bookkeeping it was made from.
    pub fn plan(&self, git: &Git) -> (Plan, SyncBookkeeping) {
        let journals: Vec<Journal> = self.journals.values().cloned().collect();
        let (records, journals) = merge_journals(self.records.values().cloned().collect(), &journals, &BTreeSet::new());
        let known: BTreeMap<&str, &Record> = records.iter().map(|record| (record.model.as_str(), record)).collect();
        let mut changes = Vec::new();
        let mut wanted = BTreeSet::new();
        for (model, objects) in git {
            for ((kind, name), payload) in objects {
                let (object, other) = self.place(&reference(*kind, name), *payload);
                wanted.insert(object.identity());
                let mut change = self.change(model, &object, *payload);
                let is_live = |other: &&ObjectRef| self.live.contains_key(&other.identity());
                match other.as_ref().filter(is_live) {
                    Some(other) => {
                        wanted.insert(other.identity());
                        changes.push(self.outgoing_line(model, other, &object));
                    }
                    None if *payload >= NEW_FIRST => new_first(&mut change, other),
                    None => {}
                }
                changes.push(change);
            }
        }
        for (identity, object) in &self.live {
            let model = object.labels()[kinds::LABEL_MODEL].to_owned();
            let recorded = known
                .get(model.as_str())
                .and_then(|record| record.inventory.iter().find(|entry| entry.object.identity() == *identity));
            let ours = recorded.is_some_and(|entry| entry.uid.is_none() || entry.uid.as_deref() == object.uid());
            if wanted.contains(identity) || !ours {
                continue;
            }
            let mut change = line(&model, &object.reference(), Action::Delete);
            if object.kind() == kinds::CLAIM.kind {
                change.action = Action::Keep;
            } else if object.is_deleting() {
                await_gone(&mut change, object);
            } else {
                // What is no longer served stays until the graph serves something else.
                let is_graph = |one: &&Change| one.model == model && one.object.kind == kinds::GRAPH.kind;
                let graph = changes.iter().filter(|one| one.inventory.is_some()).find(is_graph);
                let graph = graph.filter(|_| object.kind() == kinds::JOB.kind).and_then(|one| one.inventory.as_ref());
                change.step = PlanStep::Write(PlannedWrite::Delete(DeleteStep {
                    object: object.reference(),
                    stage: stage_of(&object.reference()),
                    uid: object.uid().unwrap().to_owned(),
                    resource_version: object.resource_version().unwrap().to_owned(),
                    after: graph.map(|entry| Box::new(entry.object.clone())),
                    leaves: None,
                }));
            }
            changes.push(change);
        }
        self.wait_for_downloads(&mut changes);
        let renames = self.renames(&known, git);
        if self.renames_wait {
            follow_renames(&renames, &mut changes);
        }
        for change in &mut changes {
            let own = format!("{}/model.yaml", change.model);
            change.source = self.sources.get(&change.model).cloned().unwrap_or(own);
        }
        let gone = known.keys().filter(|model| !git.contains_key(**model));
        let retired = gone.map(|model| (*model).to_owned()).collect();
        let plan = Plan {
            api_version: "stator.dev/v1alpha1",
            kind: "Plan",
            repository: "shop".to_owned(),
            environment: "prod".to_owned(),
            revision: "abc1234".to_owned(),
            base: "live".to_owned(),
            digest: String::new(),
            summary: Summary::default(),
            changes,
            holds: Vec::new(),
            held: stator_model::plan::HeldChanges::default(),
            retired,
            renames,
            upgrade: None,
            elsewhere: Vec::new(),
            folder: None,
            ownership: PlanOwnership::default(),
            intents: git.keys().map(|model| (model.clone(), JsonText::default())).collect(),
            findings: Vec::new(),
        };
        (plan, SyncBookkeeping { records, journals })
    }

    /// Models that are gone, with the one that stands in the same file.
    fn renames(&self, known: &BTreeMap<&str, &Record>, git: &Git) -> BTreeMap<String, String> {
        let gone = known.keys().filter(|model| !git.contains_key(**model));
        let takes_place = |old: &str| git.keys().find(|new| self.sources.get(*new) == self.sources.get(old));
        let gone = gone.filter(|old| self.sources.contains_key(**old));
        gone.filter_map(|old| Some(((*old).to_owned(), takes_place(old)?.clone()))).collect()
    }

    /// Every graph that is written serves what the model's Job downloads.
    fn wait_for_downloads(&self, changes: &mut [Change]) {
        let wanted = changes.iter().filter(|one| one.object.kind == kinds::JOB.kind && one.inventory.is_some());
        let jobs: Vec<(String, ObjectRef)> = wanted.map(|one| (one.model.clone(), one.object.clone())).collect();
        for change in changes.iter_mut().filter(|one| one.object.kind == kinds::GRAPH.kind) {
            let Some((_, job)) = jobs.iter().find(|(model, _)| *model == change.model) else { continue };
            let is_complete =
                self.live.get(&job.identity()).is_some_and(|job| assess_health(job, None).health.is_good());
            match &mut change.step {
                PlanStep::Write(PlannedWrite::Apply(apply) | PlannedWrite::Replace { delete: _, apply }) => {
                    apply.after = (!is_complete).then(|| Box::new(job.clone()));
                }
                PlanStep::Write(PlannedWrite::Delete(_))
                | PlanStep::NoWrite
                | PlanStep::AwaitGone { .. }
                | PlanStep::Held { .. } => {}
            }
        }
    }

    /// Which of its two names a graph has, and the other one; other objects have one name.
    fn place(&self, object: &ObjectRef, payload: u64) -> (ObjectRef, Option<ObjectRef>) {
        if object.kind != kinds::GRAPH.kind {
            return (object.clone(), None);
        }
        let second = ObjectRef { name: format!("{}-second", object.name), ..object.clone() };
        let there = |one: &ObjectRef| self.live.get(&one.identity()).filter(|live| !live.is_deleting());
        let fits = |live: &Object| live.spec()["payload"].as_u64().unwrap() / 100 == payload / 100;
        let is_second = match (there(object), there(&second)) {
            (Some(_), Some(live)) => fits(live),
            (None, Some(_)) => true,
            (Some(_) | None, None) => false,
        };
        if is_second { (second, Some(object.clone())) } else { (object.clone(), Some(second)) }
    }

    /// A graph that goes once another is Healthy.
    fn outgoing_line(&self, model: &str, object: &ObjectRef, successor: &ObjectRef) -> Change {
        let live = &self.live[&object.identity()];
        let mut change = line(model, object, Action::Delete);
        if live.is_deleting() {
            await_gone(&mut change, live);
        } else {
            change.step = PlanStep::Write(PlannedWrite::Delete(DeleteStep {
                object: object.clone(),
                stage: stage_of(object),
                uid: live.uid().unwrap().to_owned(),
                resource_version: live.resource_version().unwrap().to_owned(),
                after: Some(Box::new(successor.clone())),
                leaves: None,
            }));
        }
        change
    }

    fn change(&self, model: &str, object: &ObjectRef, payload: u64) -> Change {
        let live = self.live.get(&object.identity());
        let mut target = desired(model, object, payload, !self.answers.is_empty());
        let entry = InventoryEntry {
            object: object.clone(),
            uid: live.and_then(Object::uid).map(str::to_owned),
            generation: live.and_then(Object::generation),
            digest: format!("{payload}"),
            prune: object.kind != kinds::CLAIM.kind,
        };
        let action = match live {
            None => Action::Create,
            Some(live) if live.is_deleting() => Action::Blocked,
            Some(live) if live.spec()["payload"] == json!(payload) => Action::Keep,
            // A payload from another hundred cannot be reached in place.
            Some(live) if live.spec()["payload"].as_u64().unwrap() / 100 != payload / 100 => Action::Replace,
            Some(_) => Action::Update,
        };
        let mut change = line(model, object, action);
        change.inventory = Some(entry);
        change.health = live.map(|live| assess_health(live, None).health);
        let stage = stage_of(object);
        if action == Action::Update {
            set(&mut target, "/metadata/uid", json!(live.unwrap().uid()));
        }
        let apply = ApplyStep {
            first: None,
            object: target.into(),
            stage,
            force: false,
            planned_resource_version: live.and_then(Object::resource_version).map(str::to_owned),
            seed_replicas: BTreeMap::new(),
            transfer: None,
            after: None,
            after_graphs: Vec::new(),
        };
        change.step = match action {
            Action::Create | Action::Update => PlanStep::Write(PlannedWrite::Apply(apply)),
            Action::Replace => PlanStep::Write(PlannedWrite::Replace {
                delete: DeleteStep {
                    object: object.clone(),
                    stage,
                    uid: live.unwrap().uid().unwrap().to_owned(),
                    resource_version: live.unwrap().resource_version().unwrap().to_owned(),
                    after: None,
                    leaves: None,
                },
                apply,
            }),
            Action::Keep | Action::Blocked | Action::Adopt | Action::Delete | Action::Deleting | Action::LeftBehind => {
                PlanStep::NoWrite
            }
        };
        change
    }

    pub fn call(&mut self, call: &ClusterCall) -> CallResult {
        match call {
            ClusterCall::WriteRecord { record, expected, object, status } => {
                let is_gone =
                    matches!(expected, ExpectedRecord::Present { .. }) && !self.records.contains_key(&record.model);
                CallResult::Recorded(match self.fault(&record_identity(record)) {
                    Some(Fault::Before) => Err(hiccup()),
                    Some(Fault::Full) => Err(full()),
                    Some(Fault::Forbidden) => Err(forbidden()),
                    Some(Fault::Precondition) => Err(moved(record_reference(record))),
                    // One that was sent long ago brings no record back.
                    _ if is_gone => Err(moved(record_reference(record))),
                    fault @ (None | Some(Fault::After | Fault::Invalid | Fault::Conflict)) => {
                        assert!(*object || self.records.contains_key(&record.model), "a status makes no object");
                        self.writes.push(format!("record {}", record.model));
                        let stored = self.records.get(&record.model);
                        let new = if *status { record.as_ref().clone() } else { record.to_pending_write(stored) };
                        self.records.insert(record.model.clone(), new);
                        let recorded = RecordWriteResult { writes: 1, generation: record.generation, uid: None };
                        if fault == Some(Fault::After) { Err(hiccup()) } else { Ok(recorded) }
                    }
                })
            }
            ClusterCall::DeleteRecord(record) => {
                self.writes.push(format!("retire {}", record.model));
                let writes = usize::from(self.records.remove(&record.model).is_some());
                CallResult::Recorded(Ok(RecordWriteResult { writes, generation: None, uid: None }))
            }
            ClusterCall::Apply(request) => {
                let object = request.object.reference();
                CallResult::Applied(match self.fault(&object.identity()) {
                    Some(Fault::Before) => Err(hiccup()),
                    Some(Fault::Full) => Err(full()),
                    Some(Fault::Forbidden) => Err(forbidden()),
                    Some(Fault::Precondition) => Err(moved(object)),
                    Some(Fault::Invalid) => Err(ClusterError::Invalid { object, causes: Vec::new() }),
                    Some(Fault::Conflict) => Err(ClusterError::Conflict {
                        object,
                        conflicts: vec![FieldConflict {
                            manager: "kubectl-edit".to_owned(),
                            path: FieldPath::default(),
                        }],
                    }),
                    Some(Fault::After) => self.apply(request).and(Err(hiccup())),
                    None => self.apply(request),
                })
            }
            ClusterCall::Delete { object, preconditions } => {
                CallResult::Deleted(match self.fault(&object.identity()) {
                    Some(Fault::After) => self.delete(object, preconditions).and(Err(hiccup())),
                    Some(Fault::Before | Fault::Conflict) => Err(hiccup()),
                    Some(Fault::Invalid | Fault::Full) => Err(full()),
                    Some(Fault::Forbidden) => Err(forbidden()),
                    Some(Fault::Precondition) => Err(moved(object.clone())),
                    None => self.delete(object, preconditions),
                })
            }
            ClusterCall::Read(object) => CallResult::Read(Ok(self.live.get(&object.identity()).cloned())),
            ClusterCall::AskFrontend(frontend) => {
                self.questions += 1;
                let answer = self.answers.front().cloned().unwrap();
                if self.answers.len() > 1 {
                    self.answers.pop_front();
                }
                CallResult::Served(frontend.clone(), answer)
            }
            ClusterCall::ReadPods(graphs) => {
                self.looks.extend(graphs.iter().map(|graph| graph.name.clone()));
                CallResult::Pods(self.pods.clone())
            }
        }
    }

    /// Creates a journal.
    pub fn write_journal(&mut self, journal: &Journal) -> Result<JournalWriteResult, ClusterError> {
        match self.fault(&journals_identity()) {
            Some(Fault::Before | Fault::Conflict | Fault::Precondition) => return Err(hiccup()),
            Some(Fault::Invalid | Fault::Full) => return Err(full()),
            Some(Fault::Forbidden) => return Err(forbidden()),
            Some(Fault::After) => {
                self.write_journal(journal)?;
                return Err(hiccup());
            }
            None => {}
        }
        if let Some(there) = self.journals.get(&journal.name) {
            if there.models == journal.models {
                return Ok(JournalWriteResult { writes: 0, uid: there.uid.clone() });
            }
            let message = "it is there already".to_owned();
            return Err(ClusterError::Precondition { object: journal.to_object().unwrap().reference(), message });
        }
        let uid = Some(format!("uid-{}", self.count()));
        self.writes.push("journal".to_owned());
        self.journals.insert(journal.name.clone(), Journal { uid: uid.clone(), ..journal.clone() });
        Ok(JournalWriteResult { writes: 1, uid })
    }

    /// Deletes a journal.
    pub fn delete_journal(&mut self, name: &str, uid: Option<&String>) -> Result<JournalWriteResult, ClusterError> {
        match self.fault(&journals_identity()) {
            Some(Fault::Before | Fault::Conflict | Fault::Precondition) => return Err(hiccup()),
            Some(Fault::Invalid | Fault::Full) => return Err(full()),
            Some(Fault::Forbidden) => return Err(forbidden()),
            Some(Fault::After) => {
                self.delete_journal(name, uid)?;
                return Err(hiccup());
            }
            None => {}
        }
        let is_same = self.journals.get(name).is_some_and(|there| there.uid.as_ref() == uid);
        if is_same {
            self.writes.push("end of the journal".to_owned());
            self.journals.remove(name);
        }
        Ok(JournalWriteResult { writes: usize::from(is_same), uid: None })
    }

    fn fault(&mut self, identity: &ObjectIdentity) -> Option<Fault> {
        self.faults.get_mut(identity)?.pop_front()
    }

    fn apply(&mut self, request: &ApplyRequest) -> Result<ApplyResponse, ClusterError> {
        let ApplyRequest { object, manager, force: _, dry_run: _, status: _, transfer: _ } = request;
        let reference = object.reference();
        let identity = reference.identity();
        if let Some(job) = self.downloads.get(&identity) {
            let job = self.live.get(job).map(|job| assess_health(job, None).health.is_good());
            assert_eq!(job, Some(true), "{reference} before its weights are downloaded");
        }
        let precondition =
            |message: &str| ClusterError::Precondition { object: reference.clone(), message: message.to_owned() };
        match self.live.get(&identity) {
            None if object.uid().is_some() => Err(precondition("uid mismatch: there is no such object")),
            Some(live) if object.uid().is_some() && object.uid() != live.uid() => Err(precondition("uid mismatch")),
            Some(live) if live.is_deleting() => Err(precondition("is being deleted")),
            Some(_) if object.resource_version() == Some(NO_OBJECTS_VERSION) => {
                Err(precondition("it is there already"))
            }
            Some(live) if live.spec() == object.spec() => {
                Ok(ApplyResponse { object: live.clone(), outcome: ApplyOutcome::Unchanged })
            }
            live => {
                let (uid, generation) =
                    live.map_or((None, 0), |live| (live.uid().map(str::to_owned), live.generation().unwrap()));
                let outcome = if uid.is_some() { ApplyOutcome::Updated } else { ApplyOutcome::Created };
                let status = live.map(|live| live.status().clone()).unwrap_or_default();
                let count = self.count();
                let mut value = object.value().clone();
                value["metadata"]["uid"] = json!(uid.unwrap_or(format!("uid-{count}")));
                value["metadata"]["generation"] = json!(generation + 1);
                value["metadata"]["resourceVersion"] = json!(count.to_string());
                value["status"] = status;
                let new = Object::from_value(value).unwrap();
                self.writes.push(format!("apply {} as {manager}", reference));
                self.live.insert(identity, new.clone());
                Ok(ApplyResponse { object: new, outcome })
            }
        }
    }

    fn delete(&mut self, object: &ObjectRef, preconditions: &Preconditions) -> Result<DeleteOutcome, ClusterError> {
        let identity = object.identity();
        let Some(live) = self.live.get_mut(&identity) else { return Ok(DeleteOutcome::Absent) };
        let Preconditions { uid, resource_version } = preconditions;
        if uid.as_deref() != live.uid() || resource_version.as_deref() != live.resource_version() {
            return Err(moved(object.clone()));
        }
        if live.is_deleting() {
            return Ok(DeleteOutcome::Pending(live.clone()));
        }
        if let Some(successor) = self.new_graphs.get(&identity) {
            let successor = self.live.get(successor).expect("what takes its place is there");
            assert!(assess_health(successor, None).health.is_good(), "{object} goes before {}", successor.reference());
        }
        let live = self.live.get_mut(&identity).unwrap();
        self.writes.push(format!("delete {object}"));
        if self.finalizers.contains(&object.kind) {
            set(live, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
            return Ok(DeleteOutcome::Pending(live.clone()));
        }
        self.live.remove(&identity);
        Ok(DeleteOutcome::Gone)
    }

    /// How often objects were deleted.
    pub fn deletes(&self) -> usize {
        self.writes.iter().filter(|write| write.starts_with("delete")).count()
    }

    /// What a user would call the state: objects with what they were told, and what the records say of them.
    pub fn state(&self) -> String {
        let live = self.live.values().map(|object| format!("{} {}\n", object.reference(), object.spec()["payload"]));
        let records = self.records.values().map(|record| {
            let entries: Vec<String> = record
                .inventory
                .iter()
                .map(|entry| {
                    let uid = self.live.get(&entry.object.identity()).and_then(Object::uid);
                    let known = if entry.uid.as_deref() == uid { "" } else { " (another uid)" };
                    format!("{}={}{known}", entry.object.name, entry.digest)
                })
                .collect();
            format!("record {}: {}\n", record.model, entries.join(" "))
        });
        live.chain(records).collect()
    }
}

/// What goes with a model's old name waits for the graph of its new one.
fn follow_renames(renames: &BTreeMap<String, String>, changes: &mut [Change]) {
    let graphs: BTreeMap<String, ObjectRef> = changes
        .iter()
        .filter(|one| one.object.kind == kinds::GRAPH.kind && one.inventory.is_some())
        .map(|one| (one.model.clone(), one.object.clone()))
        .collect();
    for change in changes {
        let graph = renames.get(&change.model).and_then(|new| graphs.get(new));
        if let PlanStep::Write(PlannedWrite::Delete(delete)) = &mut change.step {
            delete.after = delete.after.take().or(graph.cloned().map(Box::new));
        }
    }
}

/// The line of an object that is going.
fn await_gone(change: &mut Change, live: &Object) {
    change.action = Action::Deleting;
    change.step = PlanStep::AwaitGone { uid: live.uid().unwrap().to_owned() };
}

/// Turns a replacement around: the new graph comes up under the other name first.
fn new_first(change: &mut Change, other: Option<ObjectRef>) {
    let (PlanStep::Write(PlannedWrite::Replace { delete, apply }), Some(other)) = (&mut change.step, other) else {
        return;
    };
    let mut object = apply.object.parse();
    set(&mut object, "/metadata/name", json!(other.name));
    apply.object = object.into();
    apply.planned_resource_version = None;
    let entry = change.inventory.take().unwrap();
    change.inventory = Some(InventoryEntry { object: other.clone(), uid: None, generation: None, ..entry });
    delete.after = Some(Box::new(other));
}

/// The graphs of a plan that others take the place of.
pub fn new_graphs(plan: &Plan) -> BTreeMap<ObjectIdentity, ObjectIdentity> {
    let deletes = plan.changes.iter().filter_map(|change| match change.step.write()? {
        PlannedWrite::Delete(delete) | PlannedWrite::Replace { delete, apply: _ } => Some(delete),
        PlannedWrite::Apply(_) => None,
    });
    deletes.filter_map(|delete| Some((delete.object.identity(), delete.after.as_ref()?.identity()))).collect()
}

/// The graphs of a plan that wait for downloads.
pub fn downloads(plan: &Plan) -> BTreeMap<ObjectIdentity, ObjectIdentity> {
    let applies = plan.changes.iter().filter_map(|change| match change.step.write()? {
        PlannedWrite::Apply(apply) | PlannedWrite::Replace { delete: _, apply } => Some(apply),
        PlannedWrite::Delete(_) => None,
    });
    applies.filter_map(|apply| Some((apply.object.reference().identity(), apply.after.as_ref()?.identity()))).collect()
}

/// A JSON pointer whose last step may be new.
fn set(object: &mut Object, pointer: &str, new: Value) {
    let mut value = object.value().clone();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    value.pointer_mut(parent).unwrap()[field] = new;
    *object = Object::from_value(value).unwrap();
}

pub fn record_identity(record: &Record) -> ObjectIdentity {
    model_record(&record.model)
}

fn record_reference(record: &Record) -> ObjectRef {
    let ObjectIdentity { namespace, group: _, kind, name } = record_identity(record);
    ObjectRef { api_version: kinds::RECORD.api_version(), kind, namespace, name }
}

/// Where faults of a model's record are put.
pub fn model_record(model: &str) -> ObjectIdentity {
    ObjectIdentity {
        namespace: "prod".to_owned(),
        group: kinds::RECORD.group.to_owned(),
        kind: kinds::RECORD.kind.to_owned(),
        name: model.to_owned(),
    }
}

/// Where faults of journals are put.
pub fn journals_identity() -> ObjectIdentity {
    ObjectIdentity {
        namespace: "prod".to_owned(),
        group: kinds::JOURNAL.group.to_owned(),
        kind: kinds::JOURNAL.kind.to_owned(),
        name: "any".to_owned(),
    }
}

fn hiccup() -> ClusterError {
    ClusterError::transient("the API server does not answer")
}

fn forbidden() -> ClusterError {
    ClusterError::Forbidden { message: "stator may not".to_owned(), fix: "grant it".to_owned() }
}

fn moved(object: ObjectRef) -> ClusterError {
    ClusterError::Precondition { object, message: "it moved".to_owned() }
}

fn full() -> ClusterError {
    ClusterError::Storage { message: "no space left on device".to_owned() }
}

fn line(model: &str, object: &ObjectRef, action: Action) -> Change {
    Change { action, ..Change::new(model, &format!("models/{model}/model.yaml"), object.clone()) }
}
