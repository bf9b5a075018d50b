//! Several controllers as they run: real processes, an API server, and a git host. An operator is played that finds
//! everything healthy at once.

use crate::git_server::{GitServer, OriginRepository};
use crate::testbed::{self, ControlPlane, eventually};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A namespace with its leases, sources and models, and a repository.
pub struct Scene {
    pub namespace: String,
    pub client: kube::Client,
    pub origin: OriginRepository,
    pub server: GitServer,
    folder: tempfile::TempDir,
    kubeconfig: std::path::PathBuf,
    operator: tokio::task::JoinHandle<()>,
}

/// Does what blocks, with a runtime of its own perhaps.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.operator.abort();
    }
}

/// One replica.
pub struct Replica {
    pub name: String,
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let said = self.said.lock().unwrap();
            testbed::say(&format!("----- {} said -----\n{}", self.name, testbed::tail(&said, 60)));
        }
    }
}

impl Replica {
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    pub fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
    }

    /// Kills it as nobody could keep it from.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has ended, and says whether it did well.
    pub async fn ended(&mut self) -> bool {
        eventually(&format!("{} ends", self.name), async || self.child.try_wait().unwrap()).await.success()
    }
}

/// The root of the repository, for one namespace.
fn root(namespace: &str) -> String {
    format!(
        "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {{name: {namespace}}}\nspec:\n  environments:\n    prod: {{namespace: {namespace}}}\n"
    )
}

fn model(name: &str, replicas: u32) -> String {
    crate::cli::MOCK
        .replace("name: mock", &format!("name: {name}"))
        .replace("replicas: 2", &format!("replicas: {replicas}"))
}

impl Scene {
    /// A namespace in the shared control plane. `None`: skip the test.
    pub async fn set(name: &str) -> Option<Self> {
        let plane = aside(testbed::shared)?;
        Some(Self::on(plane, name).await)
    }

    /// The same in a control plane that belongs to the test.
    pub async fn on(plane: &ControlPlane, name: &str) -> Self {
        let namespace = plane.namespace(name).await;
        let client = plane.admin().await;
        let folder = tempfile::Builder::new().prefix("stator-replicas-").tempdir().unwrap();
        let origin = OriginRepository::new(&folder.path().join("models.git"));
        let server = aside(|| GitServer::start(folder.path()));
        let operator = tokio::spawn(play(client.clone(), namespace.clone()));
        Self { namespace, client, origin, server, folder, kubeconfig: plane.kubeconfig(), operator }
    }

    /// Starts a replica, and waits until it listens.
    pub async fn start(&self, name: &str, shards: u32) -> Replica {
        self.start_program(Path::new(env!("CARGO_BIN_EXE_stator")), name, shards).await
    }

