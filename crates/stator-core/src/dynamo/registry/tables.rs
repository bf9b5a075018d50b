//! The tables.

use super::{Key, Port, Setting, Variable, Writer, annotation, label};

const fn user(name: &'static str, meaning: &'static str) -> Key {
    Key { name, writer: Writer::User, meaning }
}

const fn operator(name: &'static str, meaning: &'static str) -> Key {
    Key { name, writer: Writer::Operator, meaning }
}

/// Labels, by name.
pub const LABELS: &[Key] = &[
    operator("dgdr.nvidia.com/name", "The request that a graph was made for."),
    operator("dgdr.nvidia.com/namespace", "The namespace of that request."),
    user("kai.scheduler/queue", "The queue of the KAI scheduler."),
    operator(
        "nvidia.com/dynamo-base-model-hash",
        "Eight hexadecimal digits of the base model's name: what a DynamoModel finds endpoints by.",
    ),
    operator("nvidia.com/dynamo-component", "The component of a pod or service."),
    operator(
        "nvidia.com/dynamo-component-class",
        "`worker` for every component that serves a model: what an inference pool selects.",
    ),
    operator("nvidia.com/dynamo-component-pod", "Marks the pods of components."),
    operator("nvidia.com/dynamo-component-type", "The component's type."),
    user("nvidia.com/dynamo-discovery-backend", "`kubernetes` or `etcd`: where components find each other."),
    user("nvidia.com/dynamo-discovery-enabled", "Switches discovery on for a pod."),
    operator("nvidia.com/dynamo-graph-deployment-name", "The graph of a child object."),
    operator("nvidia.com/dynamo-namespace", "The Dynamo namespace, `<namespace>-<graph>`."),
    user("nvidia.com/dynamo-sub-component-type", "`prefill` or `decode` of a worker at v1alpha1."),
    operator("nvidia.com/dynamo-worker-hash", "The generation of workers that a pod belongs to."),
    Key {
        name: label::GPU_PRODUCT,
        writer: Writer::Cluster,
        meaning: "The GPU's product name, put on nodes by the GPU feature discovery.",
    },
    user("nvidia.com/metrics-enabled", "Whether metrics of a pod are collected."),
    operator("nvidia.com/selector", "What a component's service selects its pods by."),
];

/// Annotations, by name.
pub const ANNOTATIONS: &[Key] = &[
    operator("dgdr.nvidia.com/additional-resources", "ConfigMaps that a profiled graph refers to."),
    operator("nvidia.com/confirmed-dgd-uid", "The graph that a request knows to be its own (1.5)."),
    operator("nvidia.com/current-worker-hash", "The generation of workers that serves."),
    operator("nvidia.com/current-worker-hash-v2", "The same by a later recipe."),
    operator("nvidia.com/dcd-spec", "What of a component's spec the other version has no field for."),
    operator("nvidia.com/dcd-status", "What of a component's status the other version has no field for."),
    user(
        annotation::MAX_SURGE,
        "Count or share of pods above the desired number while workers roll; on the pod template.",
    ),
    user(
        annotation::MAX_UNAVAILABLE,
        "Count or share of pods that may be missing while workers roll; on the pod template.",
    ),
    user(annotation::STRATEGY, "`RollingUpdate` or `Recreate`; on the pod template."),
    operator("nvidia.com/dgd-spec", "What of a graph's spec the other version has no field for."),
    operator("nvidia.com/dgd-status", "What of a graph's status the other version has no field for."),
    operator("nvidia.com/dgdr-config-map-ref", "A request's v1alpha1 `profilingConfig.configMapRef`."),
    operator("nvidia.com/dgdr-deployment-overrides", "A request's v1alpha1 `deploymentOverrides`."),
    operator("nvidia.com/dgdr-deployment-status", "A request's v1alpha1 `status.deployment`."),
    operator("nvidia.com/dgdr-enable-gpu-discovery", "A request's v1alpha1 `enableGpuDiscovery`."),
    operator("nvidia.com/dgdr-output-pvc", "A request's v1alpha1 `profilingConfig.outputPVC`."),
    operator("nvidia.com/dgdr-profiling-config", "A request's v1alpha1 `profilingConfig.config`."),
    operator("nvidia.com/dgdr-profiling-job-name", "The job of a request, read at v1alpha1."),
    operator("nvidia.com/dgdr-profiling-results", "A request's v1alpha1 `status.profilingResults`."),
    operator("nvidia.com/dgdr-spec", "What of a request's spec the other version has no field for."),
    operator("nvidia.com/dgdr-status", "What of a request's status the other version has no field for."),
    operator("nvidia.com/dgdr-status-backend", "A request's v1alpha1 `status.backend`."),
    user(
        "nvidia.com/disable-image-pull-secret-discovery",
        "`true` keeps the operator from adding image pull secrets of the namespace.",
    ),
    user("nvidia.com/dynamo-discovery-backend", "`kubernetes` or `etcd`: where components find each other."),
    user(annotation::DISCOVERY_MODE, "`pod` or `container`: what counts as one discovered worker."),
    operator(annotation::ORIGIN_VERSION, "The operator's version that made the object; a semantic version."),
    user(annotation::ENABLE_GROVE, "`false` keeps a graph off Grove."),
    user("nvidia.com/enable-metrics", "`false` keeps metrics of a graph from being collected."),
    operator("nvidia.com/generated-dgd-spec", "The graph that the profiler wrote, until the request's status has it."),
    user(
        "nvidia.com/grove-update-strategy",
        "How Grove replaces pods: `RollingRecreate`, `OnDelete` (1.4), `Coherent` (1.6).",
    ),
    user("nvidia.com/kai-scheduler-queue", "The queue of the KAI scheduler."),
    operator("nvidia.com/last-applied-generation", "The generation that a child was made of."),
    operator("nvidia.com/last-applied-hash", "The spec that a child was made of."),
    operator("nvidia.com/restartAt", "When a component was restarted."),
    user(annotation::VLLM_EXECUTOR, "`mp` or `ray`: how vLLM spreads one replica over nodes."),
    user("nvidia.com/volcano-queue", "The queue of the Volcano scheduler (after 1.2)."),
    operator(
        "nvidia.com/workload-provider",
        "What runs the pods of a graph: Grove, LeaderWorkerSet or Deployments (1.5).",
    ),
];

