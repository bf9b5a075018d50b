//! JSON Schema → shapes: the same rules in a form that is quick to walk.

use crate::intent::scalar::{ComponentName, EnvName, ModelName};
use crate::intent::schema::{self, SchemaKind};
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

/// A shape by its number.
pub(super) type Id = usize;

/// What a value may be.
pub(super) enum Shape {
    Any,
    Map(MapShape),
    List(Id),
    Text(TextShape),
    /// One of some words.
    Words(Vec<String>),
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
    Choice(Vec<Id>, Option<String>),
}

#[derive(Default)]
pub(super) struct MapShape {
    pub(super) fields: BTreeMap<String, Id>,
    pub(super) required: Vec<String>,
    pub(super) rest: Rest,
}

/// What keys a map may have besides its fields.
#[derive(Default)]
pub(super) enum Rest {
    #[default]
    None,
    Any(Id),
    /// Keys of a form, and that form in words.
    Form(Regex, String, Id),
}

pub(super) struct TextShape {
    pub(super) pattern: Option<Regex>,
    pub(super) min: usize,
    pub(super) max: usize,
    pub(super) expected: Option<String>,
}

/// A compiled schema.
pub(super) struct Shapes {
    pub(super) root: Id,
    shapes: Vec<Shape>,
}

impl Shapes {
    pub(super) fn get(&self, id: Id) -> &Shape {
        self.shapes.get(id).unwrap_or(&Shape::Any)
    }
}

pub(super) fn shapes(kind: SchemaKind) -> &'static Shapes {
    static INTENT: LazyLock<Shapes> = LazyLock::new(|| compile(&schema::schema(SchemaKind::Intent)));
    static OVERLAY: LazyLock<Shapes> = LazyLock::new(|| compile(&schema::schema(SchemaKind::Overlay)));
    static REPOSITORY: LazyLock<Shapes> = LazyLock::new(|| compile(&schema::schema(SchemaKind::Repository)));
    static DEFAULTS: LazyLock<Shapes> = LazyLock::new(|| compile(&schema::schema(SchemaKind::Defaults)));
    static LOCK: LazyLock<Shapes> = LazyLock::new(|| compile(&schema::schema(SchemaKind::Lock)));
    match kind {
        SchemaKind::Intent => &INTENT,
        SchemaKind::Overlay => &OVERLAY,
        SchemaKind::Repository => &REPOSITORY,
        SchemaKind::Defaults => &DEFAULTS,
        SchemaKind::Lock => &LOCK,
    }
}

/// The shapes of a merged model.
pub(super) fn merged() -> &'static Shapes {
    static MERGED: LazyLock<Shapes> = LazyLock::new(|| compile(&schema::merged()));
    &MERGED
}

pub(super) fn compile(schema: &Value) -> Shapes {
    let mut compiler = Compiler { schema, shapes: Vec::new(), named: HashMap::new() };
    let root = compiler.add(schema);
    Shapes { root, shapes: compiler.shapes }
}

struct Compiler<'a> {
    schema: &'a Value,
    shapes: Vec<Shape>,
    named: HashMap<&'a str, Id>,
}

impl<'a> Compiler<'a> {
    fn add(&mut self, schema: &'a Value) -> Id {
        let only = |word: &str| match schema.get(word).and_then(Value::as_array).map(Vec::as_slice) {
            Some([only]) => only.get("$ref"),
            Some(_) | None => None,
        };
        if let Some(target) = schema.get("$ref").or_else(|| only("allOf")).and_then(Value::as_str) {
            return self.reference(target);
        }
        let id = self.shapes.len();
        self.shapes.push(Shape::Any);
        let shape = self.shape(schema);
        if let Some(place) = self.shapes.get_mut(id) {
            *place = shape;
        }
        id
    }

    fn reference(&mut self, target: &'a str) -> Id {
        if let Some(id) = self.named.get(target) {
            return *id;
        }
        let Some(schema) = target.strip_prefix('#').and_then(|pointer| self.schema.pointer(pointer)) else {
            self.shapes.push(Shape::Any);
            return self.shapes.len() - 1;
        };
        // `add` takes the next number; a definition that refers to itself must find it.
        self.named.insert(target, self.shapes.len());
        self.add(schema)
    }

    fn shape(&mut self, schema: &'a Value) -> Shape {
        let expected = || schema.get("x-stator-expected").and_then(Value::as_str).map(str::to_owned);
        if let Some(words) = words(schema) {
            return Shape::Words(words);
        }
        if let Some(options) = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
            let options = options.iter().map(|option| self.add(option)).collect();
            return Shape::Choice(options, expected());
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => Shape::Map(self.map(schema)),
            Some("array") => match schema.get("items") {
                Some(items) => Shape::List(self.add(items)),
                None => Shape::Any,
            },
            Some("string") => {
                let size = |word: &str| schema.get(word).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
                Shape::Text(TextShape {
                    pattern: schema.get("pattern").and_then(Value::as_str).and_then(|text| Regex::new(text).ok()),
                    min: size("minLength").unwrap_or(0),
                    max: size("maxLength").unwrap_or(usize::MAX),
                    expected: expected(),
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
                Shape::Integer {
                    min: bound("minimum").map_or(i128::from(i64::MIN), whole),
                    max: bound("maximum").map_or(widest, whole),
                }
            }
            Some("number") => Shape::Number {
                min: schema.get("minimum").and_then(Value::as_f64).unwrap_or(f64::NEG_INFINITY),
                max: schema.get("maximum").and_then(Value::as_f64).unwrap_or(f64::INFINITY),
            },
            Some("boolean") => Shape::Bool,
            Some(_) | None => Shape::Any,
        }
    }

    fn map(&mut self, schema: &'a Value) -> MapShape {
        let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let fields = fields.map(|(name, field)| (name.clone(), self.add(field))).collect();
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let required = required.filter_map(Value::as_str).map(str::to_owned).collect();
        let form = schema.get("patternProperties").and_then(Value::as_object).and_then(|forms| forms.iter().next());
        let rest = match (form, schema.get("additionalProperties")) {
            (Some((pattern, value)), _) => match Regex::new(pattern) {
                Ok(regex) => Rest::Form(regex, in_words(pattern), self.add(value)),
                Err(_) => Rest::Any(self.add(value)),
            },
            (None, Some(Value::Bool(false))) => Rest::None,
            (None, Some(value @ Value::Object(_))) => Rest::Any(self.add(value)),
            (None, _) => {
                self.shapes.push(Shape::Any);
                Rest::Any(self.shapes.len() - 1)
            }
        };
        MapShape { fields, required, rest }
    }
}

/// The words of an `enum`, or of a choice that has only constants.
fn words(schema: &Value) -> Option<Vec<String>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return words.iter().map(text).collect();
    }
    if let Some(word) = schema.get("const") {
        return text(word).map(|word| vec![word]);
    }
    let options = schema.get("oneOf").and_then(Value::as_array)?;
    let lists: Option<Vec<Vec<String>>> = options.iter().map(words).collect();
    lists.map(|lists| lists.concat())
}

fn in_words(pattern: &str) -> String {
    for (known, words) in [
        (ModelName::PATTERN, ModelName::EXPECTED),
        (ComponentName::PATTERN, ComponentName::EXPECTED),
        (EnvName::PATTERN, EnvName::EXPECTED),
    ] {
        if known == pattern {
            return words.to_owned();
        }
    }
    format!("text of the form `{pattern}`")
}
