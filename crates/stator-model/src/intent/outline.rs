//! The outline of stator's documents: which fields a place may hold, in which order, and what is said about them.
//!
//! Made from the types alone: names and words come from the JSON Schema of the types, the order from their declaration.

use super::lock::{LockMetadata, LockSpec, ModelLock};
use super::model::{
    Adapter, Cache, CompilationCache, Component, EnvFromConfigMap, EnvFromField, EnvFromResource, EnvFromSecret,
    Frontend, GraphVariable, Hardware, Manifest, Metadata, Model, ModelRollout, ModelSpec, MountedFile, Override,
    OverrideTarget, PodSettings, Probes, Resources, Rollout, Route, RouteCanary, RouteGateway, ScalingBounds, Secrets,
    SelectedWeights, Serving, Sla, SlaWorker, Weights, WeightsClaim, Worker, Workload,
};
use super::repository::{
    Defaults, Environment, Guards, PolicyRule, Prices, Repository, RepositoryMetadata, RepositorySpec,
};
use schemars::SchemaGenerator;
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use serde_json::{Map, Value, json};
use stator_core::dynamo::admission::Platform;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// The documents that stator reads. An overlay has a model's outline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
pub enum DocumentKind {
    /// A `model.yaml` or an overlay.
    Model,
    /// The root `stator.yaml`.
    Repository,
    /// A folder's `stator.yaml`.
    Defaults,
    /// A `model.lock.yaml`.
    #[strum(serialize = "ModelLock")]
    Lock,
}

impl DocumentKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Model, Self::Repository, Self::Defaults, Self::Lock];

    /// Its `kind`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The document of a `kind`.
    pub fn from_kind(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|document| document.as_str() == kind)
    }
}

/// A place in a document, and what may stand there.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldSchema {
    schema: &'static Value,
}

/// The schemas of every type, by name.
static SCHEMA_DEFINITIONS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let mut generator = SchemaGenerator::default();
    generator.subschema_for::<Model>();
    generator.subschema_for::<Repository>();
    generator.subschema_for::<Defaults>();
    generator.subschema_for::<ModelLock>();
    let mut definitions = generator.take_definitions(true);
    for document in DocumentKind::ALL {
        let reference = json!({"$ref": format!("#/$defs/{}", document.as_str())});
        definitions.insert(format!("document/{}", document.as_str()), reference);
    }
    definitions
});

/// Stands where nothing is known.
static NULL_SCHEMA: Value = Value::Null;

/// The field names of every struct, in the order of declaration.
static FIELD_ORDER: LazyLock<BTreeMap<&'static str, &'static [&'static str]>> = LazyLock::new(|| {
    BTreeMap::from([
        ("Adapter", struct_field_names::<Adapter>()),
        ("Cache", struct_field_names::<Cache>()),
        ("Component", struct_field_names::<Component>()),
        ("Defaults", struct_field_names::<Defaults>()),
        ("EnvFromConfigMap", struct_field_names::<EnvFromConfigMap>()),
        ("CompilationCache", struct_field_names::<CompilationCache>()),
        ("EnvFromField", struct_field_names::<EnvFromField>()),
        ("EnvFromResource", struct_field_names::<EnvFromResource>()),
        ("GraphVariable", struct_field_names::<GraphVariable>()),
        ("EnvFromSecret", struct_field_names::<EnvFromSecret>()),
        ("Environment", struct_field_names::<Environment>()),
        ("Frontend", struct_field_names::<Frontend>()),
        ("Guards", struct_field_names::<Guards>()),
        ("Platform", struct_field_names::<Platform>()),
        ("Hardware", struct_field_names::<Hardware>()),
        ("LockMetadata", struct_field_names::<LockMetadata>()),
        ("LockSpec", struct_field_names::<LockSpec>()),
        ("Metadata", struct_field_names::<Metadata>()),
        ("Model", struct_field_names::<Model>()),
        ("ModelLock", struct_field_names::<ModelLock>()),
        ("ModelSpec", struct_field_names::<ModelSpec>()),
        ("Route", struct_field_names::<Route>()),
        ("RouteCanary", struct_field_names::<RouteCanary>()),
        ("RouteGateway", struct_field_names::<RouteGateway>()),
        ("Weights", struct_field_names::<Weights>()),
        ("SelectedWeights", struct_field_names::<SelectedWeights>()),
        ("WeightsClaim", struct_field_names::<WeightsClaim>()),
        ("Manifest", struct_field_names::<Manifest>()),
        ("MountedFile", struct_field_names::<MountedFile>()),
        ("Override", struct_field_names::<Override>()),
        ("OverrideTarget", struct_field_names::<OverrideTarget>()),
        ("PolicyRule", struct_field_names::<PolicyRule>()),
        ("Prices", struct_field_names::<Prices>()),
        ("PodSettings", struct_field_names::<PodSettings>()),
        ("Probes", struct_field_names::<Probes>()),
        ("Repository", struct_field_names::<Repository>()),
        ("RepositoryMetadata", struct_field_names::<RepositoryMetadata>()),
        ("RepositorySpec", struct_field_names::<RepositorySpec>()),
        ("Resources", struct_field_names::<Resources>()),
        ("Rollout", struct_field_names::<Rollout>()),
        ("ModelRollout", struct_field_names::<ModelRollout>()),
        ("ScalingBounds", struct_field_names::<ScalingBounds>()),
        ("Secrets", struct_field_names::<Secrets>()),
        ("Serving", struct_field_names::<Serving>()),
        ("Sla", struct_field_names::<Sla>()),
        ("SlaWorker", struct_field_names::<SlaWorker>()),
        ("Worker", struct_field_names::<Worker>()),
        ("Workload", struct_field_names::<Workload>()),
    ])
});

