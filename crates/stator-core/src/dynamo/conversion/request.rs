//! DynamoGraphDeploymentRequest: v1alpha1 has most of it in one free-form map, `profilingConfig.config`.
//!
//! Source: `dynamographdeploymentrequest_conversion.go` of the operator, whose own comments are the mapping table. Of the
//! annotations, those that every release up to 1.3 writes are written here too.

use super::container_merge::is_empty;
use super::field_mappings::LOST_IMAGE;
use super::pod::insert_map;
use super::{BETA, ConversionError, ConvertedDocument, UnmappedCollector, split_metadata};
use crate::dynamo::kinds;
use crate::object::FieldPath;
use serde_json::{Map, Value, json};

/// Annotations that keep what a v1beta1 request has no field for.
mod annotation {
    pub(super) const PROFILING_CONFIG: &str = "nvidia.com/dgdr-profiling-config";
    pub(super) const CONFIG_MAP: &str = "nvidia.com/dgdr-config-map-ref";
    pub(super) const OUTPUT_CLAIM: &str = "nvidia.com/dgdr-output-pvc";
    pub(super) const DISCOVERY: &str = "nvidia.com/dgdr-enable-gpu-discovery";
    pub(super) const OVERRIDES: &str = "nvidia.com/dgdr-deployment-overrides";
    pub(super) const BACKEND: &str = "nvidia.com/dgdr-status-backend";
    pub(super) const RESULTS: &str = "nvidia.com/dgdr-profiling-results";
    pub(super) const DEPLOYMENT: &str = "nvidia.com/dgdr-deployment-status";
}

/// What of `profilingConfig.config` has a field of its own: where it stands there, and where it goes.
const CONFIG_FIELD_MAPPINGS: &[(&[&str], &[&str], ConfigValueType)] = &[
    (&["sla", "ttft"], &["sla", "ttft"], ConfigValueType::Number),
    (&["sla", "itl"], &["sla", "itl"], ConfigValueType::Number),
    (&["sla", "optimizationType"], &["sla", "optimizationType"], ConfigValueType::Optimization),
    (&["sla", "isl"], &["workload", "isl"], ConfigValueType::Count),
    (&["sla", "osl"], &["workload", "osl"], ConfigValueType::Count),
    (&["deployment", "modelCache", "pvcName"], &["modelCache", "pvcName"], ConfigValueType::Text),
    (&["deployment", "modelCache", "modelPathInPvc"], &["modelCache", "pvcModelPath"], ConfigValueType::Text),
    (&["deployment", "modelCache", "pvcMountPath"], &["modelCache", "pvcMountPath"], ConfigValueType::Text),
    (&["planner"], &["features", "planner"], ConfigValueType::Settings),
];

/// The type that a field of the free-form map must have to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConfigValueType {
    Number,
    Count,
    Text,
    Optimization,
    Settings,
}

impl ConfigValueType {
    fn read(self, value: &Value) -> Option<Value> {
        match (self, value) {
            (Self::Number, Value::Number(_)) => Some(value.clone()),
            // A whole number, cut as the operator cuts it.
            #[expect(clippy::cast_possible_truncation, reason = "a cast from a float saturates")]
            (Self::Count, Value::Number(number)) => number.as_f64().map(|number| (number.trunc() as i32).into()),
            (Self::Text, Value::String(_)) => Some(value.clone()),
            (Self::Optimization, Value::String(text)) => {
                matches!(text.as_str(), "latency" | "throughput").then(|| value.clone())
            }
            (Self::Settings, Value::Object(settings)) => (!settings.is_empty()).then(|| value.clone()),
            (Self::Number | Self::Count | Self::Text | Self::Optimization | Self::Settings, _) => None,
        }
    }
}

