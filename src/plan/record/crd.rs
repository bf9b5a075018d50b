//! The custom resource definition of the record, generated from its Rust types.

use super::Outcome;
use crate::dynamo::kinds::RECORD;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Where a model comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordSpec {
    /// The repository's name.
    pub(super) repository: String,
    /// The environment that the model was rendered for.
    pub(super) environment: String,
    /// Path of its `model.yaml` from the repository's root.
    pub(super) source: String,
    /// The folder that it was last synced from, for a folder that no `stator.yaml` gives a name.
    #[serde(default)]
    pub(super) folder: Option<String>,
}

/// What stator did for the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RecordStatus {
    /// The commit of the last sync that changed anything; empty outside git.
    pub(super) revision: String,
    /// What was applied, or is about to be. Written before the first write.
    pub(super) inventory: Vec<Item>,
    /// The last ten outcomes, newest first.
    pub(super) history: Vec<Outcome>,
}

/// One object that stator applied, or is about to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Item {
    /// `group/version`, or `v1` for the core group.
    pub(super) api_version: String,
    /// The kind.
    pub(super) kind: String,
    /// The namespace.
    pub(super) namespace: String,
    /// The name.
    pub(super) name: String,
    /// Its uid; absent until the first apply came back.
    #[serde(default)]
    pub(super) uid: Option<String>,
    /// The generation that the last apply gave.
    #[serde(default)]
    pub(super) generation: Option<i64>,
    /// SHA-256 of what was applied, in hex.
    pub(super) digest: String,
    /// False for objects that are kept when the model goes.
    pub(super) prune: bool,
}

/// The definition of `models.stator.dev`, as `crds/stator.dev_models.yaml` holds it.
pub fn custom_resource_definition() -> Value {
    let column = |name: &str, path: &str| json!({"name": name, "type": "string", "jsonPath": path});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", RECORD.plural, RECORD.group)},
        "spec": {
            "group": RECORD.group,
            "names": {
                "kind": RECORD.kind,
                "listKind": format!("{}List", RECORD.kind),
                "plural": RECORD.plural,
                "singular": RECORD.short,
                "categories": ["stator"],
            },
            "scope": "Namespaced",
            "versions": [{
                "name": RECORD.version,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    column("Environment", ".spec.environment"),
                    column("Result", ".status.history[0].result"),
                    column("Revision", ".status.revision"),
                    column("Message", ".status.history[0].message"),
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "The record of one synced model: where it comes from, what stator applied for it, \
                                    and how the last syncs ended. Written by stator.",
                    "required": ["spec"],
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        "spec": structural::<RecordSpec>(),
                        "status": structural::<RecordStatus>(),
                    },
                }},
            }],
        },
    })
}

/// A type's schema in the form that Kubernetes takes: everything inline, one type a field, no title or version.
fn structural<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::openapi3();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut value = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut value);
    value
}

fn simplify(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.contains_key("type") || map.contains_key("properties") {
                drop_prose(map);
            }
            map.values_mut().for_each(simplify);
        }
        Value::Array(list) => list.iter_mut().for_each(simplify),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn drop_prose(map: &mut Map<String, Value>) {
    for name in ["title", "$schema", "default", "nullable", "definitions", "components"] {
        map.remove(name);
    }
    // An optional field is one that may be absent; `null` is never written.
    let single = map
        .get("type")
        .and_then(Value::as_array)
        .and_then(|types| types.iter().find(|one| one.as_str() != Some("null")).cloned());
    if let Some(single) = single {
        map.insert("type".to_owned(), single);
    }
}
