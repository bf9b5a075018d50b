//! JSON Schema of what stator reads, generated from the Rust types.
//!
//! Editors use it (`# yaml-language-server: $schema=…`), and [`super::check`] compiles it: there is one source of truth.

use super::list_edit;
use super::lock::ModelLock;
use super::model::{Metadata, Model, ModelSpec};
use super::repository::{Defaults, Repository};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The documents that stator reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum SchemaKind {
    /// A `model.yaml`. Fields that defaults may give are not required.
    Intent,
    /// A `model.<environment>.yaml`.
    Overlay,
    /// The root `stator.yaml`.
    Repository,
    /// A `stator.yaml` below the root.
    Defaults,
    /// A `model.lock.yaml`, which `stator lock` writes.
    Lock,
}

impl SchemaKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Intent, Self::Overlay, Self::Repository, Self::Defaults, Self::Lock];

    /// The name of its file and of the argument to `stator schema`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The JSON Schema (draft-07) of a document as it stands in its file, before merging.
pub fn document_schema(kind: SchemaKind) -> Value {
    let mut schema = match kind {
        SchemaKind::Intent | SchemaKind::Overlay => root_schema::<Model>(),
        SchemaKind::Repository => root_schema::<Repository>(),
        SchemaKind::Defaults => root_schema::<Defaults>(),
        SchemaKind::Lock => return lock_schema(),
    };
    resolve_defaults_type(&mut schema);
    forbid_null(&mut schema);
    remove_required(&mut schema, "ModelSpec");
    match kind {
        SchemaKind::Intent => set_required(&mut schema, &["apiVersion", "kind", "metadata"]),
        SchemaKind::Overlay => {
            remove_required(&mut schema, "Metadata");
            set_required(&mut schema, &["apiVersion", "kind"]);
            set_description(&mut schema, "Overlay", "Changes for one environment to the intent beside it.");
        }
        SchemaKind::Repository | SchemaKind::Defaults | SchemaKind::Lock => {}
    }
    schema
}

/// Adds the address that a schema has for good, as its `$id`: documents of another API version get other addresses.
pub fn with_address(name: &str, mut schema: Value) -> Value {
    if let Some(fields) = schema.as_object_mut() {
        fields.insert("$id".to_owned(), format!("https://stator.dev/schemas/v1alpha1/{name}.json").into());
    }
    schema
}

/// The JSON Schema of a document for an editor: as [`document_schema`], with its address, and where a layer may edit a list,
/// an edit is one too.
pub fn editor_schema(kind: SchemaKind) -> Value {
    let mut schema = with_address(kind.name(), document_schema(kind));
    let is_layer = match kind {
        SchemaKind::Intent | SchemaKind::Overlay | SchemaKind::Repository | SchemaKind::Defaults => true,
        SchemaKind::Lock => false,
    };
    if is_layer {
        for name in merged_definitions(&schema, "ModelSpec") {
            let fields = schema.pointer_mut(&format!("/definitions/{name}/properties")).and_then(Value::as_object_mut);
            for (_, field) in fields.into_iter().flatten().filter(|(name, _)| *name != "unset") {
                allow_edit(field);
            }
        }
        if let Some(definitions) = schema.get_mut("definitions").and_then(Value::as_object_mut) {
            let list = json!({"type": "array"});
            let fields: Map<String, Value> =
                list_edit::FIELDS.iter().map(|field| ((*field).to_owned(), list.clone())).collect();
            definitions.insert(
                "ListEdit".to_owned(),
                json!({
                    "description": "Instead of a list: items to add to the list of the weaker layers, and items to remove from it.",
                    "type": "object", "additionalProperties": false, "minProperties": 1, "properties": fields,
                }),
            );
        }
    }
    schema
}

/// Lets an edit stand where a list does.
fn allow_edit(field: &mut Value) {
    if field.get("type").and_then(Value::as_str) != Some("array") {
        return;
    }
    let mut list = field.take();
    let description = list.as_object_mut().and_then(|list| list.remove("description"));
    *field = json!({"anyOf": [list, {"$ref": "#/definitions/ListEdit"}]});
    if let (Some(field), Some(description)) = (field.as_object_mut(), description) {
        field.insert("description".to_owned(), description);
    }
}

/// The JSON Schema of a lock: of nothing else, since it refers to no other document.
fn lock_schema() -> Value {
    strict_schema::<ModelLock>()
}

/// The JSON Schema of another document of stator's, as strict as those of intents: for [`super::check::check_against`].
pub fn strict_schema<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft07().for_deserialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    forbid_null(&mut schema);
    schema
}

/// The JSON Schema of a merged model, where every required field must be there.
pub(super) fn merged_model_schema() -> Value {
    let mut schema = root_schema::<Model>();
    forbid_null(&mut schema);
    schema
}

