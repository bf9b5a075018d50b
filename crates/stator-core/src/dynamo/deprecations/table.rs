//! The table.

use super::DeprecatedItem::{Annotation, Field, Flag, FlagValue, Label, Variable, Version};
use super::Deprecation;

const GRAPH: &str = "DynamoGraphDeployment";
const REQUEST: &str = "DynamoGraphDeploymentRequest";
const ADAPTER: &str = "DynamoGraphDeploymentScalingAdapter";
const COMPONENT: &str = "DynamoComponentDeployment";
const ALPHA: &str = "nvidia.com/v1alpha1";

/// Declares the table: what, since which release, the release that removes it where one is announced, and what to use
/// instead.
macro_rules! deprecations {
    (@option) => { None };
    (@option $removed:literal) => { Some($removed) };
    ($($subject:expr, since $since:literal $(, removed in $removed:literal)? => $replacement:literal;)*) => {
        /// The table.
        pub const ALL: &[Deprecation] = &[$(Deprecation {
            subject: $subject,
            since: $since,
            removed_in: deprecations!(@option $($removed)?),
            replacement: $replacement,
        }),*];
    };
}

deprecations! {
    Version(GRAPH, ALPHA), since "1.2" => "Write nvidia.com/v1beta1; `stator import` converts.";
    Version(REQUEST, ALPHA), since "1.0" => "Write nvidia.com/v1beta1; `stator import` converts.";
    Version(ADAPTER, ALPHA), since "1.2" => "Read nvidia.com/v1beta1.";
    Version(COMPONENT, ALPHA), since "1.2" => "Read nvidia.com/v1beta1.";
    Field(GRAPH, "spec.services.*.autoscaling"), since "0.7", removed in "1.0" =>
        "Switch a scaling adapter on (`scaling`) and scale that with an autoscaler or the planner.";
    Field(GRAPH, "spec.services.*.dynamoNamespace"), since "0.8", removed in "1.0" =>
        "Leave it out: the Dynamo namespace follows from the graph's namespace and name.";
    Field(GRAPH, "spec.services.*.ingress"), since "1.2" =>
        "Write an Ingress or an HTTPRoute to the graph's frontend service.";
    Field(GRAPH, "spec.pvcs"), since "1.2" =>
        "Write a PersistentVolumeClaim beside the graph (`cache`), and name it in a volume.";
    Field(GRAPH, "spec.components[].experimental.checkpoint.identity"), since "1.3" =>
        "Name the checkpoint in `checkpointRef`.";
    Field(REQUEST, "spec.enableGpuDiscovery"), since "1.2" =>
        "Leave it out: the operator discovers GPUs where it may; elsewhere give `hardware`.";
    Label("nvidia.com/dynamo-sub-component-type"), since "1.2" =>
        "Select by `nvidia.com/dynamo-component-type`, which is `prefill` or `decode` at v1beta1.";
    Annotation("nvidia.com/dgdr-config-map-ref"), since "1.2", removed in "1.4" =>
        "Leave it out: it kept a v1alpha1 field for the operator.";
    Annotation("nvidia.com/dgdr-deployment-overrides"), since "1.2", removed in "1.4" =>
        "Leave it out: it kept a v1alpha1 field for the operator.";
    Annotation("nvidia.com/dgdr-output-pvc"), since "1.2", removed in "1.4" =>
        "Leave it out: it kept a v1alpha1 field for the operator.";
    Annotation("nvidia.com/dgdr-profiling-config"), since "1.2", removed in "1.4" =>
        "Leave it out: it kept a v1alpha1 field for the operator.";
    Variable("DYN_CONNECTOR"), since "1.2" => "Give `--kv-transfer-config` to the engine.";
    Variable("DYN_DEPLOYMENT_CONFIG"), since "0.8", removed in "1.0" => "Give arguments to the component's command.";
    Variable("DYN_ENFORCE_DISAGG"), since "1.3" => "Leave it out: the router waits for prefill workers by itself.";
    Variable("DYN_KVBM_"), since "1.3", removed in "1.5" => "Use the engine's own KV offloading.";
    Flag("--connector"), since "1.2" => "Give `--kv-transfer-config` to the engine.";
    Flag("--enforce-disagg"), since "1.3" => "Leave it out: the router waits for prefill workers by itself.";
    Flag("--is-decode-worker"), since "1.2", removed in "1.4" => "Write `--disaggregation-mode decode`.";
    Flag("--is-prefill-worker"), since "1.2", removed in "1.4" => "Write `--disaggregation-mode prefill`.";
    FlagValue("--disaggregation-mode", "prefill_and_decode"), since "1.3" =>
        "Write `agg` (TensorRT-LLM) or `pd` (vLLM), or leave the flag out.";
}
