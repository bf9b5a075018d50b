//! JSON Schema → shapes: the same rules in a form that is quick to walk.

use super::field_index::FieldIndex;
use crate::intent::field_words;
use crate::intent::scalar::{ComponentName, EnvName, ModelName};
use crate::intent::schema::{self, SchemaKind};
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, OnceLock};

/// A shape by its number.
pub(super) type ShapeId = usize;

/// What a value may be.
pub(super) enum SchemaShape {
    Any,
    Map(MapShape),
    List(ShapeId),
    Text(TextShape),
    /// One of some words.
    Enum(Vec<String>),
    Integer {
        min: i128,
        max: i128,
    },
    Number {
        min: f64,
        max: f64,
    },
    Bool,
    /// One of several shapes.
    Choice(Vec<ShapeId>, Option<String>),
}

#[derive(Default)]
pub(super) struct MapShape {
    pub(super) fields: BTreeMap<String, ShapeId>,
    pub(super) required: Vec<String>,
    /// What a field may be called by mistake, normalized → the field.
    pub(super) synonyms: BTreeMap<String, String>,
    pub(super) extra_keys: ExtraKeys,
}

/// What keys a map may have besides its fields.
#[derive(Default)]
pub(super) enum ExtraKeys {
    #[default]
    None,
    Any(ShapeId),
    /// Keys of a form, and that form in words.
    Pattern(Regex, String, ShapeId),
}

pub(super) struct TextShape {
    pub(super) pattern: Option<Regex>,
    pub(super) min: usize,
    pub(super) max: usize,
    pub(super) expected: Option<String>,
    /// A value that fits.
    pub(super) example: Option<String>,
}

/// A compiled schema.
pub(super) struct ShapeTable {
    pub(super) root: ShapeId,
    shapes: Vec<SchemaShape>,
    index: OnceLock<FieldIndex>,
}

impl ShapeTable {
    /// Where each field of the document may stand. Made when it is first asked for: by a field that is not known.
    pub(super) fn field_index(&self, make: impl FnOnce(&Self) -> FieldIndex) -> &FieldIndex {
        self.index.get_or_init(|| make(self))
    }

    pub(super) fn get(&self, id: ShapeId) -> &SchemaShape {
        self.shapes.get(id).unwrap_or(&SchemaShape::Any)
    }
}

pub(super) fn shapes_of_kind(kind: SchemaKind) -> &'static ShapeTable {
    static INTENT: LazyLock<ShapeTable> =
        LazyLock::new(|| compile_schema(&schema::document_schema(SchemaKind::Intent)));
    static OVERLAY: LazyLock<ShapeTable> =
        LazyLock::new(|| compile_schema(&schema::document_schema(SchemaKind::Overlay)));
    static REPOSITORY: LazyLock<ShapeTable> =
        LazyLock::new(|| compile_schema(&schema::document_schema(SchemaKind::Repository)));
    static DEFAULTS: LazyLock<ShapeTable> =
        LazyLock::new(|| compile_schema(&schema::document_schema(SchemaKind::Defaults)));
    static LOCK: LazyLock<ShapeTable> = LazyLock::new(|| compile_schema(&schema::document_schema(SchemaKind::Lock)));
    match kind {
        SchemaKind::Intent => &INTENT,
        SchemaKind::Overlay => &OVERLAY,
        SchemaKind::Repository => &REPOSITORY,
        SchemaKind::Defaults => &DEFAULTS,
        SchemaKind::Lock => &LOCK,
    }
}

/// The shapes of a merged model.
pub(super) fn merged_model_shapes() -> &'static ShapeTable {
    static MERGED: LazyLock<ShapeTable> = LazyLock::new(|| compile_schema(&schema::merged_model_schema()));
    &MERGED
}

pub(super) fn compile_schema(schema: &Value) -> ShapeTable {
    let mut compiler = ShapeCompiler { schema, shapes: Vec::new(), named: HashMap::new() };
    let root = compiler.add_schema(schema);
    ShapeTable { root, shapes: compiler.shapes, index: OnceLock::new() }
}

struct ShapeCompiler<'a> {
    schema: &'a Value,
    shapes: Vec<SchemaShape>,
    named: HashMap<&'a str, ShapeId>,
}

impl<'a> ShapeCompiler<'a> {
    fn add_schema(&mut self, schema: &'a Value) -> ShapeId {
        let only = |word: &str| match schema.get(word).and_then(Value::as_array).map(Vec::as_slice) {
            Some([only]) => only.get("$ref"),
            Some(_) | None => None,
        };
        if let Some(target) = schema.get("$ref").or_else(|| only("allOf")).and_then(Value::as_str) {
            return self.resolve_reference(target);
        }
        let id = self.shapes.len();
        self.shapes.push(SchemaShape::Any);
        let shape = self.shape(schema);
        if let Some(place) = self.shapes.get_mut(id) {
            *place = shape;
        }
        id
    }

