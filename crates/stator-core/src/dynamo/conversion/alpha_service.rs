//! What fields of a v1alpha1 service mean.

use crate::dynamo::v1alpha1::{AlphaServiceSpec, FeatureSwitch};
use crate::object::Quantity;
use serde_json::Value;

/// Whether the part of a worker becomes a type of its own.
pub(super) fn has_own_component_type(service: &AlphaServiceSpec) -> bool {
    service.component_type == "worker" && matches!(service.sub_component_type.as_str(), "prefill" | "decode")
}

/// A switch that is left out is off.
pub(super) fn is_on(switch: Option<&FeatureSwitch>) -> bool {
    switch.is_some_and(|switch| switch.enabled)
}

/// True for no quantity, and for one of nothing.
pub(super) fn is_zero(size: &Value) -> bool {
    match size {
        Value::Null => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => Quantity::parse(text.trim()) == Quantity::parse("0"),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}
