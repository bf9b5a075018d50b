//! A Kubernetes API server: server-side apply, deletes with preconditions, paged lists, and watches that resume.
//!
//! Objects stay JSON values all the way; the crate `kube` gives the connection (kubeconfigs, exec plugins, TLS, proxies,
//! impersonation), and every request here is one of ours, so that its deadline, its code (201 or 200) and its refusal
//! are seen. Nothing is tried twice here: whoever knows what a call is for does that.

mod api_client;
mod api_error;
mod apply_outcome;
mod connect;
mod discovery;
mod events;
mod fence;
mod field_paths;
mod list_watch;
mod merge_patch;
mod namespace_restriction;
mod preflight;
mod request_observer;
mod resource_versions;
mod watch_stream;

#[cfg(test)]
mod tests;

pub use connect::{
    ConnectError, ConnectOptions, ImpersonatedUser, KubeconfigContexts, RequestDeadlines, ServiceAccount,
    kubeconfig_contexts, kubeconfig_files,
};
pub use events::KubeEvent;
pub use fence::{ClockReading, Fence};
pub use list_watch::WatchUpdate;
pub use preflight::{DynamoRelease, PreflightProblem, PreflightReport};
pub use request_observer::{ObservedRequest, RequestObserver};

use super::{
    ApplyOutcome, ApplyRequest, ApplyResponse, Cluster, ClusterError, DeleteOutcome, Preconditions, WatchEvent,
};
use ::kube::Client;
use ::kube::client::Body;
use api_client::{ApiPayload, ApiResponse, ApiUrl};
use api_error::ApiCall;
use apply_outcome::{equal_ignoring_times, infer_outcome};
use discovery::DiscoveryCache;
use http::{Method, Request, StatusCode};
use namespace_restriction::NamespaceRestriction;
use request_observer::ObserverSlot;
use resource_versions::{KnownVersion, ResourceVersionCache};
use serde::Deserialize;
use serde_json::{Value, json};
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::fields::{self, FieldManager};
use stator_core::object::{Object, ObjectRef};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A Kubernetes cluster; clones share one connection.
#[derive(Clone)]
pub struct KubeCluster {
    inner: Arc<KubeConnection>,
    /// What every write asks.
    fence: Option<Fence>,
    restriction: NamespaceRestriction,
}

struct KubeConnection {
    client: Client,
    /// The server's address, as messages name it.
    server: String,
    /// What the cluster is called.
    name: String,
    options: ConnectOptions,
    observer: ObserverSlot,
    versions: ResourceVersionCache,
    discovery: DiscoveryCache,
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
    /// Connects as a kubeconfig says. Nothing is sent yet.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read, has no such context, or says what no client can be made of.
    pub async fn connect(options: ConnectOptions) -> Result<Self, ConnectError> {
        let (config, context) = connect::load_config(&options).await?;
        let name = format!("context `{context}`");
        let server = server_address(&config);
        let observed = ObserverSlot::default();
        let client = connect::client_on_thread(config, &options, &observed, &name).await?;
        Ok(Self::of(client, server, options, observed, name))
    }

    /// Connects as the service account of the pod that this runs in.
    ///
    /// # Errors
    /// When this is no pod, or its service account's files cannot be read.
    pub fn in_cluster(options: ConnectOptions) -> Result<Self, ConnectError> {
        Self::as_pod(&ServiceAccount::from_pod_env()?, options)
    }

    /// Connects as a pod's service account.
    ///
    /// # Errors
    /// When its files cannot be read.
    pub fn as_pod(account: &ServiceAccount, options: ConnectOptions) -> Result<Self, ConnectError> {
        Self::new(account.client_config()?, options, "the pod's own cluster".to_owned())
    }

    /// Connects as a configuration says.
    ///
    /// # Errors
    /// When no client can be made of it.
    pub fn from_config(config: ::kube::Config, options: ConnectOptions) -> Result<Self, ConnectError> {
        Self::new(config, options, "a configuration of its own".to_owned())
    }

    fn new(config: ::kube::Config, options: ConnectOptions, name: String) -> Result<Self, ConnectError> {
        let server = server_address(&config);
        let observed = ObserverSlot::default();
        let client = connect::build_client(config, &options, &observed, &name)?;
        Ok(Self::of(client, server, options, observed, name))
    }

