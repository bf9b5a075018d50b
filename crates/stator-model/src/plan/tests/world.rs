//! A cluster in memory, small enough to read: it takes a plan's steps through the same server-side apply as a real one.

use crate::intent::model::ReplacementOrder;
use crate::intent::repository::Guards;
use crate::plan::{
    Action, ApplyStep, Change, DeleteStep, HoldKind, InventoryEntry, Plan, PlanInput, PlanScope, PlannedWrite, Record,
    SEED_MANAGER, build_plan, replicas_only, with_replicas,
};
use crate::render::{ApplyStage, RenderedModel, RenderedObject, RenderedText};
use serde_json::{Value, json};
use stator_core::dynamo::health::assess_health;
use stator_core::dynamo::kinds::FIELD_MANAGER;
use stator_core::dynamo::replica_intent::ReplicaIntents;
use stator_core::fields::{self, ApplyInput};
use stator_core::object::{Object, ObjectIdentity, ObjectRef};
use std::collections::BTreeMap;

pub(super) const NOW: &str = "2026-11-21T00:00:00Z";

/// One repository and one environment's cluster.
#[derive(Clone, Default)]
pub(super) struct PlanScenario {
    pub(super) rendered: Vec<RenderedModel>,
    pub(super) broken: Vec<crate::intent::BrokenIntent>,
    pub(super) unread: Vec<crate::intent::UnreadPlace>,
    pub(super) live: BTreeMap<ObjectIdentity, Object>,
    pub(super) records: BTreeMap<String, Record>,
    pub(super) damaged: Vec<crate::plan::UnreadableObject>,
    pub(super) unlisted: Vec<crate::plan::UnlistedKind>,
    pub(super) allow: Vec<HoldKind>,
    pub(super) scope: PlanScope,
    pub(super) guards: Guards,
    pub(super) keep_leftovers: bool,
    clock: u64,
    pub(super) writes: usize,
}

impl PlanScenario {
    pub(super) fn of(rendered: impl IntoIterator<Item = RenderedModel>) -> Self {
        Self { rendered: rendered.into_iter().collect(), ..Self::default() }
    }

    pub(super) fn synced(rendered: impl IntoIterator<Item = RenderedModel>) -> Self {
        let mut story = Self::of(rendered);
        story.sync();
        story
    }

    pub(super) fn input(&self) -> PlanInput {
        PlanInput {
            repository: "models".into(),
            environment: "prod".into(),
            namespace: "prod".into(),
            revision: "abc1234".into(),
            rendered: texts(&self.rendered),
            broken: self.broken.clone(),
            unread: self.unread.clone(),
            live: self.live.values().map(Into::into).collect(),
            records: self.records.values().cloned().collect(),
            unreadable: self.damaged.clone(),
            unlisted: self.unlisted.clone(),
            guards: self.guards.clone(),
            allow: self.allow.iter().copied().collect(),
            prune: !self.keep_leftovers,
            scope: self.scope.clone(),
            ..PlanInput::default()
        }
    }

    pub(super) fn plan(&self) -> Plan {
        build_plan(&self.input())
    }

    /// Carries a plan out, and checks that nothing is left to do.
    pub(super) fn sync(&mut self) {
        let plan = self.plan();
        self.carry_out(&plan);
        let again = self.plan();
        let left: Vec<String> = again
            .changes
            .iter()
            .filter(|change| change.step.write().is_some())
            .map(|change| format!("{:?} {} {:?}", change.action, change.object, change.fields))
            .collect();
        assert_eq!(left, Vec::<String>::new(), "a second sync would write");
        for change in &again.changes {
            assert!(change.action != Action::Keep || change.fields.is_empty());
        }
    }

