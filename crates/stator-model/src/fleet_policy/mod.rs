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

/// The rules that administrators' policies judge by.
pub mod rules {
    stator_core::rules! {
        UNREADABLE = "fleet/unreadable", "A policy of the administrators can be read; while one cannot, nothing is written.";
        DESTINATION = "fleet/destination", "Objects are written to a namespace that the policy allows.";
        REPOSITORY = "fleet/repository", "A source follows a repository that the policy allows.";
        SIGNATURE = "fleet/signature", "A commit is signed by a key of the policy where the policy requires signatures.";
        WINDOW = "fleet/window", "A sync runs while the windows of the policy let one in.";
        KIND = "fleet/kind", "A model has objects of kinds that the policy allows.";
        IMAGE = "fleet/image", "Images come from where the policy allows, and by digest where it requires that.";
        SERVICE_ACCOUNT = "fleet/service-account", "Pods name service accounts that the policy allows.";
        SECRET = "fleet/secret", "A model names Secrets that the policy allows.";
        POD = "fleet/pod", "Pods comply with the level of the Pod Security Standards that the policy sets.";
        CLAIM_SIZE = "fleet/claim-size", "A claim is no larger than the policy allows.";
        QUOTA = "fleet/quota", "Together, the models of a source take no more than the policy allows, and a namespace has no more sources.";
        EXPRESSION = "fleet/expression", "A model complies with the policy's rules in CEL.";
        DOCUMENT = "fleet/document", "A file of policies has `FleetPolicy` documents with names of their own.";
    }
}
