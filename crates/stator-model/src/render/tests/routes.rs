//! Routes: an HTTPRoute to the frontend of a graph, or to the pool of its endpoint picker.

use super::{findings, rendered};
use crate::render::{ApplyStage, RenderedModel};
use serde_json::Value;
use stator_core::dynamo::kinds::HTTP_ROUTE;
use stator_core::fields;

fn model(more: &str) -> RenderedModel {
    let spec = "model: openai/gpt-oss-120b\nengine: vllm\nruntime: 1.2.0\nserving: {worker: {gpus: 1}}\n";
    rendered("chat", &format!("{spec}{more}"))
}

fn route(rendered: &RenderedModel) -> &Value {
    let all = rendered.objects.iter().find(|one| one.object.kind() == HTTP_ROUTE.kind);
    let one = all.unwrap_or_else(|| panic!("{:#?}", rendered.findings));
    assert_eq!((one.stage, one.prune), (ApplyStage::Exposure, true));
    let schema = fields::bundled_schema(&HTTP_ROUTE.api_version(), HTTP_ROUTE.kind).unwrap();
    let mut whole = one.object.value().clone();
    assert_eq!(fields::typing_errors(schema, &whole), []);
    fields::apply_defaults(schema, &mut whole);
    assert_eq!(fields::violations(schema, &whole, None), []);
    one.object.value()
}

#[test]
fn a_route_is_what_upstreams_recipes_write() {
    let full = model(
        "route:\n  gateway: {name: inference-gateway, namespace: gateways, sectionName: https}\n  hostnames: [chat.example.com]\n  \
         path: /v1\n  timeout: 300s\n  canary: {model: chat-next, weight: 10}\n",
    );
    insta::assert_snapshot!(serde_json::to_string_pretty(route(&full)).unwrap(), @r#"
    {
      "apiVersion": "gateway.networking.k8s.io/v1",
      "kind": "HTTPRoute",
      "metadata": {
        "annotations": {
          "stator.dev/canary": "chat-next"
        },
        "labels": {
          "app.kubernetes.io/managed-by": "stator",
          "stator.dev/environment": "prod",
          "stator.dev/model": "chat",
          "stator.dev/repository": "models"
        },
        "name": "chat",
        "namespace": "serving"
      },
      "spec": {
        "hostnames": [
          "chat.example.com"
        ],
        "parentRefs": [
          {
            "name": "inference-gateway",
            "namespace": "gateways",
            "sectionName": "https"
          }
        ],
        "rules": [
          {
            "backendRefs": [
              {
                "name": "chat-frontend",
                "port": 8000,
                "weight": 90
              },
              {
                "name": "chat-next-frontend",
                "port": 8000,
                "weight": 10
              }
            ],
            "matches": [
              {
                "path": {
                  "type": "PathPrefix",
                  "value": "/v1"
                }
              }
            ],
            "timeouts": {
              "request": "300s"
            }
          }
        ]
      }
    }
    "#);
    let least = model("route: {gateway: {name: public}}\n");
    insta::assert_snapshot!(route(&least)["spec"], @r#"{"parentRefs":[{"name":"public"}],"rules":[{"backendRefs":[{"name":"chat-frontend","port":8000}],"matches":[{"path":{"type":"PathPrefix","value":"/"}}]}]}"#);
}

#[test]
fn an_endpoint_picker_takes_the_requests() {
    let picker = model(
        "components: {picker: {type: epp, config: {plugins: [{type: max-score-picker}], schedulingProfiles: [{name: default, plugins: [{pluginRef: max-score-picker}]}]}}}\nroute: {gateway: {name: public}, canary: {model: next, weight: 0}}\n",
    );
    insta::assert_snapshot!(route(&picker)["spec"]["rules"][0]["backendRefs"], @r#"[{"group":"inference.networking.k8s.io","kind":"InferencePool","name":"chat-pool","port":8000,"weight":100},{"group":"inference.networking.k8s.io","kind":"InferencePool","name":"next-pool","port":8000,"weight":0}]"#);
}

#[test]
fn what_cannot_be_reached_has_no_route() {
    let headless = "model: m\nengine: vllm\nruntime: 1.2.0\nserving: {headless: true, worker: {gpus: 1}}\nroute: {gateway: {name: public}}\n";
    insta::assert_snapshot!(findings("chat", headless), @"error model/route: the graph has neither a frontend nor an endpoint picker, so requests cannot reach it; Add `serving.frontend: {}`, or remove `route`.");
    let searched = "model: m\nengine: vllm\nruntime: 1.2.0\nhardware: {gpu: h200_sxm, totalGpus: 8}\nsla: {ttft: 300ms, itl: 20ms}\nroute: {gateway: {name: public}}\n";
    insta::assert_snapshot!(findings("chat", searched), @"warning model/route: there is no route yet: the profiler has not found its graph; Run `stator lock` once the request is complete: the route then leads to the locked graph.");
    assert_eq!(rendered("chat", searched).objects.len(), 1);
}
