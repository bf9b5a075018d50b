//! What a field means, which values it takes, and what may stand below it: what `stator explain` prints.
//!
//! Everything comes from the JSON Schema of the types, so it says what the parser does.

use super::check::{join_alternatives, meant_fields};
use super::schema_tree::{
    ANY_ITEM, AllowedValue, DocumentKind, MeantFields, SchemaPlace, SchemaShape, SchemaTree, TextShape,
};
use serde::Serialize;
use thiserror::Error;

/// Why a field could not be explained.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExplainError {
    /// There is no such field.
    #[error("there is no field `{field}` in `{parent}`{}", near_or_all(.meant, .allowed))]
    UnknownField {
        /// The word that is not known.
        field: String,
        /// Where it was looked for.
        parent: String,
        /// Those that may be meant: names of the same map, or whole paths, each as [`explain`] takes it.
        meant: Vec<String>,
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

fn near_or_all(meant: &[String], allowed: &[String]) -> String {
    match meant {
        [] => format!("; it has {}", listed(allowed)),
        meant => format!(": did you mean {}?", join_alternatives(meant)),
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
    walk(document.as_str(), document.schema(), words)
}

/// Explains a field of a document of another kind; the path may start with the kind.
///
/// # Errors
///
/// As for [`explain`].
pub fn explain_document(kind: &str, schema: &SchemaTree, path: &str) -> Result<FieldExplanation, ExplainError> {
    let mut words = path_words(path).peekable();
    words.next_if(|word| kind.eq_ignore_ascii_case(word));
    walk(kind, schema.top(), words)
}

fn path_words(path: &str) -> impl Iterator<Item = &str> {
    path.split(['.', '[']).map(|word| word.trim_end_matches(']')).filter(|word| !word.is_empty())
}

/// Goes down from the top of a document.
fn walk<'a>(
    document: &str,
    top: SchemaPlace<'_>,
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
    let mut steps = spot.path.clone();
    for word in words {
        let item = spot.place.item();
        if item.is_some() && word.chars().all(|c| c.is_ascii_digit()) {
            continue;
        }
        steps.extend(item.map(|_| ANY_ITEM.to_owned()));
        let inside = item.unwrap_or(spot.place);
        match inside.field(word) {
            Some(place) => spot = spot.descend(word, place),
            None => return Err(unknown_field_error(word, inside, (&spot.dotted_name(document), &steps))),
        }
        steps.push(word.to_owned());
    }
    Ok(explain_field(document, &spot))
}

/// Where the walk along a path is.
struct FieldCursor<'t> {
    place: SchemaPlace<'t>,
    path: Vec<String>,
    required: bool,
}

impl<'t> FieldCursor<'t> {
    fn descend(mut self, word: &str, place: SchemaPlace<'t>) -> Self {
        let inside = self.place.item().unwrap_or(self.place);
        self.required = inside.requires(word);
        self.path.push(word.to_owned());
        Self { place, ..self }
    }

    fn dotted_name(&self, document: &str) -> String {
        std::iter::once(document.to_lowercase()).chain(self.path.iter().cloned()).collect::<Vec<_>>().join(".")
    }
}

fn unknown_field_error(word: &str, inside: SchemaPlace<'_>, (parent, steps): (&str, &[String])) -> ExplainError {
    let allowed: Vec<String> = inside.field_names().iter().map(|name| (*name).to_owned()).collect();
    if allowed.is_empty() {
        return ExplainError::NoFields { field: word.to_owned(), parent: parent.to_owned(), kind: type_name(inside) };
    }
    let meant = inside.maps().into_iter().filter_map(|map| meant_fields(inside.tree, map, word, steps)).min();
    let document = parent.split('.').next().unwrap_or(parent);
    let below = |above: &str, paths: Vec<String>| paths.iter().map(|path| format!("{above}.{path}")).collect();
    let meant = match meant {
        None => Vec::new(),
        Some(MeantFields::Here(names)) => names,
        Some(MeantFields::Below(paths)) => below(parent, paths),
        Some(MeantFields::Elsewhere(paths)) => below(document, paths),
    };
    ExplainError::UnknownField { field: word.to_owned(), parent: parent.to_owned(), meant, allowed }
}

fn explain_field(document: &str, spot: &FieldCursor<'_>) -> FieldExplanation {
    let inside = spot.place.item().unwrap_or(spot.place);
    FieldExplanation {
        kind: document.to_owned(),
        path: spot.path.join("."),
        type_name: type_name(spot.place),
        required: spot.required,
        description: spot.place.description().to_owned(),
        rules: value_rules(spot.place),
        values: allowed_values(spot.place),
        refers_to_model: spot.place.refers_to_model(),
        fields: child_fields(inside),
    }
}

