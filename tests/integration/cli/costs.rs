//! What a plan says of GPUs and money, in every form.

use crate::workbench::Workbench;
use insta::assert_snapshot;
use serde_json::Value;

const STATOR: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Repository
metadata: {name: fleet}
spec:
  environments:
    prod: {namespace: models}
  prices:
    gpuHour: {h200_sxm: 3.5, h100_sxm: 2.95}
";

/// The example of the rolling updates' page: 2 × 2 GPUs that prefill, 3 × 4 that decode.
const LLAMA: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Model
metadata: {name: llama}
spec:
  model: meta-llama/Llama-3.1-70B-Instruct
  engine: vllm
  runtime: 1.2.0
  hardware: {gpu: h200_sxm, gpusPerNode: 8}
  serving:
    prefill: {replicas: 2, tensorParallel: 2}
    decode: {replicas: 2, tensorParallel: 4}
";

/// A committed repository of one model.
fn committed(model: &str) -> Workbench {
    let bench = Workbench::with(&[("stator.yaml", STATOR), ("llama/model.yaml", model)]);
    bench.commit("first");
    bench
}

/// What a plan against the last commit says, after an edit.
fn planned(bench: &Workbench, output: &str) -> String {
    bench.run(["plan", "--from", "HEAD", "-o", output]).success().result()
}

/// The numbers of `plan -o json`: of the summary, of each model, and of each change.
fn numbers(bench: &Workbench) -> String {
    let plan: Value = serde_json::from_str(&planned(bench, "json")).unwrap();
    let summary = &plan["summary"];
    let mut lines = vec![format!("summary {} {} {}", summary["gpus"], summary["gpusBySku"], summary["cost"])];
    for (name, model) in summary["models"].as_object().into_iter().flatten() {
        lines.push(format!("model {name} {} {} {}", model["gpus"], model["gpusBySku"], model["cost"]));
    }
    for change in plan["changes"].as_array().unwrap() {
        let name = change["object"]["kind"].as_str().unwrap();
        lines.push(format!(
            "{name} {} {} {} {}",
            change["gpus"], change["gpusBySku"], change["gpuRange"], change["cost"]
        ));
    }
    lines.join("\n")
}

