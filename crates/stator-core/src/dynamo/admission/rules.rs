//! The rules of Dynamo's admission, and those that stator adds.

crate::rules! {
    /// Source: the CRDs of the release or of the cluster, their CEL rules, and the API server's own rules for metadata.
    SCHEMA = "dynamo/schema", "An object has the fields, types and values that Dynamo's CRDs declare.";
    /// Source: `sharedspec`/DGD webhook, "spec.services must have at least one service".
    NO_COMPONENTS = "dynamo/no-components", "A graph has at least one component.";
    /// Source: CEL rule of the CRD.
    COMPONENT_TWICE = "dynamo/component-twice", "The components of a graph have different names, ignoring case.";
    /// Source: DGD webhook.
    NEGATIVE_REPLICAS = "dynamo/negative-replicas", "Replicas are 0 or more.";
    /// Source: CEL rule of the CRD, from 1.3 on.
    RESTART_ON_CREATE = "dynamo/restart-on-create", "A graph is created without a restart.";
    /// Source: DGD webhook, `validateRestart`.
    RESTART_ORDER = "dynamo/restart-order", "A restart order names every component once, and only a sequential restart has one.";
    /// Source: DGD webhook, `validateTopologyConstraints`.
    TOPOLOGY = "dynamo/topology", "Topology constraints are complete: the graph names a topology, and it or every component a domain.";
    /// Source: DGD webhook, `validateAnnotations`.
    ANNOTATION = "dynamo/annotation-value", "Annotations that Dynamo reads have a value that it supports.";
    /// Source: DGD webhook, `validateFailover`.
    FAILOVER = "dynamo/failover", "Failover inside a pod needs container discovery and a GPU memory service of the same mode.";
    /// Source: DGD webhook.
    MEMORY_SERVICE = "dynamo/gpu-memory-service", "A GPU memory service belongs to a worker with GPUs.";
    /// Source: DGD webhook and CEL rules of the CRD.
    ENDPOINT_PICKER = "dynamo/endpoint-picker", "A graph has at most one endpoint picker: one replica, one node, one source of settings.";
    /// Source: DGD webhook, `validateService`: GPU memory between pods.
    NEEDS_GROVE = "dynamo/needs-grove", "Depends on the cluster: GPU memory between pods needs Grove.";
    /// Source: DGD webhook, `validateServiceNameLength`, and `PCSNameForDGD`.
    GROVE_NAMES = "dynamo/grove-names", "Depends on the cluster: on Grove, names of graph and component fit in 45 characters.";
    /// Source: `SharedSpecValidator.checkInferencePoolAPIAvailability`.
    NEEDS_INFERENCE_GATEWAY = "dynamo/needs-inference-gateway", "Depends on the cluster: an endpoint picker needs the Gateway API Inference Extension.";
    /// Source: DGD webhook, `validateTopologyDomainsAgainstGroveClusterTopology`.
    NEEDS_TOPOLOGY = "dynamo/needs-topology", "Depends on the cluster: on Grove, a topology constraint names an existing topology and existing domains.";
    /// Source: DGDR webhook, `validateGPUHardwareInfo`.
    NEEDS_GPU_DISCOVERY = "dynamo/needs-gpu-discovery", "Depends on the cluster: a request names its GPUs where the operator cannot find them.";
    /// Source: shared webhook rules of 1.3 and later.
    NEEDS_CHECKPOINTS = "dynamo/needs-checkpoints", "Depends on the cluster: a checkpoint needs an operator that makes them.";
    /// stator's own from 1.3 on: admitted, and off.
    CHECKPOINT_SWITCH = "dynamo/checkpoint-switch", "A checkpoint says whether it is enabled, where Dynamo has the field.";
    /// Source: DGD webhook of 1.5.
    PROVIDER_OVERRIDE = "dynamo/provider-override", "An override of Grove's objects has the version and target of its place, and only a `topologyConstraint`.";
    /// stator's own: admitted, and the operator has nothing to run it on.
    NEEDS_MULTINODE = "dynamo/needs-multinode", "Depends on the cluster: a component of several nodes needs Grove or LeaderWorkerSet.";
    /// Source: DynamoModel webhook.
    ADAPTER_SOURCE = "dynamo/adapter-source", "A LoRA adapter comes from s3://, hf://, or from 1.3 on file:///.";
    /// Source: DynamoModel webhook.
    ADAPTER_NAMES = "dynamo/adapter-names", "An adapter names itself and its base model.";
    /// Source: the `ValidateUpdate` of the webhooks of graphs, requests and adapters.
    FROZEN = "dynamo/frozen", "Fields that Dynamo makes immutable do not change, or the object is created again.";
    /// Source: DGD webhook, `validateReplicasChanges`.
    SCALED = "dynamo/scaled-replicas", "Replicas under a scaling adapter are changed through the adapter.";
    /// Source: DGD webhook, `validateNoRestartDuringRollingUpdate`.
    RESTART_WHILE_ROLLING = "dynamo/restart-while-rolling", "A graph is not restarted while its workers roll.";
    /// Source: DGD webhook, `validatePVC`, and the v1alpha1 rules of `SharedSpecValidator`.
    ALPHA = "dynamo/v1alpha1", "Fields that only v1alpha1 has are complete: volumes, mounts, ingress, shared memory, sidecar.";
    /// Source: DGDR webhook.
    THOROUGH_AUTO = "dynamo/thorough-auto", "A thorough search needs a named engine.";
    /// Source: DGDR webhook of later releases.
    WORKLOAD = "dynamo/workload", "A workload has a concurrency or a request rate.";
    /// Source: Kubernetes' limits on labels, and what the operator puts into them (`nvidia.com/selector`).
    NAME_BUDGET = "dynamo/name-budget", "Names leave room for what the operator derives from them.";
    /// stator's own below 1.4: admitted, and the pod cannot be made.
    IMAGE_MISSING = "dynamo/image-missing", "Every component's main container has an image.";
    /// Source: shared webhook rules of 1.4 and later, `internal/runtimeversion`; stator's own below.
    IMAGE_VERSION = "dynamo/image-version", "An image's tag is a semantic version, which Dynamo 1.4 and later read, or `runtimeVersion` is beside it.";
    /// stator's own: admitted, and requests are spread over both at random.
    TWO_FRONTENDS = "dynamo/two-frontends", "A graph has one frontend.";
    /// stator's own below 1.5: admitted, and no pod can be made.
    SHARED_MEMORY = "dynamo/shared-memory", "The size of shared memory is not negative.";
    /// stator's own: the operator's value and the intent's fight.
    INJECTED_ENV = "dynamo/injected-env", "Variables that the operator injects are not set.";
    /// stator's own: probes look for the port by its name.
    SYSTEM_PORT = "dynamo/system-port", "A worker that lists ports has one named `system`.";
    /// Source: shared webhook rules of 1.4 and later, `validateElasticEPRequiresCommand`.
    ELASTIC_EXPERTS = "dynamo/elastic-experts", "Elastic expert parallelism on Ray has an explicit command.";
    /// stator's own below 1.5: admitted, and the operator looks for the container in vain.
    SIDECAR = "dynamo/frontend-sidecar", "The frontend sidecar is a container of the pod other than `main`.";
    /// Source: the table of [`crate::dynamo::deprecations`].
    DEPRECATED = "dynamo/deprecated", "Nothing deprecated is used: versions, fields, labels, variables, flags.";
    /// Source: the operator's reconciler, "backend framework mismatch".
    BACKEND = "dynamo/backend-mismatch", "Every worker runs the graph's backend framework.";
}
