//! Defaults that are for models of every shape, and lists that a layer edits.

use super::{loaded, report, workspace};
use serde_json::{Value, json};

const HEAD: &str =
    "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: NAME}\nspec: {model: a/b, engine: vllm, ";

/// The spec of a model of that `spec`, under the defaults of a repository; what was found.
fn merged(defaults: &str, spec: &str, overlay: &str) -> (Value, String) {
    let root = format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {{name: r}}\nspec:\n  defaults: {{runtime: 1.2.0, \
         {defaults}}}\n  environments: {{prod: {{namespace: p}}}}\n"
    );
    let model = format!("{}{spec}}}\n", HEAD.replace("NAME", "m"));
    let mut files = vec![("stator.yaml", root.as_str()), ("m/model.yaml", model.as_str())];
    let overlay = format!("apiVersion: stator.dev/v1alpha1\nkind: Model\nspec: {{{overlay}}}\n");
    files.push(("m/model.prod.yaml", &overlay));
    let workspace = workspace(&files);
    let selection = workspace.resolve_environment(Some("prod")).unwrap();
    let spec = loaded(&selection).first().map(|intent| json!(intent.model.spec)).unwrap_or_default();
    (spec, report(&selection.findings))
}

#[test]
fn defaults_of_another_shape_are_left_out() {
    let defaults =
        "serving: {frontend: {replicas: 2}, worker: {maxLength: 1}, prefill: {maxLength: 2}, decode: {maxLength: 3}}";
    let (spec, found) = merged(defaults, "serving: {worker: {replicas: 4}}", "");
    assert_eq!(found, "");
    assert_eq!(spec["serving"], json!({"frontend": {"replicas": 2}, "worker": {"replicas": 4, "maxLength": 1}}));
    let (spec, found) = merged(defaults, "serving: {prefill: {}, decode: {}}", "");
    assert_eq!(found, "");
    assert_eq!(
        spec["serving"],
        json!({"frontend": {"replicas": 2}, "prefill": {"maxLength": 2}, "decode": {"maxLength": 3}})
    );
    let (spec, found) = merged(defaults, "hardware: {gpu: h100_sxm}, sla: {ttft: 300ms}", "");
    assert_eq!((found.as_str(), &spec["serving"]), ("", &Value::Null));
    // A model's overlay is as much its own as its intent is.
    let (spec, found) = merged(
        defaults,
        "serving: {worker: {replicas: 4}}",
        "unset: [serving.worker], serving: {prefill: {}, decode: {}}",
    );
    assert_eq!(found, "");
    assert_eq!(spec["serving"]["worker"], Value::Null, "{spec}");
    assert_eq!(spec["serving"]["prefill"], json!({"maxLength": 2}));
}

#[test]
fn what_the_model_says_of_two_shapes_is_still_a_fault() {
    let (_, found) = merged("", "serving: {worker: {}, prefill: {}, decode: {}}", "");
    assert!(found.contains("error model/shape"), "{found}");
}

#[test]
fn workers_of_every_role_have_what_is_said_of_all_of_them() {
    let defaults = "workers: {sharedMemory: 16Gi, env: {A: x, B: x}, pod: {priorityClassName: low}, module: my.engine}";
    let (spec, found) = merged(
        defaults,
        "serving: {prefill: {env: {A: z}}, decode: {command: [run]}}",
        "workers: {pod: {priorityClassName: high}, unset: []}".replace(", unset: []", "").as_str(),
    );
    assert_eq!(found, "");
    assert_eq!(spec["workers"], Value::Null);
    let worker = |env: Value| json!({"sharedMemory": "16Gi", "env": env, "pod": {"priorityClassName": "high"}});
    let mut prefill = worker(json!({"A": "z", "B": "x"}));
    prefill["module"] = json!("my.engine");
    let mut decode = worker(json!({"A": "x", "B": "x"}));
    decode["command"] = json!(["run"]);
    assert_eq!(spec["serving"], json!({"prefill": prefill, "decode": decode}));
    // What one layer sets for all of them, a stronger one takes away from all of them.
    let (spec, found) = merged(defaults, "unset: [workers.module, workers.env.A], serving: {worker: {}}", "");
    assert_eq!(found, "");
    assert_eq!(
        spec["serving"]["worker"],
        json!({"sharedMemory": "16Gi", "env": {"B": "x"}, "pod": {"priorityClassName": "low"}})
    );
}

#[test]
fn workers_are_of_no_use_to_a_model_that_a_profiler_serves() {
    let (_, found) = merged("workers: {sharedMemory: 16Gi}", "hardware: {gpu: h100_sxm}, sla: {ttft: 300ms}", "");
    assert_eq!(found, "");
}

