//! Patches as kustomize applies them, strategic merges and lists of operations (RFC 6902), and the objects that they are for.

use crate::render::strategic_merge::list_keys;
use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value};

/// What a map says of itself in a strategic merge.
const DIRECTIVE: &str = "$patch";

/// The schemas that say how lists of custom kinds are merged.
#[derive(Debug, Default)]
pub struct MergeSchemas(Vec<Value>);

impl MergeSchemas {
    /// Adds documents of OpenAPI.
    pub fn add(&mut self, documents: Vec<Value>) {
        self.0.extend(documents);
    }

    fn schema_of(&self, object: &Value) -> Option<&Value> {
        let api_version = object.get("apiVersion")?.as_str()?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let is_it = |schema: &&Value| {
            let kinds = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
            kinds.into_iter().flatten().any(|one| {
                one.get("group").and_then(Value::as_str).unwrap_or_default() == group
                    && one.get("version").is_some_and(|own| own == version)
                    && one.get("kind") == object.get("kind")
            })
        };
        self.0.iter().filter_map(|document| document.get("definitions")?.as_object()).flat_map(Map::values).find(is_it)
    }
}

/// How a list is merged.
#[derive(Clone, Copy)]
enum ListRule<'a> {
    /// As its schema says.
    Schema(Option<&'a Value>),
    /// By the names of the fields, as Kubernetes' own kinds have them.
    OwnKind,
}

impl<'a> ListRule<'a> {
    fn below(self, field: &str) -> Self {
        match self {
            Self::Schema(schema) => Self::Schema(schema.and_then(|schema| {
                let of_field = schema.get("properties").and_then(|properties| properties.get(field));
                of_field.or_else(|| schema.get("additionalProperties").filter(|one| one.is_object()))
            })),
            Self::OwnKind => Self::OwnKind,
        }
    }

    fn items(self) -> Self {
        match self {
            Self::Schema(schema) => Self::Schema(schema.and_then(|schema| schema.get("items"))),
            Self::OwnKind => Self::OwnKind,
        }
    }

    /// The fields that tell items apart; none where the list is replaced.
    fn keys(self, field: &str) -> Vec<&'a str> {
        match self {
            Self::Schema(schema) => {
                let key = schema.and_then(|schema| schema.get("x-kubernetes-patch-merge-key")?.as_str());
                key.into_iter().collect()
            }
            Self::OwnKind => list_keys(field).unwrap_or_default().iter().map(|(key, _)| *key).take(1).collect(),
        }
    }
}

/// Changes an object as a patch says; false when the patch removes it. Its name and kind stay.
///
/// # Errors
/// When the patch cannot be applied.
pub fn apply(object: &mut Value, patch: &Value, schemas: &MergeSchemas) -> Result<bool, String> {
    let identity = |object: &Value| {
        let name = object.pointer("/metadata/name").cloned();
        (object.get("apiVersion").cloned(), object.get("kind").cloned(), name)
    };
    let before = identity(object);
    match patch {
        Value::Array(_) => {
            let operations: json_patch::Patch =
                serde_json::from_value(patch.clone()).map_err(|error| format!("is no list of operations: {error}"))?;
            json_patch::patch(object, &operations).map_err(|error| format!("cannot be applied: {error}"))?;
        }
        Value::Object(fields) => {
            if fields.get(DIRECTIVE).is_some_and(|directive| directive == "delete") {
                return Ok(false);
            }
            let api_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
            let is_own_kind = api_version.split_once('/').is_none_or(|(group, _)| !group.contains('.'));
            let rule = if is_own_kind { ListRule::OwnKind } else { ListRule::Schema(schemas.schema_of(object)) };
            let mut changed = object.clone();
            merge(&mut changed, fields, rule)?;
            *object = changed;
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err("is neither a map nor a list of operations".to_owned());
        }
    }
    if let (Some(api_version), Some(kind), Some(name)) = before {
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".to_owned(), api_version);
            fields.insert("kind".to_owned(), kind);
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("name".to_owned(), name);
        }
    }
    Ok(true)
}

