//! A Kubernetes API server: server-side apply, deletes with preconditions, paged lists, and watches that resume.
//!
//! Objects stay JSON values all the way; the crate `kube` gives the connection (kubeconfigs, exec plugins, TLS, proxies,
//! impersonation), and every request here is one of ours, so that its deadline, its code (201 or 200) and its refusal
//! are seen. Nothing is tried twice here: whoever knows what a call is for does that.

mod confined;
mod connect;
mod discovery;
mod events;
mod fence;
mod following;
mod merge;
mod observe;
mod outcome;
mod paths;
mod preflight;
mod refusal;
mod request;
mod seen;
mod watching;

#[cfg(test)]
mod tests;

pub use connect::{
    ConnectError, Contexts, Deadlines, Impersonate, Options, ServiceAccount, contexts, kubeconfig_files,
};
pub use events::Event;
pub use fence::{Fence, Moment};
pub use following::Told;
pub use observe::{Exchanged, Observer};
pub use preflight::{Obstacle, Preflight, Release};

use super::{Applied, ApplyOutcome, ApplyRequest, Cluster, ClusterError, Deleted, Preconditions, WatchEvent};
use ::kube::Client;
use ::kube::client::Body;
use confined::Confined;
use discovery::Discovered;
use http::{Method, Request, StatusCode};
use observe::Observed;
use outcome::{outcome, same};
use refusal::Asked;
use request::{Answer, Payload, Url};
use seen::{Known, Seen};
use serde::Deserialize;
use serde_json::{Value, json};
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::kinds::{self, Kind};
use stator_core::fields::{self, Manager};
use stator_core::object::{Object, ObjectRef};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A Kubernetes cluster; clones share one connection.
#[derive(Clone)]
pub struct Kube {
    inner: Arc<Inner>,
    /// What every write asks.
    fence: Option<Fence>,
    confined: Confined,
}

struct Inner {
    client: Client,
    /// The server's address, as messages name it.
    server: String,
    /// What the cluster is called.
    name: String,
    options: Options,
    observed: Observed,
    seen: Seen,
    discovered: Discovered,
}

impl fmt::Debug for Kube {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kube")
            .field("server", &self.inner.server)
            .field("name", &self.inner.name)
            .finish_non_exhaustive()
    }
}

impl Kube {
    /// Connects as a kubeconfig says. Nothing is sent yet.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read, has no such context, or says what no client can be made of.
    pub async fn connect(options: Options) -> Result<Self, ConnectError> {
        let (config, context) = connect::config(&options).await?;
        let name = format!("context `{context}`");
        let server = address(&config);
        let observed = Observed::default();
        let client = connect::client_aside(config, &options, &observed, &name).await?;
        Ok(Self::of(client, server, options, observed, name))
    }

    /// Connects as the service account of the pod that this runs in.
    ///
    /// # Errors
    /// When this is no pod, or its service account's files cannot be read.
    pub fn in_cluster(options: Options) -> Result<Self, ConnectError> {
        Self::as_pod(&ServiceAccount::of_this_pod()?, options)
    }

    /// Connects as a pod's service account.
    ///
    /// # Errors
    /// When its files cannot be read.
    pub fn as_pod(account: &ServiceAccount, options: Options) -> Result<Self, ConnectError> {
        Self::new(account.config()?, options, "the pod's own cluster".to_owned())
    }

    /// Connects as a configuration says.
    ///
    /// # Errors
    /// When no client can be made of it.
    pub fn from_config(config: ::kube::Config, options: Options) -> Result<Self, ConnectError> {
        Self::new(config, options, "a configuration of its own".to_owned())
    }

    fn new(config: ::kube::Config, options: Options, name: String) -> Result<Self, ConnectError> {
        let server = address(&config);
        let observed = Observed::default();
        let client = connect::client(config, &options, &observed, &name)?;
        Ok(Self::of(client, server, options, observed, name))
    }

    fn of(client: Client, server: String, options: Options, observed: Observed, name: String) -> Self {
        Self {
            fence: options.fence.clone(),
            confined: Confined::default(),
            inner: Arc::new(Inner {
                client,
                server,
                name,
                options,
                observed,
                seen: Seen::default(),
                discovered: Discovered::default(),
            }),
        }
    }