    fn resolve_reference(&mut self, target: &'a str) -> ShapeId {
        if let Some(id) = self.named.get(target) {
            return *id;
        }
        let Some(schema) = target.strip_prefix('#').and_then(|pointer| self.schema.pointer(pointer)) else {
            self.shapes.push(SchemaShape::Any);
            return self.shapes.len() - 1;
        };
        // `add` takes the next number; a definition that refers to itself must find it.
        self.named.insert(target, self.shapes.len());
        self.add_schema(schema)
    }

    fn shape(&mut self, schema: &'a Value) -> SchemaShape {
        let expected = || schema.get("x-stator-expected").and_then(Value::as_str).map(str::to_owned);
        if let Some(words) = enum_words(schema) {
            return SchemaShape::Enum(words);
        }
        if let Some(options) = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
            let options = options.iter().map(|option| self.add_schema(option)).collect();
            return SchemaShape::Choice(options, expected());
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => SchemaShape::Map(self.map(schema)),
            Some("array") => match schema.get("items") {
                Some(items) => SchemaShape::List(self.add_schema(items)),
                None => SchemaShape::Any,
            },
            Some("string") => {
                let size = |word: &str| schema.get(word).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
                SchemaShape::Text(TextShape {
                    pattern: schema.get("pattern").and_then(Value::as_str).and_then(|text| Regex::new(text).ok()),
                    min: size("minLength").unwrap_or(0),
                    max: size("maxLength").unwrap_or(usize::MAX),
                    expected: expected(),
                    example: schema.pointer("/examples/0").and_then(Value::as_str).map(str::to_owned),
                })
            }
            Some("integer") => {
                let bound = |word: &str| schema.get(word).and_then(Value::as_f64);
                let widest = match schema.get("format").and_then(Value::as_str) {
                    Some("uint32") => i128::from(u32::MAX),
                    Some(_) | None => i128::from(i64::MAX),
                };
                #[expect(clippy::cast_possible_truncation, reason = "bounds in our own schema are small whole numbers")]
                let whole = |bound: f64| bound as i128;
                SchemaShape::Integer {
                    min: bound("minimum").map_or(i128::from(i64::MIN), whole),
                    max: bound("maximum").map_or(widest, whole),
                }
            }
            Some("number") => SchemaShape::Number {
                min: schema.get("minimum").and_then(Value::as_f64).unwrap_or(f64::NEG_INFINITY),
                max: schema.get("maximum").and_then(Value::as_f64).unwrap_or(f64::INFINITY),
            },
            Some("boolean") => SchemaShape::Bool,
            Some(_) | None => SchemaShape::Any,
        }
    }

    fn map(&mut self, schema: &'a Value) -> MapShape {
        let properties = || schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let fields = properties().map(|(name, field)| (name.clone(), self.add_schema(field))).collect();
        let mut synonyms = BTreeMap::new();
        for (name, field) in properties() {
            synonyms.extend(field_words::synonyms(name, field).into_iter().map(|word| (word, name.clone())));
        }
        // A field's own name is stronger than what another field may be called.
        synonyms.extend(properties().map(|(name, _)| (field_words::normalize(name), name.clone())));
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let required = required.filter_map(Value::as_str).map(str::to_owned).collect();
        let form = schema.get("patternProperties").and_then(Value::as_object).and_then(|forms| forms.iter().next());
        let rest = match (form, schema.get("additionalProperties")) {
            (Some((pattern, value)), _) => match Regex::new(pattern) {
                Ok(regex) => ExtraKeys::Pattern(regex, describe_pattern(pattern), self.add_schema(value)),
                Err(_) => ExtraKeys::Any(self.add_schema(value)),
            },
            (None, Some(Value::Bool(false))) => ExtraKeys::None,
            (None, Some(value @ Value::Object(_))) => ExtraKeys::Any(self.add_schema(value)),
            (None, _) => {
                self.shapes.push(SchemaShape::Any);
                ExtraKeys::Any(self.shapes.len() - 1)
            }
        };
        MapShape { fields, required, synonyms, extra_keys: rest }
    }
}

/// The words of an `enum`, or of a choice that has only constants.
fn enum_words(schema: &Value) -> Option<Vec<String>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return words.iter().map(text).collect();
    }
    if let Some(word) = schema.get("const") {
        return text(word).map(|word| vec![word]);
    }
    let options = schema.get("oneOf").and_then(Value::as_array)?;
    let lists: Option<Vec<Vec<String>>> = options.iter().map(enum_words).collect();
    lists.map(|lists| lists.concat())
}

fn describe_pattern(pattern: &str) -> String {
    for (known, words) in [
        (ModelName::PATTERN, ModelName::EXPECTED),
        (ComponentName::PATTERN, ComponentName::EXPECTED),
        (EnvName::PATTERN, EnvName::EXPECTED),
    ] {
        if known == pattern {
            return words.to_owned();
        }
    }
    format!("a string that matches `{pattern}`")
}
