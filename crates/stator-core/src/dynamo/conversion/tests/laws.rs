//! What holds of every document, upstream's or not.

use crate::dynamo::conversion::*;
use proptest::prelude::*;
use serde_json::{Map, json};

/// Reads one version of a bundled CRD's schema below `spec`.
fn spec_schema(file: &str) -> Value {
    let path = format!("{}/crds/dynamo/1.2/nvidia.com_{file}.yaml", concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let crd: Value = serde_saphyr::from_str(&fs_err::read_to_string(path).unwrap()).unwrap();
    let versions = crd["spec"]["versions"].as_array().unwrap();
    let alpha = versions.iter().find(|version| version["name"] == "v1alpha1").unwrap();
    alpha["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

/// A value in which every leaf is told apart from every other.
fn filled(schema: &Value, name: &str, path: &str, next: &mut u32, marks: &mut Vec<(String, String)>) -> Value {
    *next += 1;
    let number = 1000 + *next;
    let mut mark = |text: String| {
        marks.push((path.to_owned(), text.clone()));
        text
    };
    if let Some(values) = schema["enum"].as_array() {
        return values[0].clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return if schema["pattern"].is_string() { mark(format!("{number}Mi")).into() } else { number.into() };
    }
    match schema["type"].as_str() {
        Some("string") if matches!(name, "cpu" | "memory" | "gpu" | "*custom") => mark(number.to_string()).into(),
        Some("string") => mark(format!("mark-{number}")).into(),
        Some("integer" | "number") => {
            mark(number.to_string());
            number.into()
        }
        Some("boolean") => (name != "disabled").into(),
        Some("array") => {
            let item = &schema["items"];
            json!([filled(item, name, &format!("{path}[]"), next, marks)])
        }
        _ => {
            let mut fields = Map::new();
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                fields.insert(name.clone(), filled(field, name, &format!("{path}.{name}"), next, marks));
            }
            if schema["additionalProperties"].is_object() {
                let below = if name == "custom" { "*custom" } else { "*" };
                fields.insert(
                    format!("key-{number}"),
                    filled(&schema["additionalProperties"], below, &format!("{path}.*"), next, marks),
                );
            }
            Value::Object(fields)
        }
    }
}

/// Marks that are neither in the converted document nor named as left.
fn vanished(file: &str, kind: &str, change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut marks = Vec::new();
    let mut spec = filled(&spec_schema(file), "spec", "spec", &mut 0, &mut marks);
    change(&mut spec);
    let document = json!({"apiVersion": ALPHA, "kind": kind, "metadata": {"name": "full"}, "spec": spec});
    let converted = super::convert(&document).unwrap();
    let mut text = converted.document["spec"].to_string();
    for left in &converted.unmapped {
        text.push_str(&left.value.to_string());
    }
    marks.retain(|(_, mark)| document.to_string().contains(mark) && !text.contains(mark));
    marks.into_iter().map(|(path, _)| path).collect()
}

#[test]
fn no_leaf_of_a_full_object_vanishes_in_silence() {
    // The container of a pod spec that is called `main` gives way to `mainContainer`: only one is asked for here.
    let graph = vanished("dynamographdeployments", "DynamoGraphDeployment", |_| {});
    assert_eq!(graph, [] as [&str; 0]);
    let request = vanished("dynamographdeploymentrequests", "DynamoGraphDeploymentRequest", |spec| {
        spec["profilingConfig"]["config"] = json!({
            "sla": {"ttft": 7001, "itl": 7002, "isl": 7003, "osl": 7004, "other": 7005},
            "deployment": {"modelCache": {"pvcName": "mark-7006", "modelPathInPvc": "mark-7007"}, "model": "mark-7008"},
            "planner": {"mode": "mark-7009"}, "sweep": [7010],
        });
    });
    assert_eq!(request, [] as [&str; 0]);
    let adapter = vanished("dynamographdeploymentscalingadapters", "DynamoGraphDeploymentScalingAdapter", |_| {});
    assert_eq!(adapter, [] as [&str; 0]);
}

/// Names that v1alpha1 and v1beta1 know, so that random documents get far.
const NAMES: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "annotations",
    "labels",
    "spec",
    "status",
    "services",
    "components",
    "envs",
    "env",
    "pvcs",
    "Frontend",
    "Worker",
    "componentType",
    "subComponentType",
    "resources",
    "requests",
    "limits",
    "gpu",
    "gpuType",
    "custom",
    "cpu",
    "extraPodSpec",
    "mainContainer",
    "containers",
    "volumeMounts",
    "useAsCompilationCache",
    "mountPoint",
    "sharedMemory",
    "size",
    "disabled",
    "scalingAdapter",
    "enabled",
    "frontendSidecar",
    "checkpoint",
    "failover",
    "gpuMemoryService",
    "mode",
    "replicas",
    "profilingConfig",
    "config",
    "sla",
    "isl",
    "deployment",
    "modelCache",
    "deploymentOverrides",
    "rollingUpdate",
    "updatedServices",
    "componentNames",
    "componentName",
    "dgdRef",
    "serviceName",
    "nvidia.com/dgd-spec",
    "nvidia.com/dcd-spec",
    "livenessProbe",
    "topologyConstraint",
    "topologyProfile",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..3).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec!["", "main", "prefill", "worker", "1Gi", "x", "{\"spec\":{\"components\":[]}}", "{}"])
            .prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(7, 60, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(NAMES), inner), 0..6)
                .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn any_document_converts_to_one_that_stays_or_is_refused(
        kind in prop::sample::select(vec![
            "DynamoGraphDeployment", "DynamoGraphDeploymentRequest", "DynamoGraphDeploymentScalingAdapter",
            "DynamoComponentDeployment", "DynamoModel", "Pod",
        ]),
        metadata in value(), spec in value(), status in value(), services in value(), beta in any::<bool>(),
    ) {
        let mut document = json!({"kind": kind, "metadata": metadata, "spec": spec, "status": status});
        document["apiVersion"] = if beta { BETA } else { ALPHA }.into();
        if let Some(fields) = document["spec"].as_object_mut() {
            fields.insert("services".to_owned(), json!({"Frontend": services}));
        }
        let converted = super::convert(&document);
        prop_assert_eq!(&converted, &super::convert(&document), "deterministic");
        if let Ok(converted) = converted
            && converted.document["apiVersion"] == BETA
        {
            let again = super::convert(&converted.document);
            if let Ok(again) = again {
                prop_assert_eq!(again.document, converted.document, "v1beta1 stays as it is");
            }
        }
    }
}
