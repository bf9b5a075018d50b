use super::*;
use insta::assert_snapshot;

fn shown(path: &str) -> String {
    explain(path).map_or_else(|error| error.to_string(), |it| it.to_string())
}

#[test]
fn a_number_shows_its_range() {
    assert_snapshot!(shown("spec.serving.decode.gpus"), @r"
    KIND:     Model
    VERSION:  stator.dev/v1alpha1
    FIELD:    spec.serving.decode.gpus <integer>

    DESCRIPTION:
        GPUs of one replica, over all its nodes. Defaults to tensorParallel × pipelineParallel ×
        dataParallel.

    RULES:
        0 to 1024
    ");
}

#[test]
fn an_enumeration_shows_its_values() {
    assert_snapshot!(shown("spec.engine"), @r"
    KIND:     Model
    VERSION:  stator.dev/v1alpha1
    FIELD:    spec.engine <string> -required-

    DESCRIPTION:
        The engine that runs the model. `auto` is only possible with `sla`.

    VALUES:
        vllm    vLLM.
        sglang  SGLang.
        trtllm  TensorRT-LLM.
        mocker  Dynamo's mocker: answers like an engine, on CPU.
        auto    Let the profiler choose; only with `sla`.
    ");
}

#[test]
fn an_object_shows_its_fields_in_canonical_order() {
    assert_snapshot!(shown("model.spec.adapters[0]"), @r"
    KIND:     Model
    VERSION:  stator.dev/v1alpha1
    FIELD:    spec.adapters <[]object>

    DESCRIPTION:
        LoRA adapters; each becomes a DynamoModel, applied once the graph is Ready.

    FIELDS:
        name <string> -required-
            The adapter's name: what clients ask for, and, with the model's, its object's name.
        source <string> -required-
            Where its weights are: `s3://…` or `hf://…`.
        servedName <string>
            The name that clients ask for. Defaults to `name`.
        maxRank <integer>
            The largest rank that the engine must hold. The graph is rendered for the largest of all.
            Defaults to 64.
    ");
    assert_snapshot!(shown("repository"), @r"
    KIND:     Repository
    VERSION:  stator.dev/v1alpha1

    DESCRIPTION:
        The root `stator.yaml`: what holds for the whole repository.

    FIELDS:
        apiVersion <string> -required-
            The version of this format.
        kind <string> -required-
            Always `Repository`.
        metadata <object> -required-
            The repository's name: part of what marks live objects as its own.
        spec <object>
            Environments, defaults, policy, prices.
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
    assert_snapshot!(shown("spec.serving.prefil"), @"there is no field `prefil` in `model.spec.serving`: did you mean `prefill`? It has `frontend`, `worker`, `prefill`, `decode`");
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
    for document in Document::ALL {
        walk(document.kind(), &mut count);
    }
    assert!(count > 200, "{count}");
}
