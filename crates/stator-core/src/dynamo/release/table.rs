//! The table.

use super::Release::{self, V1_3, V1_4, V1_5};

/// One difference between a release and the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseChange {
    /// What changed.
    pub change: Change,
    /// The release that brought it.
    pub since: Release,
    /// Where that is written, in Dynamo's sources or notes.
    pub source: &'static str,
}

/// What a release may change.
///
/// A path names properties from a schema's top down, without marks for lists and maps. One that begins with `spec` or
/// `status` stands for that place alone; any other for every place that ends with it, as v1alpha1, v1beta1 and the kinds
/// share most of what is in a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A field of this kind, or with `*` of every kind, was added.
    Field(&'static str, &'static str),
    /// A rule in CEL was added, by its message.
    Rule(&'static str),
    /// A rule in CEL was removed, by its message.
    RuleRemoved(&'static str),
    /// A field became required.
    Required(&'static str, &'static str),
    /// A field is no longer required.
    Optional(&'static str, &'static str),
    /// A value of an enumeration was added.
    Value(&'static str, &'static str),
    /// Values may only be so long.
    MaxLength(&'static str),
    /// A default was removed.
    DefaultRemoved(&'static str, &'static str),
}

/// Declares what the operator does since which release: `NAME: since RELEASE, "sentence", source "…";`.
macro_rules! behaviours {
    ($($name:ident: since $since:ident, $sentence:literal, source $source:literal;)*) => {
        /// What the operator does from a release on, beside what its definitions say.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Behaviour {
            $(#[doc = $sentence] $name,)*
        }

        impl Behaviour {
            /// Every one, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The release that brought it.
            pub fn since(self) -> Release {
                match self { $(Self::$name => $since,)* }
            }

            /// What it is, in a sentence.
            pub fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence,)* }
            }

            /// Where it is written.
            pub fn source(self) -> &'static str {
                match self { $(Self::$name => $source,)* }
            }
        }
    };
}

