//! What users write, and what comes of it.

use super::{args, component, findings, graph, main, rendered};
use serde_json::Value;
use stator_core::dynamo::replica_intent::ReplicaIntent;

#[test]
fn a_replica_larger_than_a_node_runs_on_several() {
    let model = rendered(
        "deepseek",
        "
model: deepseek-ai/DeepSeek-R1
engine: sglang
runtime: 1.2.0
hardware: {gpu: h200_sxm, gpusPerNode: 8}
serving: {worker: {tensorParallel: 16, expertParallel: 16, sharedMemory: 80Gi, memoryFraction: 0.82}}",
    );
    let worker = component(&model, "worker");
    assert_eq!(worker["multinode"]["nodeCount"], 2);
    assert_eq!(worker["sharedMemorySize"], "80Gi");
    assert_eq!(main(&model, "worker")["resources"]["limits"]["nvidia.com/gpu"], "8");
    assert_eq!(worker["podTemplate"]["spec"]["nodeSelector"]["nvidia.com/gpu.product"], "NVIDIA-H200");
    insta::assert_snapshot!(args(&model, "worker"), @"--model-path deepseek-ai/DeepSeek-R1 --tp-size 16 --ep-size 16 --mem-fraction-static 0.82 --skip-tokenizer-init");
}

