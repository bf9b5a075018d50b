//! What the simulated operator will do to one object, as data.

use serde_json::{Map, Value, json};
use stator_core::object::Object;
use std::collections::BTreeMap;
use std::time::Duration;

/// One step: wait, then write.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ScriptStep {
    /// How long after the step before, at speed 1.
    pub(super) after: Duration,
    /// Puts the operator's finalizer on (`true`) or takes it off.
    pub(super) finalizer: Option<bool>,
    /// Annotations to set, or to take away.
    pub(super) annotations: BTreeMap<&'static str, Option<String>>,
    /// An object to create first.
    pub(super) create: Option<Object>,
    /// The new status, without the times, which [`with_times`] fills in.
    pub(super) status: Option<Value>,
}

impl ScriptStep {
    pub(super) fn status(after: Duration, status: Value) -> Self {
        Self { after, status: Some(status), ..Self::default() }
    }

    /// The first thing that the operator does to an object.
    pub(super) fn adopt() -> Self {
        Self { finalizer: Some(true), ..Self::default() }
    }

    /// The last thing.
    pub(super) fn release() -> Self {
        Self { after: Duration::from_millis(100), finalizer: Some(false), ..Self::default() }
    }

    /// Whether this step and the next may be one: what one creates, the other may be about, and a rollout takes its times from
    /// its first state.
    pub(super) fn can_be_followed_by(&self, next: &Self) -> bool {
        let phase = self.status.as_ref().and_then(|status| status.pointer("/rollingUpdate/phase"));
        self.create.is_none() && next.create.is_none() && phase.is_none_or(|phase| phase != "Pending")
    }

    /// Makes this step and the next one.
    pub(super) fn follow_by(&mut self, next: Self) {
        self.finalizer = next.finalizer.or(self.finalizer);
        self.annotations.extend(next.annotations);
        self.status = next.status.or(self.status.take());
    }

    /// Whether the step writes anything outside the status.
    pub(super) fn writes_main(&self) -> bool {
        self.finalizer.is_some() || !self.annotations.is_empty()
    }

    /// Does the main half of the step to an object.
    pub(super) fn write_main(&self, object: &mut Value) {
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        if let Some(on) = self.finalizer {
            let name = json!(stator_core::dynamo::kinds::OPERATOR_FINALIZER);
            let mut list = metadata.get("finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
            list.retain(|own| *own != name);
            if on {
                list.push(name);
            }
            if list.is_empty() {
                metadata.remove("finalizers");
            } else {
                metadata.insert("finalizers".to_owned(), Value::Array(list));
            }
        }
        if self.annotations.is_empty() {
            return;
        }
        let mut all = match metadata.remove("annotations") {
            Some(Value::Object(all)) => all,
            Some(_) | None => Map::new(),
        };
        for (key, value) in &self.annotations {
            match value {
                Some(text) => all.insert((*key).to_owned(), json!(text)),
                None => all.remove(*key),
            };
        }
        if !all.is_empty() {
            metadata.insert("annotations".to_owned(), Value::Object(all));
        }
    }
}

/// A status with its times: a condition's time moves when its status does; a rollout starts when it becomes pending and
/// ends when it completes; a Job starts and completes once.
pub(super) fn with_times(mut status: Value, old: &Value, now: &str) -> Value {
    time_conditions(&mut status, old, now);
    // Of a route each gateway has its own.
    for parent in status.get_mut("parents").and_then(Value::as_array_mut).into_iter().flatten() {
        let mut before = old.get("parents").and_then(Value::as_array).into_iter().flatten();
        let before = before.find(|own| own.get("parentRef") == parent.get("parentRef")).cloned().unwrap_or_default();
        time_conditions(parent, &before, now);
    }
    if let Some(roll) = status.get_mut("rollingUpdate").and_then(Value::as_object_mut) {
        let before = |field: &str| old.pointer(&format!("/rollingUpdate/{field}")).cloned();
        let phase = roll.get("phase").and_then(Value::as_str).unwrap_or_default().to_owned();
        let start = if phase == "Pending" { None } else { before("startTime") };
        roll.insert("startTime".to_owned(), start.unwrap_or_else(|| json!(now)));
        if phase == "Completed" {
            let end = before("endTime").filter(|_| before("phase") == Some(json!("Completed")));
            roll.insert("endTime".to_owned(), end.unwrap_or_else(|| json!(now)));
        }
    }
    // When something began or ended once, left open by its script.
    for field in ["startTime", "completionTime"] {
        if let Some(time) = status.get_mut(field).filter(|time| time.is_null()) {
            *time = old.get(field).cloned().unwrap_or_else(|| json!(now));
        }
    }
    status
}

/// Gives the conditions of a status their times.
fn time_conditions(status: &mut Value, old: &Value, now: &str) {
    let known = |kind: &Value| {
        old.get("conditions").and_then(Value::as_array).into_iter().flatten().find(|own| own.get("type") == Some(kind))
    };
    for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        let before = known(&condition["type"]).filter(|own| own["status"] == condition["status"]);
        let time = before.and_then(|own| own.get("lastTransitionTime")).cloned().unwrap_or_else(|| json!(now));
        if let Some(map) = condition.as_object_mut() {
            map.insert("lastTransitionTime".to_owned(), time);
        }
    }
}

/// A condition without its time.
pub(super) fn condition(kind: &str, status: bool, reason: &str, message: &str, generation: Option<i64>) -> Value {
    let mut condition = json!({
        "type": kind,
        "status": if status { "True" } else { "False" },
        "reason": reason,
        "message": message,
    });
    if let (Some(generation), Some(map)) = (generation, condition.as_object_mut()) {
        map.insert("observedGeneration".to_owned(), json!(generation));
    }
    condition
}
