//! The admission policies of `stator policy export`, held against a real API server.

use crate::testbed::{self, ControlPlane, eventually};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use stator_model::fleet_policy::PodField;
use std::collections::BTreeSet;
use strum::VariantArray as _;

const NAMESPACE: &str = "fleet-policy";

/// Something that may be written beside stator, and that becomes a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    Graph,
    OlderGraph,
    Component,
    Job,
}

impl Writer {
    /// An object whose pod has this spec and these metadata.
    fn object(self, name: &str, attack: &Attack) -> DynamicObject {
        let Attack { pod, metadata, .. } = attack;
        let template = json!({"metadata": metadata, "spec": pod});
        let older = || {
            let mut spec = pod.clone();
            // What serves is named apart there.
            let main = spec["containers"].as_array_mut().map(|all| all.remove(0)).unwrap_or_default();
            spec["mainContainer"] = main;
            json!({"componentType": "worker", "extraPodSpec": spec, "extraPodMetadata": metadata})
        };
        let (api_version, kind, spec) = match self {
            Self::Graph => (
                "nvidia.com/v1beta1",
                "DynamoGraphDeployment",
                json!({"components": [{"name": "decode", "type": "decode", "podTemplate": template}]}),
            ),
            Self::OlderGraph => {
                ("nvidia.com/v1alpha1", "DynamoGraphDeployment", json!({"services": {"decode": older()}}))
            }
            Self::Component => (
                "nvidia.com/v1beta1",
                "DynamoComponentDeployment",
                json!({"name": "decode", "type": "decode", "podTemplate": template}),
            ),
            Self::Job => {
                let mut template = template;
                template["spec"]["restartPolicy"] = json!("Never");
                ("batch/v1", "Job", json!({"template": template}))
            }
        };
        serde_json::from_value(json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec,
        }))
        .unwrap()
    }
}

/// A pod that asks for what a policy forbids.
#[derive(Clone, Debug)]
struct Attack {
    /// The word that tells of it.
    word: &'static str,
    pod: Value,
    metadata: Value,
}

/// A pod with a container, and what it says beside that.
fn pod(more: &Value, container: &Value) -> Value {
    let mut own = json!({"name": "main", "image": "nvcr.io/nvidia/x:1.2.0"});
    own.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    let mut pod = json!({"containers": [own]});
    pod.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    pod
}

