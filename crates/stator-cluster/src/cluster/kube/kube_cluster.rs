//! A Kubernetes cluster: a connection, what its writes ask first, how far it reaches, and what it does beyond a [`Cluster`].

use super::api_client::{ACCEPT_JSON, ApiPayload, ApiResponse, ApiUrl};
use super::api_error::{ApiCall, parse_status};
use super::connect::{self, ConnectError, ConnectOptions, ImpersonatedUser, ServiceAccount};
use super::connection::{DiscoveryCache, KubeConnection, parse_object, resolve_object};
use super::connection_gate::ConnectionGate;
use super::request_observer::{ObserverSlot, RequestObserver};
use super::resource_versions::ResourceVersionCache;
use super::{api_client, api_error, paged_list, watch_stream};
use crate::cluster::{
    ApplyRequest, ApplyResponse, Cluster, ClusterError, DeleteOutcome, Fence, Preconditions, WatchReceiver,
};
use ::kube::Client;
use ::kube::core::Status;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::kinds::{FLEET_POLICY, ObjectKind};
use stator_core::dynamo::served_models::{FRONTEND_PORT, FrontendAnswer, FrontendService, MODELS_PATH};
use stator_core::fields::PackedObject;
use stator_core::object::{Object, ObjectRef, ObjectText};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A Kubernetes cluster; clones share one connection.
#[derive(Clone)]
pub struct KubeCluster {
    pub(super) inner: Arc<KubeConnection>,
    /// What every write asks.
    pub(super) fence: Option<Fence>,
    pub(super) restriction: NamespaceRestriction,
    asks_frontends: bool,
}

/// The only namespace that a connection reaches, whatever it is asked for; any, where there is none.
///
/// Whoever connects with rights in many namespaces, and works for somebody who has one, puts this around: it is looked at
/// before a request is made, so that nothing that a repository says leads out.
#[derive(Clone, Debug, Default)]
pub(super) struct NamespaceRestriction(Option<Arc<str>>);

impl NamespaceRestriction {
    fn only(namespace: &str) -> Self {
        Self(Some(namespace.into()))
    }

