//! What is bent, asked for by target, or refused, and where a user is told.

use super::{component, findings, graph, intent, rendered, target};
use crate::intent::{SourceFile, SourceTree, Workspace};
use crate::render::{count_deprecated, render};
use std::collections::BTreeMap;

#[test]
fn a_template_is_merged_by_key_and_overrides_come_last() {
    let model = rendered(
        "bent",
        "
model: m
engine: mocker
runtime: 1.2.0
restart: 2026-01-01
cache: {claim: weights}
serving:
  worker:
    template:
      spec:
        tolerations: [{operator: Exists}]
        containers:
        - {name: main, workingDir: /srv, volumeMounts: [{mountPath: /opt/model-cache, readOnly: true}]}
        - {name: side, image: 'side:1.0.0'}
overrides:
- target: {kind: DynamoGraphDeployment}
  merge:
    metadata: {annotations: {nvidia.com/kai-scheduler-queue: batch}}
    spec: {components: [{name: worker, replicas: 5}]}",
    );
    let worker = component(&model, "worker");
    assert_eq!(worker["replicas"], 5);
    assert_eq!(graph(&model)["spec"]["restart"]["id"], "2026-01-01");
    assert_eq!(graph(&model)["metadata"]["annotations"]["nvidia.com/kai-scheduler-queue"], "batch");
    insta::assert_snapshot!(worker["podTemplate"]["spec"], @r#"{"containers":[{"args":["--model-path","m"],"command":["python3","-m","dynamo.mocker"],"env":[{"name":"HF_HOME","value":"/opt/model-cache"}],"image":"nvcr.io/nvidia/ai-dynamo/dynamo-planner:1.2.0","name":"main","volumeMounts":[{"mountPath":"/opt/model-cache","name":"model-cache","readOnly":true}],"workingDir":"/srv"},{"image":"side:1.0.0","name":"side"}],"tolerations":[{"operator":"Exists"}],"volumes":[{"name":"model-cache","persistentVolumeClaim":{"claimName":"weights"}}]}"#);
}

#[test]
fn an_override_can_neither_miss_nor_rename() {
    let spec = "
model: m
engine: mocker
runtime: 1.2.0
serving: {worker: {}}
overrides:
- {target: {kind: DynamoModel}, merge: {spec: {}}}
- {target: {kind: DynamoGraphDeployment}, merge: {metadata: {name: other, labels: {stator.dev/model: x}}}}";
    insta::assert_snapshot!(findings("bent", spec), @r#"
    error model/override: an override cannot set `metadata.name`: it identifies the object, or stator sets it; remove it from `merge`
    error model/override: an override cannot set label `stator.dev/model`: stator finds its objects by it; remove it from `merge`
    error model/override: this model renders no DynamoModel; run `stator render` to see what it renders
    "#);
}

#[test]
fn a_request_is_named_after_its_spec_and_only_recommends() {
    let spec = "
model: Qwen/Qwen3-32B
engine: vllm
runtime: 1.2.0
hardware: {gpu: h200_sxm, gpusPerNode: 8, totalGpus: 16}
sla:
  ttft: 300ms
  itl: 20ms
  e2e: 10s
  optimize: latency
  workload: {isl: 4000, osl: 1000, concurrency: 8}
  search: thorough
  planner: {}
  mocker: false
cache: {claim: weights, modelPath: qwen}
secrets: {huggingFace: hf, imagePull: [nvcr]}";
    let first = rendered("coder", spec);
    insta::assert_snapshot!(format!("{} {:#}", first.objects[0].object.name(), first.objects[0].object.spec()), @r#"
        coder-2052e184 {
          "autoApply": false,
          "backend": "vllm",
          "features": {
            "mocker": {
              "enabled": false
            },
            "planner": {}
          },
          "hardware": {
            "gpuSku": "h200_sxm",
            "numGpusPerNode": 8,
            "totalGpus": 16
          },
          "image": "nvcr.io/nvidia/ai-dynamo/dynamo-planner:1.2.0",
          "model": "Qwen/Qwen3-32B",
          "modelCache": {
            "pvcModelPath": "qwen",
            "pvcName": "weights"
          },
          "overrides": {
            "profilingJob": {
              "template": {
                "spec": {
                  "containers": [
                    {
                      "envFrom": [
                        {
                          "secretRef": {
                            "name": "hf"
                          }
                        }
                      ],
                      "name": "profiler"
                    }
                  ],
                  "imagePullSecrets": [
                    {
                      "name": "nvcr"
                    }
                  ]
                }
              }
            }
          },
          "searchStrategy": "thorough",
          "sla": {
            "e2eLatency": 10000,
            "itl": 20,
            "optimizationType": "latency",
            "ttft": 300
          },
          "workload": {
            "concurrency": 8,
            "isl": 4000,
            "osl": 1000
          }
        }
        "#);
    let second = rendered("coder", &spec.replace("300ms", "400ms"));
    assert_ne!(first.objects[0].object.name(), second.objects[0].object.name());
    let long = "a-model-with-a-name-that-is-as-long-as-a-name-may-be-in-here-xx";
    let name = rendered(long, spec).objects[0].object.name().to_owned();
    assert!(name.len() <= 55, "{name}");
    assert_ne!(name, rendered(&long.replace("xx", "yy"), spec).objects[0].object.name());
}

#[test]
fn what_admission_would_refuse_is_a_finding_and_nothing_is_rendered() {
    let spec = "
model: m
engine: auto
runtime: 1.2.0
sla: {search: thorough}";
    insta::assert_snapshot!(findings("thorough", spec), @"error dynamo/thorough-auto: a thorough search runs one engine on real GPUs, but no engine is named; name the engine: vllm, sglang or trtllm; or search `rapid`");
    assert!(render(&intent("thorough", spec), &target()).objects.is_empty());
    let names = "
model: m
engine: mocker
runtime: 1.2.0
serving: {worker: {}}
components: {Worker: {type: decode}, epp: {type: epp, replicas: 2, image: 'epp:1.2.0'}}";
    insta::assert_snapshot!(findings("names", names), @r#"
    error dynamo/component-twice: `Worker` has the name of another component, `worker`; rename one of them
    error dynamo/endpoint-picker: an endpoint picker has exactly one replica, not 2; set `replicas: 1`, or leave it out
    error dynamo/endpoint-picker: an endpoint picker needs settings, but has none; give `config` with its plugins
    warning dynamo/needs-inference-gateway: depends on the cluster: the endpoint picker `epp` needs the Gateway API Inference Extension (inference.networking.k8s.io); install it; for checks without a cluster, set `inferenceGateway: true` under the environment's `platform` in stator.yaml
    "#);
}

#[test]
fn a_finding_points_at_the_line_that_made_it() {
    let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), content: Ok(text.as_bytes().into()) };
    let tree = SourceTree {
        mounted_files: std::collections::BTreeMap::new(),
        unread: Vec::new(),
        omitted_folders: std::collections::BTreeSet::new(),
        files: vec![file(
            "qwen/model.yaml",
            "\
apiVersion: stator.dev/v1alpha1
kind: Model
metadata:
  name: qwen
  annotations:
    nvidia.com/vllm-distributed-executor-backend: rey
spec:
  model: Qwen/Qwen3-0.6B
  engine: vllm
  image: registry/vllm:nightly
  serving:
    worker:
      tensorParallel: 4
      dataParallel: 2
      expertParallel: 4
      template:
        spec: {containers: [{name: main, ports: [{containerPort: 80}]}]}
",
        )],
    };
    let selection = Workspace::parse(&tree).resolve_environment(None).unwrap();
    assert!(selection.broken.is_empty(), "{:#?}", selection.findings);
    let rendered = render(&selection.intents[0].load().unwrap(), &target());
    let lines: Vec<String> = rendered
        .findings
        .iter()
        .map(|finding| {
            let at = &finding.location;
            format!("{}:{}:{} {} {}", at.file, at.line, at.column, finding.severity, finding.rule.id)
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    qwen/model.yaml:6:51 error dynamo/annotation-value
    qwen/model.yaml:10:10 error dynamo/image-version
    qwen/model.yaml:15:23 warning render/parallel-size
    qwen/model.yaml:17:42 warning dynamo/system-port
    ");
}

#[test]
fn a_program_is_a_shell_or_a_module_and_a_graph_has_variables_of_its_own() {
    let model = rendered(
        "routed",
        "
model: org/model
engine: vllm
runtime: 1.2.0
graphEnv:
- {name: HF_TOKEN, value: {secret: hf, key: token}}
- {name: DYN_LOG, value: info}
serving:
  frontend: {module: dynamo.frontend, args: [--router-mode, kv]}
  prefill:
    shell: /bin/bash
    args: ['ulimit -l unlimited && exec python3 -m dynamo.vllm --model <model>']
  decode:
    tensorParallel: 2
    eager: true
    trustRemoteCode: true
    toolCallParser: hermes
    reasoningParser: deepseek_r1
    compilationCache: {claim: compiled, mountPath: /cache}
    env: {POD: {field: metadata.name}, CPUS: {resource: limits.cpu}}
components:
  router: {module: dynamo.router, args: [--endpoint, e]}",
    );
    let line = |name: &str| {
        let main = component(&model, name)["podTemplate"]["spec"]["containers"][0].clone();
        format!("{} {}", main["command"], main["args"])
    };
    insta::assert_snapshot!(line("frontend"), @r#"["python3","-m","dynamo.frontend"] ["--router-mode","kv"]"#);
    insta::assert_snapshot!(line("prefill"), @r#"["/bin/bash","-c"] ["ulimit -l unlimited && exec python3 -m dynamo.vllm --model org/model"]"#);
    insta::assert_snapshot!(line("decode"), @r#"["python3","-m","dynamo.vllm"] ["--model","org/model","--tensor-parallel-size","2","--enforce-eager","--trust-remote-code","--dyn-tool-call-parser","hermes","--dyn-reasoning-parser","deepseek_r1","--disaggregation-mode","decode","--kv-transfer-config","{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_both\"}"]"#);
    insta::assert_snapshot!(line("router"), @r#"["python3","-m","dynamo.router"] ["--endpoint","e"]"#);
    let decode = component(&model, "decode");
    insta::assert_snapshot!(decode["compilationCache"], @r#"{"mountPath":"/cache","pvcName":"compiled"}"#);
    insta::assert_snapshot!(decode["podTemplate"]["spec"]["containers"][0]["env"], @r#"[{"name":"CPUS","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu"}}},{"name":"POD","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]"#);
    insta::assert_snapshot!(graph(&model)["spec"]["env"], @r#"[{"name":"HF_TOKEN","valueFrom":{"secretKeyRef":{"key":"token","name":"hf"}}},{"name":"DYN_LOG","value":"info"}]"#);
}

#[test]
fn uses_of_what_is_deprecated_are_counted_by_the_release_that_removes_it() {
    let counted = |env: &str| {
        let spec = format!("model: m\nengine: vllm\nruntime: 1.3.0\nserving: {{worker: {{env: {{{env}}}}}}}");
        count_deprecated(&[
            rendered("a", "model: m\nengine: vllm\nruntime: 1.3.0\nserving: {worker: {}}").into_text(),
            rendered("b", &spec).into_text(),
        ])
    };
    assert_eq!(counted("LOG_LEVEL: info"), BTreeMap::new());
    assert_eq!(
        counted("DYN_KVBM_CPU_CACHE_GB: '4', DYN_KVBM_DISK_CACHE_GB: '8', DYN_CONNECTOR: x"),
        BTreeMap::from([(Some("1.5"), 2), (None, 1)])
    );
}