    /// The same cluster and connection, whose writes ask a fence first.
    pub fn fenced(&self, fence: Fence) -> Self {
        Self { fence: Some(fence), ..self.clone() }
    }

    /// The same cluster and connection, which reaches one namespace only.
    pub fn confined(&self, namespace: &str) -> Self {
        Self { confined: Confined::to(namespace), ..self.clone() }
    }

    /// The connection, for kinds that are not Dynamo's: sources, leases, events. Whoever calls puts a deadline around it.
    pub fn client(&self) -> Client {
        self.inner.client.clone()
    }

    /// From now on tells of every request that is sent through this connection, by whom ever. Only the first to ask is told.
    pub fn observe(&self, observer: Observer) {
        self.inner.observed.by(observer);
    }

    /// The server's address.
    pub fn server(&self) -> &str {
        &self.inner.server
    }
}

/// Where a server is; an address has no user and no password in it.
fn address(config: &::kube::Config) -> String {
    let url = &config.cluster_url;
    let host = url.authority().map_or("", |authority| authority.as_str().rsplit('@').next().unwrap_or_default());
    format!("{}://{host}{}", url.scheme_str().unwrap_or("https"), url.path().trim_end_matches('/'))
}

/// The kind of an object, and the URL of the object.
fn place(object: &ObjectRef) -> Result<(&'static Kind, Url), ClusterError> {
    let version = object.api_version.rsplit('/').next().unwrap_or_default();
    let kind = kinds::by_name(&object.kind)
        .filter(|kind| kind.group == object.group())
        .ok_or_else(|| ClusterError::UnknownKind { kind: format!("{} {}", object.api_version, object.kind) })?;
    let url = Url::of(kind.group, version, kind.plural, Some(&object.namespace)).join(&object.name);
    Ok((kind, url))
}

fn asked<'a>(verb: &'static str, kind: &'a Kind, object: &'a ObjectRef) -> Asked<'a> {
    Asked { verb, kind, namespace: Some(&object.namespace), object: Some(object), config: None, conditional: false }
}

fn object_of(value: Value, url: &Url) -> Result<Object, ClusterError> {
    Object::from_value(value).map_err(|error| request::damaged(url, &error))
}

/// How an apply is checked. `Strict` only looks for keys that are there twice, for which the server reads the body a second
/// time; unknown fields are refused either way. Records are many and stator's own, written from maps.
fn validation(kind: &Kind) -> &'static str {
    if *kind == kinds::RECORD { "Ignore" } else { "Strict" }
}

impl Inner {
    async fn exchange(&self, request: Request<Body>, deadline: Duration) -> Result<Answer, ClusterError> {
        let answer = request::exchange(&self.client, &self.server, request, deadline).await?;
        if answer.status == StatusCode::NOT_FOUND {
            // Rather than an object it may be the kind that is gone, or not known yet.
            self.discovered.forget();
        }
        Ok(answer)
    }

    /// A write: sent if the fence holds, and not sent any more once it does not.
    async fn write(&self, request: Request<Body>, fence: Option<&Fence>) -> Result<Answer, ClusterError> {
        let exchange = self.exchange(request, self.options.deadlines.write);
        match fence {
            Some(fence) => fence.guard(exchange).await,
            None => exchange.await,
        }
    }

    /// One object in one of its forms, `None` when there is none of that name.
    async fn read(&self, object: &ObjectRef, form: &str) -> Result<Option<Value>, ClusterError> {
        let (kind, url) = place(object)?;
        let request = request::request(Method::GET, &url, Payload::None, form)?;
        let answer = self.exchange(request, self.options.deadlines.get).await?;
        if answer.status.is_success() {
            return answer.json(&url).map(Some);
        }
        if refusal::is_absent(&refusal::status(&answer), object) {
            self.seen.absent(object.identity());
            return Ok(None);
        }
        Err(refusal::error(&asked("get", kind, object), &answer, &[]))
    }

    /// What was last seen of an object, or is to be seen now.
    async fn known(&self, object: &ObjectRef) -> Result<Known, ClusterError> {
        if let Some(known) = self.seen.of(&object.identity()) {
            return Ok(known);
        }
        Ok(self.read(object, request::METADATA).await?.as_ref().map_or(Known::Absent, Known::of))
    }