behaviours! {
    RestartUnsetOnCreate: since V1_3, "A new graph cannot have a `restart`.",
        source "CEL rule of DynamoGraphDeployment";
    FileSources: since V1_3, "An adapter may come from `file:///…`.", source "DynamoModel webhook";
    MountListsMerged: since V1_3, "A v1alpha1 service keeps both of its lists of mounts when it is converted.",
        source "conversion of DynamoGraphDeployment, #11263";
    CheckpointSwitched: since V1_3, "A checkpoint sets `enabled`; the webhook defaults it to false.",
        source "webhook/defaulting/dynamographdeployment_handler.go";
    CheckpointGated: since V1_3, "A checkpoint that is enabled needs the operator's checkpoint feature.",
        source "webhook/validation/shared_v1beta1.go";
    GroveFieldsChecked: since V1_3, "`minAvailable`, `priorityClassName`, `forceScalingGroup`, `providerOverride` and `clusterTopologyName` need Grove.",
        source "webhook/validation/dynamographdeployment.go";
    MemoryClientsChanged: since V1_3, "The containers that share GPU memory in a pod are made otherwise.",
        source "release notes of 1.3, #9641, #10378";
    PickerLogsLess: since V1_4, "An endpoint picker logs at `info` where it does not say otherwise.",
        source "release notes of 1.4, #11550";
    LeaderVariablesAdded: since V1_4, "The first node of a TensorRT-LLM worker of several nodes passes more variables on.",
        source "internal/dynamo/backend_trtllm.go, #11999";
    ImageRequired: since V1_4, "The main container of every component needs an image.",
        source "webhook/validation/shared_v1beta1.go";
    RuntimeVersionRead: since V1_4, "The runtime's version is read from the image's tag, or given in `runtimeVersionOverride`.",
        source "internal/runtimeversion/runtimeversion.go";
    FallbackCovered: since V1_4, "An adapter is ready when each endpoint has it or is covered by one that has.",
        source "internal/controller/dynamo_model_controller.go";
    ReadyRequestFrozen: since V1_4, "A request in phase Ready takes no changes but `runtimeVersionOverride` and switching `autoApply` on.",
        source "webhook/validation/dynamographdeploymentrequest_helpers.go";
    RecreateHonoured: since V1_4, "`nvidia.com/deployment-strategy: Recreate` also holds for rolls of workers, which go to zero first.",
        source "internal/controller/dgd_worker_rollout_reconciler.go, #11909";
    SecondHashAlone: since V1_4, "The second hash of the workers decides alone, and a new graph has no other.",
        source "internal/dynamo/worker-hash.md";
    OnDeleteHonoured: since V1_4, "With `nvidia.com/grove-update-strategy: OnDelete`, Grove updates a pod only once somebody deletes it.",
        source "internal/dynamo/graph.go";
    PointedDenials: since V1_5, "Admission judges at v1beta1, and names every faulty field.", source "webhook configuration, #11177";
    StoredAsWritten: since V1_5, "Graphs are stored at v1beta1, so that a `null` in one stays and is refused.",
        source "the definition";
    SidecarChecked: since V1_5, "`frontendSidecar` names a container of the pod.", source "webhook/validation/shared_v1beta1.go";
    SharedMemoryChecked: since V1_5, "`sharedMemorySize` is not negative.", source "webhook/validation/shared_v1beta1.go";
    MemoryClientsChecked: since V1_5, "Extra clients of the GPU memory service are containers of the pod.",
        source "webhook/validation/shared_v1beta1.go";
    ProviderPinned: since V1_5, "The workload provider of a graph is pinned by `nvidia.com/workload-provider` when it is created.",
        source "internal/controller/dgd_workload_provider.go";
    UpdateStrategyChecked: since V1_5, "`nvidia.com/grove-update-strategy` is RollingRecreate or OnDelete.",
        source "webhook/validation/dynamographdeployment.go";
    PowerLimitChecked: since V1_5, "`dynamo.nvidia.com/gpu-power-limit` of a pod is a positive number, and cannot be combined with a claim or GPU memory service.",
        source "webhook/validation/dynamographdeployment.go";
    ElasticExpertsChecked: since V1_5, "Elastic expert parallelism of vLLM on Ray needs an explicit command.",
        source "webhook/validation/shared_helpers.go";
    AdapterLocksBothWays: since V1_5, "Replicas are locked while a scaling adapter is there, before or after the change.",
        source "webhook/validation/shared_v1beta1.go";
    GraphTopologyOptional: since V1_5, "The graph's topology may leave `packDomain` to one of its components.",
        source "webhook/validation/dynamographdeployment.go";
    MinAvailableFilled: since V1_5, "On Grove `minAvailable: 1` is put in where none is given.",
        source "webhook/defaulting/dynamographdeployment_handler.go";
    ElasticExpertsWrapped: since V1_5, "The operator starts Ray itself for elastic expert parallelism of vLLM in one pod.",
        source "internal/dynamo/backend_vllm.go, #12943";
    PickerCacheWithheld: since V1_5, "An endpoint picker with `eppConfig` has no volume for a tokenizer any more.",
        source "internal/dynamo/component_epp.go, #11355";
    CheckpointsBySnapshots: since V1_5, "Checkpoints are made by the Snapshot operator, and automatic ones are made again.",
        source "release notes of 1.5, #14076";
    GroveWorkersRollTogether: since V1_5, "On Grove, a change of one worker replaces every worker of the graph.",
        source "internal/controller/dgd_grove_workload_renderer.go, #12769";
    ResolvedVersionHashed: since V1_5, "The runtime's version is part of the workers' hash from 1.5.0 on.",
        source "internal/dynamo/hash.go";
}

/// The message of the rule that refuses a `restart` on create.
pub const RESTART_UNSET_ON_CREATE: &str =
    "spec.restart must be unset on create; set spec.restart.id after creation to request a restart";

impl Change {
    /// The field that it adds to a kind.
    pub fn field_of(self, kind: &str) -> Option<&'static str> {
        match self {
            Self::Field(of, path) if of == "*" || of == kind => Some(path),
            Self::Field(..)
            | Self::Rule(_)
            | Self::RuleRemoved(_)
            | Self::Required(..)
            | Self::Optional(..)
            | Self::Value(..)
            | Self::MaxLength(_)
            | Self::DefaultRemoved(..) => None,
        }
    }
}

const fn change(change: Change, since: Release, source: &'static str) -> ReleaseChange {
    ReleaseChange { change, since, source }
}

const GRAPH: &str = "DynamoGraphDeployment";
const CRD: &str = "the definition";
const KUBERNETES: &str = "the pod of Kubernetes 1.36";

