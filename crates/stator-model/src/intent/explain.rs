//! What a field means, which values it takes, and what may stand below it: what `stator explain` prints.
//!
//! Everything comes from the JSON Schema of the types, so it says what the parser does.

use super::field_words::{normalize, synonyms};
use super::outline::{DocumentKind, FieldSchema};
use serde::Serialize;
use serde_json::Value;
use stator_core::finding::closest_match;
use thiserror::Error;

/// Why a field could not be explained.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExplainError {
    /// There is no such field.
    #[error("there is no field `{field}` in `{parent}`{}", near_or_all(.suggestion.as_deref(), .allowed))]
    UnknownField {
        /// The word that is not known.
        field: String,
        /// Where it was looked for.
        parent: String,
        /// The nearest known one.
        suggestion: Option<String>,
        /// What there is, in canonical order.
        allowed: Vec<String>,
    },
    /// Nothing is known below a free map or a scalar.
    #[error("`{parent}` ({kind}) has no fields that stator knows, `{field}` included; run `stator explain {parent}`")]
    NoFields {
        /// The word below it.
        field: String,
        /// The place without fields.
        parent: String,
        /// What it holds.
        kind: String,
    },
}

fn near_or_all(suggestion: Option<&str>, allowed: &[String]) -> String {
    match suggestion {
        Some(word) => format!(": did you mean `{word}`?"),
        None => format!("; it has {}", listed(allowed)),
    }
}

fn listed(allowed: &[String]) -> String {
    allowed.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// What there is to say about one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldExplanation {
    /// The kind of document it belongs to.
    pub kind: String,
    /// Its path from the top of the document; empty for the document itself.
    pub path: String,
    /// Its type: `object`, `integer`, `[]object`, `map[string]string`, …
    pub type_name: String,
    /// Whether it must be given.
    pub required: bool,
    /// What it is for.
    pub description: String,
    /// What its values must be like: range, length, grammar.
    pub rules: Vec<String>,
    /// The values it takes, where they are few.
    pub values: Vec<AllowedValue>,
    /// Whether its values are names of other models of the environment.
    #[serde(skip)]
    pub refers_to_model: bool,
    /// The fields below it, in canonical order.
    pub fields: Vec<ChildField>,
}

/// One of the values that a field takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AllowedValue {
    /// The value.
    pub value: String,
    /// What it means; empty when the name says it.
    pub description: String,
}

/// A field below the one that is explained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildField {
    /// Its name.
    pub name: String,
    /// Its type.
    pub type_name: String,
    /// Whether it must be given.
    pub required: bool,
    /// What it is for.
    pub description: String,
}

/// Explains a field by its dotted path.
///
/// The path may start with the document (`model`, `repository`, `defaults`; a model is meant without), with a field of the
/// document (`spec.serving`), or with one of its `spec` (`serving.decode`). Names in maps and places in lists may stand in
/// it or be left out: `spec.adapters[0].name` and `spec.adapters.name` are the same.
///
/// # Errors
///
/// When there is no such field; the error names the nearest one.
pub fn explain(path: &str) -> Result<FieldExplanation, ExplainError> {
    let mut words = path_words(path).peekable();
    let named =
        words.peek().and_then(|word| DocumentKind::ALL.into_iter().find(|it| it.as_str().eq_ignore_ascii_case(word)));
    if named.is_some() {
        words.next();
    }
    let document = named.unwrap_or(DocumentKind::Model);
    walk(document.as_str(), FieldSchema::root(document), words)
}

/// Explains a field of a document whose JSON Schema this is, without references; the path may start with its kind.
///
/// # Errors
///
/// As for [`explain`].
pub fn explain_schema(kind: &str, schema: &'static Value, path: &str) -> Result<FieldExplanation, ExplainError> {
    let mut words = path_words(path).peekable();
    words.next_if(|word| kind.eq_ignore_ascii_case(word));
    walk(kind, FieldSchema::of(schema), words)
}

