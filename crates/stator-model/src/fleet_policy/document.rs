//! `FleetPolicy`: what administrators allow the sources of tenants.
//! Its custom resource definition is generated from the types here.

use super::patterns::{AddressPattern, KeyPattern, KindName, NamePattern, SkuName, SourcePattern, VolumeKind};
use super::pod_security::{PodField, PodSecurityLevel};
use crate::intent::model::ApiVersion;
use crate::intent::repository::PolicyRule;
use crate::intent::scalar::{DnsName, Quantity};
use crate::intent::structural::{ResourceKind, printer_column, resource_definition, structural_schema};
use crate::windows::Window;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;
use stator_core::dynamo::kinds::FLEET_POLICY;
use std::collections::BTreeMap;

/// Limits that administrators set for the sources of tenants. No file of a repository can set or loosen them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FleetPolicy {
    /// The version of this format.
    pub api_version: ApiVersion,
    /// Always `FleetPolicy`.
    pub kind: FleetPolicyKind,
    /// The policy's name.
    pub metadata: FleetPolicyMetadata,
    /// Its scope and its limits.
    #[serde(default)]
    pub spec: FleetPolicySpec,
}

/// The kind of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FleetPolicyKind {
    /// A policy.
    #[default]
    FleetPolicy,
}

/// What identifies a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FleetPolicyMetadata {
    /// Its name, shown in every finding.
    pub name: DnsName,
}

/// Scope and limits of a policy. If several policies bind one source, all apply. An omitted field limits nothing,
/// except `pods`: without it, pods must meet level `baseline`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FleetPolicySpec {
    /// The sources that it binds. Defaults to all.
    pub applies_to: Option<PolicyScope>,
    /// The repositories that a source may follow, as `HOST/PATH` without scheme, user and `.git`.
    #[schemars(length(max = 256))]
    pub repositories: Option<Vec<AddressPattern>>,
    /// The namespaces that objects may be written to.
    #[schemars(length(max = 256))]
    pub destinations: Option<Vec<NamePattern>>,
    /// The kinds of objects that a model may have beside Dynamo's own.
    #[schemars(length(max = 64))]
    pub kinds: Option<Vec<KindName>>,
    /// Which images pods may run.
    pub images: Option<ImagePolicy>,
    /// The service accounts that pods may name. A pod that names none gets its namespace's, or the one that Dynamo's
    /// operator sets.
    #[schemars(length(max = 256))]
    pub service_accounts: Option<Vec<NamePattern>>,
    /// The Secrets that a model may name.
    #[schemars(length(max = 256))]
    pub secrets: Option<Vec<NamePattern>>,
    /// What pods may ask of their node, by Kubernetes' Pod Security Standards.
    #[serde(default)]
    pub pods: PodPolicy,
    /// Whether commits must be signed, and by whom.
    pub signatures: Option<SignaturePolicy>,
    /// When syncs may run, in addition to the windows of the source. No permission for a commit opens them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub windows: Vec<Window>,
    /// Quotas of one source, and of sources.
    pub quotas: Option<Quotas>,
    /// Rules in CEL that every model must comply with, with the same variables as rules of a repository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub rules: Vec<PolicyRule>,
}

/// The sources that a policy binds: those in any of the lists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyScope {
    /// Sources in these namespaces, and all sources that sync to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub namespaces: Vec<NamePattern>,
    /// These sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub sources: Vec<SourcePattern>,
}

/// Which images pods may run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImagePolicy {
    /// Allowed sources of images, as `REGISTRY/REPOSITORY` without tag and digest. An image without a registry is from
    /// `docker.io`.
    #[schemars(length(max = 256))]
    pub registries: Option<Vec<AddressPattern>>,
    /// Whether every image must be named by its digest (`IMAGE@sha256:…`). Defaults to false.
    #[serde(default)]
    pub require_digest: bool,
}