const fn free(name: &'static str, meaning: &'static str) -> Variable {
    Variable { name, setting: Setting::Free, meaning }
}

const fn injected(name: &'static str, meaning: &'static str) -> Variable {
    Variable { name, setting: Setting::Injected, meaning }
}

const fn identity(name: &'static str, meaning: &'static str) -> Variable {
    Variable { name, setting: Setting::Identity, meaning }
}

/// Environment variables, by name.
pub const VARIABLES: &[Variable] = &[
    injected("DYNAMO_PORT", "The port of a component's service."),
    identity("DYN_COMPONENT", "The component's name."),
    injected("DYN_DISCOVERY_BACKEND", "`kubernetes` or `etcd`: where components find each other."),
    free(super::env::ENFORCE_DISAGG, "Whether an endpoint picker must find a prefill worker."),
    injected("DYN_FORWARDPASS_METRIC_PORT", "The port of forward-pass metrics."),
    injected(
        "DYN_HEALTH_CHECK_ENABLED",
        "Whether workers ask their engine a canary question: off at 1.2, on from 1.5.",
    ),
    injected("DYN_HTTP_PORT", "The frontend's port."),
    free(super::env::KV_BLOCK_SIZE, "Tokens in one KV block; the router's must equal the engine's."),
    free(super::env::LORA_ENABLED, "Switches loading of adapters on."),
    free(super::env::LORA_PATH, "Where a worker keeps adapters."),
    free(super::env::MODEL_NAME, "The model that an endpoint picker answers for."),
    identity("DYN_NAMESPACE", "The Dynamo namespace."),
    identity("DYN_NAMESPACE_PREFIX", "The Dynamo namespace that a frontend looks below."),
    identity("DYN_NAMESPACE_WORKER_SUFFIX", "The generation of workers, at the end of their Dynamo namespace."),
    identity("DYN_PARENT_DGD_K8S_NAME", "The graph's name."),
    identity("DYN_PARENT_DGD_K8S_NAMESPACE", "The graph's namespace."),
    free(super::env::ROUTER_MODE, "How the frontend spreads requests."),
    injected("DYN_SYSTEM_", "The system server of a component: whether there is one, and its port."),
    injected("ETCD_ENDPOINTS", "Where etcd is, when it is the discovery backend."),
    free(super::env::HF_HOME, "Where Hugging Face libraries keep weights."),
    injected("MODEL_EXPRESS_URL", "Where Model Express is."),
    injected("NATS_SERVER", "Where NATS is; off by default from 1.4."),
    injected("NIXL_TELEMETRY_", "Telemetry of NIXL: whether, how, and on which port."),
    injected("PLANNER_PROMETHEUS_PORT", "The port of a planner's metrics."),
    identity("POD_NAME", "The pod's name."),
    identity("POD_NAMESPACE", "The pod's namespace."),
    identity("POD_UID", "The pod's uid."),
    injected("PROMETHEUS_ENDPOINT", "Where a planner reads metrics."),
];

const fn port(number: u16, name: &'static str, of: &'static str, meaning: &'static str) -> Port {
    Port { number, name, of, meaning }
}

/// Ports of components, by number.
pub const PORTS: &[Port] = &[
    port(2222, "ssh", "multinode TensorRT-LLM workers", "mpirun starts the other nodes' processes."),
    port(6379, "", "multinode vLLM workers with Ray", "Ray's head."),
    port(8000, "http", "frontends", "The OpenAI API; `/live` and `/health` for probes."),
    port(9002, "", "endpoint pickers", "gRPC of the gateway's external processing."),
    port(9003, "", "endpoint pickers", "gRPC health."),
    port(9085, "metrics", "planners", "Prometheus metrics."),
    port(
        9090,
        "system",
        "workers",
        "Health, metrics and loading of adapters (`/v1/loras`). A worker that lists ports keeps one of this name.",
    ),
    port(13445, "", "multinode vLLM workers with data parallelism", "Remote calls between ranks."),
    port(19090, "nixl", "workers", "NIXL telemetry."),
    port(20380, "", "workers", "Forward-pass metrics."),
    port(29500, "", "multinode vLLM and SGLang workers", "Where the nodes of one replica meet."),
];
