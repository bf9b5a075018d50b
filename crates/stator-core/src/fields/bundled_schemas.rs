//! The schemas that come with the program.

use super::schema::StructuralSchema;
use serde_json::Value;
use std::sync::OnceLock;

struct Bundled {
    /// The release of Dynamo that it is from, empty for what is not Dynamo's.
    release: &'static str,
    api_version: &'static str,
    kind: &'static str,
    /// JSON, compressed by LZ4.
    bytes: &'static [u8],
    schema: OnceLock<Option<StructuralSchema>>,
}

impl Bundled {
    const fn new(release: &'static str, api_version: &'static str, kind: &'static str, bytes: &'static [u8]) -> Self {
        Self { release, api_version, kind, bytes, schema: OnceLock::new() }
    }

    fn schema(&'static self) -> Option<&'static StructuralSchema> {
        self.schema.get_or_init(|| self.document()?.parse(self.api_version, self.kind)).as_ref()
    }

    fn document(&self) -> Option<SchemaDocument> {
        let json = lz4_flex::decompress_size_prepended(self.bytes).ok()?;
        let mut value: Value = serde_json::from_slice(&json).ok()?;
        let status_subresource = value["status"].as_bool().unwrap_or_default();
        Some(SchemaDocument { openapi: value["schema"].take(), status_subresource })
    }
}

include!(concat!(env!("OUT_DIR"), "/schemas.rs"));

/// A schema as a definition has it, before it is read.
#[derive(Clone, Debug)]
pub struct SchemaDocument {
    /// `openAPIV3Schema`.
    pub openapi: Value,
    /// Whether `status` is written through its own endpoint only.
    pub status_subresource: bool,
}

impl SchemaDocument {
    /// The schema; `None` where the document holds none.
    pub fn parse(&self, api_version: &str, kind: &str) -> Option<StructuralSchema> {
        self.openapi
            .is_object()
            .then(|| StructuralSchema::new(api_version, kind, &self.openapi, self.status_subresource))
    }
}

/// The bundled schema of a kind at a version, of Dynamo's kinds the newest: how objects of any release merge and compare.
/// What a release or a cluster accepts is for [`crate::dynamo::release::Definitions`] to say. `None` for kinds and versions
/// that stator does not handle.
pub fn bundled_schema(api_version: &str, kind: &str) -> Option<&'static StructuralSchema> {
    newest(api_version, kind)?.schema()
}

/// Every kind and version with a bundled schema, sorted.
pub fn bundled_kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    let kinds: std::collections::BTreeSet<_> = BUNDLED.iter().map(|entry| (entry.api_version, entry.kind)).collect();
    kinds.into_iter()
}

/// The document of a kind at a version, of exactly this release of Dynamo.
pub(crate) fn bundled_document(release: &str, api_version: &str, kind: &str) -> Option<SchemaDocument> {
    let found = |entry: &&Bundled| entry.release == release && entry.api_version == api_version && entry.kind == kind;
    BUNDLED.iter().find(found)?.document()
}

fn newest(api_version: &str, kind: &str) -> Option<&'static Bundled> {
    // Sorted by their files, and so by release.
    BUNDLED.iter().rfind(|entry| entry.api_version == api_version && entry.kind == kind)
}