/// What pods may ask of their node and of the scheduler. A list that is omitted limits nothing.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodPolicy {
    /// The level of the Pod Security Standards. Defaults to `baseline`.
    #[serde(default)]
    pub level: PodSecurityLevel,
    /// Fields that may be set despite the level.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub exceptions: Vec<PodException>,
    /// The keys of taints that pods may tolerate. A toleration without a key tolerates every taint, and needs `*`.
    #[schemars(length(max = 64))]
    pub tolerations: Option<Vec<KeyPattern>>,
    /// The priority classes that pods may name. A pod of a higher priority displaces others.
    #[schemars(length(max = 64))]
    pub priority_classes: Option<Vec<NamePattern>>,
    /// The runtime classes that pods may name.
    #[schemars(length(max = 64))]
    pub runtime_classes: Option<Vec<NamePattern>>,
    /// The schedulers that pods may name.
    #[schemars(length(max = 64))]
    pub schedulers: Option<Vec<NamePattern>>,
    /// The kinds of volumes that pods may have, as their fields spell them, such as `persistentVolumeClaim`.
    #[schemars(length(max = 64))]
    pub volumes: Option<Vec<VolumeKind>>,
    /// The keys of labels that a model may give its pods. Services, quotas and policies of the network select pods by them.
    #[schemars(length(max = 64))]
    pub labels: Option<Vec<KeyPattern>>,
}

/// A field that may be set although the level forbids it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodException {
    /// The field.
    pub field: PodField,
    /// The values that it may have: a capability, a path of the node, a port, a kind of volume. Any value when left out.
    #[schemars(length(max = 64))]
    pub values: Option<Vec<String>>,
}

/// Whether commits must be signed, and by whom.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignaturePolicy {
    /// Whether every commit must be signed by one of `keys`. If true without `keys`, every source is refused.
    pub required: bool,
    /// The public keys that may sign: each an OpenPGP public key block, an SSH public key, or a line of allowed signers.
    /// Keys that a source names for itself (`spec.verify`) do not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 65536)))]
    pub keys: Vec<String>,
}

/// Quotas of one source, and of sources.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Quotas {
    /// Maximum sources (`ModelSource`) of one namespace, of those that the policy binds. Those created last are refused.
    #[schemars(range(max = 1_000_000))]
    pub sources: Option<u32>,
    /// Maximum models.
    #[schemars(range(max = 1_000_000))]
    pub models: Option<u32>,
    /// Maximum files of one commit that stator reads: settings, models, overlays, locks, and what models mount.
    #[schemars(range(max = 1_000_000))]
    pub files: Option<u32>,
    /// Maximum size of these files and of their paths together.
    pub files_size: Option<Quantity>,
    /// Maximum GPUs by SKU; `*` stands for each SKU that is not named. Other SKUs may not be used.
    #[schemars(length(max = 64))]
    pub gpus: Option<BTreeMap<SkuName, u32>>,
    /// Maximum size of one claim.
    pub claim_size: Option<Quantity>,
    /// Maximum size of all claims together.
    pub claims_size: Option<Quantity>,
}

/// The definition of `fleetpolicies.stator.dev`, as `crds/stator.dev_fleetpolicies.yaml` holds it.
pub fn custom_resource_definition() -> Value {
    resource_definition(ResourceKind {
        kind: FLEET_POLICY,
        singular: FLEET_POLICY.kind.to_lowercase(),
        short_name: Some(FLEET_POLICY.short),
        scope: "Cluster",
        description: "Limits that administrators set for the sources of tenants.",
        columns: vec![
            printer_column("Namespaces", "string", ".spec.appliesTo.namespaces", false),
            printer_column("Level", "string", ".spec.pods.level", false),
            printer_column("Age", "date", ".metadata.creationTimestamp", false),
        ],
        required: &["spec"],
        spec: structural_schema::<FleetPolicySpec>(),
        status: None,
    })
}
