use super::*;
use crate::intent::scalar::Quantity;
use crate::intent::tests::{ROOT, report, workspace};
use crate::intent::yaml::parse_yaml;

const HEAD: &str =
    "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: qwen}\nspec:\n  model: Qwen/Qwen3-0.6B\n";

/// The faults of a model whose `spec` goes on like this.
fn faults(spec: &str) -> String {
    let text = format!("{HEAD}{spec}");
    let parsed = parse_yaml(text.as_bytes(), 0, "model.yaml");
    let mut findings = parsed.findings;
    check_document(SchemaKind::Intent, &parsed.root.unwrap(), "model.yaml", &mut findings);
    report(&findings)
}

#[test]
fn a_misspelt_field_names_the_one_that_was_meant() {
    insta::assert_snapshot!(faults("  serving:\n    prefil: {gpus: 2}\n    decode: {tensorParalel: 4, gups: 1}\n  colour: red\n"), @"
    model.yaml:7:5 error schema/unknown-field: unknown field `prefil` in `spec.serving`
      help: Did you mean `prefill`?
    model.yaml:8:14 error schema/unknown-field: unknown field `tensorParalel` in `spec.serving.decode`
      help: Did you mean `tensorParallel`?
    model.yaml:8:32 error schema/unknown-field: unknown field `gups` in `spec.serving.decode`
      help: Did you mean `gpus`?
    model.yaml:9:3 error schema/unknown-field: unknown field `colour` in `spec`; allowed: `adapters`, `backendFramework`, `cache`, `components`, `engine`, `env`, `files`, `graphEnv`, `hardware`, `image`, `imageRegistry`, `manifests`, `model`, `overrides`, `pod`, `priorityClassName`, `restart`, `rollout`, `route`, `runtime`, `runtimeVersion`, `secrets`, `servedName`, `serving`, `sla`, `takeOver`, `unset`, `weights`, `workers`
      help: Remove it, or move it to where it belongs: check the indentation.
    ");
}

/// The names of unknown fields of a model whose `spec` goes on like this, each with the help for it.
fn meant(spec: &str) -> String {
    let shown = faults(spec);
    let lines: Vec<&str> = shown.lines().collect();
    let pairs = lines.chunks(2).filter_map(|pair| {
        let name = pair[0].split_once("unknown field ")?.1.split(';').next()?;
        Some(format!("{name}: {}\n", pair[1].trim().strip_prefix("help: ")?))
    });
    pairs.collect()
}

/// Row U10 of the new user's list: `maxModelLen` and its kind were only "unknown".
#[test]
fn what_an_engine_or_kubernetes_calls_a_field_leads_to_it() {
    insta::assert_snapshot!(meant("  maxModelLen: 4096
  replicas: 2
  served_model_name: qwen
  nodeSelector: {}
  imagePullSecrets: [pull]
  livenessProbe: {}
  minReplicas: 1
  serving:
    frontend: {routerMode: kv, tensorParallel: 2}
    worker: {tensorParallelSize: 2, tensor_parallel_size: 2, tp: 2, gpuMemoryUtilization: 0.9, mem_fraction_static: 0.9, max_num_seqs: 8, contextLength: 10, minReplicas: 1, maxReplicas: 2, livenessProbe: {}, memory: 8Gi, extraPodSpec: {}, colour: red}
  cache: {persistentVolumeClaim: weights, storageClassName: fast}
  adapters: [{name: a, source: 's3://a/b', rank: 8}, {name: b, source: 's3://a/b', maxLoraRank: 8}]
"), @"
    `maxModelLen` in `spec`: Did you mean `serving.decode.maxLength`, `serving.prefill.maxLength`, `serving.worker.maxLength` or `sla.worker.maxLength`?
    `replicas` in `spec`: Did you mean `serving.decode.replicas`, `serving.frontend.replicas`, `serving.prefill.replicas` or `serving.worker.replicas`?
    `served_model_name` in `spec`: Did you mean `servedName`?
    `nodeSelector` in `spec`: Did you mean `hardware.nodeSelector` or `pod.nodeSelector`?
    `imagePullSecrets` in `spec`: Did you mean `secrets.imagePull` or `weights.imagePull`?
    `livenessProbe` in `spec`: Did you mean `serving.decode.probes.liveness`, `serving.frontend.probes.liveness`, `serving.prefill.probes.liveness` or `serving.worker.probes.liveness`?
    `minReplicas` in `spec`: Did you mean `serving.decode.scaling.min`, `serving.prefill.scaling.min` or `serving.worker.scaling.min`?
    `routerMode` in `spec.serving.frontend`: Did you mean `router`?
    `tensorParallel` in `spec.serving.frontend`: Did you mean `spec.serving.decode.tensorParallel`, `spec.serving.prefill.tensorParallel` or `spec.serving.worker.tensorParallel`?
    `tensorParallelSize` in `spec.serving.worker`: Did you mean `tensorParallel`?
    `tensor_parallel_size` in `spec.serving.worker`: Did you mean `tensorParallel`?
    `tp` in `spec.serving.worker`: Did you mean `tensorParallel`?
    `gpuMemoryUtilization` in `spec.serving.worker`: Did you mean `memoryFraction`?
    `mem_fraction_static` in `spec.serving.worker`: Did you mean `memoryFraction`?
    `max_num_seqs` in `spec.serving.worker`: Did you mean `maxSequences`?
    `contextLength` in `spec.serving.worker`: Did you mean `maxLength`?
    `minReplicas` in `spec.serving.worker`: Did you mean `scaling.min`?
    `maxReplicas` in `spec.serving.worker`: Did you mean `scaling.max`?
    `livenessProbe` in `spec.serving.worker`: Did you mean `probes.liveness`?
    `memory` in `spec.serving.worker`: Did you mean `resources.requests`?
    `extraPodSpec` in `spec.serving.worker`: Did you mean `template`?
    `colour` in `spec.serving.worker`: Remove it, or move it to where it belongs: check the indentation.
    `persistentVolumeClaim` in `spec.cache`: Did you mean `claim`?
    `storageClassName` in `spec.cache`: Did you mean `storageClass`?
    `rank` in `spec.adapters[0]`: Did you mean `maxRank`?
    `maxLoraRank` in `spec.adapters[1]`: Did you mean `maxRank`?
    ");
}

/// Row U10: whatever word an engine's table has for a setting, it leads to the setting's field, in its own spelling and in
/// that of fields.
#[test]
fn every_word_of_every_engine_leads_to_its_field() {
    for (setting, word) in crate::engine_tables::ALL.into_iter().flat_map(crate::engine_tables::EngineTable::words) {
        let Some(field) = setting.field() else { continue };
        let flag = word.trim_start_matches('-');
        let holder = match field {
            "model" | "servedName" => format!("  {flag}: 1\n"),
            "maxRank" => format!("  adapters: [{{name: a, source: 's3://a/b', {flag}: 1}}]\n"),
            _ => format!("  serving: {{worker: {{{flag}: 1}}}}\n"),
        };
        // The name of the field itself is known.
        if flag != field {
            assert!(meant(&holder).contains(&format!("Did you mean `{field}`?")), "{word}: {}", meant(&holder));
        }
    }
}

/// Row U8 of the new user's list: a number is a quantity, as `kubectl` takes it.
#[test]
fn a_number_is_a_quantity() {
    assert_eq!(
        faults(
            "  serving:\n    worker:\n      sharedMemory: 0\n      resources: {requests: {cpu: 8, memory: 1e9}, limits: {cpu: 0.5}}\n"
        ),
        ""
    );
    let parsed = |text: &str| serde_json::from_str::<Quantity>(text).map(|quantity| quantity.to_string()).ok();
    for (written, quantity) in
        [("8", "8"), ("0.5", "0.5"), ("1e9", "1000000000"), ("\"+.5Gi\"", "+.5Gi"), ("\"5.\"", "5.")]
    {
        assert_eq!(parsed(written).as_deref(), Some(quantity), "{written}");
        assert!(stator_core::object::Quantity::parse(quantity).is_some(), "{quantity}");
    }
    assert_eq!(parsed("-1"), None);
}

/// Row U8: a value of the wrong form gets the nearest right one, and nothing is told only to "correct the value".
#[test]
fn a_wrong_value_gets_the_nearest_right_one() {
    let help = |spec: &str| {
        let shown = faults(spec);
        assert!(!shown.contains("Correct the value"), "{shown}");
        let lines = shown.lines().filter_map(|line| line.trim().strip_prefix("help: "));
        lines.collect::<Vec<_>>().join(" | ")
    };
    let cases = [
        ("cache: {size: 200GB}", "Use `200G` (decimal) or `200Gi` (binary)."),
        ("cache: {size: 200gib}", "Use `200Gi`."),
        ("cache: {size: 1.5 tb}", "Use `1.5T` (decimal) or `1.5Ti` (binary)."),
        ("cache: {size: 500K}", "Use `500k` (decimal) or `500Ki` (binary)."),
        ("cache: {size: 100 bytes}", "Use `100`."),
        ("cache: {size: -1}", "Choose a number in this range."),
        ("cache: {size: true}", "Write it like `500Gi`."),
        ("cache: {size: much}", "Write it like `500Gi`."),
        ("serving: {worker: {resources: {limits: {cpu: 8 cores}}}}", "Use `8`."),
        ("serving: {worker: {maxLength: 32k}}", "Use `32000` or `32768`."),
        ("serving: {worker: {maxLength: 2.5}}", "Use `2` or `3`."),
        ("serving: {worker: {maxLength: [1]}}", "Write a whole number from 1 instead of a list."),
        (
            "serving: {worker: {image: [a]}}",
            "Write one value instead of a list, such as `nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0`.",
        ),
        ("sla: {ttft: 300}", "Use `300ms`."),
        ("sla: {ttft: 0.3}", "Use `0.3s`."),
        ("sla: {ttft: 300 msec}", "Use `300ms`."),
        ("sla: {ttft: 2 minutes}", "Use `2m`."),
        ("sla: {ttft: soon}", "Write it like `300ms`."),
        ("runtime: v1.2", "Use `1.2.0`."),
        ("rollout: {maxSurge: 25 %}", "Use `25%`."),
        ("cache: {mountPath: models}", "Use `/models`."),
        ("engine: 1", "Write one of `vllm`, `sglang`, `trtllm`, `mocker`, `custom`, `auto`."),
    ];
    for (spec, wanted) in cases {
        assert_eq!(help(&format!("  {spec}\n")), wanted, "{spec}");
    }
}

#[test]
fn a_wrong_type_says_what_was_found_and_how_to_fix_it() {
    insta::assert_snapshot!(faults("  runtime: 1.2\n  env: {PORT: 8000, DEBUG: true, LIST: [a], NAME: {secret: s}, OTHER: {configmap: c, key: k}}\n  serving:\n    frontend: 3\n    worker: {replicas: '2', gpus: 1.0, args: --flag, memoryFraction: half}\n  sla: {autoApply: yes}\n"), @"
    model.yaml:6:12 error schema/type: `spec.runtime` is the number `1.2`; expected a version such as `1.2.0`
      help: Use `1.2.0`.
    model.yaml:7:15 error schema/type: `spec.env.PORT` is the number `8000`; expected text, or `{secret, key}`, or `{configMap, key}`, or `{field}`, or `{resource}`
      help: Put the value in quotes.
    model.yaml:7:28 error schema/type: `spec.env.DEBUG` is the boolean `true`; expected text, or `{secret, key}`, or `{configMap, key}`, or `{field}`, or `{resource}`
      help: Put the value in quotes.
    model.yaml:7:34 error schema/type: `spec.env.LIST` is a list; expected text, or `{secret, key}`, or `{configMap, key}`, or `{field}`, or `{resource}`
      help: Use one of these formats.
    model.yaml:7:45 error schema/missing-field: `spec.env.NAME` is missing the required field `key`
      help: Add `key`: text.
    model.yaml:7:72 error schema/unknown-field: unknown field `configmap` in `spec.env.OTHER`
      help: Did you mean `configMap`?
    model.yaml:7:64 error schema/missing-field: `spec.env.OTHER` is missing the required field `configMap`
      help: Add `configMap`: lower-case letters, digits, `-` and `.`, starting and ending with a letter or digit, at most 253 characters.
    model.yaml:9:15 error schema/type: `spec.serving.frontend` is the number `3`; expected a map
      help: Write a map: `{name: value}`, or one field per line, indented.
    model.yaml:10:24 error schema/type: `spec.serving.worker.replicas` is the string `2`; expected a whole number from 0 to 10000
      help: Remove the quotes.
    model.yaml:10:35 error schema/type: `spec.serving.worker.gpus` is the number `1.0`; expected a whole number from 0 to 1024
      help: Use `1`.
    model.yaml:10:46 error schema/type: `spec.serving.worker.args` is the string `--flag`; expected a list of strings
      help: Write a list: `[…]`, or one item per line after `- `.
    model.yaml:10:70 error schema/type: `spec.serving.worker.memoryFraction` is the string `half`; expected a number from 0.01 to 1
      help: Write a number from 0.01 to 1.
    model.yaml:11:20 error schema/type: `spec.sla.autoApply` is the string `yes`; expected `true` or `false`
      help: Write `true` or `false`; YAML 1.2 reads `yes`, `no`, `on`, `off` as strings.
    ");
}

#[test]
fn a_wrong_word_lists_the_right_ones() {
    insta::assert_snapshot!(faults("  engine: vlm\n  hardware: {gpu: H200-SXM}\n  serving:\n    frontend: {router: round_robin}\n    worker: {scaling: extrenal}\n"), @"
    model.yaml:6:11 error schema/unknown-word: `spec.engine` is `vlm`; expected one of `vllm`, `sglang`, `trtllm`, `mocker`, `custom`, `auto`
      help: Did you mean `vllm`?
    model.yaml:7:19 error schema/unknown-word: `spec.hardware.gpu` is `H200-SXM`; expected one of `gb200_sxm`, `gb10`, `b200_sxm`, `h200_sxm`, `h100_sxm`, `h100_pcie`, `a100_sxm`, `a100_pcie`, `a30`, `l40s`, `l40`, `l4`, `v100_sxm`, `v100_pcie`, `t4`, `mi200`, `mi300`
      help: Did you mean `h200_sxm`?
    model.yaml:9:24 error schema/unknown-word: `spec.serving.frontend.router` is `round_robin`; expected one of `round-robin`, `random`, `power-of-two`, `kv`, `direct`, `least-loaded`, `device-aware-weighted`
      help: Did you mean `round-robin`?
    model.yaml:10:23 error schema/unknown-word: `spec.serving.worker.scaling` is `extrenal`; expected `external`
      help: Did you mean `external`?
    ");
}

#[test]
fn ranges_lengths_and_forms_are_checked() {
    insta::assert_snapshot!(faults("  servedName: ''\n  image: vllm-runtime\n  cache: {claim: Model_Cache, size: 5 GB}\n  serving:\n    worker: {replicas: 20000, gpus: -1, memoryFraction: 1.5, maxLength: 0}\n  rollout: {maxSurge: 120%, maxUnavailable: one}\n  sla: {ttft: 300}\n  env: {1BAD: x}\n  components: {a_b: {}}\n  adapters: [{name: a}, {name: b, source: /tmp/x}]\n"), @"
    model.yaml:6:15 error schema/length: `spec.servedName` has 0 characters; at least 1 are allowed
      help: Set a value, or omit the field.
    model.yaml:7:10 error schema/format: `spec.image` is `vllm-runtime`; expected an image with a tag or a digest, such as `nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0`
      help: Add its tag or digest, such as `vllm-runtime:1.2.0`.
    model.yaml:8:18 error schema/format: `spec.cache.claim` is `Model_Cache`; expected lower-case letters, digits, `-` and `.`, starting and ending with a letter or digit, at most 253 characters
      help: Use `model-cache`.
    model.yaml:8:37 error schema/format: `spec.cache.size` is `5 GB`; expected a quantity such as `500Gi`, `2` or `500m`
      help: Use `5G` (decimal) or `5Gi` (binary).
    model.yaml:10:24 error schema/range: `spec.serving.worker.replicas` is 20000; expected a whole number from 0 to 10000
      help: Choose a number in this range.
    model.yaml:10:37 error schema/range: `spec.serving.worker.gpus` is -1; expected a whole number from 0 to 1024
      help: Choose a number in this range.
    model.yaml:10:57 error schema/range: `spec.serving.worker.memoryFraction` is 1.5; expected a number from 0.01 to 1
      help: Choose a number in this range.
    model.yaml:10:73 error schema/range: `spec.serving.worker.maxLength` is 0; expected a whole number from 1
      help: Choose a number in this range.
    model.yaml:11:23 error schema/format: `spec.rollout.maxSurge` is `120%`; expected a count such as `1` or a share such as `25%`
      help: Use `100%`.
    model.yaml:11:45 error schema/format: `spec.rollout.maxUnavailable` is `one`; expected a count such as `1` or a share such as `25%`
      help: Write it like `25%`.
    model.yaml:12:15 error schema/type: `spec.sla.ttft` is the number `300`; expected a duration such as `300ms`, `1.5s` or `2m`, in whole milliseconds above 0
      help: Use `300ms`.
    model.yaml:13:9 error schema/format: `1BAD` is not a name for `spec.env`: expected letters, digits, `_`, `.` and `-`, not starting with a digit
      help: Rename it, for example to `_1BAD`.
    model.yaml:14:16 error schema/format: `a_b` is not a name for `spec.components`: expected letters, digits and `-`, starting and ending with a letter or digit, at most 63 characters
      help: Rename it, for example to `a-b`.
    model.yaml:15:14 error schema/missing-field: `spec.adapters[0]` is missing the required field `source`
      help: Add `source`: `s3://…`, `hf://…`, or from Dynamo 1.3 on `file:///…`.
    model.yaml:15:43 error schema/format: `spec.adapters[1].source` is `/tmp/x`; expected `s3://…`, `hf://…`, or from Dynamo 1.3 on `file:///…`
      help: Write it like `s3://adapters/sql-assist-v4`.
    ");
}

#[test]
fn the_head_of_a_file_is_checked() {
    let files = [
        ("a/model.yaml", "apiVersion: stator.dev/v1\nkind: Modell\nmetadata: {}\nspec: []\n"),
        ("b/model.yaml", "just text\n"),
        ("c/model.yaml", "spec: {}\n"),
        ("d/stator.yaml", "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {name: x}\n"),
        ("e/stator.yaml", "apiVersion: stator.dev/v1alpha1\nkind: Defaults\nspec: {engin: vllm}\n"),
        ("stator.yaml", ROOT),
    ];
    insta::assert_snapshot!(report(&workspace(&files).findings), @"
    a/model.yaml:1:13 error schema/unknown-word: `apiVersion` is `stator.dev/v1`; expected `stator.dev/v1alpha1`
      help: Did you mean `stator.dev/v1alpha1`?
    a/model.yaml:2:7 error schema/unknown-word: `kind` is `Modell`; expected `Model`
      help: Did you mean `Model`?
    a/model.yaml:3:1 error schema/missing-field: `metadata` is missing the required field `name`
      help: Add `name`: lower-case letters, digits and `-`, starting with a letter, at most 63 characters.
    a/model.yaml:4:1 error schema/type: `spec` is a list; expected a map
      help: Write a map: `{name: value}`, or one field per line, indented.
    b/model.yaml:1:1 error schema/type: the document is the string `just text`; expected a map
      help: Write a map: `{name: value}`, or one field per line, indented.
    c/model.yaml:1:1 error schema/missing-field: the document is missing the required field `apiVersion`
      help: Add `apiVersion`: `stator.dev/v1alpha1`.
    c/model.yaml:1:1 error schema/missing-field: the document is missing the required field `kind`
      help: Add `kind`: `Model`.
    c/model.yaml:1:1 error schema/missing-field: the document is missing the required field `metadata`
      help: Add `metadata`: `{name}`.
    d/stator.yaml:2:7 error schema/kind: a repository inside a repository: this `stator.yaml` is below the root one
      help: Write `kind: Defaults` and a `spec` for the models of this folder, or move the file to the root.
    e/stator.yaml:3:8 error schema/unknown-field: unknown field `engin` in `spec`
      help: Did you mean `engine`?
    ");
}

#[test]
fn a_field_that_no_file_gives_is_missing_from_the_merged_model() {
    let files = [
        ("stator.yaml", ROOT),
        (
            "m/model.yaml",
            "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: m}\nspec:\n  cache: {size: 1Gi}\n",
        ),
    ];
    let selection = workspace(&files).resolve_environment(Some("prod")).unwrap();
    insta::assert_snapshot!(report(&selection.findings), @r#"
    m/model.yaml:4:1 error schema/missing-field: `spec` is missing the required field `engine`
      help: Add `engine`: one of `vllm`, `sglang`, `trtllm`, `mocker`, `custom`, `auto`.
    m/model.yaml:4:1 error schema/missing-field: `spec` is missing the required field `model`
      help: Add `model`: text.
    m/model.yaml:5:3 error schema/missing-field: `spec.cache` is missing the required field `claim`
      help: Add `claim`: lower-case letters, digits, `-` and `.`, starting and ending with a letter or digit, at most 253 characters.
    "#);
    assert_eq!(selection.broken[0].name.as_deref(), Some("m"));
}
