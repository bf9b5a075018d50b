//! One source: its repository, who pushes to it, and what must be true of it at the end.

use super::{Dice, operator};
use crate::gitea::{BOT, Gitea, GiteaStatus, Repository};
use crate::testbed::{ControlPlane, until};
use crate::workbench::Workbench;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What statuses are posted under.
pub const CONTEXT: &str = "stator/staging";
/// How long a question to the API server may take.
const ANSWER: Duration = Duration::from_secs(20);

/// Hands that may do everything in the cluster.
pub struct Hands {
    pub bench: Workbench,
    pub folder: tempfile::TempDir,
    pub kubeconfig: PathBuf,
    runtime: tokio::runtime::Runtime,
    client: kube::Client,
}

impl Hands {
    pub fn of(plane: &ControlPlane) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(plane.admin());
        let folder = tempfile::Builder::new().prefix("stator-chaos-").tempdir().unwrap();
        Self { bench: Workbench::empty(), folder, kubeconfig: plane.kubeconfig(), runtime, client }
    }

    /// A client that may do everything.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    pub fn namespace(&self, plane: &ControlPlane, name: &str) {
        self.runtime.block_on(plane.namespace(name));
    }

    /// An answer of the API server; `None` while it is away.
    fn ask<T>(&self, question: impl Future<Output = Result<T, kube::Error>>) -> Option<T> {
        self.runtime.block_on(async { tokio::time::timeout(ANSWER, question).await.ok()?.ok() })
    }

    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// The secrets of a tenant, and the account that its sources act as: it may do nothing outside the namespace.
    pub fn tenant(&self, gitea: &Gitea, namespace: &str) {
        let certificate = fs_err::read_to_string(gitea.certificate()).unwrap();
        let token = gitea.bot_token();
        self.secret(namespace, "git", &json!({"username": BOT, "password": token, "caFile": certificate}));
        self.secret(namespace, "forge", &json!({"token": token, "caFile": certificate}));
        let metadata = json!({"name": "deployer", "namespace": namespace});
        let verbs = json!(["get", "list", "watch", "create", "patch", "delete"]);
        let account: ServiceAccount = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        let role: Role = serde_json::from_value(json!({"metadata": metadata, "rules": [
            {"apiGroups": ["nvidia.com"], "resources": ["*"], "verbs": verbs},
            {"apiGroups": ["stator.dev"], "resources": ["models", "models/status", "syncjournals"], "verbs": verbs},
            {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": verbs},
            {"apiGroups": [""], "resources": ["configmaps", "persistentvolumeclaims", "pods"], "verbs": verbs},
        ]}))
        .unwrap();
        let binding: RoleBinding = serde_json::from_value(json!({
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"},
            "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": namespace}],
        }))
        .unwrap();
        let (post, client) = (PostParams::default(), &self.client);
        self.runtime.block_on(async {
            Api::<ServiceAccount>::namespaced(client.clone(), namespace).create(&post, &account).await.unwrap();
            Api::<Role>::namespaced(client.clone(), namespace).create(&post, &role).await.unwrap();
            Api::<RoleBinding>::namespaced(client.clone(), namespace).create(&post, &binding).await.unwrap();
        });
    }

    pub fn secret(&self, namespace: &str, name: &str, values: &Value) {
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"stator.dev/credential": "true"}}, "stringData": values,
        }))
        .unwrap();
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        self.runtime.block_on(secrets.create(&PostParams::default(), &secret)).unwrap();
    }

    fn graphs(&self, namespace: &str) -> Option<Vec<DynamicObject>> {
        let graphs = operator::graphs(&self.client, namespace);
        self.ask(async move { Ok(graphs.list(&ListParams::default()).await?.items) })
    }

    /// The uid of each graph that is never removed.
    pub fn uids(&self, namespace: &str) -> Vec<(String, String)> {
        let graphs = self.graphs(namespace).expect("an API server that answers").into_iter();
        let named = graphs.map(|graph| (graph.metadata.name.unwrap(), graph.metadata.uid.unwrap()));
        named.filter(|(name, _)| name.ends_with("-stays")).collect()
    }

    /// How often the spec of each graph was changed, the first time included.
    pub fn generations(&self, namespace: &str) -> BTreeMap<String, i64> {
        let graphs = self.graphs(namespace).expect("an API server that answers").into_iter();
        graphs.map(|graph| (graph.metadata.name.unwrap(), graph.metadata.generation.unwrap())).collect()
    }

    /// The resource version of every graph and record.
    pub fn versions(&self, namespaces: &[String]) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for namespace in namespaces {
            let records = Api::namespaced_with(self.client.clone(), namespace, &own("Model", "models"));
            let records = self.ask(async move { Ok(records.list(&ListParams::default()).await?.items) }).unwrap();
            let graphs = self.graphs(namespace).unwrap();
            let one =
                |object: DynamicObject| (object.metadata.name.unwrap(), object.metadata.resource_version.unwrap());
            all.extend(graphs.into_iter().chain(records).map(one));
        }
        all.sort();
        all
    }

    /// Nothing of one tenant is in the other's namespace.
    pub fn tenants_are_apart(&self, namespaces: &[&str]) {
        for namespace in namespaces {
            for graph in self.graphs(namespace).expect("an API server that answers") {
                let name = graph.metadata.name.unwrap();
                assert!(name.starts_with(namespace.trim_start_matches("chaos-")), "{name} is in {namespace}");
            }
        }
    }
}