    /// Whether an object of that namespace may be read or written.
    pub(super) fn check_namespace(&self, namespace: &str) -> Result<(), ClusterError> {
        match self.0.as_deref() {
            Some(only) if only != namespace => Err(ClusterError::Refused {
                message: format!("this source may not use namespace {namespace}, only {only}"),
                fix: "set `spec.serviceAccountName` of the source to an account that has rights there".to_owned(),
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// Where to list or watch: of all namespaces there is only the one.
    pub(super) fn resolve_namespace<'a>(&'a self, namespace: Option<&'a str>) -> Result<Option<&'a str>, ClusterError> {
        match namespace {
            Some(namespace) => self.check_namespace(namespace).map(|()| Some(namespace)),
            None => Ok(self.0.as_deref()),
        }
    }
}

impl fmt::Debug for KubeCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kube")
            .field("server", &self.inner.server)
            .field("name", &self.inner.name)
            .finish_non_exhaustive()
    }
}

impl KubeCluster {
    /// Connects as a kubeconfig says, or as a pod's service account where the options have one. Nothing is sent yet.
    ///
    /// # Errors
    /// When the kubeconfig or the files of the service account cannot be read, there is no such context, or they say what
    /// no client can be made of.
    pub async fn connect(mut options: ConnectOptions) -> Result<Self, ConnectError> {
        if let Some(account) = options.service_account.take() {
            return Self::as_pod(&account, options);
        }
        let (config, context) = connect::load_config(&options).await?;
        let name = format!("context `{context}`");
        let server = server_address(&config);
        let (observed, gate) = (ObserverSlot::default(), Arc::default());
        let client = connect::client_on_thread(config, &options, &observed, &gate, &name).await?;
        // Another connection leads to the same cluster, whatever the current context is by then.
        options.context = Some(context);
        Ok(Self::of(client, server, options, (observed, gate), name))
    }

    /// Connects as a pod's service account.
    ///
    /// # Errors
    /// When its files cannot be read.
    pub fn as_pod(account: &ServiceAccount, options: ConnectOptions) -> Result<Self, ConnectError> {
        let options = ConnectOptions { service_account: Some(account.clone()), ..options };
        Self::from_config(account.client_config()?, options, "the pod's own cluster".to_owned())
    }

    pub(super) fn from_config(
        config: ::kube::Config,
        options: ConnectOptions,
        name: String,
    ) -> Result<Self, ConnectError> {
        let server = server_address(&config);
        let (observed, gate) = (ObserverSlot::default(), Arc::default());
        let client = connect::build_client(config, &options, &observed, &gate, &name)?;
        Ok(Self::of(client, server, options, (observed, gate), name))
    }

    /// A connection of its own to the same cluster, which acts as somebody else. Nothing that was learnt through this one is
    /// known to it, as that user may see something else.
    ///
    /// # Errors
    /// As [`KubeCluster::connect`]: what this one was made of is read again.
    pub async fn connect_as(&self, user: ImpersonatedUser) -> Result<Self, ConnectError> {
        let options = ConnectOptions { impersonate: Some(user), ..self.inner.options.clone() };
        Ok(Self { asks_frontends: self.asks_frontends, ..Self::connect(options).await? })
    }

    /// Whether this connects as the service account of a pod, and not by a kubeconfig.
    pub fn is_service_account(&self) -> bool {
        self.inner.options.service_account.is_some()
    }

    pub(super) fn of(
        client: Client,
        server: String,
        options: ConnectOptions,
        (observer, gate): (ObserverSlot, Arc<ConnectionGate>),
        name: String,
    ) -> Self {
        Self {
            fence: None,
            restriction: NamespaceRestriction::default(),
            asks_frontends: false,
            inner: Arc::new(KubeConnection {
                client,
                server,
                name,
                options,
                observer,
                gate,
                versions: ResourceVersionCache::default(),
                discovery: DiscoveryCache::default(),
                definitions: std::sync::Mutex::default(),
            }),
        }
    }

    /// The same cluster and connection, whose writes ask a fence first.
    pub fn with_fence(&self, fence: Fence) -> Self {
        Self { fence: Some(fence), ..self.clone() }
    }

    /// The same cluster and connection, whose frontends are asked what they serve, or are not: that is a connection from the
    /// API server into the cluster's network, for which not everybody has the right.
    pub fn with_frontends_asked(&self, asked: bool) -> Self {
        Self { asks_frontends: asked, ..self.clone() }
    }

    /// The same cluster and connection, which reaches one namespace only.
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self { restriction: NamespaceRestriction::only(namespace), ..self.clone() }
    }

    /// The connection, for kinds that are not Dynamo's: sources, leases, events. Whoever calls puts a deadline around it.
    pub fn client(&self) -> Client {
        self.inner.client.clone()
    }

    /// From now on reports every request that is sent through this connection. Only the first observer is used.
    pub fn observe_requests(&self, observer: RequestObserver) {
        self.inner.observer.set(observer);
    }

    /// The server's address.
    pub fn server(&self) -> &str {
        &self.inner.server
    }
}

/// Where a server is; an address has no user and no password in it.
fn server_address(config: &::kube::Config) -> String {
    let url = &config.cluster_url;
    let host = url.authority().map_or("", |authority| authority.as_str().rsplit('@').next().unwrap_or_default());
    format!("{}://{host}{}", url.scheme_str().unwrap_or("https"), url.path().trim_end_matches('/'))
}

impl Cluster for KubeCluster {
    fn describe(&self) -> String {
        format!("Kubernetes cluster of {} ({})", self.inner.name, self.inner.server)
    }

    async fn platform(&self, _: &Platform) -> Result<Platform, ClusterError> {
        let groups = self.inner.api_groups().await?;
        let has = groups
            .map_or_else(Platform::default, |groups| Platform::from_api_groups(groups.iter().map(String::as_str)));
        Ok(Platform { served: self.inner.definitions().await?, ..has })
    }

