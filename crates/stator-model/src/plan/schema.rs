//! JSON Schema of `plan -o json`, generated from the types that it is written from.

use super::Plan;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;
use stator_core::finding::Severity;

/// The JSON Schema (draft-07) of a plan.
pub fn schema() -> Value {
    SchemaSettings::draft07().for_serialize().into_generator().into_root_schema_for::<Plan>().to_value()
}

/// One fault or warning, with its place and its fix.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Finding")]
pub(super) struct FindingShape {
    /// Path from the repository's root, with `/`.
    file: String,
    /// Line, from 1; 0 when the whole file is meant.
    line: u32,
    /// Column, from 1; 0 when the whole line or file is meant.
    column: u32,
    /// Which rule it breaks.
    rule: String,
    /// How much it weighs.
    #[schemars(with = "String", extend("enum" = ["error", "warning"]))]
    severity: Severity,
    /// What was found and what is allowed.
    message: String,
    /// The fix.
    help: String,
}

/// Names one object in a cluster.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ObjectRef")]
pub(super) struct ObjectShape {
    /// `group/version`, or `v1` for the core group.
    api_version: String,
    /// The kind.
    kind: String,
    /// The namespace.
    namespace: String,
    /// The name.
    name: String,
}