fn merge(base: &mut Value, patch: &Map<String, Value>, rule: ListRule<'_>) -> Result<(), String> {
    let is_replaced = match patch.get(DIRECTIVE).and_then(Value::as_str) {
        Some("replace") => true,
        None | Some("merge") => false,
        Some(other) => return Err(format!("has the directive `$patch: {other}`, which stator does not apply here")),
    };
    if is_replaced || !base.is_object() {
        *base = Value::Object(Map::new());
    }
    let Some(fields) = base.as_object_mut() else { return Ok(()) };
    for (field, value) in patch.iter().filter(|(field, _)| *field != DIRECTIVE) {
        if field.starts_with('$') {
            return Err(format!("has the directive `{field}`, which stator does not apply"));
        }
        let below = rule.below(field);
        match value {
            Value::Null => {
                fields.remove(field);
            }
            Value::Object(map) if map.get(DIRECTIVE).is_some_and(|directive| directive == "delete") => {
                fields.remove(field);
            }
            Value::Object(map) => {
                merge(fields.entry(field.clone()).or_insert(Value::Null), map, below)?;
            }
            Value::Array(items) => {
                let base = fields.entry(field.clone()).or_insert_with(|| Value::Array(Vec::new()));
                merge_list(base, items, field, below)?;
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                fields.insert(field.clone(), value.clone());
            }
        }
    }
    Ok(())
}

/// Merges a list by the key of its items: those of the patch come first, as kustomize has them.
fn merge_list(base: &mut Value, items: &[Value], field: &str, rule: ListRule<'_>) -> Result<(), String> {
    let keys = rule.keys(field);
    let key_of = |item: &Value| -> Option<Vec<Value>> { keys.iter().map(|key| item.get(*key).cloned()).collect() };
    if keys.is_empty() {
        *base = Value::Array(items.to_vec());
        return Ok(());
    }
    let mut old: Vec<Value> = base.as_array().cloned().unwrap_or_default();
    let mut merged = Vec::new();
    for item in items {
        let (Value::Object(map), Some(key)) = (item, key_of(item)) else {
            return Err(format!("has an item of `{field}` without `{}`", keys.join("`, `")));
        };
        let known = old.iter().position(|own| key_of(own).as_ref() == Some(&key));
        let mut own = known.map_or(Value::Null, |at| old.remove(at));
        if map.get(DIRECTIVE).is_some_and(|directive| directive == "delete") {
            continue;
        }
        merge(&mut own, map, rule.items())?;
        merged.push(own);
    }
    merged.append(&mut old);
    *base = Value::Array(merged);
    Ok(())
}

/// What a patch is for. Each field is a regular expression of a whole value.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatchTarget {
    #[serde(default)]
    group: Option<String>,
    #[serde(default)]
    version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    namespace: Option<String>,
}

/// The group, version, kind, name and namespace of an object, as far as it says them.
fn identity(object: &Value) -> [String; 5] {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let api_version = text("/apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    [group.to_owned(), version.to_owned(), text("/kind"), text("/metadata/name"), text("/metadata/namespace")]
}

/// Tells the objects that a patch is for: those of its target, or the one that it names itself.
///
/// # Errors
/// When a target is no regular expression.
pub fn matcher(patch: &Value, target: Option<&PatchTarget>) -> Result<impl Fn(&Value) -> bool + use<>, String> {
    let wanted: [Option<String>; 5] = match target {
        Some(PatchTarget { group, version, kind, name, namespace }) => {
            [group, version, kind, name, namespace].map(Clone::clone)
        }
        None => {
            let [group, version, kind, name, namespace] = identity(patch);
            let is_named = !namespace.is_empty();
            [Some(group), Some(version), Some(kind), Some(name), Some(namespace).filter(|_| is_named)]
                .map(|text| text.map(|text| regex::escape(&text)))
        }
    };
    let mut patterns = Vec::new();
    for text in wanted {
        let pattern = text.map(|text| Regex::new(&format!("^(?:{text})$"))).transpose();
        patterns.push(pattern.map_err(|error| format!("has a target that is no regular expression: {error}"))?);
    }
    Ok(move |object: &Value| {
        let own = identity(object);
        own.iter().zip(&patterns).all(|(own, pattern)| pattern.as_ref().is_none_or(|pattern| pattern.is_match(own)))
    })
}
