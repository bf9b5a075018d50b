//! Small maps and lists on one line each, as a person writes them.

use super::FormatError;
use super::layout::{LayoutContent, LayoutNode, parse_layout};
use std::ops::Range;

/// The widest line that a map or list is put on.
const MAX_WIDTH: usize = 118;
/// How deep what stands on one line may nest.
const MAX_NESTING: usize = 4;
/// Fields whose entries are what a model or repository is made of: each keeps its lines, so that a change of one is a line of its own.
const PARTS: [&str; 3] = ["serving", "components", "environments"];

/// Puts each map and list below `spec` that fits there on the line of its key. Values and comments stay as they are.
///
/// # Errors
/// When the text is not YAML that stator reads.
pub fn compact_document(text: &str) -> Result<String, FormatError> {
    let parsed = parse_layout(text)?;
    let Some(root) = &parsed.root else { return Ok(text.to_owned()) };
    let mut edits = Vec::new();
    let compactor = Compactor { text, comments: parsed.comments.iter().map(|(range, _)| range.clone()).collect() };
    for (_, value) in entries(root).filter(|(key, _)| key.text() == Some("spec")) {
        compactor.visit_fields(value, &mut edits);
    }
    let mut compact = text.to_owned();
    edits.sort_by_key(|(range, _): &(Range<usize>, String)| std::cmp::Reverse(range.start));
    for (range, line) in edits {
        compact.replace_range(range, &line);
    }
    Ok(compact)
}

/// Whether a part says little enough to be on one line as a whole.
fn is_small(part: &LayoutNode) -> bool {
    const MAX_FIELDS: usize = 2;
    let is_scalar = |value: &LayoutNode| matches!(value.content, LayoutContent::Scalar { .. });
    entries(part).count() <= MAX_FIELDS
        && entries(part).all(|(key, value)| is_scalar(value) && key.text() != Some("namespace"))
}

fn entries(node: &LayoutNode) -> impl Iterator<Item = (&LayoutNode, &LayoutNode)> {
    let entries = if let LayoutContent::Map { entries, .. } = &node.content { entries.as_slice() } else { &[] };
    entries.iter().map(|(key, value)| (key, value))
}

struct Compactor<'a> {
    text: &'a str,
    comments: Vec<Range<usize>>,
}

impl Compactor<'_> {
    /// The fields of a part of the model.
    fn visit_fields(&self, part: &LayoutNode, edits: &mut Vec<(Range<usize>, String)>) {
        for (key, value) in entries(part) {
            if key.text().is_some_and(|name| PARTS.contains(&name)) {
                for (name, component) in entries(value) {
                    if is_small(component) {
                        self.visit_value(name, component, edits);
                    } else {
                        self.visit_fields(component, edits);
                    }
                }
            } else {
                self.visit_value(key, value, edits);
            }
        }
    }

    fn visit_value(&self, key: &LayoutNode, value: &LayoutNode, edits: &mut Vec<(Range<usize>, String)>) {
        let start = key.column + self.text.get(key.bytes.clone()).map_or(0, |key| key.trim_end().chars().count()) + 2;
        if let Some(line) = self.flow_of(value).filter(|line| start + line.chars().count() <= MAX_WIDTH)
            && !self.has_comment(key.bytes.end, value)
        {
            // From the end of the key's colon on.
            let from = key.bytes.end;
            let colon = self.text.get(from..value.bytes.start).and_then(|between| between.find(':'));
            if let Some(colon) = colon {
                edits.push((from + colon + 1..self.end_of(value), format!(" {line}")));
            }
            return;
        }
        match &value.content {
            LayoutContent::Map { entries, .. } => {
                entries.iter().for_each(|(key, value)| self.visit_value(key, value, edits));
            }
            LayoutContent::List { items } => items.iter().for_each(|item| self.visit_item(item, edits)),
            LayoutContent::Scalar { .. } => {}
        }
    }

    fn visit_item(&self, item: &LayoutNode, edits: &mut Vec<(Range<usize>, String)>) {
        if let Some(line) = self.flow_of(item).filter(|line| item.column + line.chars().count() <= MAX_WIDTH)
            && !self.has_comment(item.bytes.start, item)
        {
            edits.push((item.bytes.start..self.end_of(item), line));
            return;
        }
        match &item.content {
            LayoutContent::Map { entries, .. } => {
                entries.iter().for_each(|(key, value)| self.visit_value(key, value, edits));
            }
            LayoutContent::List { items } => items.iter().for_each(|item| self.visit_item(item, edits)),
            LayoutContent::Scalar { .. } => {}
        }
    }

    /// Where the text of a value ends; what follows a block belongs to the next.
    fn end_of(&self, value: &LayoutNode) -> usize {
        let text = self.text.get(value.bytes.clone()).unwrap_or_default();
        let last = match &value.content {
            LayoutContent::Map { entries, flow: false } => entries.last().map(|(_, last)| last),
            LayoutContent::List { items } if !text.starts_with('[') => items.last(),
            LayoutContent::Map { .. } | LayoutContent::List { .. } | LayoutContent::Scalar { .. } => None,
        };
        last.map_or(value.bytes.start + text.trim_end().len(), |last| self.end_of(last))
    }

    fn has_comment(&self, start: usize, value: &LayoutNode) -> bool {
        let end = self.end_of(value);
        self.comments.iter().any(|comment| comment.start < end && start < comment.end)
    }

    /// A map or list in flow style; `None` for what has no place on a line.
    fn flow_of(&self, node: &LayoutNode) -> Option<String> {
        match &node.content {
            LayoutContent::Scalar { .. } => None,
            LayoutContent::List { .. } | LayoutContent::Map { .. } => self.flow(node, 0),
        }
    }

    fn flow(&self, node: &LayoutNode, depth: usize) -> Option<String> {
        if depth > MAX_NESTING {
            return None;
        }
        match &node.content {
            LayoutContent::Scalar { text, plain } => scalar(text, *plain),
            LayoutContent::List { items } => {
                let items: Vec<String> = items.iter().map(|item| self.flow(item, depth + 1)).collect::<Option<_>>()?;
                Some(format!("[{}]", items.join(", ")))
            }
            LayoutContent::Map { entries, .. } => {
                let entry = |(key, value): &(LayoutNode, LayoutNode)| {
                    Some(format!("{}: {}", self.flow(key, depth + 1)?, self.flow(value, depth + 1)?))
                };
                let entries: Vec<String> = entries.iter().map(entry).collect::<Option<_>>()?;
                Some(format!("{{{}}}", entries.join(", ")))
            }
        }
    }
}

