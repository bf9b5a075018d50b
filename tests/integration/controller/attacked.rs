//! What a tenant may try who may write sources, or their status, but neither read their secrets nor sign for them; and
//! whoever may reach the metrics. The real program on a real API server.

use super::objects::{Stage, hosted, spec};
use super::process::Process;
use super::told::Operator;
use super::{fleet, scale};
use crate::git_server::{GitReply, GitRequest, GitServer};
use crate::testbed::{self, until};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use russh::keys::ssh_key::PrivateKey;
use russh::keys::ssh_key::private::Ed25519Keypair;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

fn controller(stage: &Stage<'_>, bench: &crate::workbench::Workbench, namespace: &str, more: &[&str]) -> Process {
    let own = ["--watch-namespace", namespace, "--lease-namespace", namespace];
    stage.run(bench, "controller", "controller", &[&own[..], more].concat())
}

fn make_secret(stage: &Stage<'_>, namespace: &str, secret: Value) {
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), namespace);
    let secret: Secret = serde_json::from_value(secret).unwrap();
    stage.runtime.block_on(secrets.create(&PostParams::default(), &secret)).unwrap();
}

/// S11: whoever may write a source names any secret of its namespace, and a host of their own; what nobody labelled for
/// sources is sent nowhere, and what is labelled for one host to no other.
#[test]
fn a_source_sends_no_secret_that_is_not_meant_for_it() {
    let Some(plane) = testbed::shared() else { return };
    let stage = Stage::on(plane);
    let namespace = "attacked-secrets";
    stage.namespace(namespace);
    let bench = fleet(1);
    bench.commit("first");
    let logins: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&logins);
    let git = GitServer::answering(bench.root().parent().unwrap(), move |asked: &GitRequest| {
        let login =
            asked.headers.get("authorization").map(|login| String::from_utf8_lossy(login.as_bytes()).into_owned());
        seen.lock().unwrap().extend(login);
        GitReply::Git
    });
    let values = json!({"username": "me", "password": "canary"});
    let labelled = json!({"stator.dev/credential": "git.example.com"});
    make_secret(&stage, namespace, json!({"metadata": {"name": "others"}, "stringData": values}));
    make_secret(
        &stage,
        namespace,
        json!({"metadata": {"name": "elsewhere", "labels": labelled}, "stringData": values}),
    );
    for name in ["others", "elsewhere"] {
        let named = json!({"targetNamespace": namespace, "secretRef": {"name": name}, "environment": name});
        stage.declare(namespace, name, spec(&git, &named));
    }
    let mut controller = controller(&stage, &bench, namespace, &[]);
    controller.hears(&[
        "attacked-secrets/others",
        "SecretInvalid",
        "kubectl label secret others -n attacked-secrets stator.dev/credential=true",
    ]);
    controller.hears(&["attacked-secrets/elsewhere", "is for git.example.com, and would be sent to"]);
    assert_eq!((logins.lock().unwrap().as_slice(), stage.graphs(namespace).len()), (&[] as &[String], 0));
    assert!(!controller.said().contains("canary"));
    assert_eq!(controller.end().code(), Some(0));
}

/// S15: the status says which commit was applied, and proves nothing: what whoever may write it names is not applied without a
/// signature of its own.
#[test]
fn a_status_makes_no_commit_trusted() {
    let Some(plane) = testbed::shared() else { return };
    let stage = Stage::on(plane);
    let namespace = "attacked-status";
    stage.namespace(namespace);
    let trusted = PrivateKey::from(Ed25519Keypair::from_seed(&[1; 32]));
    let public = trusted.public_key().to_openssh().unwrap();
    let (bench, git) = hosted(1);
    make_secret(
        &stage,
        namespace,
        json!({
            "metadata": {"name": "keys", "labels": {"stator.dev/credential": "true"}},
            "stringData": {"ada.sshpub": format!("{public} ada@example.com")},
        }),
    );
    let verified = json!({"targetNamespace": namespace, "verify": {"mode": "HEAD", "secretRef": {"name": "keys"}}});
    stage.declare(namespace, "models", spec(&git, &verified));
    let good = bench.sign(&trusted);
    let sources = stage.objects(namespace, "ModelSource");
    let applied = || {
        let source = stage.runtime.block_on(sources.get("models")).unwrap();
        source.data.pointer("/status/revision/applied").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let _operator = Operator::plays(&stage, namespace);
    let mut first = controller(&stage, &bench, namespace, &[]);
    until("the graph is there", || stage.graphs(namespace) == ["mock-0"]);
    until("it is synced well", || applied() == good);
    let evil = scale(&bench, 0, 7);
    first.hears(&[&format!("signature refused: commit {} is not signed", &evil[..12])]);
    let newest = scale(&bench, 0, 6);
    let refused = format!("signature refused: commit {} is not signed", &newest[..12]);
    first.hears(&[&refused]);
    assert_eq!(first.end().code(), Some(0));
    let status = |commit: &str| {
        let patch = Patch::Merge(json!({"status": {"revision": {"applied": commit}}}));
        stage.runtime.block_on(sources.patch_status("models", &PatchParams::default(), &patch)).unwrap();
    };
    let replicas = || stage.replicas(namespace, "mock-0");
    let drift = |from: u32, to: u32| {
        let graphs = stage.objects(namespace, "DynamoGraphDeployment");
        let now = stage.runtime.block_on(graphs.get("mock-0")).unwrap();
        let mut spec = now.data["spec"].clone();
        let text = spec.to_string().replace(&format!("\"replicas\":{from}"), &format!("\"replicas\":{to}"));
        spec = serde_json::from_str(&text).unwrap();
        let params = PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..PatchParams::default() };
        stage.runtime.block_on(graphs.patch("mock-0", &params, &Patch::Merge(json!({"spec": spec})))).unwrap();
    };
    status(&evil);
    assert_eq!(applied(), evil);
    let mut second = controller(&stage, &bench, namespace, &[]);
    second.hears(&[&refused]);
    drift(2, 9);
    second.hears(&["the last-known-good revision cannot be kept", "is not signed"]);
    assert!(replicas().contains("\"replicas\":9"), "{}", replicas());
    assert_eq!(second.end().code(), Some(0));
}