/// Converts a v1alpha1 request.
pub(super) fn to_v1beta1(document: &Value) -> Result<ConvertedDocument, ConversionError> {
    let empty = Map::new();
    let alpha = document.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    let given = |fields: &Map<String, Value>, name: &str| fields.get(name).filter(|value| !value.is_null()).cloned();
    let map = |name: &str| alpha.get(name).and_then(Value::as_object).unwrap_or(&empty);
    let (profiling, overrides) = (map("profilingConfig"), map("deploymentOverrides"));
    let mut aside = UnmappedCollector::default();
    let mut kept = Map::new();
    let mut spec = Map::new();

    for name in ["model", "backend"] {
        if let Some(value) = given(alpha, name).filter(|value| !is_empty(value)) {
            spec.insert(name.to_owned(), value);
        }
    }
    // The defaults differ: off at v1alpha1, on at v1beta1.
    spec.insert("autoApply".to_owned(), given(alpha, "autoApply").unwrap_or_else(|| false.into()));
    let path = FieldPath::from_fields(["spec"]);
    let images = [given(profiling, "profilerImage"), given(overrides, "workersImage")];
    let mut images = images.into_iter().enumerate().filter_map(|(place, image)| Some((place, image?)));
    if let Some((place, image)) = images.next() {
        spec.insert("image".to_owned(), image);
        if let (0, Some((_, workers))) = (place, images.next()) {
            let path = path.field("deploymentOverrides").field("workersImage");
            aside.record_with_reason(path, workers, LOST_IMAGE);
        }
    }
    if alpha.get("useMocker") == Some(&Value::Bool(true)) {
        insert_at(&mut spec, &["features", "mocker"], json!({"enabled": true}));
    }
    if let Some(config) = profiling.get("config").filter(|config| !is_empty(config)) {
        for (from, to, takes) in CONFIG_FIELD_MAPPINGS {
            let found = from.iter().try_fold(config, |value, name| value.get(name));
            if let Some(value) = found.and_then(|value| takes.read(value)) {
                insert_at(&mut spec, to, value);
            }
        }
        kept.insert(annotation::PROFILING_CONFIG.to_owned(), config.to_string().into());
        record_unmapped_config(config, &path.field("profilingConfig").field("config"), &mut Vec::new(), &mut aside);
    }
    let job = ["overrides", "profilingJob", "template", "spec"];
    if let Some(resources) = given(profiling, "resources") {
        insert_at(
            &mut spec,
            &[job.as_slice(), &["containers"]].concat(),
            json!([{"name": "", "resources": resources}]),
        );
    }
    for name in ["tolerations", "nodeSelector"] {
        if let Some(value) = given(profiling, name).filter(|value| !is_empty(value)) {
            insert_at(&mut spec, &[job.as_slice(), &[name]].concat(), value);
        }
    }
    let pod = spec.get_mut("overrides").and_then(|overrides| overrides.pointer_mut("/profilingJob/template/spec"));
    if let Some(Value::Object(pod)) = pod {
        // By its schema a pod has a list of containers, and here nothing is said of any.
        pod.entry("containers").or_insert_with(|| json!([]));
    }
    for (name, key) in [("configMapRef", annotation::CONFIG_MAP), ("outputPVC", annotation::OUTPUT_CLAIM)] {
        if let Some(value) = given(profiling, name).filter(|value| !is_empty(value)) {
            kept.insert(key.to_owned(), text(&value).into());
            aside.record(&format!("spec.profilingConfig.{name}"), path.field("profilingConfig").field(name), value);
        }
    }
    if let Some(value) = given(alpha, "enableGpuDiscovery") {
        if value == Value::Bool(true) {
            kept.insert(annotation::DISCOVERY.to_owned(), "true".into());
        }
        aside.record("spec.enableGpuDiscovery", path.field("enableGpuDiscovery"), value);
    }
    let mut renamed = overrides.clone();
    renamed.retain(|name, value| name != "workersImage" && !is_empty(value));
    if !renamed.is_empty() {
        kept.insert(annotation::OVERRIDES.to_owned(), Value::Object(renamed.clone()).to_string().into());
    }
    for (name, value) in renamed {
        let path = path.field("deploymentOverrides").field(name.clone());
        aside.record(&format!("spec.deploymentOverrides.{name}"), path, value);
    }
    let unknown = alpha.iter().filter(|(name, value)| !KNOWN_SPEC_FIELDS.contains(&name.as_str()) && !value.is_null());
    for (name, value) in unknown {
        aside.record(&format!("spec.{name}"), path.field(name.clone()), value.clone());
    }

    let status = convert_status(document.get("status"), &mut kept);
    let (mut metadata, mut annotations) = split_metadata(document);
    annotations.extend(kept);
    insert_map(&mut metadata, "annotations", &annotations);
    Ok(aside
        .finish(json!({"apiVersion": BETA, "kind": kinds::REQUEST.kind, "metadata": metadata, "spec": spec}), status))
}

