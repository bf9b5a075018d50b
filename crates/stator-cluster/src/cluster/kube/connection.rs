//! The connection to one API server, and reads and writes of single objects through it.
//! What discovery found out of the server is kept with it.

use super::api_client::{self, ApiPayload, ApiResponse, ApiUrl};
use super::api_error::{self, ApiCall};
use super::connect::ConnectOptions;
use super::connection_gate::ConnectionGate;
use super::request_observer::ObserverSlot;
use super::resource_versions::{KnownVersion, ResourceVersionCache, equal_ignoring_times, infer_outcome};
use crate::cluster::{ApplyOutcome, ApplyRequest, ApplyResponse, ClusterError, DeleteOutcome, Fence, Preconditions};
use ::kube::Client;
use ::kube::client::Body;
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::dynamo::release::Definitions;
use stator_core::fields::{self, FieldManager, PackedObject};
use stator_core::object::{Object, ObjectRef};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// What clones of a cluster share: the connection, and what was learnt through it.
pub(super) struct KubeConnection {
    pub(super) client: Client,
    /// The server's address, as messages name it.
    pub(super) server: String,
    /// What the cluster is called.
    pub(super) name: String,
    pub(super) options: ConnectOptions,
    pub(super) observer: ObserverSlot,
    pub(super) gate: Arc<ConnectionGate>,
    pub(super) versions: ResourceVersionCache,
    pub(super) discovery: DiscoveryCache,
    /// The definitions that the cluster served when they were last read.
    pub(super) definitions: Mutex<Option<Definitions>>,
}

/// The kind of an object, and the URL of the object.
pub(super) fn resolve_object(object: &ObjectRef) -> Result<(&'static ObjectKind, ApiUrl), ClusterError> {
    let version = object.api_version.rsplit('/').next().unwrap_or_default();
    let kind = kinds::by_name(&object.kind).filter(|kind| kind.group == object.group()).ok_or_else(|| {
        ClusterError::UnknownKind { api_version: object.api_version.clone(), kind: object.kind.clone() }
    })?;
    let url = ApiUrl::of(kind.group, version, kind.plural, Some(&object.namespace)).join(&object.name);
    Ok((kind, url))
}

/// An object as the server gave it.
pub(super) fn parse_object(value: Value, url: &ApiUrl) -> Result<Object, ClusterError> {
    Object::from_value(value).map_err(|error| api_client::malformed_response(url, &error))
}

/// How an apply is checked. `Strict` only looks for keys that are there twice, for which the server reads the body a second
/// time; unknown fields are refused either way. Records are many and stator's own, written from maps.
fn field_validation(kind: &ObjectKind) -> &'static str {
    if *kind == kinds::RECORD { "Ignore" } else { "Strict" }
}

impl KubeConnection {
    pub(super) async fn send(&self, request: Request<Body>, deadline: Duration) -> Result<ApiResponse, ClusterError> {
        let answer = api_client::send_request(&self.client, &self.server, request, deadline).await?;
        if answer.status == StatusCode::NOT_FOUND {
            // Rather than an object it may be the kind that is gone, or not known yet.
            self.discovery.invalidate();
        }
        Ok(answer)
    }

    /// A write: sent if the fence holds, and not sent any more once it does not.
    pub(super) async fn send_write(
        &self,
        request: Request<Body>,
        fence: Option<&Fence>,
    ) -> Result<ApiResponse, ClusterError> {
        let exchange = self.send(request, self.options.deadlines.write);
        match fence {
            Some(fence) => {
                let _write = self.gate.begin_write(fence);
                fence.guard(exchange).await
            }
            None => exchange.await,
        }
    }

    /// One object in one of its forms, `None` when there is none of that name.
    pub(super) async fn read_object(&self, object: &ObjectRef, form: &str) -> Result<Option<Value>, ClusterError> {
        let (kind, url) = resolve_object(object)?;
        let request = api_client::build_request(Method::GET, &url, ApiPayload::None, form)?;
        let answer = self.send(request, self.options.deadlines.get).await?;
        if answer.status.is_success() {
            return answer.json(&url).map(|PackedObject(value)| Some(value));
        }
        if api_error::is_absent(&api_error::parse_status(&answer), object) {
            self.versions.insert_absent(object.identity());
            return Ok(None);
        }
        Err(api_error::to_cluster_error(&ApiCall::on_object("get", kind, object), &answer, &[]))
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

    pub(super) async fn apply(
        &self,
        request: &ApplyRequest,
        fence: Option<&Fence>,
    ) -> Result<ApplyResponse, ClusterError> {
        let reference = request.object.reference();
        let (kind, url) = resolve_object(&reference)?;
        if let Some(transfer) = request.transfer.as_ref().filter(|_| !request.dry_run) {
            self.transfer_ownership(&reference, transfer, &request.manager, fence).await?;
        }
        let url = if request.status { url.join("status") } else { url };
        let takes_by_force = request.dry_run && request.transfer.is_some();
        let mut url = url
            .query("fieldManager", &request.manager)
            .query("force", if request.force || takes_by_force { "true" } else { "false" })
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
            let asked = ApiCall { config: Some(config), conditional, ..ApiCall::on_object("patch", kind, &reference) };
            return Err(api_error::to_cluster_error(&asked, &answer, &managers));
        }
        let PackedObject(object) = answer.json(&url)?;
        let object = parse_object(object, &url)?;
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

    pub(super) async fn delete(
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
            let asked = ApiCall { conditional, ..ApiCall::on_object("delete", kind, object) };
            return Err(api_error::to_cluster_error(&asked, &answer, &[]));
        }
        let PackedObject(value) = answer.json(&url)?;
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
}

/// The versions of each kind of one API group.
pub(super) type ServedVersions = BTreeMap<String, BTreeSet<String>>;

/// What was found out, by group.
#[derive(Debug, Default)]
pub(super) struct DiscoveryCache(Mutex<BTreeMap<String, ServedVersions>>);

impl DiscoveryCache {
    pub(super) fn groups(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, ServedVersions>> {
        // Every change is one insert or one clear, so a panic elsewhere leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known may be old: something was not where it should be.
    pub(super) fn invalidate(&self) {
        self.groups().clear();
    }
}
