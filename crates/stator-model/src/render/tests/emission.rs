//! What `stator render` prints.

use super::rendered;
use crate::render::emit::{json_list, yaml_documents};
use serde_json::{Value, json};
use stator_core::object::Object;

fn object(value: &str) -> Object {
    Object::from_value(json!({
        "apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "b"}, "spec": {"value": value}
    }))
    .unwrap()
}

#[test]
fn text_that_yaml_1_1_takes_for_something_else_is_quoted() {
    for text in [
        "yes",
        "No",
        "on",
        "OFF",
        "y",
        "n",
        "true",
        "null",
        "~",
        "",
        "0644",
        "0o17",
        "0x1F",
        "1e3",
        "1_000",
        "12:30",
        "1.0",
        ".5",
        ".inf",
        "2001-01-01",
        "=",
        "<<",
        "- a",
        "a: b",
        "# a",
        "*a",
        "&a",
        "!a",
        "%a",
        "@a",
        "`a",
        "{a",
        "[a",
        "a\nb",
        " a",
        "a ",
        "\u{7}",
        "\u{2028}",
        "é",
        "'",
        "\"",
        "\\",
        "---",
        "...",
        "{\"a\":1}",
    ] {
        let written = yaml_documents(&[&object(text)]).unwrap();
        let back: Value = serde_saphyr::from_str(&written).unwrap();
        assert_eq!(back["spec"]["value"], json!(text), "{written}");
        let ambiguous = [
            "yes",
            "No",
            "on",
            "OFF",
            "y",
            "n",
            "true",
            "null",
            "~",
            "0644",
            "0o17",
            "1e3",
            "1_000",
            "12:30",
            "1.0",
            ".5",
            "2001-01-01",
            "=",
            "<<",
        ];
        if ambiguous.contains(&text) {
            assert!(
                written.contains(&format!("value: '{text}'")) || written.contains(&format!("value: \"{text}\"")),
                "{written}"
            );
        }
    }
}

#[test]
fn a_model_is_printed_as_a_person_would_write_it() {
    let rendered = rendered(
        "qwen",
        "
model: Qwen/Qwen3-0.6B
engine: mocker
runtime: 1.2.0
serving: {worker: {env: {DEBUG: 'no'}}}
cache: {claim: weights, size: 10Gi}",
    );
    let objects: Vec<&Object> = rendered.objects.iter().map(|desired| &desired.object).collect();
    insta::assert_snapshot!(yaml_documents(&objects).unwrap(), @r#"
        ---
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata:
          name: weights
          namespace: serving
          labels:
            app.kubernetes.io/managed-by: stator
            stator.dev/environment: prod
            stator.dev/model: qwen
            stator.dev/repository: models
        spec:
          accessModes:
          - ReadWriteMany
          resources:
            requests:
              storage: 10Gi
        ---
        apiVersion: nvidia.com/v1beta1
        kind: DynamoGraphDeployment
        metadata:
          name: qwen
          namespace: serving
          labels:
            app.kubernetes.io/managed-by: stator
            stator.dev/environment: prod
            stator.dev/model: qwen
            stator.dev/repository: models
        spec:
          components:
          - name: frontend
            type: frontend
            replicas: 1
            podTemplate:
              spec:
                containers:
                - name: main
                  image: nvcr.io/nvidia/ai-dynamo/dynamo-planner:1.2.0
          - name: worker
            type: decode
            replicas: 1
            podTemplate:
              spec:
                containers:
                - name: main
                  image: nvcr.io/nvidia/ai-dynamo/dynamo-planner:1.2.0
                  command:
                  - python3
                  - -m
                  - dynamo.mocker
                  args:
                  - --model-path
                  - Qwen/Qwen3-0.6B
                  env:
                  - name: DEBUG
                    value: "no"
                  - name: HF_HOME
                    value: /opt/model-cache
                  volumeMounts:
                  - name: model-cache
                    mountPath: /opt/model-cache
                volumes:
                - name: model-cache
                  persistentVolumeClaim:
                    claimName: weights
        "#);
    for count in 0..=objects.len() {
        let some: Vec<Object> = objects.iter().take(count).map(|object| (*object).clone()).collect();
        let mut text = String::new();
        let written: Result<(), serde_json::Error> = json_list(some.clone(), |piece| {
            text.push_str(piece);
            Ok(())
        });
        written.unwrap();
        let list = json!({"apiVersion": "v1", "items": some, "kind": "List"});
        assert_eq!(text, serde_json::to_string_pretty(&list).unwrap() + "\n");
    }
}