#[test]
fn a_new_image_and_one_more_replica_peak_at_the_surge_of_every_worker() {
    let bench = committed(LLAMA);
    bench.replace("llama/model.yaml", "runtime: 1.2.0", "runtime: 1.2.1");
    bench.replace("llama/model.yaml", "decode: {replicas: 2", "decode: {replicas: 3");
    assert_snapshot!(planned(&bench, "text"), @"
    fleet / prod at b0b3c46-dirty against b0b3c46

    llama  llama/model.yaml
      ~ update DynamoGraphDeployment models/llama   managed-roll   GPUs 12 → 16 h200_sxm (+4, peak 22)   +$14.00/h
          ~ spec.components[name=decode].podTemplate.spec.containers[name=main].image   nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0 → nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.1
          ~ spec.components[name=decode].replicas                      2 → 3
          ~ spec.components[name=frontend].podTemplate.spec.containers[name=main].image   nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0 → nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.1
          ~ spec.components[name=prefill].podTemplate.spec.containers[name=main].image   nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0 → nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.1
          · all 2 worker components roll (decode, prefill): the operator hashes them together

    Plan: 0 to create, 1 to change, 0 to delete, 0 unchanged.
    GPUs: 12 → 16 h200_sxm (+4, peak 22)
    Cost: ≈ +$10,220/mo ($42.00/h → $56.00/h)
    ");
    assert_snapshot!(numbers(&bench), @r#"
    summary {"after":16,"before":12,"peak":22} {"h200_sxm":{"after":16,"before":12,"peak":22}} {"afterHour":56.0,"beforeHour":42.0,"currency":"$","deltaHour":14.0,"deltaMonth":10220.0,"unpriced":[]}
    model llama {"after":16,"before":12,"peak":22} {"h200_sxm":{"after":16,"before":12,"peak":22}} {"afterHour":56.0,"beforeHour":42.0,"currency":"$","deltaHour":14.0,"deltaMonth":10220.0,"unpriced":[]}
    DynamoGraphDeployment {"after":16,"before":12,"peak":22} {"h200_sxm":{"after":16,"before":12,"peak":22}} null {"afterHour":56.0,"beforeHour":42.0,"currency":"$","deltaHour":14.0,"deltaMonth":10220.0,"unpriced":[]}
    "#);
    let markdown = planned(&bench, "markdown");
    let table: Vec<&str> = markdown.lines().filter(|line| line.starts_with("**") || line.starts_with('|')).collect();
    assert_snapshot!(table.join("\n"), @r"
    **12 → 16 h200\_sxm (+4, peak 22) · ≈ +\$&#8203;10,220/mo (\$&#8203;42.00/h → \$&#8203;56.00/h) · disruption: managed-roll**
    | | Model | What changes | GPUs | Peak | Disruption |
    |--|--|--|--:|--:|--|
    | `~` | llama | update `DynamoGraphDeployment llama`<br>`spec.components[name=decode].podTemplate.spec.containers[name=main].image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0 → nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.1`<br>`spec.components[name=decode].replicas: 2 → 3`<br>`spec.components[name=frontend].podTemplate.spec.containers[name=main].image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0 → nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.1`<br>and 1 more<br>all 2 worker components roll (decode, prefill): the operator hashes them together | +4 h200\_sxm<br>+\$&#8203;14.00/h | 22 | managed-roll |
    ");
}

#[test]
fn a_rollout_without_surge_needs_no_spare_gpus() {
    let bench = committed(&LLAMA.replace("  serving:", "  rollout: {maxSurge: 0, maxUnavailable: 1}\n  serving:"));
    bench.replace("llama/model.yaml", "runtime: 1.2.0", "runtime: 1.2.1");
    assert_snapshot!(numbers(&bench), @r#"
    summary {"after":12,"before":12,"peak":12} {"h200_sxm":{"after":12,"before":12,"peak":12}} {"afterHour":42.0,"beforeHour":42.0,"currency":"$","deltaHour":0.0,"deltaMonth":0.0,"unpriced":[]}
    model llama {"after":12,"before":12,"peak":12} {"h200_sxm":{"after":12,"before":12,"peak":12}} {"afterHour":42.0,"beforeHour":42.0,"currency":"$","deltaHour":0.0,"deltaMonth":0.0,"unpriced":[]}
    DynamoGraphDeployment {"after":12,"before":12,"peak":12} {"h200_sxm":{"after":12,"before":12,"peak":12}} null {"afterHour":42.0,"beforeHour":42.0,"currency":"$","deltaHour":0.0,"deltaMonth":0.0,"unpriced":[]}
    "#);
}

#[test]
fn nodes_roll_in_place_and_never_surge() {
    let bench = committed(
        &LLAMA.replace("decode: {replicas: 2, tensorParallel: 4}", "decode: {replicas: 2, tensorParallel: 16}"),
    );
    bench.replace("llama/model.yaml", "runtime: 1.2.0", "runtime: 1.2.1");
    assert_snapshot!(planned(&bench, "text"), @r#"
    fleet / prod at 75966f7-dirty against 75966f7

    llama  llama/model.yaml
      ~ update DynamoGraphDeployment models/llama   native-roll   GPUs 36 h200_sxm
          ~ spec.components[name=decode].podTemplate.spec.containers[name=main].image   nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0 → nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.1
          ~ spec.components[name=frontend].podTemplate.spec.containers[name=main].image   nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0 → nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.1
          ~ spec.components[name=prefill].podTemplate.spec.containers[name=main].image   nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0 → nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.1
          · all 2 worker components roll (decode, prefill): the operator hashes them together

    Plan: 0 to create, 1 to change, 0 to delete, 0 unchanged.
    GPUs: 36 h200_sxm
    Cost: ≈ +$0/mo ($126.00/h → $126.00/h)
    "#);
}

#[test]
fn an_autoscaler_has_a_range() {
    let bench = committed(LLAMA);
    bench.replace(
        "llama/model.yaml",
        "decode: {replicas: 2, tensorParallel: 4}",
        "decode: {replicas: 2, tensorParallel: 4, scaling: {min: 1, max: 6}}",
    );
    assert_snapshot!(planned(&bench, "text"), @"
    fleet / prod at b0b3c46-dirty against b0b3c46

    llama  llama/model.yaml
      ~ update DynamoGraphDeployment models/llama   scale   GPUs 12 h200_sxm, autoscaled from 8 to 28
          - spec.components[name=decode].replicas         2
          + spec.components[name=decode].scalingAdapter   {}

    Plan: 0 to create, 1 to change, 0 to delete, 0 unchanged.
    GPUs: 12 h200_sxm
    Cost: ≈ +$0/mo ($42.00/h → $42.00/h)
    ");
}

#[test]
fn a_graph_on_two_kinds_of_gpus_is_priced_by_kind() {
    let mixed = LLAMA.replace(
        "prefill: {replicas: 2, tensorParallel: 2}",
        "prefill: {replicas: 2, tensorParallel: 2, template: {spec: {nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}}}",
    );
    let bench = committed(&mixed);
    bench.replace("llama/model.yaml", "prefill: {replicas: 2", "prefill: {replicas: 1");
    assert_snapshot!(planned(&bench, "text"), @"
    fleet / prod at 7535f48-dirty against 7535f48

    llama  llama/model.yaml
      ~ update DynamoGraphDeployment models/llama   scale   GPUs 4 → 2 h100_sxm (-2), 8 h200_sxm   -$5.90/h
          ~ spec.components[name=prefill].replicas   2 → 1

    Plan: 0 to create, 1 to change, 0 to delete, 0 unchanged.
    GPUs: 4 → 2 h100_sxm (-2), 8 h200_sxm
    Cost: ≈ -$4,307/mo ($39.80/h → $33.90/h)
    ");
    assert_snapshot!(numbers(&bench), @r#"
    summary {"after":10,"before":12,"peak":12} {"h100_sxm":{"after":2,"before":4,"peak":4},"h200_sxm":{"after":8,"before":8,"peak":8}} {"afterHour":33.9,"beforeHour":39.8,"currency":"$","deltaHour":-5.9,"deltaMonth":-4307.0,"unpriced":[]}
    model llama {"after":10,"before":12,"peak":12} {"h100_sxm":{"after":2,"before":4,"peak":4},"h200_sxm":{"after":8,"before":8,"peak":8}} {"afterHour":33.9,"beforeHour":39.8,"currency":"$","deltaHour":-5.9,"deltaMonth":-4307.0,"unpriced":[]}
    DynamoGraphDeployment {"after":10,"before":12,"peak":12} {"h100_sxm":{"after":2,"before":4,"peak":4},"h200_sxm":{"after":8,"before":8,"peak":8}} null {"afterHour":33.9,"beforeHour":39.8,"currency":"$","deltaHour":-5.9,"deltaMonth":-4307.0,"unpriced":[]}
    "#);
}

#[test]
fn a_search_on_real_gpus_is_counted_while_it_runs() {
    let bench = committed(LLAMA);
    bench.write(
        "found/model.yaml",
        "\
apiVersion: stator.dev/v1alpha1
kind: Model
metadata: {name: found}
spec:
  model: Qwen/Qwen3-32B
  engine: vllm
  runtime: 1.2.0
  hardware: {gpu: h200_sxm, gpusPerNode: 8, totalGpus: 16}
  sla: {ttft: 300ms, itl: 20ms, search: thorough}
",
    );
    assert_snapshot!(planned(&bench, "text"), @"
    fleet / prod at b0b3c46-dirty against b0b3c46

    found  found/model.yaml
      + create DynamoGraphDeploymentRequest models/found-a7e1d377   GPUs 0 h200_sxm (peak 16)
          · is new
          · profiling uses up to 16 GPUs; the result is stored, not deployed

    Plan: 1 to create, 0 to change, 0 to delete, 1 unchanged.
    GPUs: 12 h200_sxm (peak 28)
    Cost: ≈ +$0/mo ($42.00/h → $42.00/h)
    ");
}

#[test]
fn a_model_that_goes_saves_what_it_cost() {
    let bench = committed(LLAMA);
    bench.remove("llama/model.yaml");
    bench.write("mock/model.yaml", super::MOCK);
    assert_snapshot!(planned(&bench, "text"), @"
    fleet / prod at b0b3c46-dirty against b0b3c46

    mock  mock/model.yaml
      + create DynamoGraphDeployment models/mock
          · is new

    llama  llama/model.yaml
      - delete DynamoGraphDeployment models/llama   GPUs 12 → 0 h200_sxm (-12)   -$42.00/h
          · is no longer in git

    Plan: 1 to create, 0 to change, 1 to delete, 0 unchanged.
    GPUs: 12 → 0 h200_sxm (-12)
    Cost: ≈ -$30,660/mo ($42.00/h → $0.00/h)
    ");
}
