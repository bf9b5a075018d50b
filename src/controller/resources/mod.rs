//! Sources as `ModelSource` objects of a Kubernetes cluster: listed and watched, each decoded by itself, with the secrets
//! that they name, and told from those of other controllers.

mod book;
mod feed;
mod follow;
mod markers;
mod note;
mod reading;
mod relay;
mod resource;
mod secrets;

pub use book::{Relayed, Role, Wanted};
pub use feed::{Feed, Settings};
pub use markers::MARKER;
pub use resource::{Resource, Resources};

use stator_core::dynamo::kinds::Kind;

/// `ModelSource`.
pub const MODEL_SOURCE: Kind =
    Kind { group: "stator.dev", version: "v1alpha1", kind: "ModelSource", plural: "modelsources", short: "msrc" };

/// The field manager of what stator writes to its own sources and leases.
pub const FIELD_MANAGER: &str = "stator-controller";
