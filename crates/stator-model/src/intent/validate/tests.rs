use crate::intent::tests::{ROOT, report, workspace};

/// What the rules say of a model whose `spec` goes on like this, in a repository that gives a runtime.
fn verdict(spec: &str) -> String {
    named("qwen", spec)
}

fn named(name: &str, spec: &str) -> String {
    let text = format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: {name}}}\nspec:\n  model: Qwen/Qwen3-0.6B\n{spec}"
    );
    let selection =
        workspace(&[("stator.yaml", ROOT), ("m/model.yaml", &text)]).resolve_environment(Some("prod")).unwrap();
    let stops = selection.findings.iter().any(stator_core::finding::Finding::is_error);
    assert_eq!(selection.intents.is_empty(), stops, "a model with errors is broken, one with warnings is not");
    report(&selection.findings)
}

#[test]
fn a_model_has_one_shape() {
    insta::assert_snapshot!(verdict("  engine: vllm\n"), @r#"
    m/model.yaml:4:1 error model/shape: neither `serving` nor `sla` is set
      help: Add `serving` with a `worker`, or with `prefill` and `decode`; or `sla` with a target such as `ttft: 300ms`.
    "#);
    insta::assert_snapshot!(verdict("  engine: vllm\n  serving: {worker: {}}\n  sla: {ttft: 300ms}\n"), @"
    m/model.yaml:8:3 error model/shape: both `serving` and `sla` are set; a model has only one of them
      help: Keep `serving` to define how the model runs, or `sla` to let Dynamo's profiler choose. Check the defaults too.
    ");
    insta::assert_snapshot!(verdict("  engine: vllm\n  serving: {}\n"), @r#"
    m/model.yaml:7:3 error model/shape: `serving` has no workers
      help: Add `worker`, or `prefill` and `decode`.
    "#);
    insta::assert_snapshot!(verdict("  engine: vllm\n  serving: {prefill: {}}\n"), @r#"
    m/model.yaml:7:13 error model/shape: `prefill` is set without `decode`
      help: Add `serving.decode`, or rename `prefill` to `worker`.
    "#);
    insta::assert_snapshot!(verdict("  engine: vllm\n  serving: {decode: {}}\n"), @r#"
    m/model.yaml:7:13 error model/shape: `decode` is set without `prefill`
      help: Add `serving.prefill`, or rename `decode` to `worker`.
    "#);
    insta::assert_snapshot!(verdict("  engine: vllm\n  serving: {worker: {}, prefill: {}, decode: {}}\n"), @r#"
    m/model.yaml:7:25 error model/shape: `worker` and `prefill` are both set; a worker does both halves
      help: Keep `worker`, or `prefill` with `decode`. Check the defaults too.
    "#);
}

#[test]
fn a_program_is_said_once_and_a_shell_has_a_script() {
    let worker = |worker: &str| verdict(&format!("  engine: vllm\n  serving: {{worker: {worker}}}\n"));
    insta::assert_snapshot!(worker("{command: [serve], shell: /bin/sh, args: [x]}"), @"
    m/model.yaml:7:47 error model/program: `command` and `shell` both set the program
      help: Keep one of them; `unset: [serving.worker.command]` removes a value of a weaker layer.
    ");
    insta::assert_snapshot!(worker("{shell: /bin/sh, module: dynamo.vllm}"), @"
    m/model.yaml:7:29 error model/program: the shell has no script
      help: Write the script as the first of `args`, or remove `shell`.
    m/model.yaml:7:46 error model/program: `shell` and `module` both set the program
      help: Keep one of them; `unset: [serving.worker.shell]` removes a value of a weaker layer.
    ");
    insta::assert_snapshot!(verdict("  engine: vllm\n  graphEnv: [{name: API_KEY, value: abc}, {name: DYN_NAMESPACE, value: a}]\n  serving: {worker: {}}\n"), @r#"
    m/model.yaml:7:14 warning model/env-secret: `API_KEY` looks like a secret in plain text in git
      help: Put it into a Secret, and write `API_KEY: {secret: NAME, key: KEY}`.
    m/model.yaml:7:43 error model/env-injected: `DYN_NAMESPACE` is set by Dynamo's operator to identify the pod
      help: Remove it.
    "#);
}

#[test]
fn the_engine_fits_the_shape() {
    insta::assert_snapshot!(verdict("  engine: auto\n  serving: {worker: {}}\n"), @r#"
    m/model.yaml:6:11 error model/engine: engine `auto` works only with `sla`, where the profiler chooses the engine
      help: Name the engine: `vllm`, `sglang`, `trtllm` or `mocker`.
    "#);
    insta::assert_snapshot!(verdict("  engine: auto\n  sla: {search: thorough, workload: {concurrency: 3, requestRate: 2}}\n"), @r#"
    m/model.yaml:7:17 error model/engine: a thorough search needs a named engine; the engine is `auto`
      help: Name the engine: `vllm`, `sglang` or `trtllm`; or use `search: rapid`.
    m/model.yaml:7:67 error model/workload: both `concurrency` and `requestRate` are set; one follows from the other
      help: Keep one of them.
    "#);
    insta::assert_snapshot!(verdict("  engine: mocker\n  sla: {ttft: 300ms}\n"), @r#"
    m/model.yaml:6:11 error model/engine: engine `mocker` has no profile; with `sla` the engine is `vllm`, `sglang`, `trtllm` or `auto`
      help: Name the engine to profile, and set `sla.mocker: true` to profile it without GPUs.
    "#);
    insta::assert_snapshot!(verdict("  engine: mocker\n  serving: {worker: {gpus: 1}}\n"), @r#"
    m/model.yaml:7:28 warning model/gpus: the mocker runs on CPU; its GPUs would be idle
      help: Remove `gpus`.
    "#);
}

#[test]
fn gpus_nodes_and_parallel_sizes_fit() {
    let worker = |text: &str| {
        verdict(&format!("  engine: vllm\n  hardware: {{gpusPerNode: 8}}\n  serving:\n    worker: {text}\n"))
    };
    insta::assert_snapshot!(worker("{gpus: 3, tensorParallel: 2}"), @r#"
    m/model.yaml:9:20 error model/gpus: 3 GPUs, but tensorParallel 2 need 2
      help: Set `gpus: 2`, remove `gpus`, or change the parallel sizes.
    "#);
    insta::assert_snapshot!(worker("{gpus: 2, tensorParallel: 2, pipelineParallel: 2}"), @r#"
    m/model.yaml:9:20 error model/gpus: 2 GPUs, but tensorParallel 2 × pipelineParallel 2 need 4
      help: Set `gpus: 4`, remove `gpus`, or change the parallel sizes.
    "#);
    insta::assert_snapshot!(worker("{gpus: 16, nodes: 3}"), @r#"
    m/model.yaml:9:31 error model/gpus: 16 GPUs cannot be spread evenly over 3 nodes
      help: Every node of a replica has the same number of GPUs: choose a multiple of 3.
    "#);
    insta::assert_snapshot!(worker("{gpus: 32, nodes: 2}"), @r#"
    m/model.yaml:9:31 error model/gpus: 32 GPUs on 2 nodes are 16 a node; a node has 8
      help: Use at least 4 nodes, or correct `hardware.gpusPerNode`.
    "#);
    insta::assert_snapshot!(worker("{tensorParallel: 8, expertParallel: 3}"), @r#"
    m/model.yaml:9:49 error model/gpus: expertParallel 3 does not divide the 8 GPUs of the other parallel sizes
      help: Choose a divisor of 8.
    "#);
    for fine in [
        "{gpus: 16, tensorParallel: 8, pipelineParallel: 2}",
        "{gpus: 8, tensorParallel: 8, dataParallel: 8}",
        "{gpus: 16, tensorParallel: 4, dataParallel: 4, expertParallel: 16}",
        "{gpus: 4, tensorParallel: 2, args: [--dp-size, '2']}",
        "{gpus: 4}",
    ] {
        assert_eq!(worker(fine), "", "{fine}");
    }
}

#[test]
fn images_have_one_source_and_a_tag_that_stays() {
    let alone =
        "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: qwen}\nspec:\n  model: m\n  engine: vllm\n";
    let faults = |rest: &str| {
        report(&workspace(&[("model.yaml", &format!("{alone}{rest}"))]).resolve_environment(None).unwrap().findings)
    };
    insta::assert_snapshot!(faults("  serving: {worker: {}}\n"), @r#"
    model.yaml:4:1 error model/image: neither `runtime` nor `image` is set, and not every component has its own image
      help: Add `runtime: 1.2.0` for NVIDIA's images of that version, or `image` for your own.
    "#);
    insta::assert_snapshot!(faults("  runtime: 1.2.0\n  image: a/b:latest\n  serving: {worker: {}}\n"), @r#"
    model.yaml:8:10 error model/image: both `runtime` and `image` are set; `image` replaces `runtime`
      help: Keep one of them.
    model.yaml:8:10 warning model/image-latest: tag `latest` can change under a running graph, and Dynamo 1.4 refuses it without a runtime version
      help: Use a version or a digest.
    "#);
    assert_eq!(faults("  serving: {frontend: {image: 'a/f:1'}, worker: {image: 'a/w:1'}}\n"), "");
    assert_eq!(
        verdict("  engine: vllm\n  image: a/b:1\n  serving: {worker: {}}\n"),
        "",
        "replaces the default runtime"
    );
}

#[test]
fn scaling_rollout_and_arguments_make_sense() {
    insta::assert_snapshot!(verdict("  engine: vllm\n  rollout: {maxSurge: 0, maxUnavailable: 0%}\n  serving:\n    prefill: {scaling: {min: 4, max: 2}, args: [--tp=8]}\n    decode: {replicas: 9, scaling: {min: 2, max: 4}, rollout: {strategy: recreate, maxSurge: 1}}\n  components:\n    planner: {type: planner, config: {min_endpoint: 5}}\n"), @r#"
    m/model.yaml:7:42 error model/rollout: maxSurge 0 and maxUnavailable 0: no pod may start before one stops, and none may stop
      help: Allow one of them; without spare GPUs, `maxUnavailable: 1`.
    m/model.yaml:9:30 error model/scaling: min 4 is above max 2
      help: Swap them, or correct one.
    m/model.yaml:9:49 warning model/args: `--tp=8` is one item; Dynamo's operator reads flag and value as two
      help: Write two items: `--tp`, `"8"`; or use the field for it, such as `tensorParallel`.
    m/model.yaml:10:24 warning model/scaling: 9 replicas to start with are outside 2 to 4
      help: Start within the bounds, or leave `replicas` out.
    m/model.yaml:10:94 warning model/ignored: `maxSurge` has no effect with strategy `recreate`, which stops all pods first
      help: Remove it, or use strategy `rolling`.
    m/model.yaml:12:53 error model/scaling: the planner keeps at least 5 replicas; `decode` may have at most 4
      help: Lower `min_endpoint` to at most 4, or raise `scaling.max`.
    m/model.yaml:12:53 error model/scaling: the planner keeps at least 5 replicas; `prefill` may have at most 2
      help: Lower `min_endpoint` to at most 2, or raise `scaling.max`.
    "#);
    assert_eq!(verdict("  engine: vllm\n  serving: {worker: {replicas: 2, scaling: external}}\n"), "");
}

#[test]
fn adapters_need_a_graph_of_vllm_and_different_names() {
    insta::assert_snapshot!(verdict("  engine: sglang\n  serving: {worker: {}}\n  adapters: [{name: a, source: 's3://x'}, {name: a, source: 'hf://y'}, {name: b, servedName: a, source: 'hf://z'}]\n"), @r#"
    m/model.yaml:8:3 error model/adapter-engine: adapters need engine `vllm`: Dynamo loads LoRA adapters into no other engine
      help: Use `engine: vllm`, or merge the adapter into the weights.
    m/model.yaml:8:50 error model/adapter-name: adapter `a` is defined twice; the first is item 0
      help: Rename one of them, or remove it.
    m/model.yaml:8:72 error model/adapter-name: clients cannot tell adapter `b` from item 0: both have the same served name
      help: Give one of them another `servedName`.
    "#);
    insta::assert_snapshot!(verdict("  engine: vllm\n  sla: {ttft: 1s}\n  adapters: [{name: a, source: 's3://x'}]\n"), @r#"
    m/model.yaml:8:3 error model/adapter-engine: adapters with `sla`: the graph that they load into does not exist yet
      help: Use `serving`, with the shape that the profiler recommended.
    "#);
}

#[test]
fn components_have_names_of_their_own_within_the_budget() {
    insta::assert_snapshot!(verdict("  engine: vllm\n  serving: {worker: {}}\n  components: {Worker: {}, picker: {type: epp, replicas: 2, nodes: 2}, picker2: {type: epp}}\n"), @r#"
    m/model.yaml:8:16 error model/components: component `Worker` clashes with `worker`; names must differ by more than case
      help: Rename it.
    m/model.yaml:8:58 error model/components: an endpoint picker has exactly 1 replica, not 2
      help: Remove `replicas`.
    m/model.yaml:8:68 error model/components: an endpoint picker runs on one node, not 2
      help: Remove `nodes`.
    m/model.yaml:8:88 error model/components: `picker2` is a second endpoint picker; a graph has at most one
      help: Remove one of them.
    "#);
    let long = "a-model-with-a-name-that-is-far-too-long-for-one-label";
    insta::assert_snapshot!(named(long, "  engine: vllm\n  serving: {worker: {gpus: 16, nodes: 2}}\n"), @r#"
    m/model.yaml:3:18 error model/name-budget: the name has 54 characters; the operator derives `a-model-with-a-name-that-is-far-too-long-for-one-label-worker-<8 characters>` from it, which has 70, and uses it as a label value, which may have 63
      help: Shorten the model's name by 7 characters, or the component's.
    "#);
    let fits = "a-model-with-a-name-of-forty-seven-characters-x";
    assert_eq!(named(fits, "  engine: vllm\n  serving: {worker: {gpus: 16, nodes: 2}}\n"), "");
}

#[test]
fn a_variable_is_the_operators_from_the_release_on_that_sets_it() {
    let model = "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: qwen}\nspec: {model: m, engine: vllm, runtime: 1.2.0, env: {POD_IP: x, DYN_TOPOLOGY_ENABLED: 'true'}, serving: {worker: {}}}\n";
    let warned = |release: &str| {
        let root = format!(
            "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {{name: models}}\nspec: {{environments: {{prod: {{namespace: prod, platform: {{dynamo: '{release}'}}}}}}}}\n"
        );
        let files = workspace(&[("stator.yaml", &root), ("m/model.yaml", model)]);
        let findings = files.resolve_environment(Some("prod")).unwrap().findings;
        let told = findings.iter().filter(|one| one.rule == crate::intent::rules::MODEL_ENV_INJECTED);
        told.map(|one| one.message.split('`').nth(1).unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(warned("1.2"), Vec::<String>::new());
    assert_eq!(warned("1.4"), ["DYN_TOPOLOGY_ENABLED"]);
    assert_eq!(warned("1.5"), ["POD_IP", "DYN_TOPOLOGY_ENABLED"]);
}

#[test]
fn nobody_scales_below_what_serves_at_the_least() {
    let scaled = |min: u32| {
        verdict(&format!(
            "  engine: vllm\n  serving: {{worker: {{replicas: 3, minAvailable: 3, scaling: {{min: {min}, max: 4}}}}}}\n"
        ))
    };
    assert!(scaled(2).contains("Dynamo refuses fewer replicas than `minAvailable: 3`"), "{}", scaled(2));
    assert!(!scaled(3).contains("minAvailable: 3`"), "{}", scaled(3));
    assert!(!scaled(0).contains("minAvailable: 3`"), "{}", scaled(0));
}

#[test]
fn what_others_own_is_left_alone() {
    insta::assert_snapshot!(verdict("  engine: vllm\n  serving: {worker: {env: {DYN_SYSTEM_PORT: '1'}}}\n  env: {POD_NAME: x, API_TOKEN: abc, MAX_TOKENS: many, TOKEN_PATH: /run/token}\n"), @r#"
    m/model.yaml:7:45 warning model/env-injected: `DYN_SYSTEM_PORT` is set by Dynamo's operator; this value replaces the operator's
      help: Remove it, unless the operator's value is known to be wrong.
    m/model.yaml:8:19 error model/env-injected: `POD_NAME` is set by Dynamo's operator to identify the pod
      help: Remove it.
    m/model.yaml:8:33 warning model/env-secret: `API_TOKEN` looks like a secret in plain text in git
      help: Put it into a Secret, and write `API_TOKEN: {secret: NAME, key: KEY}`.
    "#);
    let text = "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata:\n  name: qwen\n  labels: {stator.dev/model: x, bad key: y, example.com/team: search}\n  annotations: {nvidia.com/restartAt: now, nvidia.com/enable-grove: 'false'}\nspec: {model: m, engine: vllm, runtime: 1.2.0, serving: {worker: {}}}\n";
    insta::assert_snapshot!(report(&workspace(&[("model.yaml", text)]).resolve_environment(None).unwrap().findings), @r#"
    model.yaml:5:30 error model/metadata-key: label `stator.dev/model` is reserved for stator's own objects
      help: Choose another key.
    model.yaml:5:42 error model/metadata-key: `bad key` is not a valid label key
      help: Use letters, digits, `-`, `_` and `.`, optionally after a domain and `/`, as in `example.com/team`.
    model.yaml:6:39 error model/metadata-key: annotation `nvidia.com/restartAt` is written by Dynamo's operator
      help: Remove it.
    "#);
}

#[test]
fn overrides_change_what_is_rendered_and_not_its_identity() {
    insta::assert_snapshot!(verdict("  engine: vllm\n  serving: {worker: {}}\n  overrides:\n    - target: {kind: DynamoGraphDeploymentRequest}\n      merge: {spec: {}}\n    - target: {kind: DynamoGraphDeployment, name: other}\n      merge: {metadata: {name: x, namespace: y}, kind: z}\n"), @r#"
    m/model.yaml:9:22 error model/override: nothing of kind `DynamoGraphDeploymentRequest` is rendered for this model: it has no `sla`
      help: Correct the kind, or remove the override.
    m/model.yaml:11:51 error model/override: no object of this kind is named `other`; known: `qwen`
      help: Write `name: qwen`, or omit the name.
    m/model.yaml:12:32 error model/override: an override must not change `metadata.name`: stator sets it
      help: Remove it.
    m/model.yaml:12:46 error model/override: an override must not change `metadata.namespace`: stator sets it
      help: Remove it.
    m/model.yaml:12:56 error model/override: an override must not change `kind`: stator sets it
      help: Remove it.
    "#);
}

#[test]
fn what_an_override_removes_is_a_path_and_not_the_objects_identity() {
    insta::assert_snapshot!(verdict("  engine: vllm\n  serving: {worker: {}}\n  overrides:\n    - target: {kind: DynamoGraphDeployment}\n      remove:\n        - spec.components[name=worker\n        - spec.components[worker].replicas\n        - metadata.labels\n        - metadata.labels[\"stator.dev/model\"]\n        - spec.components[name=worker].replicas\n"), @r#"
    m/model.yaml:11:11 error model/override: `spec.components[name=worker` is not a path: write names after dots, items by key as `[name=main]`, names with dots as `["a.b/c"]`
      help: Write it as `stator plan` prints paths: `spec.components[name=worker].podTemplate.spec.nodeSelector`.
    m/model.yaml:12:11 error model/override: `spec.components[worker].replicas` is not a path: write names after dots, items by key as `[name=main]`, names with dots as `["a.b/c"]`
      help: Write it as `stator plan` prints paths: `spec.components[name=worker].podTemplate.spec.nodeSelector`.
    m/model.yaml:13:11 error model/override: an override must not remove `metadata.labels`: stator finds its objects by it
      help: Remove it from `remove`.
    m/model.yaml:14:11 error model/override: an override must not remove `metadata.labels["stator.dev/model"]`: stator finds its objects by it
      help: Remove it from `remove`.
    "#);
}

#[test]
fn gpus_are_counted_as_they_are_rendered() {
    let hardware = "  hardware: {gpusPerNode: 8}\n";
    // TensorRT-LLM's data parallel ranks share the tensor parallel GPUs; vLLM's do not.
    let worker = "  serving: {worker: {tensorParallel: 8, dataParallel: 8, nodes: 1}}\n";
    assert_eq!(verdict(&format!("  engine: trtllm\n{hardware}{worker}")), "");
    insta::assert_snapshot!(verdict(&format!("  engine: vllm\n{hardware}{worker}")), @r#"
    m/model.yaml:8:65 error model/gpus: 64 GPUs on 1 nodes are 64 a node; a node has 8
      help: Use at least 8 nodes, or correct `hardware.gpusPerNode`.
    "#);
    insta::assert_snapshot!(verdict("  engine: vllm\n  serving: {worker: {gpus: 8, nodes: 3, tensorParallel: 8}}\n"), @r#"
    m/model.yaml:7:38 error model/gpus: 8 GPUs cannot be spread evenly over 3 nodes
      help: Every node of a replica has the same number of GPUs: choose a multiple of 3.
    "#);
}
