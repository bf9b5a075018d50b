//! What happens to sources and models, as events of the cluster: `kubectl describe modelsource models` shows them.
//!
//! An event is sent once for each change of state. The same again within ten minutes counts on in the series of the
//! first, as every reader of events expects it; another note is another event. (The recorder of the crate
//! `kube` takes events for the same whatever their note says, so that the second commit would be reported as the
//! first.)
//!
//! Nobody waits for events. What cannot be written in time, or comes faster than it is written, is dropped.

use crate::controller::report::retried_write::{RetryPolicy, WriteOutcome, write_with_retry};
use crate::controller::sources::objects::{MODEL_SOURCE, ModelSourceStore};
use crate::controller::sources::registry::SourceRegistry;
use crate::controller::sources::registry::source_events::SourceEvent;
use crate::controller::status_wording::redact_text;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use serde_json::json;
use stator_core::dynamo::kinds;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Bytes of a note that the API takes.
const MAX_NOTE_BYTES: usize = 1024;
/// Characters of an object's name that go into an event's.
const MAX_NAME_CHARS: usize = 200;
/// For how long the same again is one of a series.
const SERIES_WINDOW: Duration = Duration::from_secs(600);
/// Events that a series may go on from.
const MAX_OPEN_SERIES: usize = 1000;
const RETRIES: RetryPolicy = RetryPolicy {
    first_pause: Duration::from_millis(500),
    longest_pause: Duration::from_secs(10),
    max_attempts: Some(4),
    attempt_timeout: Duration::from_secs(10),
    timeout_message: "the API server did not answer in 10 s",
};

/// Writes events for as long as the process lives. `instance` is what this replica is called.
pub async fn run_event_writer(
    client: Client,
    registry: Arc<SourceRegistry>,
    resources: Arc<ModelSourceStore>,
    instance: String,
    ending: CancellationToken,
) {
    let mut events = registry.subscribe_events();
    let instance = truncate_bytes(&instance, 128);
    let mut writer = KubeEventWriter { client, resources, instance, series: Vec::new() };
    loop {
        let received = tokio::select! {
            received = events.recv() => received,
            () = ending.cancelled() => return,
        };
        match received {
            Ok(source_event) => {
                tokio::select! {
                    () = writer.write_event(&source_event) => {}
                    () = ending.cancelled() => return,
                }
            }
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(missed, "events are created faster than the API server accepts them");
            }
            Err(RecvError::Closed) => return,
        }
    }
}

struct KubeEventWriter {
    client: Client,
    resources: Arc<ModelSourceStore>,
    instance: String,
    /// The oldest first.
    series: Vec<KubeEventSeries>,
}

struct KubeEventSeries {
    regarding: ObjectReference,
    reason: &'static str,
    note: String,
    event: String,
    count: i32,
    last: Instant,
}

impl KubeEventWriter {
    async fn write_event(&mut self, source_event: &SourceEvent) {
        let Some(regarding) = self.involved_object(source_event) else { return };
        let note = truncate_bytes(&redact_text(&source_event.message), MAX_NOTE_BYTES);
        let now = Instant::now();
        self.series.retain(|one| now.duration_since(one.last) < SERIES_WINDOW);
        let reason = source_event.kind.as_str();
        let same = |one: &KubeEventSeries| one.regarding == regarding && one.reason == reason && one.note == note;
        let known = self.series.iter().position(same).map(|at| self.series.remove(at));
        let (event, count) = match &known {
            Some(series) => (series.event.clone(), series.count.saturating_add(1)),
            None => (event_name(&regarding), 1),
        };
        let api: Api<Event> = Api::namespaced(self.client.clone(), regarding.namespace.as_deref().unwrap_or("default"));
        let new = build_event(source_event, &regarding, &note, &event, &self.instance);
        let series = json!({"series": EventSeries { count, last_observed_time: MicroTime(source_event.at) }});
        let attempt = || async {
            let sent = match count {
                1 => api.create(&PostParams::default(), &new).await,
                _ => api.patch(&event, &PatchParams::default(), &Patch::Merge(&series)).await,
            };
            match sent {
                Ok(_) => WriteOutcome::Done(()),
                // It was written, and the answer was lost.
                Err(Error::Api(status)) if status.code == 409 => WriteOutcome::Done(()),
                Err(error) => WriteOutcome::from_kube_error(error),
            }
        };
        match write_with_retry(&RETRIES, &CancellationToken::new(), attempt, |_| {}).await {
            WriteOutcome::Done(()) => {
                if self.series.len() >= MAX_OPEN_SERIES {
                    self.series.remove(0);
                }
                self.series.push(KubeEventSeries { regarding, reason, note, event, count, last: now });
            }
            WriteOutcome::Refused(problem) | WriteOutcome::Failed(problem, _) => {
                tracing::warn!(source = %source_event.source, reason, "an event could not be written: {problem}");
            }
        }
    }

    /// The object that it is about; none where the source is gone meanwhile.
    fn involved_object(&self, source_event: &SourceEvent) -> Option<ObjectReference> {
        let resource = self.resources.get(&source_event.source)?;
        let source = &source_event.source;
        let (of, namespace, name, uid) = match &source_event.model {
            None => (MODEL_SOURCE, &source.namespace, &source.name, Some(resource.uid.clone())),
            Some(model) => (kinds::RECORD, &model.namespace, &model.name, None),
        };
        Some(ObjectReference {
            api_version: Some(of.api_version()),
            kind: Some(of.kind.to_owned()),
            namespace: Some(namespace.clone()),
            name: Some(name.clone()),
            uid,
            ..ObjectReference::default()
        })
    }
}

fn build_event(
    source_event: &SourceEvent,
    regarding: &ObjectReference,
    note: &str,
    name: &str,
    instance: &str,
) -> Event {
    Event {
        action: Some("Sync".to_owned()),
        event_time: Some(MicroTime(source_event.at)),
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: regarding.namespace.clone(),
            ..ObjectMeta::default()
        },
        note: Some(note.to_owned()),
        reason: Some(source_event.kind.as_str().to_owned()),
        regarding: Some(regarding.clone()),
        reporting_controller: Some("stator.dev/controller".to_owned()),
        reporting_instance: Some(if instance.is_empty() { "stator".to_owned() } else { instance.to_owned() }),
        type_: Some(if source_event.kind.is_warning() { "Warning" } else { "Normal" }.to_owned()),
        ..Event::default()
    }
}

/// A name that no other event has.
fn event_name(regarding: &ObjectReference) -> String {
    let of = regarding.name.as_deref().unwrap_or("stator");
    let stem: String = of.chars().take(MAX_NAME_CHARS).collect();
    format!("{}.{}", stem.trim_end_matches(['-', '.']), uuid::Uuid::new_v4().simple())
}

/// The beginning of a text, in at most so many bytes.
fn truncate_bytes(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    const MORE: &str = "…";
    let remaining = most.saturating_sub(MORE.len());
    let end = (0..=remaining).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}{MORE}", &text[..end])
}
