//! Dynamo's registries: labels, annotations, environment variables, ports and image names, as data from which the
//! documentation is generated.
//!
//! Source: `deploy/operator/internal/consts/consts.go` and the operator's documentation of release 1.2, and what the
//! operators of 1.3 to 1.5 were read and seen to write.

mod tables;

pub use tables::{ANNOTATIONS, LABELS, PORTS, VARIABLES};

use super::release::Release;

/// The supported releases that have a line of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseSpan {
    /// The first of them.
    pub since: Release,
    /// The last of them; `None` where none dropped it.
    pub until: Option<Release>,
}

impl ReleaseSpan {
    /// All of them.
    pub const ALL: Self = Self { since: Release::V1_2, until: None };

    /// Whether a release has it.
    pub fn contains(self, release: Release) -> bool {
        self.since <= release && self.until.is_none_or(|last| release <= last)
    }

    /// The words of a table: `all`, `1.4 and later`, `until 1.3`, `1.3 to 1.4`.
    pub fn describe(self) -> String {
        match (self.since, self.until) {
            (Release::V1_2, None) => "all".to_owned(),
            (Release::V1_2, Some(last)) => format!("until {last}"),
            (first, None) => format!("{first} and later"),
            (first, Some(last)) => format!("{first} to {last}"),
        }
    }
}

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
    /// The key; one that ends with `-` or `.` stands for a family.
    pub name: &'static str,
    /// Who writes it.
    pub writer: MetadataWriter,
    /// Which releases have it.
    pub releases: ReleaseSpan,
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
    /// Which releases have it.
    pub releases: ReleaseSpan,
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
    /// Which releases have it.
    pub releases: ReleaseSpan,
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

/// Whether a label or annotation of this key is the operator's to write, at any release: what is in git outlives an upgrade.
pub fn is_operator_key(key: &str) -> bool {
    LABELS.iter().chain(ANNOTATIONS).any(|known| known.writer == MetadataWriter::Operator && names(known.name, key))
}

/// Whether a name of the tables stands for this one. No whole name ends as that of a family does.
fn names(known: &str, name: &str) -> bool {
    known == name || (known.ends_with(['_', '-', '.']) && name.starts_with(known))
}

/// Environment variables that stator renders.
pub mod env {
    use super::{EnvVarPolicy, find_variable};
    use crate::dynamo::release::Release;

    /// How the frontend spreads requests.
    pub const ROUTER_MODE: &str = "DYN_ROUTER_MODE";
    /// Tokens in one KV block: the router's must equal the engine's (`frontend_args.py`, `--kv-cache-block-size`).
    pub const KV_BLOCK_SIZE: &str = "DYN_KV_CACHE_BLOCK_SIZE";
    /// The model that an endpoint picker answers for.
    pub const MODEL_NAME: &str = "DYN_MODEL_NAME";
    /// Whether an endpoint picker must find a prefill worker.
    pub const ENFORCE_DISAGG: &str = "DYN_ENFORCE_DISAGG";
    /// Whether an endpoint picker takes a decode worker alone where it finds no prefill worker: what later releases ask for
    /// instead.
    pub const DECODE_FALLBACK: &str = "DYN_DECODE_FALLBACK";
    /// Switches loading of adapters on.
    pub const LORA_ENABLED: &str = "DYN_LORA_ENABLED";
    /// Where a worker keeps adapters.
    pub const LORA_PATH: &str = "DYN_LORA_PATH";
    /// Where Hugging Face libraries keep weights.
    pub const HF_HOME: &str = "HF_HOME";

    /// Whether the operator tells a pod by this variable who it is: another value breaks discovery.
    pub fn is_identity(name: &str) -> bool {
        find_variable(name).is_some_and(|variable| variable.policy == EnvVarPolicy::Identity)
    }

    /// Whether the operator of this release sets a variable of this name.
    pub fn is_injected_at(name: &str, release: Release) -> bool {
        find_variable(name).is_some_and(|one| one.policy != EnvVarPolicy::UserDefined && one.releases.contains(release))
    }
}

/// The line of a variable; `None` for one that is not Dynamo's.
fn find_variable(name: &str) -> Option<&'static EnvVariable> {
    VARIABLES.iter().find(|variable| names(variable.name, name))
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
        assert!(is_operator_key("nvidia.com/dynamo-topology.zone") && !is_operator_key("nvidia.com/dynamo-topology"));
        let is_injected = |name| env::is_injected_at(name, Release::V1_2);
        assert!(env::is_identity("POD_UID") && is_injected("POD_UID"));
        assert!(is_injected("DYN_SYSTEM_PORT") && !env::is_identity("DYN_SYSTEM_PORT"));
        assert!(!is_injected("DYN_ROUTER_MODE") && !is_injected("LOG_LEVEL"));
    }

    #[test]
    fn a_later_release_injects_what_an_earlier_one_leaves_to_people() {
        let from = |name| Release::KNOWN.into_iter().filter(|release| env::is_injected_at(name, *release)).min();
        assert_eq!(from("DYN_SYSTEM_PORT"), Some(Release::V1_2));
        assert_eq!(from("DYN_KV_TRANSFER_DOMAIN"), Some(Release::V1_3));
        assert_eq!(from("POD_IP"), Some(Release::V1_5));
        assert_eq!(from("DYN_ROUTER_MODE"), None);
        assert!(env::is_injected_at("POD_IP", Release::Newer));
    }

    #[test]
    fn a_span_says_which_releases_it_has() {
        let shown = |since, until| {
            let span = ReleaseSpan { since, until };
            let has: Vec<&str> =
                Release::KNOWN.into_iter().filter(|one| span.contains(*one)).map(Release::as_str).collect();
            format!("{}: {}\n", span.describe(), has.join(" "))
        };
        let spans = [
            (Release::V1_2, None),
            (Release::V1_4, None),
            (Release::V1_2, Some(Release::V1_3)),
            (Release::V1_3, Some(Release::V1_4)),
        ];
        insta::assert_snapshot!(spans.map(|(since, until)| shown(since, until)).concat(), @r"
        all: 1.2 1.3 1.4 1.5
        1.4 and later: 1.4 1.5
        until 1.3: 1.2 1.3
        1.3 to 1.4: 1.3 1.4
        ");
        let of_keys = LABELS.iter().chain(ANNOTATIONS).map(|key| key.releases);
        let of_variables = VARIABLES.iter().map(|variable| variable.releases);
        for span in of_keys.chain(of_variables).chain(PORTS.iter().map(|port| port.releases)) {
            assert!(span.until.is_none_or(|last| span.since <= last), "{}", span.describe());
        }
    }
}