fn root_schema<T: JsonSchema>() -> Value {
    let mut generator = SchemaSettings::draft07().for_deserialize().into_generator();
    // Settings refer to these through fields that are maps in Rust.
    add_definition::<ModelSpec>(&mut generator);
    add_definition::<Metadata>(&mut generator);
    generator.into_root_schema_for::<T>().to_value()
}

fn add_definition<T: JsonSchema>(generator: &mut SchemaGenerator) {
    let _reference = generator.subschema_for::<T>();
}

fn set_description(schema: &mut Value, title: &str, description: &str) {
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".into(), title.into());
        root.insert("description".into(), description.into());
    }
}

fn set_required(schema: &mut Value, fields: &[&str]) {
    if let Some(root) = schema.as_object_mut() {
        root.insert("required".into(), json!(fields));
    }
}

/// An optional field is left out, never `null`.
fn forbid_null(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.values_mut().for_each(forbid_null);
            if let Some(Value::Array(types)) = map.get_mut("type") {
                types.retain(|word| word != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    map.insert("type".into(), only);
                }
            }
            if let Some(Value::Array(options)) = map.get_mut("anyOf") {
                options.retain(|option| option.get("type").is_none_or(|word| word != "null"));
                if options.len() == 1
                    && let Some(options) = map.remove("anyOf")
                {
                    map.insert("allOf".into(), options);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(forbid_null),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Gives the fields marked `x-stator-defaults` the type that they have: a partial `spec`.
fn resolve_defaults_type(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.remove("x-stator-defaults").is_some() {
                let description = map.remove("description");
                map.clear();
                map.insert("allOf".into(), json!([{"$ref": "#/definitions/ModelSpec"}]));
                map.extend(description.map(|text| ("description".to_owned(), text)));
            }
            map.values_mut().for_each(resolve_defaults_type);
        }
        Value::Array(items) => items.iter_mut().for_each(resolve_defaults_type),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Removes `required` from a definition and from all that merge by key below it.
fn remove_required(schema: &mut Value, definition: &str) {
    for name in merged_definitions(schema, definition) {
        if let Some(definition) = schema.pointer_mut(&format!("/definitions/{name}")).and_then(Value::as_object_mut) {
            definition.remove("required");
        }
    }
}

/// A definition and all that merge by key below it.
///
/// Items of lists are replaced whole, and so are the values of environment variables: those are not among them.
fn merged_definitions(schema: &Value, definition: &str) -> BTreeSet<String> {
    let mut open = vec![definition.to_owned()];
    let mut done = BTreeSet::new();
    while let Some(name) = open.pop() {
        let Some(definition) = schema.pointer(&format!("/definitions/{name}")).and_then(Value::as_object) else {
            continue;
        };
        if !done.insert(name) {
            continue;
        }
        for (field, value) in definition.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if field != "env" {
                collect_merged_definitions(value, &mut open);
            }
        }
        for word in ["anyOf", "oneOf"] {
            definition
                .get(word)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .for_each(|v| collect_merged_definitions(v, &mut open));
        }
    }
    done
}

/// The definitions that a field's value merges into.
fn collect_merged_definitions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (word, value) in map {
                match (word.as_str(), value) {
                    ("$ref", Value::String(target)) => {
                        found.extend(target.strip_prefix("#/definitions/").map(str::to_owned));
                    }
                    ("anyOf" | "oneOf" | "allOf" | "additionalProperties" | "patternProperties", value) => {
                        collect_merged_definitions(value, found);
                    }
                    (_, value) if value.is_object() && word.starts_with('^') => {
                        collect_merged_definitions(value, found)
                    }
                    _ => {}
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_merged_definitions(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `STATOR_BLESS=1 cargo test` writes them anew.
    #[test]
    fn a_layer_may_edit_a_list_of_a_model_and_nothing_else() {
        let schema = editor_schema(SchemaKind::Repository);
        let editable = |pointer: &str| schema.pointer(pointer).unwrap().get("anyOf").is_some();
        assert!(editable("/definitions/Worker/properties/args"));
        assert!(editable("/definitions/ModelSpec/properties/adapters"));
        assert!(!editable("/definitions/ModelSpec/properties/unset"));
        assert!(!editable("/definitions/Environment/properties/include"));
        assert_eq!(schema["definitions"]["Worker"]["properties"]["args"]["anyOf"][1]["$ref"], "#/definitions/ListEdit");
    }

    #[test]
    fn defaults_may_leave_out_what_a_model_must_have() {
        let schema = document_schema(SchemaKind::Repository);
        assert_eq!(schema.pointer("/definitions/ModelSpec/required"), None);
        assert_eq!(schema.pointer("/definitions/Cache/required"), None);
        assert_eq!(schema.pointer("/definitions/Adapter/required"), Some(&json!(["name", "source"])));
        assert_eq!(schema.pointer("/definitions/EnvFromSecret/required"), Some(&json!(["secret", "key"])));
        assert_eq!(schema.pointer("/definitions/Environment/required"), Some(&json!(["namespace"])));
    }
}
