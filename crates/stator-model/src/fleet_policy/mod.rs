//! What administrators allow the sources of tenants (`FleetPolicy`), held against what models render to.
//!
//! Pure: takes policies, what is known of a source, and rendered models; gives findings. Where policies come from is not
//! known here. Whatever cannot be read or known of a policy or a source counts against what is asked for.

mod binding;
mod compiled;
mod document;
pub mod export;
mod judge;
mod patterns;
mod pod_security;
mod pods;
mod quotas;
mod read;
mod references;
mod refusals;
pub mod rules;
#[cfg(test)]
mod tests;

pub use binding::{BoundPolicies, EarlierSource, FleetPolicies, JudgedSource, KeyVerdict, SourcePolicies};
pub use document::{
    FleetPolicy, FleetPolicyMetadata, FleetPolicySpec, ImagePolicy, PodException, PodPolicy, PolicyScope, Quotas,
    SignaturePolicy, custom_resource_definition,
};
pub use patterns::{AddressPattern, KeyPattern, KindName, NamePattern, SkuName, SourcePattern, VolumeKind};
pub use pod_security::{PodField, PodSecurityLevel};
pub use read::{read_policies, read_policy};
pub use refusals::ClosedWindows;
