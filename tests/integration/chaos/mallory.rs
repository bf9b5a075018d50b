//! The hostile tenant: whoever may write one repository, has an account in one namespace, and reaches every port.

use super::operator;
use super::site::{Hands, own};
use super::tenants::{ALICE, HOOK, MALLORY, WORD};
use crate::controller::process::ask;
use crate::gitea::{Gitea, Repository};
use crate::testbed::{ControlPlane, give_way};
use crate::workbench::Workbench;
use aws_lc_rs::hmac;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Event, ServiceAccount};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

#[path = "../../support/hostile_values.rs"]
mod hostile_values;

/// What her own webhooks are signed with.
const OWN_HOOK: &str = "hook-of-chaos-mallory";
/// Her own source.
const SOURCE: &str = "attacks";

/// What she has.
pub struct Mallory<'a> {
    hands: &'a Hands,
    /// As herself.
    client: kube::Client,
    repository: Repository<'static>,
    bench: Workbench,
    webhooks: String,
    pages: String,
    /// For the pages.
    token: String,
    /// Answers that had a word of Alice's in them.
    seen: Mutex<Vec<String>>,
    /// What a policy forbids, and was written.
    passed: Mutex<Vec<String>>,
}

/// What is tried again and again: its name, how, and the pause between in milliseconds. It is told how often it was tried.
type Attack<'a> = (&'static str, fn(&Mallory<'a>, usize), u64);

/// An attack that runs until it is ended, and how often it was tried.
type RunningAttack<'scope> = (&'static str, ScopedJoinHandle<'scope, usize>);

impl<'a> Mallory<'a> {
    /// Gives her an account that may do everything in her namespace, a repository and a source of it.
    pub fn enter(hands: &'a Hands, plane: &ControlPlane, gitea: &'static Gitea, webhooks: &str, pages: &str) -> Self {
        let everything = PolicyRule {
            verbs: vec!["*".to_owned()],
            api_groups: Some(vec!["*".to_owned()]),
            resources: Some(vec!["*".to_owned()]),
            ..PolicyRule::default()
        };
        let kubeconfig = hands.block_on(plane.account(MALLORY, "mallory", vec![everything]));
        let client = hands.block_on(crate::testbed::client(&kubeconfig, "mallory")).unwrap();
        let accounts: Api<ServiceAccount> = Api::namespaced(hands.client(), MALLORY);
        let spec = TokenRequestSpec {
            audiences: vec!["stator".to_owned()],
            expiration_seconds: Some(3600),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let answer = hands.block_on(accounts.create_token_request("mallory", &PostParams::default(), &request));
        hands.secret(MALLORY, "hook", &json!({"token": OWN_HOOK}));
        let repository = gitea.repository("chaos-attacks");
        let bench = Workbench::empty();
        bench.write("stator.yaml", root(MALLORY));
        bench.commit("first");
        bench.switch("main");
        repository.push(&bench.root(), "main");
        let mallory = Self {
            hands,
            client,
            repository,
            bench,
            webhooks: webhooks.to_owned(),
            pages: pages.to_owned(),
            token: answer.unwrap().status.unwrap().token,
            seen: Mutex::default(),
            passed: Mutex::default(),
        };
        mallory.declare(SOURCE, &mallory.source());
        mallory
    }

    /// Begins all attacks.
    pub fn attack<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        ended: &'scope AtomicBool,
    ) -> Vec<RunningAttack<'scope>> {
        let attacks: [Attack<'a>; 7] = [
            ("hostile commits", Self::push_something, 100),
            ("webhooks", Self::send_webhook, 5),
            ("connections that stall", Self::stall, 100),
            ("requests of pages", Self::ask_pages, 20),
            ("drift and lies in the cluster", Self::meddle, 100),
            ("sources and approvals", Self::configure, 200),
            ("looks at what she got", Self::look, 500),
        ];
        let start = |(name, attack, pause): Attack<'a>| {
            let running = scope.spawn(move || {
                // What she works with is no machine of the controller's.
                give_way().unwrap();
                let mut times = 0;
                while !ended.load(Ordering::Relaxed) {
                    attack(self, times);
                    times += 1;
                    std::thread::sleep(Duration::from_millis(pause));
                }
                times
            });
            (name, running)
        };
        attacks.map(start).into_iter().collect()
    }

    /// What she saw of Alice's.
    pub fn sees(&self) -> Vec<String> {
        self.look(0);
        self.seen.lock().unwrap().clone()
    }

    /// What was written for her although a policy forbids it.
    pub fn has(&self) -> Vec<String> {
        self.passed.lock().unwrap().clone()
    }

    fn reads(&self, what: &str, text: &str) {
        if text.contains(WORD) || text.contains(HOOK) {
            self.seen.lock().unwrap().push(format!("{what}: {}", text.chars().take(2000).collect::<String>()));
        }
    }

    fn source(&self) -> Value {
        json!({
            "url": self.repository.url(), "ref": {"branch": "main"}, "interval": "1s", "environment": "staging",
            "serviceAccountName": "deployer", "secretRef": {"name": "git"}, "webhook": {"secretRef": {"name": "hook"}},
            "forge": {"type": "gitea", "secretRef": {"name": "forge"}},
        })
    }

    fn declare(&self, name: &str, spec: &Value) {
        let api = self.objects("ModelSource", "modelsources");
        let source = json!({
            "apiVersion": "stator.dev/v1alpha1", "kind": "ModelSource", "metadata": {"name": name}, "spec": spec,
        });
        // The API server may refuse it, which is an answer.
        let _ = self.hands.block_on(api.patch(name, &PatchParams::apply("mallory").force(), &Patch::Apply(&source)));
    }

    fn objects(&self, kind: &str, plural: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), MALLORY, &own(kind, plural))
    }

    /// A commit that is hostile in one way or another.
    fn push_something(&self, number: usize) {
        let file = "models/attack/model.yaml";
        let _ = fs_err::remove_dir_all(self.bench.path("models"));
        self.bench.write("stator.yaml", root(MALLORY));
        let values = hostile_values::hostile_values();
        let value = &values[number % values.len()];
        match number % 12 {
            0 => self.bench.write(file, b"\xff\xfe\x00: [".as_slice()),
            1 => self.bench.write(file, bomb()),
            2 => self.bench.write(file, "[".repeat(200_000)),
            3 => {
                for index in 0..3_000 {
                    self.bench.write(&format!("models/m{index}/model.yaml"), model(&format!("m{index}"), "", "1"));
                }
            }
            4 => self.bench.write("stator.yaml", root(ALICE)),
            5 => {
                let _ = std::os::unix::fs::symlink("/proc/self/environ", self.bench.path("stator-environ.yaml"));
                fs_err::create_dir_all(self.bench.path("models/attack")).unwrap();
                let _ = std::os::unix::fs::symlink("/proc/self/environ", self.bench.path(file));
            }
            6 => self.bench.write(file, vec![b'#'; 8 << 20]),
            7 => self.bench.write(file, model(&format!("{}-0-stays", ALICE.trim_start_matches("chaos-")), "", "1")),
            8 | 9 => {
                let pods = [
                    "securityContext: {privileged: true}",
                    "image: evil.example/miner:1",
                    "env: [{name: A, valueFrom: {secretKeyRef: {name: git, key: password}}}]",
                ];
                let pod = format!("{{containers: [{{name: main, {}}}]}}", pods[number / 12 % pods.len()]);
                let forbidden = ["hostNetwork: true", "hostPID: true", "serviceAccountName: deployer", "nodeName: a"];
                let other = format!("{{{}}}", forbidden[number / 12 % forbidden.len()]);
                let pod = if number % 12 == 8 { pod } else { other };
                let overrides = format!("overrides: {{worker: {{podTemplate: {{spec: {pod}}}}}}}");
                self.bench.write(file, model("attack", &overrides, "1"));
            }
            10 => self.bench.write(file, model("attack", "", value)),
            _ => {
                let more = format!("env: {{A: {value}}}");
                self.bench.write(file, model("attack", &more, "1"));
            }
        }
        self.bench.commit(&format!("{number} {WORD_OF_HER_OWN}"));
        let _ = self.repository.try_push(&self.bench.root(), &["--force", "HEAD:refs/heads/main"]);
        let tip = self.repository.tip("main");
        for status in self.repository.statuses(&tip) {
            self.reads("a status", &status.description);
        }
    }

    /// Deliveries to her source and to Alice's: unsigned, signed by another, too large, and her own that are genuine.
    fn send_webhook(&self, number: usize) {
        let body = format!(r#"{{"ref":"refs/heads/main","x":"{}"}}"#, "x".repeat(number % 7 * 4096));
        let (namespace, source) = [(MALLORY, SOURCE), (ALICE, "alice-0"), (ALICE, "nobody")][number % 3];
        let key = hmac::Key::new(hmac::HMAC_SHA256, OWN_HOOK.as_bytes());
        let signature = match number / 3 % 3 {
            0 => String::new(),
            1 => format!("\r\nX-Gitea-Signature: {}", hex::encode(hmac::sign(&key, body.as_bytes()))),
            _ => format!("\r\nX-Gitea-Signature: {}", "0".repeat(64)),
        };
        let head = format!(
            "POST /webhooks/gitea/{namespace}/{source} HTTP/1.1\r\nContent-Type: application/json\r\nX-Gitea-Event: push\r\nX-Gitea-Delivery: {number}{signature}"
        );
        let (code, answer) = ask(&self.webhooks, &head, body.as_bytes());
        assert!(code != 202 || namespace == MALLORY, "a delivery to {namespace}/{source} that she signed was taken");
        self.reads("a webhook's answer", &answer);
    }

    /// A connection that promises a body and sends none.
    fn stall(&self, number: usize) {
        let to = if number.is_multiple_of(2) { &self.webhooks } else { &self.pages };
        if let Ok(mut stream) = TcpStream::connect(to) {
            let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
            let _ = stream.write_all(b"POST /webhooks/gitea HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n{");
            let _ = stream.read(&mut [0; 64]);
        }
    }

    /// Pages and endpoints, with her own token, none, and made up ones.
    fn ask_pages(&self, number: usize) {
        let paths = [
            "/".to_owned(),
            "/api/v1/models".to_owned(),
            format!("/api/v1/models?namespace={ALICE}"),
            format!("/api/v1/models/{ALICE}/alice-0-stays"),
            format!("/api/v1/models/{ALICE}/alice-0-stays/manifest"),
            format!("/api/v1/models/{ALICE}/alice-0-stays/plan"),
            format!("/models/{ALICE}/alice-0-stays/logs"),
            format!("/models/{ALICE}/alice-0-stays/edit"),
            format!("/sources/{ALICE}/alice-0"),
            "/api/v1/sources".to_owned(),
            "/api/v1/changes".to_owned(),
            "/capacity".to_owned(),
            format!("/api/v1/models/{MALLORY}/mallory-0-stays/manifest"),
        ];
        let path = &paths[number % paths.len()];
        let token = match number / paths.len() % 3 {
            0 => format!("\r\nAuthorization: Bearer {}", self.token),
            1 => String::new(),
            _ => format!("\r\nAuthorization: Bearer made-up-{number}"),
        };
        let (_, answer) = ask(&self.pages, &format!("GET {path} HTTP/1.1{token}"), b"");
        self.reads(path, &answer);
        let (_, metrics) = ask(&self.webhooks, "GET /metrics HTTP/1.1", b"");
        self.reads("metrics", &metrics);
    }

    /// Her own graphs and records, edited, deleted and made up, and pods that no policy allows.
    fn meddle(&self, number: usize) {
        let graphs = operator::graphs(&self.client, MALLORY);
        let records = self.objects("Model", "models");
        let params = PatchParams::apply("mallory").force();
        let name = format!("mallory-{}-stays", number % 2);
        self.hands.block_on(async {
            match number % 5 {
                0 => {
                    let graph = json!({
                        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": {"name": name},
                        "spec": {"components": [{"name": "worker", "replicas": number % 90}]},
                    });
                    let _ = graphs.patch(&name, &params, &Patch::Apply(&graph)).await;
                }
                1 => drop(records.delete(&name, &DeleteParams::default()).await),
                2 => {
                    let lie = json!({"metadata": {"annotations": {
                        "stator.dev/owner": format!("{ALICE}/alice-0"), "stator.dev/origin": "https://evil.example/x",
                    }}});
                    let _ = records.patch(&name, &PatchParams::default(), &Patch::Merge(&lie)).await;
                }
                3 => {
                    let pod = json!({"containers": [{
                        "name": "main", "image": "nvcr.io/nvidia/x:1", "securityContext": {"privileged": true},
                    }]});
                    let graph: DynamicObject = serde_json::from_value(json!({
                        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
                        "metadata": {"name": format!("pod-{number}")},
                        "spec": {"components": [{"name": "worker", "type": "worker", "podTemplate": {"spec": pod}}]},
                    }))
                    .unwrap();
                    let _ = graphs.create(&PostParams::default(), &graph).await;
                }
                _ => drop(graphs.delete(&name, &DeleteParams::default()).await),
            }
        });
    }

    /// Sources that reach for what is not hers, more of them than she may have, and approvals of what is held back.
    fn configure(&self, number: usize) {
        let mut spec = self.source();
        match number % 6 {
            0 => spec["targetNamespace"] = json!(ALICE),
            1 => spec["serviceAccountName"] = json!("default"),
            2 => spec["url"] = json!("https://169.254.169.254/latest/meta-data"),
            3 => spec["url"] = json!(format!("https://{}/a.git", "a".repeat(3000))),
            4 => spec["secretRef"] = json!({"name": "forge"}),
            _ => {}
        }
        self.declare(&format!("more-{}", number % 20), &spec);
        let annotations = json!({"metadata": {"annotations": {
            "stator.dev/requestedAt": number.to_string(), "stator.dev/outside-windows": self.repository.tip("main"),
            "stator.dev/allow": format!("mass-delete,replace@{}:{}", self.repository.tip("main"), "0".repeat(64)),
            "stator.dev/allowed-by": "admin", "stator.dev/hints": "refs/heads/main",
        }}});
        let api = self.objects("ModelSource", "modelsources");
        let _ = self.hands.block_on(api.patch(SOURCE, &PatchParams::default(), &Patch::Merge(&annotations)));
        let map: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": format!("junk-{}", number % 50), "labels": {"app.kubernetes.io/managed-by": "stator"}},
            "data": {"a": "x".repeat(100_000)},
        }))
        .unwrap();
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), MALLORY);
        let _ = self.hands.block_on(maps.create(&PostParams::default(), &map));
    }

    /// All that her namespace has, and whether a policy allows it.
    fn look(&self, _: usize) {
        let list = ListParams::default();
        let events: Api<Event> = Api::namespaced(self.client.clone(), MALLORY);
        let graphs = operator::graphs(&self.client, MALLORY);
        self.hands.block_on(async {
            for (kind, plural) in
                [("ModelSource", "modelsources"), ("Model", "models"), ("SyncJournal", "syncjournals")]
            {
                if let Ok(found) = self.objects(kind, plural).list(&list).await {
                    self.reads(kind, &serde_json::to_string(&found.items).unwrap());
                }
            }
            if let Ok(found) = events.list(&list).await {
                self.reads("events", &serde_json::to_string(&found.items).unwrap());
            }
            for graph in graphs.list(&list).await.map(|found| found.items).unwrap_or_default() {
                let text = graph.data.to_string();
                self.reads("a graph", &text);
                let forbidden =
                    ["privileged\":true", "evil.example", "hostNetwork", "hostPID", "nodeName", "secretKeyRef"];
                if forbidden.iter().any(|word| text.contains(word)) || text.contains("serviceAccountName\":\"deployer")
                {
                    self.passed.lock().unwrap().push(text);
                }
            }
        });
    }
}

/// Stands in her commits.
const WORD_OF_HER_OWN: &str = "word-of-chaos-mallory";

fn root(namespace: &str) -> String {
    format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {{name: attacks}}\nspec:\n  environments:\n    staging: {{namespace: {namespace}}}\n"
    )
}

fn model(name: &str, more: &str, replicas: &str) -> String {
    format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: {name}}}\nspec:\n  model: Qwen/Qwen3-0.6B\n  engine: mocker\n  runtime: 1.2.0\n  serving:\n    frontend: {{replicas: 1}}\n    worker: {{replicas: {replicas}}}\n  {more}\n"
    )
}

/// Aliases that grow without end.
fn bomb() -> String {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let alias = format!("*a{}", level - 1);
        text += &format!("a{level}: &a{level} [{}]\n", vec![alias; 9].join(", "));
    }
    text
}
