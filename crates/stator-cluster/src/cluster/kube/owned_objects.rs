//! What controllers made of objects: everything in a namespace that an owner reference leads to, whatever its kind.
//!
//! No list of kinds could be right, as operators bring their own. So every kind that the server serves and can list is
//! looked at, as metadata, and only what is below the asked-for objects is read whole.

use super::api_client::{self, ApiPayload, ApiUrl};
use super::api_error;
use super::connection::{KubeConnection, parse_object};
use super::kube_cluster::KubeCluster;
use crate::cluster::ClusterError;
use futures_util::{StreamExt as _, stream};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use stator_core::object::Object;
use stator_model::present::tree::{OwnedObject, UnlistedResource, uids_below};
use std::collections::BTreeSet;

/// Lists and reads at a time.
const MAX_CONCURRENT_CALLS: usize = 16;
/// Objects of one page.
const PAGE_SIZE: &str = "500";
/// The most objects of one kind that are looked at: beyond that the rest is reported as not looked at.
const MAX_OBJECTS_OF_KIND: usize = 20_000;
/// The most objects below the asked-for ones that are read whole; of others only the metadata is known.
const MAX_READS: usize = 500;

/// What was found below objects.
#[derive(Debug, Default)]
pub struct OwnedObjects {
    /// Everything below them.
    pub objects: Vec<OwnedObject>,
    /// Kinds that could not be looked at.
    pub unlisted: Vec<UnlistedResource>,
}

#[derive(Deserialize)]
struct GroupList {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    preferred_version: GroupVersion,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersion {
    group_version: String,
}

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    kind: String,
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Default, Deserialize)]
struct MetadataPage {
    #[serde(default)]
    metadata: PageMetadata,
    items: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    r#continue: Option<String>,
}

/// A kind of the server, at the version that it prefers.
struct ListableKind {
    /// `v1`, or `apps/v1`.
    group_version: String,
    resource: Resource,
}

impl ListableKind {
    /// `pods`, `deployments.apps`.
    fn rbac_name(&self) -> String {
        match self.group_version.split_once('/') {
            Some((group, _)) => format!("{}.{group}", self.resource.name),
            None => self.resource.name.clone(),
        }
    }

    fn url(&self, namespace: &str) -> ApiUrl {
        let (group, version) = self.group_version.split_once('/').unwrap_or(("", &self.group_version));
        ApiUrl::of(group, version, &self.resource.name, Some(namespace))
    }
}

/// Events own nothing and are many; what Secrets are there is nobody's business who asks for a tree.
fn is_looked_at(resource: &Resource) -> bool {
    resource.namespaced
        && !resource.name.contains('/')
        && !matches!(resource.name.as_str(), "events" | "secrets")
        && resource.verbs.iter().any(|verb| verb == "list")
}

impl KubeCluster {
    /// Everything in a namespace that is owned by objects of these uids, by what those own, and so on.
    ///
    /// # Errors
    /// When the server does not say which kinds it serves. A kind that cannot be listed is reported in the answer.
    pub async fn owned_objects(&self, namespace: &str, roots: &BTreeSet<String>) -> Result<OwnedObjects, ClusterError> {
        let namespace = self.restriction.resolve_namespace(Some(namespace))?.unwrap_or(namespace);
        let (kinds, mut unlisted) = self.inner.listable_kinds().await?;
        // Made first and driven then: a stream that makes them as it goes cannot be sent to another thread.
        let lists: Vec<_> = kinds.iter().map(|kind| self.inner.list_metadata(kind, namespace)).collect();
        let answers: Vec<_> = stream::iter(lists).buffered(MAX_CONCURRENT_CALLS).collect().await;
        let mut found: Vec<(OwnedObject, &ListableKind)> = Vec::new();
        for (kind, (objects, fault)) in kinds.iter().zip(answers) {
            found.extend(objects.into_iter().map(|object| (object, kind)));
            unlisted.extend(fault.map(|message| UnlistedResource { resource: kind.rbac_name(), message }));
        }
        let all: Vec<OwnedObject> = found.iter().map(|(object, _)| object.clone()).collect();
        let inside = uids_below(roots, &all);
        found.retain(|(object, _)| inside.contains(&object.uid) && !roots.contains(&object.uid));
        let (read, rest) = found.split_at(found.len().min(MAX_READS));
        let reads: Vec<_> = read.iter().map(|(object, kind)| self.inner.read_whole(object, kind)).collect();
        let mut objects: Vec<OwnedObject> = stream::iter(reads).buffered(MAX_CONCURRENT_CALLS).collect().await;
        objects.extend(rest.iter().map(|(object, _)| object.clone()));
        Ok(OwnedObjects { objects, unlisted })
    }
}

