//! Input that nobody wrote for stator: hostile, cut, enormous, odd.

use crate::import::{ImportOptions, ImportResult, ManifestFile, import};
use insta::assert_snapshot;
use stator_core::finding::Finding;

fn of(text: impl Into<Vec<u8>>) -> ImportResult {
    import(&[ManifestFile { file: "x.yaml".into(), content: text.into() }], ImportOptions::default())
}

/// What is said, a line each.
fn said(import: &ImportResult) -> String {
    let line = |finding: &Finding| {
        let at = &finding.location;
        format!("{}:{} {} {}\n    {}\n", at.line, at.column, finding.rule.id, finding.message, finding.help)
    };
    import.findings.iter().map(line).collect()
}

const GRAPH: &str = "\
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: chat}
spec:
  components:
    - name: Frontend
      type: frontend
      podTemplate: {spec: {containers: [{name: main, image: a/b:1.2.0}]}}
    - name: Worker
      type: worker
      podTemplate: {spec: {containers: [{name: main, image: a/b:1.2.0, command: [python3, -m, dynamo.vllm], args: [--model, m/n]}]}}
";

#[test]
fn an_alias_is_followed_as_kubectl_follows_it() {
    let text = GRAPH.replace(
        "podTemplate: {spec: {containers: [{name: main, image: a/b:1.2.0}]}}",
        "podTemplate: &pod {spec: {containers: [{name: main, image: a/b:1.2.0}]}}",
    ) + "    - name: Other\n      podTemplate: *pod\n";
    let import = of(text);
    assert_eq!(said(&import), "");
    assert!(import.models[0].round_trips && import.models[0].text.contains("Other:"), "{}", import.models[0].text);
}

#[test]
fn aliases_that_grow_without_end_are_refused_before_they_grow() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        bomb += &format!("a{level}: &a{level} [{}]\n", vec![below; 10].join(", "));
    }
    let import = of(format!("{bomb}---\n{GRAPH}"));
    assert_eq!(import.models.len(), 1, "the document beside it is imported");
    assert_snapshot!(said(&import), @r#"
    6:15 import/unreadable document 1 cannot be read: it contains, or its aliases expand to, more values than any manifest
        correct the document; the others of the file are imported
    "#);
}

#[test]
fn what_is_nested_too_deep_is_refused_and_stops_nothing() {
    for (open, close) in [("[", "]"), ("{a: ", "}")] {
        let deep = format!("a: {}{}", open.repeat(50_000), close.repeat(50_000));
        let import = of(format!("{deep}\n---\n{GRAPH}"));
        assert_eq!(import.models.len(), 1);
        assert!(said(&import).contains("import/unreadable document 1"), "{}", said(&import));
    }
    let lists = format!("{}{}", r#"{"kind": "List", "apiVersion": "v1", "items": ["#.repeat(20), "]}".repeat(20));
    assert!(!of(lists).findings.is_empty());
}

#[test]
fn ten_megabytes_are_read_and_each_document_told_of() {
    let one = GRAPH.replace("name: chat", "name: chat-NUMBER");
    let padding = format!("# {}\n", "x".repeat(200_000));
    let text: String = (0..50).map(|n| format!("---\n{padding}{}", one.replace("NUMBER", &n.to_string()))).collect();
    assert!(text.len() > 10_000_000);
    let import = of(text + "---\nkind: [\n");
    assert_eq!(import.models.iter().filter(|model| model.round_trips).count(), 50);
    assert_eq!(import.findings.len(), 1);
}

#[test]
fn a_list_of_all_that_a_large_cluster_has_is_read() {
    let lines: Vec<String> = (0..260_000).map(|n| format!("\"a line of text, {n:06}\"")).collect();
    let map = format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"big\"}},\"data\":[{}]}}",
        lines.join(",")
    );
    let graph: serde_json::Value = serde_saphyr::from_str(GRAPH).unwrap();
    let import = of(format!("{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[{map},{graph}]}}"));
    assert_eq!(import.models.len(), 1, "{}", said(&import));
    assert!(import.models[0].round_trips);
}

#[test]
fn empty_documents_and_bare_dashes_are_nothing() {
    assert_eq!(said(&of("")), "");
    assert_eq!(said(&of("---\n---\n# only a comment\n---\n\n...\n---\nnull\n")), "");
    assert_eq!(said(&of(format!("\u{feff}---\n{GRAPH}---\n"))), "");
}

