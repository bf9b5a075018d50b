//! Conversion against the operator's own.

mod laws;

use super::*;
use crate::dynamo::equivalence;
use crate::object::Object;
use std::path::Path;

/// One line of `tests/data/dynamo/oracle/manifests.jsonl`, or of `recipes.jsonl` beside it.
#[derive(serde::Deserialize)]
struct Verdict {
    file: String,
    kind: String,
    name: String,
    version: String,
    v1beta1: Option<Value>,
}

/// Where the verdicts of a release's operator are.
fn folder(release: Release) -> std::path::PathBuf {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/dynamo"));
    if release == Release::V1_2 { root.to_owned() } else { root.join(release.as_str()) }
}

fn verdicts(release: Release) -> Vec<Verdict> {
    let read = |name: &str| fs_err::read_to_string(folder(release).join(format!("oracle/{name}.jsonl"))).unwrap();
    let texts = [read("manifests"), read("recipes")];
    texts.iter().flat_map(|text| text.lines()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The canonical graphs are the same for every release, and stand beside the oldest one's verdicts.
fn source(verdict: &Verdict, release: Release) -> Value {
    let of = if verdict.file.starts_with("canonical/") { Release::V1_2 } else { release };
    let text = fs_err::read_to_string(folder(of).join(&verdict.file)).unwrap();
    let is_it = |document: &Value| document["kind"] == verdict.kind && document["metadata"]["name"] == verdict.name;
    documents(&text).into_iter().find(is_it).unwrap()
}

/// By the oldest release, where nothing depends on that.
fn convert(document: &Value) -> Result<ConvertedDocument, ConversionError> {
    super::convert(document, Release::V1_2)
}

fn documents(text: &str) -> Vec<Value> {
    let options = serde_saphyr::options! { emit_comments: false };
    serde_saphyr::from_multiple_with_options(text, options).unwrap()
}

#[test]
fn every_upstream_manifest_becomes_what_the_operator_makes_of_it() {
    let mut differing = Vec::new();
    for (release, count) in [(Release::V1_2, 141 + 36), (Release::V1_5, 116 + 83)] {
        let mut equal = 0;
        for verdict in verdicts(release) {
            let Some(expected) = &verdict.v1beta1 else { continue };
            let converted = super::convert(&source(&verdict, release), release);
            let converted = converted.unwrap_or_else(|fault| panic!("{}: {fault}", verdict.file));
            let differences = equivalence::differences(&converted.document, expected);
            equal += usize::from(differences.is_empty());
            for difference in differences {
                differing.push(format!("{release}: {} {} {difference:?}", verdict.file, verdict.version));
            }
        }
        assert!(differing.is_empty(), "{}", differing.join("\n"));
        assert_eq!(equal, count);
    }
}

#[test]
fn what_the_operator_keeps_in_its_annotation_is_kept() {
    let kept = |document: &Value| -> Option<Value> {
        let text = document.pointer("/metadata/annotations/nvidia.com~1dgd-spec")?.as_str()?.to_owned();
        Some(serde_json::from_str(&text).unwrap())
    };
    for release in [Release::V1_2, Release::V1_5] {
        for verdict in verdicts(release).iter().filter(|verdict| verdict.version == ALPHA) {
            let Some(expected) = &verdict.v1beta1 else { continue };
            let converted = super::convert(&source(verdict, release), release).unwrap().document;
            assert_eq!(kept(&converted), kept(expected), "{release}: {}", verdict.file);
        }
    }
}

/// What stays behind, as a person reads it.
fn left(document: &Value) -> String {
    let left = convert(document).unwrap().unmapped;
    left.into_iter().map(|left| format!("{} = {}\n  {}\n", left.path, left.value, left.reason)).collect()
}

fn graph(spec: &str) -> Value {
    let document = format!("{{apiVersion: {ALPHA}, kind: DynamoGraphDeployment, metadata: {{name: q}}, spec: {spec}}}");
    serde_saphyr::from_str(&document).unwrap()
}

#[test]
fn what_has_no_place_is_named_with_the_reason() {
    let document = graph(
        "{pvcs: [{name: cache, create: true, size: 1Gi}], services: {
          Frontend: {componentType: frontend, ingress: {enabled: true, host: q}, autoscaling: {enabled: true},
                     serviceName: frontend, dynamoNamespace: old, labels: {a: b}, typo: 1},
          Worker: {componentType: worker, subComponentType: main,
                   volumeMounts: [{name: cache, mountPoint: /a, useAsCompilationCache: true},
                                  {name: more, mountPoint: /b, useAsCompilationCache: true}]},
          Gone: null}}",
    );
    insta::assert_snapshot!(left(&document), @r#"
    spec.pvcs[0] = {"create":true,"name":"cache","size":"1Gi"}
      v1beta1 has no equivalent; in a model use `cache: {claim: NAME, mountPath: PATH}`, otherwise a PersistentVolumeClaim that a volume names
    spec.services.Frontend.autoscaling = {"enabled":true}
      deprecated and ignored; switch a scaling adapter on and scale that with an autoscaler or the planner
    spec.services.Frontend.dynamoNamespace = "old"
      deprecated; the Dynamo namespace follows from the graph's namespace and name
    spec.services.Frontend.ingress = {"enabled":true,"host":"q"}
      the operator still serves it; write an Ingress or an HTTPRoute to the graph's frontend service instead
    spec.services.Frontend.labels = {"a":"b"}
      a component has no labels; put them on `podTemplate.metadata`
    spec.services.Frontend.serviceName = "frontend"
      the operator takes the service's key as its name
    spec.services.Frontend.typo = 1
      v1alpha1 has no such field, and the API server drops it
    spec.services.Gone = null
      a service that is null becomes no component
    spec.services.Worker.subComponentType = "main"
      `prefill` and `decode` of a worker become its type; any other value has no meaning at v1beta1
    spec.services.Worker.volumeMounts[1].useAsCompilationCache = true
      a component has one compilation cache: the first becomes `compilationCache`
    "#);
}

#[test]
fn the_annotation_of_a_converted_graph_names_what_stayed_behind() {
    let document = graph("{pvcs: [{name: cache, create: false}], services: {Frontend: {ingress: {enabled: true}}}}");
    let converted = convert(&document).unwrap();
    let again = convert(&converted.document).unwrap();
    assert_eq!(again.document, converted.document);
    let paths = |left: &[UnmappedField]| left.iter().map(|left| left.path.to_string()).collect::<Vec<_>>();
    assert_eq!(paths(&again.unmapped), paths(&converted.unmapped));
}

/// A graph that was written at v1beta1 and read at v1alpha1: `kept` is what its annotation holds.
fn written_as_beta(kept: &Value, spec: &str) -> Value {
    let mut document = graph(spec);
    let kept = serde_json::json!({"version": 1, "spec": kept}).to_string();
    document["metadata"]["annotations"] = serde_json::json!({"nvidia.com/dgd-spec": kept});
    document
}

#[test]
fn what_a_v1beta1_graph_said_beyond_v1alpha1_comes_back() {
    let kept = serde_json::json!({"components": [
        {"name": "worker", "frontendSidecar": "front", "podTemplate": {
            "metadata": {"name": "pods"},
            "spec": {"containers": [
                {"name": "front"},
                {"name": "main", "volumeMounts": [
                    {"name": "b", "mountPath": "/b", "readOnly": true}, {"name": "a", "mountPath": "/a"}]},
            ]},
        }},
        {"name": "frontend"},
    ]});
    let alpha = "{services: {
        frontend: {componentType: frontend, replicas: 1},
        worker: {componentType: worker, volumeMounts: [{name: a, mountPoint: /a}, {name: b, mountPoint: /b}],
                 extraPodSpec: {containers: [{name: front, image: f}], mainContainer: {image: w}}}}}";
    let converted = convert(&written_as_beta(&kept, alpha)).unwrap();
    insta::assert_snapshot!(serde_saphyr::to_string(&converted.document).unwrap(), @r#"
    apiVersion: nvidia.com/v1beta1
    kind: DynamoGraphDeployment
    metadata:
      name: q
    spec:
      components:
      - frontendSidecar: front
        name: worker
        podTemplate:
          metadata:
            name: pods
          spec:
            containers:
            - image: f
              name: front
            - image: w
              name: main
              volumeMounts:
              - mountPath: /b
                name: b
                readOnly: true
              - mountPath: /a
                name: a
        type: worker
      - name: frontend
        replicas: 1
        type: frontend
    "#);
    assert_eq!(converted.unmapped, []);
}

