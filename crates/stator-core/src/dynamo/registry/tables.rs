//! The tables.
//!
//! A line without a release is of all supported ones. What is known to have come between 1.2 and 1.5, and not when, is of 1.5:
//! no rule takes it for the operator's too early.

use super::{ComponentPort, EnvVarPolicy, EnvVariable, MetadataKey, MetadataWriter, ReleaseSpan, annotation, label};
use crate::dynamo::release::Release::{self, V1_3, V1_4, V1_5};

const fn user_key(name: &'static str, meaning: &'static str) -> MetadataKey {
    MetadataKey { name, writer: MetadataWriter::User, releases: ReleaseSpan::ALL, meaning }
}

const fn operator_key(name: &'static str, meaning: &'static str) -> MetadataKey {
    MetadataKey { name, writer: MetadataWriter::Operator, releases: ReleaseSpan::ALL, meaning }
}

impl MetadataKey {
    const fn since(self, since: Release) -> Self {
        Self { releases: ReleaseSpan { since, ..self.releases }, ..self }
    }

    const fn until(self, last: Release) -> Self {
        Self { releases: ReleaseSpan { until: Some(last), ..self.releases }, ..self }
    }
}

/// Labels, by name.
pub const LABELS: &[MetadataKey] = &[
    operator_key("dgdr.nvidia.com/name", "The request that a graph was made for."),
    operator_key("dgdr.nvidia.com/namespace", "The namespace of that request."),
    user_key("kai.scheduler/queue", "The queue of the KAI scheduler."),
    operator_key("nvidia.com/dynamo-base-model", "The base model's name."),
    operator_key(
        "nvidia.com/dynamo-base-model-hash",
        "Eight hexadecimal digits of the base model's name; a DynamoModel selects endpoints by it.",
    ),
    operator_key("nvidia.com/dynamo-component", "The component of a pod or service."),
    operator_key(
        "nvidia.com/dynamo-component-class",
        "`worker` for every component that serves a model; inference pools select by it.",
    ),
    operator_key("nvidia.com/dynamo-component-pod", "Marks the pods of components."),
    operator_key("nvidia.com/dynamo-component-type", "The component's type."),
    user_key("nvidia.com/dynamo-discovery-backend", "`kubernetes` or `etcd`: where components find each other."),
    user_key("nvidia.com/dynamo-discovery-enabled", "Switches discovery on for a pod."),
    operator_key("nvidia.com/dynamo-graph-deployment-name", "The graph of a child object."),
    operator_key("nvidia.com/dynamo-namespace", "The Dynamo namespace, `<namespace>-<graph>`."),
    user_key("nvidia.com/dynamo-sub-component-type", "`prefill` or `decode` of a worker at v1alpha1."),
    operator_key("nvidia.com/dynamo-topology.", "Where a pod's node is, by domain; copied from labels of the node.")
        .since(V1_3),
    operator_key("nvidia.com/dynamo-worker-hash", "The generation of workers that a pod belongs to."),
    MetadataKey {
        name: label::GPU_PRODUCT,
        writer: MetadataWriter::Cluster,
        releases: ReleaseSpan::ALL,
        meaning: "The GPU's product name, put on nodes by the GPU feature discovery.",
    },
    operator_key("nvidia.com/managed-by", "`dynamo-operator` on the graph of a request."),
    user_key("nvidia.com/metrics-enabled", "Whether metrics of a pod are collected."),
    operator_key("nvidia.com/selector", "A component's service selects its pods by it."),
    operator_key("nvidia.com/snapshot-owner", "The checkpoint that a snapshot belongs to.").since(V1_4),
];

