//! Models by target: what a request holds the graph to that Dynamo makes.

use super::{findings, rendered};
use serde_json::Value;

fn dgd(spec: &str) -> Value {
    let rendered = rendered("llama", spec);
    assert!(!rendered.objects.is_empty(), "{:?}", rendered.findings);
    rendered.objects[0].object.value()["spec"]["overrides"]["dgd"].clone()
}

#[test]
fn every_engine_takes_what_workers_are_held_to_as_its_own_flags() {
    let of = |engine: &str, dtype: &str| {
        let spec = format!(
            "model: org/model\nservedName: chat\nengine: {engine}\nruntime: 1.2.0\nenv: {{LOG: debug}}\nsla:\n  ttft: 300ms\n  \
             router: kv\n  worker: {{tensorParallel: 4, pipelineParallel: 2, {dtype} maxSequences: 64, maxLength: 8192, \
             args: [--extra]}}"
        );
        dgd(&spec)
    };
    let vllm = of("vllm", "dtype: bfloat16,");
    insta::assert_snapshot!(vllm["spec"]["envs"], @r#"[{"name":"DYN_ROUTER_MODE","value":"kv"},{"name":"LOG","value":"debug"}]"#);
    insta::assert_snapshot!(vllm["spec"]["services"]["VllmDecodeWorker"], @r#"{"extraPodSpec":{"mainContainer":{"args":["--served-model-name","chat","--tensor-parallel-size","4","--pipeline-parallel-size","2","--dtype","bfloat16","--max-num-seqs","64","--max-model-len","8192","--extra"]}},"resources":{"limits":{"gpu":"8"}}}"#);
    let names =
        |dgd: &Value| dgd["spec"]["services"].as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    insta::assert_snapshot!(names(&vllm), @"VllmDecodeWorker VllmPrefillWorker VllmWorker");
    let args = |dgd: &Value| dgd["spec"]["services"]["decode"]["extraPodSpec"]["mainContainer"]["args"].to_string();
    insta::assert_snapshot!(args(&of("sglang", "dtype: float16,")), @r#"["--served-model-name","chat","--tp-size","4","--pp-size","2","--dtype","float16","--max-running-requests","64","--context-length","8192","--extra"]"#);
    insta::assert_snapshot!(args(&of("trtllm", "")), @r#"["--served-model-name","chat","--tensor-parallel-size","4","--pipeline-parallel-size","2","--max-batch-size","64","--max-seq-len","8192","--extra"]"#);
}

#[test]
fn a_model_by_target_that_holds_workers_to_nothing_overrides_nothing() {
    assert_eq!(dgd("model: m\nengine: vllm\nruntime: 1.2.0\nsla: {ttft: 300ms}"), Value::Null);
}

#[test]
fn what_cannot_be_carried_is_refused_and_never_dropped() {
    insta::assert_snapshot!(findings("a", "model: m\nservedName: n\nengine: auto\nruntime: 1.2.0\nsla: {ttft: 300ms, worker: {dtype: float16}}"), @r#"
    error render/not-with-sla: `servedName` needs an engine's flags, but `engine: auto` names no engine; name the engine, or remove `servedName`
    error render/not-with-sla: `worker` needs an engine's flags, but `engine: auto` names no engine; name the engine, or remove `worker`
    "#);
    insta::assert_snapshot!(findings("a", "model: m\nengine: trtllm\nruntime: 1.2.0\nsla: {ttft: 300ms, worker: {dtype: float16}}"), @"error render/not-with-sla: `dtype` has no separate flag in this engine, and would replace everything that the profiler chose; remove it, and set it in `serving` once the recommendation is promoted");
}
