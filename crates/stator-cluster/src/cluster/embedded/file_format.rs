//! An object as the text of its file, and back.
//!
//! The last line holds two digests: of the text above it, which tells a hand edit from stator's own writing, and of
//! the object outside `metadata` and `status`, which tells whether such an edit raises the generation.

use serde_json::Value;
use sha2::{Digest, Sha256};
use stator_core::object::{Object, ObjectRef, json_type};

const FILE_NOTE: &str = "# Written by stator. You may edit or delete it: that counts as a change in the cluster.\n";
const DIGEST_PREFIX: &str = "# digest: ";

/// What a file holds.
#[derive(Debug, PartialEq)]
pub(super) struct DecodedFile {
    /// The object.
    pub(super) object: Object,
    /// `None` when the text is as stator wrote it.
    pub(super) edit: Option<ManualEdit>,
}

/// What is known of a hand edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ManualEdit {
    /// Only `metadata` or `status` changed.
    MetadataOrStatus,
    /// Something else changed, or nobody can tell.
    Main,
}

/// The text of an object's file.
pub(super) fn encode(object: &Object) -> Result<String, String> {
    let mut text = serde_saphyr::to_string(object.value()).map_err(|error| error.to_string())?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(FILE_NOTE);
    let line = format!("{DIGEST_PREFIX}{} {}\n", digest(text.as_bytes()), main_digest(object.value()));
    text.push_str(&line);
    Ok(text)
}

/// Reads a file's text; the error says what is wrong with it and what to do.
pub(super) fn decode(bytes: &[u8], reference: &ObjectRef) -> Result<DecodedFile, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8 text".to_owned())?;
    let mark = DigestLine::of(text);
    let is_ours = mark.is_some_and(|mark| mark.text_digest == digest(mark.above.as_bytes()));
    let object = Object::from_value(parse(text, is_ours)?).map_err(|error| error.to_string())?;
    check_object(&object, reference)?;
    let edit = match mark {
        Some(_) if is_ours => None,
        Some(mark) if mark.object_digest == main_digest(object.value()) => Some(ManualEdit::MetadataOrStatus),
        Some(_) | None => Some(ManualEdit::Main),
    };
    Ok(DecodedFile { object, edit })
}

/// Reads YAML. What stator wrote itself has no alias to expand, no comment to keep and no fault to show.
fn parse(text: &str, is_ours: bool) -> Result<Value, String> {
    let options = match is_ours {
        true => serde_saphyr::options! { budget: None, emit_comments: false, with_snippet: false },
        false => serde_saphyr::Options::default(),
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location().map(|at| format!("line {}, column {}: ", at.line(), at.column()));
        let error = error.without_snippet().to_string();
        format!("{}not readable as YAML: {}", place.unwrap_or_default(), error.lines().next().unwrap_or_default())
    })
}

/// The last line of a file, and the text above it.
#[derive(Clone, Copy)]
struct DigestLine<'a> {
    above: &'a str,
    text_digest: &'a str,
    object_digest: &'a str,
}

impl<'a> DigestLine<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let text = text.trim_end();
        let (above, last) = text.split_at_checked(text.rfind('\n')? + 1)?;
        let mut digests = last.strip_prefix(DIGEST_PREFIX)?.split(' ');
        Some(Self { above, text_digest: digests.next()?, object_digest: digests.next().unwrap_or_default() })
    }
}

/// What must hold of every object in the folder, whoever wrote it last.
fn check_object(object: &Object, reference: &ObjectRef) -> Result<(), String> {
    let found = object.reference();
    for (field, found, want) in [
        ("apiVersion", &found.api_version, &reference.api_version),
        ("kind", &found.kind, &reference.kind),
        ("metadata.namespace", &found.namespace, &reference.namespace),
        ("metadata.name", &found.name, &reference.name),
    ] {
        if found != want {
            return Err(format!("`{field}` is `{found}`, but the file's path requires `{want}`"));
        }
    }
    match object.uid() {
        Some(uid) if !uid.is_empty() => {}
        Some(_) | None => return Err("`metadata.uid` is missing".to_owned()),
    }
    // The bound leaves space to count on, whatever a person writes here.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn object(spec: Value) -> Object {
        Object::from_value(json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "metadata": {"name": "llama", "namespace": "prod", "uid": "u-1", "resourceVersion": "7", "generation": 1},
            "spec": spec,
        }))
        .unwrap()
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e9..1e9).prop_map(Value::from),
            // Text that YAML could take for something else, and any other.
            prop::sample::select(vec![
                "no",
                "on",
                "~",
                "null",
                "1.0",
                "0o17",
                "1e3",
                "- a",
                "a: b",
                "# c",
                "",
                " x ",
                "\t",
                "&a",
                "*a",
                "!t",
                "|",
                "=",
                "<<",
                "2026-11-21",
                "a\nb\n\n",
                "No",
                "-y",
                "--model",
                "-inf",
                "12:30",
                "a:b",
                "a:",
                "a b",
                "a - b",
                "a #b",
                "-",
                "---",
                "NaN",
                "/",
                "[a]",
                "{a}",
                "\u{feff}",
                "\u{85}",
                "{{x}}"
            ])
            .prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        scalar.prop_recursive(5, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_the_same(spec in any_value()) {
            let object = object(spec);
            let text = encode(&object).unwrap();
            prop_assert_eq!(decode(text.as_bytes(), &object.reference()), Ok(DecodedFile { object, edit: None }));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(&bytes, &object(json!({})).reference());
        }
    }

    #[test]
    fn a_file_of_an_older_stator_is_its_own_writing_still() {
        // That one had a writer of its own, which quoted more, and did not indent lists.
        let above = format!(
            "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata:\n  generation: 1\n  name: llama\n  \
             namespace: prod\n  resourceVersion: \"7\"\n  uid: u-1\nspec:\n  args:\n  - --model\n  - \"a\\nb\"\n  -\x20\
             - \"- c\"\n    - {{}}\n  \"f:x\": \"no\"\n  nothing: null\n{FILE_NOTE}"
        );
        let want = object(json!({"args": ["--model", "a\nb", ["- c", {}]], "f:x": "no", "nothing": null}));
        let text = format!("{above}{DIGEST_PREFIX}{} {}\n", digest(above.as_bytes()), main_digest(want.value()));
        assert_eq!(decode(text.as_bytes(), &want.reference()), Ok(DecodedFile { object: want, edit: None }));
    }

    #[test]
    fn a_hand_edit_is_told_from_our_own_writing() {
        let object = object(json!({"replicas": 2}));
        let text = encode(&object).unwrap();
        let edit = |from: &str, to: &str| {
            let edited = text.replace(from, to);
            assert_ne!(edited, text);
            decode(edited.as_bytes(), &object.reference()).unwrap().edit
        };
        assert_eq!(edit("replicas: 2", "replicas: 3"), Some(ManualEdit::Main));
        assert_eq!(edit("uid: u-1", "uid: u-1\n  labels: {a: b}"), Some(ManualEdit::MetadataOrStatus));
        assert_eq!(edit("replicas: 2", "replicas: 2 # two"), Some(ManualEdit::MetadataOrStatus));
        assert_eq!(edit(DIGEST_PREFIX, "# gone: "), Some(ManualEdit::Main));
    }
}
