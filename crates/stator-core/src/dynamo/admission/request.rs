//! DynamoGraphDeploymentRequest.

use super::{AdmissionCollector, PlatformRequirement, image, rules};
use crate::dynamo::v1beta1::RequestSpec;
use crate::object::{FieldPath, Object};
use serde::Deserialize;

/// The job is `profile-<name>`, and a job's name is a label of its pods: 63 characters.
const MAX_NAME: usize = 63 - "profile-".len();

pub(super) fn check(object: &Object, faults: &mut AdmissionCollector<'_>) {
    if object.name().len() > MAX_NAME {
        faults.warn(
            rules::NAME_BUDGET,
            FieldPath::from_fields(["metadata", "name"]),
            format!("the name has {} characters; its job `profile-…` leaves room for {MAX_NAME}", object.name().len()),
            "shorten the model's name",
        );
    }
    let Ok(spec) = RequestSpec::deserialize(object.spec()) else { return };
    let auto = spec.backend.as_deref().unwrap_or("auto") == "auto";
    if spec.search_strategy.as_deref() == Some("thorough") && auto {
        faults.deny(
            rules::THOROUGH_AUTO,
            FieldPath::from_fields(["spec", "searchStrategy"]),
            "a thorough search runs one engine on real GPUs, but no engine is named",
            "name the engine: vllm, sglang or trtllm; or search `rapid`",
            "spec.searchStrategy \"thorough\" is incompatible with spec.backend \"auto\": set spec.backend to a specific \
             backend (sglang, trtllm, or vllm)",
        );
    }
    if let Some(found) = spec.image.as_deref().filter(|found| !found.is_empty()) {
        let image = FieldPath::from_fields(["spec", "image"]);
        let given = spec.rest.contains_key("runtimeVersionOverride");
        image::check_version(
            found,
            given,
            image,
            "spec.runtimeVersionOverride: Required value: is required when spec.image has no parseable semantic-version tag",
            faults,
        );
    }
    if spec.workload.contains_key("concurrency") && spec.workload.contains_key("requestRate") {
        faults.warn(
            rules::WORKLOAD,
            FieldPath::from_fields(["spec", "workload", "requestRate"]),
            "both a concurrency and a request rate are set; later releases refuse that, and this one uses only one of \
             them",
            "keep one of the two",
        );
    }
    if !["gpuSku", "vramMb", "numGpusPerNode"].iter().any(|field| spec.hardware.contains_key(*field)) {
        faults.deny_unless_met(
            PlatformRequirement::GpuDiscovery,
            FieldPath::from_fields(["spec", "hardware"]),
            "the operator of this cluster does not discover GPUs, and the request does not name them",
            "give `hardware: {gpu: …}`",
            "GPU hardware configuration required: GPU discovery is disabled (set dynamo-operator.gpuDiscovery.enabled=true \
             in Helm values, or provide hardware config in spec.hardware)",
        );
    }
}