/// What is refused.
fn attacks() -> Vec<Attack> {
    let of_pod = |word, more: Value| Attack { word, pod: pod(&more, &json!({})), metadata: json!({}) };
    let of_container = |word, container: Value| Attack { word, pod: pod(&json!({}), &container), metadata: json!({}) };
    let context = |word, context: Value| of_container(word, json!({"securityContext": context}));
    let of_metadata = |word, metadata: Value| Attack { word, pod: pod(&json!({}), &json!({})), metadata };
    let volume = |word, source: Value| {
        let mut volume = json!({"name": "n"});
        volume.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        of_pod(word, json!({"volumes": [volume]}))
    };
    let profile = "container.apparmor.security.beta.kubernetes.io/main";
    let mut attacks = vec![
        of_pod("hostNetwork", json!({"hostNetwork": true})),
        of_pod("hostPID", json!({"hostPID": true})),
        of_pod("hostIPC", json!({"hostIPC": true})),
        of_pod("hostUsers", json!({"hostUsers": true})),
        of_pod("nodeName", json!({"nodeName": "control-plane-1"})),
        volume("hostPath", json!({"hostPath": {"path": "/"}})),
        volume("hostPath", json!({"hostPath": {"path": "/var/lib/models-of-others"}})),
        of_pod("seLinuxOptions", json!({"securityContext": {"seLinuxOptions": {"type": "spc_t"}}})),
        of_pod("seLinuxOptions", json!({"securityContext": {"seLinuxOptions": {"user": "system_u"}}})),
        of_pod("seLinuxOptions", json!({"securityContext": {"seLinuxOptions": {"role": "system_r"}}})),
        of_pod("seccompProfile", json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}})),
        of_pod("appArmorProfile", json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}})),
        of_metadata("appArmorProfile", json!({"annotations": {profile: "unconfined"}})),
        of_pod("hostProcess", json!({"securityContext": {"windowsOptions": {"hostProcess": true}}})),
        of_pod("sysctls", json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}})),
        context("procMount", json!({"procMount": "Unmasked"})),
        context("privileged", json!({"privileged": true})),
        context("capabilities", json!({"capabilities": {"add": ["SYS_ADMIN"]}})),
        of_container("hostPort", json!({"ports": [{"containerPort": 80, "hostPort": 80}]})),
        of_metadata("finalizers", json!({"finalizers": ["example.com/never"]})),
        of_metadata("selectingLabels", json!({"labels": {"nvidia.com/dynamo-namespace": "of-others"}})),
        // What pods name.
        of_pod("service accounts", json!({"serviceAccountName": "admin"})),
        of_pod("service accounts", json!({"serviceAccount": "admin"})),
        of_pod("service accounts", json!({"serviceAccount": "admin", "serviceAccountName": ""})),
        of_container("images", json!({"image": "docker.io/evil/x:1.2.0"})),
        of_container("images", json!({"image": "evil:1.2.0"})),
        of_container("images", json!({"image": "nvcr.io/nvidia-of-others/x:1.2.0"})),
        volume("images", json!({"image": {"reference": "docker.io/evil/x:1.2.0"}})),
        of_pod("taints", json!({"tolerations": [{"operator": "Exists"}]})),
        of_pod(
            "taints",
            json!({"tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]}),
        ),
        of_pod("priority classes", json!({"priorityClassName": "system-node-critical"})),
        of_pod("runtime classes", json!({"runtimeClassName": "nvidia-legacy"})),
        of_pod("schedulers", json!({"schedulerName": "mine"})),
        volume("kinds of volumes", json!({"nfs": {"server": "a", "path": "/"}})),
        of_metadata("labels", json!({"labels": {"kai.scheduler/queue": "of-others"}})),
    ];
    let host = json!({"host": "169.254.169.254", "port": 80});
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        for form in ["httpGet", "tcpSocket"] {
            attacks.push(of_container("probeHost", json!({probe: {form: host}})));
        }
    }
    for hook in ["postStart", "preStop"] {
        for form in ["httpGet", "tcpSocket"] {
            attacks.push(of_container("probeHost", json!({"lifecycle": {hook: {form: host}}})));
        }
    }
    for list in ["initContainers", "ephemeralContainers"] {
        let container = |more: Value| {
            let mut own = json!({"name": "i", "image": "nvcr.io/nvidia/x:1.2.0"});
            own.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({list: [own]})
        };
        attacks.push(of_pod("privileged", container(json!({"securityContext": {"privileged": true}}))));
        attacks.push(of_pod("images", container(json!({"image": "evil:1.2.0"}))));
    }
    attacks
}

/// What of pods the schema of a kind does not have, so that an API server drops it: nobody can ask for it there.
const DROPPED: [(&str, &str); 3] =
    [("finalizers", "v1alpha1"), ("ownerReferences", "v1"), ("ephemeralContainers", "Job")];

