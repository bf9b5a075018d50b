//! Arguments that say something else than fields, and what `hardware` says that no node label does.

use super::{findings, graph, rendered};
use crate::intent::{SourceFile, SourceTree, Workspace};
use crate::render::render;
use serde_json::Value;

fn worker(engine: &str, worker: &str) -> String {
    let spec = format!("model: org/model\nengine: {engine}\nruntime: 1.2.0\nserving:\n  worker: {worker}");
    findings("llama", &spec)
}

/// Row C7 of the review: 16 GPUs were counted for a worker that takes 4.
#[test]
fn arguments_that_contradict_a_field_are_said_with_both_places() {
    insta::assert_snapshot!(worker("vllm", "{tensorParallel: 16, args: [--tensor-parallel-size, \"4\"]}"), @"error model/args-contradict: `--tensor-parallel-size 4` contradicts `tensorParallel: 16`; Keep one of them: remove the argument, or write `tensorParallel: 4`.");
    for (engine, written) in [
        ("vllm", "{tensorParallel: 16, args: [--tensor-parallel-size=4]}"),
        ("vllm", "{tensorParallel: 16, args: [--tensor_parallel_size=4]}"),
        ("vllm", "{tensorParallel: 16, args: [-tp, \"4\"]}"),
        ("vllm", "{pipelineParallel: 2, args: [-pp=4]}"),
        ("vllm", "{tensorParallel: 16, args: [\"--seed 1 --tensor-parallel-size 4\"]}"),
        (
            "vllm",
            "{tensorParallel: 16, command: [sh, -c], args: [\"exec python3 -m dynamo.vllm --model '<model>' -tp 4 \\n\"]}",
        ),
        ("vllm", "{tensorParallel: 16, command: [python3, -m, dynamo.vllm, --tensor-parallel-size, \"4\"]}"),
        (
            "vllm",
            "{tensorParallel: 16, template: {spec: {containers: [{name: main, args: [--tensor-parallel-size, \"4\"]}]}}}",
        ),
        ("sglang", "{tensorParallel: 16, args: [--tp, \"4\"]}"),
        ("sglang", "{tensorParallel: 16, args: [--tensor-parallel-size=4]}"),
        ("trtllm", "{tensorParallel: 16, engineOptions: {tensor_parallel_size: 4}}"),
        ("trtllm", "{tensorParallel: 16, args: [--override-engine-args, '{\"tensor_parallel_size\": 4}']}"),
    ] {
        let said = worker(engine, written);
        assert!(said.contains("error model/args-contradict"), "{engine} {written}\n{said}");
    }
    for (engine, written) in [
        ("vllm", "{maxLength: 8192, args: [--max-model-len, \"4096\"]}"),
        ("trtllm", "{dtype: bfloat16, engineOptions: {dtype: float16}}"),
    ] {
        let said = worker(engine, written);
        assert!(said.contains("error model/args-contradict"), "{engine} {written}\n{said}");
    }
    // Of a script it is not certain which program an argument is for.
    let script =
        "{maxLength: 8192, command: [sh, -c], args: [\"bench --max-model-len 4096; exec python3 -m dynamo.vllm\"]}";
    assert!(worker("vllm", script).contains("warning model/args-contradict"), "{}", worker("vllm", script));
    // Workers of one graph may serve two models.
    let other = worker("vllm", "{args: [--model, org/other]}");
    assert!(other.contains("warning model/args-contradict"), "{other}");
    // The same, said twice, is no contradiction; nor is what a shell fills in, or a value that looks like a flag.
    for (engine, written) in [
        ("vllm", "{tensorParallel: 4, args: [--tensor-parallel-size, \"4\"]}"),
        ("vllm", "{memoryFraction: 0.9, args: [--gpu-memory-utilization, \"0.90\"]}"),
        (
            "vllm",
            "{tensorParallel: 4, command: [sh, -c], args: [\"python3 -m dynamo.vllm -tp $TP -tp <tensorParallel>\"]}",
        ),
        ("vllm", "{maxLength: 32768, args: [--max-model-len, 32K]}"),
        ("sglang", "{tensorParallel: 4, args: [--tp-size]}"),
        // Parameters of a script are not the engine's; and of two flags the last counts.
        ("vllm", "{tensorParallel: 4, command: [/bin/bash, -c, exec python3 -m dynamo.vllm], args: [--tp, \"2\"]}"),
        ("vllm", "{tensorParallel: 4, command: [bash, -c], args: [exec python3 -m dynamo.vllm, --tp, \"2\"]}"),
        ("vllm", "{tensorParallel: 2, args: [--tensor-parallel-size=4, -tp, \"2\"]}"),
    ] {
        let said = worker(engine, written);
        assert!(!said.contains("args-contradict"), "{engine} {written}\n{said}");
    }
}

/// Row C7: sizes that only arguments give are not counted as one GPU in silence.
#[test]
fn sizes_that_only_arguments_give_must_fit_the_gpus() {
    insta::assert_snapshot!(worker("vllm", "{args: [--tensor-parallel-size, \"4\"]}"), @"warning model/gpus: `--tensor-parallel-size 4`: the arguments need 4 GPUs, and a replica has 1; Write the sizes as fields, such as `tensorParallel`, or `gpus: 4` under `spec.serving.worker`.");
    insta::assert_snapshot!(worker("vllm", "{gpus: 4, args: [--tensor-parallel-size, \"4\"]}"), @"");
}

