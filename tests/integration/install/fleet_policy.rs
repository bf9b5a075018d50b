//! The admission policies of `stator policy export`, held against a real API server.

use crate::testbed::{self, eventually};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};

const NAMESPACE: &str = "fleet-policy";

fn graph(name: &str, pod: &Value) -> DynamicObject {
    let object = json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"components": [{"name": "decode", "type": "decode", "podTemplate": {"spec": pod}}]},
    });
    serde_json::from_value(object).unwrap()
}

fn job(name: &str, pod: &Value) -> DynamicObject {
    let mut pod = pod.clone();
    pod["restartPolicy"] = json!("Never");
    let object = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"template": {"spec": pod}},
    });
    serde_json::from_value(object).unwrap()
}

/// A pod with a container, and what it says beside that.
fn pod(more: &Value, container: &Value) -> Value {
    let mut own = json!({"name": "main", "image": "nvcr.io/nvidia/x:1"});
    own.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    let mut pod = json!({"containers": [own]});
    pod.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    pod
}

/// What is refused, by the word that tells of it.
fn attacks() -> Vec<(&'static str, Value)> {
    let of_pod = |more: Value| pod(&more, &json!({}));
    let of_container = |container: Value| pod(&json!({}), &container);
    let context = |context: Value| of_container(json!({"securityContext": context}));
    vec![
        ("hostNetwork", of_pod(json!({"hostNetwork": true}))),
        ("hostPID", of_pod(json!({"hostPID": true}))),
        ("hostIPC", of_pod(json!({"hostIPC": true}))),
        ("hostPath", of_pod(json!({"volumes": [{"name": "n", "hostPath": {"path": "/"}}]}))),
        ("hostPath", of_pod(json!({"volumes": [{"name": "n", "hostPath": {"path": "/var/lib/models-of-others"}}]}))),
        ("seLinuxOptions", of_pod(json!({"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}))),
        ("seccompProfile", of_pod(json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}))),
        ("appArmorProfile", of_pod(json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}))),
        ("sysctls", of_pod(json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}))),
        ("service accounts", of_pod(json!({"serviceAccountName": "admin"}))),
        ("privileged", context(json!({"privileged": true}))),
        ("capabilities", context(json!({"capabilities": {"add": ["SYS_ADMIN"]}}))),
        ("hostPort", of_container(json!({"ports": [{"containerPort": 80, "hostPort": 80}]}))),
        (
            "probeHost",
            of_container(json!({"livenessProbe": {"httpGet": {"host": "169.254.169.254", "port": 80, "path": "/"}}})),
        ),
        ("images", of_container(json!({"image": "docker.io/evil/x:1"}))),
        ("images", of_container(json!({"image": "evil"}))),
        ("images", of_container(json!({"image": "nvcr.io/nvidia-of-others/x:1"}))),
        (
            "privileged",
            of_pod(json!({"initContainers": [
                {"name": "i", "image": "nvcr.io/nvidia/x:1", "securityContext": {"privileged": true}},
            ]})),
        ),
    ]
}

fn exported(level: &str) -> Vec<Value> {
    let text = format!(
        "apiVersion: stator.dev/v1alpha1
kind: FleetPolicy
metadata: {{name: {level}}}
spec:
  appliesTo: {{namespaces: [{NAMESPACE}]}}
  images: {{registries: [nvcr.io/nvidia]}}
  serviceAccounts: [team-*]
  pods:
    level: {level}
    exceptions:
      - {{field: capabilities, values: [IPC_LOCK]}}
      - {{field: hostPath, values: [/var/lib/models]}}
"
    );
    let read = stator_model::fleet_policy::read_policies("p.yaml", text.as_bytes()).unwrap();
    stator_model::fleet_policy::export::admission_policies(&read[0])
}

struct Server {
    client: kube::Client,
}

impl Server {
    fn api(&self, group: &str, version: &str, kind: &str, namespaced: bool) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        if namespaced {
            Api::namespaced_with(self.client.clone(), NAMESPACE, &kind)
        } else {
            Api::all_with(self.client.clone(), &kind)
        }
    }

    async fn apply_policies(&self, level: &str) {
        for object in exported(level) {
            let kind = object["kind"].as_str().unwrap().to_owned();
            let resource = match kind.as_str() {
                "ValidatingAdmissionPolicy" => "validatingadmissionpolicies",
                _ => "validatingadmissionpolicybindings",
            };
            let mut kind = ApiResource::from_gvk(&GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", &kind));
            kind.plural = resource.to_owned();
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind);
            api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        }
    }

    /// What the server says to an object, which it does not keep.
    async fn judge(&self, object: &DynamicObject) -> Result<(), String> {
        let types = object.types.clone().unwrap();
        let (group, version) = types.api_version.split_once('/').unwrap();
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        let done = self.api(group, version, &types.kind, true).create(&parameters, object).await;
        done.map(drop).map_err(|error| error.to_string())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exported_admission_policies_refuse_what_policies_refuse() {
    let Some(plane) = testbed::shared() else { return };
    let server = Server { client: plane.admin().await };
    plane.namespace(NAMESPACE).await;
    server.apply_policies("baseline").await;
    let privileged = graph("first", &pod(&json!({"hostNetwork": true}), &json!({})));
    eventually("the policy is taken up", async || server.judge(&privileged).await.is_err()).await;
    for (word, pod) in attacks() {
        for object in [graph("attack", &pod), job("attack", &pod)] {
            let kind = &object.types.as_ref().unwrap().kind;
            let refused = server.judge(&object).await.err().unwrap_or_else(|| panic!("{kind} let through: {pod}"));
            // This API server allows nobody privileged containers, and says so itself where it knows the kind.
            let is_by_server = kind == "Job" && refused.contains("privileged: Forbidden: disallowed by cluster policy");
            let is_by_policy = refused.contains("fleet policy `baseline`") && refused.contains(word);
            assert!(is_by_policy || (word == "privileged" && is_by_server), "{word} of {kind}: {refused}");
        }
    }
    let fine = pod(
        &json!({
            "serviceAccountName": "team-a",
            "volumes": [{"name": "n", "hostPath": {"path": "/var/lib/models/one"}}, {"name": "e", "emptyDir": {}}],
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        }),
        &json!({"securityContext": {"capabilities": {"add": ["IPC_LOCK", "CHOWN"]}}}),
    );
    for object in [graph("fine", &fine), job("fine", &fine)] {
        server.judge(&object).await.unwrap();
    }

    // The stricter level, beside the other.
    server.apply_policies("restricted").await;
    eventually("the policy is taken up", async || server.judge(&graph("fine", &fine)).await.is_err()).await;
    let hardened = pod(
        &json!({"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}}),
        &json!({"securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}),
    );
    for object in [graph("hard", &hardened), job("hard", &hardened)] {
        server.judge(&object).await.unwrap();
    }
    // What is left to the operator has none of it.
    let refused = server.judge(&graph("bare", &pod(&json!({}), &json!({})))).await.unwrap_err();
    assert!(refused.contains("fleet policy `restricted`"), "{refused}");
}
