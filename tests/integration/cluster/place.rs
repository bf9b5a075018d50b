//! One implementation of a cluster with room for one scenario: the embedded cluster in a folder, or namespaces of a real one.

use super::frontend::{self, ListedModels};
use super::scenario::{Folder, graph};
use crate::testbed::{self, ControlPlane, eventually};
use ::kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};
use stator::controller::cache::{CachedCluster, NamespaceCacheGuard};
use stator_cluster::cluster::embedded::operator::SimulatedOperator;
use stator_cluster::cluster::embedded::{EmbeddedCluster, ObjectPart};
use stator_cluster::cluster::kube::{ConnectOptions, KubeCluster};
use stator_cluster::cluster::{AnyCluster, ApplyRequest, Cluster};
use stator_core::dynamo::kinds;
use stator_core::object::{Object, ObjectRef};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Mutex;

/// A cluster to tell a scenario on. What the trait `Cluster` leaves out, since stator does not do it, others do here.
pub trait Place {
    type Cluster: Cluster;

    fn cluster(&self) -> &Self::Cluster;

    /// The namespace of the scenario.
    fn home(&self) -> &str;

    /// Another one, which exists.
    fn away(&self) -> String {
        format!("{}-dev", self.home())
    }

    /// Somebody reads an object, changes it and writes the whole of it back.
    async fn edit(&self, object: &ObjectRef, manager: &str, change: impl FnOnce(&mut Value) + Send + 'static);

    /// Somebody creates an object, by anything but server-side apply.
    async fn create(&self, object: Object, manager: &str);

    /// From now on, until what is returned is dropped, admission fills in what Dynamo's webhook fills in.
    async fn admitting(&self) -> Box<dyn std::any::Any + Send>;

    /// From now on the frontend of a graph lists these models. False where it cannot be made to: skip the rest.
    async fn serve(&self, graph: &ObjectRef, models: &[&str]) -> bool;

    /// A small graph in the namespace of the scenario.
    fn graph(&self, name: &str, replicas: i64) -> Object {
        self.object(graph(name, replicas).value().clone())
    }

    /// An object in the namespace of the scenario.
    fn object(&self, mut value: Value) -> Object {
        value["metadata"]["namespace"] = json!(self.home());
        Object::from_value(value).unwrap()
    }

    /// What was said, the same on every make: the namespace of the scenario is called `prod`.
    fn said(&self, text: impl Display) -> String {
        text.to_string().replace(self.home(), "prod")
    }
}

impl Place for Folder {
    type Cluster = EmbeddedCluster;

    fn cluster(&self) -> &EmbeddedCluster {
        &self.cluster
    }

    fn home(&self) -> &'static str {
        "prod"
    }

    async fn edit(&self, object: &ObjectRef, manager: &str, change: impl FnOnce(&mut Value) + Send + 'static) {
        self.cluster.update(object, ObjectPart::Main, manager, change).await.unwrap().unwrap();
    }

    async fn create(&self, object: Object, manager: &str) {
        self.cluster.create(object, manager).await.unwrap();
    }

    /// What is served follows from the status: all that is loaded, or nothing where the frontend is not there.
    async fn serve(&self, graph: &ObjectRef, models: &[&str]) -> bool {
        let ready = usize::from(!models.is_empty());
        let change = move |value: &mut Value| value["status"]["components"]["frontend"]["readyReplicas"] = json!(ready);
        self.cluster.update(graph, ObjectPart::Status, "manager", change).await.unwrap().unwrap();
        true
    }

    /// The webhook belongs to the operator.
    async fn admitting(&self) -> Box<dyn std::any::Any + Send> {
        Box::new(SimulatedOperator::start(self.cluster.clone(), 10_000.0))
    }
}

/// Two namespaces of the real API server.
pub struct Namespaces {
    pub plane: &'static ControlPlane,
    pub cluster: KubeCluster,
    home: String,
    frontends: Mutex<BTreeMap<String, ListedModels>>,
}

impl Namespaces {
    /// Namespaces of their own for a scenario of this name; `None` when there is no API server, which has been said.
    pub async fn of(scenario: &str) -> Option<Self> {
        Some(Self::on(testbed::shared()?, scenario).await)
    }

    /// The same on a control plane of a test's own.
    pub async fn on(plane: &'static ControlPlane, scenario: &str) -> Self {
        let mut name = scenario.replace('_', "-");
        // A namespace has at most 63 characters.
        name.truncate(59);
        let home = plane.namespace(name.trim_end_matches('-')).await;
        let place = Self { plane, cluster: admin(plane).await, home, frontends: Mutex::default() };
        plane.namespace(&place.away()).await;
        place
    }
}

/// The cluster as seen by who may do everything.
pub async fn admin(plane: &ControlPlane) -> KubeCluster {
    user(plane.kubeconfig(), "admin").await
}

