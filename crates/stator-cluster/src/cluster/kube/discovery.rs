//! Which kinds a cluster serves, and at which versions. Asked once; asked again after a kind turned out not to be there.

use super::api_client::{self, ACCEPT_JSON, ApiPayload, ApiUrl};
use super::api_error::{self, ApiCall};
use super::connection::{KubeConnection, ServedVersions};
use super::kube_cluster::KubeCluster;
use crate::cluster::ClusterError;
use http::{Method, StatusCode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIGroupList, APIResourceList};
use stator_core::dynamo::kinds::ObjectKind;
use std::collections::BTreeSet;

/// What the list of groups is called when it is refused.
const API_GROUPS: ObjectKind =
    ObjectKind { group: "", version: "v1", kind: "APIGroup", plural: "apigroups", short: "apigroup" };

impl KubeCluster {
    /// The versions at which the cluster serves a kind, sorted; none when it does not.
    ///
    /// # Errors
    /// When the server does not say.
    pub async fn served_versions(&self, kind: &ObjectKind) -> Result<BTreeSet<String>, ClusterError> {
        Ok(self.inner.served_kinds(kind).await?.get(kind.kind).cloned().unwrap_or_default())
    }
}

impl KubeConnection {
    /// The names of the API groups that the cluster serves, `None` where the user may not ask. Asked every time: what is
    /// installed while a watch runs counts from then on.
    pub(super) async fn api_groups(&self) -> Result<Option<BTreeSet<String>>, ClusterError> {
        let found =
            match self.get_document::<APIGroupList>("get", &API_GROUPS, &ApiUrl::path("/apis"), ACCEPT_JSON).await {
                Err(ClusterError::Forbidden { .. }) => None,
                other => other?,
            };
        Ok(found.map(|found| found.groups.into_iter().map(|group| group.name).collect()))
    }

    async fn served_kinds(&self, kind: &ObjectKind) -> Result<ServedVersions, ClusterError> {
        if let Some(served) = self.discovery.groups().get(kind.group) {
            return Ok(served.clone());
        }
        let mut served = ServedVersions::new();
        let versions: Vec<String> = match kind.group {
            "" => vec![kind.version.to_owned()],
            group => {
                let found =
                    self.get_document::<APIGroup>("get", kind, &ApiUrl::path("/apis").join(group), ACCEPT_JSON).await?;
                found.into_iter().flat_map(|group| group.versions).map(|version| version.version).collect()
            }
        };
        for version in versions {
            let url = match kind.group {
                "" => ApiUrl::path("/api").join(&version),
                group => ApiUrl::path("/apis").join(group).join(&version),
            };
            let resources = self
                .get_document::<APIResourceList>("get", kind, &url, ACCEPT_JSON)
                .await?
                .map(|found| found.resources);
            // `name/status` and the like are parts of a kind.
            for resource in resources.into_iter().flatten().filter(|resource| !resource.name.contains('/')) {
                served.entry(resource.kind).or_default().insert(version.clone());
            }
        }
        self.discovery.groups().insert(kind.group.to_owned(), served.clone());
        Ok(served)
    }

    /// One document, in the form that is asked for; `None` where there is none.
    pub(super) async fn get_document<T: serde::de::DeserializeOwned>(
        &self,
        verb: &'static str,
        kind: &ObjectKind,
        url: &ApiUrl,
        accept: &str,
    ) -> Result<Option<T>, ClusterError> {
        let request = api_client::build_request(Method::GET, url, ApiPayload::None, accept)?;
        let answer = self.send(request, self.options.deadlines.get).await?;
        if answer.status.is_success() {
            return answer.json(url).map(Some);
        }
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        Err(api_error::to_cluster_error(&ApiCall::on_kind(verb, kind, None), &answer, &[]))
    }
}
