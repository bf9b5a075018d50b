//! Weights that are downloaded: the claim, the Job, and a graph that serves the folder that they come to.

use super::{args, component, findings, graph, main, rendered};
use crate::render::{ApplyStage, RenderedModel};
use serde_json::Value;
use stator_core::dynamo::kinds::JOB;

const COMMIT: &str = "b5c939de8f754692c1647ca79fbf85e8c1e70f8a";

fn model(weights: &str) -> String {
    format!(
        "model: openai/gpt-oss-120b\nengine: vllm\nruntime: 1.2.0\nserving:\n  frontend: {{replicas: 1}}\n  worker: \
         {{replicas: 1, gpus: 1}}\nweights:\n{weights}"
    )
}

fn hugging_face(more: &str) -> RenderedModel {
    let source = format!("  source: hf://openai/gpt-oss-120b@{COMMIT}\n");
    rendered(
        "chat",
        &model(&format!("{source}  claim: {{name: model-cache, size: 200Gi, storageClass: fast}}\n{more}")),
    )
}

fn job(rendered: &RenderedModel) -> &Value {
    rendered.objects.iter().find(|one| one.object.kind() == JOB.kind).unwrap().object.value()
}

fn job_name(rendered: &RenderedModel) -> &str {
    job(rendered)["metadata"]["name"].as_str().unwrap()
}

