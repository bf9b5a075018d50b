//! An object as the text of its file, and back.
//!
//! The last line holds two digests: of the text above it, which tells a hand edit from stator's own writing, and of
//! the object outside `metadata` and `status`, which tells whether such an edit raises the generation.

use crate::object::{Object, ObjectRef, json_type};
use serde_json::Value;
use sha2::{Digest, Sha256};

const NOTE: &str = "# Kept by stator. Edit or delete at will: it counts as a change made in the cluster.\n";
const MARK: &str = "# digest: ";

/// What a file holds.
#[derive(Debug, PartialEq)]
pub(super) struct Content {
    /// The object.
    pub(super) object: Object,
    /// `None` when the text is as stator wrote it.
    pub(super) edit: Option<Edit>,
}

/// What is known of a hand edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// Only `metadata` or `status` changed.
    Beside,
    /// Something else changed, or nobody can tell.
    Main,
}

/// The text of an object's file.
pub(super) fn encode(object: &Object) -> Result<String, String> {
    let mut text = serde_saphyr::to_string(object.value()).map_err(|error| error.to_string())?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(NOTE);
    let line = format!("{MARK}{} {}\n", digest(text.as_bytes()), main_digest(object.value()));
    text.push_str(&line);
    Ok(text)
}

/// Reads a file's text; the error says what is wrong with it and what to do.
pub(super) fn decode(bytes: &[u8], reference: &ObjectRef) -> Result<Content, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8 text".to_owned())?;
    let value: Value = serde_saphyr::from_str(text).map_err(|error| {
        let place = error.location().map(|at| format!("line {}, column {}: ", at.line(), at.column()));
        let error = error.without_snippet().to_string();
        format!("{}not readable as YAML: {}", place.unwrap_or_default(), error.lines().next().unwrap_or_default())
    })?;
    let object = Object::from_value(value).map_err(|error| error.to_string())?;
    check(&object, reference)?;
    let edit = match text.trim_end().rsplit_once('\n') {
        Some((_, last)) if last.starts_with(MARK) => {
            let above = &text[..text.trim_end().len() - last.len()];
            let mut digests = last[MARK.len()..].split(' ');
            let (whole, main) = (digests.next().unwrap_or_default(), digests.next().unwrap_or_default());
            if whole == digest(above.as_bytes()) {
                None
            } else if main == main_digest(object.value()) {
                Some(Edit::Beside)
            } else {
                Some(Edit::Main)
            }
        }
        Some(_) | None => Some(Edit::Main),
    };
    Ok(Content { object, edit })
}

/// What must hold of every object in the folder, whoever wrote it last.
fn check(object: &Object, reference: &ObjectRef) -> Result<(), String> {
    let found = object.reference();
    for (field, found, want) in [
        ("apiVersion", &found.api_version, &reference.api_version),
        ("kind", &found.kind, &reference.kind),
        ("metadata.namespace", &found.namespace, &reference.namespace),
        ("metadata.name", &found.name, &reference.name),
    ] {
        if found != want {
            return Err(format!("`{field}` is `{found}`, but the file's place says `{want}`"));
        }
    }
    match object.uid() {
        Some(uid) if !uid.is_empty() => {}
        Some(_) | None => return Err("`metadata.uid` is missing".to_owned()),
    }
    // The bound leaves room to count on, whatever a person writes here.
    if object.resource_version().and_then(|text| text.parse::<u64>().ok()).is_none_or(|number| number > 1 << 53) {
        return Err("`metadata.resourceVersion` is missing or is not a number in quotes".to_owned());
    }
    let metadata = object.value().get("metadata").unwrap_or(&Value::Null);
    let shape = |field: &str, good: fn(&Value) -> bool, want: &str| match metadata.get(field) {
        Some(value) if !good(value) => Err(format!("`metadata.{field}` must be {want}, found {}", json_type(value))),
        Some(_) | None => Ok(()),
    };
    let texts = |value: &Value| value.as_object().is_some_and(|map| map.values().all(Value::is_string));
    shape("generation", |v| v.as_i64().is_some_and(|n| n > 0), "a whole number above 0")?;
    shape("labels", texts, "a map of strings")?;
    shape("annotations", texts, "a map of strings")?;
    shape("finalizers", |v| v.as_array().is_some_and(|l| l.iter().all(Value::is_string)), "a list of strings")?;
    shape("deletionTimestamp", Value::is_string, "a string")?;
    shape("creationTimestamp", Value::is_string, "a string")?;
    shape(
        "managedFields",
        |v| v.as_array().is_some_and(|l| l.iter().all(is_managed_entry)),
        "a list of entries, each with manager, operation, fieldsType and fieldsV1",
    )
}

fn is_managed_entry(entry: &Value) -> bool {
    let text = |field: &str| entry.get(field).and_then(Value::as_str);
    text("manager").is_some()
        && matches!(text("operation"), Some("Apply" | "Update"))
        && text("fieldsType") == Some("FieldsV1")
        && entry.get("fieldsV1").is_some_and(Value::is_object)
}

fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Digest of everything outside `metadata` and `status`. Map keys are sorted, so equal values have equal text.
fn main_digest(value: &Value) -> String {
    let mut hasher = Sha256::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        if key != "metadata" && key != "status" {
            hasher.update(key.as_bytes());
            hasher.update([0]);
            hasher.update(value.to_string().as_bytes());
            hasher.update([0]);
        }
    }
    hex::encode(hasher.finalize())
}
