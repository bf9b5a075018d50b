//! Structural schemas: what an OpenAPI v3 schema of a CRD says, in the form the other files of this module walk.

use crate::object::PathSegment;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

/// The structural schema of one kind at one version.
pub struct StructuralSchema {
    /// `group/version`, or the version alone for the core group.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// True when `status` is written through its own endpoint only.
    pub status_subresource: bool,
    /// True for a kind that an API server keeps as a type of its own: no `null` and no empty list outlives that.
    pub(super) builtin: bool,
    pub(super) root: SchemaNode,
}

/// The JSON type that a schema asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum JsonType {
    /// No type, or `x-kubernetes-int-or-string`.
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl JsonType {
    pub(super) fn as_str(self) -> &'static str {
        self.into()
    }
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListType {
    /// Owned and replaced as one.
    Atomic,
    /// Items are distinguished by value.
    Set,
    /// Items are distinguished by these fields.
    Map(Vec<String>),
}

/// A rule in CEL (`x-kubernetes-validations`).
pub(super) struct CelRule {
    pub(super) rule: String,
    pub(super) message: Option<String>,
    /// `optionalOldSelf`: it is judged on create too, where `oldSelf` has no value.
    pub(super) optional_old_self: bool,
    /// Fields of `self` without which it holds, whatever else it says.
    pub(super) holds_without: Vec<String>,
    /// Compiled on first use; the error text when it cannot be.
    pub(super) program: OnceLock<Result<cel::Program, String>>,
}

/// A pattern, compiled on first use.
pub(super) struct SchemaPattern {
    pub(super) text: String,
    compiled: OnceLock<Option<regex::Regex>>,
}

impl SchemaPattern {
    /// `None` when the pattern itself is no regular expression.
    pub(super) fn regex(&self) -> Option<&regex::Regex> {
        self.compiled.get_or_init(|| regex::Regex::new(&self.text).ok()).as_ref()
    }
}

/// One level of a schema.
pub(super) struct SchemaNode {
    pub(super) kind: JsonType,
    pub(super) int_or_string: bool,
    pub(super) nullable: bool,
    pub(super) embedded: bool,
    pub(super) properties: BTreeMap<String, SchemaNode>,
    pub(super) additional: Option<Box<SchemaNode>>,
    /// Keys that are neither a property nor covered by `additional` are kept, and typed by what they hold.
    pub(super) open: bool,
    pub(super) items: Option<Box<SchemaNode>>,
    pub(super) list_type: ListType,
    pub(super) map_atomic: bool,
    pub(super) default: Option<Value>,
    pub(super) limits: Option<Box<ValueValidation>>,
    pub(super) rules: Vec<CelRule>,
    /// A quantity of a built-in kind, which the API server writes in its own way.
    pub(super) quantity: bool,
}

/// What a schema says beyond structure.
#[derive(Default)]
pub(super) struct ValueValidation {
    pub(super) format: Option<String>,
    pub(super) pattern: Option<SchemaPattern>,
    pub(super) one_of_values: Vec<Value>,
    pub(super) required: Vec<String>,
    pub(super) minimum: Option<serde_json::Number>,
    pub(super) maximum: Option<serde_json::Number>,
    pub(super) exclusive_minimum: bool,
    pub(super) exclusive_maximum: bool,
    pub(super) multiple_of: Option<f64>,
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
    pub(super) unique_items: bool,
    pub(super) all_of: Vec<SchemaNode>,
    pub(super) any_of: Vec<SchemaNode>,
    pub(super) one_of: Vec<SchemaNode>,
    pub(super) not: Option<SchemaNode>,
}

impl StructuralSchema {
    /// Reads an `openAPIV3Schema`. Parts that are not understood are taken as absent, as an API server's own schema
    /// was checked before it got here.
    pub fn new(api_version: &str, kind: &str, schema: &Value, status_subresource: bool) -> Self {
        let mut root = SchemaNode::parse(schema, false, 0);
        root.make_resource();
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            status_subresource,
            builtin: schema["x-stator-builtin"] == true,
            root,
        }
    }
}

/// Schemas nest a few dozen levels; a deeper one is cut there, so that reading it always ends.
const MAX_SCHEMA_DEPTH: usize = 128;

