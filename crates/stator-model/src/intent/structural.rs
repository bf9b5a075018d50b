//! A type's schema in the form that a custom resource definition takes.
//!
//! Kubernetes calls it structural: one type for every field, everything in place, and nothing that depends on how fields
//! go together. What a schema of that form cannot say, rules in CEL say beside it.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use stator_core::dynamo::kinds::ObjectKind;

/// What may stay of a schema as it is.
const KEPT_KEYWORDS: [&str; 11] = [
    "type",
    "description",
    "required",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
];
/// The formats that an API server checks.
const CHECKED_FORMATS: [&str; 3] = ["int32", "int64", "date-time"];

/// The structural schema of a type. An optional field is one that may be absent, and is never `null`.
pub fn structural_schema<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft07();
    settings.inline_subschemas = true;
    let schema = settings.for_deserialize().into_generator().into_root_schema_for::<T>().to_value();
    match schema {
        Value::Object(schema) => Value::Object(append_choice_descriptions(structural_node(schema))),
        // A type that anything fits.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
        }
    }
}

/// A kind of stator's own, as [`resource_definition`] writes it.
#[derive(Clone, Debug)]
pub struct ResourceKind {
    /// The kind, with its group, version and plural.
    pub kind: ObjectKind,
    /// The singular, in lower case.
    pub singular: String,
    /// Its abbreviation.
    pub short_name: Option<&'static str>,
    /// `Namespaced` or `Cluster`.
    pub scope: &'static str,
    /// What an object of the kind is.
    pub description: &'static str,
    /// The columns of the table that `kubectl get` prints.
    pub columns: Vec<Value>,
    /// Fields that every object has.
    pub required: &'static [&'static str],
    /// The schema of `spec`.
    pub spec: Value,
    /// The schema of `status`, where there is one.
    pub status: Option<Value>,
}

/// The custom resource definition of a kind.
pub fn resource_definition(of: ResourceKind) -> Value {
    let ObjectKind { group, version, kind, plural, .. } = of.kind;
    let mut names = json!({
        "kind": kind,
        "listKind": format!("{kind}List"),
        "plural": plural,
        "singular": of.singular,
        "categories": ["stator"],
    });
    if let Some(short) = of.short_name {
        names["shortNames"] = json!([short]);
    }
    let mut schema = json!({
        "type": "object",
        "description": of.description,
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": of.spec,
        },
    });
    if !of.required.is_empty() {
        schema["required"] = json!(of.required);
    }
    let mut version = json!({
        "name": version,
        "served": true,
        "storage": true,
        "additionalPrinterColumns": of.columns,
    });
    if let Some(status) = of.status {
        version["subresources"] = json!({"status": {}});
        schema["properties"]["status"] = status;
    }
    version["schema"] = json!({"openAPIV3Schema": schema});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "names": names, "scope": of.scope, "versions": [version]},
    })
}

/// A column of the table that `kubectl get` prints; a `wide` one with `-o wide` only.
pub fn printer_column(name: &str, kind: &str, path: &str, wide: bool) -> Value {
    let mut column = json!({"name": name, "type": kind, "jsonPath": path});
    if wide {
        column["priority"] = json!(1);
    }
    column
}

/// Puts a rule in CEL on a field: `spec.ref`, or `spec.windows[]` for the items of a list. False where there is no such
/// field.
#[must_use]
pub fn add_validation_rule(schema: &mut Value, path: &str, expression: &str, message: &str) -> bool {
    let Some(field) = field_schema_mut(schema, path) else { return false };
    let rules = field.entry("x-kubernetes-validations").or_insert_with(|| json!([]));
    let Some(rules) = rules.as_array_mut() else { return false };
    rules.push(json!({"rule": expression, "message": message}));
    true
}

/// A field of a schema, by its path; the schema itself by an empty one.
fn field_schema_mut<'a>(schema: &'a mut Value, path: &str) -> Option<&'a mut Map<String, Value>> {
    let mut here = schema;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let name = part.trim_end_matches("[]");
        here = here.get_mut("properties")?.get_mut(name)?;
        if part.len() > name.len() {
            here = here.get_mut("items")?;
        }
    }
    here.as_object_mut()
}