    pub(super) fn carry_out(&mut self, plan: &Plan) {
        for change in &plan.changes {
            match change.step.write() {
                None => {}
                Some(PlannedWrite::Apply(step)) => self.apply(step),
                Some(PlannedWrite::Replace { delete, apply }) => {
                    if delete.after.is_none() {
                        self.live.remove(&delete.object.identity());
                    }
                    self.apply(apply);
                }
                Some(PlannedWrite::Delete(step)) => self.delete(&change.model, step),
            }
            let outgoing = match change.step.write() {
                Some(PlannedWrite::Replace { delete, .. }) if delete.after.is_some() => Some(&delete.object),
                Some(_) | None => None,
            };
            if let Some(object) = outgoing {
                self.record(change, &InventoryEntry::pending(object.clone(), true));
            }
            if let Some(entry) = &change.inventory {
                self.record(change, entry);
            }
        }
        for (old, new) in &plan.renames {
            if let Some(record) = self.records.get_mut(new) {
                record.predecessor = Some(old.clone());
            }
        }
        for model in &plan.retired {
            // What waits for something else to be Healthy is there still, and its record with it.
            let mut deletions = plan.changes.iter().filter(|one| one.model == *model && one.step.write().is_some());
            let is_gone = deletions.all(|one| !self.live.contains_key(&one.object.identity()));
            let named = self.records.get(model).map(|record| record.inventory.clone()).unwrap_or_default();
            let leaves = named.iter().any(|entry| {
                let is_left = !entry.prune && entry.object.kind == "DynamoGraphDeployment";
                is_left && self.live.contains_key(&entry.object.identity())
            });
            if is_gone && !leaves {
                self.records.remove(model);
            }
        }
    }

    /// Has the record say of an object what is true of it now.
    fn record(&mut self, change: &Change, entry: &InventoryEntry) {
        let live = self.live.get(&entry.object.identity());
        let mut entry = entry.clone();
        entry.uid = live.and_then(Object::uid).map(str::to_owned);
        if change.step.write().is_some() {
            entry.generation = live.and_then(Object::generation);
        }
        let record = self.records.entry(change.model.clone()).or_insert_with(|| Record {
            model: change.model.clone(),
            namespace: "prod".into(),
            repository: "models".into(),
            environment: "prod".into(),
            source: change.source.clone(),
            revision: "abc1234".into(),
            ..Record::default()
        });
        record.inventory.retain(|other| other.object != entry.object);
        record.inventory.push(entry);
        record.inventory.sort_by(|a, b| a.object.cmp(&b.object));
    }

    /// Deletes an object, unless what takes its place is not Healthy yet.
    fn delete(&mut self, model: &str, step: &DeleteStep) {
        let is_good = |graph: &ObjectRef| {
            self.live.get(&graph.identity()).is_some_and(|live| assess_health(live, None).health.is_good())
        };
        if !step.after.as_deref().is_none_or(is_good) {
            return;
        }
        self.live.remove(&step.object.identity());
        self.writes += 1;
        if let (Some((left, uid)), Some(record)) = (step.leaves.as_deref(), self.records.get_mut(model)) {
            let entry = InventoryEntry { uid: Some(uid.clone()), ..InventoryEntry::pending(left.clone(), false) };
            record.inventory.push(entry);
        }
        if let Some(record) = self.records.get_mut(model).filter(|_| step.after.is_some()) {
            record.inventory.retain(|entry| entry.object != step.object);
        }
    }

    /// The operator has brought a graph up.
    pub(super) fn ready(&mut self, name: &str) {
        self.tamper("DynamoGraphDeployment", name, |value| {
            let ready = json!({"type": "Ready", "status": "True", "reason": "all_resources_are_ready", "message": ""});
            let generation = value["metadata"]["generation"].clone();
            value["status"] = json!({
                "observedGeneration": generation, "state": "successful", "conditions": [ready],
            });
        });
    }

    fn apply(&mut self, step: &ApplyStep) {
        if !step.seed_replicas.is_empty() {
            let held = replicas_only(&step.object.parse(), &step.seed_replicas);
            if step.planned_resource_version.is_none() {
                self.write(&with_replicas(&step.object.parse(), &step.seed_replicas), FIELD_MANAGER, false);
            }
            self.write(&held, SEED_MANAGER, false);
        }
        self.write(&step.object.parse(), FIELD_MANAGER, step.force);
    }