/// S16: metrics are given to whom the API server lets `get` their path, and to nobody else.
#[test]
fn metrics_are_given_to_whom_the_api_server_lets_in() {
    let Some(plane) = testbed::shared() else { return };
    let stage = Stage::on(plane);
    let namespace = "attacked-metrics";
    stage.namespace(namespace);
    let (bench, _git) = hosted(1);
    let token = |name: &str| {
        let file = stage.runtime.block_on(plane.account(namespace, name, Vec::<PolicyRule>::new()));
        let text = fs_err::read_to_string(file).unwrap();
        let config: Value = serde_saphyr::from_str(&text).unwrap();
        config["users"][0]["user"]["token"].as_str().unwrap().to_owned()
    };
    let (scraper, tenant) = (token("scraper"), token("tenant"));
    let metadata = ObjectMeta { name: Some("attacked-metrics-reader".to_owned()), ..ObjectMeta::default() };
    let rule = PolicyRule {
        non_resource_urls: Some(vec!["/metrics".to_owned()]),
        verbs: vec!["get".to_owned()],
        ..PolicyRule::default()
    };
    let role = ClusterRole { metadata: metadata.clone(), rules: Some(vec![rule]), aggregation_rule: None };
    let binding = ClusterRoleBinding {
        metadata: metadata.clone(),
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".to_owned(),
            kind: "ClusterRole".to_owned(),
            name: "attacked-metrics-reader".to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: "scraper".to_owned(),
            namespace: Some(namespace.to_owned()),
            ..Subject::default()
        }]),
    };
    let post = PostParams::default();
    stage.runtime.block_on(Api::all(stage.client.clone()).create(&post, &role)).unwrap();
    stage.runtime.block_on(Api::all(stage.client.clone()).create(&post, &binding)).unwrap();
    let ports = ["--probes-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--authorize-metrics"];
    let mut controller = controller(&stage, &bench, namespace, &ports);
    let address = |before: &str| {
        until(before, || controller.said().contains(before));
        let said = controller.said();
        said.split(before).nth(1).and_then(|rest| rest.split('/').next()).unwrap().to_owned()
    };
    let (metrics, probes) = (address("Metrics are at http://"), address("Probes are at http://"));
    let get = |address: &str, path: &str, token: Option<&str>| {
        let login = token.map(|token| format!("\r\nAuthorization: Bearer {token}")).unwrap_or_default();
        super::process::ask(address, &format!("GET {path} HTTP/1.1{login}"), b"")
    };
    assert_eq!(get(&metrics, "/metrics", None), (401, r#"{"error":"send a bearer token"}"#.to_owned()));
    assert_eq!(get(&metrics, "/metrics", Some("made-up")).0, 403);
    assert_eq!(get(&metrics, "/metrics", Some(&tenant)).0, 403);
    until("the role is known", || get(&metrics, "/metrics", Some(&scraper)).0 == 200);
    assert!(get(&metrics, "/metrics", Some(&scraper)).1.contains("stator_sources{"));
    // S16: neither what reaches webhooks nor what asks no token hears of sources.
    for (address, path, wanted) in [(&probes, "/metrics", 404), (&probes, "/livez", 200), (&metrics, "/livez", 200)] {
        assert_eq!(get(address, path, None).0, wanted, "{path}");
    }
    for address in [&probes, &metrics] {
        let (_, said) = get(address, "/readyz?verbose", None);
        assert!(said.starts_with("{\"ready\":") && !said.contains("source"), "{said}");
    }
    for path in ["/metrics", "/livez", "/readyz?verbose"] {
        assert_eq!(controller.gets(path).0, 404, "{path} where webhooks come in");
    }
    assert_eq!(controller.end().code(), Some(0));
}
