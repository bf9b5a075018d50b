//! Two releases side by side, three tenants that follow one repository, and what becomes of them.

use super::rules::refused;
use super::{DONE_WITHOUT, accounts};
use crate::git_server::GitServer;
use crate::install::ground::Ground;
use crate::node::Operator;
use crate::testbed::{self, AuditedRequest};
use crate::workbench::Workbench;
use aws_lc_rs::hmac;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long something may take before it is looked whether it may happen at all. Nothing fails by it that would not later.
const SOON: Duration = Duration::from_secs(45);

/// The namespaces of the tenants: of one whose source acts as the controller, of one whose source names an account, and of
/// one with a controller of its own.
pub const TENANTS: [&str; 3] = [PLAIN, ACTING, OWN];
pub const PLAIN: &str = "tenant-plain";
pub const ACTING: &str = "tenant-acting";
pub const OWN: &str = "tenant-own";

/// The release of the whole cluster, and the one of a single namespace: their names, each of its own namespace.
pub const WIDE: (&str, &str) = ("rights", "stator");
pub const SCOPED: (&str, &str) = ("rights-scoped", "own");

const STATOR: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Repository
metadata: {name: fleet}
spec:
  environments:
    staging: {namespace: models, guards: {maxDeletions: 20}}
";

const SMALL: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Model
metadata: {name: small}
spec:
  model: Qwen/Qwen3-0.6B
  engine: mocker
  runtime: 1.2.0
  serving: {worker: {replicas: 1}}
";

