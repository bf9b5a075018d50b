//! Sources as `ModelSource` objects of a Kubernetes cluster: listed and watched, each decoded by itself, with the secrets
//! that they name, and told from those of other controllers.

mod feed;
mod hint_annotation;
mod hint_relay;
mod namespace_claims;
mod object_reader;
mod object_store;
mod object_watch;
mod secret_reader;
mod source_index;

pub use feed::{FeedSettings, SourceFeed};
pub use namespace_claims::CLAIM_LEASE_NAME;
pub use object_store::{ModelSourceObject, ModelSourceStore};
pub use source_index::{ControllerRole, DesiredSources, RelayedSource};

use stator_core::dynamo::kinds::ObjectKind;

/// `ModelSource`.
pub const MODEL_SOURCE: ObjectKind =
    ObjectKind { group: "stator.dev", version: "v1alpha1", kind: "ModelSource", plural: "modelsources", short: "msrc" };

/// The field manager of what stator writes to its own sources and leases.
pub const FIELD_MANAGER: &str = "stator-controller";