#[test]
fn a_layer_adds_to_lists_and_takes_from_them() {
    let defaults = "serving: {worker: {args: [--a, '1', --b, '1']}}, secrets: {imagePull: [nvcr]}";
    let edit =
        |edit: &str| merged(defaults, "serving: {worker: {}}", &format!("serving: {{worker: {{args: {edit}}}}}"));
    let args = |spec: &Value| spec["serving"]["worker"]["args"].clone();
    let (spec, found) = edit("{append: [--c], prepend: [--z], remove: [[--a, '1']]}");
    assert_eq!((found.as_str(), args(&spec)), ("", json!(["--z", "--b", "1", "--c"])));
    let (spec, _) = edit("{remove: ['1']}");
    assert_eq!(args(&spec), json!(["--a", "--b"]));
    // Where no weaker layer has a list, what is added is the list.
    let (spec, found) =
        merged("", "serving: {worker: {args: {append: [--a]}}}", "serving: {worker: {args: {append: [--b]}}}");
    assert_eq!((found.as_str(), args(&spec)), ("", json!(["--a", "--b"])));
    // Of all workers, then of one.
    let (spec, found) = merged(
        "workers: {args: [--a]}",
        "workers: {args: {append: [--b]}}, serving: {worker: {args: {append: [--c]}}}",
        "",
    );
    assert_eq!((found.as_str(), args(&spec)), ("", json!(["--a", "--b", "--c"])));
    let taints = "hardware: {gpu: h100_sxm, tolerations: [{key: a, operator: Exists}, {key: b, operator: Exists}]}";
    let (spec, found) = merged(taints, "serving: {worker: {}}, hardware: {tolerations: {remove: [{key: a}]}}", "");
    assert_eq!((found.as_str(), &spec["hardware"]["tolerations"]), ("", &json!([{"key": "b", "operator": "Exists"}])));
}

#[test]
fn what_an_edit_says_wrongly_is_pointed_out() {
    let edit = |edit: &str| {
        merged(
            "serving: {worker: {args: [--a]}}",
            "serving: {worker: {}}",
            &format!("serving: {{worker: {{args: {edit}}}}}"),
        )
        .1
    };
    insta::assert_snapshot!(edit("{remove: [--b]}"), @"
    m/model.prod.yaml:3:43 warning model/unset: no weaker layer has this item in the list
      help: Remove it from `remove`, or correct it; `stator render --show-origins` shows what each layer sets.
    ");
    insta::assert_snapshot!(edit("{append: --b, prepend: [1]}"), @"
    m/model.prod.yaml:3:42 error schema/type: `spec.serving.worker.args.append` is the string `--b`; expected a list
      help: Write a list: `[…]`, or one item per line after `- `.
    m/model.prod.yaml:3:57 error schema/type: `spec.serving.worker.args.prepend[0]` is the number `1`; expected text
      help: Put the value in quotes.
    ");
    insta::assert_snapshot!(edit("{append: [--b], add: [c]}"), @"
    m/model.prod.yaml:3:49 error schema/unknown-field: unknown field `add` in `spec.serving.worker.args`; allowed: `append`, `prepend`, `remove`
      help: Remove it: a map instead of a list edits the list of the weaker layers.
    ");
    insta::assert_snapshot!(merged("", "serving: {worker: {}}, adapters: [{name: a, source: {append: [x]}}]", "").1, @"
    m/model.yaml:4:78 error schema/type: `spec.adapters[0].source` is a map; expected `s3://…`, `hf://…`, or from Dynamo 1.3 on `file:///…`
      help: Write one value instead of a map, such as `s3://adapters/sql-assist-v4`.
    ");
    insta::assert_snapshot!(merged("", "serving: {worker: {env: {A: {append: [x]}}, engineOptions: {list: {append: [x]}}}}", "").1, @"
    m/model.yaml:4:59 error schema/missing-field: `spec.serving.worker.env.A` is missing the required field `key`
      help: Add `key`: text.
    m/model.yaml:4:59 error schema/missing-field: `spec.serving.worker.env.A` is missing the required field `secret`
      help: Add `secret`: lower-case letters, digits, `-` and `.`, starting and ending with a letter or digit, at most 253 characters.
    m/model.yaml:4:63 error schema/unknown-field: unknown field `append` in `spec.serving.worker.env.A`; allowed: `key`, `secret`
      help: Remove it, or move it to where it belongs: check the indentation.
    ");
}

#[test]
fn an_image_of_another_engine_is_pointed_out_where_it_was_written() {
    let image = "image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0, unset: [runtime]";
    let root = format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {{name: r}}\nspec:\n  defaults: {{{image}}}\n  environments: {{prod: {{namespace: p}}}}\n"
    );
    let model = |name: &str, engine: &str, worker: &str| {
        HEAD.replace("NAME", name).replace("engine: vllm", &format!("engine: {engine}"))
            + &format!("serving: {{worker: {worker}}}}}\n")
    };
    let texts = [
        ("stator.yaml", root),
        ("a/model.yaml", model("a", "sglang", "{}")),
        ("b/model.yaml", model("b", "vllm", "{}")),
        ("c/model.yaml", model("c", "mocker", "{}")),
        ("d/model.yaml", model("d", "sglang", "{command: [python3, -m, mine]}")),
        ("e/model.yaml", model("e", "sglang", "{image: 'x/sglang-runtime:1'}")),
    ];
    let files: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let found = report(&workspace(&files).resolve_environment(Some("prod")).unwrap().findings);
    insta::assert_snapshot!(found, @"
    stator.yaml:5:21 warning model/image-engine: `nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0` has the name of NVIDIA's `vllm-runtime`, but the model's engine needs `sglang-runtime`
      help: Correct the image or the engine. In defaults, `runtime` and `imageRegistry` give each engine its own image.
    ");
}
