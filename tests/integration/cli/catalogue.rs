//! `stator init --list` and `--recipe`: models from the catalogue.

use super::{ROOT, fleet};
use crate::workbench::Workbench;
use insta::assert_snapshot;
use serde_json::Value;

/// Every recipe as `--list` prints it: its name, its hardware, and the row.
fn listed(bench: &Workbench) -> Vec<(String, String, Value)> {
    let list = bench.run(["init", "--list", "-o", "json"]).success().json();
    let word = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let rows = list["recipes"].as_array().unwrap().iter();
    rows.map(|row| (word(row, "name"), word(row, "hardware"), row.clone())).collect()
}

#[test]
fn the_list_names_every_recipe_with_its_gpus_and_price() {
    let bench = Workbench::empty();
    assert_snapshot!(bench.run(["init", "--list"]), @"
    exit 0
    ----- stdout -----
    NAME               HARDWARE  ENGINE  MODEL                                         SERVING                           GPUS  ESTIMATE/H
    deepseek-v4-flash  H200      vllm    deepseek-ai/DeepSeek-V4-Flash                 aggregated: 1 × TP1 DP4 EP4       4     $18.16
    deepseek-v4-flash  B200      vllm    nvidia/DeepSeek-V4-Flash-NVFP4                aggregated: 1 × TP4               4     $24.12
    deepseek-v4-flash  GB200     vllm    deepseek-ai/DeepSeek-V4-Flash                 aggregated: 1 × TP4 EP4           4     $18.16
    deepseek-v4-pro    H200      vllm    deepseek-ai/DeepSeek-V4-Pro                   aggregated: 1 × TP8 EP8           8     $36.32
    deepseek-v4-pro    B200      vllm    nvidia/DeepSeek-V4-Pro-NVFP4                  aggregated: 1 × TP8 EP8           8     $48.24
    glm-5-2            H200      sglang  zai-org/GLM-5.2-FP8                           aggregated: 1 × TP8 EP8           8     $36.32
    glm-5-2            B200      sglang  nvidia/GLM-5.2-NVFP4                          aggregated: 1 × TP4 DP4           4     $24.12
    gpt-oss-120b       H100      vllm    openai/gpt-oss-120b                           aggregated: 4 × TP2               8     $21.52
    gpt-oss-120b       H200      vllm    openai/gpt-oss-120b                           aggregated: 8 × TP1               8     $36.32
    gpt-oss-120b       B200      vllm    openai/gpt-oss-120b                           aggregated: 8 × TP1               8     $48.24
    gpt-oss-120b       GB200     trtllm  openai/gpt-oss-120b                           aggregated: 1 × TP4 EP4           4     $18.16
    kimi-k2-6          H200      vllm    moonshotai/Kimi-K2.6                          aggregated: 1 × TP8               8     $36.32
    kimi-k2-6          B200      vllm    nvidia/Kimi-K2.6-NVFP4                        aggregated: 1 × TP4               4     $24.12
    llama-3-3-70b      H100      vllm    RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic   aggregated: 1 × TP4               4     $10.76
    llama-3-3-70b      H200      vllm    RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic   disaggregated: 2 × TP2 + 1 × TP4  8     $36.32
    llama-3-3-70b      B200      vllm    RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic   aggregated: 1 × TP2               2     $12.06
    nemotron-3-super   H100      vllm    nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8  aggregated: 1 × TP4               4     $10.76
    nemotron-3-super   H200      vllm    nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8  aggregated: 1 × TP4               4     $18.16
    nemotron-3-super   B200      vllm    nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8  aggregated: 1 × TP4               4     $24.12
    qwen3-235b         H100      trtllm  Qwen/Qwen3-235B-A22B-FP8                      aggregated: 4 × TP4 EP4           16    $43.04
    qwen3-235b         H200      trtllm  Qwen/Qwen3-235B-A22B-FP8                      aggregated: 4 × TP4 EP4           16    $72.64
    qwen3-235b         B200      trtllm  Qwen/Qwen3-235B-A22B-FP8                      aggregated: 4 × TP4 EP4           16    $96.48
    qwen3-235b         GB200     trtllm  Qwen/Qwen3-235B-A22B-FP8                      aggregated: 1 × TP4 EP4           4     $18.16
    qwen3-32b          H100      vllm    Qwen/Qwen3-32B                                aggregated: 4 × TP2               8     $21.52
    qwen3-32b          H200      vllm    Qwen/Qwen3-32B                                disaggregated: 6 × TP2 + 2 × TP2  16    $72.64
    qwen3-32b          B200      vllm    Qwen/Qwen3-32B                                aggregated: 4 × TP1               4     $24.12
    qwen3-5-122b       H200      vllm    Qwen/Qwen3.5-122B-A10B-FP8                    aggregated: 2 × TP2               4     $18.16
    qwen3-5-122b       B200      vllm    nvidia/Qwen3.5-122B-A10B-NVFP4                aggregated: 2 × TP1               2     $12.06
    ----- stderr -----
    Estimate of $2.69/h for one H100: RunPod on 2026-05-22, https://www.spheron.network/blog/runpod-h100-pricing-2026/
    Estimate of $4.54/h for one H200: Spheron on 2026-03-17, https://www.spheron.network/blog/nvidia-h200-vs-b200-vs-gb200
    Estimate of $6.03/h for one B200: Spheron on 2026-03-17, https://www.spheron.network/blog/nvidia-h200-vs-b200-vs-gb200
    Estimate of $4.54/h for one GB200: Spheron on 2026-03-17, https://www.spheron.network/blog/nvidia-h200-vs-b200-vs-gb200
    Next: stator init --recipe NAME --hardware GPU DIR
    ");
    assert_snapshot!(bench.run(["init", "--list", "--hardware", "gb200", "-o", "name"]), @"
    exit 0
    ----- stdout -----
    deepseek-v4-flash
    gpt-oss-120b
    qwen3-235b
    ----- stderr -----
    ");
    assert_eq!(bench.files("."), Vec::<String>::new(), "a list writes nothing");
}

#[test]
fn each_recipe_is_valid_for_dynamo_1_4_and_1_5_and_renders_to_the_gpus_of_the_list() {
    for (name, hardware, row) in listed(&Workbench::empty()) {
        let bench = Workbench::empty();
        bench.run(["init", "--recipe", &name, "--hardware", &hardware]).success();
        let path = format!("models/{name}/model.yaml");
        assert!((15..=30).contains(&bench.read(&path).lines().count()), "{path} for {hardware}");
        for release in ["1.4", "1.5"] {
            bench.run(["validate", "--dynamo", release]).success();
        }
        bench.run(["fmt", "--check"]).success();
        let rendered = bench.run(["render", "-o", "json"]).success().json();
        let graphs = rendered["items"].as_array().unwrap().iter().filter(|one| one["kind"] == "DynamoGraphDeployment");
        let components = graphs.flat_map(|graph| graph["spec"]["components"].as_array().unwrap());
        let gpus: u64 = components.map(gpus_of_component).sum();
        assert_eq!(row["gpus"], gpus, "{name} for {hardware}");
        let plan = bench.run(["plan", "--cluster", "embedded", "-o", "json"]).success().json();
        assert_eq!(plan["summary"]["gpus"]["after"], gpus, "{name} for {hardware}");
        assert_eq!(plan["summary"]["cost"]["afterHour"], row["estimatedPricePerHour"], "{name} for {hardware}");
    }
}

/// Counted by hand: the GPUs that all pods of a component ask for.
fn gpus_of_component(component: &Value) -> u64 {
    let containers = component["podTemplate"]["spec"]["containers"].as_array();
    let gpus = containers.into_iter().flatten().map(|container| {
        let asked = &container["resources"]["limits"]["nvidia.com/gpu"];
        asked.as_u64().or_else(|| asked.as_str().and_then(|text| text.parse().ok())).unwrap_or(0)
    });
    let nodes = component["multinode"]["nodeCount"].as_u64().unwrap_or(1);
    gpus.sum::<u64>() * component["replicas"].as_u64().unwrap_or(1) * nodes
}

#[test]
fn a_recipe_becomes_a_healthy_model_after_at_most_four_edits() {
    let bench = Workbench::empty();
    assert_snapshot!(bench.run(["init", "--recipe", "gpt-oss-120b", "shop"]), @"
    exit 0
    ----- stdout -----
    models/gpt-oss-120b/model.yaml
    stator.yaml
    ----- stderr -----
    openai/gpt-oss-120b on 8 H200, about $36.32/h. Look at these lines first:
      shop/models/gpt-oss-120b/model.yaml:13: replicas: as many workers as your load needs
      shop/models/gpt-oss-120b/model.yaml:23: storageClass: a class whose volumes many nodes can mount: `kubectl get storageclass`
      shop/models/gpt-oss-120b/model.yaml:25: tokenSecret: the Secret with your Hugging Face token under the key HF_TOKEN
      shop/models/gpt-oss-120b/model.yaml:26: hostnames: remove the `#` and set names, if a gateway serves the model
    Next: cd shop && stator validate && stator sync --cluster embedded --simulate-operator --wait
    ");
    assert_snapshot!(bench.read("shop/stator.yaml"), @"
    apiVersion: stator.dev/v1alpha1
    kind: Repository
    metadata:
      name: shop
    spec:
      environments:
        default:
          namespace: models
      # Estimate: Spheron, 2026-03-17. Write what you pay.
      prices:
        gpuHour:
          h200_sxm: 4.54
    ");
    assert_snapshot!(bench.read("shop/models/gpt-oss-120b/model.yaml"), @r#"
    # Sizes after NVIDIA's recipes/gpt-oss-120b/vllm/agg-h200-agentic.
    apiVersion: stator.dev/v1alpha1
    kind: Model
    metadata: {name: gpt-oss-120b}
    spec:
      model: openai/gpt-oss-120b
      engine: vllm
      runtime: 1.3.0
      hardware: {gpu: h200_sxm, gpusPerNode: 8}
      serving:
        frontend: {replicas: 1, router: kv}
        worker:
          replicas: 8
          tensorParallel: 1
          maxSequences: 256
          maxLength: 131072
          memoryFraction: 0.9
          toolCallParser: harmony
          reasoningParser: gpt_oss
          args: [--kv-cache-dtype=fp8, --moe-backend=flashinfer_cutlass]
      weights:
        source: hf://openai/gpt-oss-120b@b5c939de8f754692c1647ca79fbf85e8c1e70f8a
        claim: {name: gpt-oss-120b-weights, size: 200Gi, storageClass: shared}
        exclude: ["original/*", "metal/*"]
        tokenSecret: hf-token-secret
      # route: {gateway: {name: inference-gateway, namespace: gateways}, hostnames: [gpt-oss-120b.example.com]}
    "#);
    let model = "shop/models/gpt-oss-120b/model.yaml";
    bench.replace(model, "replicas: 8", "replicas: 2");
    bench.replace(model, "storageClass: shared", "storageClass: fast");
    bench.replace(model, "tokenSecret: hf-token-secret", "tokenSecret: my-token");
    bench.replace(model, "# route: {gateway", "route: {gateway");
    assert_snapshot!(bench.run(["validate", "shop"]), @"
    exit 0
    ----- stdout -----
    All checks passed (1 model).
    ----- stderr -----
    note: checked against Dynamo 1.4, the stable release; name yours with --dynamo, or with `platform: {dynamo: …}` under the environment in stator.yaml
    ");
    let sync = ["sync", "shop", "--cluster", "embedded", "--simulate-operator", "--wait", "--yes"];
    assert_snapshot!(bench.run(sync).success().result(), @"
    MODEL         RESULT   APPLIED  PRUNED  MESSAGE
    gpt-oss-120b  Healthy  4        0       -
    1 of 1 model synced, 8 writes.
    ");
}

#[test]
fn a_repository_gets_only_the_folder_of_the_model() {
    let bench = fleet();
    assert_snapshot!(bench.run(["init", "--recipe", "Qwen3.5-122b"]), @"
    exit 0
    ----- stdout -----
    models/qwen3-5-122b/model.yaml
    ----- stderr -----
    Qwen/Qwen3.5-122B-A10B-FP8 on 4 H200, about $18.16/h. Look at these lines first:
      models/qwen3-5-122b/model.yaml:14: replicas: as many workers as your load needs
      models/qwen3-5-122b/model.yaml:25: storageClass: a class whose volumes many nodes can mount: `kubectl get storageclass`
      models/qwen3-5-122b/model.yaml:27: tokenSecret: the Secret with your Hugging Face token under the key HF_TOKEN
      models/qwen3-5-122b/model.yaml:28: hostnames: remove the `#` and set names, if a gateway serves the model
    Next: stator validate models/qwen3-5-122b
    ");
    assert_snapshot!(bench.run(["init", "--recipe", "qwen3-235b", "--hardware", "b200_sxm", "chat"]), @"
    exit 0
    ----- stdout -----
    qwen3-235b/model.yaml
    qwen3-235b/engine.yaml
    ----- stderr -----
    Qwen/Qwen3-235B-A22B-FP8 on 16 B200, about $96.48/h. Look at these lines first:
      chat/qwen3-235b/model.yaml:13: replicas: as many workers as your load needs
      chat/qwen3-235b/model.yaml:23: storageClass: a class whose volumes many nodes can mount: `kubectl get storageclass`
      chat/qwen3-235b/model.yaml:24: tokenSecret: the Secret with your Hugging Face token under the key HF_TOKEN
      chat/qwen3-235b/model.yaml:27: hostnames: remove the `#` and set names, if a gateway serves the model
    Next: cd chat && stator validate qwen3-235b
    ");
    assert_eq!(bench.read("stator.yaml"), ROOT);
    bench.run(["validate"]).success();
}

#[test]
fn what_cannot_be_written_is_refused_with_a_next_step() {
    let bench = Workbench::empty();
    assert_snapshot!(bench.run(["init", "--recipe", "gpt-os-120b", "new"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: there is no recipe `gpt-os-120b`
    hint: did you mean `gpt-oss-120b`?
    hint: choose one of deepseek-v4-flash, deepseek-v4-pro, glm-5-2, gpt-oss-120b, kimi-k2-6, llama-3-3-70b, nemotron-3-super, qwen3-235b, qwen3-32b, qwen3-5-122b; `stator init --list` describes them
    ");
    assert_snapshot!(bench.run(["init", "--recipe", "kimi-k2.6", "--hardware", "H100", "new"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: recipe `kimi-k2-6` has no sizes for `H100`
    hint: choose its hardware with --hardware: H200, B200
    ");
    assert_snapshot!(bench.run(["init", "--list", "--hardware", "MI300"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: no recipe has sizes for `MI300`
    hint: choose with --hardware: H100, H200, B200, GB200
    ");
    assert_snapshot!(bench.run(["init", "--hardware", "B200"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: --hardware needs --recipe or --list
    hint: `stator init --list` names the recipes and their hardware
    ");
    bench.run(["init", "--list", "--recipe", "qwen3-32b"]).exits(2);
    assert_eq!(bench.files("."), Vec::<String>::new(), "nothing was written");
    // All or nothing: one file in the way, and none of the others is written.
    bench.write("models/qwen3-235b/engine.yaml", "mine: true\n");
    assert_snapshot!(bench.run(["init", "--recipe", "qwen3-235b"]), @"
    exit 2
    ----- stdout -----
    ----- stderr -----
    error: ./models/qwen3-235b/engine.yaml exists already
    hint: choose another folder: `stator init --recipe qwen3-235b DIR`
    ");
    assert_eq!(bench.files("."), ["models/qwen3-235b/engine.yaml"]);
}