    /// A server-side apply, as an API server does it.
    pub(super) fn write(&mut self, object: &Object, manager: &str, force: bool) {
        let mut config = object.value().clone();
        config["metadata"].as_object_mut().unwrap().remove("uid");
        let identity = object.reference().identity();
        let live = self.live.get(&identity).map(|live| live.value().clone());
        let input = ApplyInput {
            schema: fields::bundled_schema(object.api_version(), object.kind()).unwrap(),
            live: live.as_ref(),
            config: &config,
            manager,
            force,
            status: false,
            now: NOW,
        };
        let result = fields::apply(&input).unwrap();
        if result.changed {
            self.store(live.as_ref(), result.object);
        }
    }

    fn store(&mut self, before: Option<&Value>, mut value: Value) {
        self.clock += 1;
        self.writes += 1;
        let generation = before.map_or(0, |live| live["metadata"]["generation"].as_i64().unwrap());
        let moved = before.is_none_or(|live| live["spec"] != value["spec"]);
        value["metadata"]["generation"] = json!(generation + i64::from(moved));
        value["metadata"]["resourceVersion"] = json!(self.clock.to_string());
        if before.is_none() {
            value["metadata"]["uid"] = json!(format!("uid-{}", self.clock));
        }
        let object = Object::from_value(value).unwrap();
        self.live.insert(object.reference().identity(), object);
    }

    /// A person or controller changes an object with a plain write.
    pub(super) fn edit(&mut self, manager: &str, kind: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let before = self.find(kind, name).value().clone();
        let mut value = before.clone();
        change(&mut value);
        let schema = fields::bundled_schema(before["apiVersion"].as_str().unwrap(), kind).unwrap();
        let value = fields::update(schema, &before, value, manager, false, NOW);
        self.store(Some(&before), value);
    }

    /// Something is changed behind everybody's back, as an editor does with a file.
    pub(super) fn tamper(&mut self, kind: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut value = self.find(kind, name).value().clone();
        change(&mut value);
        let object = Object::from_value(value).unwrap();
        self.live.insert(object.reference().identity(), object);
    }

    pub(super) fn find(&self, kind: &str, name: &str) -> &Object {
        self.live.values().find(|one| one.kind() == kind && one.name() == name).unwrap()
    }

    /// The plan as a person would sum it up.
    pub(super) fn show(&self) -> String {
        show(&self.plan())
    }
}

pub(super) fn show(plan: &Plan) -> String {
    let mut lines = Vec::new();
    for change in &plan.changes {
        let gpus = change.gpus;
        let does = match change.step.write() {
            None => "",
            Some(PlannedWrite::Apply(step)) if step.force => " [force]",
            Some(PlannedWrite::Apply(_)) => " [apply]",
            Some(PlannedWrite::Replace { .. }) => " [replace]",
            Some(PlannedWrite::Delete(_)) => " [delete]",
        };
        lines.push(format!(
            "{:?} {} {} {} {}->{} peak {}{does}",
            change.action, change.model, change.object, change.disruption, gpus.before, gpus.after, gpus.peak
        ));
        for field in &change.fields {
            lines.push(format!("  {}: {} -> {} ({})", field.path, field.old, field.new, field.owner));
        }
        lines.extend(change.reasons.iter().map(|reason| format!("  - {reason}")));
    }
    for hold in &plan.holds {
        lines.push(format!("hold {:?} allowed={}: {}", hold.kind, hold.allowed, hold.message));
    }
    if !plan.retired.is_empty() {
        lines.push(format!("retired: {}", plan.retired.join(", ")));
    }
    for finding in &plan.findings {
        lines.push(format!("{}[{}] {}: {}", finding.severity, finding.rule.id, finding.location.file, finding.message));
    }
    lines.join("\n")
}

