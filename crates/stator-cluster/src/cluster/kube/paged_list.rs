//! Lists, page by page and consistent: where the first page has become too old to go on from, everything is asked for at
//! once.

use super::api_client::{self, ApiPayload, ApiUrl};
use super::api_error::{self, ApiCall};
use super::connection::{KubeConnection, parse_object};
use crate::cluster::ClusterError;
use http::{Method, StatusCode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use serde::Deserialize;
use serde_json::json;
use stator_core::dynamo::kinds::ObjectKind;
use stator_core::fields::PackedObject;
use stator_core::object::{Object, ObjectText};
use std::collections::BTreeMap;
use tokio::time::Instant;

/// What comes of a list while its pages do.
pub(super) enum ListProgress {
    /// A list begins, as of that resource version. Objects of one that began before are none of it.
    Started(String),
    /// The objects of one page.
    Page(Vec<Object>),
}

/// The objects that carry all the labels, sorted by reference.
pub(super) async fn list_objects(
    inner: &KubeConnection,
    kind: &ObjectKind,
    namespace: Option<&str>,
    labels: &BTreeMap<String, String>,
) -> Result<Vec<Object>, ClusterError> {
    let mut objects = Vec::new();
    let collect = |progress: ListProgress| match progress {
        ListProgress::Started(_) => objects.clear(),
        ListProgress::Page(page) => objects.extend(page),
    };
    list_pages(inner, kind, namespace, labels, collect).await?;
    objects.sort_by_cached_key(Object::reference);
    Ok(objects)
}

/// The same as texts: no more than one page of objects is there at a time.
pub(super) async fn list_texts(
    inner: &KubeConnection,
    kind: &ObjectKind,
    namespace: Option<&str>,
    labels: &BTreeMap<String, String>,
) -> Result<Vec<ObjectText>, ClusterError> {
    let mut texts: Vec<ObjectText> = Vec::new();
    let collect = |progress: ListProgress| match progress {
        ListProgress::Started(_) => texts.clear(),
        ListProgress::Page(page) => texts.extend(page.into_iter().map(ObjectText::from)),
    };
    list_pages(inner, kind, namespace, labels, collect).await?;
    texts.sort_by(|one, other| one.reference().cmp(other.reference()));
    Ok(texts)
}

/// Lists with one page in memory at a time. Gives the resource version that the list is of.
pub(super) async fn list_pages(
    inner: &KubeConnection,
    kind: &ObjectKind,
    namespace: Option<&str>,
    labels: &BTreeMap<String, String>,
    mut handle: impl FnMut(ListProgress) + Send,
) -> Result<String, ClusterError> {
    let url = select_labels(ApiUrl::of_kind(kind, namespace), labels);
    let limit = inner.options.page_size.to_string();
    let end = Instant::now() + inner.options.deadlines.list;
    let mut next = url.clone().query("limit", &limit);
    let mut started: Option<String> = None;
    loop {
        let Some(page) = read_page(inner, kind, namespace, &next, end, started.is_some()).await? else {
            (next, started) = (url.clone(), None);
            continue;
        };
        if started.is_none() {
            handle(ListProgress::Started(page.resource_version.clone()));
            started = Some(page.resource_version);
        }
        page.objects.iter().for_each(|object| inner.versions.insert_object(object));
        handle(ListProgress::Page(page.objects));
        match page.continue_token {
            Some(token) => next = url.clone().query("limit", &limit).query("continue", &token),
            None => break,
        }
    }
    if let Some(namespace) = namespace.filter(|_| labels.is_empty()) {
        inner.versions.mark_list_complete(kind.group, kind.kind, namespace);
    }
    Ok(started.unwrap_or_default())
}

/// The address of those that carry all the labels.
pub(super) fn select_labels(url: ApiUrl, labels: &BTreeMap<String, String>) -> ApiUrl {
    let selector: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if selector.is_empty() { url } else { url.query("labelSelector", &selector.join(",")) }
}

/// The resource version that everything of a kind stands at.
pub(super) async fn latest_resource_version(
    inner: &KubeConnection,
    kind: &ObjectKind,
    namespace: Option<&str>,
) -> Result<String, ClusterError> {
    let url = ApiUrl::of_kind(kind, namespace).query("limit", "1");
    let request = api_client::build_request(Method::GET, &url, ApiPayload::None, api_client::ACCEPT_METADATA_LIST)?;
    let answer = inner.send(request, inner.options.deadlines.list).await?;
    if !answer.status.is_success() {
        return Err(api_error::to_cluster_error(&ApiCall::on_kind("list", kind, namespace), &answer, &[]));
    }
    Ok(answer.json::<RawListPage>(&url)?.metadata.resource_version.unwrap_or_default())
}

/// One page of a list; `None` when it goes on from one that has become too old to go on from.
async fn read_page(
    inner: &KubeConnection,
    kind: &ObjectKind,
    namespace: Option<&str>,
    url: &ApiUrl,
    end: Instant,
    continues: bool,
) -> Result<Option<ListPage>, ClusterError> {
    let request = api_client::build_request(Method::GET, url, ApiPayload::None, api_client::ACCEPT_JSON)?;
    let answer = inner.send(request, end.saturating_duration_since(Instant::now())).await?;
    if answer.status == StatusCode::GONE && continues {
        return Ok(None);
    }
    if !answer.status.is_success() {
        return Err(api_error::to_cluster_error(&ApiCall::on_kind("list", kind, namespace), &answer, &[]));
    }
    let RawListPage { metadata, items } = answer.json(url)?;
    let items = items.unwrap_or_default().into_iter().map(|PackedObject(mut item)| {
        if let Some(map) = item.as_object_mut() {
            // Items of a built-in kind do not say what they are.
            map.entry("apiVersion").or_insert_with(|| json!(kind.api_version()));
            map.entry("kind").or_insert_with(|| json!(kind.kind));
        }
        parse_object(item, url)
    });
    Ok(Some(ListPage {
        objects: items.collect::<Result<_, _>>()?,
        resource_version: metadata.resource_version.unwrap_or_default(),
        continue_token: metadata.continue_.filter(|token| !token.is_empty()),
    }))
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
    items: Option<Vec<PackedObject>>,
}
