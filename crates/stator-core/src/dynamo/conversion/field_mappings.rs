//! What becomes of every v1alpha1 field, as data: the reasons that people read, and what the documentation shows.
//!
//! `*` stands for a name, `[]` for the items of a list. A mapping speaks for everything below its path that has none of
//! its own.

/// What becomes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingTarget {
    /// The same field at v1beta1.
    Same,
    /// Another field at v1beta1.
    MovedTo(&'static str),
    /// No field at v1beta1; the operator keeps it in an annotation. Why, and what to do instead.
    KeptInAnnotation(&'static str),
}

/// A field, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldMapping {
    /// The kind.
    pub kind: &'static str,
    /// The field at v1alpha1.
    pub path: &'static str,
    /// What becomes of it.
    pub target: MappingTarget,
}

/// Why a field that has no mapping stays behind.
pub const UNKNOWN_FIELD: &str = "v1alpha1 has no such field, and the API server drops it";

/// Why a service that is `null` stays behind.
pub(super) const NULL_SERVICE: &str = "a service that is null becomes no component";

/// Why a service's mounts stay behind where its main container has mounts too.
pub(super) const LOST_MOUNT: &str = "release 1.2 uses the mounts of `extraPodSpec.mainContainer` instead of these; later releases mount both, so write \
     them all in one place";

/// Why an image of the workers stays behind where the profiler has one.
pub(super) const LOST_IMAGE: &str =
    "a request has one image, and `profilerImage` is it; set the workers' image in `overrides.dgd`";

/// Why a field of a service stays behind where its main container says otherwise.
pub(super) const OVERRIDDEN_BY_MAIN: &str = "`extraPodSpec.mainContainer` sets another value, which takes precedence";
/// Why the name of the main container stays behind.
pub(super) const ALWAYS_MAIN: &str = "the main container is always called `main`";

/// Fields of a graph's spec that both versions have, those of later releases included.
pub(super) const SAME_IN_GRAPHS: &[&str] =
    &["annotations", "backendFramework", "experimental", "labels", "priorityClassName", "providerOverride", "restart"];

/// Fields of a service that a component has too, those of later releases included.
pub(super) const SAME_IN_SERVICES: &[&str] = &[
    "eppConfig",
    "globalDynamoNamespace",
    "minAvailable",
    "modelRef",
    "multinode",
    "providerOverride",
    "replicas",
    "roles",
    "runtimeVersionOverride",
    "topologyConstraint",
];

const MAIN_CONTAINER_PATH: &str = "spec.components[].podTemplate.spec.containers[main]";

