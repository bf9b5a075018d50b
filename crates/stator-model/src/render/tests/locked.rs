//! Models by target with a lock: what is rendered, and for how long.

use super::target;
use crate::intent::lock::ModelLock;
use crate::intent::{Intent, ResolvedEnvironment, SourceFile, SourceTree, Workspace};
use crate::render::{emit, render, request};
use serde_json::{Value, json};
use stator_core::finding::Finding;

const INTENT: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Model
metadata: {name: llama}
spec:
  model: org/llama
  engine: vllm
  runtime: 1.2.0
  env: {LOG_LEVEL: info}
  secrets: {huggingFace: hf, imagePull: [nvcr]}
  restart: friday
  sla: {ttft: 300ms, itl: 20ms}
";

/// A graph as the profiler makes it.
fn profiled() -> Value {
    json!({
        "backendFramework": "vllm",
        "env": [{"name": "LOG_LEVEL", "value": "debug"}, {"name": "DYN_ROUTER_MODE", "value": "kv"}],
        "components": [
            {"name": "Frontend", "type": "frontend", "replicas": 1, "podTemplate": {"spec": {"containers": [
                {"name": "main", "image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0"}]}}},
            {"name": "VllmWorker", "type": "worker", "replicas": 2, "podTemplate": {"spec": {"containers": [
                {"name": "main", "image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0",
                 "envFrom": [{"secretRef": {"name": "hf"}}],
                 "command": ["python3", "-m", "dynamo.vllm"], "args": ["--model", "org/llama", "--note", "no: 0644"],
                 "resources": {"limits": {"nvidia.com/gpu": "4"}}}]}}},
        ],
    })
}

fn read(files: &[(&str, &str)]) -> ResolvedEnvironment {
    let mut files: Vec<SourceFile> = files
        .iter()
        .map(|(path, text)| SourceFile { path: (*path).to_owned(), content: Ok(text.as_bytes().into()) })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Workspace::parse(&SourceTree { files, ..SourceTree::default() }).resolve_environment(None).unwrap()
}

fn only(selection: &ResolvedEnvironment) -> Intent {
    assert_eq!(selection.intents.len(), 1, "{:#?}", selection.findings);
    selection.intents[0].load().unwrap()
}

/// The lock of an intent, as its file.
fn lock_of(intent: &str) -> String {
    let selection = read(&[("model.yaml", intent)]);
    let intent = &only(&selection);
    let request = request(intent, &target()).unwrap();
    let graph = profiled().as_object().unwrap().clone();
    let lock = ModelLock::new(&intent.model, request.name().parse().unwrap(), Some("1.2.0".into()), graph);
    emit::lock_yaml(&lock).unwrap()
}

fn report(findings: &[Finding]) -> String {
    let line = |one: &Finding| {
        let at = &one.location;
        let (severity, rule) = (one.severity, one.rule.id);
        format!("{}:{}:{} {severity} {rule}: {}\n  {}\n", at.file, at.line, at.column, one.message, one.help)
    };
    findings.iter().map(line).collect()
}

fn kinds(intent: &Intent) -> String {
    let rendered = render(intent, &target());
    let names: Vec<String> =
        rendered.objects.iter().map(|one| format!("{} {}", one.object.kind(), one.object.name())).collect();
    names.join(", ")
}

