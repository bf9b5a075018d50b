//! The order of fields: that of their declaration, which a JSON Schema does not keep.

use crate::intent::lock::{LockMetadata, LockSpec, ModelLock};
use crate::intent::model::{
    Adapter, Cache, CompilationCache, Component, EnvFromConfigMap, EnvFromField, EnvFromResource, EnvFromSecret,
    Frontend, GraphVariable, Hardware, Manifest, Metadata, Model, ModelRollout, ModelSpec, MountedFile, Override,
    OverrideTarget, PodSettings, Probes, Resources, Rollout, Route, RouteCanary, RouteGateway, ScalingBounds, Secrets,
    SelectedWeights, Serving, Sla, SlaWorker, Weights, WeightsClaim, Worker, Workload,
};
use crate::intent::repository::{
    Defaults, Environment, Guards, PolicyRule, Prices, Repository, RepositoryMetadata, RepositorySpec,
};
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use stator_core::dynamo::admission::Platform;
use std::collections::BTreeMap;
use std::sync::LazyLock;

macro_rules! field_order {
    ($($name:ident)*) => { BTreeMap::from([$((stringify!($name), struct_field_names::<$name>())),*]) };
}

/// The field names of every struct, in the order of declaration.
static FIELD_ORDER: LazyLock<BTreeMap<&'static str, &'static [&'static str]>> = LazyLock::new(|| {
    field_order! {
        Adapter Cache Component Defaults EnvFromConfigMap CompilationCache EnvFromField EnvFromResource GraphVariable
        EnvFromSecret Environment Frontend Guards Platform Hardware LockMetadata LockSpec Metadata Model ModelLock
        ModelSpec Route RouteCanary RouteGateway Weights SelectedWeights WeightsClaim Manifest MountedFile Override
        OverrideTarget PolicyRule Prices PodSettings Probes Repository RepositoryMetadata RepositorySpec Resources
        Rollout ModelRollout ScalingBounds Secrets Serving Sla SlaWorker Worker Workload
    }
});

/// The fields of a type in the order of declaration. `None` for what is no struct of stator's documents.
pub(super) fn declared_order(type_name: &str) -> Option<&'static [&'static str]> {
    FIELD_ORDER.get(type_name).copied()
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
    use crate::intent::schema::{SchemaKind, document_schema};
    use serde_json::Value;
    use std::collections::BTreeSet;

    #[test]
    fn every_struct_has_an_order_that_names_all_its_fields() {
        let mut definitions = BTreeMap::new();
        for kind in SchemaKind::ALL {
            let schema = document_schema(kind);
            if kind != SchemaKind::Overlay {
                definitions.insert(schema["title"].as_str().unwrap().to_owned(), schema.clone());
            }
            let below = schema["definitions"].as_object().unwrap().clone();
            definitions.extend(below);
        }
        for (name, schema) in &definitions {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else { continue };
            let declared: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
            let order = declared_order(name).unwrap_or_else(|| panic!("{name} has no order"));
            assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), declared, "{name}");
        }
        let gone: Vec<_> = FIELD_ORDER.keys().filter(|name| !definitions.contains_key(**name)).collect();
        assert!(gone.is_empty(), "the order names types that are gone: {gone:?}");
    }
}
