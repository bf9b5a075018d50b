//! Where a model is reached, and where else it is shown.

use crate::observation::FoundModel;
use crate::query_string;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use stator_core::dynamo::addresses::{FRONTEND_PORT_NUMBER, GraphAddress, graph_addresses};
use stator_core::dynamo::kinds::HTTP_ROUTE;
use stator_core::object::{Object, ObjectText};

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
    let values = values.each_ref().map(String::as_str);
    found.links.iter().map(|link| LinkView { title: link.title.clone(), url: link.filled(values) }).collect()
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
    use crate::link_template::LinkTemplate;
    use crate::observation::FleetObservation;
    use crate::samples;
    use serde_json::json;

    #[test]
    fn a_link_names_the_model() {
        let text = "Grafana=https://grafana.example.com/d/1?var-ns={namespace}&var-model={name}&env={environment}";
        let link: LinkTemplate = text.parse().unwrap();
        let mut facts = samples::fleet().facts;
        facts.links = [link].into();
        let observation = FleetObservation::new(1, samples::now(), facts);
        let found = observation.model("prod", "llama").unwrap();
        let links = links(&found);
        assert_eq!(links[0].title, "Grafana");
        assert_eq!(links[0].url, "https://grafana.example.com/d/1?var-ns=prod&var-model=llama&env=prod");
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