    /// The same of another program.
    pub async fn start_program(&self, program: &Path, name: &str, shards: u32) -> Replica {
        let data = self.folder.path().join(name);
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("TMPDIR", self.folder.path())
            .current_dir(self.folder.path())
            // Git hosts of tests are on this machine, and most without TLS.
            .args(["controller", "--allow-insecure", "--allow-local-addresses"])
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(["--context", "admin", "--watch-namespace", &self.namespace, "--listen", "127.0.0.1:0"])
            .args(["--lease-namespace", &self.namespace, "--identity", name, "--shards", &shards.to_string()])
            .arg("--data")
            .arg(data);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (pipe, kept) = (BufReader::new(child.stderr.take().unwrap()), Arc::clone(&said));
        std::thread::spawn(move || {
            for line in pipe.lines().map_while(Result::ok) {
                kept.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        let replica = Replica { name: name.to_owned(), child, said };
        eventually("a replica listens", async || replica.said().contains("Listening on")).await;
        replica
    }

    /// Writes a commit: so many models, each with so many workers.
    pub fn push(&self, models: usize, replicas: u32) -> String {
        let mut files = vec![("stator.yaml".to_owned(), root(&self.namespace))];
        for number in 0..models {
            let name = format!("mock-{number:02}");
            files.push((format!("models/{name}/model.yaml"), model(&name, replicas)));
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        self.origin.commit("main", &files)
    }

    /// Makes sources of repositories on this scene's git host.
    pub async fn source(&self, name: &str, more: Value) {
        let mut spec = json!({
            "url": self.server.url("models.git"), "allowInsecure": true, "ref": {"branch": "main"}, "interval": "1s",
            "environment": "prod",
        });
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        self.make(
            "stator.dev/v1alpha1",
            "ModelSource",
            "modelsources",
            json!({"metadata": {"name": name}, "spec": spec}),
        )
        .await;
    }

    /// Makes an object of any kind.
    pub async fn make(&self, api_version: &str, kind: &str, plural: &str, mut object: Value) {
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.api(api_version, kind, plural).create(&PostParams::default(), &object).await.unwrap();
    }

    pub fn api(&self, api_version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        api(&self.client, &self.namespace, api_version, kind, plural)
    }

    /// Who holds a shard; nothing where nobody does.
    pub async fn holder(&self, shard: u32) -> Option<String> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
        let lease = leases.get_opt(&format!("stator-shard-{shard}")).await.unwrap()?;
        lease.spec.unwrap_or_default().holder_identity
    }

    /// Which of the replicas holds a shard, once one does.
    pub async fn leader(&self, replicas: &[&Replica]) -> usize {
        eventually("one of them leads", async || {
            let holder = self.holder(0).await?;
            replicas.iter().position(|replica| holder.starts_with(&format!("{}-", replica.name)))
        })
        .await
    }

    /// Name, generation and resource version of every graph, with how many workers it has.
    pub async fn graphs(&self) -> BTreeMap<String, (i64, String, i64)> {
        let all = graphs(&self.client, &self.namespace).list(&ListParams::default()).await.unwrap();
        let one = |graph: DynamicObject| {
            let version = graph.metadata.resource_version.clone().unwrap();
            let workers = workers(&graph.data);
            (graph.metadata.name.clone().unwrap(), (graph.metadata.generation.unwrap(), version, workers))
        };
        all.into_iter().map(one).collect()
    }

    /// Whether all graphs are there, and have so many workers.
    pub async fn are(&self, models: usize, replicas: i64) -> bool {
        let graphs = self.graphs().await;
        graphs.len() == models && graphs.values().all(|(_, _, workers)| *workers == replicas)
    }

    /// The graphs once nothing moves any more: neither they, nor the leases' holders.
    pub async fn quiet(&self) -> BTreeMap<String, (i64, String, i64)> {
        let mut last = self.graphs().await;
        eventually("the graphs stand still", async || {
            tokio::time::sleep(Duration::from_secs(3)).await;
            let now = self.graphs().await;
            (now == std::mem::replace(&mut last, now.clone())).then_some(now)
        })
        .await
    }
}

fn workers(graph: &Value) -> i64 {
    let components = graph.pointer("/spec/components").and_then(Value::as_array).into_iter().flatten();
    let replicas = |one: &Value| one["replicas"].as_i64().unwrap_or_default();
    components.filter(|one| one["type"] != "frontend").map(replicas).max().unwrap_or_default()
}

fn api(client: &kube::Client, namespace: &str, api_version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    Api::namespaced_with(client.clone(), namespace, &resource)
}

fn graphs(client: &kube::Client, namespace: &str) -> Api<DynamicObject> {
    api(client, namespace, "nvidia.com/v1beta1", "DynamoGraphDeployment", "dynamographdeployments")
}

/// Finds every graph healthy, as an operator with endless nodes would.
async fn play(client: kube::Client, namespace: String) {
    let api = graphs(&client, &namespace);
    loop {
        let all = api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        for graph in all {
            let generation = graph.metadata.generation;
            if graph.data.pointer("/status/observedGeneration").and_then(Value::as_i64) == generation {
                continue;
            }
            let ready = json!({
                "type": "Ready", "status": "True", "reason": "AllPodsReady", "message": "ready",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation,
            });
            let status = json!({
                "status": {"observedGeneration": generation, "state": "successful", "conditions": [ready]},
            });
            let name = graph.metadata.name.unwrap_or_default();
            // Whoever was faster made it moot.
            let _ = api.patch_status(&name, &PatchParams::apply("operator"), &Patch::Merge(status)).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
