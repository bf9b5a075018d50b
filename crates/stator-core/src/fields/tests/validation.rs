//! Messages of the structural schema and its rules, as users read them.

use crate::fields::bundled_schemas::bundled_kinds;
use crate::fields::schema::SchemaNode;
use crate::fields::{apply_defaults, bundled_schema, typing_errors, validate};
use serde_json::{Value, json};

fn judge(mut object: Value, mut old: Option<Value>) -> String {
    let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
    let schema = bundled_schema(&text("apiVersion"), &text("kind")).expect("bundled");
    apply_defaults(schema, &mut object);
    if let Some(old) = &mut old {
        apply_defaults(schema, old);
    }
    let faults = validate(schema, &object, old.as_ref());
    faults.iter().map(|(path, message)| format!("{path}: {message}")).collect::<Vec<_>>().join("\n")
}

fn graph(spec: Value) -> Value {
    json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "llama", "namespace": "prod"}, "spec": spec,
    })
}

#[test]
fn messages_read_as_an_api_server_writes_them() {
    let spec = json!({
        "restart": {"id": ""},
        "backendFramework": "tgi",
        "components": [
            {"name": "a_b", "replicas": -1, "multinode": {"nodeCount": 1}},
            {"name": "x".repeat(64), "sharedMemorySize": "lots"},
            {"replicas": 3_000_000_000_i64},
        ],
    });
    insta::assert_snapshot!(judge(graph(spec), None), @r#"
    spec.backendFramework: Unsupported value: "tgi": supported values: "sglang", "vllm", "trtllm"
    spec.components[0].multinode.nodeCount: Invalid value: 1: spec.components[0].multinode.nodeCount in body should be greater than or equal to 2
    spec.components[0].name: Invalid value: "a_b": spec.components[0].name in body should match '^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$'
    spec.components[0].replicas: Invalid value: -1: spec.components[0].replicas in body should be greater than or equal to 0
    spec.components[1].name: Too long: may not be more than 63 bytes
    spec.components[1].sharedMemorySize: Invalid value: "lots": spec.components[1].sharedMemorySize in body should match '^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$'
    spec.components[2].name: Required value
    spec.components[2].replicas: Invalid value: 3000000000: spec.components[2].replicas in body must be of type integer with format int32
    spec.restart.id: Invalid value: "": spec.restart.id in body should be at least 1 chars long
    "#);
}

#[test]
fn rules_in_cel_are_judged_when_the_structure_is_sound() {
    let spec = json!({"components": [{"name": "A"}, {"name": "a"}, {"name": "b", "type": "worker", "eppConfig": {
        "configMapRef": {"name": "m", "key": "k"}, "config": {"plugins": [{"type": "t"}], "schedulingProfiles": [{"name": "p", "plugins": []}]},
    }}]});
    insta::assert_snapshot!(judge(graph(spec), None), @r#"
    spec.components: Invalid value: component names must be unique case-insensitively
    spec.components[2]: Invalid value: eppConfig may only be set when type is epp
    spec.components[2].eppConfig: Invalid value: exactly one of configMapRef or config must be specified
    "#);
}

#[test]
fn names_and_labels_are_judged() {
    let mut object = graph(json!({"components": []}));
    object["metadata"] = json!({
        "name": "A_b", "namespace": "Prod", "finalizers": ["no good"], "annotations": {"": "x"},
        "labels": {"a/b/c": "x", "ok": "not ok", "long": "x".repeat(64)},
    });
    insta::assert_snapshot!(judge(object, None), @r#"
    metadata.annotations: Invalid value: "": name part must be non-empty
    metadata.finalizers: Invalid value: "no good": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
    metadata.labels: Invalid value: "a/b/c": a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')
    metadata.labels: Invalid value: "not ok": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
    metadata.labels: Invalid value: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx": must be no more than 63 bytes
    metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
    metadata.namespace: Invalid value: "Prod": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
    "#);
    insta::assert_snapshot!(judge(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim"}), None), @r#"
    metadata.name: Required value: name or generateName is required
    spec: Required value
    "#);
}

#[test]
fn an_old_fault_that_nobody_touched_is_let_pass() {
    let broken = |replicas: i64| graph(json!({"components": [{"name": "a_b", "replicas": replicas}]}));
    assert_ne!(judge(broken(1), None), "");
    assert_eq!(judge(broken(2), Some(broken(1))), "");
    insta::assert_snapshot!(judge(broken(-1), Some(broken(1))), @"spec.components[0].replicas: Invalid value: -1: spec.components[0].replicas in body should be greater than or equal to 0");
}

#[test]
fn every_bundled_schema_parses_and_every_rule_of_it_compiles() {
    fn walk(node: &SchemaNode, rules: &mut Vec<String>, patterns: &mut usize) {
        rules.extend(node.rules.iter().map(|rule| rule.rule.clone()));
        if let Some(limits) = node.limits.as_deref() {
            if let Some(pattern) = &limits.pattern {
                assert!(pattern.regex().is_some(), "{}", pattern.text);
                *patterns += 1;
            }
            limits
                .all_of
                .iter()
                .chain(&limits.any_of)
                .chain(&limits.one_of)
                .chain(&limits.not)
                .for_each(|node| walk(node, rules, patterns));
        }
        node.properties
            .values()
            .chain(node.additional.as_deref())
            .chain(node.items.as_deref())
            .for_each(|node| walk(node, rules, patterns));
    }
    let (mut rules, mut patterns) = (Vec::new(), 0);
    for (api_version, kind) in bundled_kinds() {
        let schema = bundled_schema(api_version, kind).unwrap_or_else(|| panic!("{kind} {api_version} parses"));
        walk(&schema.root, &mut rules, &mut patterns);
    }
    assert!(patterns > 50 && rules.len() >= 8, "{patterns} patterns, {} rules", rules.len());
    let mut env = cel::Env::stdlib();
    env.add_extension(cel::extensions::strings).expect("string functions");
    for rule in rules {
        assert!(env.compile(&rule).is_ok(), "{rule}");
    }
}

#[test]
fn defaults_are_filled_in_and_stray_nulls_dropped() {
    let mut object = graph(json!({
        "restart": {"id": "1", "strategy": {}}, "backendFramework": null,
        "components": [{"name": "a", "multinode": {}, "podTemplate": {"spec": {"containers": [
            {"name": "main", "ports": [{"containerPort": 80}]},
        ]}}}],
    }));
    let schema = bundled_schema("nvidia.com/v1beta1", "DynamoGraphDeployment").expect("bundled");
    assert_eq!(typing_errors(schema, &object), vec![]);
    apply_defaults(schema, &mut object);
    insta::assert_snapshot!(object["spec"], @r#"{"components":[{"multinode":{"nodeCount":2},"name":"a","podTemplate":{"spec":{"containers":[{"name":"main","ports":[{"containerPort":80,"protocol":"TCP"}]}]}}}],"restart":{"id":"1","strategy":{"type":"Sequential"}}}"#);
}

#[test]
fn kinds_that_are_not_bundled_have_no_schema() {
    assert!(
        bundled_schema("v1", "Secret").is_none() && bundled_schema("nvidia.com/v2", "DynamoGraphDeployment").is_none()
    );
}
