//! The data of one Kubernetes `Secret`: kept in memory that is wiped, and in nothing that can be printed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::zeroize::Zeroize as _;
use secrecy::{ExposeSecret as _, SecretSlice, SecretString};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// The data of one `Secret`. Its `Debug` names the keys and no value; there is no `Display`.
#[derive(Clone)]
pub struct SecretValues {
    name: String,
    values: BTreeMap<String, SecretSlice<u8>>,
    /// The only host that it may be sent to.
    host: Option<String>,
}

/// Why a document is no usable `Secret`. Never holds a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// It has no name.
    #[error("a `Secret` without `metadata.name`; give it the name that `secretRef` has")]
    Nameless,
    /// `data` or `stringData` is not a map.
    #[error("secret `{secret}`: `{field}` is not a map from keys to text; write `{field}: {{KEY: VALUE}}`")]
    NoMap {
        /// Its name.
        secret: String,
        /// `data` or `stringData`.
        field: &'static str,
    },
    /// A value is a number, a map, a list, true or false.
    #[error("secret `{secret}`: the value of `{key}` is not text; put it into quotes")]
    NotText {
        /// Its name.
        secret: String,
        /// The key.
        key: String,
    },
    /// A value under `data` is not base64.
    #[error(
        "secret `{secret}`: the value of `{key}` under `data` is not base64; move it to `stringData`, which takes text"
    )]
    NotBase64 {
        /// Its name.
        secret: String,
        /// The key.
        key: String,
    },
}

impl SecretValues {
    /// The data of the secret of that name.
    pub fn new(name: impl Into<String>, values: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let values = values.into_iter().map(|(key, value)| (key, SecretSlice::from(value))).collect();
        Self { name: name.into(), values, host: None }
    }

    /// Reads a `Secret` document: `data`, which is base64, and over it `stringData`, as an API server merges them.
    ///
    /// # Errors
    /// Every fault of the document, in the order of its keys. See [`SecretError`].
    pub fn read(document: &Value) -> Result<Self, Vec<SecretError>> {
        let name = document.pointer("/metadata/name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let Some(name) = name else { return Err(vec![SecretError::Nameless]) };
        let mut faults = Vec::new();
        let mut values = BTreeMap::new();
        for field in ["data", "stringData"] {
            let map = match document.get(field) {
                None | Some(Value::Null) => continue,
                Some(Value::Object(map)) => map,
                Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                    faults.push(SecretError::NoMap { secret: name.to_owned(), field });
                    continue;
                }
            };
            for (key, value) in map {
                let Some(text) = value.as_str() else {
                    faults.push(SecretError::NotText { secret: name.to_owned(), key: key.clone() });
                    continue;
                };
                let bytes = if field == "data" { decode_base64(text) } else { Some(text.as_bytes().to_vec()) };
                match bytes {
                    Some(bytes) => {
                        values.insert(key.clone(), SecretSlice::from(bytes));
                    }
                    None => faults.push(SecretError::NotBase64 { secret: name.to_owned(), key: key.clone() }),
                }
            }
        }
        if faults.is_empty() { Ok(Self { name: name.to_owned(), values, host: None }) } else { Err(faults) }
    }

    /// The same, for one host alone.
    #[must_use]
    pub fn with_host(self, host: Option<String>) -> Self {
        Self { host, ..self }
    }

    /// The only host that it may be sent to, where it says.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// The secret's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bytes of a key, as they are.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.values.get(key).map(|value| value.expose_secret())
    }

    /// The text of a key without the line break that a file or `echo` leaves at its end. `None` when the key is not
    /// there, or is not UTF-8.
    pub fn text(&self, key: &str) -> Option<SecretString> {
        let text = std::str::from_utf8(self.get(key)?).ok()?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        Some(SecretString::from(text.strip_suffix('\r').unwrap_or(text)))
    }

    /// The keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// Whether both hold the same keys and values: when not, what was refused is worth trying again.
    pub fn has_same_values(&self, other: &Self) -> bool {
        self.host == other.host
            && self.values.len() == other.values.len()
            && self.values.iter().all(|(key, value)| other.get(key) == Some(value.expose_secret()))
    }
}

/// The bytes of a value under `data`. YAML's folded text has line breaks in it, which an API server takes too.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut joined: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let bytes = STANDARD.decode(&joined).ok();
    joined.zeroize();
    bytes
}

impl fmt::Debug for SecretValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretValues")
            .field("name", &self.name)
            .field("keys", &self.values.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_document_is_read_as_an_api_server_merges_it() {
        let secret = SecretValues::read(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "git"},
            "data": {"username": "bWU=", "password": "b2xk\n"}, "stringData": {"password": "new\n"},
        }))
        .unwrap();
        assert_eq!(secret.get("username"), Some(&b"me"[..]));
        assert_eq!(secret.get("password"), Some(&b"new\n"[..]));
        assert_eq!(secret.text("password").unwrap().expose_secret(), "new");
        assert_eq!(secret.keys().collect::<Vec<_>>(), ["password", "username"]);
        assert!(secret.get("token").is_none() && secret.text("token").is_none());
    }

    #[test]
    fn every_fault_is_told_and_no_value() {
        let described = |document: Value| {
            let faults = SecretValues::read(&document).unwrap_err();
            faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        let shown = described(json!({
            "metadata": {"name": "git"}, "data": {"a": "canary!", "b": 7}, "stringData": ["canary"],
        }));
        insta::assert_snapshot!(shown, @r"
        secret `git`: the value of `a` under `data` is not base64; move it to `stringData`, which takes text
        secret `git`: the value of `b` is not text; put it into quotes
        secret `git`: `stringData` is not a map from keys to text; write `stringData: {KEY: VALUE}`
        ");
        insta::assert_snapshot!(described(json!({"stringData": {"a": "canary"}})), @"a `Secret` without `metadata.name`; give it the name that `secretRef` has");
    }

    #[test]
    fn a_value_cannot_be_printed() {
        let secret = SecretValues::new("git", [("password".to_owned(), b"canary".to_vec())]);
        insta::assert_snapshot!(format!("{secret:?} {:?}", secret.text("password")), @r#"SecretValues { name: "git", keys: ["password"], .. } Some(SecretBox<str>([REDACTED]))"#);
        assert!(secret.has_same_values(&secret.clone()));
        assert!(!secret.has_same_values(&SecretValues::new("git", [("password".to_owned(), b"other".to_vec())])));
    }
}
