//! What the table of endpoints promises.

use super::*;
use crate::models::query::PARAMETERS;
use crate::pod_logs;
use crate::samples::fleet;
use crate::words::{HEALTHS, SYNC_STATES};
use serde_json::Value;
use stator_core::dynamo::health::Health;
use stator_model::plan::SyncState;
use std::collections::BTreeSet;

fn answer(path: &str, query: &str) -> Result<Value, u16> {
    let found = ENDPOINTS.iter().find_map(|one| Some((one.answer, one.request(path, query)?)));
    let Some((ApiAnswer::Json { body, .. }, request)) = found else { return Err(404) };
    body(&fleet(), &request).map(|text| serde_json::from_str(&text).unwrap()).map_err(|problem| problem.status)
}

#[test]
fn the_list_describes_the_parameters_that_it_reads() {
    let list = ENDPOINTS.iter().find(|one| one.operation == "listModels").unwrap();
    assert_eq!(list.parameters.iter().map(|one| one.name).collect::<Vec<_>>(), PARAMETERS);
    let allowed = |name: &str| list.parameters.iter().find(|one| one.name == name).unwrap().allowed;
    assert_eq!(allowed("health"), HEALTHS.map(Health::as_str));
    assert_eq!(allowed("sync"), SYNC_STATES.map(SyncState::as_str));
}

#[test]
fn a_log_describes_the_parameters_that_it_reads() {
    let log = ENDPOINTS.iter().find(|one| one.operation == "readModelLogs").unwrap();
    assert_eq!(log.query_names(), pod_logs::PARAMETERS);
}