    /// The managers of an object, for finding the fields of a conflict; none when they cannot be read.
    async fn managers(&self, object: &ObjectRef) -> Vec<Manager> {
        let Ok(Some(mut value)) = self.read(object, request::METADATA).await else { return Vec::new() };
        if let Some(map) = value.as_object_mut() {
            // What comes is called PartialObjectMetadata.
            map.insert("kind".to_owned(), json!(object.kind));
            map.insert("apiVersion".to_owned(), json!(object.api_version));
        }
        Object::from_value(value).ok().and_then(|object| fields::managers(&object).ok()).unwrap_or_default()
    }

    async fn apply(&self, request: &ApplyRequest, fence: Option<&Fence>) -> Result<Applied, ClusterError> {
        let reference = request.object.reference();
        let (kind, url) = place(&reference)?;
        let url = if request.status { url.join("status") } else { url };
        let mut url = url
            .query("fieldManager", &request.manager)
            .query("force", if request.force { "true" } else { "false" })
            .query("fieldValidation", validation(kind));
        // A dry run moves no resource version, so the whole object must tell whether anything would change.
        let (known, before) = if request.dry_run {
            url = url.query("dryRun", "All");
            (Known::Absent, self.read(&reference, request::WHOLE).await?)
        } else {
            (self.known(&reference).await?, None)
        };
        let payload = request::request(Method::PATCH, &url, Payload::Apply(request.object.value()), request::WHOLE)?;
        let began = Instant::now();
        // A dry run changes nothing, so anybody may try one.
        let answer = self.write(payload, fence.filter(|_| !request.dry_run)).await?;
        if !answer.status.is_success() {
            let config = request.object.value();
            let conditional =
                ["/metadata/uid", "/metadata/resourceVersion"].iter().any(|own| config.pointer(own).is_some());
            let managers = match answer.status {
                StatusCode::CONFLICT => self.managers(&reference).await,
                _ => Vec::new(),
            };
            let asked = Asked { config: Some(config), conditional, ..asked("patch", kind, &reference) };
            return Err(refusal::error(&asked, &answer, &managers));
        }
        let object = object_of(answer.json(&url)?, &url)?;
        let subresource = if request.status { "status" } else { "" };
        let outcome = match before {
            _ if answer.status == StatusCode::CREATED => ApplyOutcome::Created,
            // The last finalizer took the object along: the answer is its last state, resource version and all.
            _ if object.is_deleting() && object.finalizers().is_empty() => ApplyOutcome::Updated,
            Some(before) if same(&before, object.value()) => ApplyOutcome::Unchanged,
            Some(_) => ApplyOutcome::Updated,
            None if request.dry_run => ApplyOutcome::Created,
            None => {
                let after = Known::of(object.value());
                outcome(&known, &after, (&request.manager, subresource), answer.date, began.elapsed())
            }
        };
        if !request.dry_run {
            self.seen.object(&object);
        }
        Ok(Applied { object, outcome })
    }

    async fn delete(
        &self,
        object: &ObjectRef,
        preconditions: &Preconditions,
        fence: Option<&Fence>,
    ) -> Result<Deleted, ClusterError> {
        let (kind, url) = place(object)?;
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
        let request = request::request(Method::DELETE, &url, Payload::Json(&options), request::WHOLE)?;
        let answer = self.write(request, fence).await?;
        if !answer.status.is_success() {
            if refusal::is_absent(&refusal::status(&answer), object) {
                self.seen.absent(object.identity());
                return Ok(Deleted::Absent);
            }
            let conditional = *preconditions != Preconditions::default();
            let asked = Asked { conditional, ..asked("delete", kind, object) };
            return Err(refusal::error(&asked, &answer, &[]));
        }
        let value: Value = answer.json(&url)?;
        // A success without the object, or an object that nothing holds any more, is gone.
        let left = (value.get("kind").and_then(Value::as_str) != Some("Status")).then_some(value);
        match left.map(|value| object_of(value, &url)).transpose()? {
            Some(object) if !object.finalizers().is_empty() => {
                self.seen.object(&object);
                Ok(Deleted::Pending(object))
            }
            Some(_) | None => {
                self.seen.absent(object.identity());
                Ok(Deleted::Gone)
            }
        }
    }

