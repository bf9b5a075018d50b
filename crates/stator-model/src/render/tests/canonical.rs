//! For each canonical manifest, the intent that renders to it.

use super::rendered;
use serde_json::Value;

/// Renders the intent and compares its graph with a manifest, leaving out what stator adds to metadata.
fn renders_to(manifest: &str, name: &str, spec: &str) {
    let expected: Value = serde_saphyr::from_str(manifest).unwrap();
    let rendered = rendered(name, spec);
    assert_eq!(rendered.objects.len(), 1);
    let object = rendered.objects[0].object.value();
    assert_eq!(object["apiVersion"], expected["apiVersion"]);
    assert_eq!(object["kind"], expected["kind"]);
    assert_eq!(object["metadata"]["name"], expected["metadata"]["name"]);
    similar_asserts(&object["spec"], &expected["spec"]);
}

fn similar_asserts(found: &Value, expected: &Value) {
    let (found, expected) = (format!("{found:#}"), format!("{expected:#}"));
    assert!(found == expected, "{}", similar::TextDiff::from_lines(&expected, &found).unified_diff());
}

macro_rules! canonical {
    ($($test:ident: $file:literal as $name:literal is $spec:literal;)*) => {
        $(
            #[test]
            fn $test() {
                let manifest =
                    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/dynamo/canonical/", $file));
                renders_to(manifest, $name, $spec);
            }
        )*
    };
}

canonical! {
    vllm_aggregated: "vllm-agg.yaml" as "q-vllm" is "
model: Qwen/Qwen3-0.6B
servedName: qwen
engine: vllm
runtime: 1.2.0
serving: {worker: {tensorParallel: 1}}
secrets: {huggingFace: hf-token-secret}";

    vllm_disaggregated: "vllm-disagg.yaml" as "q-vllm-pd" is "
model: Qwen/Qwen3-0.6B
servedName: qwen
engine: vllm
runtime: 1.2.0
serving: {prefill: {tensorParallel: 1}, decode: {tensorParallel: 1}}
secrets: {huggingFace: hf-token-secret}";

    sglang_aggregated: "sglang-agg.yaml" as "q-sglang" is "
model: Qwen/Qwen3-0.6B
servedName: qwen
engine: sglang
runtime: 1.2.0
serving: {worker: {tensorParallel: 1, blockSize: 16}}
secrets: {huggingFace: hf-token-secret}";

    sglang_disaggregated: "sglang-disagg.yaml" as "q-sglang-pd" is "
model: Qwen/Qwen3-0.6B
servedName: qwen
engine: sglang
runtime: 1.2.0
serving: {prefill: {tensorParallel: 1, blockSize: 16}, decode: {tensorParallel: 1, blockSize: 16}}
secrets: {huggingFace: hf-token-secret}";

    trtllm_aggregated: "trtllm-agg.yaml" as "q-trtllm" is "
model: Qwen/Qwen3-0.6B
servedName: qwen
engine: trtllm
runtime: 1.2.0
serving: {worker: {tensorParallel: 1, maxSequences: 16, engineOptions: {enable_chunked_prefill: true}}}
secrets: {huggingFace: hf-token-secret}";

    trtllm_disaggregated: "trtllm-disagg.yaml" as "q-trtllm-pd" is "
model: Qwen/Qwen3-0.6B
servedName: qwen
engine: trtllm
runtime: 1.2.0
serving: {prefill: {tensorParallel: 1, maxSequences: 16}, decode: {tensorParallel: 1, maxSequences: 16}}
secrets: {huggingFace: hf-token-secret}";

    mocker_aggregated: "mocker-agg.yaml" as "q-mock" is "
model: Qwen/Qwen3-0.6B
servedName: qwen
engine: mocker
runtime: 1.2.0
serving: {worker: {args: [--speedup-ratio, '10']}}
secrets: {huggingFace: hf-token-secret}";
}
