//! Other objects of the namespace that belong to a model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

/// An object of the namespace that belongs to the model, as it is: a ConfigMap, a PersistentVolumeClaim, a
/// ResourceClaimTemplate or a ComputeDomain, which come before the graph, or a Service or an HTTPRoute, which follow it. With
/// `from`, a YAML file of such objects.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// Path of a YAML file of objects, relative to the folder of `model.yaml`, instead of the object itself. It may
    /// hold several documents. At most 1 MiB.
    #[schemars(length(min = 1, max = 1024))]
    pub from: Option<String>,
    /// The group and version of the object: `v1`.
    #[schemars(length(min = 1))]
    pub api_version: Option<String>,
    /// The kind of the object.
    #[schemars(length(min = 1))]
    pub kind: Option<String>,
    /// Its name, labels and annotations. The namespace is the environment's.
    pub metadata: Option<Map<String, Value>>,
    /// Its spec; a ConfigMap has none.
    pub spec: Option<Map<String, Value>>,
    /// The texts of a ConfigMap.
    pub data: Option<Map<String, Value>>,
    /// The bytes of a ConfigMap, in base64.
    pub binary_data: Option<Map<String, Value>>,
    /// Whether a ConfigMap is immutable. Defaults to false.
    pub immutable: Option<bool>,
}

impl Manifest {
    /// The object, without the path of a file.
    pub fn to_object(&self) -> Map<String, Value> {
        let object = Self { from: None, ..self.clone() };
        // It was read from YAML, so its keys are texts, and writing it cannot fail.
        match serde_json::to_value(object) {
            Ok(Value::Object(fields)) => fields,
            Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) | Err(_) => {
                Map::new()
            }
        }
    }
}