impl KubeConnection {
    /// The kinds of objects in namespaces that the server can list, and groups that do not answer: those of an extension
    /// whose server is away.
    async fn listable_kinds(&self) -> Result<(Vec<ListableKind>, Vec<UnlistedResource>), ClusterError> {
        let groups: GroupList = self.read_discovery(&ApiUrl::path("/apis")).await?;
        let versions = groups.groups.into_iter().map(|group| group.preferred_version.group_version);
        let versions: Vec<String> = std::iter::once("v1".to_owned()).chain(versions).collect();
        let reads: Vec<_> = versions.iter().map(|version| self.read_resources(version)).collect();
        let answers: Vec<_> = stream::iter(reads).buffered(MAX_CONCURRENT_CALLS).collect().await;
        let (mut kinds, mut unlisted) = (Vec::new(), Vec::new());
        for (group_version, answer) in versions.into_iter().zip(answers) {
            match answer {
                Ok(list) => kinds.extend(
                    list.resources
                        .into_iter()
                        .filter(is_looked_at)
                        .map(|resource| ListableKind { group_version: group_version.clone(), resource }),
                ),
                Err(error) => unlisted.push(UnlistedResource { resource: group_version, message: error.to_string() }),
            }
        }
        Ok((kinds, unlisted))
    }

    async fn read_resources(&self, group_version: &str) -> Result<ResourceList, ClusterError> {
        let url = match group_version.split_once('/') {
            Some((group, version)) => ApiUrl::path("/apis").join(group).join(version),
            None => ApiUrl::path("/api").join(group_version),
        };
        self.read_discovery(&url).await
    }

    async fn read_discovery<T: serde::de::DeserializeOwned>(&self, url: &ApiUrl) -> Result<T, ClusterError> {
        let request = api_client::build_request(Method::GET, url, ApiPayload::None, api_client::ACCEPT_JSON)?;
        let answer = self.send(request, self.options.deadlines.get).await?;
        if answer.status.is_success() {
            return answer.json(url);
        }
        Err(ClusterError::transient(&api_error::parse_status(&answer).message))
    }

    /// The metadata of every object of a kind, and why some of it is missing.
    async fn list_metadata(&self, kind: &ListableKind, namespace: &str) -> (Vec<OwnedObject>, Option<String>) {
        let mut objects = Vec::new();
        let mut next = kind.url(namespace).query("limit", PAGE_SIZE);
        loop {
            let page = match self.read_metadata_page(&next).await {
                Ok(Some(page)) => page,
                Ok(None) => return (objects, None),
                Err(error) => return (objects, Some(error.to_string())),
            };
            for mut item in page.items.unwrap_or_default() {
                // Of metadata alone the kind is not said.
                item["apiVersion"] = json!(kind.group_version);
                item["kind"] = json!(kind.resource.kind);
                objects.extend(Object::from_value(item).ok().map(|object| OwnedObject::of(&object, kind.rbac_name())));
            }
            match page.metadata.r#continue.filter(|token| !token.is_empty()) {
                Some(_) if objects.len() >= MAX_OBJECTS_OF_KIND => {
                    return (objects, Some(format!("there are more than {MAX_OBJECTS_OF_KIND}")));
                }
                Some(token) => next = kind.url(namespace).query("limit", PAGE_SIZE).query("continue", &token),
                None => return (objects, None),
            }
        }
    }

    /// One page; `None` where the kind is not served any more.
    async fn read_metadata_page(&self, url: &ApiUrl) -> Result<Option<MetadataPage>, ClusterError> {
        let request = api_client::build_request(Method::GET, url, ApiPayload::None, api_client::ACCEPT_METADATA_LIST)?;
        let answer = self.send(request, self.options.deadlines.list).await?;
        if answer.status.is_success() {
            return answer.json(url).map(Some);
        }
        if matches!(answer.status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) {
            return Ok(None);
        }
        Err(ClusterError::transient(&api_error::parse_status(&answer).message))
    }

    /// An object with its status; where it cannot be read, what its metadata said.
    async fn read_whole(&self, known: &OwnedObject, kind: &ListableKind) -> OwnedObject {
        let url = kind.url(&known.object.namespace).join(&known.object.name);
        let Ok(request) = api_client::build_request(Method::GET, &url, ApiPayload::None, api_client::ACCEPT_JSON)
        else {
            return known.clone();
        };
        match self.send(request, self.options.deadlines.get).await {
            Ok(answer) if answer.status.is_success() => {
                let whole = answer.json::<Value>(&url).and_then(|value| parse_object(value, &url));
                whole.map_or_else(|_| known.clone(), |object| OwnedObject::of(&object, known.resource.clone()))
            }
            Ok(_) | Err(_) => known.clone(),
        }
    }
}
