//! The examples of the first operator's documentation, and what else its fields say.

use super::*;
use std::fmt::Write as _;

fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap()
}

/// Graphs, claims and what is left, as a person reads them.
fn shown(text: &str) -> String {
    let reading = convert_documents(&documents(text));
    let mut out = String::new();
    for graph in &reading.graphs {
        write!(out, "{}", serde_saphyr::to_string(&graph.document).unwrap()).unwrap();
        for claim in &graph.claims {
            write!(out, "---\n{}", serde_saphyr::to_string(claim).unwrap()).unwrap();
        }
    }
    for left in &reading.unmapped {
        writeln!(out, "# {} {}: {}", left.document, left.path, left.reason).unwrap();
    }
    for (document, faults) in &reading.errors {
        for fault in faults {
            writeln!(out, "# {document} fault: {fault}").unwrap();
        }
    }
    out
}

#[test]
fn the_deployment_of_the_documentation_becomes_a_disaggregated_graph() {
    insta::assert_snapshot!(shown("
apiVersion: nvidia.com/v1alpha1
kind: DynamoDeployment
metadata: {name: disagg}
spec:
  dynamoNim: frontend:jh2o6dqzpsgfued4
  envs:
  - {name: GLOBAL_ENV_VAR, value: some_global_value}
  services:
    Frontend: {replicas: 1, envs: [{name: SPECIFIC_ENV_VAR, value: some_specific_value}]}
    Processor: {replicas: 1, envs: [{name: SPECIFIC_ENV_VAR, value: some_specific_value}]}
    VllmWorker: {replicas: 1, envs: [{name: SPECIFIC_ENV_VAR, value: some_specific_value}]}
    PrefillWorker: {replicas: 1, envs: [{name: SPECIFIC_ENV_VAR, value: some_specific_value}]}
    Router: {replicas: 0, envs: [{name: SPECIFIC_ENV_VAR, value: some_specific_value}]}
"), @r#"
    apiVersion: nvidia.com/v1beta1
    kind: DynamoGraphDeployment
    metadata:
      name: disagg
    spec:
      components:
      - name: Frontend
        podTemplate:
          spec:
            containers:
            - env:
              - name: GLOBAL_ENV_VAR
                value: some_global_value
              - name: SPECIFIC_ENV_VAR
                value: some_specific_value
              name: main
        replicas: 1
        type: frontend
      - name: PrefillWorker
        podTemplate:
          spec:
            containers:
            - env:
              - name: GLOBAL_ENV_VAR
                value: some_global_value
              - name: SPECIFIC_ENV_VAR
                value: some_specific_value
              name: main
        replicas: 1
        type: prefill
      - name: VllmWorker
        podTemplate:
          spec:
            containers:
            - env:
              - name: GLOBAL_ENV_VAR
                value: some_global_value
              - name: SPECIFIC_ENV_VAR
                value: some_specific_value
              name: main
        replicas: 1
        type: decode
    # 0 spec.dynamoNim: a bundle of the build service, which no longer exists: the image and the command of each component must be given
    # 0 spec.services.Processor: the frontend does what the processor did
    # 0 spec.services.Router: the frontend routes today: `DYN_ROUTER_MODE=kv` is set there for a router that had replicas
    "#);
}

#[test]
fn a_component_and_its_build_are_read_as_far_as_they_go() {
    insta::assert_snapshot!(shown("
apiVersion: nvidia.com/v1alpha1
kind: DynamoNimDeployment
metadata: {name: test-41fa991-vllmworker}
spec:
  dynamoNamespace: dynamo
  dynamoNim: frontend--jh2o6dqzpsgfued4
  dynamoTag: graphs.disagg:Frontend
  envs:
  - {name: DYN_DEPLOYMENT_CONFIG, value: '<long JSON config>'}
  externalServices:
    PrefillWorker: {deploymentSelectorKey: dynamo, deploymentSelectorValue: PrefillWorker/dynamo}
  resources:
    limits: {cpu: '10', gpu: '1', memory: 20Gi}
    requests: {cpu: '10', gpu: '1', memory: 20Gi}
  serviceName: Frontend
---
apiVersion: nvidia.com/v1alpha1
kind: DynamoNimRequest
metadata: {name: frontend--jh2o6dqzpsgfued4}
spec: {bentoTag: 'frontend:jh2o6dqzpsgfued4'}
"), @r#"
    apiVersion: nvidia.com/v1beta1
    kind: DynamoGraphDeployment
    metadata:
      name: dynamo
    spec:
      components:
      - name: Frontend
        podTemplate:
          spec:
            containers:
            - name: main
              resources:
                limits:
                  cpu: "10"
                  memory: 20Gi
                  nvidia.com/gpu: "1"
                requests:
                  cpu: "10"
                  memory: 20Gi
                  nvidia.com/gpu: "1"
        type: frontend
    # 0 spec.dynamoNamespace: the Dynamo namespace follows from the graph's namespace and name today
    # 0 spec.dynamoNim: a bundle of the build service, which no longer exists: the image and the command of each component must be given
    # 0 spec.dynamoTag: the class of a bundle; today each component has a command (`python3 -m dynamo.vllm`), which must be given
    # 0 spec.envs: the first SDK read its configuration from this variable; today it is arguments of the command
    # 0 spec.externalServices: components find each other by themselves today
    # 1 : it asked for an image to be built, which no operator supports any more: build the image in CI and set its name
    "#);
}

#[test]
fn components_of_one_deployment_are_one_graph_and_the_deployment_has_the_last_word() {
    insta::assert_snapshot!(shown("
apiVersion: nvidia.com/v1alpha1
kind: DynamoNimDeployment
metadata:
  name: chat-frontend
  namespace: prod
  ownerReferences: [{apiVersion: nvidia.com/v1alpha1, kind: DynamoDeployment, name: chat, uid: x}]
spec: {serviceName: Frontend, replicas: 1, ingress: {enabled: true, host: chat}, autoscaling: {enabled: true}}
---
apiVersion: nvidia.com/v1alpha1
kind: DynamoNimDeployment
metadata:
  name: chat-worker
  namespace: prod
  ownerReferences: [{apiVersion: nvidia.com/v1alpha1, kind: DynamoDeployment, name: chat, uid: x}]
spec:
  serviceName: Worker
  envFromSecret: hf-token-secret
  pvc: {create: true, name: weights, size: 100Gi, storageClass: fast, volumeAccessMode: ReadWriteMany, mountPoint: /weights}
---
apiVersion: nvidia.com/v1alpha1
kind: DynamoDeployment
metadata: {name: chat, namespace: prod, labels: {team: chat}}
spec: {dynamoNim: 'chat:abc', services: {Frontend: {replicas: 3}, Router: {replicas: 1}}, typo: 1}
"), @r#"
    apiVersion: nvidia.com/v1beta1
    kind: DynamoGraphDeployment
    metadata:
      labels:
        team: chat
      name: chat
      namespace: prod
    spec:
      components:
      - name: Frontend
        podTemplate:
          spec:
            containers:
            - env:
              - name: DYN_ROUTER_MODE
                value: kv
              name: main
        replicas: 3
        type: frontend
      - name: Worker
        podTemplate:
          spec:
            containers:
            - envFrom:
              - secretRef:
                  name: hf-token-secret
              name: main
              volumeMounts:
              - mountPath: /weights
                name: weights
            volumes:
            - name: weights
              persistentVolumeClaim:
                claimName: weights
        type: worker
    ---
    apiVersion: v1
    kind: PersistentVolumeClaim
    metadata:
      name: weights
      namespace: prod
    spec:
      accessModes:
      - ReadWriteMany
      resources:
        requests:
          storage: 100Gi
      storageClassName: fast
    # 0 spec.replicas: the deployment sets another value for this service
    # 2 spec.dynamoNim: a bundle of the build service, which no longer exists: the image and the command of each component must be given
    # 2 spec.services.Frontend.autoscaling: deprecated and ignored; switch a scaling adapter on and scale that with an autoscaler or the planner
    # 2 spec.services.Frontend.ingress: the operator still serves it; write an Ingress or an HTTPRoute to the graph's frontend service instead
    # 2 spec.services.Router: the frontend routes today: `DYN_ROUTER_MODE=kv` is set there for a router that had replicas
    # 2 spec.typo: the first operator had no such field
    "#);
}

#[test]
fn a_document_of_the_wrong_shape_stops_no_other() {
    insta::assert_snapshot!(shown("
{apiVersion: nvidia.com/v1alpha1, kind: DynamoDeployment, metadata: {name: a}, spec: {services: [1]}}
---
{apiVersion: nvidia.com/v1alpha1, kind: DynamoDeployment, metadata: {name: b}, spec: {services: {Frontend: {envs: 1}}}}
---
{apiVersion: nvidia.com/v1alpha1, kind: DynamoNimDeployment, spec: {serviceName: Frontend}}
---
{apiVersion: nvidia.com/v1alpha1, kind: DynamoDeployment, metadata: {name: c}, spec: {services: {Frontend: {replicas: 1}}}}
"), @r#"
    apiVersion: nvidia.com/v1beta1
    kind: DynamoGraphDeployment
    metadata:
      name: c
    spec:
      components:
      - name: Frontend
        replicas: 1
        type: frontend
    # 0 fault: `spec.services`: expected map, found a list
    # 2 fault: `metadata.name`: a name is missing
    # 1 fault: `spec.services.Frontend.envs`: expected list, found a number
    "#);
}