/// The cluster as seen by the user of a context.
pub async fn user(kubeconfig: std::path::PathBuf, context: &str) -> KubeCluster {
    testbed::provider();
    let options =
        ConnectOptions { kubeconfig: Some(kubeconfig), context: Some(context.to_owned()), ..ConnectOptions::default() };
    KubeCluster::connect(options).await.unwrap().with_frontends_asked(true)
}

impl Place for Namespaces {
    type Cluster = KubeCluster;

    fn cluster(&self) -> &KubeCluster {
        &self.cluster
    }

    fn home(&self) -> &str {
        &self.home
    }

    async fn edit(&self, object: &ObjectRef, manager: &str, change: impl FnOnce(&mut Value) + Send + 'static) {
        let kind = kinds::by_name(&object.kind).unwrap();
        let named = GroupVersionKind::gvk(kind.group, kind.version, kind.kind);
        let resource = ApiResource::from_gvk_with_plural(&named, kind.plural);
        let objects: Api<DynamicObject> = Api::namespaced_with(self.plane.admin().await, &object.namespace, &resource);
        let mut value = serde_json::to_value(objects.get(&object.name).await.unwrap()).unwrap();
        change(&mut value);
        let post = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
        objects.replace(&object.name, &post, &serde_json::from_value(value).unwrap()).await.unwrap();
    }

    async fn create(&self, object: Object, manager: &str) {
        let kind = kinds::by_name(object.kind()).unwrap();
        let version = object.api_version().rsplit('/').next().unwrap();
        let named = GroupVersionKind::gvk(kind.group, version, kind.kind);
        let resource = ApiResource::from_gvk_with_plural(&named, kind.plural);
        let objects: Api<DynamicObject> = Api::namespaced_with(self.plane.admin().await, object.namespace(), &resource);
        let post = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
        objects.create(&post, &serde_json::from_value(object.into_value()).unwrap()).await.unwrap();
    }

    async fn serve(&self, graph: &ObjectRef, models: &[&str]) -> bool {
        let service = format!("{}-frontend", graph.name);
        let known = self.frontends.lock().unwrap().get(&service).cloned();
        let listed = match known {
            Some(listed) => listed,
            None => match frontend::start(self.plane.admin().await, &self.home, &service).await {
                Some(listed) => listed,
                None => return false,
            },
        };
        listed.set(models);
        self.frontends.lock().unwrap().insert(service, listed);
        true
    }

    /// A mutating admission policy of this namespace. It stays, as a webhook does.
    async fn admitting(&self) -> Box<dyn std::any::Any + Send> {
        let filled = r#"Object{
            metadata: Object.metadata{annotations: {"nvidia.com/dynamo-operator-origin-version": "1.2.0"}},
            spec: Object.spec{components: object.spec.components.filter(own, !has(own.replicas)).map(own,
                Object.spec.components{name: own.name, replicas: 1})}
        }"#;
        let mutation = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": filled}});
        self.mutate_graphs("defaults", &["CREATE"], mutation, |probe| !probe.annotations().is_empty()).await;
        Box::new(())
    }
}

impl Namespaces {
    /// From now on admission puts every graph's images on a mirror, at each write.
    pub async fn mirroring_images(&self) {
        let moved = r#"[0, 1].map(at, JSONPatch{
            op: "replace", path: "/spec/components/" + string(at) + "/podTemplate/spec/containers/0/image",
            value: object.spec.components[at].podTemplate.spec.containers[0].image.replace("nvcr.io/", "mirror.example/")
        })"#;
        let mutation = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": moved}});
        let is_moved = |probe: &Object| probe.spec().to_string().contains("mirror.example/");
        self.mutate_graphs("mirror", &["CREATE", "UPDATE"], mutation, is_moved).await;
    }

    /// From now on admission refuses to create graphs of three components.
    pub async fn refusing_graphs_of_three(&self) {
        let name = format!("small.{}.stator.dev", self.home);
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.home}},
                    "resourceRules": [{
                        "apiGroups": ["nvidia.com"], "apiVersions": ["v1beta1"], "operations": ["CREATE"],
                        "resources": ["dynamographdeployments"],
                    }],
                },
                "validations": [{
                    "expression": "object.spec.components.size() < 3", "message": "this team has no disaggregated graphs",
                }],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]},
        });
        self.create_policy([("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding)])
            .await;
        let mut probe = self.graph("probe", 1).into_value();
        let components = probe["spec"]["components"].as_array_mut().unwrap();
        let third = json!({"name": "third", "type": "worker", "podTemplate": components[1]["podTemplate"]});
        components.push(third);
        let probe = ApplyRequest { dry_run: true, ..ApplyRequest::new(Object::from_value(probe).unwrap(), "probe") };
        eventually("the policy is heeded", async || self.cluster.apply(&probe).await.is_err()).await;
    }

    async fn create_policy(&self, objects: [(&str, Value); 2]) {
        let client = self.plane.admin().await;
        for (kind, value) in objects {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind));
            let objects: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let object = serde_json::from_value(value).unwrap();
            objects.create(&PostParams::default(), &object).await.unwrap();
        }
    }

    /// Installs a mutating admission policy for the graphs of this namespace, and waits until it is heeded.
    async fn mutate_graphs(&self, what: &str, operations: &[&str], mutation: Value, heeded: impl Fn(&Object) -> bool) {
        let name = format!("{what}.{}.stator.dev", self.home);
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "reinvocationPolicy": "Never",
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.home}},
                    "resourceRules": [{
                        "apiGroups": ["nvidia.com"], "apiVersions": ["v1beta1"], "operations": operations,
                        "resources": ["dynamographdeployments"],
                    }],
                },
                "mutations": [mutation],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": {"policyName": name},
        });
        self.create_policy([("MutatingAdmissionPolicy", policy), ("MutatingAdmissionPolicyBinding", binding)]).await;
        // The API server takes a moment until it heeds a new policy: a dry run tells.
        let probe = ApplyRequest { dry_run: true, ..ApplyRequest::new(self.graph("probe", 1), "probe") };
        eventually("the policy is heeded", async || heeded(&self.cluster.apply(&probe).await.unwrap().object)).await;
    }
}

