//! FleetFacts for tests: a fleet that has one of everything.

use crate::facts::{CommitFacts, FleetFacts, HourlyCost, ModelFacts, RevisionFacts, SinceFacts, SourceFacts};
use crate::observation::FleetObservation;
use crate::pod_logs::{LogContainer, LogQuery, PodLogView};
use jiff::Timestamp;
use serde_json::json;
use stator_core::dynamo::health::Health;
use stator_core::object::{FieldPath, Object};
use stator_model::plan::{
    Action, Change, ChangeReason, Disruption, FieldChange, FieldDrift, GpuTotals, LastSync, ModelStatus, ObjectStatus,
    Record, RecordCondition, RecordState, SyncHistoryEntry, SyncState,
};
use stator_model::present::history::ClusterEvent;
use stator_model::present::tree::{ModelTree, ObjectForest, ObjectNode, UnlistedResource};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const COMMIT: &str = "3f2a91c0000000000000000000000000000000ab";

pub(crate) fn now() -> Timestamp {
    "2026-01-04T01:00:00Z".parse().unwrap()
}

/// A healthy model without GPUs.
pub(crate) fn model(name: &str, health: Health, sync: SyncState) -> ModelFacts {
    let status = ModelStatus {
        name: name.into(),
        namespace: "prod".into(),
        source: format!("models/{name}/model.yaml"),
        sync,
        health,
        is_lost: false,
        revision: COMMIT.into(),
        gpus: 0,
        gpu_sku: None,
        kind: "DynamoGraphDeployment".into(),
        created: Some("2026-01-01T00:00:00Z".into()),
        drift: Vec::new(),
        message: "all components are ready".into(),
        last_sync: None,
        objects: Vec::new(),
    };
    let since = Some(SinceFacts { time: "2026-01-04T00:50:00Z".parse().unwrap(), at_least: false });
    ModelFacts {
        status,
        gpus: BTreeMap::new(),
        cost: None,
        record: None,
        live: Vec::new(),
        events: Vec::new(),
        since,
        pending: Arc::default(),
        changed_by: None,
    }
}

/// A model that drifted and rolls.
pub(crate) fn llama() -> ModelFacts {
    let graph = Object::from_value(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "llama", "namespace": "prod", "uid": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{"manager": "stator", "time": "2026-01-01T00:00:00Z"}, {"manager": "kubectl-edit", "time": "2026-01-04T00:20:00Z"}]},
        "spec": {"components": [
            {"name": "frontend"},
            {"name": "decode", "replicas": 3, "podTemplate": {"spec": {"containers": [
                {"name": "main", "env": [{"name": "HF_TOKEN", "value": "canary-secret"}],
                 "resources": {"limits": {"nvidia.com/gpu": "4"}}}]}}},
        ]},
        "status": {"components": {"frontend": {"readyReplicas": 1}, "decode": {"readyReplicas": 2}}},
    }))
    .unwrap();
    let mut facts = model("llama", Health::Progressing, SyncState::OutOfSync);
    facts.status.gpus = 12;
    facts.status.message = "waiting for decode (2 of 3 ready): its pods are not available yet".into();
    facts.status.drift = vec![FieldDrift {
        object: "DynamoGraphDeployment prod/llama".into(),
        path: "spec.components[name=decode].replicas".into(),
        want: json!(2),
        have: json!(3),
        owner: "kubectl-edit".into(),
    }];
    facts.status.last_sync = Some(LastSync {
        time: "2026-01-04T00:50:00Z".into(),
        result: "Succeeded".into(),
        message: "all objects are applied".into(),
    });
    facts.status.objects = vec![ObjectStatus {
        object: graph.reference(),
        action: Action::Update,
        health: Health::Progressing,
        message: facts.status.message.clone(),
    }];
    facts.gpus = BTreeMap::from([("h200_sxm".to_owned(), 12)]);
    facts.cost = Some(HourlyCost { currency: "$".into(), amount: 45.6 });
    facts.record = Some(Record {
        model: "llama".into(),
        namespace: "prod".into(),
        repository: "fleet".into(),
        environment: "prod".into(),
        state: Some(RecordState {
            sync: SyncState::Synced,
            health: Health::Healthy,
            gpus: 8,
            gpu_sku: None,
            conditions: vec![RecordCondition {
                kind: "Ready".into(),
                status: "True".into(),
                reason: "Healthy".into(),
                message: "all components are ready".into(),
                last_transition_time: "2026-01-02T00:00:00Z".into(),
            }],
        }),
        history: vec![SyncHistoryEntry {
            time: "2026-01-04T00:50:00Z".into(),
            revision: COMMIT.into(),
            result: "Succeeded".into(),
            message: "all objects are applied".into(),
            changes: vec!["create DynamoGraphDeployment prod/llama (none)".into()],
        }],
        ..Record::default()
    });
    let path = "spec.components[name=decode].replicas".parse::<FieldPath>().unwrap();
    facts.pending = Arc::new([Change {
        action: Action::Update,
        disruption: Disruption::Scale,
        fields: vec![FieldChange { path, old: json!(3), new: json!(2), owner: "kubectl-edit".into() }],
        gpus: GpuTotals { before: 12, after: 8, peak: 12 },
        reasons: vec![ChangeReason::Drifted],
        ..Change::new("llama", "models/llama/model.yaml", graph.reference())
    }]);
    facts.changed_by = Some(COMMIT.into());
    facts.live = vec![graph.into()];
    facts.events = vec![ClusterEvent {
        time: "2026-01-04T00:58:00Z".into(),
        model: "llama".into(),
        object: "Pod llama-decode-0".into(),
        warning: true,
        reason: "BackOff".into(),
        message: "Back-off pulling image".into(),
        count: 7,
    }];
    facts
}