/// What each release changed about the definitions; what it changed about the operator's doing is [`Behaviour::ALL`].
/// With both, the definitions of 1.2 follow from those of 1.5, which a test holds.
pub const CHANGES: &[ReleaseChange] = &[
    change(Change::Field(GRAPH, "spec.priorityClassName"), V1_3, CRD),
    change(Change::Field(GRAPH, "spec.experimental"), V1_3, CRD),
    change(Change::Field("*", "minAvailable"), V1_3, CRD),
    change(Change::Rule("minAvailable must be less than or equal to replicas unless replicas is 0"), V1_3, CRD),
    change(Change::Rule("minAvailable is immutable after creation"), V1_3, CRD),
    change(Change::Rule(RESTART_UNSET_ON_CREATE), V1_3, CRD),
    change(Change::Field("*", "experimental.checkpoint.enabled"), V1_3, CRD),
    change(Change::Required("experimental.checkpoint", "enabled"), V1_3, CRD),
    change(Change::Field("*", "checkpoint.startupPolicy"), V1_3, CRD),
    change(Change::Field("*", "checkpoint.deletionPolicy"), V1_3, CRD),
    change(Change::Field("*", "checkpoint.targetContainerName"), V1_3, CRD),
    change(Change::Field("*", "checkpoint.job"), V1_3, CRD),
    change(Change::Rule("checkpoint.job cannot be set when checkpointRef is specified"), V1_3, CRD),
    change(Change::DefaultRemoved("checkpoint.mode", "Auto"), V1_3, CRD),
    change(
        Change::RuleRemoved("When checkpoint is configured, either checkpointRef or identity must be specified"),
        V1_3,
        CRD,
    ),
    change(
        Change::RuleRemoved(
            "When enabled, either checkpointRef or both identity.model and identity.backendFramework must be specified",
        ),
        V1_3,
        CRD,
    ),
    change(Change::Field("DynamoCheckpoint", "job.targetContainerName"), V1_3, CRD),
    change(Change::Field("*", "gpuMemoryService.extraClientContainers"), V1_3, CRD),
    change(Change::Field("*", "gpuMemoryService.extraClientPods"), V1_3, CRD),
    change(Change::Rule("extraClientContainers is only supported with mode=IntraPod"), V1_3, CRD),
    change(Change::Rule("extraClientContainers is only supported with mode=intraPod"), V1_3, CRD),
    change(Change::Rule("extraClientPods is only supported with mode=InterPod"), V1_3, CRD),
    change(Change::Rule("extraClientPods is only supported with mode=interPod"), V1_3, CRD),
    change(Change::Rule("extraClientPods is reserved for inter-pod GMS and is not implemented yet"), V1_3, CRD),
    change(Change::Value("spec.hardware.gpuSku", "gb10"), V1_3, CRD),
    change(Change::Field("*", "runtimeVersionOverride"), V1_4, CRD),
    change(Change::Rule("sidecar containers must specify a non-empty image"), V1_4, CRD),
    change(Change::Rule("init containers must specify a non-empty image"), V1_4, CRD),
    change(Change::Rule("podTemplate backend annotation must be mp or ray, case-insensitively"), V1_4, CRD),
    change(Change::MaxLength("podTemplate.metadata.annotations"), V1_4, CRD),
    change(Change::Field("*", "schedulingGroup"), V1_4, KUBERNETES),
    change(Change::Field("*", "podCertificate.userAnnotations"), V1_4, KUBERNETES),
    change(Change::Optional("onPodConditions", "status"), V1_4, KUBERNETES),
    change(Change::Field("*", "providerOverride"), V1_5, CRD),
    change(Change::Field("*", "multinode.leader"), V1_5, CRD),
    change(Change::Field("*", "multinode.worker"), V1_5, CRD),
    change(Change::Field("*", "experimental.grove"), V1_5, CRD),
    change(Change::Field(GRAPH, "status.placement"), V1_4, CRD),
    change(Change::Field("*", "runtimeNamespace"), V1_4, CRD),
    change(Change::Field("*", "scheduledReplicas"), V1_4, CRD),
    change(Change::Field("*", "checkpointID"), V1_4, CRD),
    change(Change::Field("DynamoCheckpoint", "status.podSnapshotName"), V1_4, CRD),
    change(Change::Field("DynamoModel", "status.loraFallbackCoveredEndpoints"), V1_4, CRD),
    change(Change::Field("DynamoModel", "status.endpoints.loraFallbackCovered"), V1_4, CRD),
];

/// Whether a path of the table stands for a place: `place` is the names of the fields that lead there.
pub(super) fn stands_for(path: &str, place: &[&str]) -> bool {
    let wanted: Vec<&str> = path.split('.').collect();
    let anchored = matches!(wanted.first(), Some(&("spec" | "status")));
    if anchored { place == wanted.as_slice() } else { place.ends_with(&wanted) }
}

/// The release that added a field, where it is one that the table names or stands below one: `None` for fields that every
/// known release has, and for those that none has. `place` is the names of the fields that lead to it.
pub fn release_of_field(kind: &str, place: &[&str]) -> Option<Release> {
    (1..=place.len()).find_map(|depth| {
        let above = place.get(..depth)?;
        let added = CHANGES.iter().find(|row| row.change.field_of(kind).is_some_and(|path| stands_for(path, above)));
        added.map(|row| row.since)
    })
}
