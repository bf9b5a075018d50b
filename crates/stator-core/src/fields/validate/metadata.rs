//! Names, labels, annotations, finalizers and owners: the rules of every object, whatever its kind. Messages are those
//! of apimachinery.

use super::{ValidationIssue, ViolationKind};
use crate::fields::schema::SchemaNode;
use crate::object::{FieldPath, PathSegment};
use regex::Regex;
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// All annotations together, keys and values, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

const SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const KIND: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";

/// Judges an object's own metadata and that of objects embedded in it.
pub(super) fn check(root: &SchemaNode, value: &Value, create: bool, faults: &mut Vec<ValidationIssue>) {
    let metadata = value.get("metadata").and_then(Value::as_object);
    match metadata.and_then(|metadata| metadata.get("name")).and_then(Value::as_str) {
        Some("") | None if create => {
            let at = FieldPath::from_fields(["metadata", "name"]);
            faults.push(
                ValidationIssue::new(&at.0, "Required value: name or generateName is required".to_owned())
                    .of_kind(ViolationKind::MissingValue)
                    .into_blocking(),
            );
        }
        Some(_) | None => {}
    }
    walk(root, value, &mut Vec::new(), faults);
}

fn walk(node: &SchemaNode, value: &Value, path: &mut Vec<PathSegment>, faults: &mut Vec<ValidationIssue>) {
    if let Value::Object(map) = value
        && node.embedded
    {
        check_object_meta(map, path, faults);
    }
    node.for_each_child(value, path, |node, value, path| walk(node, value, path, faults));
}

fn check_object_meta(map: &Map<String, Value>, path: &[PathSegment], faults: &mut Vec<ValidationIssue>) {
    let own = path.is_empty();
    let here = FieldPath(path.to_vec());
    for name in ["apiVersion", "kind"] {
        let at = here.field(name);
        match map.get(name) {
            None => {
                let mut fault = ValidationIssue::new(&at.0, "Required value".to_owned())
                    .of_kind(ViolationKind::MissingValue)
                    .into_blocking();
                fault.checked_path = here.clone();
                faults.push(fault);
            }
            Some(Value::String(text)) if text.is_empty() => {
                faults.push(ValidationIssue::new(&at.0, "Invalid value: \"\": must not be empty".to_owned()));
            }
            Some(Value::String(text)) if name == "kind" && !matches(KIND, &text.to_lowercase(), 63) => {
                let reason = format!("may have mixed case, but should otherwise match: {KIND}");
                faults.push(ValidationIssue::invalid(&at.0, &Value::from(text.as_str()), &reason));
            }
            Some(_) => {}
        }
    }
    let Some(Value::Object(metadata)) = map.get("metadata") else { return };
    let here = here.field("metadata");
    if let Some(Value::String(name)) = metadata.get("name").filter(|name| **name != "") {
        let at = here.field("name");
        let value = Value::from(name.as_str());
        if !own {
            // What is embedded may be of any kind, so its name need only fit into a URL.
            if name == "." || name == ".." || name.contains(['/', '%']) {
                faults.push(ValidationIssue::invalid(&at.0, &value, "may not be '.', '..', or contain '/' or '%'"));
            }
        } else if name.len() > 253 {
            faults.push(ValidationIssue::invalid(&at.0, &value, "must be no more than 253 bytes"));
        } else if !matches(SUBDOMAIN, name, 253) {
            let reason = format!(
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                 must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                 '{SUBDOMAIN}')"
            );
            faults.push(ValidationIssue::invalid(&at.0, &value, &reason));
        }
    }
    if let Some(Value::String(namespace)) = metadata.get("namespace").filter(|name| **name != "")
        && !matches(LABEL, namespace, 63)
    {
        let reason = format!(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
             end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{LABEL}')"
        );
        faults.push(ValidationIssue::invalid(&here.field("namespace").0, &Value::from(namespace.as_str()), &reason));
    }
    check_labels(&here.field("labels"), metadata.get("labels"), faults);
    check_annotations(&here.field("annotations"), metadata.get("annotations"), faults);
    let finalizers = metadata.get("finalizers").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for finalizer in finalizers.iter().filter_map(Value::as_str) {
        if let Some(reason) = qualified_name_error(finalizer) {
            faults.push(ValidationIssue::invalid(&here.field("finalizers").0, &Value::from(finalizer), &reason));
        }
    }
    let owners = metadata.get("ownerReferences").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for (index, owner) in owners.iter().enumerate() {
        for name in ["apiVersion", "kind", "name", "uid"] {
            if owner.get(name).and_then(Value::as_str) == Some("") {
                let at = here.field("ownerReferences").join(PathSegment::Index(index)).field(name);
                faults.push(ValidationIssue::new(&at.0, "Invalid value: \"\": must not be empty".to_owned()));
            }
        }
    }
}

