//! What becomes of every v1alpha1 field, as data: the reasons that people read, and what the documentation shows.
//!
//! `*` stands for a name, `[]` for the items of a list. A mapping speaks for everything below its path that has none of
//! its own.

/// What becomes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The same field at v1beta1.
    Same,
    /// Another field at v1beta1.
    To(&'static str),
    /// No field at v1beta1; the operator keeps it in an annotation. Why, and what to do instead.
    Kept(&'static str),
}

/// A field, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The kind.
    pub kind: &'static str,
    /// The field at v1alpha1.
    pub path: &'static str,
    /// What becomes of it.
    pub fate: Fate,
}

/// Why a field that has no mapping stays behind.
pub const UNKNOWN: &str = "v1alpha1 has no such field, and the API server drops it";

/// Why a service that is `null` stays behind.
pub(super) const NO_SERVICE: &str = "a service that is null becomes no component";

/// Why a service's mounts stay behind where its main container has mounts too.
pub(super) const LOST_MOUNT: &str = "release 1.2 takes the mounts of `extraPodSpec.mainContainer` in place of these; later releases mount both, so write \
     them all in one place";

/// Why an image of the workers stays behind where the profiler has one.
pub(super) const LOST_IMAGE: &str =
    "a request has one image, and `profilerImage` is it; set the workers' image in `overrides.dgd`";

/// Why a field of a service stays behind where its main container says otherwise.
pub(super) const OVERRULED: &str = "`extraPodSpec.mainContainer` says otherwise, and has the last word";
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

const MAIN: &str = "spec.components[].podTemplate.spec.containers[main]";

