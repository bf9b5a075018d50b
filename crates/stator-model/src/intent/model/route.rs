//! How requests of a gateway reach a model.

use crate::intent::scalar::{DnsName, Hostname, ModelName, RoutePath, RouteTimeout, VolumeName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Which requests of a gateway go to the model: becomes an HTTPRoute of the Gateway API, applied once the graph is Healthy.
/// They go to the graph's frontend, or to the InferencePool of its endpoint picker where it has one.
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
    /// What the paths of the requests begin with. Defaults to `/`.
    pub path: Option<RoutePath>,
    /// How long a request may take, the whole of its answer included: `300s`. Defaults to what the gateway allows.
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
    /// The listener of it. Defaults to all that take the hosts.
    pub section_name: Option<DnsName>,
}

/// Another model that gets a share of the requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteCanary {
    /// The other model, of the same environment.
    #[schemars(extend("x-stator-refers-to" = "model"))]
    pub model: ModelName,
    /// How many of 100 requests go to it; the others go to this model.
    #[schemars(range(min = 0, max = 100))]
    pub weight: u32,
}

impl Route {
    /// What the paths of the requests begin with.
    pub fn path(&self) -> &str {
        self.path.as_ref().map_or("/", RoutePath::as_str)
    }
}
