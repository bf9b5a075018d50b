//! Other objects of a model: what is read, and what is said of one that a model may not have.

use super::files::resolve;
use super::loaded;
use super::report;
use crate::intent::ResolvedEnvironment;
use crate::render::{RenderTarget, render};
use stator_core::dynamo::admission::Platform;

const ROOT: &str = "apiVersion: stator.dev/v1alpha1
kind: Repository
metadata: {name: models}
spec:
  environments:
    prod: {namespace: prod}
";

fn model(more: &str) -> String {
    format!(
        "apiVersion: stator.dev/v1alpha1
kind: Model
metadata: {{name: chat, labels: {{team: search}}}}
spec:
  model: m
  engine: vllm
  runtime: 1.2.0
  serving: {{worker: {{gpus: 1}}}}
  cache: {{claim: weights, size: 1Gi}}
{more}"
    )
}

fn resolved(more: &str, there: &[(&str, &[u8])]) -> ResolvedEnvironment {
    resolve(&[("stator.yaml", ROOT), ("chat/model.yaml", &model(more))], there, "prod")
}

/// What is said of a model, when it is read and when it is rendered.
fn said(more: &str, there: &[(&str, &[u8])]) -> String {
    let selection = resolved(more, there);
    let mut findings = selection.findings.clone();
    findings.extend(loaded(&selection).iter().flat_map(|intent| render(intent, &target()).findings));
    report(&findings)
}

fn target() -> RenderTarget {
    RenderTarget {
        repository: "models".to_owned(),
        environment: "prod".to_owned(),
        namespace: "prod".to_owned(),
        platform: Platform::default(),
    }
}

const FILE: &[u8] = b"# Routing.
apiVersion: v1
kind: ConfigMap
metadata: {name: chat-table, labels: {tier: edge, team: routing}, annotations: {example.com/about: routes}}
data: {table.txt: a}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: chat-scratch, namespace: prod}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 5Gi}}}
---
";