/// One of everything that is rendered but a request: a claim, a file, a download, a graph, an adapter, and other objects.
const LOADED: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Model
metadata: {name: loaded}
spec:
  model: Qwen/Qwen3-0.6B
  engine: vllm
  runtime: 1.2.0
  hardware: {gpu: l40s, gpusPerNode: 4}
  serving: {worker: {replicas: 1}}
  weights:
    source: hf://Qwen/Qwen3-0.6B@b5c939de8f754692c1647ca79fbf85e8c1e70f8a
    claim: {name: weights, size: 10Gi, prune: true}
  files: {banner: {text: hello, mountPath: /etc/banner}}
  adapters: [{name: sql, source: s3://adapters/sql}]
  manifests:
    - {apiVersion: v1, kind: Service, metadata: {name: loaded-api}, spec: {ports: [{port: 80}]}}
    - apiVersion: gateway.networking.k8s.io/v1
      kind: HTTPRoute
      metadata: {name: loaded-api}
      spec: {hostnames: [loaded.example.com]}
    - apiVersion: resource.k8s.io/v1
      kind: ResourceClaimTemplate
      metadata: {name: loaded-gpu}
      spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
    - apiVersion: resource.nvidia.com/v1beta1
      kind: ComputeDomain
      metadata: {name: loaded-domain}
      spec: {channel: {resourceClaimTemplate: {name: loaded-channel}}}
";

const WANTED: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Model
metadata: {name: wanted}
spec:
  model: Qwen/Qwen3-8B
  engine: vllm
  runtime: 1.2.0
  hardware: {gpu: h200_sxm, totalGpus: 8}
  sla: {ttft: 300ms, itl: 20ms}
";

pub struct Stage {
    pub ground: Ground,
    pub runtime: tokio::runtime::Runtime,
    pub client: kube::Client,
    pub bench: Workbench,
    commit: String,
    git: GitServer,
    operator: Option<Operator>,
}

impl Stage {
    /// `None`: skip the test, it has been said.
    pub fn new() -> Option<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let ground = runtime.block_on(Ground::new())?;
        let client = runtime.block_on(ground.plane.admin());
        let bench = Workbench::with(&[
            ("stator.yaml", STATOR),
            ("models/small/model.yaml", SMALL),
            ("models/loaded/model.yaml", LOADED),
            ("models/wanted/model.yaml", WANTED),
        ]);
        let commit = bench.commit("first");
        let git = GitServer::start(bench.root().parent().unwrap());
        Some(Self { ground, runtime, client, bench, commit, git, operator: None })
    }

    /// What the API server has written down so far.
    pub fn requests(&self) -> Vec<AuditedRequest> {
        self.ground.plane.requests()
    }

    /// What was refused so far, but for what is done without.
    pub fn missing(&self) -> Vec<String> {
        let mut refused = refused(&self.requests(), &accounts());
        refused.retain(|one| !DONE_WITHOUT.contains(&one.as_str()));
        refused
    }

    /// Waits until something is so. What was refused meanwhile may be why it never is, and is told soon.
    #[track_caller]
    pub fn until(&self, what: &str, so: impl Fn() -> bool) {
        let mut looked = Instant::now();
        testbed::until(what, || {
            let done = so();
            if !done && looked.elapsed() > SOON {
                looked = Instant::now();
                let missing = self.missing();
                assert!(missing.is_empty(), "it did not come to this: {what}, and rights are missing:\n{missing:#?}");
            }
            done.then_some(()).ok_or(|| self.sources())
        });
    }

    /// Has graphs converted by a webhook, as Dynamo's own chart does. Nobody answers for it, and nobody asks: what is stored
    /// is what is asked for.
    pub fn convert(&self) {
        let service = json!({"namespace": "dynamo-system", "name": "dynamo-operator-webhook", "path": "/convert"});
        let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}});
        let patch = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}});
        let name = "dynamographdeployments.nvidia.com";
        self.ground.kubectl(&["patch", "crd", name, "--type=merge", "-p", &patch.to_string()]);
    }

    /// Installs both releases, beside the definitions of what models have besides Dynamo's objects.
    pub fn install(&self) {
        for definition in
            ["gateway-api/gateway.networking.k8s.io_httproutes", "dra-driver/resource.nvidia.com_computedomains"]
        {
            let file = format!("{}/crds/{definition}.yaml", env!("CARGO_MANIFEST_DIR"));
            self.ground.kubectl(&["apply", "--server-side", "-f", &file]);
        }
        for (namespace, _) in [WIDE, SCOPED] {
            self.runtime.block_on(self.ground.namespace(namespace));
        }
        let several = ["--set", "controller.replicas=2,controller.shards=2"];
        let wide = ["--set", "server.enabled=true,server.replicas=1,rbac.impersonate={deployer}"];
        self.ground.release(WIDE.0, WIDE.1, &["install"], &[&several[..], &wide].concat());
        let scoped = format!("crds.install=false,watchNamespaces={{{OWN}}}");
        self.ground.release(SCOPED.0, SCOPED.1, &["install"], &[&several[..], &["--set", &scoped]].concat());
    }

    /// The tenants with their secrets, and the account that one of them has, with the rights that the page gives it.
    pub fn populate(&self) {
        for namespace in TENANTS {
            self.runtime.block_on(self.ground.plane.namespace(namespace));
            let secrets =
                [("git", json!({"username": "me", "password": "word"})), ("hook", json!({"token": "canary"}))];
            for (name, values) in secrets {
                self.apply(json!({
                    "apiVersion": "v1", "kind": "Secret",
                    "metadata": {"name": name, "namespace": namespace, "labels": {"stator.dev/credential": "true"}},
                    "stringData": values,
                }));
            }
        }
        self.runtime.block_on(self.ground.plane.account(ACTING, "deployer", documented()));
    }

    /// A source in each tenant's namespace.
    pub fn declare(&self) {
        for namespace in TENANTS {
            let mut spec = json!({
                "url": self.git.url("work/.git"), "allowInsecure": true, "ref": {"branch": "master"},
                "interval": "2s", "environment": "staging", "targetNamespace": namespace, "secretRef": {"name": "git"},
                "forge": {"type": "gitea"}, "webhook": {"secretRef": {"name": "hook"}},
            });
            if namespace == ACTING {
                spec["serviceAccountName"] = json!("deployer");
            }
            self.apply(json!({
                "apiVersion": "stator.dev/v1alpha1", "kind": "ModelSource",
                "metadata": {"name": "models", "namespace": namespace}, "spec": spec,
            }));
        }
    }

    /// Makes an object, or changes it.
    pub fn apply(&self, object: Value) {
        let file = self.bench.path("../object.json");
        fs_err::write(&file, object.to_string()).unwrap();
        self.ground.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", file.to_str().unwrap()]);
    }

    /// From now on everything is Ready as soon as it is there.
    pub fn operate(&mut self) {
        self.operator = Some(Operator::start(&self.ground.plane, &TENANTS));
    }

    /// What the source of a namespace says of itself.
    fn status(&self, namespace: &str) -> Value {
        let api = self.runtime.block_on(self.ground.api("ModelSource", namespace));
        self.runtime.block_on(api.get("models")).unwrap().data["status"].clone()
    }

    /// What the sources of the tenants say of themselves.
    fn sources(&self) -> String {
        let told = TENANTS.map(|namespace| format!("{namespace}: {:#}\n", self.status(namespace)));
        told.concat()
    }

    /// Commits what was written.
    pub fn commit(&mut self, message: &str) {
        self.commit = self.bench.commit(message);
    }

    /// Waits until the newest commit is synced for every tenant, and its models are healthy.
    pub fn synced(&self) {
        for namespace in TENANTS {
            self.until(&format!("{namespace} is synced"), || {
                let ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
                let status = self.status(namespace);
                let applied = status["revision"]["applied"].as_str().unwrap_or_default();
                conditions(&status).iter().any(ready) && applied.contains(&self.commit)
            });
        }
    }

    /// Suspends the source of a namespace, or lets it go on.
    pub fn suspend(&self, namespace: &str, suspended: bool) {
        let patch = json!({"spec": {"suspend": suspended}}).to_string();
        self.ground.kubectl(&["patch", "modelsource", "models", "-n", namespace, "--type=merge", "-p", &patch]);
    }

    /// Whether the source of a namespace says that it is.
    pub fn is_suspended(&self, namespace: &str) -> bool {
        conditions(&self.status(namespace)).iter().any(|one| one["reason"] == "Suspended")
    }

    /// From now on nobody may write a record of `small`.
    pub fn freeze_records(&self) {
        let record = json!({
            "apiGroups": ["stator.dev"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": ["models"],
            "resourceNames": ["small"],
        });
        let journals = json!({
            "apiGroups": ["stator.dev"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["syncjournals"],
        });
        let (group, name) = ("admissionregistration.k8s.io/v1", "frozen");
        self.apply(json!({
            "apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [record, journals]},
                "validations": [{"expression": "false", "message": "records are frozen"}],
            },
        }));
        self.apply(json!({
            "apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }));
        // It is taken up a moment later.
        let patch = json!({"metadata": {"annotations": {"test": "frozen"}}});
        let params = PatchParams { dry_run: true, ..PatchParams::default() };
        self.until("records are frozen", || {
            let records = self.runtime.block_on(self.ground.api("Model", PLAIN));
            self.runtime.block_on(records.patch("small", &params, &Patch::Merge(&patch))).is_err()
        });
    }

    /// Everybody may again who has the right to.
    pub fn thaw_records(&self) {
        self.ground.kubectl(&["delete", "validatingadmissionpolicybinding", "frozen"]);
        self.ground.kubectl(&["delete", "validatingadmissionpolicy", "frozen"]);
    }

    /// The uids of the graphs of a namespace, by name.
    pub fn graphs(&self, namespace: &str) -> BTreeMap<String, String> {
        let text = self.ground.kubectl(&[
            "get",
            "dynamographdeployments",
            "-n",
            namespace,
            "-o",
            r#"jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}"#,
        ]);
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.map(|(name, uid)| (name.to_owned(), uid.to_owned())).collect()
    }

    /// Where a release's pods of a component listen.
    pub fn pods(&self, namespace: &str, component: &str) -> Vec<SocketAddr> {
        let pods = self.ground.node.pods(namespace);
        let own = pods.iter().filter(|(name, _)| name.contains(component));
        own.filter_map(|(name, _)| self.ground.node.address(namespace, name, 8080)).collect()
    }

    /// Delivers a webhook of a push, and gives the status of the answer.
    pub fn deliver(&self, to: SocketAddr, namespace: &str) -> u16 {
        let body = r#"{"ref":"refs/heads/master"}"#;
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"canary");
        let request = reqwest::blocking::Client::new()
            .post(format!("http://{to}/webhooks/gitea/{namespace}/models"))
            .header("Content-Type", "application/json")
            .header("X-Gitea-Event", "push")
            .header("X-Gitea-Delivery", uuid::Uuid::new_v4().to_string())
            .header("X-Gitea-Signature", hex::encode(hmac::sign(&key, body.as_bytes())))
            .body(body);
        request.send().map_or(0, |answer| answer.status().as_u16())
    }
}

fn conditions(status: &Value) -> Vec<Value> {
    status["conditions"].as_array().cloned().unwrap_or_default()
}

/// The rules of the role that `docs/how-to/grant-rights.md` gives.
fn documented() -> Vec<PolicyRule> {
    let page = include_str!("../../../../docs/how-to/grant-rights.md");
    let block = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let role = block.split("---\n").find(|document| document.contains("kind: Role\n")).unwrap();
    let role: Role = serde_saphyr::from_str(role).unwrap();
    role.rules.unwrap()
}
