//! Which kinds a cluster serves, and at which versions. Asked once; asked again after a kind turned out not to be there.

use super::refusal::{self, Asked};
use super::request::{self, Payload, Url};
use super::{Inner, Kube};
use crate::cluster::ClusterError;
use http::{Method, StatusCode};
use serde::Deserialize;
use stator_core::dynamo::kinds::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// The versions of each kind of one API group.
pub(super) type Served = BTreeMap<String, BTreeSet<String>>;

/// What was found out, by group.
#[derive(Debug, Default)]
pub(super) struct Discovered(Mutex<BTreeMap<String, Served>>);

/// What the list of groups is called when it is refused.
const GROUPS: Kind = Kind { group: "", version: "v1", kind: "APIGroup", plural: "apigroups", short: "apigroup" };

impl Discovered {
    fn groups(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Served>> {
        // Every change is one insert or one clear, so a panic elsewhere leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known may be old: something was not where it should be.
    pub(super) fn forget(&self) {
        self.groups().clear();
    }
}

#[derive(Deserialize)]
struct Groups {
    groups: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Group {
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

#[derive(Deserialize)]
struct Resources {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    kind: String,
}

impl Kube {
    /// The versions at which the cluster serves a kind, sorted; none when it does not.
    ///
    /// # Errors
    /// When the server does not say.
    pub async fn versions(&self, kind: &Kind) -> Result<BTreeSet<String>, ClusterError> {
        Ok(self.inner.served(kind).await?.get(kind.kind).cloned().unwrap_or_default())
    }
}

impl Inner {
    /// The names of the API groups that the cluster serves, `None` where the user may not ask. Asked every time: what is
    /// installed while a watch runs counts from then on.
    pub(super) async fn groups(&self) -> Result<Option<BTreeSet<String>>, ClusterError> {
        let found = match self.ask::<Groups>("get", &GROUPS, &Url::path("/apis")).await {
            Err(ClusterError::Forbidden { .. }) => None,
            other => other?,
        };
        Ok(found.map(|found| found.groups.into_iter().map(|group| group.name).collect()))
    }

    async fn served(&self, kind: &Kind) -> Result<Served, ClusterError> {
        if let Some(served) = self.discovered.groups().get(kind.group) {
            return Ok(served.clone());
        }
        let mut served = Served::new();
        let versions: Vec<String> = match kind.group {
            "" => vec![kind.version.to_owned()],
            group => {
                let found = self.ask::<Group>("get", kind, &Url::path("/apis").join(group)).await?;
                found.into_iter().flat_map(|group| group.versions).map(|version| version.version).collect()
            }
        };
        for version in versions {
            let url = match kind.group {
                "" => Url::path("/api").join(&version),
                group => Url::path("/apis").join(group).join(&version),
            };
            let resources = self.ask::<Resources>("get", kind, &url).await?.map(|found| found.resources);
            // `name/status` and the like are parts of a kind.
            for resource in resources.into_iter().flatten().filter(|resource| !resource.name.contains('/')) {
                served.entry(resource.kind).or_default().insert(version.clone());
            }
        }
        self.discovered.groups().insert(kind.group.to_owned(), served.clone());
        Ok(served)
    }

    /// One document of the discovery API, `None` where there is none.
    pub(super) async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        verb: &'static str,
        kind: &Kind,
        url: &Url,
    ) -> Result<Option<T>, ClusterError> {
        let request = request::request(Method::GET, url, Payload::None, request::WHOLE)?;
        let answer = self.exchange(request, self.options.deadlines.get).await?;
        if answer.status.is_success() {
            return answer.json(url).map(Some);
        }
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let asked = Asked { verb, kind, namespace: None, object: None, config: None, conditional: false };
        Err(refusal::error(&asked, &answer, &[]))
    }
}