    async fn list(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Object>, ClusterError> {
        paged_list::list_objects(&self.inner, kind, self.restriction.resolve_namespace(namespace)?, labels).await
    }

    async fn list_texts(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<ObjectText>, ClusterError> {
        paged_list::list_texts(&self.inner, kind, self.restriction.resolve_namespace(namespace)?, labels).await
    }

    async fn get(&self, object: &ObjectRef) -> Result<Option<Object>, ClusterError> {
        self.restriction.check_namespace(&object.namespace)?;
        let (_, url) = resolve_object(object)?;
        let found = self.inner.read_object(object, api_client::ACCEPT_JSON).await?;
        let found = found.map(|value| parse_object(value, &url)).transpose()?;
        if let Some(found) = &found {
            self.inner.versions.insert_object(found);
        }
        Ok(found)
    }

    async fn apply(&self, request: &ApplyRequest) -> Result<ApplyResponse, ClusterError> {
        self.restriction.check_namespace(request.object.namespace())?;
        self.inner.apply(request, self.fence.as_ref()).await
    }

    async fn delete(&self, object: &ObjectRef, preconditions: &Preconditions) -> Result<DeleteOutcome, ClusterError> {
        self.restriction.check_namespace(&object.namespace)?;
        self.inner.delete(object, preconditions, self.fence.as_ref()).await
    }

    async fn served_models(&self, frontend: &FrontendService) -> FrontendAnswer {
        match self.restriction.check_namespace(&frontend.namespace) {
            _ if !self.asks_frontends => FrontendAnswer::NotAsked,
            Ok(()) => ask_frontend(&self.inner, frontend).await,
            Err(error) => FrontendAnswer::unknown(error.to_string()),
        }
    }

    async fn watch(&self, kinds: &[ObjectKind], namespace: Option<&str>) -> Result<WatchReceiver, ClusterError> {
        watch_stream::start_watches(&self.inner, kinds, self.restriction.resolve_namespace(namespace)?).await
    }
}

#[derive(Deserialize)]
struct FleetPolicyList {
    items: Vec<Value>,
}

impl KubeCluster {
    /// All `FleetPolicy` objects; none where the cluster does not know the kind.
    ///
    /// # Errors
    /// When they cannot be read. Whoever may not list them is told so: an API server refuses that before it says whether
    /// it knows the kind, so discovery is asked then.
    pub async fn fleet_policies(&self) -> Result<Vec<Value>, ClusterError> {
        let url = ApiUrl::of_kind(&FLEET_POLICY, None);
        match self.inner.get_document::<FleetPolicyList>("list", &FLEET_POLICY, &url, ACCEPT_JSON).await {
            Ok(found) => {
                let (api_version, kind) = (FLEET_POLICY.api_version(), FLEET_POLICY.kind);
                let mut items = found.map_or_else(Vec::new, |found| found.items);
                // The items of a list do not say what they are.
                for item in items.iter_mut().filter_map(Value::as_object_mut) {
                    item.entry("apiVersion").or_insert_with(|| api_version.clone().into());
                    item.entry("kind").or_insert_with(|| kind.into());
                }
                Ok(items)
            }
            Err(refused @ ClusterError::Forbidden { .. }) => {
                self.inner.discovery.invalidate();
                let is_served = !self.served_versions(&FLEET_POLICY).await?.is_empty();
                if is_served { Err(refused) } else { Ok(Vec::new()) }
            }
            Err(error) => Err(error),
        }
    }

    /// Changes some fields of an object, in the name of a field manager, and gives it as it is then; `None` where there is
    /// none of that name. Of any kind, also one that is not among [`stator_core::dynamo::kinds::ALL`]. For what a person
    /// changes of an object that is a person's: what stator keeps itself it only ever applies.
    ///
    /// # Errors
    /// When the server refuses it, or does not answer.
    pub async fn merge_patch(
        &self,
        kind: &ObjectKind,
        namespace: &str,
        name: &str,
        manager: &str,
        patch: &Value,
    ) -> Result<Option<Object>, ClusterError> {
        let url = ApiUrl::of_kind(kind, Some(namespace))
            .join(name)
            .query("fieldManager", manager)
            .query("fieldValidation", "Strict");
        let request =
            api_client::build_request(Method::PATCH, &url, ApiPayload::Merge(patch), api_client::ACCEPT_JSON)?;
        let answer = self.inner.send_write(request, self.fence.as_ref()).await?;
        let object = kind.reference(namespace, name);
        if !answer.status.is_success() {
            if api_error::is_absent(&api_error::parse_status(&answer), &object) {
                return Ok(None);
            }
            let asked = ApiCall { config: Some(patch), ..ApiCall::on_object("patch", kind, &object) };
            return Err(api_error::to_cluster_error(&asked, &answer, &[]));
        }
        let PackedObject(object) = answer.json(&url)?;
        parse_object(object, &url).map(Some)
    }
}

/// How long a frontend may take. It answers from memory.
const FRONTEND_DEADLINE: Duration = Duration::from_secs(5);
/// The most that a list of models may hold: some thousands of them.
const MAX_MODEL_LIST_SIZE: usize = 1 << 20;

/// What a frontend serves, or why that is unknown. It is asked through the API server, as whom the connection acts, whose
/// rights decide.
///
/// Whatever listens there may answer anything. So little of it is read, redirects are not followed, and nothing of it is
/// repeated in a message.
async fn ask_frontend(connection: &KubeConnection, frontend: &FrontendService) -> FrontendAnswer {
    let FrontendService { namespace, name } = frontend;
    let service = ApiUrl::of("", "v1", "services", Some(namespace)).join(&format!("{name}:{FRONTEND_PORT}"));
    let url = MODELS_PATH.split('/').filter(|step| !step.is_empty()).fold(service.join("proxy"), ApiUrl::join);
    let request = match api_client::build_request(Method::GET, &url, ApiPayload::None, api_client::ACCEPT_JSON) {
        Ok(request) => request,
        Err(error) => return FrontendAnswer::unknown(error.to_string()),
    };
    let (client, server) = (&connection.client, &connection.server);
    match api_client::send_limited_request(client, server, request, FRONTEND_DEADLINE, MAX_MODEL_LIST_SIZE).await {
        Ok(answer) => judge_frontend_answer(frontend, &answer),
        Err(error) if error.retry_delay().is_some() => FrontendAnswer::unknown_now(error.to_string()),
        Err(error) => FrontendAnswer::unknown(error.to_string()),
    }
}

fn judge_frontend_answer(frontend: &FrontendService, answer: &ApiResponse) -> FrontendAnswer {
    if answer.status == StatusCode::OK {
        return FrontendAnswer::from_model_list(&answer.body);
    }
    let Status { message, reason, .. } = parse_status(answer);
    let code = answer.status.as_u16();
    match (code, reason.as_str()) {
        (403, "Forbidden") => FrontendAnswer::unknown(format!(
            "give stator the right `get` on `services/proxy` in namespace {}",
            frontend.namespace
        )),
        (404, "NotFound") => FrontendAnswer::unknown(format!("there is no {frontend}")),
        (503, "ServiceUnavailable") if message.starts_with("no endpoints available") => {
            FrontendAnswer::Serves(BTreeSet::new())
        }
        (code, _) if code >= 500 => {
            FrontendAnswer::unknown_now(format!("{frontend} did not answer {MODELS_PATH} (HTTP {code})"))
        }
        (code, _) => FrontendAnswer::unknown(format!("{frontend} answers {MODELS_PATH} with HTTP {code}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out_of_the_namespace() {
        let one = NamespaceRestriction::only("a");
        assert_eq!(one.check_namespace("a"), Ok(()));
        insta::assert_snapshot!(one.check_namespace("b").unwrap_err(), @"this source may not use namespace b, only a");
        assert_eq!((one.resolve_namespace(None), one.resolve_namespace(Some("a"))), (Ok(Some("a")), Ok(Some("a"))));
        assert!(one.resolve_namespace(Some("b")).is_err());
        assert_eq!(
            (
                NamespaceRestriction::default().resolve_namespace(None),
                NamespaceRestriction::default().check_namespace("b")
            ),
            (Ok(None), Ok(()))
        );
    }
}
