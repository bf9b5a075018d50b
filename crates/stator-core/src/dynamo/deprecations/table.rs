//! The table.

use super::{DeprecatedItem, Deprecation};

const GRAPH: &str = "DynamoGraphDeployment";
const REQUEST: &str = "DynamoGraphDeploymentRequest";
const ADAPTER: &str = "DynamoGraphDeploymentScalingAdapter";
const COMPONENT: &str = "DynamoComponentDeployment";
const ALPHA: &str = "nvidia.com/v1alpha1";

const fn deprecation(
    subject: DeprecatedItem,
    since: &'static str,
    removed: Option<&'static str>,
    instead: &'static str,
) -> Deprecation {
    Deprecation { subject, since, removed_in: removed, replacement: instead }
}

/// The table.
pub const ALL: &[Deprecation] = &[
    deprecation(
        DeprecatedItem::Version(GRAPH, ALPHA),
        "1.2",
        None,
        "Write nvidia.com/v1beta1; `stator import` converts.",
    ),
    deprecation(
        DeprecatedItem::Version(REQUEST, ALPHA),
        "1.0",
        None,
        "Write nvidia.com/v1beta1; `stator import` converts.",
    ),
    deprecation(DeprecatedItem::Version(ADAPTER, ALPHA), "1.2", None, "Read nvidia.com/v1beta1."),
    deprecation(DeprecatedItem::Version(COMPONENT, ALPHA), "1.2", None, "Read nvidia.com/v1beta1."),
    deprecation(
        DeprecatedItem::Kind("DynamoCheckpoint"),
        "1.3",
        Some("1.5"),
        "Use a PodSnapshot of the snapshot operator.",
    ),
    deprecation(
        DeprecatedItem::Field(GRAPH, "spec.services.*.autoscaling"),
        "0.7",
        Some("1.0"),
        "Switch a scaling adapter on (`scaling`) and scale that with an autoscaler or the planner.",
    ),
    deprecation(
        DeprecatedItem::Field(GRAPH, "spec.services.*.dynamoNamespace"),
        "0.8",
        Some("1.0"),
        "Leave it out: the Dynamo namespace follows from the graph's namespace and name.",
    ),
    deprecation(
        DeprecatedItem::Field(GRAPH, "spec.services.*.ingress"),
        "1.2",
        None,
        "Write an Ingress or an HTTPRoute to the graph's frontend service.",
    ),
    deprecation(
        DeprecatedItem::Field(GRAPH, "spec.pvcs"),
        "1.2",
        None,
        "Write a PersistentVolumeClaim beside the graph (`cache`), and name it in a volume.",
    ),
    deprecation(
        DeprecatedItem::Field(GRAPH, "spec.components[].eppConfig"),
        "1.4",
        Some("1.5"),
        "From runtime 1.5 on the endpoint picker is part of the frontend's image and has no settings: omit `config`.",
    ),
    deprecation(
        DeprecatedItem::Field(GRAPH, "spec.components[].experimental.checkpoint.identity"),
        "1.3",
        Some("1.5"),
        "Name a PodSnapshot in `checkpointRef`.",
    ),
    deprecation(
        DeprecatedItem::Field(REQUEST, "spec.enableGpuDiscovery"),
        "1.2",
        None,
        "Leave it out: the operator discovers GPUs where it may; elsewhere give `hardware`.",
    ),
    deprecation(
        DeprecatedItem::Value(REQUEST, "spec.hardware.gpuSku", "gb200_sxm"),
        "1.4",
        None,
        "Write `gb200`, on operators that know it.",
    ),
    deprecation(
        DeprecatedItem::Label("nvidia.com/dynamo-sub-component-type"),
        "1.2",
        None,
        "Select by `nvidia.com/dynamo-component-type`, which is `prefill` or `decode` at v1beta1.",
    ),
    deprecation(
        DeprecatedItem::Annotation("nvidia.com/dgdr-config-map-ref"),
        "1.2",
        Some("1.4"),
        "Leave it out: it kept a v1alpha1 field for the operator.",
    ),
    deprecation(
        DeprecatedItem::Annotation("nvidia.com/dgdr-deployment-overrides"),
        "1.2",
        Some("1.4"),
        "Leave it out: it kept a v1alpha1 field for the operator.",
    ),
    deprecation(
        DeprecatedItem::Annotation("nvidia.com/dgdr-output-pvc"),
        "1.2",
        Some("1.4"),
        "Leave it out: it kept a v1alpha1 field for the operator.",
    ),
    deprecation(
        DeprecatedItem::Annotation("nvidia.com/dgdr-profiling-config"),
        "1.2",
        Some("1.4"),
        "Leave it out: it kept a v1alpha1 field for the operator.",
    ),
    deprecation(DeprecatedItem::Variable("DYN_CONNECTOR"), "1.2", None, "Give `--kv-transfer-config` to the engine."),
    deprecation(
        DeprecatedItem::Variable("DYN_DEPLOYMENT_CONFIG"),
        "0.8",
        Some("1.0"),
        "Give arguments to the component's command.",
    ),
    deprecation(
        DeprecatedItem::Variable("DYN_ENFORCE_DISAGG"),
        "1.3",
        None,
        "Leave it out: the router waits for prefill workers by itself.",
    ),
    deprecation(DeprecatedItem::Variable("DYN_KVBM_"), "1.3", Some("1.5"), "Use the engine's own KV offloading."),
    deprecation(DeprecatedItem::Flag("--connector"), "1.2", None, "Give `--kv-transfer-config` to the engine."),
    deprecation(
        DeprecatedItem::Flag("--enforce-disagg"),
        "1.3",
        None,
        "Leave it out: the router waits for prefill workers by itself.",
    ),
    deprecation(
        DeprecatedItem::Flag("--is-decode-worker"),
        "1.2",
        Some("1.4"),
        "Write `--disaggregation-mode decode`.",
    ),
    deprecation(
        DeprecatedItem::Flag("--is-prefill-worker"),
        "1.2",
        Some("1.4"),
        "Write `--disaggregation-mode prefill`.",
    ),
    deprecation(
        DeprecatedItem::FlagValue("--disaggregation-mode", "prefill_and_decode"),
        "1.3",
        None,
        "Write `agg` (TensorRT-LLM) or `pd` (vLLM), or leave the flag out.",
    ),
];
