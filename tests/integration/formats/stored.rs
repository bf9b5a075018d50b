//! What an API server keeps of a version: records and their objects, sources, leases.

use super::{BEFORE, FORGE, HOST, Place, VersionFixtures, ageless, with};
use crate::controller::process::Process;
use crate::forge_fake::{CANARY, FakeForgeHost, ForgeFlavor, PostedStatusRow};
use crate::testbed::{self, ControlPlane, until};
use insta::assert_snapshot;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use stator_git::source::model_source::status::ModelSourceStatus;
use std::cell::Cell;
use std::collections::BTreeSet;

/// Where the sources are.
pub(super) const NAMESPACES: [&str; 2] = ["formats", "formats-held"];

/// The kinds that are kept: in the order in which they are put back.
pub(super) const KINDS: [(&str, &str, &str); 7] = [
    ("PersistentVolumeClaim", "v1", "persistentvolumeclaims"),
    ("DynamoGraphDeployment", "nvidia.com/v1beta1", "dynamographdeployments"),
    ("DynamoGraphDeploymentRequest", "nvidia.com/v1beta1", "dynamographdeploymentrequests"),
    ("DynamoModel", "nvidia.com/v1alpha1", "dynamomodels"),
    // Before the records, which name the uids of sources.
    ("ModelSource", "stator.dev/v1alpha1", "modelsources"),
    ("Model", "stator.dev/v1alpha1", "models"),
    ("Lease", "coordination.k8s.io/v1", "leases"),
];

/// The secrets that the sources name.
pub(super) const SECRETS: [(&str, &str); 2] = [("forge", CANARY), ("hook", CANARY)];

/// A client that may do everything, and that is waited for.
pub(super) struct Api<'a> {
    plane: &'a ControlPlane,
    pub(super) runtime: tokio::runtime::Runtime,
    client: kube::Client,
}

impl<'a> Api<'a> {
    pub(super) fn on(plane: &'a ControlPlane) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(plane.admin());
        Self { plane, runtime, client }
    }

    pub(super) fn namespace(&self, name: &str) {
        self.runtime.block_on(self.plane.namespace(name));
    }

    fn objects(&self, namespace: &str, kind: &str) -> kube::Api<DynamicObject> {
        let secret = ("Secret", "v1", "secrets");
        let (_, version, plural) = *KINDS.iter().chain([&secret]).find(|(known, ..)| *known == kind).unwrap();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        kube::Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    /// Makes an object, and gives what became of it.
    pub(super) fn make(&self, namespace: &str, kind: &str, mut object: Value) -> Value {
        let objects = self.objects(namespace, kind);
        let secret = ("Secret", "v1", "secrets");
        let version = KINDS.iter().chain([&secret]).find(|(known, ..)| *known == kind).unwrap().1;
        (object["apiVersion"], object["kind"]) = (json!(version), json!(kind));
        let object = serde_json::from_value(object).unwrap();
        let made = self.runtime.block_on(objects.create(&PostParams::default(), &object)).unwrap();
        serde_json::to_value(made).unwrap()
    }

    /// One object; null where there is none.
    pub(super) fn get(&self, namespace: &str, kind: &str, name: &str) -> Value {
        let found = self.runtime.block_on(self.objects(namespace, kind).get_opt(name)).unwrap();
        serde_json::to_value(found).unwrap()
    }

    /// All of a kind, each with its kind.
    pub(super) fn list(&self, namespace: &str, kind: &str) -> Vec<Value> {
        let all = self.runtime.block_on(self.objects(namespace, kind).list(&ListParams::default())).unwrap();
        let version = KINDS.iter().find(|(known, ..)| *known == kind).unwrap().1;
        let whole = |object: DynamicObject| {
            let mut object = serde_json::to_value(object).unwrap();
            (object["apiVersion"], object["kind"]) = (json!(version), json!(kind));
            object
        };
        all.items.into_iter().map(whole).collect()
    }

    pub(super) fn annotate(&self, namespace: &str, source: &str, name: &str, value: &str) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {name: value}}}));
        let sources = self.objects(namespace, "ModelSource");
        self.runtime.block_on(sources.patch(source, &PatchParams::default(), &patch)).unwrap();
    }

    /// Says of an object what its operator would, once it is there.
    pub(super) fn set_status(&self, namespace: &str, kind: &str, name: &str, status: &Value) {
        let objects = self.objects(namespace, kind);
        let manager = PatchParams { field_manager: Some("manager".to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(json!({"status": status}));
        self.runtime.block_on(async {
            if objects.get_opt(name).await.unwrap().is_some_and(|found| found.data["status"] != *status) {
                objects.patch_status(name, &manager, &patch).await.unwrap();
            }
        });
    }
}

/// What the fixtures hold of a kind, with the addresses of now.
pub(super) fn stored(version: &VersionFixtures, kind: &str, words: &[(&str, &str)]) -> Vec<Value> {
    let bytes = fs_err::read(version.kept(&format!("objects/{}.json", kind.to_lowercase()))).unwrap();
    serde_json::from_slice(&with(bytes, words)).unwrap()
}

pub(super) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap()
}

