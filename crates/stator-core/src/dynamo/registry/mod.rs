//! Dynamo's registries: labels, annotations, environment variables, ports and image names, as data from which the
//! documentation is generated.
//!
//! Source: `deploy/operator/internal/consts/consts.go` and the operator's documentation of release 1.2; what a later
//! release adds says so.

mod tables;

pub use tables::{ANNOTATIONS, LABELS, PORTS, VARIABLES};

/// Who writes a label, an annotation or a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum MetadataWriter {
    /// People, in an intent or a manifest.
    User,
    /// The operator: never rendered, so never shown as drift and never removed.
    Operator,
    /// The cluster: nodes carry it.
    Cluster,
}

impl MetadataWriter {
    /// The word of a table.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A label or an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataKey {
    /// The key.
    pub name: &'static str,
    /// Who writes it.
    pub writer: MetadataWriter,
    /// What it says, in a sentence.
    pub meaning: &'static str,
}

/// What setting a variable does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EnvVarPolicy {
    /// People set it.
    UserDefined,
    /// The operator sets it; another value replaces the operator's.
    Injected,
    /// The operator tells a pod who it is by it: another value breaks discovery.
    Identity,
}

impl EnvVarPolicy {
    /// The word of a table.
    pub fn name(self) -> &'static str {
        match self {
            Self::UserDefined => "user",
            Self::Injected => "operator",
            Self::Identity => "operator, fixed",
        }
    }
}

/// An environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvVariable {
    /// Its name; one that ends with `_` stands for a family.
    pub name: &'static str,
    /// What setting it does.
    pub policy: EnvVarPolicy,
    /// What it says, in a sentence.
    pub meaning: &'static str,
}

/// A port of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComponentPort {
    /// The number.
    pub number: u16,
    /// The name that the operator gives it; empty where it has none.
    pub name: &'static str,
    /// Which components listen there.
    pub components: &'static str,
    /// What for, in a sentence.
    pub meaning: &'static str,
}

/// Annotations that users set and stator renders or judges.
pub mod annotation {
    /// `mp` or `ray`: how vLLM spreads one replica over nodes.
    pub const VLLM_EXECUTOR: &str = "nvidia.com/vllm-distributed-executor-backend";
    /// `pod` or `container`: what counts as one discovered worker.
    pub const DISCOVERY_MODE: &str = "nvidia.com/dynamo-kube-discovery-mode";
    /// The operator's version that made the object; a semantic version, written by the operator.
    pub const ORIGIN_VERSION: &str = "nvidia.com/dynamo-operator-origin-version";
    /// `Recreate` or `RollingUpdate`, on the pod template.
    pub const STRATEGY: &str = "nvidia.com/deployment-strategy";
    /// Count or share, on the pod template.
    pub const MAX_SURGE: &str = "nvidia.com/deployment-rolling-update-max-surge";
    /// Count or share, on the pod template.
    pub const MAX_UNAVAILABLE: &str = "nvidia.com/deployment-rolling-update-max-unavailable";
    /// `false` keeps a graph off Grove.
    pub const ENABLE_GROVE: &str = "nvidia.com/enable-grove";
    /// `RollingRecreate` or `OnDelete`: how Grove brings a change to its pods.
    pub const GROVE_UPDATE_STRATEGY: &str = "nvidia.com/grove-update-strategy";
    /// `grove` or `component`: what runs the graph, pinned by the operator.
    pub const WORKLOAD_PROVIDER: &str = "nvidia.com/workload-provider";
    /// Watts that one GPU of a pod may draw, on the pod.
    pub const GPU_POWER_LIMIT: &str = "dynamo.nvidia.com/gpu-power-limit";
}

/// Labels of nodes and of Dynamo's objects.
pub mod label {
    /// Node label of the GPU feature discovery: the GPU's product name.
    pub const GPU_PRODUCT: &str = "nvidia.com/gpu.product";
}