/// A scalar as it may stand in flow style: what is not plain, or would be read otherwise there, in double quotes.
fn scalar(text: &str, plain: bool) -> Option<String> {
    if text.contains(['\n', '\r']) {
        return None;
    }
    const ANYWHERE: [char; 5] = [',', '[', ']', '{', '}'];
    const AT_START: [char; 12] = ['"', '\'', '#', '&', '*', '!', '|', '>', '%', '`', '@', '?'];
    let needs_quotes = text.is_empty()
        || text.contains(ANYWHERE)
        || text.starts_with(AT_START)
        || text.contains(": ")
        || text.contains(" #")
        || text.ends_with(':');
    if plain && !needs_quotes {
        return Some(text.to_owned());
    }
    // What JSON writes, YAML reads.
    serde_json::to_string(text).ok()
}

#[cfg(test)]
mod tests {
    use super::compact_document;
    use crate::intent::format::format_document;
    use crate::intent::yaml::parse_yaml;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn value_of(text: &str) -> Option<Value> {
        Some(parse_yaml(text.as_bytes(), 0, "model.yaml").root?.to_json())
    }

    #[test]
    fn small_maps_stand_on_a_line_and_components_and_comments_stay() {
        let text = "spec:\n  secrets:\n    huggingFace: token\n  serving:\n    worker:\n      resources:\n        requests:\n          \
            cpu: \"8\"\n      # Why.\n      pod:\n        labels:\n          # Said here.\n          a: b\n  \
            weights:\n    source:\n      - uri: hf://a/b@main\n        exclude:\n          - x/*\n";
        insta::assert_snapshot!(compact_document(text).unwrap(), @r#"
        spec:
          secrets: {huggingFace: token}
          serving:
            worker:
              resources: {requests: {cpu: "8"}}
              # Why.
              pod:
                labels:
                  # Said here.
                  a: b
          weights: {source: [{uri: hf://a/b@main, exclude: [x/*]}]}
        "#);
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof!["[a-z]{1,8}", "[ -~]{0,12}", "[a-z:@#,\\[{}\"' é-]{0,10}"]
    }

    proptest! {
        /// Whatever stands there, it says the same on one line, and formats to itself.
        #[test]
        fn what_a_document_says_stays(
            env in prop::collection::btree_map("[A-Z]{1,5}", text(), 0..4),
            list in prop::collection::vec(text(), 0..4),
        ) {
            let document = json!({"spec": {"env": env, "serving": {"worker": {"args": list, "pod": {"volumes": [{"a": list}]}}}}});
            let written = serde_saphyr::to_string(&document).unwrap();
            let compact = compact_document(&written).unwrap();
            prop_assert_eq!(value_of(&compact), value_of(&written), "{}", compact);
            if let Ok(formatted) = format_document(&compact) {
                prop_assert_eq!(value_of(&formatted), value_of(&written));
            }
        }
    }
}
