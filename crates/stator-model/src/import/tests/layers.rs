//! Several deployments in one import: what they share, where they run, and whose the objects beside them are.

use crate::import::{ImportOptions, ImportResult, ManifestFile, import};
use serde_json::{Value, json};
use stator_core::finding::Finding;
use std::collections::BTreeMap;

/// A graph of one model with many variables.
fn graph(name: &str, namespace: Option<&str>, replicas: u32, pod: &Value) -> Value {
    let env: Vec<Value> = (0..15).map(|at| json!({"name": format!("V{at}"), "value": "v"})).collect();
    let main = json!({"name": "main", "image": "a/b:1.2.0", "command": ["python3", "-m", "dynamo.vllm"],
        "args": ["--model", "org/Some-Model-FP8"], "env": env, "volumeMounts": pod["mounts"], "envFrom": pod["envFrom"]});
    let mut graph = json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": {"name": name},
        "spec": {"components": [
            {"name": "Frontend", "type": "frontend", "podTemplate": {"spec": {"containers": [{"name": "main", "image": "a/b:1.2.0"}]}}},
            {"name": "Worker", "type": "worker", "replicas": replicas,
                "podTemplate": {"spec": {"containers": [main], "volumes": pod["volumes"]}}}]}});
    if let Some(namespace) = namespace {
        graph["metadata"]["namespace"] = namespace.into();
    }
    graph
}

/// A graph that mounts ConfigMap `cm`.
fn mounting(name: &str, namespace: Option<&str>) -> Value {
    let pod = json!({"mounts": [{"name": "config", "mountPath": "/config"}],
        "volumes": [{"name": "config", "configMap": {"name": "cm"}}]});
    graph(name, namespace, 1, &pod)
}

fn config_map(namespace: Option<&str>, data: &Value) -> Value {
    let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": data});
    if let Some(namespace) = namespace {
        map["metadata"]["namespace"] = namespace.into();
    }
    map
}

fn import_files(files: &[(&str, Vec<Value>)]) -> ImportResult {
    let text = |documents: &Vec<Value>| documents.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n");
    let files: Vec<ManifestFile> = files
        .iter()
        .map(|(file, documents)| ManifestFile { file: (*file).to_owned(), content: text(documents).into_bytes() })
        .collect();
    import(&files, ImportOptions::default())
}

fn plain(name: &str, namespace: Option<&str>, replicas: u32) -> Vec<Value> {
    vec![graph(name, namespace, replicas, &json!({}))]
}

fn paths(import: &ImportResult) -> Vec<&str> {
    let all = import.shared_files.iter().map(|file| file.path.as_str());
    let mut all: Vec<&str> = all.chain(import.models.iter().map(|model| model.path.as_str())).collect();
    all.sort_unstable();
    all
}

/// Each environment as `NAMESPACE: +INCLUDED -EXCLUDED`.
fn environments(import: &ImportResult) -> BTreeMap<&str, String> {
    let text = |one: &crate::import::ImportedEnvironment| {
        let (namespace, include, exclude) =
            (one.namespace.as_deref().unwrap_or("?"), one.include.join(" "), one.exclude.join(" "));
        format!("{namespace}: +{include} -{exclude}")
    };
    import.environments.iter().map(|one| (one.name.as_str(), text(one))).collect()
}

fn errors(import: &ImportResult) -> Vec<&str> {
    import.findings.iter().filter(|one| one.is_error()).map(|one: &Finding| one.message.as_str()).collect()
}

fn assert_whole(import: &ImportResult) {
    assert_eq!(errors(import), Vec::<&str>::new());
    assert!(import.models.iter().all(|model| model.round_trips));
}

