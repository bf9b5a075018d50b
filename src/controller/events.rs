//! What happens to sources and models, as events of the cluster: `kubectl describe modelsource models` shows them.
//!
//! An event is told once for a change of state. The same again within ten minutes counts on in the series of the first,
//! as every reader of events expects it; what says something else is an event of its own. (The recorder of the crate
//! `kube` takes events for the same whatever their note says, so that the second commit would be told as the first.)
//!
//! Nobody waits for events. What cannot be written in time, or comes faster than it is written, is dropped and counted.

use super::backoff::Backoff;
use super::board::Board;
use super::news::News;
use super::resources::{MODEL_SOURCE, Resources};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use serde_json::{Value, json};
use stator_core::dynamo::kinds;
use stator_core::mask;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Bytes of a note that the API takes.
const NOTE: usize = 1024;
/// Characters of an object's name that go into an event's.
const NAME: usize = 200;
/// For how long the same again is one of a series.
const SERIES: Duration = Duration::from_secs(600);
/// Events that a series may go on from.
const MOST_SERIES: usize = 1000;
/// How long one write may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often one is tried.
const TRIES: u32 = 4;
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(10);

/// What became of events since the start.
#[derive(Debug, Default)]
pub struct Tally {
    written: AtomicU64,
    dropped: AtomicU64,
}

impl Tally {
    /// Events, and counts of series, that were written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Events that nobody will read: they came too fast, or the API server did not take them.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Writes events for as long as the process lives. `instance` is what this replica is called.
pub async fn write(
    client: Client,
    board: Arc<Board>,
    resources: Arc<Resources>,
    instance: String,
    tally: Arc<Tally>,
    ending: CancellationToken,
) {
    let mut news = board.listen();
    let mut writer = Writer { client, resources, instance: cut(&instance, 128), tally, series: Vec::new() };
    loop {
        let heard = tokio::select! {
            heard = news.recv() => heard,
            () = ending.cancelled() => return,
        };
        match heard {
            Ok(news) => {
                tokio::select! {
                    () = writer.tell(&news) => {}
                    () = ending.cancelled() => return,
                }
            }
            Err(RecvError::Lagged(missed)) => {
                writer.tally.dropped.fetch_add(missed, Ordering::Relaxed);
                tracing::warn!(missed, "events came faster than the API server takes them");
            }
            Err(RecvError::Closed) => return,
        }
    }
}

struct Writer {
    client: Client,
    resources: Arc<Resources>,
    instance: String,
    tally: Arc<Tally>,
    /// The oldest first.
    series: Vec<Series>,
}

struct Series {
    regarding: ObjectReference,
    reason: &'static str,
    note: String,
    event: String,
    count: i32,
    last: Instant,
}

impl Writer {
    async fn tell(&mut self, news: &News) {
        let Some(regarding) = self.regarding(news) else { return };
        let note = note(&news.message);
        let now = Instant::now();
        self.series.retain(|one| now.duration_since(one.last) < SERIES);
        let same = |one: &Series| one.regarding == regarding && one.reason == news.what.word() && one.note == note;
        let known = self.series.iter().position(same).map(|at| self.series.remove(at));
        let (event, count) = match &known {
            Some(series) => (series.event.clone(), series.count.saturating_add(1)),
            None => (name(&regarding), 1),
        };
        let written = if count == 1 {
            let event = event_of(news, &regarding, &note, &event, &self.instance);
            self.send(&regarding, |api| {
                let event = event.clone();
                async move { api.create(&PostParams::default(), &event).await.map(drop) }
            })
            .await
        } else {
            let series = EventSeries { count, last_observed_time: MicroTime(news.at) };
            let patch = json!({"series": series});
            self.send(&regarding, |api| {
                let (name, patch) = (event.clone(), patch.clone());
                async move { api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.map(drop) }
            })
            .await
        };
        match written {
            Ok(()) => {
                self.tally.written.fetch_add(1, Ordering::Relaxed);
                if self.series.len() >= MOST_SERIES {
                    self.series.remove(0);
                }
                self.series.push(Series { regarding, reason: news.what.word(), note, event, count, last: now });
            }
            Err(problem) => {
                self.tally.dropped.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(source = %news.source, reason = news.what.word(), "an event was not written: {problem}");
            }
        }
    }