    fn of(client: Client, server: String, options: ConnectOptions, observed: ObserverSlot, name: String) -> Self {
        Self {
            fence: options.fence.clone(),
            restriction: NamespaceRestriction::default(),
            inner: Arc::new(KubeConnection {
                client,
                server,
                name,
                options,
                observer: observed,
                versions: ResourceVersionCache::default(),
                discovery: DiscoveryCache::default(),
            }),
        }
    }

    /// The same cluster and connection, whose writes ask a fence first.
    pub fn with_fence(&self, fence: Fence) -> Self {
        Self { fence: Some(fence), ..self.clone() }
    }

    /// The same cluster and connection, which reaches one namespace only.
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self { restriction: NamespaceRestriction::only(namespace), ..self.clone() }
    }

    /// The connection, for kinds that are not Dynamo's: sources, leases, events. Whoever calls puts a deadline around it.
    pub fn client(&self) -> Client {
        self.inner.client.clone()
    }

    /// From now on tells of every request that is sent through this connection, by whom ever. Only the first to ask is told.
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

/// The kind of an object, and the URL of the object.
fn resolve_object(object: &ObjectRef) -> Result<(&'static ObjectKind, ApiUrl), ClusterError> {
    let version = object.api_version.rsplit('/').next().unwrap_or_default();
    let kind = kinds::by_name(&object.kind)
        .filter(|kind| kind.group == object.group())
        .ok_or_else(|| ClusterError::UnknownKind { kind: format!("{} {}", object.api_version, object.kind) })?;
    let url = ApiUrl::of(kind.group, version, kind.plural, Some(&object.namespace)).join(&object.name);
    Ok((kind, url))
}

fn object_call<'a>(verb: &'static str, kind: &'a ObjectKind, object: &'a ObjectRef) -> ApiCall<'a> {
    ApiCall { verb, kind, namespace: Some(&object.namespace), object: Some(object), config: None, conditional: false }
}

fn parse_object(value: Value, url: &ApiUrl) -> Result<Object, ClusterError> {
    Object::from_value(value).map_err(|error| api_client::malformed_response(url, &error))
}

/// How an apply is checked. `Strict` only looks for keys that are there twice, for which the server reads the body a second
/// time; unknown fields are refused either way. Records are many and stator's own, written from maps.
fn field_validation(kind: &ObjectKind) -> &'static str {
    if *kind == kinds::RECORD { "Ignore" } else { "Strict" }
}

impl KubeConnection {
    async fn send(&self, request: Request<Body>, deadline: Duration) -> Result<ApiResponse, ClusterError> {
        let answer = api_client::send_request(&self.client, &self.server, request, deadline).await?;
        if answer.status == StatusCode::NOT_FOUND {
            // Rather than an object it may be the kind that is gone, or not known yet.
            self.discovery.invalidate();
        }
        Ok(answer)
    }

    /// A write: sent if the fence holds, and not sent any more once it does not.
    async fn send_write(&self, request: Request<Body>, fence: Option<&Fence>) -> Result<ApiResponse, ClusterError> {
        let exchange = self.send(request, self.options.deadlines.write);
        match fence {
            Some(fence) => fence.guard(exchange).await,
            None => exchange.await,
        }
    }

    /// One object in one of its forms, `None` when there is none of that name.
    async fn read_object(&self, object: &ObjectRef, form: &str) -> Result<Option<Value>, ClusterError> {
        let (kind, url) = resolve_object(object)?;
        let request = api_client::build_request(Method::GET, &url, ApiPayload::None, form)?;
        let answer = self.send(request, self.options.deadlines.get).await?;
        if answer.status.is_success() {
            return answer.json(&url).map(Some);
        }
        if api_error::is_absent(&api_error::parse_status(&answer), object) {
            self.versions.insert_absent(object.identity());
            return Ok(None);
        }
        Err(api_error::to_cluster_error(&object_call("get", kind, object), &answer, &[]))
    }

    /// What was last seen of an object, or is to be seen now.
    async fn known_version(&self, object: &ObjectRef) -> Result<KnownVersion, ClusterError> {
        if let Some(known) = self.versions.get(&object.identity()) {
            return Ok(known);
        }
        Ok(self
            .read_object(object, api_client::ACCEPT_METADATA)
            .await?
            .as_ref()
            .map_or(KnownVersion::Absent, KnownVersion::of))
    }