fn check_labels(at: &FieldPath, value: Option<&Value>, faults: &mut Vec<ValidationIssue>) {
    for (key, value) in value.and_then(Value::as_object).into_iter().flatten() {
        if let Some(reason) = qualified_name_error(key) {
            faults.push(ValidationIssue::invalid(&at.0, &Value::from(key.as_str()), &reason));
        }
        let Value::String(text) = value else { continue };
        if text.len() > 63 {
            faults.push(ValidationIssue::invalid(&at.0, value, "must be no more than 63 bytes"));
        } else if !matches(VALUE, text, 63) {
            let reason = format!(
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                 must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
                 used for validation is '{VALUE}')"
            );
            faults.push(ValidationIssue::invalid(&at.0, value, &reason));
        }
    }
}

fn check_annotations(at: &FieldPath, value: Option<&Value>, faults: &mut Vec<ValidationIssue>) {
    let mut size = 0_usize;
    for (key, value) in value.and_then(Value::as_object).into_iter().flatten() {
        // Keys may be written in upper case here, unlike those of labels.
        if let Some(reason) = qualified_name_error(&key.to_lowercase()) {
            faults.push(ValidationIssue::invalid(&at.0, &Value::from(key.as_str()), &reason));
        }
        size = size.saturating_add(key.len()).saturating_add(value.as_str().map_or(0, str::len));
    }
    if size > MAX_ANNOTATIONS {
        faults.push(
            ValidationIssue::new(&at.0, format!("Too long: may not be more than {MAX_ANNOTATIONS} bytes"))
                .into_blocking(),
        );
    }
}

/// Why a text is no `prefix/name`, as keys of labels are.
fn qualified_name_error(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split('/').collect();
    let (prefix, name) = match parts.as_slice() {
        [name] => (None, *name),
        [prefix, name] => (Some(*prefix), *name),
        _ => {
            return Some(format!(
                "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                 an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                 '{QUALIFIED}') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
        }
    };
    if prefix == Some("") {
        return Some("prefix part must be non-empty".to_owned());
    }
    if prefix.is_some_and(|prefix| !matches(SUBDOMAIN, prefix, 253)) {
        return Some(format!(
            "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
             and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '{SUBDOMAIN}')"
        ));
    }
    if name.is_empty() {
        return Some("name part must be non-empty".to_owned());
    }
    if name.len() > 63 {
        return Some("name part must be no more than 63 bytes".to_owned());
    }
    (!matches(QUALIFIED, name, 63)).then(|| {
        format!(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '{QUALIFIED}')"
        )
    })
}

/// True when the whole text matches one of this file's patterns and is not too long.
fn matches(pattern: &'static str, text: &str, max: usize) -> bool {
    static COMPILED: LazyLock<Vec<(&'static str, Regex)>> = LazyLock::new(|| {
        let all = [SUBDOMAIN, LABEL, QUALIFIED, VALUE, KIND].into_iter();
        all.filter_map(|pattern| Some((pattern, Regex::new(&format!("^(?:{pattern})$")).ok()?))).collect()
    });
    text.len() <= max && COMPILED.iter().any(|(known, regex)| *known == pattern && regex.is_match(text))
}
