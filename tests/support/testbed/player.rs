//! Plays Dynamo's operator from recordings of the real one: what it wrote to an object, step by step, is written to an
//! object of the API server. No operator runs there.

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::path::Path;

/// Every version that a watch showed of one object while the operator ran a scenario.
#[derive(Clone, Debug)]
pub struct ObjectRecording {
    /// The file, without its ending.
    pub name: String,
    /// The versions, oldest first.
    pub rows: Vec<RecordedVersion>,
}

/// One version.
#[derive(Clone, Debug)]
pub struct RecordedVersion {
    /// The last version before it was gone.
    pub gone: bool,
    /// The object as it was.
    pub object: Value,
}

impl ObjectRecording {
    /// Every recording, sorted by name.
    pub fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dynamo/recordings");
        let files = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut all: Vec<Self> = files
            .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
            .map(|path| Self::of(path.file_stem().unwrap().to_str().unwrap()))
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// One recording.
    pub fn of(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/dynamo/recordings/{name}.jsonl"));
        let text = fs_err::read_to_string(path).unwrap();
        let rows = text.lines().map(|line| {
            let event: Value = serde_json::from_str(line).unwrap();
            RecordedVersion { gone: event["type"] == "DELETED", object: event["object"].clone() }
        });
        Self { name: name.to_owned(), rows: rows.collect() }
    }

    /// What happened while the spec was at one generation and nobody had deleted it.
    pub fn at(&self, generation: i64) -> Vec<RecordedVersion> {
        let rows = self.rows.iter().filter(|row| row.generation() == generation && !row.deleting());
        rows.cloned().collect()
    }
}

impl RecordedVersion {
    /// The generation of the object in the recording.
    pub fn generation(&self) -> i64 {
        self.object["metadata"]["generation"].as_i64().unwrap()
    }

    /// Whether it was being deleted.
    pub fn deleting(&self) -> bool {
        self.object.pointer("/metadata/deletionTimestamp").is_some()
    }

    /// The name of the object in the recording.
    pub fn object_name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap()
    }

    /// Whether what was asked for last is there and serves: the plain reading of the status, beside which a health
    /// rule can be held.
    pub fn serves(&self) -> bool {
        let status = &self.object["status"];
        let condition = |name: &str| {
            let all = status["conditions"].as_array().into_iter().flatten();
            all.clone().any(|one| one["type"] == name && one["status"] == "True")
        };
        let seen = status["observedGeneration"].as_i64() == Some(self.generation());
        let rolling = ["/rollingUpdate/phase", "/restart/phase"].iter().any(|path| {
            status
                .pointer(path)
                .and_then(Value::as_str)
                .is_some_and(|phase| !matches!(phase, "Completed" | "None" | ""))
        });
        let ready = match self.object["kind"].as_str().unwrap() {
            "DynamoGraphDeployment" => status["state"] == "successful" && condition("Ready") && !rolling,
            "DynamoGraphDeploymentRequest" => status["phase"] == "Ready" || status["phase"] == "Deployed",
            _ => condition("EndpointsReady"),
        };
        seen && ready && !self.deleting()
    }
}

/// The operator and the users of one object.
pub struct RecordingPlayer {
    api: Api<DynamicObject>,
    name: String,
}

/// The field manager of the operator's writes.
const OPERATOR: &str = "manager";

impl RecordingPlayer {
    /// Plays on the object of a name, of the kind that the recording is of.
    pub fn new(client: kube::Client, namespace: &str, recording: &ObjectRecording, name: &str) -> Self {
        let object = &recording.rows[0].object;
        let text = |name: &str| object[name].as_str().unwrap();
        let (group, version) = text("apiVersion").split_once('/').unwrap();
        let kind = GroupVersionKind::gvk(group, version, text("kind"));
        let resource = ApiResource::from_gvk(&kind);
        Self { api: Api::namespaced_with(client, namespace, &resource), name: name.to_owned() }
    }

    /// What the operator had written by then: annotations, finalizers, the whole status. Generations are counted from
    /// where the live object is.
    pub async fn operator(&self, row: &RecordedVersion) {
        if row.gone {
            let free = json!({"metadata": {"finalizers": null}});
            let _ = self.api.patch(&self.name, &PatchParams::apply(OPERATOR), &Patch::Merge(&free)).await.unwrap();
            return;
        }
        let metadata = &row.object["metadata"];
        let mut mine = json!({"metadata": {"annotations": metadata["annotations"]}});
        if !row.deleting() {
            // Finalizers cannot be added to what is going.
            mine["metadata"]["finalizers"] = metadata["finalizers"].clone();
        }
        self.api.patch(&self.name, &PatchParams::apply(OPERATOR), &Patch::Merge(&mine)).await.unwrap();
        let Some(status) = row.object.get("status") else { return };
        if status["state"] == "" {
            // Nothing yet: conversion of the status made this of it, which no API server takes.
            return;
        }
        let mut live = self.api.get(&self.name).await.unwrap();
        let shift = live.metadata.generation.unwrap() - row.generation();
        let mut status = status.clone();
        shift_generations(&mut status, shift);
        live.data["status"] = status;
        let post = PostParams { field_manager: Some(OPERATOR.to_owned()), ..PostParams::default() };
        self.api.replace_status(&self.name, &post, &live).await.unwrap();
    }

    /// What a user had asked for by then: the spec, applied as `manager`.
    pub async fn user(&self, row: &RecordedVersion, manager: &str) {
        let object = &row.object;
        let wanted = json!({
            "apiVersion": object["apiVersion"], "kind": object["kind"],
            "metadata": {"name": self.name}, "spec": object["spec"],
        });
        let apply = PatchParams::apply(manager).force();
        self.api.patch(&self.name, &apply, &Patch::Apply(&wanted)).await.unwrap();
    }

    /// A user deletes it. It stays until the operator lets go.
    pub async fn delete(&self) {
        let _ = self.api.delete(&self.name, &kube::api::DeleteParams::background()).await.unwrap();
    }

    /// The generation of the live object; 0 when there is none.
    pub async fn generation(&self) -> i64 {
        self.api.get_opt(&self.name).await.unwrap().and_then(|live| live.metadata.generation).unwrap_or(0)
    }
}

/// Moves every `observedGeneration`.
fn shift_generations(value: &mut Value, by: i64) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                match value.as_i64() {
                    Some(seen) if name == "observedGeneration" => *value = json!(seen + by),
                    Some(_) | None => shift_generations(value, by),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| shift_generations(item, by)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