pub(super) fn object(kind: &str, api_version: &str, model: &str, name: &str, spec: Value) -> Object {
    Object::from_value(json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": "prod", "labels": {
            "app.kubernetes.io/managed-by": "stator",
            "stator.dev/model": model, "stator.dev/repository": "models", "stator.dev/environment": "prod"}},
        "spec": spec,
    }))
    .unwrap()
}

pub(super) fn desired(object: Object, stage: ApplyStage, prune: bool) -> RenderedObject {
    let Value::Object(mut value) = object.into_value() else { panic!("an object is a map") };
    let replicas = ReplicaIntents::take_from(&mut value);
    RenderedObject {
        object: Object::from_value(Value::Object(value)).unwrap(),
        stage,
        prune,
        replicas,
        replica_bounds: BTreeMap::new(),
        location: stator_core::finding::Location::default(),
    }
}

pub(super) fn worker(name: &str, replicas: u64, gpus: u64, image: &str) -> Value {
    json!({"name": name, "type": name, "replicas": replicas, "podTemplate": {"spec": {
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H200"},
        "containers": [{"name": "main", "image": image, "args": ["--model", "m"],
            "resources": {"limits": {"nvidia.com/gpu": gpus.to_string()}}}]}}})
}

pub(super) fn frontend() -> Value {
    json!({"name": "frontend", "type": "frontend", "replicas": 1,
        "podTemplate": {"spec": {"containers": [{"name": "main", "image": "frontend:1.2.0"}]}}})
}

/// Models as a plan has them.
pub(super) fn texts(models: &[RenderedModel]) -> Vec<RenderedText> {
    models.iter().cloned().map(RenderedModel::into_text).collect()
}

/// A model of one graph.
pub(super) fn graph(name: &str, workers: impl IntoIterator<Item = Value>) -> RenderedModel {
    let components: Vec<Value> = std::iter::once(frontend()).chain(workers).collect();
    let spec = json!({"backendFramework": "vllm", "components": components});
    let graph = object("DynamoGraphDeployment", "nvidia.com/v1beta1", name, name, spec);
    RenderedModel {
        model: name.into(),
        source: format!("models/{name}/model.yaml"),
        objects: vec![desired(graph, ApplyStage::Graph, true)],
        findings: Vec::new(),
        deprecated: Vec::new(),
        take_over: Vec::new(),
        replacement: ReplacementOrder::OldFirst,
        intent: json!({"model": "m", "engine": "vllm"}).into(),
    }
}

pub(super) fn small(name: &str) -> RenderedModel {
    graph(name, [worker("decode", 1, 1, "vllm:1.2.0")])
}

/// The same, replaced new-first.
pub(super) fn new_first(rendered: RenderedModel) -> RenderedModel {
    RenderedModel { replacement: ReplacementOrder::NewFirst, ..rendered }
}

pub(super) fn with_adapter(mut rendered: RenderedModel, name: &str) -> RenderedModel {
    let spec = json!({"modelName": name, "baseModelName": "m", "modelType": "lora", "source": {"uri": "s3://a/b"}});
    let adapter = object("DynamoModel", "nvidia.com/v1alpha1", &rendered.model, name, spec);
    rendered.objects.push(desired(adapter, ApplyStage::Adapter, true));
    rendered
}

pub(super) fn with_claim(mut rendered: RenderedModel, name: &str, size: &str) -> RenderedModel {
    let spec = json!({"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": size}}});
    let claim = object("PersistentVolumeClaim", "v1", &rendered.model, name, spec);
    rendered.objects.insert(0, desired(claim, ApplyStage::Cache, false));
    rendered
}

pub(super) fn reference(kind: &str, name: &str) -> ObjectRef {
    ObjectRef { api_version: "v1".into(), kind: kind.into(), namespace: "prod".into(), name: name.into() }
}
