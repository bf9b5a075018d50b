//! Which objects a patch is for.

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

/// What a patch is for. Each field is a regular expression of a whole value.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatchTarget {
    #[serde(default)]
    group: Option<String>,
    #[serde(default)]
    version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    namespace: Option<String>,
}

/// The group, version, kind, name and namespace of an object, as far as it says them.
fn identity(object: &Value) -> [String; 5] {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let api_version = text("/apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    [group.to_owned(), version.to_owned(), text("/kind"), text("/metadata/name"), text("/metadata/namespace")]
}

/// Tells the objects that a patch is for: those of its target, or the one that it names itself.
///
/// # Errors
/// When a target is no regular expression.
pub fn matcher(patch: &Value, target: Option<&PatchTarget>) -> Result<impl Fn(&Value) -> bool + use<>, String> {
    let wanted: [Option<String>; 5] = match target {
        Some(PatchTarget { group, version, kind, name, namespace }) => {
            [group, version, kind, name, namespace].map(Clone::clone)
        }
        None => {
            let [group, version, kind, name, namespace] = identity(patch);
            let is_named = !namespace.is_empty();
            [Some(group), Some(version), Some(kind), Some(name), Some(namespace).filter(|_| is_named)]
                .map(|text| text.map(|text| regex::escape(&text)))
        }
    };
    let mut patterns = Vec::new();
    for text in wanted {
        let pattern = text.map(|text| Regex::new(&format!("^(?:{text})$"))).transpose();
        patterns.push(pattern.map_err(|error| format!("has a target that is no regular expression: {error}"))?);
    }
    Ok(move |object: &Value| {
        let own = identity(object);
        own.iter().zip(&patterns).all(|(own, pattern)| pattern.as_ref().is_none_or(|pattern| pattern.is_match(own)))
    })
}
