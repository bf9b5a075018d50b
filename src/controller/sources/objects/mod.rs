//! Sources as `ModelSource` objects of a Kubernetes cluster: listed and watched, each decoded by itself, with the secrets
//! that they name, and distinguished from those of other controllers.

mod feed;
mod hint_annotation;
mod hint_relay;
mod namespace_claims;
mod object_reader;
mod object_store;
mod object_watch;
mod secret_reader;
mod source_index;
mod target_conflicts;

pub use feed::{FeedSettings, SourceFeed};
pub use namespace_claims::CLAIM_LEASE_NAME;
pub use object_store::{ModelSourceObject, ModelSourceStore};
pub(crate) use secret_reader::CREDENTIAL_LABEL;
pub use source_index::{ControllerRole, DesiredSources, RelayedSource};

use ::kube::api::{ApiResource, DynamicObject};
use ::kube::{Api, Client};
pub use stator_git::source::model_source::crd::MODEL_SOURCE;

/// The field manager of what a controller writes to sources and leases, statuses included.
pub(in crate::controller) const CONTROLLER_FIELD_MANAGER: &str = "stator-controller";

/// The `ModelSource` objects of a namespace, for calls that [`KubeCluster`](stator_cluster::cluster::kube::KubeCluster)
/// does not have.
pub(crate) fn model_source_api(client: Client, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: MODEL_SOURCE.group.to_owned(),
        version: MODEL_SOURCE.version.to_owned(),
        api_version: MODEL_SOURCE.api_version(),
        kind: MODEL_SOURCE.kind.to_owned(),
        plural: MODEL_SOURCE.plural.to_owned(),
    };
    Api::namespaced_with(client, namespace, &resource)
}