#[test]
fn weights_are_a_claim_and_a_job_that_downloads_to_it() {
    let rendered = hugging_face(
        "  mountPath: /opt/models\n  include: [\"*.safetensors\", \"*.json\"]\n  exclude: [original/*]\n  tokenSecret: hf-token-secret\n  deadline: 2h\n",
    );
    let stages: Vec<(&str, ApplyStage, bool)> =
        rendered.objects.iter().map(|one| (one.object.kind(), one.stage, one.prune)).collect();
    assert_eq!(
        stages,
        [
            ("PersistentVolumeClaim", ApplyStage::Cache, false),
            ("Job", ApplyStage::Download, true),
            ("DynamoGraphDeployment", ApplyStage::Graph, true),
        ]
    );
    insta::assert_snapshot!(serde_json::to_string_pretty(job(&rendered)).unwrap(), @r#"
    {
      "apiVersion": "batch/v1",
      "kind": "Job",
      "metadata": {
        "annotations": {
          "stator.dev/weights": "hf://openai/gpt-oss-120b@b5c939de8f754692c1647ca79fbf85e8c1e70f8a"
        },
        "labels": {
          "app.kubernetes.io/managed-by": "stator",
          "stator.dev/environment": "prod",
          "stator.dev/model": "chat",
          "stator.dev/repository": "models"
        },
        "name": "weights-gpt-oss-120b-2970ac25c8",
        "namespace": "serving"
      },
      "spec": {
        "activeDeadlineSeconds": 7200,
        "backoffLimit": 3,
        "completions": 1,
        "parallelism": 1,
        "template": {
          "spec": {
            "containers": [
              {
                "args": [
                  "--include",
                  "*.safetensors",
                  "--include",
                  "*.json",
                  "--exclude",
                  "original/*"
                ],
                "command": [
                  "sh",
                  "-c",
                  "set -eu\ncommand -v hf >/dev/null || pip install --no-cache-dir huggingface_hub==1.11.0\nexec hf download \"$WEIGHTS_REPOSITORY\" --revision \"$WEIGHTS_REVISION\" \"$@\"\n",
                  "download"
                ],
                "env": [
                  {
                    "name": "HF_HOME",
                    "value": "/opt/models"
                  },
                  {
                    "name": "HF_TOKEN",
                    "valueFrom": {
                      "secretKeyRef": {
                        "key": "HF_TOKEN",
                        "name": "hf-token-secret"
                      }
                    }
                  },
                  {
                    "name": "HF_XET_HIGH_PERFORMANCE",
                    "value": "1"
                  },
                  {
                    "name": "WEIGHTS_REPOSITORY",
                    "value": "openai/gpt-oss-120b"
                  },
                  {
                    "name": "WEIGHTS_REVISION",
                    "value": "b5c939de8f754692c1647ca79fbf85e8c1e70f8a"
                  }
                ],
                "image": "python:3.10-slim",
                "name": "download",
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [
                  {
                    "mountPath": "/opt/models",
                    "name": "model-weights"
                  }
                ]
              }
            ],
            "restartPolicy": "Never",
            "volumes": [
              {
                "name": "model-weights",
                "persistentVolumeClaim": {
                  "claimName": "model-cache"
                }
              }
            ]
          }
        }
      }
    }
    "#);
}

#[test]
fn a_graph_serves_the_folder_of_the_revision_under_the_models_name() {
    let rendered = hugging_face("");
    insta::assert_snapshot!(args(&rendered, "worker"), @"--model /opt/model-cache/hub/models--openai--gpt-oss-120b/snapshots/b5c939de8f754692c1647ca79fbf85e8c1e70f8a --served-model-name openai/gpt-oss-120b");
    for name in ["frontend", "worker"] {
        assert_eq!(main(&rendered, name)["volumeMounts"][0]["mountPath"], "/opt/model-cache", "{name}");
        let volume = &component(&rendered, name)["podTemplate"]["spec"]["volumes"][0];
        assert_eq!(volume["persistentVolumeClaim"]["claimName"], "model-cache", "{name}");
    }
    assert_eq!(
        graph(&rendered)["metadata"]["annotations"]["stator.dev/weights"],
        format!("hf://openai/gpt-oss-120b@{COMMIT}")
    );
}

#[test]
fn another_input_is_another_job_and_nothing_else_is() {
    let same = hugging_face("");
    let name = job_name(&same).to_owned();
    assert_eq!(job_name(&hugging_face("  deadline: 6h\n")), name, "what is written by default says the same");
    let others =
        ["  include: [\"*.json\"]\n", "  deadline: 7h\n", "  attempt: 2\n", "  mountPath: /m\n", "  image: hf:1.0.0\n"];
    let mut names: Vec<String> = others.iter().map(|more| job_name(&hugging_face(more)).to_owned()).collect();
    names.push(name);
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count, "{names:?}");
    // Nothing of a model is in it, so that models share it.
    let text = model(&format!(
        "  source: hf://openai/gpt-oss-120b@{COMMIT}\n  claim: {{name: model-cache, size: 200Gi, storageClass: fast}}\n"
    ));
    assert_eq!(job_name(&rendered("other", &text)), job_name(&same));
}