fn policy_text(level: &str) -> String {
    format!(
        "apiVersion: stator.dev/v1alpha1
kind: FleetPolicy
metadata: {{name: {level}}}
spec:
  appliesTo: {{namespaces: [{NAMESPACE}]}}
  images: {{registries: [nvcr.io/nvidia]}}
  serviceAccounts: [team-*]
  pods:
    level: {level}
    tolerations: [nvidia.com/gpu]
    priorityClasses: [batch-*]
    runtimeClasses: [nvidia]
    schedulers: [default-scheduler]
    volumes: [emptyDir, hostPath, image, persistentVolumeClaim]
    labels: [app.kubernetes.io/*, nvidia.com/*]
    exceptions:
      - {{field: capabilities, values: [IPC_LOCK]}}
      - {{field: hostPath, values: [/var/lib/models]}}
"
    )
}

fn exported(level: &str) -> Vec<Value> {
    let text = policy_text(level);
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

    /// Writes an annotation of a graph, and deletes it.
    async fn annotate_and_delete(&self, name: &str) {
        let graphs = self.api("nvidia.com", "v1beta1", "DynamoGraphDeployment", true);
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"example.com/seen": "yes"}}}));
        graphs.patch(name, &PatchParams::default(), &patch).await.unwrap();
        graphs.delete(name, &DeleteParams::default()).await.unwrap();
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

/// With the definitions of an older release, and of the newest with all its kinds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exported_admission_policies_refuse_what_policies_refuse() {
    let (Some(older), Some(newest)) = (testbed::shared(), testbed::newest()) else { return };
    refuses_what_policies_refuse(older, &[Writer::Graph, Writer::OlderGraph, Writer::Job]).await;
    // Nothing converts there, so its kinds are written in the version that is stored.
    refuses_what_policies_refuse(newest, &[Writer::Graph, Writer::Component, Writer::Job]).await;
}

async fn refuses_what_policies_refuse(plane: &ControlPlane, writers: &[Writer]) {
    let server = Server { client: plane.admin().await };
    plane.namespace(NAMESPACE).await;
    let fine = Attack {
        word: "",
        pod: pod(
            &json!({
                "serviceAccountName": "team-a",
                "volumes": [{"name": "n", "hostPath": {"path": "/var/lib/models/one"}}, {"name": "e", "emptyDir": {}}],
                "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                "priorityClassName": "batch-low",
                "runtimeClassName": "nvidia",
            }),
            &json!({"securityContext": {"capabilities": {"add": ["IPC_LOCK", "CHOWN"]}}}),
        ),
        metadata: json!({"labels": {"app.kubernetes.io/name": "chat"}}),
    };
    // Before there is a policy, the server keeps all of this: it is the policy that refuses it.
    for writer in writers {
        server.judge(&writer.object("fine", &fine)).await.unwrap_or_else(|error| panic!("{writer:?}: {error}"));
    }
    let mut possible = Vec::new();
    for attack in attacks() {
        for writer in writers {
            match server.judge(&writer.object("attack", &attack)).await {
                Ok(()) => possible.push((attack.clone(), *writer)),
                // Jobs are looked at by the server itself, which knows better what a pod may not be.
                Err(told) if *writer == Writer::Job => assert!(!told.contains("fleet policy"), "{told}"),
                Err(told) => panic!("{writer:?} {attack:?}: {told}"),
            }
        }
    }
    let earlier = Attack { word: "", pod: pod(&json!({"hostPID": true}), &json!({})), metadata: json!({}) };
    let graphs = server.api("nvidia.com", "v1beta1", "DynamoGraphDeployment", true);
    graphs.create(&PostParams::default(), &Writer::Graph.object("earlier", &earlier)).await.unwrap();
    server.apply_policies("baseline").await;
    let privileged = Attack { word: "", pod: pod(&json!({"hostNetwork": true}), &json!({})), metadata: json!({}) };
    let first = Writer::Graph.object("first", &privileged);
    eventually("the policy is taken up", async || server.judge(&first).await.is_err()).await;
    let mut attacked: BTreeSet<&str> = BTreeSet::new();
    for (attack, writer) in &possible {
        let is_operators = *writer == Writer::Component && matches!(attack.word, "labels" | "selectingLabels");
        if is_operators {
            continue;
        }
        if DROPPED.iter().any(|(word, of)| {
            *word == attack.word && writer.object("x", attack).types.unwrap().api_version.ends_with(of)
        }) {
            continue;
        }
        let told = server.judge(&writer.object("attack", attack)).await.err();
        let told = told.unwrap_or_else(|| panic!("{writer:?} let through: {attack:?}"));
        assert!(
            told.contains("fleet policy `baseline`") && told.contains(attack.word),
            "{writer:?} {attack:?}: {told}"
        );
        attacked.insert(attack.word);
    }
    for writer in writers {
        server.judge(&writer.object("fine", &fine)).await.unwrap_or_else(|error| panic!("{writer:?}: {error}"));
    }
    // No row of the table is left out. Templates of these kinds have no owners.
    let untried: Vec<&str> = PodField::VARIANTS
        .iter()
        .filter(|field| **field != PodField::OwnerReferences && !is_of_restricted(**field))
        .map(|field| field.name())
        .filter(|name| !attacked.contains(name))
        .collect();
    assert_eq!(untried, Vec::<&str>::new());
    // Probes of a component stand beside its pod there.
    if writers.contains(&Writer::OlderGraph) {
        let mut probed = serde_json::to_value(Writer::OlderGraph.object("probed", &fine)).unwrap();
        let probe = json!({"httpGet": {"host": "169.254.169.254", "port": 80}});
        probed["spec"]["services"]["decode"]["livenessProbe"] = probe;
        let told = server.judge(&serde_json::from_value(probed).unwrap()).await.unwrap_err();
        assert!(told.contains("probeHost"), "{told}");
    }
    // The operator labels what it makes of a graph.
    if writers.contains(&Writer::Component) {
        let labels = json!({"labels": {"nvidia.com/dynamo-worker-hash": "abc", "nvidia.com/dynamo-namespace": "n"}});
        let made = Attack { metadata: labels, ..fine.clone() };
        server.judge(&Writer::Component.object("made", &made)).await.unwrap();
    }
    // What was there before keeps running, is labelled, and can be deleted.
    server.annotate_and_delete("earlier").await;

    // The stricter level, beside the other.
    server.apply_policies("restricted").await;
    let fine_graph = Writer::Graph.object("fine", &fine);
    eventually("the policy is taken up", async || server.judge(&fine_graph).await.is_err()).await;
    let hardened = Attack {
        word: "",
        pod: pod(
            &json!({"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}}),
            &json!({"securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}),
        ),
        metadata: json!({}),
    };
    for writer in writers {
        server.judge(&writer.object("hard", &hardened)).await.unwrap_or_else(|error| panic!("{writer:?}: {error}"));
    }
    // What is left to the operator has none of it.
    let bare = Attack { word: "", pod: pod(&json!({}), &json!({})), metadata: json!({}) };
    let refused = server.judge(&Writer::Graph.object("bare", &bare)).await.unwrap_err();
    assert!(refused.contains("fleet policy `restricted`"), "{refused}");
}

/// Whether it is a field that the level `restricted` alone looks at.
fn is_of_restricted(field: PodField) -> bool {
    matches!(
        field,
        PodField::Volumes | PodField::AllowPrivilegeEscalation | PodField::RunAsNonRoot | PodField::RunAsUser
    )
}

/// The same attacks in a `model.yaml`, through stator.
#[test]
fn stator_refuses_what_exported_policies_refuse() {
    let bench = crate::workbench::Workbench::with(&[(
        "stator.yaml",
        "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {name: fleet}\nspec:\n  environments:\n    \
         prod: {namespace: fleet-policy}\n",
    )]);
    bench.write("../policies.yaml", policy_text("baseline"));
    let attacks = attacks();
    for (number, attack) in attacks.iter().enumerate() {
        let template = json!({"metadata": attack.metadata, "spec": attack.pod});
        let model = crate::cli::MOCK.replace("name: mock", &format!("name: attack-{number}"));
        let overrides = format!(
            "  overrides:\n    - target: {{kind: DynamoGraphDeployment}}\n      merge:\n        spec:\n          \
             components:\n            - {}\n",
            json!({"name": "worker", "podTemplate": template})
        );
        bench.write(&format!("models/attack-{number}/model.yaml"), model + &overrides);
    }
    let found = bench.run(["validate", "-e", "prod", "--policies", "../policies.yaml", "-o", "json"]).exits(1);
    for (number, attack) in attacks.iter().enumerate() {
        let file = format!("models/attack-{number}/model.yaml");
        let of_file = found.json()["findings"].as_array().unwrap().iter().any(|finding| {
            finding["file"] == file.as_str() && finding["message"].as_str().unwrap().contains("`baseline`")
        });
        assert!(of_file, "{attack:?} was let through: {}", found.stdout);
    }
}
