//! Where the fields of a document stand in its text.

use crate::intent::yaml::{self, YamlNode, YamlValue};
use stator_core::object::{FieldPath, PathSegment};
use std::sync::OnceLock;

/// The text of one document. Its places are looked for when the first of them is asked for.
#[derive(Debug)]
pub struct ManifestSourceMap {
    text: String,
    /// The line of its file that it starts on.
    start: u32,
    root: OnceLock<Option<YamlNode>>,
}

impl ManifestSourceMap {
    /// A document's text, and the line of its file that it starts on.
    pub fn new(text: &str, start: u32) -> Self {
        Self { text: text.to_owned(), start, root: OnceLock::new() }
    }

    /// Line and column of a field of an item of lists, or of the nearest above it that was written. None where a place
    /// says nothing (all in one line), and for texts that an intent's reader does not take whole (aliases, a megabyte).
    pub fn place(&self, within: &[usize], path: &FieldPath) -> Option<(u32, u32)> {
        let read = || {
            let lines = self.text.lines().filter(|line| !line.trim().is_empty()).nth(1).is_some();
            lines.then(|| yaml::parse_yaml(self.text.as_bytes(), 0, "").root).flatten()
        };
        let mut node = self.root.get_or_init(read).as_ref()?;
        for index in within {
            node = items(node.get("items")?).get(*index)?;
        }
        let mut span = node.span;
        for step in &path.0 {
            let below = match step {
                PathSegment::Field(name) => node.entry(name).map(|entry| (entry.key_span, &entry.value)),
                PathSegment::Index(index) => items(node).get(*index).map(|item| (item.span, item)),
                PathSegment::Key(keys) => {
                    let is = |item: &&YamlNode| {
                        keys.iter().all(|(name, wanted)| {
                            item.get(name).and_then(YamlNode::as_str) == Some(wanted.to_string().as_str())
                        })
                    };
                    items(node).iter().find(is).map(|item| (item.span, item))
                }
                PathSegment::Item(_) => None,
            };
            let Some((at, next)) = below else { break };
            (span, node) = (at, next);
        }
        Some((self.start.saturating_add(span.line.saturating_sub(1)), span.column))
    }
}

fn items(node: &YamlNode) -> &[YamlNode] {
    match &node.value {
        YamlValue::List(items) => items,
        YamlValue::Invalid | YamlValue::Bool(_) | YamlValue::Number(_) | YamlValue::Text(_) | YamlValue::Map(_) => &[],
    }
}