impl FieldSchema {
    /// The top of a document.
    pub(super) fn root(document: DocumentKind) -> Self {
        let schema = SCHEMA_DEFINITIONS.get(&format!("document/{}", document.as_str())).unwrap_or(&NULL_SCHEMA);
        Self { schema }
    }

    /// The top of a document with a schema of its own.
    pub(super) fn of(schema: &'static Value) -> Self {
        Self { schema }
    }

    /// The schema as written at this place: its description is the field's own, not the type's.
    pub(super) fn schema(self) -> &'static Value {
        self.schema
    }

    /// What may stand here, references followed and alternatives spread out, `null` left out, with the type's name.
    pub(super) fn alternatives(self) -> Vec<(Option<&'static str>, &'static Value)> {
        let mut found = Vec::new();
        flatten_alternatives(self.schema, None, &mut found);
        found
    }

    /// The place of a field: a known one, or any key of a map.
    pub(super) fn field(self, key: &str) -> Option<Self> {
        let alternatives = self.alternatives();
        let known = alternatives.iter().find_map(|(_, schema)| schema.get("properties")?.get(key));
        let any = || {
            alternatives.iter().find_map(|(_, schema)| {
                // A map whose keys have a grammar has one pattern, and no additional properties besides.
                let patterned = || schema.get("patternProperties")?.as_object()?.values().next();
                schema.get("additionalProperties").filter(|schema| schema.is_object()).or_else(patterned)
            })
        };
        known.or_else(any).map(|schema| Self { schema })
    }

    /// The place of a list's items.
    pub(super) fn item(self) -> Option<Self> {
        self.alternatives().iter().find_map(|(_, schema)| schema.get("items")).map(|schema| Self { schema })
    }

    /// Names of the known fields in canonical order; none for a free map.
    pub(super) fn field_names(self) -> Vec<&'static str> {
        let mut seen = BTreeSet::new();
        let names = self.alternatives().into_iter().flat_map(|(name, schema)| {
            let ordered = name.and_then(|name| FIELD_ORDER.get(name)).map(|names| names.to_vec());
            ordered.unwrap_or_else(|| property_names(schema))
        });
        // Two shapes may have a field of one name.
        names.filter(|name| seen.insert(*name)).collect()
    }

    /// The fields that each of several shapes requires, where a map may have one of several.
    pub(super) fn shapes(self) -> Vec<Vec<&'static str>> {
        let required = |schema: &'static Value| -> Vec<&'static str> {
            let fields = schema.get("required").and_then(Value::as_array).into_iter().flatten();
            fields.filter_map(Value::as_str).collect()
        };
        let shapes = self.alternatives().into_iter().filter(|(_, schema)| schema.get("properties").is_some());
        let shapes: Vec<_> = shapes.map(|(_, schema)| required(schema)).collect();
        if shapes.len() > 1 { shapes } else { Vec::new() }
    }

    /// Whether a field of this place must be given. Defaults require nothing.
    pub(super) fn requires(self, key: &str) -> bool {
        if self.schema.get("x-stator-defaults").is_some() {
            return false;
        }
        let is_required = |schema: &Value| {
            schema.get("required").and_then(Value::as_array).is_some_and(|required| required.iter().any(|it| it == key))
        };
        // Of several shapes that a map may have, one may do without.
        let shapes = self.alternatives().into_iter().filter(|(_, schema)| schema.get("properties").is_some());
        let mut shapes = shapes.map(|(_, schema)| is_required(schema)).peekable();
        shapes.peek().is_some() && shapes.all(|required| required)
    }
}