#[test]
fn a_document_of_the_wrong_shape_is_refused_with_every_fault() {
    let document = graph("{services: {Frontend: [1], Worker: {replicas: many, envs: {a: b}}}}");
    insta::assert_snapshot!(convert(&document).unwrap_err().to_string().replace("; ", "\n"), @r#"
    `spec.services.Frontend`: expected map, found a list
    `spec.services.Worker.envs`: expected list, found a map
    `spec.services.Worker.replicas`: expected numeric (int or float), found a string
    "#);
    let pod: Value = serde_saphyr::from_str("{apiVersion: v1, kind: Pod}").unwrap();
    insta::assert_snapshot!(convert(&pod).unwrap_err(), @"Pod at v1 has no conversion: only graphs, requests, models and their parts have one");
    insta::assert_snapshot!(convert(&Value::from(1)).unwrap_err(), @"this is not a Kubernetes object: a number");
}

/// Every field that a schema declares below `spec`, with `*` for names and `[]` for items.
fn declared(schema: &Value, path: &str, found: &mut Vec<String>) {
    found.push(path.to_owned());
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        declared(field, &format!("{path}.{name}"), found);
    }
    if schema["additionalProperties"].is_object() {
        declared(&schema["additionalProperties"], &format!("{path}.*"), found);
    }
    if schema["items"].is_object() {
        declared(&schema["items"], &format!("{path}[]"), found);
    }
}