    /// The managers of an object, for finding the fields of a conflict; none when they cannot be read.
    async fn read_managers(&self, object: &ObjectRef) -> Vec<FieldManager> {
        let Ok(Some(mut value)) = self.read_object(object, api_client::ACCEPT_METADATA).await else {
            return Vec::new();
        };
        if let Some(map) = value.as_object_mut() {
            // What comes is called PartialObjectMetadata.
            map.insert("kind".to_owned(), json!(object.kind));
            map.insert("apiVersion".to_owned(), json!(object.api_version));
        }
        Object::from_value(value).ok().and_then(|object| fields::managers(&object).ok()).unwrap_or_default()
    }

    async fn apply(&self, request: &ApplyRequest, fence: Option<&Fence>) -> Result<ApplyResponse, ClusterError> {
        let reference = request.object.reference();
        let (kind, url) = resolve_object(&reference)?;
        let url = if request.status { url.join("status") } else { url };
        let mut url = url
            .query("fieldManager", &request.manager)
            .query("force", if request.force { "true" } else { "false" })
            .query("fieldValidation", field_validation(kind));
        // A dry run moves no resource version, so the whole object must tell whether anything would change.
        let (known, before) = if request.dry_run {
            url = url.query("dryRun", "All");
            (KnownVersion::Absent, self.read_object(&reference, api_client::ACCEPT_JSON).await?)
        } else {
            (self.known_version(&reference).await?, None)
        };
        let payload = api_client::build_request(
            Method::PATCH,
            &url,
            ApiPayload::Apply(request.object.value()),
            api_client::ACCEPT_JSON,
        )?;
        let began = Instant::now();
        // A dry run changes nothing, so anybody may try one.
        let answer = self.send_write(payload, fence.filter(|_| !request.dry_run)).await?;
        if !answer.status.is_success() {
            let config = request.object.value();
            let conditional =
                ["/metadata/uid", "/metadata/resourceVersion"].iter().any(|own| config.pointer(own).is_some());
            let managers = match answer.status {
                StatusCode::CONFLICT => self.read_managers(&reference).await,
                _ => Vec::new(),
            };
            let asked = ApiCall { config: Some(config), conditional, ..object_call("patch", kind, &reference) };
            return Err(api_error::to_cluster_error(&asked, &answer, &managers));
        }
        let object = parse_object(answer.json(&url)?, &url)?;
        let subresource = if request.status { "status" } else { "" };
        let outcome = match before {
            _ if answer.status == StatusCode::CREATED => ApplyOutcome::Created,
            // The last finalizer took the object along: the answer is its last state, resource version and all.
            _ if object.is_deleting() && object.finalizers().is_empty() => ApplyOutcome::Updated,
            Some(before) if equal_ignoring_times(&before, object.value()) => ApplyOutcome::Unchanged,
            Some(_) => ApplyOutcome::Updated,
            None if request.dry_run => ApplyOutcome::Created,
            None => {
                let after = KnownVersion::of(object.value());
                infer_outcome(&known, &after, (&request.manager, subresource), answer.date, began.elapsed())
            }
        };
        if !request.dry_run {
            self.versions.insert_object(&object);
        }
        Ok(ApplyResponse { object, outcome })
    }