/// The fields of a schema whose type has no order of its own. What has no description is a key of a map.
fn property_names(schema: &'static Value) -> Vec<&'static str> {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    properties.filter(|(_, field)| field.get("description").is_some()).map(|(name, _)| name.as_str()).collect()
}

fn flatten_alternatives(
    schema: &'static Value,
    name: Option<&'static str>,
    found: &mut Vec<(Option<&'static str>, &'static Value)>,
) {
    if schema.get("x-stator-defaults").is_some() {
        // A partial spec: every field of a model's, none of them required.
        if let Some((name, schema)) = SCHEMA_DEFINITIONS.get_key_value("ModelSpec") {
            found.push((Some(name.as_str()), schema));
        }
    } else if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let target = target.rsplit('/').next().unwrap_or(target);
        if let Some((name, schema)) = SCHEMA_DEFINITIONS.get_key_value(target) {
            flatten_alternatives(schema, Some(name.as_str()), found);
        }
    } else if let Some(Value::Array(branches)) = schema.get("anyOf") {
        for branch in branches {
            flatten_alternatives(branch, None, found);
        }
    } else if let Some(branches) = schema.get("oneOf").and_then(Value::as_array)
        && branches.iter().all(|branch| branch.get("properties").is_some())
    {
        for branch in branches {
            flatten_alternatives(branch, None, found);
        }
    } else if schema.get("type") != Some(&Value::String("null".to_owned())) {
        found.push((name, schema));
    }
}

/// The names that a struct's `Deserialize` asks for, which serde's derive lists in the order of declaration.
fn struct_field_names<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut fields: &'static [&'static str] = &[];
    // Always ends in an error: all that is wanted of it is the list.
    let _ = T::deserialize(FieldNameProbe(&mut fields));
    fields
}

/// Answers the first question of a struct's `Deserialize` and then stops it.
struct FieldNameProbe<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNameProbe<'_> {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        Err(de::Error::custom("the names are enough"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_struct_has_an_order_that_names_all_its_fields() {
        for (name, schema) in SCHEMA_DEFINITIONS.iter() {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else { continue };
            let declared: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
            let ordered: BTreeSet<&str> = FIELD_ORDER
                .get(name.as_str())
                .unwrap_or_else(|| panic!("{name} has no order"))
                .iter()
                .copied()
                .collect();
            assert_eq!(ordered, declared, "{name}");
        }
        assert!(
            FIELD_ORDER.keys().all(|name| SCHEMA_DEFINITIONS.contains_key(*name)),
            "the order names a type that is gone"
        );
    }

    #[test]
    fn the_order_is_that_of_the_declaration() {
        assert_eq!(FieldSchema::root(DocumentKind::Model).field_names(), ["apiVersion", "kind", "metadata", "spec"]);
        let serving = FieldSchema::root(DocumentKind::Model).field("spec").unwrap().field("serving").unwrap();
        assert_eq!(serving.field_names(), ["frontend", "worker", "prefill", "decode", "headless"]);
    }

    #[test]
    fn defaults_have_the_fields_of_a_spec() {
        let defaults = FieldSchema::root(DocumentKind::Repository).field("spec").unwrap().field("defaults").unwrap();
        assert_eq!(defaults.field("engine").unwrap().alternatives().len(), 1);
        assert!(!defaults.requires("engine"));
        assert!(FieldSchema::root(DocumentKind::Model).field("spec").unwrap().requires("engine"));
    }

    #[test]
    fn a_free_map_has_no_order() {
        let spec = FieldSchema::root(DocumentKind::Model).field("spec").unwrap();
        assert!(spec.field("env").unwrap().field_names().is_empty());
        let planner = spec.field("components").unwrap().field("planner").unwrap();
        assert_eq!(planner.field_names().first(), Some(&"type"));
        assert!(planner.field("config").unwrap().field_names().is_empty());
    }
}
