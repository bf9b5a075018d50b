use super::custom_resource_definition;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crds/stator.dev_models.yaml");

/// The file is what the types say. `STATOR_BLESS=1 cargo test` writes it anew.
#[test]
fn the_definition_is_up_to_date() {
    let mut text = "# Generated from the Rust types: STATOR_BLESS=1 cargo test\n".to_owned();
    text.push_str(&serde_saphyr::to_string(&custom_resource_definition()).unwrap());
    if std::env::var("STATOR_BLESS").is_ok_and(|value| value == "1") {
        fs_err::write(FILE, &text).unwrap();
    }
    assert!(fs_err::read_to_string(FILE).unwrap_or_default() == text, "{FILE} is old: STATOR_BLESS=1 cargo test");
}

/// What an API server asks of a definition: one type for every field, nothing by reference.
#[test]
fn the_schema_is_structural() {
    fn walk(schema: &serde_json::Value, path: &str) {
        assert!(schema["type"].is_string(), "{path}: {schema}");
        for word in ["$ref", "anyOf", "allOf", "oneOf", "nullable"] {
            assert!(schema.get(word).is_none(), "{path}: {word}");
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            walk(field, &format!("{path}.{name}"));
        }
        if let Some(items) = schema.get("items") {
            walk(items, &format!("{path}[]"));
        }
    }
    walk(&custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "");
}
