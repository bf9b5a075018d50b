use super::crd::{custom_resource_definition, rule_messages};
use super::status::{MAX_MESSAGE_LENGTH, ModelSourceStatus, bound_message};
use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crds/stator.dev_modelsources.yaml");

#[test]
fn a_whole_source_is_read_and_written_back() {
    let text = "
apiVersion: stator.dev/v1alpha1
kind: ModelSource
metadata: {name: models, namespace: default}
spec:
  url: https://git.example.com/team/models.git
  ref: {branch: main}
  path: .
  environment: staging
  interval: 1m
  secretRef: {name: git}
  forge: {type: gitea, secretRef: {name: forge}}
  webhook: {secretRef: {name: hook}}
  previews: true
  verify: {mode: Head, secretRef: {name: keys}}
  targetNamespace: models
  windows: [{kind: deny, schedule: '0 18 * * 5', duration: 62h, timeZone: Europe/Zurich}]
";
    let source: ModelSource = serde_saphyr::from_str(text).unwrap();
    assert_eq!(source.spec.reference, Reference::Branch("main".into()));
    let again: ModelSource = serde_json::from_value(serde_json::to_value(&source).unwrap()).unwrap();
    assert_eq!(again, source);
}

#[test]
fn two_revisions_at_once_are_refused() {
    let faulty: Result<Reference, _> = serde_saphyr::from_str("{branch: main, tag: v1}");
    assert!(faulty.is_err(), "{faulty:?}");
}

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

fn schema() -> Value {
    custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Every field of a schema with its path.
fn fields(schema: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    found.push((path.to_owned(), schema.clone()));
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        fields(field, &format!("{path}.{name}"), found);
    }
    if let Some(items) = schema.get("items") {
        fields(items, &format!("{path}[]"), found);
    }
}

/// What an API server asks of a definition: one type for every field, nothing by reference; and what a reader asks of it:
/// that every field is described.
#[test]
fn the_schema_is_structural_and_described() {
    let mut all = Vec::new();
    fields(&schema(), "", &mut all);
    assert!(all.len() > 100, "{}", all.len());
    for (path, field) in &all {
        assert!(field["type"].is_string(), "{path}: {field}");
        for word in
            ["$ref", "anyOf", "allOf", "oneOf", "nullable", "const", "default", "x-stator-choice", "x-stator-expected"]
        {
            assert!(field.get(word).is_none(), "{path}: {word}");
        }
        assert_ne!(field.get("additionalProperties"), Some(&json!(false)), "{path}");
        let messages = field["description"].as_str().is_some_and(|text| !text.is_empty());
        assert!(messages || [".apiVersion", ".kind", ".metadata"].contains(&path.as_str()), "{path}");
    }
}

/// Neither what a person may write nor what stator writes grows without end, so that the status of a source of 10,000
/// models is no larger than that of one, and the API server finds every rule cheap enough.
#[test]
fn every_text_and_list_is_bounded() {
    let mut all = Vec::new();
    fields(&schema(), "", &mut all);
    for (path, field) in all.iter().filter(|(path, _)| path.starts_with(".spec") || path.starts_with(".status")) {
        let bound = match field["type"].as_str().unwrap() {
            "string" => field.get("enum").or(field.get("maxLength")).or(field.get("format")),
            "array" => field.get("maxItems"),
            "object" => field.get("properties"),
            "integer" | "boolean" => continue,
            other => panic!("{path}: {other}"),
        };
        assert!(bound.is_some(), "{path}: {field}");
    }
}

#[test]
fn every_rule_is_where_it_belongs() {
    let mut all = Vec::new();
    fields(&schema(), "", &mut all);
    for (field, message) in rule_messages() {
        let path = if field.is_empty() { ".spec".to_owned() } else { format!(".spec.{field}") };
        let (_, field) = all.iter().find(|(known, _)| *known == path).unwrap();
        let rules = field["x-kubernetes-validations"].as_array().unwrap();
        assert!(rules.iter().any(|rule| rule["message"] == message), "{path}");
    }
}

/// An older stator wrote less, and a later one may write more: both are read. What cannot be read at all is nothing.
#[test]
fn a_status_of_another_version_is_read() {
    let status = |text: &str| ModelSourceStatus::read(&serde_saphyr::from_str::<Value>(text).unwrap());
    assert_eq!(status("spec: {}"), ModelSourceStatus::default());
    let later = status("status: {revision: {seen: abc, guessed: def}, models: {total: 3, purple: 1}, moods: [good]}");
    assert_eq!((later.revision.seen.as_deref(), later.models.map(|counts| counts.total)), (Some("abc"), Some(3)));
    assert_eq!(status("status: {revision: [1]}"), ModelSourceStatus::default());
    assert_eq!(status("status: broken"), ModelSourceStatus::default());
}

proptest! {
    #[test]
    fn messages_are_one_short_line(text in "\\PC{0,40}|(.|\n|\r|\u{1b}|\u{202e}){0,1500}") {
        let message = bound_message(&text);
        prop_assert!(message.chars().count() <= MAX_MESSAGE_LENGTH);
        prop_assert!(!message.chars().any(char::is_control), "{:?}", message);
        prop_assert_eq!(bound_message(&message), message);
    }
}