/// The real API server, with reads answered from memory.
pub struct Remembered {
    place: Namespaces,
    live: CachedCluster,
    _held: [NamespaceCacheGuard; 2],
}

impl Remembered {
    /// As for [`Namespaces::of`].
    pub async fn of(scenario: &str) -> Option<Self> {
        let place = Namespaces::of(&format!("live_{scenario}")).await?;
        let live = CachedCluster::new(AnyCluster::from(place.cluster.clone()));
        let held = [live.cache_namespace(place.home()), live.cache_namespace(&place.away())];
        Some(Self { place, live, _held: held })
    }

    /// Waits until the watch has told what somebody else did to an object.
    pub async fn heard(&self, object: &ObjectRef) {
        let version = |found: Option<Object>| found.and_then(|found| found.resource_version().map(str::to_owned));
        eventually(&format!("the watch tells of {object}"), async || {
            let there = version(self.place.cluster.get(object).await.unwrap());
            version(self.live.get(object).await.unwrap()) == there
        })
        .await;
    }
}

impl Place for Remembered {
    type Cluster = CachedCluster;

    fn cluster(&self) -> &CachedCluster {
        &self.live
    }

    fn home(&self) -> &str {
        self.place.home()
    }

    async fn edit(&self, object: &ObjectRef, manager: &str, change: impl FnOnce(&mut Value) + Send + 'static) {
        self.place.edit(object, manager, change).await;
        self.heard(object).await;
    }

    async fn create(&self, object: Object, manager: &str) {
        let made = object.reference();
        self.place.create(object, manager).await;
        self.heard(&made).await;
    }

    async fn serve(&self, graph: &ObjectRef, models: &[&str]) -> bool {
        self.place.serve(graph, models).await
    }

    async fn admitting(&self) -> Box<dyn std::any::Any + Send> {
        self.place.admitting().await
    }
}

/// Runs scenarios on every implementation of a cluster, and on a real one with reads from memory: three tests for each.
macro_rules! on_every_cluster {
    ($($scenario:ident,)*) => {
        mod on_embedded {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $scenario() {
                    super::$scenario(&$crate::cluster::scenario::Folder::new()).await;
                }
            )*
        }

        mod on_kubernetes {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $scenario() {
                    if let Some(place) = $crate::cluster::place::Namespaces::of(stringify!($scenario)).await {
                        super::$scenario(&place).await;
                    }
                }
            )*
        }

        mod on_memory {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $scenario() {
                    if let Some(place) = $crate::cluster::place::Remembered::of(stringify!($scenario)).await {
                        super::$scenario(&place).await;
                    }
                }
            )*
        }
    };
}
pub(super) use on_every_cluster;

/// The same, and on a real API server with the definitions of the newest Dynamo.
macro_rules! on_every_cluster_and_make {
    ($($scenario:ident,)*) => {
        $crate::cluster::place::on_every_cluster! { $($scenario,)* }

        mod on_newest_kubernetes {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $scenario() {
                    if let Some(plane) = $crate::testbed::newest() {
                        let place = $crate::cluster::place::Namespaces::on(plane, stringify!($scenario)).await;
                        super::$scenario(&place).await;
                    }
                }
            )*
        }
    };
}
pub(super) use on_every_cluster_and_make;
