//! Files that pods mount: a ConfigMap each, and mounts in the components that want them.

use super::{component, intent, rendered, target};
use crate::render::{RenderedModel, render};
use proptest::prelude::*;
use serde_json::Value;
use stator_core::dynamo::kinds::CONFIG_MAP;
use std::collections::BTreeMap;

const DISAGGREGATED: &str = "\
model: openai/gpt-oss-120b
engine: trtllm
runtime: 1.2.0
serving:
  frontend: {replicas: 1}
  prefill: {replicas: 1, gpus: 1}
  decode: {name: Decoder, replicas: 1, gpus: 1}
";

fn config_maps(rendered: &RenderedModel) -> Vec<&Value> {
    let all = rendered.objects.iter().map(|one| &one.object).filter(|object| object.kind() == CONFIG_MAP.kind);
    all.map(stator_core::object::Object::value).collect()
}

#[test]
fn a_file_is_a_config_map_that_its_components_mount() {
    let model = format!(
        "{DISAGGREGATED}files:
  decode: {{from: engine/decode.yaml, mountPath: /engine_configs/decode.yaml, components: [decode]}}
  template: {{text: \"one\\ntwo\\n\", mountPath: /templates/chat.jinja}}
"
    );
    let rendered = rendered("chat", &model);
    insta::assert_snapshot!(serde_json::to_string_pretty(&config_maps(&rendered)).unwrap(), @r#"
    [
      {
        "apiVersion": "v1",
        "data": {
          "decode.yaml": "content of engine/decode.yaml"
        },
        "immutable": true,
        "kind": "ConfigMap",
        "metadata": {
          "annotations": {
            "stator.dev/file-source": "engine/decode.yaml"
          },
          "labels": {
            "app.kubernetes.io/managed-by": "stator",
            "stator.dev/environment": "prod",
            "stator.dev/file": "decode",
            "stator.dev/model": "chat",
            "stator.dev/repository": "models"
          },
          "name": "chat-decode-2b74d7e0c3",
          "namespace": "serving"
        }
      },
      {
        "apiVersion": "v1",
        "data": {
          "chat.jinja": "one\ntwo\n"
        },
        "immutable": true,
        "kind": "ConfigMap",
        "metadata": {
          "labels": {
            "app.kubernetes.io/managed-by": "stator",
            "stator.dev/environment": "prod",
            "stator.dev/file": "template",
            "stator.dev/model": "chat",
            "stator.dev/repository": "models"
          },
          "name": "chat-template-191861555d",
          "namespace": "serving"
        }
      }
    ]
    "#);
    let mounts = |name: &str| {
        let pod = &component(&rendered, name)["podTemplate"]["spec"];
        serde_json::to_string(&(&pod["volumes"], &pod["containers"][0]["volumeMounts"])).unwrap()
    };
    insta::assert_snapshot!(["Decoder", "prefill", "frontend"].map(mounts).join("\n"), @r#"
    [[{"configMap":{"name":"chat-decode-2b74d7e0c3"},"name":"file-decode"},{"configMap":{"name":"chat-template-191861555d"},"name":"file-template"}],[{"mountPath":"/engine_configs/decode.yaml","name":"file-decode","readOnly":true,"subPath":"decode.yaml"},{"mountPath":"/templates/chat.jinja","name":"file-template","readOnly":true,"subPath":"chat.jinja"}]]
    [[{"configMap":{"name":"chat-template-191861555d"},"name":"file-template"}],[{"mountPath":"/templates/chat.jinja","name":"file-template","readOnly":true,"subPath":"chat.jinja"}]]
    [null,null]
    "#);
}

/// What is not text is kept byte by byte.
#[test]
fn a_binary_file_is_binary_data() {
    let mut intent =
        intent("chat", &format!("{DISAGGREGATED}files:\n  vocab: {{from: vocab.bin, mountPath: /v/vocab.bin}}\n"));
    intent.files.insert("vocab".to_owned(), vec![0xff, 0, 1].into());
    let rendered = render(&intent, &target());
    let [config_map] = config_maps(&rendered)[..] else { panic!("{rendered:#?}") };
    assert_eq!(config_map["binaryData"]["vocab.bin"], "/wAB");
    assert_eq!(config_map.get("data"), None);
}

/// Until the profiler's result is locked, Dynamo writes the graph.
#[test]
fn files_of_a_model_by_target_wait_for_its_lock() {
    let model = "model: m\nengine: vllm\nsla: {ttft: 300ms}\nfiles:\n  a: {text: b, mountPath: /a/b}\n";
    let rendered = rendered("chat", model);
    assert_eq!(config_maps(&rendered), Vec::<&Value>::new());
    assert!(rendered.findings.iter().any(|one| one.message.contains("`files` has no effect")), "{rendered:#?}");
}

/// The graph's components, and the name of each file's ConfigMap.
fn shape(files: &BTreeMap<String, (String, bool)>) -> (BTreeMap<String, Value>, BTreeMap<String, String>) {
    let mut model = DISAGGREGATED.to_owned();
    model.push_str("files:\n");
    for (name, (_, only_decode)) in files {
        let components = if *only_decode { ", components: [decode]" } else { "" };
        model.push_str(&format!("  {name}: {{from: {name}.yaml, mountPath: /e/{name}.yaml{components}}}\n"));
    }
    let mut intent = intent("chat", &model);
    intent.files = files.iter().map(|(name, (content, _))| (name.clone(), content.as_bytes().into())).collect();
    let rendered = render(&intent, &target());
    let names = config_maps(&rendered).into_iter().map(|one| {
        let text = |pointer: &str| one.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        (text("/metadata/labels/stator.dev~1file"), text("/metadata/name"))
    });
    let components = super::graph(&rendered)["spec"]["components"].as_array().unwrap().iter();
    let components = components.map(|one| (one["name"].as_str().unwrap().to_owned(), one.clone()));
    (components.collect(), names.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]

    /// A name changes exactly when the content does, and with it the components that mount the file and no others.
    #[test]
    fn content_decides_names_and_names_decide_pods(
        files in prop::collection::btree_map("[a-c]", ("\\PC{0,9}", any::<bool>()), 1..4),
        edits in prop::collection::btree_map("[a-c]", "\\PC{0,9}", 0..3),
    ) {
        let mut edited = files.clone();
        for (name, content) in &edits {
            if let Some(file) = edited.get_mut(name) {
                file.0.clone_from(content);
            }
        }
        let ((before, old_names), (after, new_names)) = (shape(&files), shape(&edited));
        let mut rolled = std::collections::BTreeSet::new();
        for (name, (content, only_decode)) in &files {
            let same = *content == edited[name].0;
            prop_assert_eq!(old_names[name] == new_names[name], same, "{}", name);
            if !same {
                rolled.insert("Decoder");
                if !only_decode {
                    rolled.insert("prefill");
                }
            }
        }
        for (name, component) in &before {
            prop_assert_eq!(*component != after[name], rolled.contains(name.as_str()), "{}", name);
        }
        let distinct: std::collections::BTreeSet<&String> = old_names.values().collect();
        prop_assert_eq!(distinct.len(), old_names.len());
    }
}