#[test]
fn every_field_that_v1alpha1_declares_has_a_rule() {
    for (file, kind) in [
        ("dynamographdeployments", "DynamoGraphDeployment"),
        ("dynamographdeploymentrequests", "DynamoGraphDeploymentRequest"),
        ("dynamographdeploymentscalingadapters", "DynamoGraphDeploymentScalingAdapter"),
    ] {
        let path = format!("{}/crds/dynamo/1.2/nvidia.com_{file}.yaml", concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let crd = documents(&fs_err::read_to_string(path).unwrap()).swap_remove(0);
        let versions = crd["spec"]["versions"].as_array().unwrap();
        let alpha = versions.iter().find(|version| version["name"] == "v1alpha1").unwrap();
        let mut paths = Vec::new();
        declared(&alpha["schema"]["openAPIV3Schema"]["properties"]["spec"], "spec", &mut paths);
        let rules: Vec<&str> =
            field_mappings::ALL.iter().filter(|mapping| mapping.kind == kind).map(|rule| rule.path).collect();
        let below = |path: &str, rule: &str| {
            path.strip_prefix(rule).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        // A service is no field to speak for what is in it: each of its own fields needs a rule.
        let speaks = |rule: &&&str| !["spec.services.*"].contains(*rule);
        let missing: Vec<&String> = paths
            .iter()
            .filter(|path| !rules.contains(&path.as_str()))
            .filter(|path| !rules.iter().filter(speaks).any(|rule| below(path, rule)))
            // What only holds fields that have rules of their own.
            .filter(|path| !rules.iter().any(|rule| below(rule, path)))
            .collect();
        assert!(missing.is_empty(), "{kind}: no rule says what becomes of {missing:?}");
        let stale: Vec<&&str> = rules
            .iter()
            .filter(|rule| !rule.starts_with("spec.profilingConfig.config."))
            .filter(|rule| !paths.iter().any(|path| path == *rule))
            .collect();
        assert!(stale.is_empty(), "{kind}: rules for fields that v1alpha1 does not declare: {stale:?}");
    }
}

#[test]
fn a_request_that_only_places_its_profiler_is_one_that_an_api_server_takes() {
    let document = serde_saphyr::from_str::<Value>(
        "{apiVersion: nvidia.com/v1alpha1, kind: DynamoGraphDeploymentRequest, metadata: {name: q, namespace: prod}, spec: {model: m, \
         backend: vllm, profilingConfig: {profilerImage: 'a/b:1.2.0', tolerations: [{operator: Exists}], nodeSelector: {a: b}}}}",
    );
    let object = Object::from_value(convert(&document.unwrap()).unwrap().document).unwrap();
    assert_eq!(crate::dynamo::admission::check_object(&object, &crate::dynamo::admission::Platform::default()), []);
}