#[test]
fn one_model_is_told_in_full() {
    insta::assert_json_snapshot!(answer("/api/v1/models/prod/llama", "").unwrap(), @r#"
    {
      "commands": [
        {
          "command": "stator describe llama -e prod",
          "purpose": "All details of the model"
        },
        {
          "command": "stator history llama -e prod",
          "purpose": "The results of the last syncs"
        },
        {
          "command": "kubectl get models.stator.dev llama -n prod -o yaml",
          "purpose": "Its record"
        },
        {
          "command": "kubectl describe dynamographdeployments.nvidia.com llama -n prod",
          "purpose": "DynamoGraphDeployment prod/llama"
        }
      ],
      "components": {
        "ready": 1,
        "total": 2
      },
      "conditions": [
        {
          "lastTransitionTime": "2026-01-02T00:00:00Z",
          "message": "all components are ready",
          "reason": "Healthy",
          "status": "True",
          "type": "Ready"
        }
      ],
      "cost": {
        "currency": "$",
        "perHour": 45.6
      },
      "created": "2026-01-01T00:00:00Z",
      "disruption": "scale",
      "drift": [
        {
          "have": 3,
          "object": "DynamoGraphDeployment prod/llama",
          "owner": "kubectl-edit",
          "path": "spec.components[name=decode].replicas",
          "since": "2026-01-04T00:20:00Z",
          "want": 2
        }
      ],
      "driftedFields": 1,
      "endpoints": [],
      "environment": "prod",
      "events": [
        {
          "count": 7,
          "message": "Back-off pulling image",
          "object": "Pod llama-decode-0",
          "reason": "BackOff",
          "time": "2026-01-04T00:58:00Z",
          "warning": true
        }
      ],
      "file": "models/llama/model.yaml",
      "gpus": [
        {
          "count": 12,
          "sku": "h200_sxm"
        }
      ],
      "health": "Progressing",
      "history": [
        {
          "author": "Grace Hopper",
          "changes": [
            "create DynamoGraphDeployment prod/llama (none)"
          ],
          "message": "all objects are applied",
          "page": "https://git.example.com/team/models/commit/3f2a91c0000000000000000000000000000000ab",
          "result": "Succeeded",
          "revision": "3f2a91c0000000000000000000000000000000ab",
          "time": "2026-01-04T00:50:00Z",
          "title": "Scale llama to two replicas"
        }
      ],
      "kind": "DynamoGraphDeployment",
      "lastSync": {
        "message": "all objects are applied",
        "result": "Succeeded",
        "time": "2026-01-04T00:50:00Z"
      },
      "links": [],
      "message": "waiting for decode (2 of 3 ready): its pods are not available yet",
      "name": "llama",
      "namespace": "prod",
      "objects": [
        {
          "action": "update",
          "apiVersion": "nvidia.com/v1beta1",
          "created": "2026-01-01T00:00:00Z",
          "health": "Progressing",
          "kind": "DynamoGraphDeployment",
          "message": "waiting for decode (2 of 3 ready): its pods are not available yet",
          "name": "llama",
          "namespace": "prod",
          "uid": "7"
        }
      ],
      "pending": {
        "changes": [
          {
            "action": "update",
            "disruption": "scale",
            "fields": [
              {
                "new": 2,
                "old": 3,
                "owner": "kubectl-edit",
                "path": "spec.components[name=decode].replicas"
              }
            ],
            "gpus": {
              "after": 8,
              "before": 12,
              "peak": 12
            },
            "object": "DynamoGraphDeployment prod/llama",
            "reasons": [
              "drifted: changed in the cluster, not in git"
            ]
          }
        ],
        "disruption": "scale",
        "gpus": {
          "after": 8,
          "before": 12,
          "peak": 12
        },
        "gpusBySku": {}
      },
      "pendingCommit": {
        "author": "Grace Hopper",
        "commit": "3f2a91c0000000000000000000000000000000ab",
        "page": "https://git.example.com/team/models/commit/3f2a91c0000000000000000000000000000000ab",
        "title": "Scale llama to two replicas"
      },
      "pendingObjects": 1,
      "recordedFor": "fleet / prod",
      "replicas": [
        {
          "component": "frontend",
          "gpuSku": "unknown",
          "gpus": 0,
          "graph": "llama",
          "ready": 1,
          "wanted": 1
        },
        {
          "component": "decode",
          "gpuSku": "unknown",
          "gpus": 12,
          "graph": "llama",
          "ready": 2,
          "wanted": 3
        }
      ],
      "revision": "3f2a91c0000000000000000000000000000000ab",
      "rollout": "decode 2/3",
      "since": {
        "atLeast": false,
        "time": "2026-01-04T00:50:00Z"
      },
      "source": "team/fleet",
      "sync": "OutOfSync",
      "uncommitted": false
    }
    "#);
    insta::assert_json_snapshot!(answer("/api/v1/models/prod/llama/manifest", "").unwrap(), @r#"
        {
          "items": [
            {
              "object": "DynamoGraphDeployment prod/llama",
              "yaml": "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata:\n  creationTimestamp: \"2026-01-01T00:00:00Z\"\n  name: llama\n  namespace: prod\n  uid: \"7\"\nspec:\n  components:\n  - name: frontend\n  - name: decode\n    podTemplate:\n      spec:\n        containers:\n        - env:\n          - name: HF_TOKEN\n            value: \"***\"\n          name: main\n          resources:\n            limits:\n              nvidia.com/gpu: \"4\"\n    replicas: 3\nstatus:\n  components:\n    decode:\n      readyReplicas: 2\n    frontend:\n      readyReplicas: 1\n"
            }
          ]
        }
    "#);
}

#[test]
fn what_is_not_there_is_not_found_whatever_else_is_asked() {
    assert_eq!(answer("/api/v1/models/prod/nobody", ""), Err(404));
    assert_eq!(answer("/api/v1/models/prod/nobody", "x=1"), Err(404));
    assert_eq!(answer("/api/v1/models/prod/llama", "x=1"), Err(400));
    assert_eq!(answer("/api/v1/models/prod", ""), Err(404));
    assert_eq!(answer("/api/v1/sources", "x=1"), Err(400));
    insta::assert_json_snapshot!(answer("/api/v1/sources", "").unwrap(), @r#"
    {
      "items": [
        {
          "attempted": {
            "author": "Grace Hopper",
            "commit": "3f2a91c0000000000000000000000000000000ab",
            "page": "https://git.example.com/team/models/commit/3f2a91c0000000000000000000000000000000ab",
            "time": "2026-01-04T00:45:00Z",
            "title": "Scale llama to two replicas"
          },
          "environment": "prod",
          "held": [],
          "label": "team/fleet",
          "models": {
            "all": 6,
            "drifted": 1,
            "health": {
              "Degraded": 1,
              "Failed": 1,
              "Healthy": 1,
              "Progressing": 1,
              "Suspended": 1,
              "Unknown": 1
            },
            "sync": {
              "Blocked": 1,
              "OutOfSync": 1,
              "Synced": 3,
              "Unknown": 1
            }
          },
          "name": "fleet",
          "namespace": "team",
          "origin": "https://git.example.com/team/models.git",
          "pendingModels": 1,
          "phase": "Idle",
          "problems": [
            "llama: Failed: worker-0 is in CrashLoopBackOff"
          ],
          "seen": {
            "author": "Grace Hopper",
            "commit": "3f2a91c0000000000000000000000000000000ab",
            "page": "https://git.example.com/team/models/commit/3f2a91c0000000000000000000000000000000ab",
            "time": "2026-01-04T00:40:00Z",
            "title": "Scale llama to two replicas"
          },
          "suspended": false
        }
      ]
    }
    "#);
    insta::assert_json_snapshot!(answer("/api/v1/capacity", "").unwrap(), @r#"
    {
      "cost": [
        {
          "currency": "$",
          "perHour": 45.6
        }
      ],
      "items": [
        {
          "allocatableUnknown": "no node names this SKU, or stator may not list nodes; and `platform.gpus` in stator.yaml does not say",
          "exceeded": false,
          "models": 1,
          "peak": 12,
          "reserved": 0,
          "sku": "h200_sxm",
          "used": 12
        }
      ],
      "unpricedModels": 0
    }
    "#);
}

#[test]
fn operations_have_names_of_their_own_and_references_lead_somewhere() {
    let names: BTreeSet<&str> = ENDPOINTS.iter().map(|one| one.operation).collect();
    assert_eq!(names.len(), ENDPOINTS.len());
    let document = openapi(ENDPOINTS);
    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|one| references(one, found));
            }
            Value::Array(list) => list.iter().for_each(|one| references(one, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 15, "{found:?}");
    for reference in found {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
}
