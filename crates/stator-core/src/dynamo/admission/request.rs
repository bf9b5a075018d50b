//! DynamoGraphDeploymentRequest.

use super::{Faults, Need, rules};
use crate::dynamo::v1beta1::RequestSpec;
use crate::object::{FieldPath, Object};
use serde::Deserialize;

/// The job is `profile-<name>`, and a job's name is a label of its pods: 63 characters.
const MAX_NAME: usize = 63 - "profile-".len();

pub(super) fn check(object: &Object, faults: &mut Faults<'_>) {
    if object.name().len() > MAX_NAME {
        faults.would_fail(
            rules::NAME_BUDGET,
            FieldPath::of(["metadata", "name"]),
            format!("the name has {} characters; its job `profile-…` leaves room for {MAX_NAME}", object.name().len()),
            "shorten the model's name",
        );
    }
    let Ok(spec) = RequestSpec::deserialize(object.spec()) else { return };
    let auto = spec.backend.as_deref().unwrap_or("auto") == "auto";
    if spec.search_strategy.as_deref() == Some("thorough") && auto {
        faults.refused_as(
            rules::THOROUGH_AUTO,
            FieldPath::of(["spec", "searchStrategy"]),
            "a thorough search runs one engine on real GPUs, and the engine is left open",
            "name the engine: vllm, sglang or trtllm; or search `rapid`",
            "spec.searchStrategy \"thorough\" is incompatible with spec.backend \"auto\": set spec.backend to a specific \
             backend (sglang, trtllm, or vllm)",
        );
    }
    if spec.workload.contains_key("concurrency") && spec.workload.contains_key("requestRate") {
        faults.would_fail(
            rules::WORKLOAD,
            FieldPath::of(["spec", "workload", "requestRate"]),
            "both a concurrency and a request rate are given; later releases refuse that, and this one uses one of them",
            "keep one of the two",
        );
    }
    if !["gpuSku", "vramMb", "numGpusPerNode"].iter().any(|field| spec.hardware.contains_key(*field)) {
        faults.depends(
            Need::GpuDiscovery,
            FieldPath::of(["spec", "hardware"]),
            "the operator of this cluster does not find out which GPUs there are, and the request does not say",
            "give `hardware: {gpu: …}`",
            "GPU hardware configuration required: GPU discovery is disabled (set dynamo-operator.gpuDiscovery.enabled=true \
             in Helm values, or provide hardware config in spec.hardware)",
        );
    }
}
