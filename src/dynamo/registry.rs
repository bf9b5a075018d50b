//! Dynamo's registries: labels, annotations, environment variables and image names.
//!
//! Source: `deploy/operator/internal/consts/consts.go` and the operator's documentation of release 1.2.

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
    /// Annotations that the operator writes: never rendered, so never shown as drift and never removed.
    pub(super) const OPERATOR_OWNED: &[&str] = &[
        "dgdr.nvidia.com/additional-resources",
        "nvidia.com/confirmed-dgd-uid",
        "nvidia.com/current-worker-hash",
        "nvidia.com/current-worker-hash-v2",
        "nvidia.com/dcd-spec",
        "nvidia.com/dcd-status",
        "nvidia.com/dgd-spec",
        "nvidia.com/dgd-status",
        "nvidia.com/dgdr-spec",
        "nvidia.com/dgdr-status",
        ORIGIN_VERSION,
        "nvidia.com/generated-dgd-spec",
        "nvidia.com/last-applied-generation",
        "nvidia.com/last-applied-hash",
        "nvidia.com/restartAt",
        "nvidia.com/workload-provider",
    ];
}

/// Labels of nodes and of Dynamo's objects.
pub mod label {
    /// Node label of the GPU feature discovery: the GPU's product name.
    pub const GPU_PRODUCT: &str = "nvidia.com/gpu.product";
    /// Labels that the operator puts on what it makes.
    pub(super) const OPERATOR_OWNED: &[&str] = &[
        "nvidia.com/dynamo-base-model-hash",
        "nvidia.com/dynamo-component",
        "nvidia.com/dynamo-component-class",
        "nvidia.com/dynamo-component-pod",
        "nvidia.com/dynamo-component-type",
        "nvidia.com/dynamo-graph-deployment-name",
        "nvidia.com/dynamo-namespace",
        "nvidia.com/dynamo-worker-hash",
    ];
}

/// Whether a label or annotation of this key is the operator's to write.
pub fn is_operators(key: &str) -> bool {
    label::OPERATOR_OWNED.contains(&key) || annotation::OPERATOR_OWNED.contains(&key)
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
    /// Variables by which the operator tells a pod who it is: another value breaks discovery.
    pub const IDENTITY: &[&str] = &[
        "DYN_COMPONENT",
        "DYN_NAMESPACE",
        "DYN_NAMESPACE_PREFIX",
        "DYN_NAMESPACE_WORKER_SUFFIX",
        "DYN_PARENT_DGD_K8S_NAME",
        "DYN_PARENT_DGD_K8S_NAMESPACE",
        "POD_NAME",
        "POD_NAMESPACE",
        "POD_UID",
    ];
    /// Further variables that the operator injects: a value from an intent replaces the operator's.
    const INJECTED: &[&str] = &[
        "DYNAMO_PORT",
        "DYN_DISCOVERY_BACKEND",
        "DYN_FORWARDPASS_METRIC_PORT",
        "DYN_HEALTH_CHECK_ENABLED",
        "DYN_HTTP_PORT",
        "ETCD_ENDPOINTS",
        "MODEL_EXPRESS_URL",
        "NATS_SERVER",
        "PLANNER_PROMETHEUS_PORT",
        "PROMETHEUS_ENDPOINT",
    ];
    /// Beginnings of those that come in families.
    const INJECTED_FAMILIES: &[&str] = &["DYN_SYSTEM_", "NIXL_TELEMETRY_"];

    /// Whether the operator sets a variable of this name.
    pub fn is_injected(name: &str) -> bool {
        IDENTITY.contains(&name)
            || INJECTED.contains(&name)
            || INJECTED_FAMILIES.iter().any(|family| name.starts_with(family))
    }
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

/// NVIDIA's image at a runtime version.
pub fn image(name: &str, version: &str) -> String {
    format!("{IMAGE_REGISTRY}/{name}:{version}")
}