/// Whether a label or annotation of this key is the operator's to write.
pub fn is_operator_key(key: &str) -> bool {
    LABELS.iter().chain(ANNOTATIONS).any(|known| known.writer == MetadataWriter::Operator && known.name == key)
}

/// Environment variables that stator renders.
pub mod env {
    /// How the frontend spreads requests.
    pub const ROUTER_MODE: &str = "DYN_ROUTER_MODE";
    /// Tokens in one KV block: the router's must equal the engine's (`frontend_args.py`, `--kv-cache-block-size`).
    pub const KV_BLOCK_SIZE: &str = "DYN_KV_CACHE_BLOCK_SIZE";
    /// The model that an endpoint picker answers for.
    pub const MODEL_NAME: &str = "DYN_MODEL_NAME";
    /// Whether an endpoint picker must find a prefill worker.
    pub const ENFORCE_DISAGG: &str = "DYN_ENFORCE_DISAGG";
    /// Switches loading of adapters on.
    pub const LORA_ENABLED: &str = "DYN_LORA_ENABLED";
    /// Where a worker keeps adapters.
    pub const LORA_PATH: &str = "DYN_LORA_PATH";
    /// Where Hugging Face libraries keep weights.
    pub const HF_HOME: &str = "HF_HOME";

    /// Whether the operator tells a pod by this variable who it is: another value breaks discovery.
    pub fn is_identity(name: &str) -> bool {
        super::env_var_policy(name) == Some(super::EnvVarPolicy::Identity)
    }

    /// Whether the operator sets a variable of this name.
    pub fn is_injected(name: &str) -> bool {
        super::env_var_policy(name).is_some_and(|setting| setting != super::EnvVarPolicy::UserDefined)
    }
}

/// What setting a variable does; `None` for one that is not Dynamo's.
fn env_var_policy(name: &str) -> Option<EnvVarPolicy> {
    let known = |variable: &&EnvVariable| {
        variable.name == name || (variable.name.ends_with('_') && name.starts_with(variable.name))
    };
    VARIABLES.iter().find(known).map(|variable| variable.policy)
}

/// The container that is Dynamo's in every pod template; others are sidecars.
pub const MAIN_CONTAINER: &str = "main";
/// The frontend beside a worker, behind an endpoint picker (upstream's `gaie` examples).
pub const SIDECAR_FRONTEND: &str = "sidecar-frontend";
/// Where NVIDIA publishes Dynamo's images.
pub const IMAGE_REGISTRY: &str = "nvcr.io/nvidia/ai-dynamo";
/// Image of planner, profiler and mocker, from release 1.1 on.
pub const PLANNER_IMAGE: &str = "dynamo-planner";
/// Image of the endpoint picker.
pub const EPP_IMAGE: &str = "epp-image";

/// NVIDIA's image at a runtime version, in a registry that has it.
pub fn image_reference(registry: &str, name: &str, version: &str) -> String {
    format!("{registry}/{name}:{version}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_sorted_and_names_nothing_twice() {
        for names in [
            LABELS.iter().map(|key| key.name).collect::<Vec<_>>(),
            ANNOTATIONS.iter().map(|key| key.name).collect(),
            VARIABLES
                .iter()
                .filter(|variable| variable.name.starts_with("DYN_"))
                .map(|variable| variable.name)
                .collect(),
        ] {
            assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
        }
        assert!(PORTS.windows(2).all(|pair| pair[0].number < pair[1].number));
    }

    #[test]
    fn who_writes_what_is_told_from_the_tables() {
        assert!(is_operator_key("nvidia.com/dgd-spec") && is_operator_key("nvidia.com/selector"));
        assert!(!is_operator_key("nvidia.com/enable-grove") && !is_operator_key("team"));
        assert!(env::is_identity("POD_UID") && env::is_injected("POD_UID"));
        assert!(env::is_injected("DYN_SYSTEM_PORT") && !env::is_identity("DYN_SYSTEM_PORT"));
        assert!(!env::is_injected("DYN_ROUTER_MODE") && !env::is_injected("LOG_LEVEL"));
    }
}
