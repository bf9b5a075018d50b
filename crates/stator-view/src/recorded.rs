//! Models of a cluster as their records have them, where no repository is read.

use crate::facts::{ModelFacts, since};
use jiff::Timestamp;
use stator_core::dynamo::gpus;
use stator_core::dynamo::health::{Health, HealthContext, assess_health_in_context};
use stator_core::dynamo::kinds::{GRAPH, REQUEST};
use stator_core::object::{Object, ObjectIdentity, ObjectText};
use stator_model::plan::{Action, InventoryEntry, LastSync, ModelStatus, ObjectStatus, Record, SyncState};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The models of records, sorted by namespace and name. `live` are objects of the cluster, `earlier` what was known before.
pub fn recorded_models(
    records: Vec<Record>,
    live: &[ObjectText],
    earlier: &[ModelFacts],
    now: Timestamp,
) -> Vec<ModelFacts> {
    let live: HashMap<ObjectIdentity, &ObjectText> =
        live.iter().map(|text| (text.reference().identity(), text)).collect();
    let earlier: HashMap<(&str, &str), &ModelFacts> =
        earlier.iter().map(|one| ((one.status.namespace.as_str(), one.status.name.as_str()), one)).collect();
    let mut models: Vec<ModelFacts> = records
        .into_iter()
        .map(|record| {
            let own: Vec<ObjectText> = record
                .inventory
                .iter()
                .filter_map(|entry| live.get(&entry.object.identity()).map(|&text| text.clone()))
                .collect();
            let known = earlier.get(&(record.namespace.as_str(), record.model.as_str())).copied();
            recorded_model(record, own, known, now)
        })
        .collect();
    models.sort_by(|a, b| {
        let key = |one: &ModelFacts| (one.status.namespace.clone(), one.status.name.clone());
        key(a).cmp(&key(b))
    });
    models
}

fn recorded_model(record: Record, live: Vec<ObjectText>, earlier: Option<&ModelFacts>, now: Timestamp) -> ModelFacts {
    let parsed: Vec<Object> = live.iter().map(ObjectText::parse).collect();
    let seen = |entry: &InventoryEntry| {
        let identity = entry.object.identity();
        parsed.iter().find(|object| object.reference().identity() == identity)
    };
    // Of other kinds nothing is read: what their last sync found holds.
    let is_judged = |entry: &&InventoryEntry| [GRAPH.kind, REQUEST.kind].contains(&entry.object.kind.as_str());
    let objects: Vec<ObjectStatus> =
        record.inventory.iter().filter(is_judged).map(|entry| object_status(entry, seen(entry), now)).collect();
    let state = record.state.as_ref();
    let worst = objects.iter().max_by_key(|one| one.health);
    let mut gpus = BTreeMap::<String, u64>::new();
    for component in parsed.iter().flat_map(|object| gpus::gpu_use(object).components) {
        if component.total() > 0 {
            let sum = gpus.entry(component.sku().to_owned()).or_default();
            *sum = sum.saturating_add(component.total());
        }
    }
    let main = objects.first();
    let created = main.and_then(|main| {
        let live = parsed.iter().find(|object| object.reference() == main.object)?;
        live.str_at("/metadata/creationTimestamp").map(str::to_owned)
    });
    let ready = state.and_then(|state| state.conditions.iter().find(|one| one.kind == "Ready"));
    let status = ModelStatus {
        name: record.model.clone(),
        namespace: record.namespace.clone(),
        source: record.source.clone(),
        sync: state.map_or(SyncState::Unknown, |state| state.sync),
        health: worst.map(|one| one.health).or(state.map(|state| state.health)).unwrap_or(Health::Unknown),
        is_lost: false,
        revision: record.revision.clone(),
        gpus: gpus.values().fold(0, |sum, one| sum.saturating_add(*one)),
        gpu_sku: gpus.keys().next().cloned(),
        kind: main.map(|main| main.object.kind.clone()).unwrap_or_default(),
        created,
        drift: Vec::new(),
        message: worst
            .map(|one| one.message.clone())
            .or_else(|| ready.map(|ready| ready.message.clone()))
            .unwrap_or_default(),
        last_sync: record.history.first().map(|entry| LastSync {
            time: entry.time.clone(),
            result: entry.result.clone(),
            message: entry.message.clone(),
        }),
        objects,
    };
    ModelFacts {
        since: Some(since(&status, Some(&record), earlier, now)),
        status,
        gpus,
        cost: None,
        record: Some(record),
        live,
        events: Vec::new(),
        pending: Arc::default(),
        changed_by: None,
    }
}

fn object_status(entry: &InventoryEntry, live: Option<&Object>, now: Timestamp) -> ObjectStatus {
    let (health, message) = match live {
        Some(live) => {
            let applied = entry.generation.filter(|_| entry.uid.as_deref() == live.uid());
            let known = HealthContext { applied_generation: applied, now: Some(now), ..HealthContext::default() };
            let verdict = assess_health_in_context(live, known);
            (verdict.health, verdict.message)
        }
        None => (Health::Unknown, "it is not there".to_owned()),
    };
    ObjectStatus { object: entry.object.clone(), action: Action::Keep, health, message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn a_model_is_as_well_as_its_live_graph_and_as_synced_as_its_record() {
        let llama = samples::llama();
        let mut record = llama.record.clone().unwrap();
        record.inventory = vec![InventoryEntry {
            object: llama.live[0].reference().clone(),
            uid: Some("7".to_owned()),
            generation: None,
            digest: String::new(),
            prune: true,
        }];
        let mut other = record.clone();
        other.namespace = "blue".to_owned();
        let models = recorded_models(vec![record.clone(), other], &llama.live, &[], samples::now());
        let told: Vec<String> = models
            .iter()
            .map(|one| {
                let ModelStatus { namespace, name, sync, health, message, .. } = &one.status;
                format!("{namespace}/{name} {} {}: {message} {:?}", sync.as_str(), health.as_str(), one.gpus)
            })
            .collect();
        insta::assert_snapshot!(told.join("\n"), @r#"
        blue/llama Synced Unknown: the operator has not observed it yet {"unknown": 12}
        prod/llama Synced Unknown: the operator has not observed it yet {"unknown": 12}
        "#);
        let again = recorded_models(vec![record], &llama.live, &models, samples::now());
        assert_eq!(again[0].since, models[1].since);
    }
}