/// An object without what the API server alone decides.
fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        metadata.remove(field);
    }
    object
}

impl Api<'_> {
    /// Makes an object as it was: with its status, and with the same owners of its fields.
    fn restore(&self, object: &Value) -> Value {
        let (namespace, kind) = (text(object, "/metadata/namespace"), text(object, "/kind"));
        let (name, objects) = (text(object, "/metadata/name"), self.objects(namespace, kind));
        let post = PostParams { field_manager: Some("restored".to_owned()), ..PostParams::default() };
        let typed = |value: Value| serde_json::from_value::<DynamicObject>(value).unwrap();
        let owners = Patch::Merge(json!({"metadata": {"managedFields": object["metadata"]["managedFields"]}}));
        self.runtime.block_on(async {
            let mut made = objects.create(&post, &typed(bare(object))).await.unwrap();
            if let Some(status) = object.get("status") {
                made.data["status"] = status.clone();
                objects.replace_status(name, &post, &made).await.unwrap();
            }
            objects.patch(name, &PatchParams::default(), &owners).await.unwrap();
        });
        let made = self.get(namespace, kind, name);
        assert_eq!(bare(&made), bare(object), "{kind} {name} is restored");
        made
    }

    /// Makes everything that is kept. Uids are given by the API server: what is recorded of them is turned into those of
    /// now.
    pub(super) fn restore_all(&self, version: &VersionFixtures, words: &[(&str, &str)]) {
        let mut uids: Vec<(String, String)> = Vec::new();
        for (kind, ..) in KINDS {
            let now: Vec<(&str, &str)> = uids.iter().map(|(old, new)| (old.as_str(), new.as_str())).collect();
            for object in stored(version, kind, &[words, &now].concat()) {
                let made = self.restore(&object);
                uids.push((text(&object, "/metadata/uid").to_owned(), text(&made, "/metadata/uid").to_owned()));
            }
        }
    }

    /// What is there of a kind: names and resource versions.
    pub(super) fn versions(&self, kind: &str) -> Vec<(String, String)> {
        let all = NAMESPACES.map(|namespace| self.list(namespace, kind)).concat();
        let path = |object: &Value| {
            let name = format!("{}/{}", text(object, "/metadata/namespace"), text(object, "/metadata/name"));
            (name, text(object, "/metadata/resourceVersion").to_owned())
        };
        all.iter().map(path).collect()
    }
}

