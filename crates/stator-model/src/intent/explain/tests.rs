use super::*;
use insta::assert_snapshot;

fn shown(path: &str) -> String {
    match explain(path) {
        Err(error) => error.to_string(),
        Ok(it) => {
            let mut lines =
                vec![format!("{} {} <{}> required: {}", it.kind, it.path, it.type_name, it.required), it.description];
            lines.extend(it.rules.into_iter().map(|rule| format!("rule: {rule}")));
            lines.extend(it.values.into_iter().map(|it| format!("value {}: {}", it.value, it.description)));
            let field = |it: ChildField| format!("field {} <{}> required: {}", it.name, it.type_name, it.required);
            lines.extend(it.fields.into_iter().map(field));
            lines.join("\n")
        }
    }
}

#[test]
fn a_number_shows_its_range() {
    assert_snapshot!(shown("spec.serving.decode.gpus"), @r#"
    Model spec.serving.decode.gpus <integer> required: false
    GPUs of one replica, over all its nodes. Defaults to tensorParallel × pipelineParallel × dataParallel; `trtllm` shares them among data parallel ranks, and `mocker` has none.
    rule: 0 to 1024
    "#);
}

#[test]
fn an_enumeration_shows_its_values() {
    assert_snapshot!(shown("spec.engine"), @r#"
    Model spec.engine <string> required: true
    The engine that runs the model. `auto` is only possible with `sla`.
    value vllm: vLLM.
    value sglang: SGLang.
    value trtllm: TensorRT-LLM.
    value mocker: Dynamo's mocker: answers like an engine, on CPU.
    value custom: Your own program: each worker sets its `command` and `image`.
    value auto: Let the profiler choose; only with `sla`.
    "#);
}

#[test]
fn an_object_shows_its_fields_in_canonical_order() {
    assert_snapshot!(shown("model.spec.adapters[0]"), @r#"
    Model spec.adapters <[]object> required: false
    LoRA adapters; each becomes a DynamoModel, applied once the graph is Ready.
    field name <string> required: true
    field source <string> required: true
    field servedName <string> required: false
    field objectName <string> required: false
    field maxRank <integer> required: false
    "#);
    assert_snapshot!(shown("repository"), @r"
    Repository  <object> required: true
    The root `stator.yaml`: settings of the whole repository.
    field apiVersion <string> required: true
    field kind <string> required: true
    field metadata <object> required: true
    field spec <object> required: false
    ");
}

#[test]
fn every_way_to_write_a_path_leads_to_the_same_field() {
    let field = explain("model.spec.serving.prefill.rollout.maxSurge").unwrap();
    assert_eq!(field.path, "spec.serving.prefill.rollout.maxSurge");
    for path in [
        "spec.serving.prefill.rollout.maxSurge",
        "serving.prefill.rollout.maxSurge",
        "Model.spec.serving.prefill.rollout.maxSurge",
    ] {
        assert_eq!(explain(path).as_ref(), Ok(&field), "{path}");
    }
    assert_eq!(explain("spec.adapters.name").unwrap(), explain("spec.adapters[3].name").unwrap());
    assert_eq!(explain("components.planner.type").unwrap().values.len(), 6);
    assert_eq!(explain("spec.env.LOG_LEVEL").unwrap().type_name, "string or object");
    assert!(!explain("repository.spec.environments.prod.defaults.engine").unwrap().required);
    assert_eq!(explain("").unwrap().path, "");
}

#[test]
fn an_unknown_field_gets_the_nearest_word() {
    assert_snapshot!(shown("spec.serving.prefil"), @"there is no field `prefil` in `model.spec.serving`: did you mean `prefill`?");
    assert!(shown("spec.serving.decode.maxModelLen").contains("did you mean `maxLength`?"));
    assert_snapshot!(shown("spec.max_length"), @"there is no field `max_length` in `model.spec`: did you mean `model.spec.serving.decode.maxLength`, `model.spec.serving.prefill.maxLength`, `model.spec.serving.worker.maxLength` or `model.spec.sla.worker.maxLength`?");
    assert_snapshot!(shown("spec.serving.decode.claim"), @"there is no field `claim` in `model.spec.serving.decode`: did you mean `model.spec.serving.decode.compilationCache.claim`?");
    assert_snapshot!(shown("spec.adapters.0.size"), @"there is no field `size` in `model.spec.adapters`: did you mean `model.spec.cache.size`?");
    assert_snapshot!(shown("env.FOO.resources"), @"there is no field `resources` in `model.spec.env.FOO`: did you mean `resource`?");
    assert_snapshot!(shown("cache.cache"), @"there is no field `cache` in `model.spec.cache`; it has `claim`, `size`, `storageClass`, `accessMode`, `mountPath`, `volume`, `implicitVolume`, `hfHome`, `readOnly`, `modelPath`, `prune`");
    assert_snapshot!(shown("repository.spec.environments.prod.defaults.maxModelLen"), @"there is no field `maxModelLen` in `repository.spec.environments.prod.defaults`: did you mean `repository.spec.environments.prod.defaults.serving.decode.maxLength`, `repository.spec.environments.prod.defaults.serving.prefill.maxLength`, `repository.spec.environments.prod.defaults.serving.worker.maxLength` or `repository.spec.environments.prod.defaults.sla.worker.maxLength`?");
    let every = ["cache", "claim", "gpus", "name", "spec", "max_length", "timeout", "metadata", "replicas", "size"];
    for (place, word) in ["model", "serving.decode", "adapters", "repository.spec", "defaults", "modellock.spec"]
        .into_iter()
        .flat_map(|place| every.map(|word| (place, word)))
    {
        let Err(ExplainError::UnknownField { meant, .. }) = explain(&format!("{place}.{word}")) else { continue };
        for path in meant.iter().filter(|path| path.contains('.')) {
            assert!(explain(path).is_ok(), "{place}.{word}: {path}");
        }
    }
    assert_snapshot!(shown("spec.serving.decode.template.spec.x"), @"`model.spec.serving.decode.template` (map) has no fields that stator knows, `spec` included; run `stator explain model.spec.serving.decode.template`");
    assert_snapshot!(shown("spec.engine.x"), @"`model.spec.engine` (string) has no fields that stator knows, `x` included; run `stator explain model.spec.engine`");
    assert!(explain(&"a.".repeat(10_000)).is_err());
}

#[test]
fn every_field_of_every_document_can_be_explained() {
    fn walk(path: &str, count: &mut usize) {
        let explanation = explain(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(!explanation.description.is_empty(), "{path} has no words");
        assert!(!explanation.type_name.is_empty() && explanation.type_name != "any", "{path} has no type");
        *count += 1;
        for child in &explanation.fields {
            walk(&format!("{path}.{}", child.name), count);
        }
    }
    let mut count = 0;
    for document in DocumentKind::ALL {
        walk(document.as_str(), &mut count);
    }
    assert!(count > 200, "{count}");
}

/// A variable's value may be one of several maps, two of which have a `key`.
#[test]
fn a_field_of_several_shapes_is_named_once_and_the_shapes_are_told() {
    let explained = explain("spec.env.TOKEN").unwrap();
    let names: Vec<&str> = explained.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["secret", "key", "configMap", "field", "resource"]);
    assert!(explained.fields.iter().all(|field| !field.required), "{:?}", explained.fields);
    assert_eq!(explained.rules, ["with one of: `secret` and `key`; `configMap` and `key`; `field`; `resource`"]);
    let adapters = explain("spec.adapters").unwrap();
    assert!(adapters.fields.iter().any(|field| field.name == "name" && field.required));
}