impl SchemaNode {
    /// Visits each field and item of a value that the schema describes, with `path` leading to it meanwhile.
    pub(super) fn for_each_child<'v>(
        &self,
        value: &'v Value,
        path: &mut Vec<PathSegment>,
        mut visit: impl FnMut(&Self, &'v Value, &mut Vec<PathSegment>),
    ) {
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    if let Some(field) = self.properties.get(name).or(self.additional.as_deref()) {
                        path.push(PathSegment::Field(name.clone()));
                        visit(field, value, path);
                        path.pop();
                    }
                }
            }
            Value::Array(items) => {
                let Some(node) = self.items.as_deref() else { return };
                for (index, item) in items.iter().enumerate() {
                    path.push(PathSegment::Index(index));
                    visit(node, item, path);
                    path.pop();
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn parse(schema: &Value, inherited_open: bool, depth: usize) -> Self {
        let flag = |name: &str| schema[name].as_bool().unwrap_or_default();
        // As in the published OpenAPI, the mark also opens every object below it.
        let preserve = inherited_open || flag("x-kubernetes-preserve-unknown-fields");
        let child = |value: &Value| Self::parse(value, preserve, depth + 1);
        let int_or_string = flag("x-kubernetes-int-or-string");
        let kind = match schema["type"].as_str() {
            _ if int_or_string => JsonType::Any,
            Some("object") => JsonType::Object,
            Some("array") => JsonType::Array,
            Some("string") => JsonType::String,
            Some("integer") => JsonType::Integer,
            Some("number") => JsonType::Number,
            Some("boolean") => JsonType::Boolean,
            Some(_) | None => JsonType::Any,
        };
        let deep = depth >= MAX_SCHEMA_DEPTH;
        let properties: BTreeMap<String, SchemaNode> = match schema["properties"].as_object() {
            Some(map) if !deep => map.iter().map(|(name, value)| (name.clone(), child(value))).collect(),
            Some(_) | None => BTreeMap::new(),
        };
        let additional = schema.get("additionalProperties");
        let list_type = match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(string_items(&schema["x-kubernetes-list-map-keys"])),
            Some(_) | None => ListType::Atomic,
        };
        let open = match additional {
            None => preserve || properties.is_empty(),
            Some(value) => value.as_bool().unwrap_or_default(),
        };
        let rules = schema["x-kubernetes-validations"].as_array().map_or(&[][..], Vec::as_slice);
        Self {
            kind,
            int_or_string,
            nullable: flag("nullable"),
            embedded: false,
            open,
            additional: additional.filter(|value| value.is_object() && !deep).map(|value| Box::new(child(value))),
            items: schema.get("items").filter(|_| !deep).map(|value| Box::new(child(value))),
            list_type,
            map_atomic: schema["x-kubernetes-map-type"] == "atomic",
            default: schema.get("default").filter(|value| !value.is_null()).cloned(),
            limits: (!deep).then(|| ValueValidation::parse(schema, depth)).flatten().map(Box::new),
            rules: rules.iter().filter_map(CelRule::parse).collect(),
            quantity: schema["format"] == "quantity",
            properties,
        }
        .with_embedded(flag("x-kubernetes-embedded-resource"))
    }

    fn with_embedded(mut self, embedded: bool) -> Self {
        if embedded {
            self.make_resource();
        }
        self
    }

    /// Gives the fields that every object has their fixed schema.
    fn make_resource(&mut self) {
        static METADATA: LazyLock<Value> = LazyLock::new(object_meta);
        self.embedded = true;
        for name in ["apiVersion", "kind"] {
            self.properties.insert(name.to_owned(), Self::parse(&json!({"type": "string"}), false, 0));
        }
        self.properties.insert("metadata".to_owned(), Self::parse(&METADATA, false, 0));
    }
}

impl CelRule {
    fn parse(value: &Value) -> Option<Self> {
        let rule = value["rule"].as_str()?.to_owned();
        Some(Self {
            holds_without: alternatives(&rule).into_iter().filter_map(absent_field).map(str::to_owned).collect(),
            rule,
            message: value["message"].as_str().map(|message| message.trim().to_owned()),
            optional_old_self: value["optionalOldSelf"] == true,
            program: OnceLock::new(),
        })
    }
}

/// The parts of a rule of which one that is true makes the whole true: what `||` joins outside of brackets and texts.
fn alternatives(rule: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quote) = (Vec::new(), 0, 0_i32, None);
    let bytes = rule.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match (quote, byte) {
            (Some(_), b'\\') => at += 1,
            (Some(open), close) if open == close => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'(' | b'[' | b'{') => depth += 1,
            (None, b')' | b']' | b'}') => depth -= 1,
            // What a choice binds looser than `||` is no alternative.
            (None, b'?') => return Vec::new(),
            (None, b'|') if depth == 0 && bytes.get(at + 1) == Some(&b'|') => {
                parts.push(rule[start..at].trim());
                at += 1;
                start = at + 1;
            }
            (None, _) => {}
        }
        at += 1;
    }
    parts.push(rule[start..].trim());
    parts
}

