//! DynamoGraphDeploymentRequest.

use super::{Faults, rules};
use crate::dynamo::v1beta1::RequestSpec;
use crate::object::{FieldPath, Object};
use serde::Deserialize;

/// The job is `profile-<name>`, and a job's name is a label of its pods: 63 characters.
const MAX_NAME: usize = 63 - "profile-".len();

pub(super) fn check(object: &Object, faults: &mut Faults) {
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
        faults.refused(
            rules::THOROUGH_AUTO,
            FieldPath::of(["spec", "searchStrategy"]),
            "a thorough search runs one engine on real GPUs, and the engine is left open",
            "name the engine: vllm, sglang or trtllm; or search `rapid`",
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
}