#[test]
fn other_sources_are_given_to_an_image_of_the_users() {
    let weights = "  source: s3://weights/gpt-oss/v3\n  claim: {name: model-cache}\n  image: example.com/fetch:1.2.0\n  include: [\"*.safetensors\"]\n  env: {AWS_REGION: eu-1, AWS_SECRET_ACCESS_KEY: {secret: bucket, key: secret}}\n";
    let rendered = rendered("chat", &model(weights));
    assert_eq!(rendered.objects.len(), 2, "the claim must exist");
    let container = &job(&rendered)["spec"]["template"]["spec"]["containers"][0];
    insta::assert_snapshot!(serde_json::to_string_pretty(container).unwrap(), @r#"
    {
      "env": [
        {
          "name": "AWS_REGION",
          "value": "eu-1"
        },
        {
          "name": "AWS_SECRET_ACCESS_KEY",
          "valueFrom": {
            "secretKeyRef": {
              "key": "secret",
              "name": "bucket"
            }
          }
        },
        {
          "name": "HF_XET_HIGH_PERFORMANCE",
          "value": "1"
        },
        {
          "name": "WEIGHTS_FOLDER",
          "value": "/opt/model-cache/weights-1fbc8497a0"
        },
        {
          "name": "WEIGHTS_INCLUDE",
          "value": "*.safetensors"
        },
        {
          "name": "WEIGHTS_SOURCE",
          "value": "s3://weights/gpt-oss/v3"
        }
      ],
      "image": "example.com/fetch:1.2.0",
      "name": "download",
      "terminationMessagePolicy": "FallbackToLogsOnError",
      "volumeMounts": [
        {
          "mountPath": "/opt/model-cache",
          "name": "model-weights"
        }
      ]
    }
    "#);
    insta::assert_snapshot!(args(&rendered, "worker"), @"--model /opt/model-cache/weights-1fbc8497a0 --served-model-name openai/gpt-oss-120b");
}

#[test]
fn a_claim_that_others_fill_is_mounted_and_nothing_is_downloaded() {
    let rendered = rendered("chat", &model("  claim: {name: model-cache}\n"));
    assert_eq!(rendered.objects.len(), 1);
    insta::assert_snapshot!(args(&rendered, "worker"), @"--model openai/gpt-oss-120b");
    assert_eq!(main(&rendered, "worker")["env"][0]["name"], "HF_HOME");
    assert_eq!(findings("chat", &model("  claim: {name: model-cache}\n")), "");
}

#[test]
fn an_override_reaches_the_download_and_makes_another_job() {
    let source = format!("  source: hf://openai/gpt-oss-120b@{COMMIT}\n  claim: {{name: model-cache}}\n");
    let change =
        "overrides:\n- target: {kind: Job}\n  merge: {spec: {template: {spec: {tolerations: [{operator: Exists}]}}}}\n";
    let (plain, changed) =
        (rendered("chat", &model(&source)), rendered("chat", &format!("{}{change}", model(&source))));
    assert_eq!(job(&changed)["spec"]["template"]["spec"]["tolerations"][0]["operator"], "Exists");
    assert_ne!(job_name(&plain), job_name(&changed));
}

#[test]
fn models_that_call_the_volume_otherwise_share_the_download() {
    let source = format!("  source: hf://openai/gpt-oss-120b@{COMMIT}\n  claim: {{name: model-cache}}\n");
    let named = rendered("chat", &model(&format!("{source}  volume: cache\n")));
    assert_eq!(job_name(&named), job_name(&rendered("chat", &model(&source))));
    assert_eq!(main(&named, "worker")["volumeMounts"][0]["name"], "cache");
}

/// What upstream's recipes do: engines find the weights by their name in the cache on the volume.
#[test]
fn workers_may_be_given_the_name_of_what_is_downloaded() {
    let by_name = |more: &str| {
        let source = "  source: hf://openai/gpt-oss-120b@main\n  claim: {name: model-cache}\n  load: model\n";
        rendered("chat", &model(&format!("{source}{more}")))
    };
    let named = by_name("");
    insta::assert_snapshot!(args(&named, "worker"), @"--model openai/gpt-oss-120b");
    let worker = main(&named, "worker");
    assert_eq!(worker["env"][0], serde_json::json!({"name": "HF_HOME", "value": "/opt/model-cache"}));
    assert_eq!(main(&named, "frontend").get("volumeMounts"), None);
    let script = &job(&named)["spec"]["template"]["spec"]["containers"][0];
    let revision = script["env"].as_array().unwrap().iter().find(|one| one["name"] == "WEIGHTS_REVISION").unwrap();
    assert_eq!(revision["value"], "main");
    let implicit = by_name("  implicitVolume: true\n  hfHome: false\n");
    let pod = &component(&implicit, "worker")["podTemplate"]["spec"];
    assert_eq!(pod.get("volumes"), None);
    assert_eq!(
        main(&implicit, "worker")["volumeMounts"],
        serde_json::json!([{"name": "model-cache", "mountPath": "/opt/model-cache"}])
    );
    assert_eq!(main(&implicit, "worker").get("env"), None);
}
