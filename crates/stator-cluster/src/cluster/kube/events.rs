//! What a cluster's controllers say of objects: Kubernetes Events.

use super::api_client::{ACCEPT_JSON, ApiUrl};
use super::kube_cluster::KubeCluster;
use crate::cluster::ClusterError;
use crate::cluster::api_conventions::format_time;
use serde_json::Value;
use stator_core::dynamo::kinds::ObjectKind;
use stator_core::object::ObjectRef;
use stator_model::plan::ModelStatus;
use stator_model::present::history::ClusterEvent;

/// Events, in the group that every controller's events are readable through.
const EVENTS: ObjectKind = ObjectKind { group: "", version: "v1", kind: "Event", plural: "events", short: "ev" };
/// The most that are read: a namespace keeps an hour of them.
const EVENT_LIMIT: &str = "5000";

/// One Event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubeEvent {
    /// When it last happened, RFC 3339.
    pub time: String,
    /// The kind of the object that it is about.
    pub kind: String,
    /// The name of that object.
    pub name: String,
    /// Whether it is a warning.
    pub warning: bool,
    /// Why it was sent, in a word.
    pub reason: String,
    /// What happened.
    pub message: String,
    /// How often.
    pub count: u64,
}

impl KubeCluster {
    /// The Events of a namespace, oldest first.
    ///
    /// # Errors
    /// When they may not be read, or the server does not answer.
    pub async fn list_events(&self, namespace: &str) -> Result<Vec<KubeEvent>, ClusterError> {
        let url = ApiUrl::of_kind(&EVENTS, Some(namespace)).query("limit", EVENT_LIMIT);
        let list = self.inner.get_document::<Value>("list", &EVENTS, &url, ACCEPT_JSON).await?.unwrap_or_default();
        let items = list.get("items").and_then(Value::as_array).into_iter().flatten();
        let mut events: Vec<KubeEvent> = items.map(parse_event).collect();
        events.sort();
        Ok(events)
    }
}

/// The Events that are about a model: about one of its objects, or a pod or the like that was made for one.
pub fn events_of_models(models: &[ModelStatus], events: Vec<KubeEvent>) -> Vec<ClusterEvent> {
    events
        .into_iter()
        .filter_map(|event| {
            let objects = models.iter().flat_map(|model| model.objects.iter().map(move |one| (model, &one.object)));
            // What Dynamo's operator makes is named after the graph; the longest name that fits is the graph's own.
            let fits = |object: &ObjectRef| {
                let own = object.kind == event.kind && object.name == event.name;
                own || event.name.strip_prefix(&object.name).is_some_and(|rest| rest.starts_with('-'))
            };
            let (model, _) = objects.filter(|(_, object)| fits(object)).max_by_key(|(_, object)| object.name.len())?;
            Some(ClusterEvent {
                time: event.time,
                model: model.name.clone(),
                object: format!("{} {}", event.kind, event.name),
                warning: event.warning,
                reason: event.reason,
                message: event.message,
                count: event.count,
            })
        })
        .collect()
}

fn parse_event(value: &Value) -> KubeEvent {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    // Controllers of today write `eventTime` and a series, those of old the two others.
    let times =
        ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/firstTimestamp", "/metadata/creationTimestamp"];
    let time = times.iter().find_map(|pointer| text(pointer)).unwrap_or_default();
    // Some have microseconds: whole seconds sort and read alike.
    let time = time.parse::<jiff::Timestamp>().map(format_time);
    let own = |pointer: &str| text(pointer).unwrap_or_default().to_owned();
    let counts = ["/series/count", "/count"].iter().find_map(|pointer| value.pointer(pointer).and_then(Value::as_u64));
    KubeEvent {
        time: time.unwrap_or_default(),
        kind: own("/involvedObject/kind"),
        name: own("/involvedObject/name"),
        warning: text("/type") == Some("Warning"),
        reason: own("/reason"),
        message: own("/message"),
        count: counts.unwrap_or(1).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_of_old_and_new_controllers_read_alike() {
        let about = json!({"kind": "Pod", "name": "llama-worker-0"});
        let old = parse_event(&json!({
            "involvedObject": about, "type": "Warning", "reason": "BackOff", "message": "Back-off pulling image",
            "count": 7, "firstTimestamp": "2026-11-21T03:00:00Z", "lastTimestamp": "2026-11-21T03:05:00Z", "eventTime": null,
        }));
        assert_eq!((old.time.as_str(), old.count, old.warning), ("2026-11-21T03:05:00Z", 7, true));
        let new = parse_event(&json!({
            "involvedObject": about, "type": "Normal", "reason": "Scheduled", "lastTimestamp": null,
            "eventTime": "2026-11-21T03:00:00.123456Z", "series": {"count": 2, "lastObservedTime": "2026-11-21T03:01:00.5Z"},
        }));
        assert_eq!((new.time.as_str(), new.count, new.warning), ("2026-11-21T03:01:00Z", 2, false));
        // Anything goes in an Event; nothing of it stops the others.
        assert_eq!(parse_event(&json!({"count": -1, "reason": 3})).count, 1);
    }
}