#[test]
fn objects_of_the_model_and_of_a_file_are_rendered_with_stators_labels() {
    let more = "  manifests:
    - apiVersion: v1
      kind: ConfigMap
      metadata: {name: chat-prompts}
      data: {system.txt: hello}
    - from: extra/routing.yaml
";
    let selection = resolved(more, &[("chat/extra/routing.yaml", FILE)]);
    assert_eq!(report(&selection.findings), "");
    let rendered = render(&loaded(&selection)[0], &target());
    assert_eq!(report(&rendered.findings), "");
    let described: Vec<String> = rendered
        .objects
        .iter()
        .filter(|one| one.object.kind() != "DynamoGraphDeployment")
        .map(|one| format!("{:?} prune {} {}", one.stage, one.prune, one.object.value()))
        .collect();
    insta::assert_snapshot!(described.join("\n"), @r#"
    Cache prune false {"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"labels":{"app.kubernetes.io/managed-by":"stator","stator.dev/environment":"prod","stator.dev/model":"chat","stator.dev/repository":"models","team":"search"},"name":"weights","namespace":"prod"},"spec":{"accessModes":["ReadWriteMany"],"resources":{"requests":{"storage":"1Gi"}}}}
    Cache prune true {"apiVersion":"v1","data":{"system.txt":"hello"},"kind":"ConfigMap","metadata":{"labels":{"app.kubernetes.io/managed-by":"stator","stator.dev/environment":"prod","stator.dev/model":"chat","stator.dev/repository":"models","team":"search"},"name":"chat-prompts","namespace":"prod"}}
    Cache prune true {"apiVersion":"v1","data":{"table.txt":"a"},"kind":"ConfigMap","metadata":{"annotations":{"example.com/about":"routes"},"labels":{"app.kubernetes.io/managed-by":"stator","stator.dev/environment":"prod","stator.dev/model":"chat","stator.dev/repository":"models","team":"routing","tier":"edge"},"name":"chat-table","namespace":"prod"}}
    Cache prune false {"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"labels":{"app.kubernetes.io/managed-by":"stator","stator.dev/environment":"prod","stator.dev/model":"chat","stator.dev/repository":"models","team":"search"},"name":"chat-scratch","namespace":"prod"},"spec":{"accessModes":["ReadWriteMany"],"resources":{"requests":{"storage":"5Gi"}}}}
    "#);
}

#[test]
fn what_a_model_may_not_have_is_said_at_its_line_with_a_fix() {
    let more = "  manifests:
    - apiVersion: v1
      kind: Secret
      metadata: {name: token}
      data: {token: czNjcjN0}
    - apiVersion: apps/v1
      kind: Deployment
      metadata: {name: beside}
      spec: {replicas: 1}
    - apiVersion: v1beta1
      kind: ConfigMap
      metadata: {name: old}
    - kind: ConfigMap
      metadata: {name: versionless}
    - apiVersion: v1
      kind: ConfigMap
      metadata:
        generateName: chat-
        ownerReferences: []
        labels: {stator.dev/model: other, app.kubernetes.io/managed-by: Helm, count: 3}
        annotations: {argocd.argoproj.io/tracking-id: x}
    - apiVersion: v1
      kind: ConfigMap
      metadata: {name: mistyped}
      spec: {}
      data: {port: 8000}
    - apiVersion: v1
      kind: ConfigMap
      metadata: {name: twice}
    - apiVersion: v1
      kind: ConfigMap
      metadata: {name: twice}
    - from: both.yaml
      kind: ConfigMap
    - from: ../outside.yaml
    - from: missing.yaml
    - from: broken.yaml
";
    let broken = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nstatus: {}\n---\n- no object\n---\na: &x 1\n";
    insta::assert_snapshot!(said(more, &[("chat/broken.yaml", broken)]), @"
    chat/broken.yaml:4:1 error model/manifest: `status` is not allowed in an object of `spec.manifests`
      help: Remove it: the cluster writes it.
    chat/broken.yaml:6:1 error model/manifest: a document is not an object
      help: Write one object per document, with `apiVersion`, `kind` and `metadata`, and `---` between documents.
    chat/broken.yaml:8:1 error model/manifest: the object has no `kind`
      help: Add it, as in `apiVersion: v1` and `kind: ConfigMap`; or name a file with `from`.
    chat/broken.yaml:8:4 error yaml/anchor: anchor `&x`; anchors and aliases are not allowed
      help: Remove the anchor, and write the value out where it is needed, or put it into defaults.
    chat/model.yaml:12:13 error model/manifest: Secret (v1) is not allowed in `spec.manifests`
      help: Allowed are ConfigMap (v1), PersistentVolumeClaim (v1), Job (batch/v1), Service (v1), HTTPRoute (gateway.networking.k8s.io/v1), ResourceClaimTemplate (resource.k8s.io/v1), ComputeDomain (resource.nvidia.com/v1beta1). Apply anything else yourself.
    chat/model.yaml:16:13 error model/manifest: Deployment (apps/v1) is not allowed in `spec.manifests`
      help: Allowed are ConfigMap (v1), PersistentVolumeClaim (v1), Job (batch/v1), Service (v1), HTTPRoute (gateway.networking.k8s.io/v1), ResourceClaimTemplate (resource.k8s.io/v1), ComputeDomain (resource.nvidia.com/v1beta1). Apply anything else yourself.
    chat/model.yaml:19:19 error model/manifest: ConfigMap is written as v1, not as v1beta1
      help: Write `apiVersion: v1`.
    chat/model.yaml:22:7 error model/manifest: the object has no `apiVersion`
      help: Add it, as in `apiVersion: v1` and `kind: ConfigMap`; or name a file with `from`.
    chat/model.yaml:26:7 error model/manifest: the object has no name
      help: Add `metadata.name`.
    chat/model.yaml:27:23 error model/manifest: `metadata.generateName` is not allowed
      help: Write `name`: stator finds its objects by their names.
    chat/model.yaml:28:9 error model/manifest: `metadata.ownerReferences` is not allowed
      help: Remove it: the cluster and its controllers write it.
    chat/model.yaml:29:36 error model/manifest: label `stator.dev/model` is reserved: stator writes it
      help: Remove it.
    chat/model.yaml:29:73 error model/manifest: label `app.kubernetes.io/managed-by` is reserved: stator writes it
      help: Remove it.
    chat/model.yaml:29:86 error model/manifest: the value of label `count` is not a string
      help: Write it in quotes.
    chat/model.yaml:34:7 error model/manifest: `spec`: field not declared in schema
      help: Correct it: the cluster would refuse this ConfigMap.
    chat/model.yaml:35:20 error model/manifest: `data.port`: expected string
      help: Correct it: the cluster would refuse this ConfigMap.
    chat/model.yaml:41:24 error model/manifest: ConfigMap twice is defined twice
      help: Keep one of them.
    chat/model.yaml:42:7 error model/manifest: an item has both `from` and an object
      help: Make them two items, or keep one of them.
    chat/model.yaml:44:13 error model/manifest: `../outside.yaml` leads out of the model's folder
      help: Put the file into the model's folder, and write its path from there.
    chat/model.yaml:45:13 error model/manifest: `chat/missing.yaml` cannot be read: there is no such file
      help: Correct `from`, which is a path from the folder of `model.yaml`, or commit the file.
    ");
}

#[test]
fn names_and_namespaces_that_are_stators_to_give_are_findings() {
    let more = "  files: {banner: {text: hello, mountPath: /etc/banner}}
  manifests:
    - apiVersion: v1
      kind: PersistentVolumeClaim
      metadata: {name: weights}
      spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 5Gi}}}
    - apiVersion: v1
      kind: ConfigMap
      metadata: {name: elsewhere, namespace: kube-system}
";
    insta::assert_snapshot!(said(more, &[]), @r#"
    chat/model.yaml:14:24 error model/manifest: PersistentVolumeClaim weights has the same name as the object that stator renders from `spec.cache`
      help: Give it another name.
    chat/model.yaml:18:46 error model/manifest: ConfigMap elsewhere is in namespace "kube-system", not in the environment's
      help: Remove `namespace`: the object goes to the environment's, prod.
    "#);
}

#[test]
fn a_secret_in_an_object_is_a_warning_at_its_key() {
    let more = "  manifests:
    - apiVersion: v1
      kind: ConfigMap
      metadata: {name: chat-prompts}
      data:
        system: hello
        password: hunter2-Value
        conf: 'api_key: s3cr3t-Value'
";
    insta::assert_snapshot!(said(more, &[]), @"
    chat/model.yaml:16:19 warning model/file-secret: this looks like a secret in plain text in git, and becomes part of a ConfigMap
      help: Put it into a Secret, and give it to the pods as a variable under `env`.
    chat/model.yaml:17:15 warning model/file-secret: this looks like a secret in plain text in git, and becomes part of a ConfigMap
      help: Put it into a Secret, and give it to the pods as a variable under `env`.
    ");
}