    /// All pages, consistent: where the first has become too old to go on from, everything is asked for at once.
    async fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Object>, ClusterError> {
        let selector: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut url = Url::of_kind(kind, namespace);
        if !selector.is_empty() {
            url = url.query("labelSelector", &selector.join(","));
        }
        let asked = Asked { verb: "list", kind, namespace, object: None, config: None, conditional: false };
        let end = Instant::now() + self.options.deadlines.list;
        let page = self.options.page;
        let mut objects = Vec::new();
        let mut next = url.clone().query("limit", &page.to_string());
        loop {
            let Some(Leaf { objects: more, version: _, token }) =
                self.leaf(&asked, &next, end, !objects.is_empty()).await?
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
            Some(namespace) if labels.is_empty() => self.seen.list(kind.group, kind.kind, namespace, &objects),
            Some(_) | None => objects.iter().for_each(|object| self.seen.object(object)),
        }
        Ok(objects)
    }
}

impl Inner {
    /// One page of a list; `None` when it goes on from one that has become too old to go on from.
    async fn leaf(
        &self,
        asked: &Asked<'_>,
        url: &Url,
        end: Instant,
        goes_on: bool,
    ) -> Result<Option<Leaf>, ClusterError> {
        let kind = asked.kind;
        let request = request::request(Method::GET, url, Payload::None, request::WHOLE)?;
        let answer = self.exchange(request, end.saturating_duration_since(Instant::now())).await?;
        if answer.status == StatusCode::GONE && goes_on {
            return Ok(None);
        }
        if !answer.status.is_success() {
            return Err(refusal::error(asked, &answer, &[]));
        }
        let Page { metadata, items } = answer.json(url)?;
        let items = items.unwrap_or_default().into_iter().map(|mut item| {
            if let Some(map) = item.as_object_mut() {
                // Items of a built-in kind do not say what they are.
                map.entry("apiVersion").or_insert_with(|| json!(kind.api_version()));
                map.entry("kind").or_insert_with(|| json!(kind.kind));
            }
            object_of(item, url)
        });
        Ok(Some(Leaf {
            objects: items.collect::<Result<_, _>>()?,
            version: metadata.resource_version,
            token: metadata.r#continue.filter(|token| !token.is_empty()),
        }))
    }
}

/// One page of a list.
struct Leaf {
    objects: Vec<Object>,
    /// The resource version of the whole list.
    version: String,
    /// Where the next page begins.
    token: Option<String>,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMetadata,
    items: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    r#continue: Option<String>,
    #[serde(rename = "resourceVersion", default)]
    resource_version: String,
}

impl Cluster for Kube {
    fn describe(&self) -> String {
        format!("Kubernetes cluster of {} ({})", self.inner.name, self.inner.server)
    }

    async fn platform(&self) -> Result<Platform, ClusterError> {
        let groups = self.inner.groups().await?;
        Ok(groups.map_or_else(Platform::default, |groups| Platform::of_groups(groups.iter().map(String::as_str))))
    }

    async fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Object>, ClusterError> {
        self.inner.list(kind, self.confined.within(namespace)?, labels).await
    }

    async fn get(&self, object: &ObjectRef) -> Result<Option<Object>, ClusterError> {
        self.confined.reach(&object.namespace)?;
        let (_, url) = place(object)?;
        let found = self.inner.read(object, request::WHOLE).await?;
        let found = found.map(|value| object_of(value, &url)).transpose()?;
        if let Some(found) = &found {
            self.inner.seen.object(found);
        }
        Ok(found)
    }

    async fn apply(&self, request: &ApplyRequest) -> Result<Applied, ClusterError> {
        self.confined.reach(request.object.namespace())?;
        self.inner.apply(request, self.fence.as_ref()).await
    }

    async fn delete(&self, object: &ObjectRef, preconditions: &Preconditions) -> Result<Deleted, ClusterError> {
        self.confined.reach(&object.namespace)?;
        self.inner.delete(object, preconditions, self.fence.as_ref()).await
    }

    async fn watch(&self, kinds: &[Kind], namespace: Option<&str>) -> Result<mpsc::Receiver<WatchEvent>, ClusterError> {
        watching::start(&self.inner, kinds, self.confined.within(namespace)?).await
    }
}