/// A status that an earlier version wrote says the same in this one's words: nothing of it is lost, nothing comes to it.
#[test]
fn statuses_of_sources_are_read_without_loss() {
    let (mut fields, mut revisions) = (BTreeSet::new(), Vec::new());
    for source in stored(&BEFORE, "ModelSource", &[]) {
        let status = serde_json::from_value::<ModelSourceStatus>(source["status"].clone()).unwrap();
        assert_eq!(serde_json::to_value(status).unwrap(), source["status"], "{}", source["metadata"]["name"]);
        revisions.push(format!("{}: {}", text(&source, "/metadata/name"), source["status"]["revision"]));
        fields.extend(source["status"].as_object().unwrap().keys().cloned());
    }
    assert_snapshot!(revisions.join("\n"), @r#"
    broken: {"attempted":"6ef0783a1b00bbd95a31fa59d399a9075cb48fab","attemptedAt":"2026-11-22T11:20:10Z","seen":"6ef0783a1b00bbd95a31fa59d399a9075cb48fab","seenAt":"2026-11-22T11:20:10Z"}
    models: {"applied":"6ef0783a1b00bbd95a31fa59d399a9075cb48fab","appliedAt":"2026-11-22T11:20:12Z","attempted":"6ef0783a1b00bbd95a31fa59d399a9075cb48fab","attemptedAt":"2026-11-22T11:20:10Z","seen":"6ef0783a1b00bbd95a31fa59d399a9075cb48fab","seenAt":"2026-11-22T11:20:10Z"}
    tight: {"attempted":"6ef0783a1b00bbd95a31fa59d399a9075cb48fab","attemptedAt":"2026-11-22T11:20:10Z","seen":"6ef0783a1b00bbd95a31fa59d399a9075cb48fab","seenAt":"2026-11-22T11:20:10Z"}
    waiting: {"seen":"6ef0783a1b00bbd95a31fa59d399a9075cb48fab","seenAt":"2026-11-22T11:20:10Z"}
    "#);
    // Whatever a status can hold is held by one of them.
    assert_snapshot!(fields.into_iter().collect::<Vec<_>>().join(" "), @"commit conditions environment held lastHandledRequest models nextWindow observedGeneration phase plan revision statuses");
}

/// Records, sources, leases and graphs of an earlier version, in an API server as they were: the command line reads them, and
/// marks them as those of its repository, in labels alone. A controller takes over the shard when its lease has run out, and
/// goes on where the other one was: it writes no object, tells the git host nothing again, and says of the sources what was
/// said of them.
#[test]
fn a_cluster_goes_on_as_it_was() {
    let Some(plane) = testbed::shared() else { return };
    let api = Api::on(plane);
    NAMESPACES.iter().for_each(|name| api.namespace(name));
    let place = Place::of(&BEFORE);
    let forge = api.runtime.block_on(FakeForgeHost::start(ForgeFlavor::Gitea));
    let (host, root) = (place.host(), forge.root());
    for (name, value) in SECRETS {
        api.make(
            "formats",
            "Secret",
            json!({
                "metadata": {"name": name, "labels": {"stator.dev/credential": "true"}}, "stringData": {"token": value},
            }),
        );
    }
    api.restore_all(&BEFORE, &[(HOST, &host), (FORGE, &root)]);

    let run = |args: &[&str]| {
        let mut command = place.bench.command();
        command.args(args).args(["--context", "admin", "--kubeconfig"]).arg(plane.kubeconfig());
        place.bench.finish(&mut command).success()
    };
    let said = |args: &[&str]| ageless(&run(args).stdout);
    let kinds = KINDS.map(|(kind, ..)| kind).into_iter().filter(|kind| !["ModelSource", "Lease"].contains(kind));
    let objects = || -> Vec<(String, String)> { kinds.clone().flat_map(|kind| api.versions(kind)).collect() };
    let applied = kinds.clone().filter(|kind| *kind != "Model");
    // Those of the other namespace are the controller's to mark.
    let applied = || -> Vec<(String, String)> {
        let all = applied.clone().flat_map(|kind| api.versions(kind));
        all.filter(|(name, _)| name.starts_with("formats/")).collect()
    };
    let before = (objects(), api.versions("ModelSource"));
    let prod = ["-e", "prod", "-n", "formats"];
    assert_snapshot!(said(&[&["status", "-o", "wide"], &prod[..]].concat()), @"
    NAME  SYNC  HEALTH  GPUS  REVISION  AGE  NAMESPACE  KIND  SOURCE  LAST SYNC  MESSAGE
    assistant  OutOfSync  Healthy  4 h100_sxm  6ef0783  [AGE]  formats  DynamoGraphDeployment  models/assistant/model.yaml  Succeeded [AGE] ago  3 of 3 objects differ from git
    chat  OutOfSync  Healthy  3 h200_sxm  6ef0783  [AGE]  formats  DynamoGraphDeployment  models/chat/model.yaml  Succeeded [AGE] ago  2 of 2 objects differ from git
    search  OutOfSync  Healthy  1 h200_sxm  6ef0783  [AGE]  formats  DynamoGraphDeployment  models/search/model.yaml  Succeeded [AGE] ago  1 of 1 objects differ from git
    trial  OutOfSync  Healthy  0  6ef0783  [AGE]  formats  DynamoGraphDeploymentRequest  models/trial/model.yaml  Succeeded [AGE] ago  1 of 1 objects differ from git
    ");
    assert_snapshot!(said(&[&["history", "chat"], &prod[..]].concat()), @"
    2026-11-22T11:20:11Z  Succeeded  6ef0783
      create PersistentVolumeClaim formats/weights (none)
      create DynamoGraphDeployment formats/chat (none)
    ");
    // Its uid, and when it was made, are those of now.
    assert_snapshot!(ageless(&run(&[&["describe", "search"], &prod[..]].concat()).result()), @"
    Name:  search
    Namespace: formats
    Source:  models/search/model.yaml
    Revision:  6ef0783
    Sync:  OutOfSync
    Health:  Healthy
    GPUs:  1 h200_sxm
    Created:  [AGE] ago ([TIME])
    Last sync: Succeeded [AGE] ago
    Message:  1 of 1 objects differ from git

    OBJECT  ACTION  HEALTH  MESSAGE
    DynamoGraphDeployment formats/search  update  Healthy  all components are ready

    CONDITION  STATUS  REASON  SINCE  MESSAGE
    Ready  True  Healthy  [TIME]  all components are ready
    Reconciling  False  Healthy  [TIME]  -
    Stalled  False  Healthy  [TIME]  -

    APPLIED OBJECT  GENERATION  ON REMOVAL  UID
    DynamoGraphDeployment formats/search  1  deleted  [UID]

    History:
    [TIME]  Succeeded  6ef0783
      create DynamoGraphDeployment formats/search (none)
    ");
    let sources = NAMESPACES.map(|namespace| said(&["get", "sources", "-n", namespace])).concat();
    assert_snapshot!(sources, @"
    NAME  REF  REVISION  MODELS  READY  AGE  MESSAGE
    broken  main  -  -  False  [AGE]  6ef0783: not synced: commit 6ef0783a1b00bbd95a31fa59d399a9075cb48fab has no folder `nowhere`; compare `spec.path` with the repository; until then nothing is synced and nothing is pruned
    models  main  6ef0783  4/4  True  [AGE]  6ef0783: 4 models healthy, nothing to change
    NAME  REF  REVISION  MODELS  READY  AGE  MESSAGE
    tight  main  -  0/1  False  [AGE]  6ef0783: held back (max-gpus): up to 2 GPUs would be needed at once; the environment's limit is 1; check that this is intended, then run `stator sync --source tight -n formats-held --allow max-gpus`, or annotate the source with stator.dev/allow=max-gpus@6ef0783a1b00bbd95a31fa59d399a9075cb48fab
    waiting  main  -  -  False  [AGE]  no sync window is open; the next one opens at 2028-02-29T00:00:00Z
    ");
    assert_eq!((objects(), api.versions("ModelSource")), before, "nothing was written");
    let synced = run(&[&["sync", "--yes"], &prod[..]].concat());
    assert_eq!(
        synced.stderr.matches("taking over models assistant, chat, search, trial: an earlier stator synced").count(),
        1,
        "{synced}"
    );
    assert_snapshot!(without_others(&run(&[&["plan", "--exit-code"], &prod[..]].concat()).result()), @"
    fleet / prod at 6ef0783 against live

    No changes: 7 objects of 4 models are in the desired state.
    ");
    assert_snapshot!(run(&[&["sync", "--yes", "--wait"], &prod[..]].concat()).result(), @"4 of 4 models synced, 0 writes.");
    let before = applied();

    let controller = next_controller(&api, &place, &forge);
    // Whoever held the shard is gone, and its lease runs out.
    controller.hears(&["this replica now owns the shard"]);
    let lease = api.get("formats", "Lease", "stator-shard-0");
    assert!(text(&lease, "/spec/holderIdentity").starts_with("two-"), "{lease}");
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
    for source in ["formats/models", "formats/broken", "formats-held/tight", "formats-held/waiting"] {
        controller.hears(&["started", source]);
    }
    let looks = Cell::new(0);
    until("the sources are looked at several times", || looks.replace(looks.get() + place.git.asked().len()) > 20);
    assert_eq!(applied(), before, "no object was written");
    // What it says of them is what was said: since when, what was asked for, what is held back.
    // Not the next window, which is another one when the years have passed.
    let fields =
        ["commit", "environment", "held", "lastHandledRequest", "models", "observedGeneration", "revision", "statuses"];
    for source in stored(&BEFORE, "ModelSource", &[(HOST, &host), (FORGE, &root)]) {
        let name = text(&source, "/metadata/name");
        let status = |source: &Value| {
            let mut status = source["status"].clone();
            // An earlier stator did not write what an approval is for.
            if let Some(held) = status["held"].as_object_mut() {
                held.remove("plan");
            }
            // Nor what led to a commit.
            if let Some(revision) = status["revision"].as_object_mut() {
                revision.remove("appliedFrom");
            }
            fields.map(|field| status[field].clone())
        };
        let now = || api.get(text(&source, "/metadata/namespace"), "ModelSource", name);
        until(&format!("{name} is at rest"), || now()["status"]["phase"] == source["status"]["phase"]);
        assert_eq!(status(&now()), status(&source), "{name}");
    }
    assert!(forge.log().iter().all(|seen| seen.method == "GET"), "nothing is told again");
}

/// A controller that goes on with what was restored, beside a git host that shows what was said of the newest commit.
pub(super) fn next_controller(api: &Api<'_>, place: &Place, forge: &FakeForgeHost) -> Process {
    let newest = api.get("formats", "ModelSource", "models")["status"]["statuses"][0].clone();
    forge.state().commits.push(place.version.newest.to_owned());
    forge.state().statuses.push(PostedStatusRow {
        commit: place.version.newest.to_owned(),
        key: String::new(),
        context: text(&newest, "/context").to_owned(),
        state: text(&newest, "/state").to_owned(),
        description: text(&newest, "/description").to_owned(),
        url: String::new(),
        on: String::new(),
    });
    let mut command = place.bench.command();
    command.arg("controller").arg("--kubeconfig").arg(api.plane.kubeconfig()).arg("--data").arg(place.beside("data"));
    command.args(["--context", "admin", "--listen", "127.0.0.1:0", "--watch-namespace", "formats,formats-held"]);
    command.args(["--lease-namespace", "formats", "--identity", "two", "--webhooks=false"]);
    command.args(["--allow-insecure", "--allow-local-addresses"]);
    Process::start("controller", &mut command)
}

/// A plan without the paragraphs that warn of what another test's repository of that name left in its own namespace: all
/// tests share the API server.
fn without_others(plan: &str) -> String {
    let paragraphs = plan.split("\n\n").filter(|one| !one.starts_with("warning[plan/other-namespace]"));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}
