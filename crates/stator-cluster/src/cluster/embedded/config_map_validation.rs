//! The API server's own validation of a ConfigMap: the rules and the words of `ValidateConfigMap` and
//! `ValidateConfigMapUpdate` (k8s.io/kubernetes `pkg/apis/core/validation`, 1.36).

use crate::cluster::InvalidField;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use stator_core::object::FieldPath;

/// The most bytes of all values together.
const MAX_BYTES: usize = 1 << 20;
const MAX_KEY_LENGTH: usize = 253;
const KEY_SYNTAX: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                          'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const IMMUTABLE: &str = "Forbidden: field is immutable when `immutable` is set";

/// What the API server refuses of a ConfigMap that is created, or changed from `old`.
pub(super) fn validate(new: &Value, old: Option<&Value>) -> Vec<InvalidField> {
    let mut faults = Vec::new();
    if let Some(old) = old.filter(|old| old.get("immutable") == Some(&Value::Bool(true))) {
        for field in ["immutable", "data", "binaryData"] {
            if old.get(field) != new.get(field) {
                faults.push(invalid_field(&[field], IMMUTABLE));
            }
        }
    }
    let (data, binary) = (map_of(new, "data"), map_of(new, "binaryData"));
    let mut size = 0_usize;
    for (field, values) in [("data", data), ("binaryData", binary)] {
        for (key, value) in values.into_iter().flatten() {
            faults.extend(
                key_faults(key)
                    .into_iter()
                    .map(|message| invalid_field(&[field, key], format!("Invalid value: {key:?}: {message}"))),
            );
            let text = value.as_str().unwrap_or_default();
            size = size.saturating_add(if field == "data" { text.len() } else { decoded_length(text) });
        }
    }
    for key in
        data.into_iter().flatten().map(|(key, _)| key).filter(|key| binary.is_some_and(|map| map.contains_key(*key)))
    {
        faults.push(invalid_field(
            &["data", key],
            format!("Invalid value: {key:?}: duplicate of key present in binaryData"),
        ));
    }
    if size > MAX_BYTES {
        // Of the object as a whole, whose field has no name.
        let message = format!("Too long: may not be more than {MAX_BYTES} bytes");
        faults.push(InvalidField { path: FieldPath::from_fields([""]), message });
    }
    faults.sort();
    faults.dedup();
    faults
}

/// Values that are no bytes: the API server cannot even read such a ConfigMap, and says so before it looks at anything else.
pub(super) fn malformed_bytes(config_map: &Value) -> Vec<InvalidField> {
    let is_malformed =
        |value: &Value| value.as_str().is_none_or(|text| STANDARD.decode(text.replace(['\r', '\n'], "")).is_err());
    let malformed = map_of(config_map, "binaryData").into_iter().flatten().filter(|(_, value)| is_malformed(value));
    malformed.map(|(key, _)| invalid_field(&["binaryData", key], "Invalid value: not base64")).collect()
}

fn invalid_field(fields: &[&str], message: impl Into<String>) -> InvalidField {
    InvalidField { path: FieldPath::from_fields(fields.iter().copied()), message: message.into() }
}

fn map_of<'a>(config_map: &'a Value, field: &str) -> Option<&'a Map<String, Value>> {
    config_map.get(field).and_then(Value::as_object)
}

fn key_faults(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if key.len() > MAX_KEY_LENGTH {
        faults.push(format!("must be no more than {MAX_KEY_LENGTH} characters"));
    }
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        faults.push(KEY_SYNTAX.to_owned());
    }
    match key {
        "." => faults.push("must not be '.'".to_owned()),
        ".." => faults.push("must not be '..'".to_owned()),
        _ if key.starts_with("..") => faults.push("must not start with '..'".to_owned()),
        _ => {}
    }
    faults
}

fn decoded_length(text: &str) -> usize {
    STANDARD.decode(text.replace(['\r', '\n'], "")).map_or(0, |bytes| bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn judge(new: &Value, old: Option<&Value>) -> String {
        validate(new, old).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn keys_are_names_of_files() {
        assert_eq!(judge(&json!({"data": {"decode.yaml": "a: 1", "A_b-c.0": "", "...": ""}}), None).lines().count(), 1);
        for key in ["a b", "", "ä", "x/y", ".", "..", "..x"] {
            assert_ne!(judge(&json!({"data": {key: ""}}), None), "", "{key}");
        }
        assert_ne!(judge(&json!({"data": {"a".repeat(254): ""}}), None), "");
        let both = json!({"data": {"a": "b"}, "binaryData": {"a": "Yg=="}});
        insta::assert_snapshot!(judge(&both, None), @r#"data.a: Invalid value: "a": duplicate of key present in binaryData"#);
    }

    #[test]
    fn all_values_together_have_a_mebibyte() {
        let most = "x".repeat(1 << 20);
        assert_eq!(judge(&json!({"data": {"a": most}}), None), "");
        assert_ne!(judge(&json!({"data": {"a": most}, "binaryData": {"b": "Yg=="}}), None), "");
    }

    #[test]
    fn what_is_immutable_stays_and_its_labels_may_change() {
        let old = json!({"metadata": {"labels": {"a": "b"}}, "data": {"a": "b"}, "immutable": true});
        assert_eq!(judge(&json!({"metadata": {}, "data": {"a": "b"}, "immutable": true}), Some(&old)), "");
        insta::assert_snapshot!(judge(&json!({"data": {"a": "c"}}), Some(&old)), @r"
        data: Forbidden: field is immutable when `immutable` is set
        immutable: Forbidden: field is immutable when `immutable` is set
        ");
        assert_eq!(judge(&json!({"data": {"a": "c"}}), Some(&json!({"data": {"a": "b"}}))), "");
    }

    #[test]
    fn bytes_are_base64() {
        assert_eq!(malformed_bytes(&json!({"binaryData": {"a": "AP8="}})), []);
        assert_eq!(malformed_bytes(&json!({"binaryData": {"a": "not base64"}})).len(), 1);
    }
}