#[test]
fn deployments_of_a_model_share_a_folder_and_those_of_another_do_not() {
    let mut other = graph("other", None, 1, &json!({}));
    other["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["args"][1] = "org/Else-7B".into();
    let mut precise = graph("precise", None, 1, &json!({}));
    precise["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["args"][1] = "org/Some-Model-NVFP4".into();
    let import = import_files(&[
        ("a.yaml", plain("a", None, 1)),
        ("b.yaml", plain("b", None, 2)),
        ("c.yaml", vec![other]),
        ("d.yaml", vec![precise]),
    ]);
    assert_whole(&import);
    assert_eq!(
        paths(&import),
        [
            "other/model.yaml",
            "some-model/a/model.yaml",
            "some-model/b/model.yaml",
            "some-model/precise/model.yaml",
            "some-model/stator.yaml"
        ]
    );
    // Of one file they are a list, and stay one by one.
    let one = import_files(&[("a.yaml", [plain("a", None, 1), plain("b", None, 2)].concat())]);
    assert_eq!(paths(&one), ["a/model.yaml", "b/model.yaml"]);
}

#[test]
fn each_variant_is_of_an_environment_and_other_models_are_where_their_namespace_is() {
    let import = import_files(&[
        ("k/dev/a.yaml", plain("a", Some("dev"), 1)),
        ("k/prod/a.yaml", plain("a", Some("prod"), 8)),
        ("k/prod/b.yaml", plain("b", Some("prod"), 2)),
        ("k/c.yaml", plain("c", Some("test"), 3)),
    ]);
    assert_whole(&import);
    let folder = |name: &str| format!("some-model-fp8/{name}/**");
    let (a, b) = (folder("a"), folder("b"));
    assert_eq!(
        environments(&import),
        BTreeMap::from([
            ("default", format!("test: + -{a} {b}")),
            ("dev", format!("dev: +{a} -")),
            ("prod", format!("prod: +{a} {b} -")),
        ])
    );
    // One environment has one namespace.
    let crossed = import_files(&[
        ("dev/a.yaml", plain("a", Some("n1"), 1)),
        ("prod/a.yaml", plain("a", Some("n1"), 8)),
        ("dev/b.yaml", plain("b", Some("n2"), 1)),
        ("prod/b.yaml", plain("b", Some("n2"), 8)),
    ]);
    assert_whole(&crossed);
    let names: Vec<&str> = environments(&crossed).into_keys().collect();
    assert_eq!(names, ["dev-n1", "dev-n2", "prod-n1", "prod-n2"]);
}

#[test]
fn variants_that_nothing_tells_apart_are_said_and_copies_are_one() {
    let import = import_files(&[("x/y.yaml", plain("a", None, 1)), ("y/x.yaml", plain("a", None, 2))]);
    let [error] = errors(&import).try_into().unwrap();
    assert!(error.ends_with("nothing in their paths and namespaces tells them apart"), "{error}");
    assert_eq!(paths(&import), ["a/model.yaml"]);
    let copies = import_files(&[("x.yaml", plain("a", None, 1)), ("y.yaml", plain("a", None, 1))]);
    assert_whole(&copies);
    assert_eq!(paths(&copies), ["a/model.yaml"]);
    // What lies beside them may differ where they do not.
    let map = |value: &str| config_map(None, &json!({"a.yaml": value}));
    let beside = import_files(&[
        ("k/one/a.yaml", vec![mounting("a", None), map("1")]),
        ("k/two/a.yaml", vec![mounting("a", None), map("2")]),
        ("k/three/a.yaml", vec![mounting("a", None), map("2")]),
    ]);
    assert_whole(&beside);
    let mut files: Vec<&str> =
        beside.models.iter().flat_map(|model| &model.files).map(|file| file.path.as_str()).collect();
    files.sort_unstable();
    assert_eq!(files, ["one/a.yaml", "three/a.yaml"]);
    assert_eq!(environments(&beside).into_keys().collect::<Vec<_>>(), ["one", "three"]);
}

#[test]
fn an_object_is_of_the_variants_of_its_namespace_only() {
    let map = |namespace: &str| config_map(Some(namespace), &json!({"x": namespace}));
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a-frontend", "namespace": "n2"},
        "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}});
    let import = import_files(&[(
        "all.yaml",
        vec![mounting("a", Some("n1")), mounting("a", Some("n2")), map("n1"), map("n2"), service],
    )]);
    assert_whole(&import);
    for model in &import.models {
        let namespace = model.namespace.as_deref().unwrap();
        let texts: Vec<&str> = model.files.iter().map(|file| file.text.as_str()).collect();
        assert!(texts.contains(&namespace), "{namespace}: {texts:?}");
        assert_eq!(texts.iter().any(|text| text.contains("kind: Service")), namespace == "n2");
    }
}

#[test]
fn a_config_map_that_files_cannot_be_stays_a_manifest() {
    let odd = [
        json!({"x/../../pwned": "a"}),
        json!({"d/model.yaml": "a"}),
        json!({"": "a"}),
        json!({"model.yaml": "a"}),
        json!({"stator.yaml": "a"}),
        json!({"manifests.yaml": "a"}),
        json!({".hidden": "a"}),
        (0..70).map(|at| (format!("k{at}"), json!("a"))).collect::<serde_json::Map<_, _>>().into(),
    ];
    for data in odd {
        let import = import_files(&[("a.yaml", vec![mounting("a", None), config_map(None, &data)])]);
        let [model] = import.models.as_slice() else { panic!("{data}") };
        let files: Vec<&str> = model.files.iter().map(|file| file.path.as_str()).collect();
        assert!(model.round_trips && files == ["manifests.yaml"], "{data}: {files:?} {:?}", errors(&import));
    }
    // A program, or something that is not imported, may ask for it by its name.
    let mut told = mounting("a", None);
    told["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["args"] =
        json!(["--model", "org/m", "--map=cm"]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"},
        "rules": [{"resourceNames": ["cm"]}]});
    let map = || config_map(None, &json!({"x": "a"}));
    for documents in [vec![told, map()], vec![mounting("a", None), map(), role]] {
        let import = import_files(&[("a.yaml", documents)]);
        assert_eq!(import.models[0].files[0].path, "manifests.yaml");
    }
}

#[test]
fn many_deployments_of_a_model_are_arranged_with_their_objects() {
    let documents = |at: usize| {
        let name = format!("g{at}");
        vec![mounting(&name, None), config_map(None, &json!({"x": name}))]
    };
    let files: Vec<(String, Vec<Value>)> = (0..60).map(|at| (format!("d{at}/a.yaml"), documents(at))).collect();
    let files: Vec<(&str, Vec<Value>)> = files.iter().map(|(file, all)| (file.as_str(), all.clone())).collect();
    let import = import_files(&files);
    assert_whole(&import);
    assert_eq!(import.models.len(), 60);
    assert!(import.models.iter().all(|model| model.files.len() == 1 && model.files[0].text == model.name));
}