/// The recursion is as deep as the types are.
fn structural_node(mut schema: Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    for word in ["allOf", "anyOf", "oneOf"] {
        if let Some(Value::Array(branches)) = schema.remove(word) {
            out.extend(merge_branches(branches));
        }
    }
    for (word, value) in schema {
        match (word.as_str(), value) {
            ("type", Value::Array(types)) => {
                out.extend(types.into_iter().find(|one| one != "null").map(|one| (word, one)));
            }
            ("const", only) => drop(out.insert("enum".to_owned(), json!([only]))),
            ("description", Value::String(text)) => drop(out.insert(word, Value::String(unwrap_lines(&text)))),
            ("properties", Value::Object(fields)) => drop(out.insert(word, Value::Object(structural_fields(fields)))),
            ("items" | "additionalProperties", Value::Object(below)) => {
                out.insert(word, Value::Object(structural_node(below)));
            }
            ("format", Value::String(format)) if CHECKED_FORMATS.contains(&format.as_str()) => {
                out.insert(word, Value::String(format));
            }
            (name, value)
                if KEPT_KEYWORDS.contains(&name) || name.starts_with("x-kubernetes-") || name == CHOICE_KEYWORD =>
            {
                drop(out.insert(word, value))
            }
            _ => {}
        }
    }
    out
}

fn structural_fields(fields: Map<String, Value>) -> Map<String, Value> {
    let below = |value| match value {
        Value::Object(schema) => Value::Object(structural_node(schema)),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => other,
    };
    fields.into_iter().map(|(name, value)| (name, below(value))).collect()
}

/// What the words of a choice mean, until it is added to the description.
const CHOICE_KEYWORD: &str = "x-stator-choice";

/// Alternatives as one schema: words as an `enum`, objects with all their fields, of which rules say which go together.
fn merge_branches(branches: Vec<Value>) -> Map<String, Value> {
    let some = branches.into_iter().filter_map(|branch| match branch {
        Value::Object(branch) if branch.get("type").is_none_or(|kind| kind != "null") => Some(structural_node(branch)),
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    });
    let mut branches: Vec<Map<String, Value>> = some.collect();
    if branches.len() == 1 {
        return branches.pop().unwrap_or_default();
    }
    let mut out = Map::new();
    let (mut words, mut meanings, mut fields) = (Vec::new(), Vec::new(), Map::new());
    for mut branch in branches {
        let about = branch.remove("description");
        let about = about.as_ref().and_then(Value::as_str).unwrap_or_default();
        if let Some(Value::Array(own)) = branch.remove("enum") {
            meanings.extend(
                own.iter().filter_map(Value::as_str).map(|word| format!("`{word}` ({})", trim_full_stop(about))),
            );
            words.extend(own);
        }
        if let Some(Value::Object(own)) = branch.remove("properties") {
            let described = own.into_iter().map(|(name, mut field)| {
                if let Some(field) = field.as_object_mut().filter(|_| !about.is_empty()) {
                    field.insert("description".to_owned(), json!(about));
                }
                (name, field)
            });
            fields.extend(described);
        }
        out.extend(branch.remove("type").map(|kind| ("type".to_owned(), kind)));
    }
    if !words.is_empty() {
        out.insert("enum".to_owned(), Value::Array(words));
        out.insert(CHOICE_KEYWORD.to_owned(), json!(format!("One of {}.", meanings.join(", "))));
    }
    if !fields.is_empty() {
        out.insert("properties".to_owned(), Value::Object(fields));
    }
    out
}

/// Adds to descriptions what the words of a choice mean.
fn append_choice_descriptions(mut schema: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::String(words)) = schema.remove(CHOICE_KEYWORD) {
        let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let text = format!("{about} {words}").trim_start().to_owned();
        schema.insert("description".to_owned(), Value::String(text));
    }
    let below = |value: Value| match value {
        Value::Object(schema) => Value::Object(append_choice_descriptions(schema)),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => other,
    };
    for word in ["items", "additionalProperties"] {
        if let Some(one) = schema.remove(word) {
            schema.insert(word.to_owned(), below(one));
        }
    }
    if let Some(Value::Object(fields)) = schema.remove("properties") {
        let fields = fields.into_iter().map(|(name, field)| (name, below(field)));
        schema.insert("properties".to_owned(), Value::Object(fields.collect()));
    }
    schema
}

/// A doc comment without the line breaks that its source has.
fn unwrap_lines(text: &str) -> String {
    let paragraphs =
        text.split("\n\n").map(|paragraph| paragraph.split('\n').map(str::trim).collect::<Vec<_>>().join(" "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// The words of a sentence in brackets: without its stop.
fn trim_full_stop(text: &str) -> &str {
    text.strip_suffix('.').unwrap_or(text)
}