pub fn own(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "stator.dev".into(),
        version: "v1alpha1".into(),
        api_version: "stator.dev/v1alpha1".into(),
        kind: kind.into(),
        plural: plural.into(),
    }
}

/// A commit of a source.
#[derive(Clone, Debug)]
pub struct PushedCommit {
    pub commit: String,
    /// Whether it has files that are no intents, or that reach for what is another tenant's.
    pub is_hostile: bool,
}

/// A source, and who pushes to it.
pub struct Site {
    /// `alice-3`.
    pub name: String,
    pub namespace: String,
    bench: Workbench,
    repository: Repository<'static>,
    /// Every commit that was made, the newest last; some are pushed together.
    pub pushed: Vec<PushedCommit>,
    /// So many of them, the first ones, were judged already: what a look costs does not grow with every schedule.
    pub judged: usize,
    workers: usize,
    is_pushed: bool,
    is_hostile: bool,
}

impl Site {
    /// Makes the repository with two models, and the source.
    pub fn found(hands: &Hands, gitea: &'static Gitea, namespace: &str, number: usize) -> Self {
        let tenant = namespace.trim_start_matches("chaos-");
        let name = format!("{tenant}-{number}");
        let repository = gitea.repository(&format!("chaos-{name}"));
        let bench = Workbench::empty();
        let is_hostile = tenant == "mallory" && number.is_multiple_of(3);
        let mut site = Self {
            name,
            namespace: namespace.to_owned(),
            bench,
            repository,
            pushed: Vec::new(),
            judged: 0,
            workers: 1,
            is_pushed: false,
            is_hostile,
        };
        site.write();
        site.commit("first", false);
        site.bench.switch("main");
        site.push_what_is_left();
        let spec = json!({
            "url": site.repository.url(), "ref": {"branch": "main"}, "interval": "2s", "environment": "staging",
            "serviceAccountName": "deployer", "secretRef": {"name": "git"},
            "forge": {"type": "gitea", "url": gitea.url(), "secretRef": {"name": "forge"}},
        });
        let source = json!({
            "apiVersion": "stator.dev/v1alpha1", "kind": "ModelSource",
            "metadata": {"name": site.name, "namespace": namespace}, "spec": spec,
        });
        let api: Api<DynamicObject> =
            Api::namespaced_with(hands.client.clone(), namespace, &own("ModelSource", "modelsources"));
        let params = PatchParams::apply("test").force();
        hands.runtime.block_on(api.patch(&site.name, &params, &Patch::Apply(source))).unwrap();
        site
    }

    /// Good files, with the tenant's own word in them: one model that stays, and one more where the number of workers is odd.
    fn write(&self) {
        let Self { name, namespace, workers, .. } = self;
        self.bench.write(
            "stator.yaml",
            format!(
                "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {{name: {name}}}\nspec:\n  environments:\n    staging: {{namespace: {namespace}}}\n"
            ),
        );
        let model = |name: &str, workers: usize| {
            format!(
                "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: {name}}}\nspec:\n  model: Qwen/Qwen3-0.6B\n  engine: mocker\n  runtime: 1.2.0\n  env: {{WORD: word-of-{namespace}}}\n  serving:\n    frontend: {{replicas: 1}}\n    worker: {{replicas: {workers}}}\n"
            )
        };
        self.bench.write("models/stays/model.yaml", model(&format!("{name}-stays"), *workers));
        if workers % 2 == 1 {
            self.bench.write("models/goes/model.yaml", model(&format!("{name}-goes"), 1));
        } else {
            let _ = fs_err::remove_dir_all(self.bench.path("models/goes"));
        }
    }

    fn commit(&mut self, message: &str, is_hostile: bool) {
        let commit = self.bench.commit(message);
        self.pushed.push(PushedCommit { commit, is_hostile });
        self.is_pushed = false;
    }

    /// Changes something and pushes it, or keeps it for later where the git host is away. A hostile tenant's changes are
    /// sometimes no intents, or reach for what is another one's.
    pub fn push(&mut self, dice: &mut Dice) {
        self.workers = self.workers % 9 + 1;
        self.write();
        let trick = if self.is_hostile { dice.roll(4) } else { 3 };
        if trick < 3 {
            match trick {
                0 => self.bench.write("models/stays/model.yaml", b"\xff\xfe: [\x00".as_slice()),
                1 => self.bench.replace("stator.yaml", &self.namespace, "chaos-alice"),
                _ => self.bench.write("stator.yaml", "kind: Repository\nspec: 7\n"),
            }
        }
        self.commit(&format!("{} workers", self.workers), trick < 3);
        self.try_push();
    }

