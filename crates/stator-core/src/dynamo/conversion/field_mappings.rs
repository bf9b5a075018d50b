//! What becomes of every v1alpha1 field, as data: the reasons that people read, and what the documentation shows.
//!
//! `*` stands for a name, `[]` for the items of a list. A mapping speaks for everything below its path that has none of
//! its own.

use MappingTarget::{KeptInAnnotation, MovedTo, Same};

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
pub const LOST_MOUNT: &str = "release 1.2 uses the mounts of `extraPodSpec.mainContainer` instead of these; later releases mount both, so write \
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

/// Declares the table: kind, then each of its fields and what becomes of it.
macro_rules! field_mappings {
    ($($kind:literal { $($path:literal => $target:expr;)* })*) => {
        /// Every field, by kind and path.
        pub const ALL: &[FieldMapping] = &[$($(FieldMapping { kind: $kind, path: $path, target: $target }),*),*];
    };
}

field_mappings! {
    "DynamoGraphDeployment" {
        "spec.annotations" => Same;
        "spec.backendFramework" => Same;
        "spec.envs" => MovedTo("spec.env");
        "spec.labels" => Same;
        "spec.pvcs[]" =>
            KeptInAnnotation("v1beta1 has no equivalent; in a model use `cache: {claim: NAME, mountPath: PATH}`, otherwise a PersistentVolumeClaim that a volume names");
        "spec.restart" => Same;
        "spec.services.*" => MovedTo("spec.components[]");
        "spec.services.*.annotations" =>
            KeptInAnnotation("a component has no annotations; put them on `podTemplate.metadata`");
        "spec.services.*.autoscaling" =>
            KeptInAnnotation("deprecated and ignored; switch a scaling adapter on and scale that with an autoscaler or the planner");
        "spec.services.*.checkpoint" => MovedTo("spec.components[].experimental.checkpoint, when enabled");
        "spec.services.*.componentType" => MovedTo("spec.components[].type");
        "spec.services.*.dynamoNamespace" =>
            KeptInAnnotation("deprecated; the Dynamo namespace follows from the graph's namespace and name");
        "spec.services.*.envFromSecret" => MovedTo("…containers[main].envFrom[].secretRef.name");
        "spec.services.*.envs" => MovedTo("…containers[main].env");
        "spec.services.*.eppConfig" => Same;
        "spec.services.*.extraPodMetadata" => MovedTo("spec.components[].podTemplate.metadata");
        "spec.services.*.extraPodSpec" => MovedTo("spec.components[].podTemplate.spec");
        "spec.services.*.extraPodSpec.mainContainer" => MovedTo("spec.components[].podTemplate.spec.containers[main]");
        "spec.services.*.failover" => MovedTo("spec.components[].experimental.failover, when enabled");
        "spec.services.*.frontendSidecar" =>
            MovedTo("…containers[sidecar-frontend], named by spec.components[].frontendSidecar");
        "spec.services.*.globalDynamoNamespace" => Same;
        "spec.services.*.gpuMemoryService" => MovedTo("spec.components[].experimental.gpuMemoryService, when enabled");
        "spec.services.*.ingress" =>
            KeptInAnnotation("the operator still serves it; write an Ingress or an HTTPRoute to the graph's frontend service instead");
        "spec.services.*.labels" => KeptInAnnotation("a component has no labels; put them on `podTemplate.metadata`");
        "spec.services.*.livenessProbe" => MovedTo("…containers[main].livenessProbe");
        "spec.services.*.modelRef" => Same;
        "spec.services.*.multinode" => Same;
        "spec.services.*.readinessProbe" => MovedTo("…containers[main].readinessProbe");
        "spec.services.*.replicas" => Same;
        "spec.services.*.resources" =>
            MovedTo("…containers[main].resources; `gpu` counts `nvidia.com/gpu` or the resource that `gpuType` names");
        "spec.services.*.scalingAdapter" => MovedTo("spec.components[].scalingAdapter: present when enabled");
        "spec.services.*.serviceName" => KeptInAnnotation("the operator takes the service's key as its name");
        "spec.services.*.sharedMemory" => MovedTo("spec.components[].sharedMemorySize; \"0\" when disabled");
        "spec.services.*.subComponentType" =>
            KeptInAnnotation("`prefill` and `decode` of a worker become its type; any other value has no meaning at v1beta1");
        "spec.services.*.topologyConstraint" => Same;
        "spec.services.*.volumeMounts[]" => MovedTo("…containers[main].volumeMounts[]");
        "spec.services.*.volumeMounts[].useAsCompilationCache" =>
            KeptInAnnotation("a component has one compilation cache: the first becomes `compilationCache`");
        "spec.topologyConstraint.packDomain" => Same;
        "spec.topologyConstraint.topologyProfile" => MovedTo("spec.topologyConstraint.clusterTopologyName");
    }
    "DynamoGraphDeploymentRequest" {
        "spec.autoApply" =>
            MovedTo("spec.autoApply; written out, because it is off by default at v1alpha1 and on at v1beta1");
        "spec.backend" => Same;
        "spec.deploymentOverrides.annotations" =>
            KeptInAnnotation("a request has no annotations for its graph; lock the result in git and set them there");
        "spec.deploymentOverrides.labels" =>
            KeptInAnnotation("a request has no labels for its graph; lock the result in git and set them there");
        "spec.deploymentOverrides.name" =>
            KeptInAnnotation("the graph is named after the request; `overrides.dgd.metadata.name` sets another name");
        "spec.deploymentOverrides.namespace" => KeptInAnnotation("the graph is created in the request's own namespace");
        "spec.deploymentOverrides.workersImage" =>
            MovedTo("spec.image, when there is no profilerImage; otherwise it is lost");
        "spec.enableGpuDiscovery" =>
            KeptInAnnotation("deprecated; the operator discovers GPUs where it may, set `hardware` where it may not");
        "spec.model" => Same;
        "spec.profilingConfig.config" =>
            KeptInAnnotation("v1beta1 has separate fields for the profiler's settings, but none for this one");
        "spec.profilingConfig.config.deployment.modelCache.modelPathInPvc" => MovedTo("spec.modelCache.pvcModelPath");
        "spec.profilingConfig.config.deployment.modelCache.pvcMountPath" => MovedTo("spec.modelCache.pvcMountPath");
        "spec.profilingConfig.config.deployment.modelCache.pvcName" => MovedTo("spec.modelCache.pvcName");
        "spec.profilingConfig.config.planner" => MovedTo("spec.features.planner");
        "spec.profilingConfig.config.sla.isl" => MovedTo("spec.workload.isl");
        "spec.profilingConfig.config.sla.itl" => MovedTo("spec.sla.itl");
        "spec.profilingConfig.config.sla.optimizationType" => MovedTo("spec.sla.optimizationType");
        "spec.profilingConfig.config.sla.osl" => MovedTo("spec.workload.osl");
        "spec.profilingConfig.config.sla.ttft" => MovedTo("spec.sla.ttft");
        "spec.profilingConfig.configMapRef" => KeptInAnnotation("a graph to start from is given as `overrides.dgd`");
        "spec.profilingConfig.nodeSelector" => MovedTo("spec.overrides.profilingJob.template.spec.nodeSelector");
        "spec.profilingConfig.outputPVC" =>
            KeptInAnnotation("results are kept in the request's status and in a ConfigMap");
        "spec.profilingConfig.profilerImage" => MovedTo("spec.image");
        "spec.profilingConfig.resources" =>
            MovedTo("spec.overrides.profilingJob.template.spec.containers[0].resources");
        "spec.profilingConfig.tolerations" => MovedTo("spec.overrides.profilingJob.template.spec.tolerations");
        "spec.useMocker" => MovedTo("spec.features.mocker.enabled");
    }
    "DynamoGraphDeploymentScalingAdapter" {
        "spec.dgdRef.name" => Same;
        "spec.dgdRef.serviceName" => MovedTo("spec.dgdRef.componentName");
        "spec.replicas" => Same;
    }
}

/// What becomes of a field. Kinds share no path with different fates.
pub fn mapping_target(path: &str) -> Option<MappingTarget> {
    ALL.iter().find(|rule| rule.path == path).map(|rule| rule.target)
}
