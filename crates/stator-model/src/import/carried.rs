//! Objects that a model has as they are (`spec.manifests`): how each is written there, and which graphs use it.

use super::documents::{self, ManifestDocument};
use super::{classify, rules};
use crate::intent::model::{Manifest, Model};
use crate::intent::{FieldOrigins, read_manifests};
use serde_json::{Map, Value};
use stator_core::dynamo::{equivalence, kinds};
use stator_core::finding::Finding;
use std::collections::BTreeSet;

/// What of an object's metadata a person writes. The namespace is the environment's.
const WRITTEN_METADATA: [&str; 3] = ["name", "labels", "annotations"];

/// An object as `spec.manifests` has it, without what the cluster and its tools write. Else why a model cannot have it.
pub fn manifest_of(model: &Model, document: &ManifestDocument) -> Result<Manifest, Box<Finding>> {
    let refuse = |why: &str, help: &str| {
        let (kind, name) = (classify::kind_of(&document.value), classify::name_of(&document.value));
        let message = format!("document {}: {kind} `{name}` is not imported: {why}", document.number);
        Box::new(Finding::error(rules::NOT_CARRIED, document.location(), message, help))
    };
    let mut value = documents::without_nulls(document.value.as_object().unwrap_or(&Map::new()));
    value.remove("status");
    if let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut).filter(|_| is_job(document)) {
        // A Job that removes itself would run again at the next sync.
        spec.remove("ttlSecondsAfterFinished");
    }
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| WRITTEN_METADATA.contains(&field.as_str()));
        for field in ["labels", "annotations"] {
            if let Some(map) = metadata.get_mut(field).and_then(Value::as_object_mut) {
                map.retain(|key, _| !equivalence::is_reserved_key(key));
                if map.is_empty() {
                    metadata.remove(field);
                }
            }
        }
    }
    let manifest: Manifest = serde_json::from_value(Value::Object(value))
        .map_err(|error| refuse(&error.to_string(), "keep it where it is applied today"))?;
    let mut findings = Vec::new();
    let mut alone = model.clone();
    alone.spec.manifests = vec![manifest.clone()];
    read_manifests(&alone, &FieldOrigins::default(), "", &[], &mut findings);
    match findings.iter().find(|finding| finding.is_error()) {
        Some(fault) => Err(refuse(&fault.message, &fault.help)),
        None => Ok(manifest),
    }
}

/// The claims that a Job mounts.
pub fn claims_of(job: &Value) -> impl Iterator<Item = &str> {
    let volumes = job.pointer("/spec/template/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    volumes.filter_map(|volume| volume.pointer("/persistentVolumeClaim/claimName")?.as_str())
}

fn is_job(document: &ManifestDocument) -> bool {
    classify::kind_of(&document.value) == kinds::JOB.kind
}

/// The texts of an object's spec.
#[derive(Default)]
pub struct NamedTexts<'a> {
    /// All of them.
    pub all: BTreeSet<&'a str>,
    /// Those in fields called `name`, or `…Name`.
    pub names: BTreeSet<&'a str>,
    /// Those in fields called `…Name`: what a pod refers to, and not what it calls its own.
    pub references: BTreeSet<&'a str>,
}

impl<'a> NamedTexts<'a> {
    pub fn of(object: &'a Value) -> Self {
        let mut texts = Self::default();
        texts.collect(&object["spec"], "");
        texts
    }

    fn collect(&mut self, value: &'a Value, field: &str) {
        match value {
            Value::String(text) => {
                self.all.insert(text);
                if field.ends_with("Name") {
                    self.references.insert(text);
                }
                if field.ends_with("Name") || field == "name" {
                    self.names.insert(text);
                }
            }
            Value::Object(map) => map.iter().for_each(|(field, below)| self.collect(below, field)),
            Value::Array(items) => items.iter().for_each(|below| self.collect(below, field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}
