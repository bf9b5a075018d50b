//! Sources as `ModelSource` objects of a real API server: the real program, a git host, and no operator.

use super::process::Process;
use super::{add, fleet, scale};
use crate::git_server::{GitReply, GitRequest, GitServer, says};
use crate::testbed::{self, ControlPlane, until};
use crate::workbench::Workbench;
use aws_lc_rs::hmac;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::cell::Cell;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

/// A control plane, and a client of it that may do everything.
pub(super) struct Stage<'a> {
    pub(super) plane: &'a ControlPlane,
    pub(super) runtime: tokio::runtime::Runtime,
    pub(super) client: kube::Client,
    pub(super) folder: tempfile::TempDir,
}

impl<'a> Stage<'a> {
    pub(super) fn on(plane: &'a ControlPlane) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(plane.admin());
        let folder = tempfile::Builder::new().prefix("stator-objects-").tempdir().unwrap();
        Self { plane, runtime, client, folder }
    }

    pub(super) fn namespace(&self, name: &str) {
        self.runtime.block_on(self.plane.namespace(name));
    }

    pub(super) fn objects(&self, namespace: &str, kind: &str) -> Api<DynamicObject> {
        let (version, plural) = match kind {
            "ModelSource" => ("stator.dev/v1alpha1", "modelsources"),
            "Model" => ("stator.dev/v1alpha1", "models"),
            _ => ("nvidia.com/v1beta1", "dynamographdeployments"),
        };
        let (group, own) = version.split_once('/').unwrap();
        let kind = ApiResource {
            group: group.into(),
            version: own.into(),
            api_version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
        };
        Api::namespaced_with(self.client.clone(), namespace, &kind)
    }

    /// Makes a source, or changes it.
    pub(super) fn declare(&self, namespace: &str, name: &str, spec: Value) {
        let value = json!({
            "apiVersion": "stator.dev/v1alpha1", "kind": "ModelSource",
            "metadata": {"name": name, "namespace": namespace}, "spec": spec,
        });
        let params = PatchParams::apply("test").force();
        let patch = Patch::Apply(value);
        self.runtime.block_on(self.objects(namespace, "ModelSource").patch(name, &params, &patch)).unwrap();
    }

    /// Asks for a look now, as a person does.
    fn ask(&self, namespace: &str, name: &str, when: &str) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"stator.dev/requestedAt": when}}}));
        let params = PatchParams::default();
        self.runtime.block_on(self.objects(namespace, "ModelSource").patch(name, &params, &patch)).unwrap();
    }

    pub(super) fn forget(&self, namespace: &str, name: &str) {
        let objects = self.objects(namespace, "ModelSource");
        self.runtime.block_on(objects.delete(name, &DeleteParams::default())).unwrap();
    }

    pub(super) fn secret(&self, namespace: &str, name: &str, values: &[(&str, &str)]) {
        let data: Value = values
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!(value)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let value = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": {"stator.dev/credential": "true"}}, "stringData": data});
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        self.runtime.block_on(secrets.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(value))).unwrap();
    }

    pub(super) fn delete_secret(&self, namespace: &str, name: &str) {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        self.runtime.block_on(secrets.delete(name, &DeleteParams::default())).unwrap();
    }

    /// What a namespace holds of a kind: names and resource versions, sorted.
    pub(super) fn there(&self, namespace: &str, kind: &str) -> Vec<(String, String)> {
        let listed = self.runtime.block_on(self.objects(namespace, kind).list(&ListParams::default())).unwrap();
        let one = |object: DynamicObject| (object.metadata.name.unwrap(), object.metadata.resource_version.unwrap());
        let mut found: Vec<(String, String)> = listed.items.into_iter().map(one).collect();
        found.sort();
        found
    }

    pub(super) fn graphs(&self, namespace: &str) -> Vec<String> {
        self.there(namespace, "DynamoGraphDeployment").into_iter().map(|(name, _)| name).collect()
    }

    pub(super) fn replicas(&self, namespace: &str, name: &str) -> String {
        let graph = self.runtime.block_on(self.objects(namespace, "DynamoGraphDeployment").get_opt(name)).unwrap();
        graph.map(|graph| graph.data["spec"].to_string()).unwrap_or_default()
    }

    /// Starts a controller or a server on this plane.
    pub(super) fn run(&self, bench: &Workbench, name: &'static str, verb: &str, arguments: &[&str]) -> Process {
        self.run_as((&self.plane.kubeconfig(), "admin"), bench, name, verb, arguments)
    }

    /// The same with another kubeconfig, as another of its contexts.
    pub(super) fn run_as(
        &self,
        (kubeconfig, context): (&Path, &str),
        bench: &Workbench,
        name: &'static str,
        verb: &str,
        arguments: &[&str],
    ) -> Process {
        Process::start(name, &mut self.command((kubeconfig, context), bench, name, verb, arguments))
    }

    /// The command of that.
    pub(super) fn command(
        &self,
        (kubeconfig, context): (&Path, &str),
        bench: &Workbench,
        name: &str,
        verb: &str,
        arguments: &[&str],
    ) -> Command {
        let mut command = bench.command();
        command.current_dir(self.folder.path()).arg(verb).arg("--kubeconfig").arg(kubeconfig);
        command.args(["--context", context, "--listen", "127.0.0.1:0"]);
        if verb == "controller" {
            // Git hosts of tests are on this machine, and most without TLS.
            command.args(["--allow-insecure", "--allow-local-addresses"]);
            command.arg("--data").arg(self.folder.path().join(name));
        }
        command.args(arguments);
        command
    }
}