#[test]
fn a_locked_model_renders_the_graph_that_was_chosen_under_its_own_name() {
    let lock = lock_of(INTENT);
    insta::assert_snapshot!(lock, @r#"
    # Written by `stator lock`: the graph that Dynamo's profiler chose for this model. Do not edit it. Change the graph with
    # `overrides` in the intent; when the intent asks for something else, `stator lock` writes the file again.
    apiVersion: stator.dev/v1alpha1
    kind: ModelLock
    metadata:
      name: llama
    spec:
      request: llama-7c395c22
      dynamo: "1.2.0"
      targetDigest: 14698776a7ddf69afcbb5b496bd2ea3c52879179d6f523ca135922fe3cc92a66
      target:
        engine: vllm
        model: org/llama
        runtime: "1.2.0"
        sla:
          itl: 20ms
          ttft: 300ms
      graphDigest: 6a76f6280f3ecfbbc5dade461f695d6069815e6ce7487038e9bf42f4b34c66ff
      graph:
        backendFramework: vllm
        components:
          - name: Frontend
            type: frontend
            replicas: 1
            podTemplate:
              spec:
                containers:
                  - name: main
                    image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0
          - name: VllmWorker
            type: worker
            replicas: 2
            podTemplate:
              spec:
                containers:
                  - name: main
                    image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0
                    command:
                      - python3
                      - -m
                      - dynamo.vllm
                    args:
                      - --model
                      - org/llama
                      - --note
                      - "no: 0644"
                    envFrom:
                      - secretRef:
                          name: hf
                    resources:
                      limits:
                        nvidia.com/gpu: "4"
        env:
          - name: LOG_LEVEL
            value: debug
          - name: DYN_ROUTER_MODE
            value: kv
    "#);
    let selection = read(&[("model.yaml", INTENT), ("model.lock.yaml", &lock)]);
    assert_eq!(report(&selection.findings), "");
    let rendered = render(&only(&selection), &target());
    assert_eq!(report(&rendered.findings), "");
    let objects: Vec<_> = rendered.objects.iter().map(|one| &one.object).collect();
    insta::assert_snapshot!(emit::yaml_documents(&objects).unwrap(), @r#"
    ---
    apiVersion: nvidia.com/v1beta1
    kind: DynamoGraphDeployment
    metadata:
      name: llama
      namespace: serving
      labels:
        app.kubernetes.io/managed-by: stator
        stator.dev/environment: prod
        stator.dev/model: llama
        stator.dev/repository: models
    spec:
      backendFramework: vllm
      components:
      - name: Frontend
        type: frontend
        replicas: 1
        podTemplate:
          spec:
            containers:
            - name: main
              image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0
            imagePullSecrets:
            - name: nvcr
      - name: VllmWorker
        type: worker
        replicas: 2
        podTemplate:
          spec:
            containers:
            - name: main
              image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0
              command:
              - python3
              - -m
              - dynamo.vllm
              args:
              - --model
              - org/llama
              - --note
              - "no: 0644"
              envFrom:
              - secretRef:
                  name: hf
              resources:
                limits:
                  nvidia.com/gpu: "4"
            imagePullSecrets:
            - name: nvcr
      env:
      - name: LOG_LEVEL
        value: info
      - name: DYN_ROUTER_MODE
        value: kv
      restart:
        id: friday
    "#);
}

#[test]
fn a_lock_is_what_fmt_writes() {
    let lock = lock_of(INTENT);
    assert_eq!(crate::intent::format::format_document(&lock).as_deref(), Ok(lock.as_str()));
}

#[test]
fn what_is_no_part_of_the_target_may_change_under_a_lock() {
    let lock = lock_of(INTENT);
    let intent = INTENT.replace("info", "warn").replace("friday", "monday").replace("imagePull: [nvcr]", "env: [more]")
        + "  overrides: [{target: {kind: DynamoGraphDeployment}, merge: {metadata: {annotations: {a: b}}}}]\n";
    let intent = intent.replace("itl: 20ms", "itl: 20ms, autoApply: true, attempt: 1");
    let selection = read(&[("model.yaml", &intent), ("model.lock.yaml", &lock)]);
    assert_eq!(report(&selection.findings), "");
    assert_eq!(kinds(&only(&selection)), "DynamoGraphDeployment llama");
}

#[test]
fn another_target_makes_another_request_and_says_what_changed() {
    let lock = lock_of(INTENT);
    let intent =
        INTENT.replace("300ms", "200ms").replace("runtime: 1.2.0", "runtime: 1.3.0") + "  hardware: {gpu: l4}\n";
    let selection = read(&[("model.yaml", &intent), ("model.lock.yaml", &lock)]);
    insta::assert_snapshot!(report(&selection.findings), @r#"
    model.lock.yaml:11:3 warning lock/stale: the lock is for another target: `hardware` is {"gpu":"l4"} and was not set; `runtime` was 1.2.0 and is 1.3.0; `sla.ttft` was 300ms and is 200ms (model.yaml:12); the model renders a request again, and a running graph keeps serving
      Sync, and run `stator lock` when the request has its result; or revert the change.
    "#);
    assert!(kinds(&only(&selection)).starts_with("DynamoGraphDeploymentRequest llama-"));
}

#[test]
fn another_attempt_is_another_request_for_the_same_thing() {
    let name = |intent: &str| request(&only(&read(&[("model.yaml", intent)])), &target()).unwrap().name().to_owned();
    let attempt = |number: &str| INTENT.replace("itl: 20ms", &format!("itl: 20ms, attempt: {number}"));
    assert_eq!(name(INTENT), name(&attempt("1")));
    assert_ne!(name(INTENT), name(&attempt("2")));
    assert_ne!(name(&attempt("2")), name(&attempt("3")));
    let overridden =
        "  overrides: [{target: {kind: DynamoGraphDeploymentRequest}, merge: {spec: {hardware: {rdma: true}}}}]\n";
    assert_ne!(name(INTENT), name(&(INTENT.to_owned() + overridden)), "a request that ended ignores edits");
}

#[test]
fn a_lock_that_a_hand_has_touched_breaks_its_model_and_says_where() {
    let lock = lock_of(INTENT);
    for (touched, expected) in [
        (lock.replace("replicas: 2", "replicas: 3"), "graph"),
        (lock.replace("ttft: 300ms", "ttft: 30ms"), "target"),
        (lock.replace("name: llama\n", "name: other\n"), "name"),
    ] {
        assert_ne!(touched, lock, "{expected}");
        let selection = read(&[("model.yaml", INTENT), ("model.lock.yaml", &touched)]);
        assert!(selection.intents.is_empty() && selection.broken.len() == 1, "{expected}");
        assert_eq!(selection.findings[0].rule.id, "lock/damaged", "{}", report(&selection.findings));
        assert!(selection.findings[0].location.line > 0);
    }
    let half = &lock[..lock.len() / 2];
    let selection = read(&[("model.yaml", INTENT), ("model.lock.yaml", half)]);
    assert!(selection.intents.is_empty() && !selection.findings.is_empty(), "a truncated file");
    for text in ["", "{}", "kind: ModelLock\n", "apiVersion: stator.dev/v1alpha1\nkind: Model\n", "\u{0}"] {
        let selection = read(&[("model.yaml", INTENT), ("model.lock.yaml", text)]);
        assert!(selection.intents.is_empty() && !selection.findings.is_empty(), "{text:?}");
    }
}

#[test]
fn a_lock_out_of_place_is_pointed_out_and_does_no_harm() {
    let lock = lock_of(INTENT);
    let serving = INTENT.replace("  sla: {ttft: 300ms, itl: 20ms}", "  serving: {worker: {}}");
    let selection = read(&[
        ("a/model.yaml", &serving),
        ("a/model.lock.yaml", &lock),
        ("b/model.lock.yaml", &lock),
        ("c/model.yaml", &INTENT.replace("name: llama", "name: other")),
        ("c/model.nowhere.lock.yaml", &lock),
    ]);
    insta::assert_snapshot!(report(&selection.findings), @r#"
    a/model.lock.yaml:0:0 warning lock/unused: the lock has no effect, because the model has no `sla`
      Remove the file.
    b/model.lock.yaml:0:0 warning lock/unused: a lock without its intent: there is no `model.yaml` beside it
      Remove it, or restore the `model.yaml` from git.
    c/model.nowhere.lock.yaml:0:0 warning lock/unused: lock for unknown environment `nowhere`
      Rename it after an environment, or remove it.
    "#);
    assert_eq!(selection.intents.len(), 2);
}

#[test]
fn an_environment_may_have_a_lock_of_its_own() {
    const ROOT: &str = "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {name: models}\nspec:\n  \
                        environments: {prod: {namespace: prod}, staging: {namespace: staging}}\n";
    const OVERLAY: &str = "apiVersion: stator.dev/v1alpha1\nkind: Model\nspec: {sla: {ttft: 100ms}}\n";
    let (all, prod) = (lock_of(INTENT), lock_of(&INTENT.replace("300ms", "100ms")));
    let files = [
        ("stator.yaml", ROOT),
        ("model.yaml", INTENT),
        ("model.prod.yaml", OVERLAY),
        ("model.lock.yaml", all.as_str()),
        ("model.prod.lock.yaml", prod.as_str()),
    ];
    let tree = |files: &[(&str, &str)]| {
        let file =
            |(path, text): &(&str, &str)| SourceFile { path: (*path).into(), content: Ok(text.as_bytes().into()) };
        let mut files: Vec<SourceFile> = files.iter().map(file).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Workspace::parse(&SourceTree { files, ..SourceTree::default() })
    };
    let workspace = tree(&files);
    for environment in ["prod", "staging"] {
        let selection = workspace.resolve_environment(Some(environment)).unwrap();
        assert_eq!(report(&selection.findings), "");
        assert_eq!(kinds(&only(&selection)), "DynamoGraphDeployment llama", "{environment}");
    }
    // Without its own, the lock for all is tried, and is for another target.
    let selection = tree(&files[..4]).resolve_environment(Some("prod")).unwrap();
    assert_eq!(selection.findings[0].rule.id, "lock/stale");
    let named = ROOT.replace("staging: {", "lock: {");
    insta::assert_snapshot!(report(&tree(&[("stator.yaml", &named)]).findings), @r#"
    stator.yaml:5:43 error layout/environment-name: an environment named `lock`: its overlays would be `model.lock.yaml`, which is the name of locks
      Rename the environment.
    "#);
}

#[test]
fn the_intent_picks_the_nodes_of_pods_with_gpus() {
    let placed = |hardware: &str| {
        let intent = INTENT.to_owned() + &format!("  hardware: {hardware}\n");
        let lock = lock_of(&intent);
        let selection = read(&[("model.yaml", &intent), ("model.lock.yaml", &lock)]);
        let rendered = render(&only(&selection), &target());
        let components = rendered.objects[0].object.spec()["components"].clone();
        assert!(components[0]["podTemplate"]["spec"].get("nodeSelector").is_none(), "a frontend runs anywhere");
        components[1]["podTemplate"]["spec"]["nodeSelector"].to_string()
    };
    insta::assert_snapshot!(placed("{gpu: h200_sxm}"), @r#"{"nvidia.com/gpu.product":"NVIDIA-H200"}"#);
    insta::assert_snapshot!(placed("{gpu: h200_sxm, nodeSelector: {pool: big}}"), @r#"{"pool":"big"}"#);
}

#[test]
fn pods_and_registry_of_a_locked_model_are_the_intents() {
    let lock = lock_of(INTENT);
    let changed = format!("{INTENT}  imageRegistry: registry.example.com\n  pod: {{priorityClassName: low}}\n");
    let selection = read(&[("model.yaml", &changed), ("model.lock.yaml", &lock)]);
    let rendered = render(&only(&selection), &target());
    let components = rendered.objects[0].object.spec()["components"].as_array().unwrap();
    for component in components {
        let pod = &component["podTemplate"]["spec"];
        assert_eq!(pod["priorityClassName"], "low", "{component}");
        assert_eq!(pod["containers"][0]["image"], "registry.example.com/vllm-runtime:1.2.0", "{component}");
    }
}
