//! How requests of a gateway reach a model.

use crate::intent::scalar::{DnsName, Hostname, ModelName, RoutePath, RouteTimeout, VolumeName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// HTTP requests of a gateway to route to the model: becomes an HTTPRoute of the Gateway API, applied once the graph is
/// Healthy. They go to the graph's frontend, or to the InferencePool of its endpoint picker if it has one.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Route {
    /// The Gateway that takes the requests.
    pub gateway: RouteGateway,
    /// The hosts that clients ask for: `chat.example.com`, `*.example.com`. Defaults to those of the gateway's listeners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub hostnames: Vec<Hostname>,
    /// Path prefix of the HTTP requests. Defaults to `/`.
    pub path: Option<RoutePath>,
    /// Timeout of an HTTP request, including its whole answer: `300s`. Defaults to the gateway's.
    pub timeout: Option<RouteTimeout>,
    /// A share of the requests that goes to another model.
    pub canary: Option<RouteCanary>,
}

/// The Gateway of a route, as in `parentRefs` of an HTTPRoute.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteGateway {
    /// The Gateway's name.
    pub name: DnsName,
    /// Its namespace. Defaults to the environment's.
    pub namespace: Option<VolumeName>,
    /// Its listener. Defaults to all listeners that accept the hosts.
    pub section_name: Option<DnsName>,
}

/// Another model that gets a share of the requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteCanary {
    /// The other model, of the same environment.
    #[schemars(extend("x-stator-refers-to" = "model"))]
    pub model: ModelName,
    /// Percentage of the HTTP requests that go to it; the others go to this model.
    #[schemars(range(min = 0, max = 100))]
    pub weight: u32,
}

impl Route {
    /// What the paths of the requests begin with.
    pub fn path(&self) -> &str {
        self.path.as_ref().map_or("/", RoutePath::as_str)
    }
}