    async fn delete(
        &self,
        object: &ObjectRef,
        preconditions: &Preconditions,
        fence: Option<&Fence>,
    ) -> Result<DeleteOutcome, ClusterError> {
        let (kind, url) = resolve_object(object)?;
        let mut conditions = serde_json::Map::new();
        if let Some(uid) = &preconditions.uid {
            conditions.insert("uid".to_owned(), json!(uid));
        }
        if let Some(resource_version) = &preconditions.resource_version {
            conditions.insert("resourceVersion".to_owned(), json!(resource_version));
        }
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "propagationPolicy": "Background", "preconditions": conditions,
        });
        let request =
            api_client::build_request(Method::DELETE, &url, ApiPayload::Json(&options), api_client::ACCEPT_JSON)?;
        let answer = self.send_write(request, fence).await?;
        if !answer.status.is_success() {
            if api_error::is_absent(&api_error::parse_status(&answer), object) {
                self.versions.insert_absent(object.identity());
                return Ok(DeleteOutcome::Absent);
            }
            let conditional = *preconditions != Preconditions::default();
            let asked = ApiCall { conditional, ..object_call("delete", kind, object) };
            return Err(api_error::to_cluster_error(&asked, &answer, &[]));
        }
        let value: Value = answer.json(&url)?;
        // A success without the object, or an object that nothing holds any more, is gone.
        let left = (value.get("kind").and_then(Value::as_str) != Some("Status")).then_some(value);
        match left.map(|value| parse_object(value, &url)).transpose()? {
            Some(object) if !object.finalizers().is_empty() => {
                self.versions.insert_object(&object);
                Ok(DeleteOutcome::Pending(object))
            }
            Some(_) | None => {
                self.versions.insert_absent(object.identity());
                Ok(DeleteOutcome::Gone)
            }
        }
    }

    /// All pages, consistent: where the first has become too old to go on from, everything is asked for at once.
    async fn list(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Object>, ClusterError> {
        let selector: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut url = ApiUrl::of_kind(kind, namespace);
        if !selector.is_empty() {
            url = url.query("labelSelector", &selector.join(","));
        }
        let asked = ApiCall { verb: "list", kind, namespace, object: None, config: None, conditional: false };
        let end = Instant::now() + self.options.deadlines.list;
        let page = self.options.page_size;
        let mut objects = Vec::new();
        let mut next = url.clone().query("limit", &page.to_string());
        loop {
            let Some(ListPage { objects: more, resource_version: _, continue_token: token }) =
                self.list_page(&asked, &next, end, !objects.is_empty()).await?
            else {
                objects.clear();
                next = url.clone();
                continue;
            };
            objects.extend(more);
            match token {
                Some(token) => next = url.clone().query("limit", &page.to_string()).query("continue", &token),
                None => break,
            }
        }
        objects.sort_by_cached_key(Object::reference);
        match namespace {
            Some(namespace) if labels.is_empty() => {
                self.versions.insert_list(kind.group, kind.kind, namespace, &objects)
            }
            Some(_) | None => objects.iter().for_each(|object| self.versions.insert_object(object)),
        }
        Ok(objects)
    }
}

impl KubeConnection {
    /// One page of a list; `None` when it goes on from one that has become too old to go on from.
    async fn list_page(
        &self,
        asked: &ApiCall<'_>,
        url: &ApiUrl,
        end: Instant,
        goes_on: bool,
    ) -> Result<Option<ListPage>, ClusterError> {
        let kind = asked.kind;
        let request = api_client::build_request(Method::GET, url, ApiPayload::None, api_client::ACCEPT_JSON)?;
        let answer = self.send(request, end.saturating_duration_since(Instant::now())).await?;
        if answer.status == StatusCode::GONE && goes_on {
            return Ok(None);
        }
        if !answer.status.is_success() {
            return Err(api_error::to_cluster_error(asked, &answer, &[]));
        }
        let RawListPage { metadata, items } = answer.json(url)?;
        let items = items.unwrap_or_default().into_iter().map(|mut item| {
            if let Some(map) = item.as_object_mut() {
                // Items of a built-in kind do not say what they are.
                map.entry("apiVersion").or_insert_with(|| json!(kind.api_version()));
                map.entry("kind").or_insert_with(|| json!(kind.kind));
            }
            parse_object(item, url)
        });
        Ok(Some(ListPage {
            objects: items.collect::<Result<_, _>>()?,
            resource_version: metadata.resource_version,
            continue_token: metadata.r#continue.filter(|token| !token.is_empty()),
        }))
    }
}

/// One page of a list.
struct ListPage {
    objects: Vec<Object>,
    /// The resource version of the whole list.
    resource_version: String,
    /// Where the next page begins.
    continue_token: Option<String>,
}

#[derive(Deserialize)]
struct RawListPage {
    #[serde(default)]
    metadata: ListMeta,
    items: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
struct ListMeta {
    r#continue: Option<String>,
    #[serde(rename = "resourceVersion", default)]
    resource_version: String,
}

impl Cluster for KubeCluster {
    fn describe(&self) -> String {
        format!("Kubernetes cluster of {} ({})", self.inner.name, self.inner.server)
    }

    async fn platform(&self) -> Result<Platform, ClusterError> {
        let groups = self.inner.api_groups().await?;
        Ok(groups.map_or_else(Platform::default, |groups| Platform::from_api_groups(groups.iter().map(String::as_str))))
    }

    async fn list(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Object>, ClusterError> {
        self.inner.list(kind, self.restriction.resolve_namespace(namespace)?, labels).await
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

    async fn watch(
        &self,
        kinds: &[ObjectKind],
        namespace: Option<&str>,
    ) -> Result<mpsc::Receiver<WatchEvent>, ClusterError> {
        watch_stream::start_watches(&self.inner, kinds, self.restriction.resolve_namespace(namespace)?).await
    }
}