#[test]
fn a_field_that_has_no_place_is_pointed_at() {
    let alpha = "\
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: ConfigMap
    metadata: {name: c}
  - apiVersion: nvidia.com/v1alpha1
    kind: DynamoGraphDeployment
    metadata:
      name: chat
    spec:
      services:
        Frontend:
          componentType: main
          ingress:
            enabled: true
            host: chat
          extraPodSpec: {mainContainer: {image: 'a/b:1.2.0'}}
        Worker:
          componentType: worker
          envs:
            - {name: y, value: '1'}
            - {name: N, value: yes}
          extraPodSpec: {mainContainer: {image: 'a/b:1.2.0', command: [python3, -m, dynamo.vllm], args: [--model, m/n]}}
---
apiVersion: nvidia.com/v1alpha1
kind: DynamoModel
metadata:
  name: sql
spec:
  modelName: sql
  baseModelName: nobody/serves-this
  modelType: lora
  source: {uri: 's3://x/y'}
---
apiVersion: nvidia.com/v7
kind: DynamoGraphDeployment
metadata: {name: later}
";
    assert_snapshot!(said(&of(alpha)), @r#"
    4:5 import/not-carried document 1: ConfigMap `c` is not imported: no graph or request is imported beside it
        import it together with the graph that uses it
    22:16 import/not-an-object document 1: DynamoGraphDeployment `chat`: `spec.services.Worker.envs[0].name`: expected string, found a boolean
        put it in quotes: kubectl reads `y`, `no`, `on` and their like as true or false
    23:16 import/not-an-object document 1: DynamoGraphDeployment `chat`: `spec.services.Worker.envs[1].name`: expected string, found a boolean
        put it in quotes: kubectl reads `y`, `no`, `on` and their like as true or false
    23:25 import/not-an-object document 1: DynamoGraphDeployment `chat`: `spec.services.Worker.envs[1].value`: expected string, found a boolean
        put it in quotes: kubectl reads `y`, `no`, `on` and their like as true or false
    32:3 import/not-carried document 2: DynamoModel `sql` is not imported: `spec.baseModelName`: no graph beside it serves `nobody/serves-this`
        import it together with the one graph that it is loaded into
    36:1 import/unknown-kind document 3: unknown version `nvidia.com/v7` of DynamoGraphDeployment
        known: `nvidia.com/v1beta1` and `nvidia.com/v1alpha1`
    "#);
    let right = alpha
        .replace("{name: y, value: '1'}", "{name: 'y', value: '1'}")
        .replace("{name: N, value: yes}", "{name: 'N', value: 'yes'}");
    assert_snapshot!(said(&of(right)), @"
    14:11 import/note document 1: type `main` of component `Frontend` is omitted: v1beta1 has no such type, and Dynamo's operator treats the component as one without a type
        nothing, unless something selects pods by the label of the type
    15:11 import/not-carried document 1: DynamoGraphDeployment `chat`: `spec.services.Frontend.ingress` is not imported: the operator still serves it; write an Ingress or an HTTPRoute to the graph's frontend service instead
        v1beta1 has no field for it: write it in another way, or leave it out with --lossy
    32:3 import/not-carried document 2: DynamoModel `sql` is not imported: `spec.baseModelName`: no graph beside it serves `nobody/serves-this`
        import it together with the one graph that it is loaded into
    36:1 import/unknown-kind document 3: unknown version `nvidia.com/v7` of DynamoGraphDeployment
        known: `nvidia.com/v1beta1` and `nvidia.com/v1alpha1`
    ");
}

#[test]
fn names_that_no_model_can_have_and_names_that_meet_are_told() {
    let upper = GRAPH.replace("name: chat", "name: Chat_1");
    let again = GRAPH.replace("{name: chat}", "{name: chat, namespace: other}");
    let request = "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeploymentRequest\nmetadata: {name: chat}\nspec: {model: m, backend: vllm, image: 'a/b:1.2.0'}\n";
    let import = of([&upper, request, GRAPH, &again].join("---\n"));
    assert_snapshot!(said(&import), @r#"
    3:12 import/not-carried document 1: DynamoGraphDeployment `Chat_1` is not imported: `metadata.name` is not a valid model name; expected lower-case letters, digits and `-`, starting with a letter, at most 63 characters
        rename it in the manifest; in a cluster this creates another object
    15:12 import/twice document 2: DynamoGraphDeploymentRequest `chat` is not imported: the graph of x.yaml:18 has the same name, and model names must be unique
        import the request separately and give its model another name: requests are named after their target
    "#);
    let names: Vec<(&str, Option<&str>)> =
        import.models.iter().map(|model| (model.name.as_str(), model.namespace.as_deref())).collect();
    assert_eq!(names, [("chat", None), ("chat", Some("other"))]);
}
