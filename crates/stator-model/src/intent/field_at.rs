//! Which field a place in a document is: findings have a line and a column, and programs that fill in a document want the
//! field.

use super::explain::allowed_values;
use super::schema_tree::{DocumentKind, SchemaPlace};
use super::yaml::{YamlNode, YamlSpan, YamlValue, parse_yaml};

/// A field of a model, by its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldAt {
    /// As a JSON pointer: `/spec/serving/decode/gpus`.
    pub pointer: String,
    /// What stands there, where that is a scalar; for a field that nobody knows, its name.
    pub found: Option<String>,
    /// The values that it takes, or the names that are known in place of its own, where these are few.
    pub allowed: Vec<String>,
}

/// The field of a model's text at a line and a column, from 1. `None` where no field begins there.
pub fn field_at(text: &[u8], line: u32, column: u32) -> Option<FieldAt> {
    let root = parse_yaml(text, 0, "").root?;
    find(&root, Some(DocumentKind::Model.schema()), "", &|span| (span.line, span.column) == (line, column))
}

fn find(
    node: &YamlNode,
    place: Option<SchemaPlace<'_>>,
    pointer: &str,
    is_meant: &impl Fn(YamlSpan) -> bool,
) -> Option<FieldAt> {
    for entry in node.entries() {
        let pointer = format!("{pointer}/{}", escape_pointer(&entry.key));
        let child = place.and_then(|place| place.field(&entry.key));
        // A block map begins at its first key, which is the narrower place.
        if let Some(found) = find(&entry.value, child, &pointer, is_meant) {
            return Some(found);
        }
        if is_meant(entry.key_span) || is_meant(entry.value.span) {
            let names = place.map(SchemaPlace::field_names).unwrap_or_default();
            if child.is_none() && !names.is_empty() {
                let allowed = names.into_iter().map(str::to_owned).collect();
                return Some(FieldAt { pointer, found: Some(entry.key.to_string()), allowed });
            }
            return Some(field(pointer, &entry.value, child));
        }
    }
    for (at, item) in node.items().iter().enumerate() {
        let (pointer, child) = (format!("{pointer}/{at}"), place.and_then(SchemaPlace::item));
        if let Some(found) = find(item, child, &pointer, is_meant) {
            return Some(found);
        }
        if is_meant(item.span) {
            return Some(field(pointer, item, child));
        }
    }
    None
}

fn field(pointer: String, value: &YamlNode, place: Option<SchemaPlace<'_>>) -> FieldAt {
    let allowed = place.map(allowed_values).unwrap_or_default().into_iter().map(|one| one.value).collect();
    FieldAt { pointer, found: scalar_text(value), allowed }
}

/// What a scalar says.
pub fn scalar_text(node: &YamlNode) -> Option<String> {
    match &node.value {
        YamlValue::Bool(flag) => Some(flag.to_string()),
        YamlValue::Number(number) => Some(number.to_string()),
        YamlValue::Text(text) => Some(text.to_string()),
        YamlValue::Invalid | YamlValue::List(_) | YamlValue::Map(_) => None,
    }
}

/// A name as a segment of a JSON pointer (RFC 6901).
pub fn escape_pointer(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "kind: Model\nspec:\n  engine: vlm\n  serving:\n    prefil: {gpus: 1}\n    worker:\n      args: [a, b]\n      replicas: 2\n  hardware: {gpu: a10g}\n";

    fn described(line: u32, column: u32) -> String {
        match field_at(TEXT.as_bytes(), line, column) {
            Some(FieldAt { pointer, found, allowed }) => {
                format!("{pointer} {} [{}]", found.unwrap_or_default(), allowed.join(" "))
            }
            None => "none".to_owned(),
        }
    }

    #[test]
    fn a_place_leads_to_its_field() {
        assert_eq!(described(3, 11), "/spec/engine vlm [vllm sglang trtllm mocker custom auto]");
        assert_eq!(described(5, 5), "/spec/serving/prefil prefil [frontend worker prefill decode headless]");
        assert_eq!(described(7, 17), "/spec/serving/worker/args/1 b []");
        assert_eq!(described(8, 17), "/spec/serving/worker/replicas 2 []");
        assert!(described(9, 19).starts_with("/spec/hardware/gpu a10g [gb200_sxm"), "{}", described(9, 19));
        assert_eq!(described(6, 5), "/spec/serving/worker  []");
        assert_eq!(described(40, 1), "none");
        assert_eq!(field_at(b"a: [", 1, 1), None);
    }
}