/// Row C5 of the review: the SKU was unknown, and the price 0.
#[test]
fn a_declared_gpu_counts_where_nodes_are_selected_by_other_labels() {
    let spec = "model: m\nengine: vllm\nruntime: 1.2.0\nhardware: {gpu: h200_sxm, nodeSelector: {pool: fast}}\nserving:\n  \
                worker: {gpus: 2, tensorParallel: 2}";
    let rendered = rendered("llama", spec);
    let used = stator_core::dynamo::gpus::gpu_use(&rendered.objects[0].object);
    assert_eq!(used.by_sku(), [("h200_sxm".to_owned(), 2)].into());
    assert_eq!(graph(&rendered)["metadata"]["annotations"]["stator.dev/gpu"], "h200_sxm");
    // Where a label tells, nothing is added.
    let plain = super::rendered("llama", &spec.replace(", nodeSelector: {pool: fast}", ""));
    assert_eq!(graph(&plain)["metadata"]["annotations"], Value::Null);
}

/// Row C6 of the review: these were silently gone.
#[test]
fn a_target_runs_where_the_intent_says() {
    for engine in ["vllm", "auto"] {
        let spec = format!(
            "model: m\nengine: {engine}\nruntime: 1.2.0\nsla: {{ttft: 300ms}}\nhardware: {{gpu: h200_sxm, nodeSelector: \
             {{pool: fast}}, tolerations: [{{key: gpu, operator: Exists}}]}}"
        );
        let rendered = rendered("llama", &spec);
        let overrides = &rendered.objects[0].object.value()["spec"]["overrides"];
        let job = &overrides["profilingJob"]["template"]["spec"];
        let worker = &overrides["dgd"]["spec"]["services"]["VllmDecodeWorker"]["extraPodSpec"];
        for pod in [job, worker] {
            assert_eq!(pod["nodeSelector"]["pool"], "fast", "{engine}: {overrides:#}");
            assert_eq!(pod["tolerations"][0]["key"], "gpu", "{engine}: {overrides:#}");
        }
        assert!(overrides["dgd"]["spec"]["services"]["VllmPrefillWorker"].is_object());
    }
}

/// Row C7: the finding stands at the argument and names the line of the field.
#[test]
fn a_contradiction_names_the_line_of_the_field() {
    let text = "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: qwen}\nspec:\n  model: m\n  engine: vllm\n  \
                runtime: 1.2.0\n  serving:\n    worker:\n      tensorParallel: 16\n      args:\n        - -tp\n        - '4'\n";
    let file = SourceFile { path: "qwen/model.yaml".to_owned(), content: Ok(text.as_bytes().into()) };
    let tree = SourceTree { files: vec![file], ..SourceTree::default() };
    let selection = Workspace::parse(&tree).resolve_environment(None).unwrap();
    let found = render(&selection.intents[0].load().unwrap(), &super::target()).findings;
    let contradiction = found.iter().find(|one| one.rule.id == "model/args-contradict").unwrap();
    assert_eq!(contradiction.message, "`-tp 4` contradicts `tensorParallel: 16` (qwen/model.yaml:10)");
    assert_eq!((contradiction.location.file.as_str(), contradiction.location.line), ("qwen/model.yaml", 12));
}

/// What TensorRT-LLM reads from a file that a worker mounts, against the fields of that worker.
#[test]
fn an_engine_file_that_contradicts_a_field_is_said() {
    let said = |decode: &str, prefill: &str, text: &str| {
        let spec = format!(
            "model: m\nengine: trtllm\nruntime: 1.2.0\nserving:\n  decode: {decode}\n  prefill: {prefill}\nfiles:\n  engine: \
             {{mountPath: /e/decode.yaml, components: [decode], text: {text:?}}}"
        );
        findings("llama", &spec)
    };
    let file =
        "tensor_parallel_size: 4\npipeline_parallel_size: 1\nmoe_expert_parallel_size: 4\nenable_attention_dp: false\n";
    insta::assert_snapshot!(said("{tensorParallel: 8}", "{tensorParallel: 8}", file), @"error model/args-contradict: `tensor_parallel_size: 4` of file `engine` contradicts `tensorParallel: 8`; Keep one of them: remove it from the file, or write `tensorParallel: 4`.");
    insta::assert_snapshot!(said("{gpus: 2}", "{gpus: 8}", file), @"warning model/gpus: `tensor_parallel_size: 4` of file `engine`: its sizes need 4 GPUs, and a replica has 2; Write the sizes as fields, such as `tensorParallel`, or `gpus: 4` under `spec.serving.decode`.");
    insta::assert_snapshot!(said("{tensorParallel: 4, expertParallel: 2}", "{gpus: 1}", file), @"error model/args-contradict: `moe_expert_parallel_size: 4` of file `engine` contradicts `expertParallel: 2`; Keep one of them: remove it from the file, or write `expertParallel: 4`.");
    insta::assert_snapshot!(said("{tensorParallel: 4, dataParallel: 4}", "{gpus: 1}", file), @"error model/args-contradict: `enable_attention_dp: false` of file `engine` contradicts `dataParallel: 4`; Keep one of them: remove it from the file, or write `dataParallel: 1`.");
    for decode in ["{tensorParallel: 4}", "{gpus: 4}", "{tensorParallel: 4, expertParallel: 4}"] {
        assert_eq!(said(decode, "{gpus: 1}", file), "", "{decode}");
    }
    // Other engines' files are theirs, and so is what is no YAML.
    for text in ["", "{", "- a", "tensor_parallel_size: auto"] {
        assert_eq!(said("{gpus: 2}", "{gpus: 1}", text), "", "{text}");
    }
    let other = "model: m\nengine: vllm\nruntime: 1.2.0\nserving: {worker: {tensorParallel: 2}}\nfiles: {a: {mountPath: /a, text: \
                 'tensor_parallel_size: 4'}}";
    assert_eq!(findings("llama", other), "");
}