    /// The object that it is about; none where the source is gone meanwhile.
    fn regarding(&self, news: &News) -> Option<ObjectReference> {
        let resource = self.resources.get(&news.source)?;
        Some(match &news.model {
            None => ObjectReference {
                api_version: Some(MODEL_SOURCE.api_version()),
                kind: Some(MODEL_SOURCE.kind.to_owned()),
                namespace: Some(news.source.namespace.clone()),
                name: Some(news.source.name.clone()),
                uid: Some(resource.uid.clone()),
                ..ObjectReference::default()
            },
            Some(model) => ObjectReference {
                api_version: Some(kinds::RECORD.api_version()),
                kind: Some(kinds::RECORD.kind.to_owned()),
                namespace: Some(model.namespace.clone()),
                name: Some(model.name.clone()),
                ..ObjectReference::default()
            },
        })
    }

    async fn send<F, Sent>(&self, regarding: &ObjectReference, request: F) -> Result<(), String>
    where
        F: Fn(Api<Event>) -> Sent,
        Sent: Future<Output = Result<(), Error>>,
    {
        let namespace = regarding.namespace.as_deref().unwrap_or("default");
        let mut backoff = Backoff::new(FIRST, LONGEST);
        loop {
            let api = Api::namespaced(self.client.clone(), namespace);
            let problem = match tokio::time::timeout(DEADLINE, request(api)).await {
                Ok(Ok(())) => return Ok(()),
                // It was written, and the answer was lost.
                Ok(Err(Error::Api(status))) if status.code == 409 => return Ok(()),
                Ok(Err(Error::Api(status))) if (400..500).contains(&status.code) && status.code != 429 => {
                    return Err(status.message);
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("the API server did not answer in {} s", DEADLINE.as_secs()),
            };
            let pause = backoff.pause();
            if backoff.tries() >= TRIES {
                return Err(problem);
            }
            tokio::time::sleep(pause).await;
        }
    }
}

fn event_of(news: &News, regarding: &ObjectReference, note: &str, name: &str, instance: &str) -> Event {
    Event {
        action: Some("Sync".to_owned()),
        event_time: Some(MicroTime(news.at)),
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: regarding.namespace.clone(),
            ..ObjectMeta::default()
        },
        note: Some(note.to_owned()),
        reason: Some(news.what.word().to_owned()),
        regarding: Some(regarding.clone()),
        reporting_controller: Some("stator.dev/controller".to_owned()),
        reporting_instance: Some(if instance.is_empty() { "stator".to_owned() } else { instance.to_owned() }),
        type_: Some(if news.what.is_warning() { "Warning" } else { "Normal" }.to_owned()),
        ..Event::default()
    }
}

/// A name that no other event has.
fn name(regarding: &ObjectReference) -> String {
    let of = regarding.name.as_deref().unwrap_or("stator");
    let stem: String = of.chars().take(NAME).collect();
    format!("{}.{}", stem.trim_end_matches(['-', '.']), uuid::Uuid::new_v4().simple())
}

/// A message as a note: without what looks like a secret, and no longer than the API takes.
fn note(message: &str) -> String {
    let mut value = Value::String(message.to_owned());
    mask::one(&mut value);
    cut(value.as_str().unwrap_or_default(), NOTE)
}

/// The beginning of a text, in at most so many bytes.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    const MORE: &str = "…";
    let room = most.saturating_sub(MORE.len());
    let end = (0..=room).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}{MORE}", &text[..end])
}
