//! JSON Schema → shapes: the same rules in a form that is quick to walk.

use super::{
    AllowedValue, ExtraKeys, MapShape, SchemaField, SchemaNode, SchemaShape, SchemaTree, ShapeId, TextShape,
    field_order,
};
use crate::intent::field_words;
use crate::intent::scalar::{ComponentName, EnvName, ModelName};
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

pub(super) fn compile_schema(schema: &Value) -> SchemaTree {
    let mut compiler = ShapeCompiler { schema, nodes: Vec::new(), named: HashMap::new() };
    let root = compiler.add_schema(schema, schema.get("title").and_then(Value::as_str));
    SchemaTree { root, nodes: compiler.nodes, index: OnceLock::new() }
}

struct ShapeCompiler<'a> {
    schema: &'a Value,
    nodes: Vec<SchemaNode>,
    named: HashMap<&'a str, ShapeId>,
}

impl<'a> ShapeCompiler<'a> {
    /// Adds a shape, and gives its number; `type_name` is that of a definition.
    fn add_schema(&mut self, schema: &'a Value, type_name: Option<&str>) -> ShapeId {
        let only = |word: &str| match schema.get(word).and_then(Value::as_array).map(Vec::as_slice) {
            Some([only]) => only.get("$ref"),
            Some(_) | None => None,
        };
        if let Some(target) = schema.get("$ref").or_else(|| only("allOf")).and_then(Value::as_str) {
            return self.resolve_reference(target);
        }
        let id = self.add_any();
        let node = SchemaNode { shape: self.shape(schema, type_name), description: description(schema) };
        if let Some(place) = self.nodes.get_mut(id) {
            *place = node;
        }
        id
    }

    fn add_any(&mut self) -> ShapeId {
        self.nodes.push(SchemaNode::default());
        self.nodes.len() - 1
    }

    fn resolve_reference(&mut self, target: &'a str) -> ShapeId {
        if let Some(id) = self.named.get(target) {
            return *id;
        }
        let Some(schema) = target.strip_prefix('#').and_then(|pointer| self.schema.pointer(pointer)) else {
            return self.add_any();
        };
        // `add_schema` takes the next number; a definition that refers to itself must find it.
        self.named.insert(target, self.nodes.len());
        self.add_schema(schema, target.rsplit('/').next())
    }

    fn shape(&mut self, schema: &'a Value, type_name: Option<&str>) -> SchemaShape {
        let expected = || schema.get("x-stator-expected").and_then(Value::as_str).map(str::to_owned);
        if let Some(words) = enum_words(schema) {
            return SchemaShape::Enum(words);
        }
        if let Some(options) = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
            let options = options.iter().map(|option| self.add_schema(option, None)).collect();
            return SchemaShape::Choice(options, expected());
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => SchemaShape::Map(self.map(schema, type_name)),
            Some("array") => SchemaShape::List(match schema.get("items") {
                Some(items) => self.add_schema(items, None),
                None => self.add_any(),
            }),
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

    fn map(&mut self, schema: &'a Value, type_name: Option<&str>) -> MapShape {
        let properties = || schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let fields: BTreeMap<String, SchemaField> = properties()
            .map(|(name, field)| {
                let refers_to_model = field.get("x-stator-refers-to").and_then(Value::as_str) == Some("model");
                let shape = self.add_schema(field, None);
                (name.clone(), SchemaField { shape, description: description(field), refers_to_model })
            })
            .collect();
        let declared = type_name.and_then(field_order::declared_order);
        // Another document may have a type of that name.
        let declared = declared.filter(|declared| {
            declared.len() == fields.len() && declared.iter().all(|name| fields.contains_key(*name))
        });
        let order = match declared {
            Some(declared) => declared.iter().map(|name| (*name).to_owned()).collect(),
            // What has no description is a key of a map.
            None => {
                fields.iter().filter(|(_, field)| !field.description.is_empty()).map(|(name, _)| name.clone()).collect()
            }
        };
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
                Ok(regex) => ExtraKeys::Pattern(regex, describe_pattern(pattern), self.add_schema(value, None)),
                Err(_) => ExtraKeys::Any(self.add_schema(value, None)),
            },
            (None, Some(Value::Bool(false))) => ExtraKeys::None,
            (None, Some(value @ Value::Object(_))) => ExtraKeys::Any(self.add_schema(value, None)),
            (None, _) => ExtraKeys::Any(self.add_any()),
        };
        MapShape { fields, order, required, synonyms, extra_keys: rest }
    }
}

/// The words of an `enum`, or of a choice that has only constants.
fn enum_words(schema: &Value) -> Option<Vec<AllowedValue>> {
    let word = |value: &Value| Some(AllowedValue { value: value.as_str()?.to_owned(), description: String::new() });
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return words.iter().map(word).collect();
    }
    if let Some(only) = schema.get("const") {
        return word(only).map(|word| vec![word]);
    }
    let options = schema.get("oneOf").and_then(Value::as_array)?;
    let described = |option| {
        let words = enum_words(option)?;
        Some(words.into_iter().map(|word| AllowedValue { description: description(option), ..word }).collect())
    };
    let lists: Option<Vec<Vec<AllowedValue>>> = options.iter().map(described).collect();
    lists.map(|lists| lists.concat())
}

/// What a schema says that it is for, on one line.
fn description(schema: &Value) -> String {
    let words = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    words.split_whitespace().collect::<Vec<_>>().join(" ")
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