/// Every field, by kind and path.
pub const ALL: &[Mapping] = &[
    graph("spec.annotations", Fate::Same),
    graph("spec.backendFramework", Fate::Same),
    graph("spec.envs", Fate::To("spec.env")),
    graph("spec.labels", Fate::Same),
    graph(
        "spec.pvcs[]",
        Fate::Kept(
            "the operator still makes and mounts the claim; write a PersistentVolumeClaim beside the graph and name it in a volume",
        ),
    ),
    graph("spec.restart", Fate::Same),
    graph("spec.services.*", Fate::To("spec.components[]")),
    graph(
        "spec.services.*.annotations",
        Fate::Kept("a component has no annotations; put them on `podTemplate.metadata`"),
    ),
    graph(
        "spec.services.*.autoscaling",
        Fate::Kept(
            "deprecated and ignored; switch a scaling adapter on and scale that with an autoscaler or the planner",
        ),
    ),
    graph("spec.services.*.checkpoint", Fate::To("spec.components[].experimental.checkpoint, when enabled")),
    graph("spec.services.*.componentType", Fate::To("spec.components[].type")),
    graph(
        "spec.services.*.dynamoNamespace",
        Fate::Kept("deprecated; the Dynamo namespace follows from the graph's namespace and name"),
    ),
    graph("spec.services.*.envFromSecret", Fate::To("…containers[main].envFrom[].secretRef.name")),
    graph("spec.services.*.envs", Fate::To("…containers[main].env")),
    graph("spec.services.*.eppConfig", Fate::Same),
    graph("spec.services.*.extraPodMetadata", Fate::To("spec.components[].podTemplate.metadata")),
    graph("spec.services.*.extraPodSpec", Fate::To("spec.components[].podTemplate.spec")),
    graph("spec.services.*.extraPodSpec.mainContainer", Fate::To(MAIN)),
    graph("spec.services.*.failover", Fate::To("spec.components[].experimental.failover, when enabled")),
    graph(
        "spec.services.*.frontendSidecar",
        Fate::To("…containers[sidecar-frontend], named by spec.components[].frontendSidecar"),
    ),
    graph("spec.services.*.globalDynamoNamespace", Fate::Same),
    graph(
        "spec.services.*.gpuMemoryService",
        Fate::To("spec.components[].experimental.gpuMemoryService, when enabled"),
    ),
    graph(
        "spec.services.*.ingress",
        Fate::Kept(
            "the operator still serves it; write an Ingress or an HTTPRoute to the graph's frontend service instead",
        ),
    ),
    graph("spec.services.*.labels", Fate::Kept("a component has no labels; put them on `podTemplate.metadata`")),
    graph("spec.services.*.livenessProbe", Fate::To("…containers[main].livenessProbe")),
    graph("spec.services.*.modelRef", Fate::Same),
    graph("spec.services.*.multinode", Fate::Same),
    graph("spec.services.*.readinessProbe", Fate::To("…containers[main].readinessProbe")),
    graph("spec.services.*.replicas", Fate::Same),
    graph(
        "spec.services.*.resources",
        Fate::To("…containers[main].resources; `gpu` counts `nvidia.com/gpu` or the resource that `gpuType` names"),
    ),
    graph("spec.services.*.scalingAdapter", Fate::To("spec.components[].scalingAdapter: present when enabled")),
    graph("spec.services.*.serviceName", Fate::Kept("the operator takes the service's key as its name")),
    graph("spec.services.*.sharedMemory", Fate::To("spec.components[].sharedMemorySize; \"0\" when disabled")),
    graph(
        "spec.services.*.subComponentType",
        Fate::Kept("`prefill` and `decode` of a worker become its type; any other word says nothing at v1beta1"),
    ),
    graph("spec.services.*.topologyConstraint", Fate::Same),
    graph("spec.services.*.volumeMounts[]", Fate::To("…containers[main].volumeMounts[]")),
    graph(
        "spec.services.*.volumeMounts[].useAsCompilationCache",
        Fate::Kept("a component has one compilation cache: the first becomes `compilationCache`"),
    ),
    graph("spec.topologyConstraint.packDomain", Fate::Same),
    graph("spec.topologyConstraint.topologyProfile", Fate::To("spec.topologyConstraint.clusterTopologyName")),
    request(
        "spec.autoApply",
        Fate::To("spec.autoApply; written out, because it is off by default at v1alpha1 and on at v1beta1"),
    ),
    request("spec.backend", Fate::Same),
    request(
        "spec.deploymentOverrides.annotations",
        Fate::Kept("a request names no annotations for its graph; promote the result into git and set them there"),
    ),
    request(
        "spec.deploymentOverrides.labels",
        Fate::Kept("a request names no labels for its graph; promote the result into git and set them there"),
    ),
    request(
        "spec.deploymentOverrides.name",
        Fate::Kept("the graph is called after the request; `overrides.dgd.metadata.name` sets another name"),
    ),
    request("spec.deploymentOverrides.namespace", Fate::Kept("the graph is made in the request's own namespace")),
    request(
        "spec.deploymentOverrides.workersImage",
        Fate::To("spec.image, when there is no profilerImage; otherwise it is lost"),
    ),
    request(
        "spec.enableGpuDiscovery",
        Fate::Kept("deprecated; the operator discovers GPUs where it may, and `hardware` says them where it may not"),
    ),
    request("spec.model", Fate::Same),
    request(
        "spec.profilingConfig.config",
        Fate::Kept("the profiler's settings have fields of their own at v1beta1, and this one has none"),
    ),
    request(
        "spec.profilingConfig.config.deployment.modelCache.modelPathInPvc",
        Fate::To("spec.modelCache.pvcModelPath"),
    ),
    request("spec.profilingConfig.config.deployment.modelCache.pvcMountPath", Fate::To("spec.modelCache.pvcMountPath")),
    request("spec.profilingConfig.config.deployment.modelCache.pvcName", Fate::To("spec.modelCache.pvcName")),
    request("spec.profilingConfig.config.planner", Fate::To("spec.features.planner")),
    request("spec.profilingConfig.config.sla.isl", Fate::To("spec.workload.isl")),
    request("spec.profilingConfig.config.sla.itl", Fate::To("spec.sla.itl")),
    request("spec.profilingConfig.config.sla.optimizationType", Fate::To("spec.sla.optimizationType")),
    request("spec.profilingConfig.config.sla.osl", Fate::To("spec.workload.osl")),
    request("spec.profilingConfig.config.sla.ttft", Fate::To("spec.sla.ttft")),
    request("spec.profilingConfig.configMapRef", Fate::Kept("a graph to start from is given as `overrides.dgd`")),
    request("spec.profilingConfig.nodeSelector", Fate::To("spec.overrides.profilingJob.template.spec.nodeSelector")),
    request(
        "spec.profilingConfig.outputPVC",
        Fate::Kept("results are kept in the request's status and in a ConfigMap"),
    ),
    request("spec.profilingConfig.profilerImage", Fate::To("spec.image")),
    request(
        "spec.profilingConfig.resources",
        Fate::To("spec.overrides.profilingJob.template.spec.containers[0].resources"),
    ),
    request("spec.profilingConfig.tolerations", Fate::To("spec.overrides.profilingJob.template.spec.tolerations")),
    request("spec.useMocker", Fate::To("spec.features.mocker.enabled")),
    adapter("spec.dgdRef.name", Fate::Same),
    adapter("spec.dgdRef.serviceName", Fate::To("spec.dgdRef.componentName")),
    adapter("spec.replicas", Fate::Same),
];

const fn request(path: &'static str, fate: Fate) -> Mapping {
    Mapping { kind: "DynamoGraphDeploymentRequest", path, fate }
}

const fn adapter(path: &'static str, fate: Fate) -> Mapping {
    Mapping { kind: "DynamoGraphDeploymentScalingAdapter", path, fate }
}

const fn graph(path: &'static str, fate: Fate) -> Mapping {
    Mapping { kind: "DynamoGraphDeployment", path, fate }
}

/// What becomes of a field. Kinds share no path with different fates.
pub fn fate(path: &str) -> Option<Fate> {
    ALL.iter().find(|rule| rule.path == path).map(|rule| rule.fate)
}
