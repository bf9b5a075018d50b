//! Documents as the text of their files: `model.yaml`, and what models share.

use super::ImportedFile;
use crate::intent::format::{compact_document, format_document};
use crate::intent::model::{Manifest, Model};
use crate::intent::yaml::{self, YamlNode, YamlValue};
use serde::Serialize;
use std::collections::BTreeMap;

/// What a comment says above everything that has no field of its own.
const UNMAPPED_COMMENT: &str = "Copied from the manifest: stator has no field for this.";

/// Why a model cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("the model cannot be written as YAML: {0}; report this with the manifest")]
pub struct WriteError(String);

/// The file that a model's other objects are written to.
pub const MANIFESTS_FILE: &str = "manifests.yaml";

/// Moves a model's other objects to a file of its folder, one document each.
///
/// # Errors
/// When the serializer refuses a value.
pub fn take_manifests(model: &mut Model) -> Result<Vec<ImportedFile>, WriteError> {
    let manifests = std::mem::take(&mut model.spec.manifests);
    if manifests.is_empty() {
        return Ok(Vec::new());
    }
    model.spec.manifests = vec![Manifest { from: Some(MANIFESTS_FILE.to_owned()), ..Manifest::default() }];
    let documents: Vec<String> = manifests.iter().map(yaml_text).collect::<Result<_, _>>()?;
    Ok(vec![ImportedFile { path: MANIFESTS_FILE.to_owned(), text: documents.join("---\n") }])
}

/// Scripts of several lines stay scripts; long lines are not folded, where a JSON text would no longer read as one.
fn yaml_text(value: &impl Serialize) -> Result<String, WriteError> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: true, folded_wrap_chars: 100_000, compact_list_indent: false };
    serde_saphyr::to_string_with_options(value, options).map_err(|error| WriteError(error.to_string()))
}

/// The text, formatted, with comments above what was not understood. `notes` are by dotted path, `head` comes first.
///
/// # Errors
/// When the serializer refuses a value.
pub fn document_yaml(
    document: &impl Serialize,
    head: &str,
    notes: &[(&'static str, String)],
) -> Result<String, WriteError> {
    let plain = yaml_text(document)?;
    let mut above: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    if let Some(root) = yaml::parse_yaml(plain.as_bytes(), 0, "model.yaml").root {
        for (path, note) in notes {
            above.entry(line_of(&root, path)).or_default().push(note.clone());
        }
        comment_unmapped(&root, &mut above);
    }
    let mut commented: String = head.lines().map(|line| format!("# {line}\n")).collect();
    for (index, line) in plain.lines().enumerate() {
        let number = u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1);
        let indent = line.len().saturating_sub(line.trim_start().len());
        for note in above.get(&number).into_iter().flatten() {
            commented.push_str(&format!("{}# {note}\n", " ".repeat(indent)));
        }
        commented.push_str(line);
        commented.push('\n');
    }
    // A style that cannot be set is no reason to lose the model.
    let styled = format_document(&commented).unwrap_or(commented);
    let compact = compact_document(&styled).ok().filter(|compact| yaml_value(compact) == yaml_value(&styled));
    Ok(compact.and_then(|compact| format_document(&compact).ok()).unwrap_or(styled))
}

/// What a text says.
fn yaml_value(text: &str) -> Option<serde_json::Value> {
    Some(yaml::parse_yaml(text.as_bytes(), 0, "model.yaml").root?.to_json())
}

/// The line of a field's key, or of the nearest above it.
fn line_of(root: &YamlNode, path: &str) -> u32 {
    let (mut node, mut line) = (root, root.span.line);
    for name in path.split('.').filter(|name| !name.is_empty()) {
        let Some(entry) = node.entry(name) else { break };
        (node, line) = (&entry.value, entry.key_span.line);
    }
    line
}

/// Notes above each `template` and the overrides.
fn comment_unmapped(root: &YamlNode, above: &mut BTreeMap<u32, Vec<String>>) {
    let Some(spec) = root.get("spec") else { return };
    let groups = ["serving", "components"].into_iter().filter_map(|group| spec.get(group));
    let components = groups.flat_map(YamlNode::entries).map(|entry| &entry.value);
    let templates = components.filter_map(|component| component.entry("template"));
    for entry in templates.chain(spec.entry("overrides")) {
        if !matches!(entry.value.value, YamlValue::Invalid) {
            above.entry(entry.key_span.line).or_default().push(UNMAPPED_COMMENT.to_owned());
        }
    }
}