/// What git tells of [`COMMIT`].
pub(crate) fn commit() -> CommitFacts {
    CommitFacts {
        author: "Grace Hopper".into(),
        title: "Scale llama to two replicas".into(),
        time: "2026-01-04T00:39:00Z".parse().unwrap(),
        page: Some(format!("https://git.example.com/team/models/commit/{COMMIT}")),
    }
}

/// A source with these models.
pub(crate) fn source(models: Vec<ModelFacts>) -> SourceFacts {
    let revision = |at: &str| Some(RevisionFacts { commit: COMMIT.into(), at: at.parse().ok() });
    SourceFacts {
        namespace: "team".into(),
        name: "fleet".into(),
        origin: "https://git.example.com/team/models.git".into(),
        environment: Some("prod".into()),
        phase: "Idle".into(),
        seen: revision("2026-01-04T00:40:00Z"),
        attempted: revision("2026-01-04T00:45:00Z"),
        applied: None,
        problems: vec!["llama: Failed: worker-0 is in CrashLoopBackOff".into()],
        command_options: vec!["-e".into(), "prod".into()],
        is_kubernetes: true,
        commits: Arc::new(BTreeMap::from([(COMMIT.to_owned(), commit())])),
        models: models.into(),
        ..SourceFacts::default()
    }
}

/// A fleet of one of each health, and llama.
pub(crate) fn fleet() -> FleetObservation {
    let models = vec![
        llama(),
        model("asleep", Health::Suspended, SyncState::Synced),
        model("broken", Health::Failed, SyncState::Blocked),
        model("fine", Health::Healthy, SyncState::Synced),
        model("mist", Health::Unknown, SyncState::Unknown),
        model("weak", Health::Degraded, SyncState::Synced),
    ];
    observation(models)
}

pub(crate) fn observation(models: Vec<ModelFacts>) -> FleetObservation {
    FleetObservation::new(1, now(), FleetFacts { sources: vec![Arc::new(source(models))], ..FleetFacts::default() })
}

/// A pod below a model, and a kind that cannot be listed, all of that text.
pub(crate) fn forest(text: &str) -> ObjectForest {
    let pod = ObjectNode {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: text.to_owned(),
        name: text.to_owned(),
        state: text.to_owned(),
        message: text.to_owned(),
        created: None,
        children: Vec::new(),
    };
    let model = ModelTree {
        name: text.to_owned(),
        namespace: text.to_owned(),
        sync: String::new(),
        health: String::new(),
        message: String::new(),
        objects: vec![pod],
    };
    let unlisted = vec![UnlistedResource { resource: text.to_owned(), message: text.to_owned() }];
    ObjectForest { models: vec![model], unlisted }
}

/// What a container wrote: that text.
pub(crate) fn log(text: &str) -> PodLogView {
    let query = LogQuery { pod: Some(text.to_owned()), container: Some(text.to_owned()), ..LogQuery::default() };
    let container = LogContainer { pod: text.to_owned(), name: text.to_owned(), restarts: 1, state: text.to_owned() };
    let lines = vec![text.to_owned(), text.to_owned()];
    PodLogView { query, containers: vec![container], lines, note: Some(text.to_owned()) }
}
