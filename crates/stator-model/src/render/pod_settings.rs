//! What an intent says of a component's pods (`pod`), as a partial pod template.

use crate::intent::model::PodSettings;
use serde_json::{Map, Value, json};
use stator_core::dynamo::registry::MAIN_CONTAINER;
use stator_core::dynamo::v1beta1::to_value;

/// The fields of `pod` that are the container's, with their names there.
const OF_CONTAINER: [(&str, &str); 3] = [
    ("containerSecurityContext", "securityContext"),
    ("imagePullPolicy", "imagePullPolicy"),
    ("volumeMounts", "volumeMounts"),
];
/// The fields of `pod` that are metadata.
const OF_METADATA: [&str; 2] = ["annotations", "labels"];

/// The partial pod template that the fields stand for.
pub(super) fn partial_template(settings: &PodSettings) -> Map<String, Value> {
    let (mut metadata, mut spec, mut main) = (Map::new(), Map::new(), Map::new());
    // A struct of ours is a map.
    for (field, value) in to_value(settings).as_object().cloned().unwrap_or_default() {
        if let Some((_, name)) = OF_CONTAINER.iter().find(|(own, _)| *own == field) {
            main.insert((*name).to_owned(), value);
        } else if OF_METADATA.contains(&field.as_str()) {
            metadata.insert(field, value);
        } else {
            spec.insert(field, value);
        }
    }
    let claims: Vec<Value> =
        settings.resource_claims.iter().filter_map(|claim| Some(json!({"name": claim.get("name")?}))).collect();
    if !claims.is_empty() {
        main.insert("resources".to_owned(), json!({"claims": claims}));
    }
    if !main.is_empty() {
        main.insert("name".to_owned(), MAIN_CONTAINER.into());
        spec.insert("containers".to_owned(), json!([main]));
    }
    let mut template = Map::new();
    for (field, map) in [("metadata", metadata), ("spec", spec)] {
        if !map.is_empty() {
            template.insert(field.to_owned(), Value::Object(map));
        }
    }
    template
}