fn path_words(path: &str) -> impl Iterator<Item = &str> {
    path.split(['.', '[']).map(|word| word.trim_end_matches(']')).filter(|word| !word.is_empty())
}

/// Goes down from the top of a document.
fn walk<'a>(
    document: &str,
    top: FieldSchema,
    words: impl Iterator<Item = &'a str>,
) -> Result<FieldExplanation, ExplainError> {
    let mut words = words.peekable();
    let mut spot = FieldCursor { place: top, path: Vec::new(), required: true };
    // `serving.decode` means `spec.serving.decode`.
    if let Some(first) = words.peek()
        && top.field(first).is_none()
        && let Some(spec) = top.field("spec")
        && spec.field(first).is_some()
    {
        spot = spot.descend("spec", spec);
    }
    for word in words {
        if spot.place.item().is_some() && word.chars().all(|c| c.is_ascii_digit()) {
            continue;
        }
        let inside = spot.place.item().unwrap_or(spot.place);
        match inside.field(word) {
            Some(place) => spot = spot.descend(word, place),
            None => return Err(unknown_field_error(word, inside, &spot.dotted_name(document))),
        }
    }
    Ok(explain_field(document, &spot))
}

/// Where the walk along a path is.
struct FieldCursor {
    place: FieldSchema,
    path: Vec<String>,
    required: bool,
}

impl FieldCursor {
    fn descend(mut self, word: &str, place: FieldSchema) -> Self {
        let inside = self.place.item().unwrap_or(self.place);
        self.required = inside.requires(word);
        self.path.push(word.to_owned());
        Self { place, ..self }
    }

    fn dotted_name(&self, document: &str) -> String {
        std::iter::once(document.to_lowercase()).chain(self.path.iter().cloned()).collect::<Vec<_>>().join(".")
    }
}

fn unknown_field_error(word: &str, inside: FieldSchema, parent: &str) -> ExplainError {
    let allowed: Vec<String> = inside.field_names().iter().map(|name| (*name).to_owned()).collect();
    if allowed.is_empty() {
        return ExplainError::NoFields { field: word.to_owned(), parent: parent.to_owned(), kind: type_name(inside) };
    }
    let wanted = normalize(word);
    let is_called = |name: &&String| inside.field(name).is_some_and(|it| synonyms(name, it.schema()).contains(&wanted));
    let suggestion = allowed.iter().find(is_called).cloned();
    let suggestion = suggestion.or_else(|| closest_match(word, allowed.iter().map(String::as_str)).map(str::to_owned));
    ExplainError::UnknownField { field: word.to_owned(), parent: parent.to_owned(), suggestion, allowed }
}

fn explain_field(document: &str, spot: &FieldCursor) -> FieldExplanation {
    let inside = spot.place.item().unwrap_or(spot.place);
    FieldExplanation {
        kind: document.to_owned(),
        path: spot.path.join("."),
        type_name: type_name(spot.place),
        required: spot.required,
        description: description(spot.place),
        rules: value_rules(spot.place),
        values: allowed_values(spot.place),
        refers_to_model: spot.place.schema().get("x-stator-refers-to").and_then(Value::as_str) == Some("model"),
        fields: child_fields(inside),
    }
}

/// The fields of a place, or of what its map holds, in canonical order.
pub(super) fn child_fields(place: FieldSchema) -> Vec<ChildField> {
    place
        .field_names()
        .into_iter()
        .filter_map(|name| {
            let child = place.field(name)?;
            Some(ChildField {
                name: name.to_owned(),
                type_name: type_name(child),
                required: place.requires(name),
                description: description(child),
            })
        })
        .collect()
}

