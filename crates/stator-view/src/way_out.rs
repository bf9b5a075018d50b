//! Where a model is reached, and where else it is shown.

use crate::observation::FoundModel;
use crate::query_string;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use stator_core::dynamo::addresses::{FRONTEND_PORT_NUMBER, GraphAddress, graph_addresses};
use stator_core::dynamo::kinds::HTTP_ROUTE;
use stator_core::object::{Object, ObjectText};
use std::str::FromStr;
use url::Url;

/// What a template may name of a model.
const PLACEHOLDERS: [&str; 4] = ["{namespace}", "{name}", "{environment}", "{source}"];

/// A link of every model's page to another tool, such as a dashboard of Grafana.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTemplate {
    title: String,
    url: String,
}

impl FromStr for LinkTemplate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (title, url) = text
            .split_once('=')
            .ok_or("write TITLE=URL, such as Grafana=https://grafana.example.com/d/1?var-model={name}")?;
        if title.trim().is_empty() {
            return Err("the title before the `=` is empty".to_owned());
        }
        let filled = PLACEHOLDERS.iter().fold(url.to_owned(), |url, one| url.replace(one, "x"));
        if filled.contains(['{', '}']) {
            return Err(format!("use only {} in the URL", PLACEHOLDERS.join(", ")));
        }
        let parsed = Url::parse(&filled).map_err(|error| format!("it is not a URL: {error}"))?;
        // A name of a model never says which host is opened.
        let is_plain = parsed.username().is_empty() && parsed.password().is_none();
        let host = url.split('/').nth(2).unwrap_or_default();
        match parsed.scheme() {
            "https" | "http" if is_plain && !host.contains('{') => {
                Ok(Self { title: title.trim().to_owned(), url: url.to_owned() })
            }
            "https" | "http" => Err("write a host without a user, a password or a placeholder".to_owned()),
            _ => Err("it must begin with https:// or http://".to_owned()),
        }
    }
}

/// A link to another tool that shows the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Link")]
pub struct LinkView {
    /// What is there.
    pub title: String,
    /// The address.
    pub url: String,
}

/// An address at which clients reach a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Endpoint")]
pub struct EndpointView {
    /// The address; without a scheme where only the gateway knows it.
    pub url: String,
    /// The object that gives it: `HTTPRoute llama`, `Service llama-frontend`.
    pub object: String,
    /// Whether only pods of the cluster reach it.
    pub in_cluster: bool,
}

/// The links of a model to other tools.
pub(crate) fn links(found: &FoundModel<'_>) -> Vec<LinkView> {
    let status = &found.model.status;
    let environment = found.source.environment.clone().unwrap_or_default();
    let label = found.source.label();
    let values = [&status.namespace, &status.name, &environment, &label].map(|value| query_string::encode(value));
    let fill = |url: &str| {
        PLACEHOLDERS.iter().zip(&values).fold(url.to_owned(), |url, (name, value)| url.replace(name, value))
    };
    found.links.iter().map(|link| LinkView { title: link.title.clone(), url: fill(&link.url) }).collect()
}

/// Where clients reach a model: its routes, and the frontends of its graphs.
pub(crate) fn endpoints(found: &FoundModel<'_>) -> Vec<EndpointView> {
    let live = || found.model.live.iter().filter(|_| found.details.objects);
    let routes = live().filter(|one| one.kind() == HTTP_ROUTE.kind).map(ObjectText::parse);
    let mut endpoints: Vec<EndpointView> = routes.flat_map(|route| route_endpoints(&route)).collect();
    for graph in found.model.graphs().filter(|_| found.details.objects) {
        for address in graph_addresses(&graph) {
            let GraphAddress::FrontendService(name) = address else { continue };
            let url = format!("http://{name}.{}.svc:{FRONTEND_PORT_NUMBER}/v1", graph.namespace());
            endpoints.push(EndpointView { url, object: format!("Service {name}"), in_cluster: true });
        }
    }
    endpoints
}

fn route_endpoints(route: &Object) -> Vec<EndpointView> {
    let texts = |pointer: &str| -> Vec<String> {
        let list = route.value().pointer(pointer).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)).collect()
    };
    let path = route.str_at("/spec/rules/0/matches/0/path/value").unwrap_or("/").trim_end_matches('/').to_owned();
    // A listener is named by whoever runs the gateway; only these two names say which protocol it speaks.
    let scheme = match route.str_at("/spec/parentRefs/0/sectionName") {
        Some(section) if section.contains("https") => "https://",
        Some("http") => "http://",
        Some(_) | None => "",
    };
    let hosts = texts("/spec/hostnames").into_iter();
    let object = format!("{} {}", route.kind(), route.name());
    hosts
        .map(|host| EndpointView { url: format!("{scheme}{host}{path}/v1"), object: object.clone(), in_cluster: false })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::FleetObservation;
    use crate::samples;
    use serde_json::json;

    #[test]
    fn a_link_names_the_model_and_never_chooses_the_host() {
        let text = "Grafana=https://grafana.example.com/d/1?var-ns={namespace}&var-model={name}&env={environment}";
        let link: LinkTemplate = text.parse().unwrap();
        let mut facts = samples::fleet().facts;
        facts.links = [link].into();
        let observation = FleetObservation::new(1, samples::now(), facts);
        let found = observation.model("prod", "llama").unwrap();
        let links = links(&found);
        assert_eq!(links[0].title, "Grafana");
        assert_eq!(links[0].url, "https://grafana.example.com/d/1?var-ns=prod&var-model=llama&env=prod");
        for (text, why) in [
            ("Grafana", "write TITLE=URL"),
            ("=https://a.example", "the title"),
            ("a=javascript:alert(1)", "it must begin with"),
            ("a=https://{name}.example.com/", "placeholder"),
            ("a=https://u:p@example.com/", "without a user"),
            ("a=https://example.com/{model}", "use only {namespace}"),
            ("a=nothing", "not a URL"),
        ] {
            let refused = text.parse::<LinkTemplate>().unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn a_route_says_its_host_and_only_the_scheme_that_it_knows() {
        let route = |section: Option<&str>| {
            let mut value = json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                "metadata": {"name": "chat", "namespace": "prod"},
                "spec": {
                    "parentRefs": [{"name": "public"}], "hostnames": ["chat.example.com"],
                    "rules": [{"matches": [{"path": {"type": "PathPrefix", "value": "/llama"}}]}],
                },
            });
            if let Some(section) = section {
                value["spec"]["parentRefs"][0]["sectionName"] = json!(section);
            }
            route_endpoints(&Object::from_value(value).unwrap()).remove(0).url
        };
        assert_eq!(route(None), "chat.example.com/llama/v1");
        assert_eq!(route(Some("https-public")), "https://chat.example.com/llama/v1");
        assert_eq!(route(Some("http")), "http://chat.example.com/llama/v1");
    }
}
