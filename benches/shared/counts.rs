//! What the API server says that it was asked.
#![allow(dead_code, reason = "shared by benches, of which none uses all")]

use super::Fallible;
use std::collections::BTreeMap;
use std::fmt;

/// The API server's own counter of requests for what stator handles.
pub(crate) struct RequestCounter {
    client: kube::Client,
}

/// Requests by verb and resource: `apply of models/status`.
#[derive(Clone, Default)]
pub(crate) struct RequestCounts(BTreeMap<String, u64>);

const RESOURCES: &[&str] = &[
    "models",
    "syncjournals",
    "modelsources",
    "configmaps",
    "persistentvolumeclaims",
    "jobs",
    "dynamographdeployments",
    "dynamographdeploymentrequests",
    "dynamomodels",
    "pods",
    "namespaces",
    "secrets",
    "events",
];

/// What the stand-in for Dynamo's operator writes, and nobody else.
const OPERATORS: &str = "dynamographdeployments/status";

/// Verbs of requests that change something.
const WRITES: &[&str] = &["apply", "patch", "put", "post", "delete", "deletecollection"];

impl RequestCounter {
    pub(crate) fn of(client: kube::Client) -> Self {
        Self { client }
    }

    /// Requests since the server started.
    pub(crate) async fn now(&self) -> Fallible<RequestCounts> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let text = self.client.request_text(request).await?;
        let mut counted = RequestCounts::default();
        for line in text.lines().filter_map(|line| line.strip_prefix("apiserver_request_total{")) {
            let Some((labels, number)) = line.rsplit_once("} ") else { continue };
            let label = |name: &str| labels.split(&format!(",{name}=\"")).nth(1)?.split('"').next();
            let resource = label("resource").unwrap_or_default();
            let verb = label("verb").unwrap_or_default().to_lowercase();
            // The API server renews a lease of its own with PUT; stator patches its.
            let lease = resource == "leases" && verb == "patch";
            // The controllers of the control plane are at work as well; what they watch and list is not ours.
            let of_all = label("scope") == Some("cluster") && resource != "models";
            if !lease && (!RESOURCES.contains(&resource) || of_all) {
                continue;
            }
            let is_dry_run = label("dry_run").is_some_and(|value| !value.is_empty());
            let verb = if is_dry_run { "dry run".to_owned() } else { verb };
            let part = label("subresource").unwrap_or_default();
            let slash = if part.is_empty() { "" } else { "/" };
            *counted.0.entry(format!("{verb} of {resource}{slash}{part}")).or_default() +=
                number.parse::<f64>()? as u64;
        }
        Ok(counted)
    }
}

impl RequestCounts {
    /// What came in between.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let new = self
            .0
            .iter()
            .map(|(verb, count)| (verb.clone(), count.saturating_sub(before.0.get(verb).copied().unwrap_or_default())));
        Self(new.filter(|(_, count)| *count > 0).collect())
    }

    /// Without the operator's, and without leases, whose number says only how long it took.
    pub(crate) fn by_stator(&self) -> Self {
        let kept = self.0.iter().filter(|(what, _)| !what.ends_with(OPERATORS) && !what.ends_with("of leases"));
        Self(kept.map(|(what, count)| (what.clone(), *count)).collect())
    }

    /// How many there are.
    pub(crate) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// How many of them change something.
    pub(crate) fn writes(&self) -> u64 {
        let writes = |what: &str| what.split_once(" of ").is_some_and(|(verb, _)| WRITES.contains(&verb));
        self.0.iter().filter(|(what, _)| writes(what)).map(|(_, count)| count).sum()
    }
}

impl fmt::Display for RequestCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list: Vec<String> = self.0.iter().map(|(verb, count)| format!("{count} {verb}")).collect();
        f.write_str(&if list.is_empty() { "none".to_owned() } else { list.join(", ") })
    }
}