    fn try_push(&mut self) {
        self.is_pushed = self.repository.try_push(&self.bench.root(), &["HEAD:refs/heads/main"]).is_ok();
    }

    /// Waits until the newest commit has a status, where the git host has the commit: whoever pushes no further sees that
    /// this one was seen, whatever breaks meanwhile.
    pub fn await_sight(&self) {
        let newest = &self.pushed.last().unwrap().commit;
        until(&format!("{newest} of {} is seen", self.name), || {
            !self.is_pushed || self.repository.status(newest, CONTEXT).is_some()
        });
    }

    /// Pushes good files until the git host has them.
    pub fn push_what_is_left(&mut self) {
        if self.is_hostile && self.pushed.len() > 1 {
            self.write();
            self.commit("be good", false);
        }
        until(&format!("{} is pushed", self.name), || {
            if !self.is_pushed {
                self.try_push();
            }
            self.is_pushed
        });
    }

    pub fn commits(&self) -> usize {
        self.pushed.len()
    }

    /// Whether the newest commit has its success, and the cluster is as it says; else what is there.
    pub fn is_done(&self, hands: &Hands) -> Result<(), Box<dyn FnOnce() -> String>> {
        let newest = &self.pushed.last().unwrap().commit;
        let status = self.repository.status(newest, CONTEXT);
        let is_told = status.as_ref().is_some_and(|status| status.state == "success");
        let graphs = if is_told { hands.graphs(&self.namespace) } else { None };
        let own: BTreeMap<String, String> = graphs
            .into_iter()
            .flatten()
            .map(|graph| (graph.metadata.name.unwrap(), graph.data["spec"]["components"].to_string()))
            .filter(|(name, _)| name.starts_with(&format!("{}-", self.name)))
            .collect();
        let stays = own.get(&format!("{}-stays", self.name));
        let other = own.contains_key(&format!("{}-goes", self.name));
        let is_held = stays.is_some_and(|components| components.contains(&format!("\"replicas\":{}", self.workers)))
            && other == (self.workers % 2 == 1);
        let (newest, workers) = (newest.clone(), self.workers);
        let seen = move || format!("{newest} has {status:?}, of {workers} workers: {own:#?}");
        if is_held { Ok(()) } else { Err(Box::new(seen)) }
    }

    /// Whether the cluster has what the newest commit says of the model that stays.
    pub fn is_applied(&self, hands: &Hands) -> bool {
        let graphs = hands.graphs(&self.namespace).unwrap_or_default();
        let stays = graphs.iter().find(|graph| graph.metadata.name.as_deref() == Some(&format!("{}-stays", self.name)));
        let replicas = format!("\"replicas\":{}", self.workers);
        stays.is_some_and(|graph| graph.data["spec"]["components"].to_string().contains(&replicas))
    }

    /// Adds something to its source.
    pub fn configure(&self, hands: &Hands, spec: &Value) {
        let api: Api<DynamicObject> =
            Api::namespaced_with(hands.client.clone(), &self.namespace, &own("ModelSource", "modelsources"));
        let patch = Patch::Merge(json!({"spec": spec}));
        hands.runtime.block_on(api.patch(&self.name, &PatchParams::default(), &patch)).unwrap();
    }

    /// Every status of a commit, the oldest first.
    pub fn statuses(&self, commit: &str) -> Vec<GiteaStatus> {
        self.repository.statuses(commit)
    }

    /// The models that the newest commit has.
    pub fn models(&self) -> Vec<String> {
        let suffixes: &[&str] = if self.workers % 2 == 1 { &["stays", "goes"] } else { &["stays"] };
        suffixes.iter().map(|suffix| format!("{}-{suffix}", self.name)).collect()
    }

    /// Every commit that a status was posted on comes to an end: a host that was away is told after a pause.
    pub fn await_verdicts(&self) {
        until(&format!("every commit of {} has a verdict", self.name), || {
            let newest =
                |pushed: &PushedCommit| Some((pushed.clone(), self.repository.status(&pushed.commit, CONTEXT)?));
            let told = self.pushed.iter().skip(self.judged).filter_map(newest);
            let open: Vec<_> = told.filter(|(_, status)| status.state == "pending").collect();
            if open.is_empty() { Ok(()) } else { Err(move || format!("{open:#?}")) }
        });
    }

    /// A plan of the last commit is empty.
    pub fn is_settled(&self, hands: &Hands) {
        let kubeconfig = hands.kubeconfig.display().to_string();
        let git = git2::Repository::open(self.bench.root()).unwrap();
        git.remote_set_url("origin", &self.repository.url()).unwrap();
        self.bench.run(["plan", "--exit-code", "--kubeconfig", &kubeconfig, "--context", "admin"]).success();
    }
}