/// Annotations, by name.
pub const ANNOTATIONS: &[MetadataKey] = &[
    operator_key(
        "crd-migration.nvidia.com/observed-generation",
        "The generation of a definition whose objects are migrated.",
    )
    .since(V1_5),
    operator_key("dgdr.nvidia.com/additional-resources", "ConfigMaps that a profiled graph refers to."),
    user_key(annotation::GPU_POWER_LIMIT, "Watts that one GPU may draw; on the pod template.").since(V1_5),
    operator_key("nvidia.com/confirmed-dgd-uid", "The graph that a request owns.").since(V1_5),
    operator_key(
        "nvidia.com/current-worker-hash",
        "The generation of workers that serves; graphs that have it keep it until they roll.",
    )
    .until(V1_3),
    operator_key("nvidia.com/current-worker-hash-v2", "The generation of workers that serves, by a later recipe."),
    operator_key("nvidia.com/dcd-spec", "Fields of a component's spec that the other version lacks."),
    operator_key("nvidia.com/dcd-status", "Fields of a component's status that the other version lacks."),
    user_key(
        annotation::MAX_SURGE,
        "Count or share of pods above the desired number while workers roll; on the pod template.",
    ),
    user_key(
        annotation::MAX_UNAVAILABLE,
        "Count or share of pods that may be missing while workers roll; on the pod template.",
    ),
    user_key(annotation::STRATEGY, "`RollingUpdate` or `Recreate`; on the pod template."),
    operator_key("nvidia.com/dgd-spec", "Fields of a graph's spec that the other version lacks."),
    operator_key("nvidia.com/dgd-status", "Fields of a graph's status that the other version lacks."),
    operator_key("nvidia.com/dgdr-config-map-ref", "A request's v1alpha1 `profilingConfig.configMapRef`.").until(V1_3),
    operator_key("nvidia.com/dgdr-deployment-overrides", "A request's v1alpha1 `deploymentOverrides`.").until(V1_3),
    operator_key("nvidia.com/dgdr-deployment-status", "A request's v1alpha1 `status.deployment`.").until(V1_3),
    operator_key("nvidia.com/dgdr-enable-gpu-discovery", "A request's v1alpha1 `enableGpuDiscovery`.").until(V1_3),
    operator_key("nvidia.com/dgdr-output-pvc", "A request's v1alpha1 `profilingConfig.outputPVC`.").until(V1_3),
    operator_key("nvidia.com/dgdr-profiling-config", "A request's v1alpha1 `profilingConfig.config`.").until(V1_3),
    operator_key("nvidia.com/dgdr-profiling-job-name", "The job of a request, read at v1alpha1.").until(V1_3),
    operator_key("nvidia.com/dgdr-profiling-results", "A request's v1alpha1 `status.profilingResults`.").until(V1_3),
    operator_key("nvidia.com/dgdr-spec", "Fields of a request's spec that the other version lacks."),
    operator_key("nvidia.com/dgdr-status", "Fields of a request's status that the other version lacks."),
    operator_key("nvidia.com/dgdr-status-backend", "A request's v1alpha1 `status.backend`.").until(V1_3),
    user_key(
        "nvidia.com/disable-image-pull-secret-discovery",
        "`true` keeps the operator from adding image pull secrets of the namespace.",
    ),
    operator_key("nvidia.com/dynamo-auto-checkpoint", "Marks a checkpoint that the operator made for a graph.")
        .since(V1_3),
    operator_key("nvidia.com/dynamo-checkpoint-", "The checkpoint that pods start from, and its policies.").since(V1_3),
    user_key("nvidia.com/dynamo-discovery-backend", "`kubernetes` or `etcd`: where components find each other."),
    user_key(annotation::DISCOVERY_MODE, "`pod` or `container`: what counts as one discovered worker."),
    operator_key(annotation::ORIGIN_VERSION, "The operator's version that made the object; a semantic version."),
    user_key(annotation::ENABLE_GROVE, "`false` keeps a graph off Grove."),
    user_key("nvidia.com/enable-metrics", "`false` keeps metrics of a graph from being collected."),
    operator_key("nvidia.com/generated-dgd-spec", "The graph that the profiler wrote."),
    user_key(
        annotation::GROVE_UPDATE_STRATEGY,
        "How Grove replaces pods: `RollingRecreate`, `OnDelete`, from 1.6 on `Coherent`.",
    )
    .since(V1_4),
    user_key("nvidia.com/kai-scheduler-queue", "The queue of the KAI scheduler."),
    operator_key("nvidia.com/last-applied-generation", "The generation that a child was made of."),
    operator_key("nvidia.com/last-applied-hash", "The spec that a child was made of."),
    operator_key("nvidia.com/restartAt", "When a component was restarted."),
    operator_key(
        "nvidia.com/topology-cluster-topology-name",
        "The cluster topology that names the labels of a pod's node.",
    )
    .since(V1_3),
    operator_key("nvidia.com/topology-label-key", "The label of a pod's node that is copied to the pod.").since(V1_3),
    user_key(annotation::VLLM_EXECUTOR, "`mp` or `ray`: how vLLM spreads one replica over nodes."),
    user_key("nvidia.com/volcano-queue", "The queue of the Volcano scheduler.").since(V1_5),
    operator_key(
        annotation::WORKLOAD_PROVIDER,
        "`grove` or `component`: whether Grove runs the pods of a graph, or Deployments and LeaderWorkerSets.",
    )
    .since(V1_5),
];

