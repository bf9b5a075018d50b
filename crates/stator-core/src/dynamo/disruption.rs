//! What a change of an object disrupts, from its old and its new spec, and what Dynamo forbids in place.
//!
//! The facts are the operator's: one hash over all worker specs decides whether every worker of a graph is replaced,
//! and admission freezes the component set, the backend, the node topology and the topology constraints.

mod graph;
mod immutable_fields;

pub use super::admission::ChangeRemedy;
use super::admission::Platform;
use super::release::Release;
use crate::object::{FieldPath, Object};
use serde::Serialize;

/// What a change disrupts, from harmless to worst.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    schemars::JsonSchema,
    strum::Display,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Disruption {
    /// Nothing restarts.
    None,
    /// Adapters load or unload; nothing restarts.
    AdapterOnly,
    /// Replicas are added or removed; nothing restarts.
    Scale,
    /// Nothing restarts by itself: Grove updates a pod once somebody deletes it.
    OnDelete,
    /// The frontend is replaced in place.
    FrontendRoll,
    /// Every component restarts, one after the other unless the graph says otherwise, with surge pods beside those that
    /// run.
    RollingRestart,
    /// Every worker of the graph is replaced (one hash covers them all).
    ManagedRoll,
    /// Multinode workers are replaced by Grove or LeaderWorkerSet: capacity dips.
    NativeRoll,
    /// All pods stop before new ones start.
    Recreate,
    /// The object goes.
    Delete,
}

impl Disruption {
    /// Every class, from harmless to worst.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The word for it, in JSON and wherever people read it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A change of an object, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeImpact {
    /// What it disrupts when it is made in place; `Recreate` when only a replacement can make it.
    pub disruption: Disruption,
    /// What cannot be changed in place, sorted by path. Empty when the change is admitted.
    pub forbidden: Vec<ForbiddenChange>,
    /// What is worth knowing beside the class.
    pub notes: Vec<DisruptionNote>,
}

/// What a change does to running pods that its class does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisruptionNote {
    /// `spec.restart.id` is new, which restarts every component in place.
    RestartId {
        /// All at once (`spec.restart.strategy.type: Parallel`), and not one component after the other.
        is_parallel: bool,
    },
    /// Several worker components roll at once, as one hash covers them all.
    WorkersRoll {
        /// Their names, sorted.
        components: Vec<String>,
    },
}

impl ChangeImpact {
    fn new(disruption: Disruption) -> Self {
        Self { disruption, forbidden: Vec::new(), notes: Vec::new() }
    }

    fn with_forbidden(mut self, forbidden: Vec<ForbiddenChange>) -> Self {
        self.forbidden = forbidden;
        self.forbidden.sort();
        if !self.forbidden.is_empty() {
            self.disruption = Disruption::Recreate;
        }
        self
    }

    /// True when deleting and creating again would carry the change out.
    pub fn is_replaceable(&self) -> bool {
        !self.forbidden.is_empty() && self.forbidden.iter().all(|one| one.remedy == ChangeRemedy::Replace)
    }
}

/// A field that cannot be changed in place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForbiddenChange {
    /// The field.
    pub path: FieldPath,
    /// Why, in a sentence.
    pub message: String,
    /// What to do about it.
    pub remedy: ChangeRemedy,
}

/// Judges a change of one object, as the Dynamo of a platform makes it. Both must be of one kind and name.
pub fn classify_change(old: &Object, new: &Object, platform: &Platform) -> ChangeImpact {
    let release = platform.release();
    match new.kind() {
        "DynamoGraphDeployment" => graph::classify_graph_change(old, new, platform),
        "DynamoGraphDeploymentRequest" => {
            ChangeImpact::new(Disruption::None).with_forbidden(immutable_fields::forbidden_changes(old, new, release))
        }
        "DynamoModel" => classify_adapter_change(old, new, release),
        "PersistentVolumeClaim" => {
            ChangeImpact::new(Disruption::None).with_forbidden(immutable_fields::forbidden_claim_changes(old, new))
        }
        "ConfigMap" => {
            ChangeImpact::new(Disruption::None).with_forbidden(immutable_fields::forbidden_config_map_changes(old, new))
        }
        "Job" => ChangeImpact::new(Disruption::None).with_forbidden(immutable_fields::forbidden_job_changes(old, new)),
        "ResourceClaimTemplate" | "ComputeDomain" => {
            ChangeImpact::new(Disruption::None).with_forbidden(immutable_fields::forbidden_spec_changes(old, new))
        }
        _ => ChangeImpact::new(Disruption::None),
    }
}

/// In which order a restart takes the components of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestartOrder {
    /// One after the other, which is the default.
    Sequential,
    /// All at once.
    Parallel,
}

/// What creating an object disrupts.
pub fn of_create(object: &Object) -> Disruption {
    if object.kind() == "DynamoModel" { Disruption::AdapterOnly } else { Disruption::None }
}

/// What deleting an object disrupts.
pub fn of_delete(object: &Object) -> Disruption {
    match object.kind() {
        "DynamoModel" => Disruption::AdapterOnly,
        // They go once nothing mounts or claims them, and once what a Job downloaded is served.
        "ConfigMap" | "Job" | "ResourceClaimTemplate" | "ComputeDomain" => Disruption::None,
        _ => Disruption::Delete,
    }
}

/// An adapter that is made again only unloads and loads.
fn classify_adapter_change(old: &Object, new: &Object, release: Release) -> ChangeImpact {
    let class = if old.spec() == new.spec() { Disruption::None } else { Disruption::AdapterOnly };
    let mut judgement = ChangeImpact::new(class).with_forbidden(immutable_fields::forbidden_changes(old, new, release));
    judgement.disruption = class;
    judgement
}

#[cfg(test)]
mod tests;

pub(super) use graph::{PodRunner, is_worker, requested_restart, updates_on_delete, worker_disruption};
pub use graph::{hashed_version, rolled_components};