/// The fields of a v1alpha1 spec.
const KNOWN_SPEC_FIELDS: &[&str] =
    &["autoApply", "backend", "deploymentOverrides", "enableGpuDiscovery", "model", "profilingConfig", "useMocker"];

/// What of the free-form map has no field, leaf by leaf.
fn record_unmapped_config<'a>(
    config: &'a Value,
    path: &FieldPath,
    at: &mut Vec<&'a str>,
    aside: &mut UnmappedCollector,
) {
    let rule = CONFIG_FIELD_MAPPINGS.iter().find(|(from, ..)| *from == at.as_slice());
    match (rule, config) {
        (Some((.., takes)), value) if takes.read(value).is_some() => {}
        (None, Value::Object(fields)) if CONFIG_FIELD_MAPPINGS.iter().any(|(from, ..)| from.starts_with(at)) => {
            for (name, value) in fields {
                at.push(name);
                record_unmapped_config(value, &path.field(name.clone()), at, aside);
                at.pop();
            }
        }
        (_, value) => aside.record("spec.profilingConfig.config", path.clone(), value.clone()),
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Sets a field below maps that are made on the way.
fn insert_at(fields: &mut Map<String, Value>, path: &[&str], value: Value) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut place = fields;
    for name in parents {
        let next = place.entry(*name).or_insert_with(|| json!({}));
        let Value::Object(next) = next else { return };
        place = next;
    }
    place.insert((*last).to_owned(), value);
}

/// v1alpha1 has no `Deployed`: it is `Ready` with a deployment that was created.
fn convert_status(status: Option<&Value>, kept: &mut Map<String, Value>) -> Option<Map<String, Value>> {
    let alpha = status?.as_object()?;
    let word = |name: &str| alpha.get(name).and_then(Value::as_str).unwrap_or_default();
    let deployment = alpha.get("deployment").and_then(Value::as_object);
    let created = deployment.and_then(|deployment| deployment.get("created")) == Some(&Value::Bool(true));
    let phase = match word("state") {
        "Profiling" => "Profiling",
        "Ready" if created => "Deployed",
        "Ready" | "DeploymentDeleted" => "Ready",
        "Deploying" => "Deploying",
        "Failed" => "Failed",
        _ => "Pending",
    };
    let mut beta = Map::from_iter([("phase".to_owned(), phase.into())]);
    for name in ["observedGeneration", "conditions"] {
        if let Some(value) = alpha.get(name).filter(|value| !is_empty(value)) {
            beta.insert(name.to_owned(), value.clone());
        }
    }
    for (name, key) in [("backend", annotation::BACKEND), ("profilingResults", annotation::RESULTS)] {
        if !word(name).is_empty() {
            kept.insert(key.to_owned(), word(name).into());
        }
    }
    if let Some(graph) = alpha.get("generatedDeployment").filter(|graph| !graph.is_null()) {
        beta.insert("profilingResults".to_owned(), json!({"selectedConfig": graph}));
    }
    if let Some(deployment) = deployment {
        if let Some(name) = deployment.get("name").filter(|name| !is_empty(name)) {
            beta.insert("dgdName".to_owned(), name.clone());
        }
        kept.insert(annotation::DEPLOYMENT.to_owned(), Value::Object(deployment.clone()).to_string().into());
    }
    Some(beta)
}