const fn user_defined_var(name: &'static str, meaning: &'static str) -> EnvVariable {
    EnvVariable { name, policy: EnvVarPolicy::UserDefined, releases: ReleaseSpan::ALL, meaning }
}

const fn injected_var(name: &'static str, meaning: &'static str) -> EnvVariable {
    EnvVariable { name, policy: EnvVarPolicy::Injected, releases: ReleaseSpan::ALL, meaning }
}

const fn identity_var(name: &'static str, meaning: &'static str) -> EnvVariable {
    EnvVariable { name, policy: EnvVarPolicy::Identity, releases: ReleaseSpan::ALL, meaning }
}

impl EnvVariable {
    const fn since(self, since: Release) -> Self {
        Self { releases: ReleaseSpan { since, ..self.releases }, ..self }
    }
}

/// Environment variables, by name.
pub const VARIABLES: &[EnvVariable] = &[
    injected_var("DYNAMO_PORT", "The port of a component's service."),
    identity_var("DYN_COMPONENT", "The component's name."),
    injected_var("DYN_DISCOVERY_BACKEND", "`kubernetes` or `etcd`: where components find each other."),
    user_defined_var(super::env::ENFORCE_DISAGG, "Whether an endpoint picker must find a prefill worker."),
    injected_var("DYN_FORWARDPASS_METRIC_PORT", "The port of forward-pass metrics."),
    injected_var(
        "DYN_HEALTH_CHECK_ENABLED",
        "Whether workers ask their engine a canary question: off at 1.2, on from 1.5.",
    ),
    injected_var("DYN_HTTP_PORT", "The frontend's port."),
    user_defined_var(super::env::KV_BLOCK_SIZE, "Tokens in one KV block; the router's must equal the engine's."),
    injected_var("DYN_KV_TRANSFER_", "The graph's `kvTransferPolicy`, for workers.").since(V1_3),
    user_defined_var(super::env::LORA_ENABLED, "Switches loading of adapters on."),
    user_defined_var(super::env::LORA_PATH, "Where a worker keeps adapters."),
    user_defined_var(super::env::MODEL_NAME, "The model that an endpoint picker answers for."),
    identity_var("DYN_NAMESPACE", "The Dynamo namespace."),
    identity_var("DYN_NAMESPACE_PREFIX", "The Dynamo namespace that a frontend looks below."),
    identity_var("DYN_NAMESPACE_WORKER_SUFFIX", "The generation of workers, at the end of their Dynamo namespace."),
    identity_var("DYN_PARENT_DGD_K8S_NAME", "The graph's name."),
    identity_var("DYN_PARENT_DGD_K8S_NAMESPACE", "The graph's namespace."),
    user_defined_var(super::env::ROUTER_MODE, "How the frontend spreads requests."),
    injected_var("DYN_SYSTEM_", "The system server of a component: whether there is one, and its port."),
    injected_var("DYN_TOPOLOGY_", "Whether a worker says where its node is, and the folder where it reads that.")
        .since(V1_3),
    injected_var("ETCD_ENDPOINTS", "Where etcd is, when it is the discovery backend."),
    user_defined_var(super::env::HF_HOME, "Where Hugging Face libraries keep weights."),
    injected_var("MODEL_EXPRESS_URL", "Where Model Express is."),
    injected_var("NATS_SERVER", "Where NATS is; off by default from 1.4."),
    injected_var("NIXL_TELEMETRY_", "Telemetry of NIXL: whether, how, and on which port."),
    injected_var("PLANNER_PROMETHEUS_PORT", "The port of a planner's metrics."),
    injected_var("POD_IP", "The pod's address.").since(V1_5),
    identity_var("POD_NAME", "The pod's name."),
    identity_var("POD_NAMESPACE", "The pod's namespace."),
    identity_var("POD_UID", "The pod's uid."),
    injected_var("PROMETHEUS_ENDPOINT", "Where a planner reads metrics."),
    injected_var("VLLM_DP_MASTER_IP", "The address of the first rank of a vLLM worker with data parallelism.")
        .since(V1_5),
];

const fn port(number: u16, name: &'static str, of: &'static str, meaning: &'static str) -> ComponentPort {
    ComponentPort { number, name, components: of, releases: ReleaseSpan::ALL, meaning }
}

/// Ports of components, by number.
pub const PORTS: &[ComponentPort] = &[
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