/// Every field, by kind and path.
pub const ALL: &[FieldMapping] = &[
    graph("spec.annotations", MappingTarget::Same),
    graph("spec.backendFramework", MappingTarget::Same),
    graph("spec.envs", MappingTarget::MovedTo("spec.env")),
    graph("spec.labels", MappingTarget::Same),
    graph(
        "spec.pvcs[]",
        MappingTarget::KeptInAnnotation(
            "v1beta1 has no equivalent; in a model use `cache: {claim: NAME, mountPath: PATH}`, otherwise a PersistentVolumeClaim that a volume names",
        ),
    ),
    graph("spec.restart", MappingTarget::Same),
    graph("spec.services.*", MappingTarget::MovedTo("spec.components[]")),
    graph(
        "spec.services.*.annotations",
        MappingTarget::KeptInAnnotation("a component has no annotations; put them on `podTemplate.metadata`"),
    ),
    graph(
        "spec.services.*.autoscaling",
        MappingTarget::KeptInAnnotation(
            "deprecated and ignored; switch a scaling adapter on and scale that with an autoscaler or the planner",
        ),
    ),
    graph(
        "spec.services.*.checkpoint",
        MappingTarget::MovedTo("spec.components[].experimental.checkpoint, when enabled"),
    ),
    graph("spec.services.*.componentType", MappingTarget::MovedTo("spec.components[].type")),
    graph(
        "spec.services.*.dynamoNamespace",
        MappingTarget::KeptInAnnotation("deprecated; the Dynamo namespace follows from the graph's namespace and name"),
    ),
    graph("spec.services.*.envFromSecret", MappingTarget::MovedTo("…containers[main].envFrom[].secretRef.name")),
    graph("spec.services.*.envs", MappingTarget::MovedTo("…containers[main].env")),
    graph("spec.services.*.eppConfig", MappingTarget::Same),
    graph("spec.services.*.extraPodMetadata", MappingTarget::MovedTo("spec.components[].podTemplate.metadata")),
    graph("spec.services.*.extraPodSpec", MappingTarget::MovedTo("spec.components[].podTemplate.spec")),
    graph("spec.services.*.extraPodSpec.mainContainer", MappingTarget::MovedTo(MAIN_CONTAINER_PATH)),
    graph("spec.services.*.failover", MappingTarget::MovedTo("spec.components[].experimental.failover, when enabled")),
    graph(
        "spec.services.*.frontendSidecar",
        MappingTarget::MovedTo("…containers[sidecar-frontend], named by spec.components[].frontendSidecar"),
    ),
    graph("spec.services.*.globalDynamoNamespace", MappingTarget::Same),
    graph(
        "spec.services.*.gpuMemoryService",
        MappingTarget::MovedTo("spec.components[].experimental.gpuMemoryService, when enabled"),
    ),
    graph(
        "spec.services.*.ingress",
        MappingTarget::KeptInAnnotation(
            "the operator still serves it; write an Ingress or an HTTPRoute to the graph's frontend service instead",
        ),
    ),
    graph(
        "spec.services.*.labels",
        MappingTarget::KeptInAnnotation("a component has no labels; put them on `podTemplate.metadata`"),
    ),
    graph("spec.services.*.livenessProbe", MappingTarget::MovedTo("…containers[main].livenessProbe")),
    graph("spec.services.*.modelRef", MappingTarget::Same),
    graph("spec.services.*.multinode", MappingTarget::Same),
    graph("spec.services.*.readinessProbe", MappingTarget::MovedTo("…containers[main].readinessProbe")),
    graph("spec.services.*.replicas", MappingTarget::Same),
    graph(
        "spec.services.*.resources",
        MappingTarget::MovedTo(
            "…containers[main].resources; `gpu` counts `nvidia.com/gpu` or the resource that `gpuType` names",
        ),
    ),
    graph(
        "spec.services.*.scalingAdapter",
        MappingTarget::MovedTo("spec.components[].scalingAdapter: present when enabled"),
    ),
    graph(
        "spec.services.*.serviceName",
        MappingTarget::KeptInAnnotation("the operator takes the service's key as its name"),
    ),
    graph(
        "spec.services.*.sharedMemory",
        MappingTarget::MovedTo("spec.components[].sharedMemorySize; \"0\" when disabled"),
    ),
    graph(
        "spec.services.*.subComponentType",
        MappingTarget::KeptInAnnotation(
            "`prefill` and `decode` of a worker become its type; any other value has no meaning at v1beta1",
        ),
    ),
    graph("spec.services.*.topologyConstraint", MappingTarget::Same),
    graph("spec.services.*.volumeMounts[]", MappingTarget::MovedTo("…containers[main].volumeMounts[]")),
    graph(
        "spec.services.*.volumeMounts[].useAsCompilationCache",
        MappingTarget::KeptInAnnotation("a component has one compilation cache: the first becomes `compilationCache`"),
    ),
    graph("spec.topologyConstraint.packDomain", MappingTarget::Same),
    graph(
        "spec.topologyConstraint.topologyProfile",
        MappingTarget::MovedTo("spec.topologyConstraint.clusterTopologyName"),
    ),
    request(
        "spec.autoApply",
        MappingTarget::MovedTo(
            "spec.autoApply; written out, because it is off by default at v1alpha1 and on at v1beta1",
        ),
    ),
    request("spec.backend", MappingTarget::Same),
    request(
        "spec.deploymentOverrides.annotations",
        MappingTarget::KeptInAnnotation(
            "a request has no annotations for its graph; lock the result in git and set them there",
        ),
    ),
    request(
        "spec.deploymentOverrides.labels",
        MappingTarget::KeptInAnnotation(
            "a request has no labels for its graph; lock the result in git and set them there",
        ),
    ),
    request(
        "spec.deploymentOverrides.name",
        MappingTarget::KeptInAnnotation(
            "the graph is named after the request; `overrides.dgd.metadata.name` sets another name",
        ),
    ),
    request(
        "spec.deploymentOverrides.namespace",
        MappingTarget::KeptInAnnotation("the graph is created in the request's own namespace"),
    ),
    request(
        "spec.deploymentOverrides.workersImage",
        MappingTarget::MovedTo("spec.image, when there is no profilerImage; otherwise it is lost"),
    ),
    request(
        "spec.enableGpuDiscovery",
        MappingTarget::KeptInAnnotation(
            "deprecated; the operator discovers GPUs where it may, set `hardware` where it may not",
        ),
    ),
    request("spec.model", MappingTarget::Same),
    request(
        "spec.profilingConfig.config",
        MappingTarget::KeptInAnnotation(
            "v1beta1 has separate fields for the profiler's settings, but none for this one",
        ),
    ),
    request(
        "spec.profilingConfig.config.deployment.modelCache.modelPathInPvc",
        MappingTarget::MovedTo("spec.modelCache.pvcModelPath"),
    ),
    request(
        "spec.profilingConfig.config.deployment.modelCache.pvcMountPath",
        MappingTarget::MovedTo("spec.modelCache.pvcMountPath"),
    ),
    request(
        "spec.profilingConfig.config.deployment.modelCache.pvcName",
        MappingTarget::MovedTo("spec.modelCache.pvcName"),
    ),
    request("spec.profilingConfig.config.planner", MappingTarget::MovedTo("spec.features.planner")),
    request("spec.profilingConfig.config.sla.isl", MappingTarget::MovedTo("spec.workload.isl")),
    request("spec.profilingConfig.config.sla.itl", MappingTarget::MovedTo("spec.sla.itl")),
    request("spec.profilingConfig.config.sla.optimizationType", MappingTarget::MovedTo("spec.sla.optimizationType")),
    request("spec.profilingConfig.config.sla.osl", MappingTarget::MovedTo("spec.workload.osl")),
    request("spec.profilingConfig.config.sla.ttft", MappingTarget::MovedTo("spec.sla.ttft")),
    request(
        "spec.profilingConfig.configMapRef",
        MappingTarget::KeptInAnnotation("a graph to start from is given as `overrides.dgd`"),
    ),
    request(
        "spec.profilingConfig.nodeSelector",
        MappingTarget::MovedTo("spec.overrides.profilingJob.template.spec.nodeSelector"),
    ),
    request(
        "spec.profilingConfig.outputPVC",
        MappingTarget::KeptInAnnotation("results are kept in the request's status and in a ConfigMap"),
    ),
    request("spec.profilingConfig.profilerImage", MappingTarget::MovedTo("spec.image")),
    request(
        "spec.profilingConfig.resources",
        MappingTarget::MovedTo("spec.overrides.profilingJob.template.spec.containers[0].resources"),
    ),
    request(
        "spec.profilingConfig.tolerations",
        MappingTarget::MovedTo("spec.overrides.profilingJob.template.spec.tolerations"),
    ),
    request("spec.useMocker", MappingTarget::MovedTo("spec.features.mocker.enabled")),
    adapter("spec.dgdRef.name", MappingTarget::Same),
    adapter("spec.dgdRef.serviceName", MappingTarget::MovedTo("spec.dgdRef.componentName")),
    adapter("spec.replicas", MappingTarget::Same),
];

const fn request(path: &'static str, fate: MappingTarget) -> FieldMapping {
    FieldMapping { kind: "DynamoGraphDeploymentRequest", path, target: fate }
}

const fn adapter(path: &'static str, fate: MappingTarget) -> FieldMapping {
    FieldMapping { kind: "DynamoGraphDeploymentScalingAdapter", path, target: fate }
}

const fn graph(path: &'static str, fate: MappingTarget) -> FieldMapping {
    FieldMapping { kind: "DynamoGraphDeployment", path, target: fate }
}

/// What becomes of a field. Kinds share no path with different fates.
pub fn mapping_target(path: &str) -> Option<MappingTarget> {
    ALL.iter().find(|rule| rule.path == path).map(|rule| rule.target)
}