/// The fields of a place, or of what its map holds, in canonical order.
fn child_fields(place: SchemaPlace<'_>) -> Vec<ChildField> {
    place
        .field_names()
        .into_iter()
        .filter_map(|name| {
            let child = place.field(name)?;
            Some(ChildField {
                name: name.to_owned(),
                type_name: type_name(child),
                required: place.requires(name),
                description: child.description().to_owned(),
            })
        })
        .collect()
}

/// A type as `kubectl explain` writes it.
fn type_name(place: SchemaPlace<'_>) -> String {
    let mut names: Vec<String> = Vec::new();
    for one in place.alternatives() {
        let name = match one.shape() {
            SchemaShape::Any | SchemaShape::Choice(..) => "any".to_owned(),
            SchemaShape::Map(_) if !one.has_any_field() => match one.field("*") {
                Some(value) => format!("map[string]{}", type_name(value)),
                None => "map".to_owned(),
            },
            SchemaShape::Map(_) => "object".to_owned(),
            SchemaShape::List(_) => format!("[]{}", one.item().map_or_else(|| "any".to_owned(), type_name)),
            SchemaShape::Text(_) | SchemaShape::Enum(_) => "string".to_owned(),
            SchemaShape::Integer { .. } => "integer".to_owned(),
            SchemaShape::Number { .. } => "number".to_owned(),
            SchemaShape::Bool => "boolean".to_owned(),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" or ")
}

/// What values must be like, in words.
fn value_rules(place: SchemaPlace<'_>) -> Vec<String> {
    let mut rules = Vec::new();
    if let SchemaShape::Choice(_, Some(words)) = place.shape() {
        rules.push(words.clone());
    } else {
        place.alternatives().into_iter().for_each(|one| rules.extend(shape_rules(one.shape())));
    }
    let quoted = |fields: &[String]| fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(" and ");
    let shapes: Vec<String> =
        place.required_by_shapes().into_iter().map(quoted).filter(|fields| !fields.is_empty()).collect();
    if shapes.len() > 1 {
        rules.push(format!("with one of: {}", shapes.join("; ")));
    }
    rules.dedup();
    rules
}

/// The rules of a scalar.
fn shape_rules(shape: &SchemaShape) -> Vec<String> {
    let range = |from: Option<String>, to: Option<String>| match (from, to) {
        (Some(from), Some(to)) => Some(format!("{from} to {to}")),
        (Some(from), None) => Some(format!("{from} or more")),
        (None, Some(to)) => Some(format!("{to} or less")),
        (None, None) => None,
    };
    match shape {
        SchemaShape::Text(TextShape { expected: Some(expected), .. }) => vec![expected.clone()],
        SchemaShape::Text(TextShape { pattern, min, max, .. }) => {
            let length = match (*min, *max) {
                (0, usize::MAX) => None,
                (_, usize::MAX) => Some("not empty".to_owned()),
                (0, max) => Some(format!("at most {max} characters")),
                (min, max) => Some(format!("{min} to {max} characters")),
            };
            pattern.iter().map(|pattern| format!("matches `{pattern}`")).chain(length).collect()
        }
        SchemaShape::Integer { min, max } => {
            let from = (*min > i128::from(i64::MIN)).then(|| min.to_string());
            range(from, (*max < i128::from(u32::MAX)).then(|| max.to_string())).into_iter().collect()
        }
        SchemaShape::Number { min, max } => {
            let from = min.is_finite().then(|| min.to_string());
            range(from, max.is_finite().then(|| max.to_string())).into_iter().collect()
        }
        SchemaShape::Any
        | SchemaShape::Map(_)
        | SchemaShape::List(_)
        | SchemaShape::Enum(_)
        | SchemaShape::Bool
        | SchemaShape::Choice(..) => Vec::new(),
    }
}

/// The values of an enumeration, in the order of declaration.
pub(super) fn allowed_values(place: SchemaPlace<'_>) -> Vec<AllowedValue> {
    let mut found = Vec::new();
    for one in place.item().unwrap_or(place).alternatives() {
        if let SchemaShape::Enum(words) = one.shape() {
            found.extend(words.iter().cloned());
        }
    }
    found
}

#[cfg(test)]
mod tests;