#[test]
fn every_setting_reaches_each_engine_as_its_own_flag() {
    let of = |engine: &str| {
        let spec = format!(
            "
model: org/model
servedName: chat
engine: {engine}
runtime: 1.2.0
serving:
  frontend: {{router: kv}}
  worker:
    tensorParallel: 4
    pipelineParallel: 2
    dataParallel: 2
    expertParallel: 8
    dtype: bfloat16
    maxSequences: 64
    maxLength: 32768
    memoryFraction: 0.85
    blockSize: 32
    args: [--extra, 'a b']"
        );
        let model = rendered("all", &spec);
        let env = &main(&model, "frontend")["env"];
        assert_eq!(env[0]["name"], "DYN_KV_CACHE_BLOCK_SIZE");
        assert_eq!(env[0]["value"], "32");
        assert_eq!(env[1]["value"], "kv");
        args(&model, "worker")
    };
    insta::assert_snapshot!(of("vllm"), @r#"--model org/model --served-model-name chat --tensor-parallel-size 4 --pipeline-parallel-size 2 --data-parallel-size 2 --enable-expert-parallel --dtype bfloat16 --max-num-seqs 64 --max-model-len 32768 --gpu-memory-utilization 0.85 --block-size 32 --kv-events-config {"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:20080","enable_kv_cache_events":true} --extra a b"#);
    insta::assert_snapshot!(of("sglang"), @r#"--model-path org/model --served-model-name chat --tp-size 4 --pp-size 2 --dp-size 2 --ep-size 8 --dtype bfloat16 --max-running-requests 64 --context-length 32768 --mem-fraction-static 0.85 --page-size 32 --skip-tokenizer-init --kv-events-config {"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:5557"} --extra a b"#);
    insta::assert_snapshot!(of("trtllm"), @r#"--model org/model --served-model-name chat --tensor-parallel-size 4 --pipeline-parallel-size 2 --enable-attention-dp --expert-parallel-size 8 --max-batch-size 64 --max-seq-len 32768 --free-gpu-memory-fraction 0.85 --kv-block-size 32 --publish-events-and-metrics --override-engine-args {"backend":"pytorch","dtype":"bfloat16"} --extra a b"#);
    insta::assert_snapshot!(of("mocker"), @"--model-path org/model --model-name chat --data-parallel-size 2 --max-num-seqs 64 --block-size 32 --extra a b");
}

#[test]
fn a_parallel_size_that_the_engine_will_not_have_is_pointed_out() {
    let spec = "
model: m
engine: vllm
runtime: 1.2.0
serving: {worker: {tensorParallel: 4, dataParallel: 2, expertParallel: 4}}";
    insta::assert_snapshot!(findings("moe", spec), @"warning render/parallel-size: `expertParallel` is 4, and this engine can only switch it on: its size will be 8; write 8, or change the parallel sizes that it follows from");
}

#[test]
fn a_setting_that_an_engine_lacks_is_named() {
    let spec = "
model: m
engine: mocker
runtime: 1.2.0
serving: {worker: {tensorParallel: 2, dtype: auto, engineOptions: {a: 1}}}";
    insta::assert_snapshot!(findings("mock", spec), @r#"
        warning render/setting-ignored: `dtype` has no effect: the engine has no such setting; remove it, or write the engine's own flag under `args`
        warning render/setting-ignored: `engineOptions` has no effect: the engine has no such setting; remove it, or write the engine's own flag under `args`
        warning render/setting-ignored: `tensorParallel` has no effect: the engine has no such setting; remove it, or write the engine's own flag under `args`
        "#);
}

#[test]
fn adapters_follow_their_graph_and_name_its_model_byte_for_byte() {
    let model = rendered(
        "qwen",
        "
model: Qwen/Qwen3-8B
servedName: chat
engine: vllm
runtime: 1.2.0
serving: {worker: {}}
adapters:
- {name: sql, source: 's3://adapters/sql', maxRank: 16}
- {name: sum.v2, source: 'hf://acme/sum', servedName: summarise, maxRank: 128}",
    );
    let names: Vec<&str> = model.objects.iter().map(|desired| desired.object.name()).collect();
    assert_eq!(names, ["qwen", "qwen-sql", "qwen-sum.v2"]);
    let worker = component(&model, "worker");
    for adapter in &model.objects[1..] {
        assert_eq!(adapter.object.spec()["baseModelName"], worker["modelRef"]["name"]);
    }
    assert_eq!(model.objects[1].object.spec()["modelName"], "sql");
    assert_eq!(model.objects[2].object.spec()["modelName"], "summarise");
    insta::assert_snapshot!(args(&model, "worker"), @"--model Qwen/Qwen3-8B --served-model-name chat --enable-lora --max-lora-rank 128");
    insta::assert_snapshot!(main(&model, "worker")["env"], @r#"[{"name":"DYN_LORA_ENABLED","value":"true"},{"name":"DYN_LORA_PATH","value":"/tmp/dynamo_loras"}]"#);
}

#[test]
fn a_planner_learns_the_bounds_and_takes_the_replicas() {
    let model = rendered(
        "planned",
        "
model: m
engine: vllm
runtime: 1.2.0
serving:
  prefill: {tensorParallel: 2, scaling: {min: 2, max: 4}}
  decode: {tensorParallel: 4, replicas: 3, scaling: {min: 1, max: 5}}
components:
  planner: {type: planner, config: {ttft_ms: 300, min_endpoint: 3}}",
    );
    insta::assert_snapshot!(args(&model, "planner"), @r#"--config {"backend":"vllm","environment":"kubernetes","max_gpu_budget":28,"min_endpoint":3,"ttft_ms":300}"#);
    assert_eq!(main(&model, "planner")["image"], "nvcr.io/nvidia/ai-dynamo/dynamo-planner:1.2.0");
    assert!(component(&model, "decode").get("replicas").is_none());
    assert_eq!(component(&model, "decode")["scalingAdapter"], serde_json::json!({}));
    assert_eq!(component(&model, "planner")["replicas"], 1);
    let starts: Vec<(String, u64)> = model.objects[0].replicas.seeds().into_iter().collect();
    assert_eq!(starts, [("decode".to_owned(), 3), ("prefill".to_owned(), 2)]);
    assert_eq!(model.objects[0].with_initial_replicas().spec()["components"][2]["replicas"], 3);
}

#[test]
fn workers_without_bounds_beside_a_planner_are_pointed_out_and_left_to_it() {
    let spec = "
model: m
engine: mocker
runtime: 1.2.0
serving: {worker: {replicas: 2}}
components: {planner: {type: planner}}";
    insta::assert_snapshot!(findings("planned", spec), @"warning render/planner-scaling: a planner scales `worker`, but its bounds are not set; add `scaling: {min: 1, max: 4}`, or remove the planner");
    let model = rendered("planned", spec);
    assert!(component(&model, "worker").get("replicas").is_none());
    assert_eq!(model.objects[0].replicas.get("worker"), Some(ReplicaIntent::Seed(2)));
    let advisory = spec.replace("type: planner", "type: planner, config: {advisory: true}");
    assert_eq!(component(&rendered("planned", &advisory), "worker")["replicas"], 2);
}

#[test]
fn an_endpoint_picker_finds_a_frontend_beside_every_worker() {
    let model = rendered(
        "gaie",
        "
model: Qwen/Qwen3-0.6B
engine: vllm
runtime: 1.2.0
serving: {worker: {blockSize: 128}}
components:
  epp: {type: epp, config: {plugins: [{type: max-score-picker}], schedulingProfiles: [{name: default, plugins: [{pluginRef: max-score-picker}]}]}}
secrets: {huggingFace: hf-token-secret}",
    );
    let names: Vec<&Value> =
        graph(&model)["spec"]["components"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["worker", "epp"], "requests come through the gateway, so there is no frontend");
    insta::assert_snapshot!(format!("{:#}", component(&model, "epp")), @r#"
    {
      "eppConfig": {
        "config": {
          "plugins": [
            {
              "type": "max-score-picker"
            }
          ],
          "schedulingProfiles": [
            {
              "name": "default",
              "plugins": [
                {
                  "pluginRef": "max-score-picker"
                }
              ]
            }
          ]
        }
      },
      "name": "epp",
      "podTemplate": {
        "spec": {
          "containers": [
            {
              "env": [
                {
                  "name": "DYN_ENFORCE_DISAGG",
                  "value": "false"
                },
                {
                  "name": "DYN_KV_CACHE_BLOCK_SIZE",
                  "value": "128"
                },
                {
                  "name": "DYN_MODEL_NAME",
                  "value": "Qwen/Qwen3-0.6B"
                }
              ],
              "envFrom": [
                {
                  "secretRef": {
                    "name": "hf-token-secret"
                  }
                }
              ],
              "image": "nvcr.io/nvidia/ai-dynamo/epp-image:1.2.0",
              "name": "main"
            }
          ]
        }
      },
      "replicas": 1,
      "type": "epp"
    }
    "#);
    assert_eq!(component(&model, "worker")["frontendSidecar"], "sidecar-frontend");
    insta::assert_snapshot!(component(&model, "worker")["podTemplate"]["spec"]["containers"][1], @r#"{"args":["-m","dynamo.frontend","--router-mode","direct"],"envFrom":[{"secretRef":{"name":"hf-token-secret"}}],"image":"nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0","name":"sidecar-frontend"}"#);
}

#[test]
fn rollout_placement_and_secrets_go_where_the_operator_reads_them() {
    let model = rendered(
        "placed",
        "
model: m
engine: vllm
image: registry.example.com:5000/vllm:1.2.0
hardware: {gpu: a100_sxm}
rollout: {maxSurge: 25%, maxUnavailable: 1}
secrets: {huggingFace: hf, imagePull: [nvcr], env: [bucket]}
env: {A: model, B: model}
serving:
  worker: {env: {B: worker, C: {secret: s, key: k}}, resources: {requests: {cpu: '4'}}}",
    );
    insta::assert_snapshot!(format!("{:#}", component(&model, "worker")["podTemplate"]), @r#"
        {
          "metadata": {
            "annotations": {
              "nvidia.com/deployment-rolling-update-max-surge": "25%",
              "nvidia.com/deployment-rolling-update-max-unavailable": "1"
            }
          },
          "spec": {
            "affinity": {
              "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                  "nodeSelectorTerms": [
                    {
                      "matchExpressions": [
                        {
                          "key": "nvidia.com/gpu.product",
                          "operator": "In",
                          "values": [
                            "NVIDIA-A100-SXM4-40GB",
                            "NVIDIA-A100-SXM4-80GB"
                          ]
                        }
                      ]
                    }
                  ]
                }
              }
            },
            "containers": [
              {
                "args": [
                  "--model",
                  "m"
                ],
                "command": [
                  "python3",
                  "-m",
                  "dynamo.vllm"
                ],
                "env": [
                  {
                    "name": "A",
                    "value": "model"
                  },
                  {
                    "name": "B",
                    "value": "worker"
                  },
                  {
                    "name": "C",
                    "valueFrom": {
                      "secretKeyRef": {
                        "key": "k",
                        "name": "s"
                      }
                    }
                  }
                ],
                "envFrom": [
                  {
                    "secretRef": {
                      "name": "hf"
                    }
                  },
                  {
                    "secretRef": {
                      "name": "bucket"
                    }
                  }
                ],
                "image": "registry.example.com:5000/vllm:1.2.0",
                "name": "main",
                "resources": {
                  "limits": {
                    "nvidia.com/gpu": "1"
                  },
                  "requests": {
                    "cpu": "4"
                  }
                }
              }
            ],
            "imagePullSecrets": [
              {
                "name": "nvcr"
              }
            ]
          }
        }
        "#);
}

#[test]
fn a_model_that_stops_before_it_starts_has_no_surge() {
    let spec = "
model: m
engine: mocker
runtime: 1.2.0
rollout: {maxSurge: 1}
serving: {worker: {rollout: {strategy: recreate, maxSurge: 1}}}";
    let model = rendered("stops", spec);
    insta::assert_snapshot!(component(&model, "worker")["podTemplate"]["metadata"], @r#"{"annotations":{"nvidia.com/deployment-strategy":"Recreate"}}"#);
}

#[test]
fn a_model_inside_the_cache_is_read_by_the_frontend_too() {
    let spec = "
model: /opt/model-cache/llama
engine: mocker
runtime: 1.2.0
serving: {worker: {}}
cache: {claim: weights}";
    let model = rendered("local", spec);
    assert_eq!(main(&model, "frontend")["volumeMounts"], main(&model, "worker")["volumeMounts"]);
    assert!(main(&model, "frontend")["volumeMounts"].is_array());
}

#[test]
fn a_planner_needs_its_own_image_where_only_the_engines_is_named() {
    let spec = "
model: m
engine: vllm
image: registry/vllm:1.2.0
serving: {worker: {scaling: {min: 1, max: 2}}}
components: {planner: {type: planner}}";
    insta::assert_snapshot!(findings("planned", spec), @"error model/image: no image: the component sets none, and `runtime` implies none; give the component its own `image`: that of the model is the engine's");
}

#[test]
fn pods_of_every_component_have_what_the_model_says_of_them_under_their_own() {
    let spec = "
model: a/b
engine: vllm
runtime: 1.2.0
hardware: {gpu: h100_sxm, tolerations: [{key: gpu, operator: Exists}]}
pod: {priorityClassName: low, annotations: {team: chat}, tolerations: [{key: all, operator: Exists}], containerSecurityContext: {runAsNonRoot: true}}
components: {planner: {type: planner, pod: {priorityClassName: high}}}
serving: {worker: {pod: {annotations: {own: yes}}, template: {spec: {priorityClassName: last}}}}";
    let model = rendered("pods", &spec.replace("own: yes", "own: 'yes'"));
    let of = |name: &str| component(&model, name)["podTemplate"].clone();
    let priority = |name: &str| of(name)["spec"]["priorityClassName"].clone();
    assert_eq!([priority("frontend"), priority("planner"), priority("worker")], ["low", "high", "last"]);
    assert_eq!(of("worker")["metadata"]["annotations"], serde_json::json!({"team": "chat", "own": "yes"}));
    assert_eq!(of("worker")["spec"]["tolerations"], serde_json::json!([{"key": "all", "operator": "Exists"}]));
    assert_eq!(main(&model, "frontend")["securityContext"]["runAsNonRoot"], true);
}

/// A request has v1alpha1's places for them, and `main` has one of its own there.
#[test]
fn pods_of_a_graph_that_a_profiler_makes_are_told_so() {
    let model = rendered(
        "pods",
        "
model: a/b
engine: vllm
runtime: 1.2.0
hardware: {gpu: h100_sxm, nodeSelector: {pool: gpu}}
pod: {priorityClassName: low, labels: {team: chat}, imagePullPolicy: Always}
sla: {ttft: 300ms}",
    );
    let request = model.objects.iter().find(|one| one.object.kind() == "DynamoGraphDeploymentRequest").unwrap();
    let services = &request.object.spec()["overrides"]["dgd"]["spec"]["services"];
    let pod = serde_json::json!({"priorityClassName": "low", "mainContainer": {"imagePullPolicy": "Always"}});
    assert_eq!(services["Frontend"]["extraPodSpec"], pod);
    let worker = &services["VllmDecodeWorker"];
    assert_eq!(worker["extraPodSpec"]["nodeSelector"], serde_json::json!({"pool": "gpu"}));
    assert_eq!(worker["extraPodSpec"]["mainContainer"], pod["mainContainer"]);
    assert_eq!(worker["extraPodMetadata"], serde_json::json!({"labels": {"team": "chat"}}));
}

#[test]
fn images_of_a_runtime_are_taken_from_the_registry_that_is_named() {
    let images = |spec: &str| {
        let model = rendered(
            "mirror",
            &format!("model: a/b\nruntime: 1.2.0\nimageRegistry: registry.example.com:5000/dynamo\n{spec}"),
        );
        let components = graph(&model)["spec"]["components"].as_array().unwrap();
        let image = |one: &Value| {
            let main = &one["podTemplate"]["spec"]["containers"][0];
            format!("{}: {}", one["name"].as_str().unwrap(), main["image"].as_str().unwrap())
        };
        components.iter().map(image).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(
        images("engine: sglang\nserving: {worker: {}}\ncomponents: {planner: {type: planner}, own: {image: 'x/y:1.0.0', command: [run]}}"), @"
    frontend: registry.example.com:5000/dynamo/sglang-runtime:1.2.0
    worker: registry.example.com:5000/dynamo/sglang-runtime:1.2.0
    own: x/y:1.0.0
    planner: registry.example.com:5000/dynamo/dynamo-planner:1.2.0
    ");
    insta::assert_snapshot!(images("engine: trtllm\nserving: {worker: {image: 'x/z:1.0.0'}}"), @"
    frontend: registry.example.com:5000/dynamo/tensorrtllm-runtime:1.2.0
    worker: x/z:1.0.0
    ");
}
