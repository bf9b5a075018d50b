//! Whether a document is as its schema says: as much of JSON Schema as stator's own schemas use, and nothing passed over.

use serde_json::Value;

/// Everything that is wrong with a value, each with its place. `root` is what references lead into.
pub fn faults(root: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let mut found = Vec::new();
    check(root, schema, value, place, &mut found);
    // A field that no schema names is one that the document forgot.
    let known = properties(root, schema);
    if let (Some(known), Some(map)) = (known, value.as_object()) {
        found.extend(
            map.keys().filter(|name| !known.contains(name)).map(|name| format!("{place}.{name} is not described")),
        );
    }
    found
}

fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => resolve(root, root.pointer(reference.trim_start_matches('#')).expect("a schema")),
        None => schema,
    }
}

/// The fields that a schema names; `None` for one of a map with any names.
fn properties(root: &Value, schema: &Value) -> Option<Vec<String>> {
    let schema = resolve(root, schema);
    if schema.get("additionalProperties").is_some_and(|more| more != false) || schema.get("properties").is_none() {
        return None;
    }
    Some(schema["properties"].as_object()?.keys().cloned().collect())
}

fn check(root: &Value, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    let schema = resolve(root, schema);
    let Some(map) = schema.as_object() else { return };
    for (word, rule) in map {
        match word.as_str() {
            "type" => {
                let several = rule.as_array().map(|words| words.iter().filter_map(Value::as_str).collect());
                let words: Vec<&str> = several.unwrap_or_else(|| rule.as_str().into_iter().collect());
                if !words.iter().any(|word| is_type(value, word)) {
                    found.push(format!("{place} is {value}, and has to be {words:?}"));
                }
            }
            "enum" => {
                if !rule.as_array().unwrap().contains(value) {
                    found.push(format!("{place} is {value}, and has to be one of {rule}"));
                }
            }
            "const" => {
                if rule != value {
                    found.push(format!("{place} is {value}, and has to be {rule}"));
                }
            }
            "required" => {
                let missing = rule.as_array().unwrap().iter().filter_map(Value::as_str);
                found.extend(
                    missing.filter(|name| value.get(name).is_none()).map(|name| format!("{place}.{name} is missing")),
                );
            }
            "properties" => {
                for (name, one) in rule.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        found.extend(faults(root, one, value, &format!("{place}.{name}")));
                    }
                }
            }
            "additionalProperties" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    check(root, rule, value, &format!("{place}.{name}"), found);
                }
            }
            "items" => {
                for (at, value) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(faults(root, rule, value, &format!("{place}[{at}]")));
                }
            }
            "anyOf" | "oneOf" => {
                let fits = |one: &Value| faults(root, one, value, place).is_empty();
                if !rule.as_array().unwrap().iter().any(fits) {
                    found.push(format!("{place} is {value}, and fits none of {rule}"));
                }
            }
            "minimum" => {
                if value.as_f64() < rule.as_f64() {
                    found.push(format!("{place} is {value}, and has to be {rule} at least"));
                }
            }
            "maximum" => {
                if value.as_f64() > rule.as_f64() {
                    found.push(format!("{place} is {value}, and has to be {rule} at most"));
                }
            }
            "description" | "title" | "format" | "default" | "$defs" => {}
            other => panic!("`{other}` of {place} is not checked here"),
        }
    }
}

fn is_type(value: &Value, word: &str) -> bool {
    match word {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no type {other}"),
    }
}

#[test]
fn what_is_wrong_is_found() {
    let root = serde_json::json!({"defs": {"one": {
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string", "enum": ["a"]}, "more": {"type": "array", "items": {"type": "integer"}}},
    }}});
    let told = |value: Value| faults(&root, &serde_json::json!({"$ref": "#/defs/one"}), &value, "").join("; ");
    assert_eq!(told(serde_json::json!({"name": "a", "more": [1]})), "");
    insta::assert_snapshot!(told(serde_json::json!({"name": "b", "more": ["x"], "other": 1})), @r#".more[0] is "x", and has to be ["integer"]; .name is "b", and has to be one of ["a"]; .other is not described"#);
    insta::assert_snapshot!(told(serde_json::json!({})), @".name is missing");
}
