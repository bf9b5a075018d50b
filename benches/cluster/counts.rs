//! What the API server says that it was asked.

use super::Fallible;
use std::collections::BTreeMap;
use std::fmt;

/// The API server's own counter of requests for what stator handles.
pub(crate) struct RequestCounter {
    client: kube::Client,
}

/// Requests by verb and resource.
#[derive(Default)]
pub(crate) struct RequestCounts(BTreeMap<String, u64>);

const RESOURCES: &[&str] = &[
    "models",
    "configmaps",
    "persistentvolumeclaims",
    "jobs",
    "dynamographdeployments",
    "dynamographdeploymentrequests",
    "dynamomodels",
    "pods",
    "namespaces",
];

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
            let label = |name: &str| labels.split(&format!("{name}=\"")).nth(1)?.split('"').next();
            let resource = label("resource").unwrap_or_default();
            // The controllers of the control plane are at work as well; what they watch and list is not ours.
            if !RESOURCES.contains(&resource) || (label("scope") == Some("cluster") && resource != "models") {
                continue;
            }
            let verb = label("verb").unwrap_or_default().to_lowercase();
            *counted.0.entry(format!("{verb} of {resource}")).or_default() += number.parse::<f64>()? as u64;
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
}

impl fmt::Display for RequestCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list: Vec<String> = self.0.iter().map(|(verb, count)| format!("{count} {verb}")).collect();
        f.write_str(&if list.is_empty() { "none".to_owned() } else { list.join(", ") })
    }
}