/// The field's own words, and its type's when it has none.
pub(super) fn description(place: FieldSchema) -> String {
    let words = |schema: &Value| schema.get("description").and_then(Value::as_str).map(str::to_owned);
    words(place.schema())
        .or_else(|| place.alternatives().iter().find_map(|(_, schema)| words(schema)))
        .unwrap_or_default()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// A type as `kubectl explain` writes it.
pub(super) fn type_name(place: FieldSchema) -> String {
    let mut names: Vec<String> = Vec::new();
    for (_, schema) in place.alternatives() {
        let name = match scalar_type(schema) {
            Some("array") => {
                format!("[]{}", place.item().map_or_else(|| "any".to_owned(), type_name))
            }
            Some("object") if schema.get("properties").is_none() => match place.field("*") {
                Some(value) => format!("map[string]{}", type_name(value)),
                None => "map".to_owned(),
            },
            Some(name) => name.to_owned(),
            None if schema.get("oneOf").is_some() => {
                let mut parts: Vec<&str> = branches(schema).iter().filter_map(scalar_type).collect();
                parts.dedup();
                parts.join(" or ")
            }
            None => "any".to_owned(),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" or ")
}

/// The type, `null` aside.
fn scalar_type(schema: &Value) -> Option<&str> {
    match schema.get("type")? {
        Value::String(name) => Some(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

fn branches(schema: &Value) -> &[Value] {
    schema.get("oneOf").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// What values must be like, in words.
pub(super) fn value_rules(place: FieldSchema) -> Vec<String> {
    let mut rules = Vec::new();
    for (_, schema) in place.alternatives() {
        let words = |name: &str| schema.get(name).and_then(Value::as_str);
        let number = |name: &str| schema.get(name).filter(|value| value.is_number()).map(unquoted_text);
        if let Some(expected) = words("x-stator-expected") {
            rules.push(expected.to_owned());
        } else if let Some(pattern) = words("pattern") {
            rules.push(format!("matches `{pattern}`"));
        }
        match (number("minimum"), number("maximum")) {
            (Some(from), Some(to)) => rules.push(format!("{from} to {to}")),
            (Some(from), None) => rules.push(format!("{from} or more")),
            (None, Some(to)) => rules.push(format!("{to} or less")),
            (None, None) => {}
        }
        if words("x-stator-expected").is_none() {
            match (number("minLength"), number("maxLength")) {
                (Some(from), Some(to)) => rules.push(format!("{from} to {to} characters")),
                (Some(_), None) => rules.push("not empty".to_owned()),
                (None, Some(to)) => rules.push(format!("at most {to} characters")),
                (None, None) => {}
            }
        }
    }
    let quoted = |shape: &Vec<&str>| shape.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(" and ");
    let shapes: Vec<String> = place.shapes().iter().map(quoted).filter(|shape| !shape.is_empty()).collect();
    if shapes.len() > 1 {
        rules.push(format!("with one of: {}", shapes.join("; ")));
    }
    rules.dedup();
    rules
}

fn unquoted_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string().trim_end_matches(".0").to_owned(), str::to_owned)
}

/// The values of an enumeration, in the order of declaration.
pub(super) fn allowed_values(place: FieldSchema) -> Vec<AllowedValue> {
    let place = place.item().unwrap_or(place);
    let allowed = |value: &Value, description: Option<&Value>| AllowedValue {
        value: unquoted_text(value),
        description: description.and_then(Value::as_str).unwrap_or_default().to_owned(),
    };
    let mut found = Vec::new();
    for (_, schema) in place.alternatives() {
        let listed = schema.get("enum").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        found.extend(listed.iter().filter(|value| !value.is_null()).map(|value| allowed(value, None)));
        found.extend(schema.get("const").map(|value| allowed(value, None)));
        for branch in branches(schema) {
            let names = branch.get("enum").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            found.extend(names.iter().map(|value| allowed(value, branch.get("description"))));
            found.extend(branch.get("const").map(|value| allowed(value, branch.get("description"))));
        }
    }
    found
}

#[cfg(test)]
mod tests;