/// A repository behind a git host.
pub(super) fn hosted(models: usize) -> (Workbench, GitServer) {
    let bench = fleet(models);
    bench.commit("first");
    let git = GitServer::start(bench.root().parent().unwrap());
    (bench, git)
}

pub(super) fn spec(git: &GitServer, more: &Value) -> Value {
    let mut spec = json!({
        "url": git.url("work/.git"), "allowInsecure": true, "ref": {"branch": "master"}, "interval": "1s",
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

fn deliver(to: &Process, namespace: &str, name: &str, id: &str) -> u16 {
    let body = r#"{"ref":"refs/heads/master"}"#;
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"canary-hook");
    let signature = hex::encode(hmac::sign(&key, body.as_bytes()));
    let head = format!(
        "POST /webhooks/gitea/{namespace}/{name} HTTP/1.1\r\nContent-Type: application/json\r\nX-Gitea-Event: push\r\nX-Gitea-Delivery: {id}\r\nX-Gitea-Signature: {signature}"
    );
    to.asks(&head, body.as_bytes()).0
}

#[test]
fn a_source_is_synced_replaced_and_ended_and_a_hostile_one_is_told() {
    let Some(plane) = testbed::shared() else { return };
    let stage = Stage::on(plane);
    stage.namespace("objects-story");
    let (bench, git) = hosted(2);
    let into = json!({"targetNamespace": "objects-story"});
    stage.declare("objects-story", "models", spec(&git, &into));
    // What the rules of the definition let through, and no schedule ever comes round.
    stage.declare("objects-story", "hostile", spec(&git, &json!({"schedule": "0 0 30 2 *", "path": "elsewhere"})));
    // The environment's own namespace is another one.
    stage.declare("objects-story", "grasping", spec(&git, &json!({"environment": "staging"})));
    let mut controller = stage.run(
        &bench,
        "controller",
        "controller",
        &["--watch-namespace", "objects-story", "--lease-namespace", "objects-story"],
    );
    controller.hears(&["started", "objects-story/models"]);
    controller.hears(&["held back", "objects-story/hostile", "InvalidSpec", "spec.schedule"]);
    controller.hears(&["objects-story/grasping", "namespace `models`", "may use only its own, `objects-story`"]);
    until("the graphs are there", || stage.graphs("objects-story") == ["mock-0", "mock-1"]);
    until("it is ready", || controller.gets("/readyz").0 == 200);
    assert_eq!(controller.gets("/livez"), (200, "ok\n".to_owned()));

    // Nothing is written while nothing changes.
    let before = stage.there("objects-story", "DynamoGraphDeployment");
    git.asked();
    let looks = Cell::new(0);
    until("three more looks", || looks.replace(looks.get() + git.asked().len()) >= 3);
    assert_eq!(stage.there("objects-story", "DynamoGraphDeployment"), before);

    // Another commit, and then another spec.
    scale(&bench, 0, 5);
    until("the new commit is there", || stage.replicas("objects-story", "mock-0").contains("\"replicas\":5"));
    stage.declare("objects-story", "models", spec(&git, &json!({"targetNamespace": "objects-story", "timeout": "5m"})));
    controller.hears(&["replaced", "objects-story/models"]);
    add(&bench, 2);
    bench.commit("one more");
    until("it goes on", || stage.graphs("objects-story").len() == 3);

    // Mended, the hostile one runs; a second source of the same is held back, and the first goes on.
    stage.declare("objects-story", "second", spec(&git, &into));
    controller.hears(&["held back", "objects-story/second", "Duplicate", "`models`"]);

    // Deleted, it ends, and what it synced stays.
    stage.forget("objects-story", "models");
    controller.hears(&["ended", "objects-story/models"]);
    controller.hears(&["started", "objects-story/second"]);
    stage.forget("objects-story", "second");
    controller.hears(&["ended", "objects-story/second"]);
    assert_eq!(stage.graphs("objects-story").len(), 3);
    assert_eq!(stage.there("objects-story", "Model").len(), 3);
    assert_eq!(controller.end().code(), Some(0));
}

#[test]
fn a_secret_is_waited_for_and_a_new_one_taken_up() {
    let Some(plane) = testbed::shared() else { return };
    let stage = Stage::on(plane);
    stage.namespace("objects-secrets");
    let bench = fleet(1);
    bench.commit("first");
    let password = Arc::new(Mutex::new("canary-1"));
    let wanted = Arc::clone(&password);
    let git = GitServer::answering(bench.root().parent().unwrap(), move |asked: &GitRequest| {
        use base64::Engine as _;
        let login = format!("me:{}", wanted.lock().unwrap());
        let login = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(login));
        if asked.headers.get("authorization").is_some_and(|given| given.as_bytes() == login.as_bytes()) {
            return GitReply::Git;
        }
        says(401, &[("www-authenticate", "Basic realm=\"git\"")], "no")
    });
    let named = json!({"targetNamespace": "objects-secrets", "secretRef": {"name": "git"}});
    stage.declare("objects-secrets", "models", spec(&git, &named));
    let controller = stage.run(
        &bench,
        "controller",
        "controller",
        &["--watch-namespace", "objects-secrets", "--lease-namespace", "objects-secrets"],
    );
    controller.hears(&["held back", "objects-secrets/models", "SecretMissing", "`git`"]);
    assert!(stage.graphs("objects-secrets").is_empty());
    stage.secret("objects-secrets", "git", &[("username", "me"), ("password", "canary-1")]);
    stage.ask("objects-secrets", "models", "1");
    until("it is synced", || stage.graphs("objects-secrets") == ["mock-0"]);

    // The host wants another password, and gets it as soon as somebody has put it into the secret.
    *password.lock().unwrap() = "canary-2";
    controller.hears(&["objects-secrets/models", "spec.secretRef"]);
    stage.secret("objects-secrets", "git", &[("username", "me"), ("password", "canary-2")]);
    stage.ask("objects-secrets", "models", "2");
    controller.hears(&["replaced", "objects-secrets/models"]);
    scale(&bench, 0, 4);
    until("it is synced anew", || stage.replicas("objects-secrets", "mock-0").contains("\"replicas\":4"));
    assert!(!controller.said().contains("canary"), "a secret is in the log");
}

#[test]
fn a_webhook_at_the_server_makes_the_controller_look() {
    let Some(plane) = testbed::shared() else { return };
    let stage = Stage::on(plane);
    stage.namespace("objects-server");
    let (bench, git) = hosted(1);
    stage.secret("objects-server", "hook", &[("token", "canary-hook")]);
    let hooked = json!({
        "targetNamespace": "objects-server", "interval": "24h",
        "forge": {"type": "gitea"}, "webhook": {"secretRef": {"name": "hook"}},
    });
    stage.declare("objects-server", "models", spec(&git, &hooked));
    let own = ["--watch-namespace", "objects-server"];
    let leases = ["--lease-namespace", "objects-server"];
    let quiet = [&own[..], &leases[..], &["--webhooks=false"]].concat();
    let mut controller = stage.run(&bench, "controller", "controller", &quiet);
    let mut server = stage.run(&bench, "server", "server", &own);
    until("the first sync", || stage.graphs("objects-server") == ["mock-0"]);
    until("the server is ready", || server.gets("/readyz").0 == 200);
    assert_eq!(server.gets("/livez").0, 200);
    assert_eq!(controller.asks("POST /webhooks/gitea HTTP/1.1", b"{}").0, 404, "it takes no webhooks");

    let second = scale(&bench, 0, 7);
    until("the server knows the secret", || deliver(&server, "objects-server", "models", "one") == 202);
    until("the push is there", || stage.replicas("objects-server", "mock-0").contains("\"replicas\":7"));
    controller.hears(&["a new commit", &second[..7]]);

    // Many deliveries are all taken.
    for number in 0..200 {
        assert_eq!(deliver(&server, "objects-server", "models", &format!("many-{number}")), 202);
    }
    let third = scale(&bench, 0, 9);
    assert_eq!(deliver(&server, "objects-server", "models", "last"), 202);
    // Asked to end, it hands on what came.
    assert_eq!(server.end().code(), Some(0));
    controller.hears(&["a new commit", &third[..7]]);
    let source = stage.runtime.block_on(stage.objects("objects-server", "ModelSource").get("models")).unwrap();
    let hints = &source.metadata.annotations.unwrap()["stator.dev/hints"];
    assert!(hints.len() < 2000 && hints.contains("refs/heads/master"), "{hints}");
    assert_eq!(controller.end().code(), Some(0));
}

#[test]
fn tenants_are_kept_apart_and_namespaces_change_hands() {
    // Controllers of a whole cluster would take up the sources of every other test.
    let plane = match testbed::Programs::find().and_then(|programs| ControlPlane::start(&programs)) {
        Ok(plane) => plane,
        Err(reason) if testbed::required() => panic!("{reason}"),
        Err(reason) => return testbed::say(&format!("SKIPPED: {reason}")),
    };
    let stage = Stage::on(&plane);
    ["victim", "tenant", "canary", "stator-system"].iter().for_each(|name| stage.namespace(name));
    let (bench, git) = hosted(1);
    // The environment is for the namespace `models`; this one is for the victim's.
    let grasping = fleet(1);
    grasping.replace("stator.yaml", "namespace: models", "namespace: victim");
    grasping.commit("first");
    let hostile = GitServer::start(grasping.root().parent().unwrap());
    account(&stage, "tenant", "deployer");

    stage.declare("tenant", "by-target", spec(&git, &json!({"targetNamespace": "victim"})));
    stage.declare("tenant", "by-environment", spec(&hostile, &json!({"environment": "staging"})));
    stage.declare("tenant", "by-account", spec(&hostile, &json!({"serviceAccountName": "deployer"})));
    stage.declare(
        "tenant",
        "by-nobody",
        spec(&git, &json!({"serviceAccountName": "nobody", "targetNamespace": "tenant"})),
    );
    let at_home = json!({"serviceAccountName": "deployer", "targetNamespace": "tenant"});
    stage.declare("tenant", "at-home", spec(&hostile, &at_home));
    stage.declare("canary", "models", spec(&git, &json!({"targetNamespace": "canary"})));
    let whole = stage.run(&bench, "whole", "controller", &["--identity", "whole-0"]);
    whole.hears(&["held back", "tenant/by-target", "AccessDenied"]);
    whole.hears(&["tenant/by-environment", "namespace `victim`", "may use only its own, `tenant`"]);
    whole.hears(&["tenant/by-account", "system:serviceaccount:tenant:deploye", "a Role in victim"]);
    whole.hears(&["tenant/by-nobody", "system:serviceaccount:tenant:nobody"]);
    until("what an account may do is done", || stage.graphs("tenant") == ["mock-0"]);
    until("the canary is synced", || stage.graphs("canary") == ["mock-0"]);
    assert!(stage.graphs("victim").is_empty() && stage.there("victim", "Model").is_empty());

    // A controller of its own comes, and the one of the whole cluster leaves the namespace to it.
    let mut scoped = stage.run(
        &bench,
        "scoped",
        "controller",
        &["--watch-namespace", "canary", "--lease-namespace", "canary", "--identity", "canary-0"],
    );
    whole.hears(&["left to their own controllers", "canary"]);
    whole.hears(&["ended", "canary/models"]);
    scoped.hears(&["started", "canary/models"]);
    let leases: Api<Lease> = Api::namespaced(stage.client.clone(), "canary");
    let marker = stage.runtime.block_on(leases.get("stator-namespace-scope")).unwrap().spec.unwrap();
    assert_eq!(marker.holder_identity.unwrap(), format!("canary-0_stator-{}", env!("CARGO_PKG_VERSION")));
    assert_eq!(marker.lease_duration_seconds, Some(30));
    scale(&bench, 0, 3);
    until("it is at work there", || stage.replicas("canary", "mock-0").contains("\"replicas\":3"));
    assert_eq!(whole.times(&["started", "canary/models"]), 1);

    // It is gone, and its marker runs out.
    scoped.kill();
    whole.hears(&["taken back", "canary"]);
    until("it is taken up again", || whole.times(&["started", "canary/models"]) == 2);
    scale(&bench, 0, 6);
    until("and synced", || stage.replicas("canary", "mock-0").contains("\"replicas\":6"));
    assert!(stage.graphs("victim").is_empty() && stage.there("victim", "Model").is_empty());
}

/// A service account that may sync into its own namespace, and do nothing anywhere else.
fn account(stage: &Stage<'_>, namespace: &str, name: &str) {
    let all = |group: &str, resources: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources.iter().map(|resource| (*resource).to_owned()).collect()),
        verbs: ["get", "list", "watch", "create", "patch", "delete"].map(str::to_owned).to_vec(),
        ..PolicyRule::default()
    };
    let rules = vec![
        all("nvidia.com", &["*"]),
        all("stator.dev", &["models", "models/status", "syncjournals"]),
        all("batch", &["jobs"]),
        all("", &["configmaps", "persistentvolumeclaims", "pods"]),
    ];
    let metadata = json!({"name": name, "namespace": namespace});
    let (post, client) = (PostParams::default(), &stage.client);
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": metadata})).unwrap();
    let mut role: Role = serde_json::from_value(json!({"metadata": metadata})).unwrap();
    role.rules = Some(rules);
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": metadata, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }))
    .unwrap();
    stage.runtime.block_on(async {
        Api::<ServiceAccount>::namespaced(client.clone(), namespace).create(&post, &account).await.unwrap();
        Api::<Role>::namespaced(client.clone(), namespace).create(&post, &role).await.unwrap();
        Api::<RoleBinding>::namespaced(client.clone(), namespace).create(&post, &binding).await.unwrap();
    });
}

#[test]
fn without_a_cluster_and_without_a_file_there_is_nothing_to_follow() {
    let bench = fleet(1);
    let told = bench.run(["controller", "--cluster", "embedded"]).exits(2).notes();
    insta::assert_snapshot!(told, @r#"
        error: no Kubernetes cluster to read ModelSource objects from
        hint: select one with --context, --kubeconfig or `--cluster in-cluster`
        hint: or pass a file of sources with `stator controller --source-file FILE`, which also works on the embedded cluster
        "#);
    let told = bench.run(["server"]).exits(2).notes();
    insta::assert_snapshot!(told, @r#"
        error: no Kubernetes cluster to read ModelSource objects from
        hint: select one with --context, --kubeconfig or `--cluster in-cluster`
        hint: or pass a file of sources with `stator controller --source-file FILE`, which also works on the embedded cluster
        "#);
    assert!(!bench.path(".stator").exists(), "nothing is made of a mistake");
}
