//! The schemas that come with the program, parsed on first use.

use super::schema::StructuralSchema;
use serde_json::Value;
use std::sync::OnceLock;

struct Bundled {
    api_version: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
    schema: OnceLock<Option<StructuralSchema>>,
}

impl Bundled {
    const fn new(api_version: &'static str, kind: &'static str, bytes: &'static [u8]) -> Self {
        Self { api_version, kind, bytes, schema: OnceLock::new() }
    }

    fn schema(&'static self) -> Option<&'static StructuralSchema> {
        let parsed = self.schema.get_or_init(|| {
            let value: Value = serde_json::from_slice(self.bytes).ok()?;
            let status = value["status"].as_bool().unwrap_or_default();
            Some(StructuralSchema::new(self.api_version, self.kind, &value["schema"], status))
        });
        parsed.as_ref()
    }
}

include!(concat!(env!("OUT_DIR"), "/schemas.rs"));

/// The bundled schema of a kind at a version: `None` for kinds and versions that stator does not handle.
pub fn bundled_schema(api_version: &str, kind: &str) -> Option<&'static StructuralSchema> {
    BUNDLED.iter().find(|entry| entry.api_version == api_version && entry.kind == kind)?.schema()
}

/// Every kind and version with a bundled schema.
pub fn bundled_kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    BUNDLED.iter().map(|entry| (entry.api_version, entry.kind))
}
