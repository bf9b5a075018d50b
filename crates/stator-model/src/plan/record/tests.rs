use super::{Record, custom_resource_definition};
use crate::plan::{RepositoryAddress, RepositoryOrigin, SourceIdentity};

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

/// What a record belongs to is read back; what a later version writes in a way that this one does not know is somebody's,
/// and the record is not written over.
#[test]
fn an_owner_is_read_back_and_an_unknown_one_is_somebodys() {
    let origin = RepositoryOrigin::at_address(RepositoryAddress::parse("git@git.example.com:a/b").unwrap(), "prod");
    let owner = SourceIdentity::ModelSource {
        namespace: "team-a".to_owned(),
        name: "models".to_owned(),
        uid: "0c5b".to_owned(),
        origin,
    };
    let record = Record {
        model: "llama".to_owned(),
        namespace: "prod".to_owned(),
        owner: Some(owner.clone()),
        ..Record::default()
    };
    let (object, _) = record.to_object().unwrap();
    assert_eq!(object.annotations()["stator.dev/owner"], "ModelSource team-a/models 0c5b");
    assert_eq!(object.annotations()["stator.dev/origin"], "git:git.example.com/a/b//prod");
    assert_eq!(object.labels()["stator.dev/owner-id"], owner.owner_id());
    assert_eq!(Record::from_object(&object).unwrap().owner, Some(owner));
    let later = object.map(|mut value| {
        value["metadata"]["annotations"]["stator.dev/owner"] = "Fleet a/b/c".into();
        value
    });
    let error = Record::from_object(&later.unwrap()).unwrap_err();
    assert!(error.is_foreign(), "{error}");
}