/// `name` of `!has(self.name)`.
fn absent_field(part: &str) -> Option<&str> {
    let name = part.strip_prefix("!has(self.")?.strip_suffix(')')?;
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_').then_some(name)
}

impl ValueValidation {
    fn parse(schema: &Value, depth: usize) -> Option<Self> {
        let number = |name: &str| schema[name].as_u64();
        let flag = |name: &str| schema[name].as_bool().unwrap_or_default();
        // Below `allOf` and its like only values are judged; structure is the outer schema's, so nothing is closed.
        let list = |name: &str| -> Vec<SchemaNode> {
            let list = schema[name].as_array().map_or(&[][..], Vec::as_slice);
            list.iter().map(|value| SchemaNode::parse(value, true, depth + 1)).collect()
        };
        const KEYWORDS: &[&str] = &[
            "format",
            "pattern",
            "enum",
            "required",
            "minimum",
            "maximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "uniqueItems",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
        ];
        if !KEYWORDS.iter().any(|keyword| schema.get(keyword).is_some()) {
            return None;
        }
        Some(Self {
            format: schema["format"].as_str().map(str::to_owned),
            pattern: schema["pattern"]
                .as_str()
                .map(|text| SchemaPattern { text: text.to_owned(), compiled: OnceLock::new() }),
            one_of_values: schema["enum"].as_array().cloned().unwrap_or_default(),
            required: string_items(&schema["required"]),
            minimum: schema["minimum"].as_number().cloned(),
            maximum: schema["maximum"].as_number().cloned(),
            exclusive_minimum: flag("exclusiveMinimum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            multiple_of: schema["multipleOf"].as_f64().filter(|factor| *factor > 0.0),
            min_length: number("minLength"),
            max_length: number("maxLength"),
            min_items: number("minItems"),
            max_items: number("maxItems"),
            min_properties: number("minProperties"),
            max_properties: number("maxProperties"),
            unique_items: flag("uniqueItems"),
            all_of: list("allOf"),
            any_of: list("anyOf"),
            one_of: list("oneOf"),
            not: schema.get("not").filter(|not| not.is_object()).map(|not| SchemaNode::parse(not, true, depth + 1)),
        })
    }
}

fn string_items(value: &Value) -> Vec<String> {
    let list = value.as_array().map_or(&[][..], Vec::as_slice);
    list.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// `ObjectMeta` as Kubernetes' OpenAPI has it (`io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta`).
fn object_meta() -> Value {
    let text = json!({"type": "string"});
    let time = json!({"type": "string", "format": "date-time"});
    let text_map = json!({"type": "object", "additionalProperties": text});
    let whole = json!({"type": "integer", "format": "int64"});
    json!({
        "type": "object",
        "properties": {
            "annotations": text_map,
            "creationTimestamp": {"type": "string", "format": "date-time", "nullable": true},
            "deletionGracePeriodSeconds": whole,
            "deletionTimestamp": time,
            "finalizers": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
            "generateName": text,
            "generation": whole,
            "labels": text_map,
            "managedFields": {
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "properties": {
                        "apiVersion": text,
                        "fieldsType": text,
                        "fieldsV1": {"type": "object"},
                        "manager": text,
                        "operation": text,
                        "subresource": text,
                        "time": time,
                    },
                },
            },
            "name": text,
            "namespace": text,
            "ownerReferences": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"],
                "items": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "required": ["apiVersion", "kind", "name", "uid"],
                    "properties": {
                        "apiVersion": text,
                        "blockOwnerDeletion": {"type": "boolean"},
                        "controller": {"type": "boolean"},
                        "kind": text,
                        "name": text,
                        "uid": text,
                    },
                },
            },
            "resourceVersion": text,
            "selfLink": text,
            "uid": text,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_holds_without_a_field_says_so() {
        let fields = |rule: &str| CelRule::parse(&json!({"rule": rule})).unwrap().holds_without;
        assert_eq!(fields("!has(self.minAvailable) || self.minAvailable <= 3"), ["minAvailable"]);
        assert_eq!(fields("oldSelf.hasValue() || !has(self.restart)"), ["restart"]);
        assert_eq!(fields("!has(self.job) || !has(self.ref) || size(self.ref) == 0"), ["job", "ref"]);
        for rule in [
            "!has(self.a) && self.b",
            "(!has(self.a) || self.b) && self.c",
            "!has(self.a.b) || self.c",
            "self.t == 'x || !has(self.a)'",
            "self.t == \"\\\" || !has(self.a)\"",
            "!has(self.a) || self.b ? self.c : self.d",
            "",
        ] {
            assert_eq!(fields(rule), Vec::<String>::new(), "{rule}");
        }
    }
}
