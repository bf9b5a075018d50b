//! Notifications: what happens to sources, sent to Slack and to webhooks by the rules of each source.
//!
//! One task listens to all that happens and [decides](decision) what of it is reported; each receiver has a queue and a
//! task of its own, so that one that hangs holds up nobody.

pub mod decision;
pub mod message;
mod sender;

#[cfg(test)]
mod tests;

use crate::controller::metrics::{Metrics, NotificationResult, QueueKind};
use crate::controller::sources::notification_target::NotificationTarget;
use crate::controller::sources::registry::SourceRegistry;
use crate::controller::sources::registry::source_events::SourceEvent;
use crate::controller::sources::resolved_source::{ResolvedSource, SourceKey};
use crate::controller::waiting::sleep_for_some;
use decision::{NotificationDecision, NotificationHistory};
use jiff::Timestamp;
use message::NotificationMessage;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// One receiver's queue.
#[derive(Clone, Debug)]
struct ReceiverQueue {
    target: NotificationTarget,
    queue: mpsc::Sender<NotificationMessage>,
}

/// The receivers of each source.
type ReceiverQueues = Arc<Mutex<BTreeMap<SourceKey, Vec<ReceiverQueue>>>>;

/// Notifies people of what happens to sources. Without a source that has receivers, nothing runs.
#[derive(Debug, Default)]
pub struct Notifier {
    registry: Arc<SourceRegistry>,
    metrics: Arc<Metrics>,
    receivers: ReceiverQueues,
    tasks: TaskTracker,
    listening: OnceLock<()>,
    /// Ends the listening.
    shutdown: CancellationToken,
    /// Ends the pauses of those that send.
    flush: CancellationToken,
}

impl Notifier {
    /// Of the sources in a registry.
    pub fn new(registry: Arc<SourceRegistry>, metrics: Arc<Metrics>) -> Self {
        Self { registry, metrics, ..Self::default() }
    }

    /// Notifies those whom a source names from now on, and no others of it. What waits for the others is still sent.
    pub fn set_receivers(&self, source: &ResolvedSource) {
        let mut receivers = Vec::new();
        for (wanted, secret) in source.spec.notifications.iter().zip(&source.secrets.notifications) {
            match NotificationTarget::from_secret(wanted, secret, source.spec.allow_insecure) {
                Ok(target) => {
                    let target = NotificationTarget { addresses: source.access.addresses, ..target };
                    receivers.push(self.open_queue(&source.key, target));
                }
                Err(fault) => tracing::warn!(
                    source = %source.key,
                    "no notifications are sent with the secret `{}`: it {fault}; {}", secret.name(), fault.help()
                ),
            }
        }
        if receivers.is_empty() {
            self.remove_source(&source.key);
            return;
        }
        self.lock_receivers().insert(source.key.clone(), receivers);
        self.listening.get_or_init(|| {
            let (events, registry) = (self.registry.subscribe_events(), Arc::clone(&self.registry));
            let (receivers, metrics, ending) =
                (Arc::clone(&self.receivers), Arc::clone(&self.metrics), self.shutdown.clone());
            self.tasks.spawn(run_listener(events, registry, receivers, metrics, ending));
        });
    }

    /// A source is gone.
    pub fn remove_source(&self, source: &SourceKey) {
        self.lock_receivers().remove(source);
    }

    fn lock_receivers(&self) -> MutexGuard<'_, BTreeMap<SourceKey, Vec<ReceiverQueue>>> {
        self.receivers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_queue(&self, source: &SourceKey, target: NotificationTarget) -> ReceiverQueue {
        self.metrics.init_receiver(target.kind);
        let (queue, waiting) = mpsc::channel(sender::QUEUE_CAPACITY);
        let weak = queue.downgrade();
        self.metrics.add_queue_probe(QueueKind::Notifications, move || {
            let queue = weak.upgrade()?;
            Some(queue.max_capacity().saturating_sub(queue.capacity()))
        });
        let (metrics, hurry) = (Arc::clone(&self.metrics), self.flush.clone());
        self.tasks.spawn(sender::run_sender(source.clone(), target.clone(), waiting, metrics, hurry));
        ReceiverQueue { target, queue }
    }

    /// Waits until everything that happened is sent, but not for long.
    pub async fn flush_and_stop(&self, deadline: Duration) {
        self.shutdown.cancel();
        self.flush.cancel();
        self.tasks.close();
        self.lock_receivers().clear();
        if tokio::time::timeout(deadline, self.tasks.wait()).await.is_err() {
            tracing::warn!("not all notifications were sent in time");
        }
    }
}

/// Receives every event, and sends those that are to be reported.
async fn run_listener(
    mut events: broadcast::Receiver<SourceEvent>,
    registry: Arc<SourceRegistry>,
    receivers: ReceiverQueues,
    metrics: Arc<Metrics>,
    ending: CancellationToken,
) {
    let mut histories: BTreeMap<SourceKey, NotificationHistory> = BTreeMap::new();
    loop {
        let due = histories.values().filter_map(NotificationHistory::next_due).min();
        let wait = due.map(|due| Duration::try_from(due.duration_since(Timestamp::now())).unwrap_or_default());
        let decisions: Vec<NotificationDecision> = tokio::select! {
            biased;
            received = events.recv() => match received {
                Ok(source_event) => decide_event(&mut histories, &registry, source_event).into_iter().collect(),
                Err(RecvError::Lagged(missed)) => {
                    tracing::warn!(missed, "some events were not reported, because there were too many");
                    Vec::new()
                }
                Err(RecvError::Closed) => return,
            },
            () = ending.cancelled() => return,
            () = sleep_for_some(wait) => {
                let now = Timestamp::now();
                let overdue = histories.iter_mut().flat_map(|(source, history)| {
                    let seen = registry.entry(source).and_then(|entry| entry.state.borrow().seen.clone());
                    history.take_overdue(now, seen.as_ref().map(|seen| seen.commit.as_str()))
                });
                overdue.collect()
            }
        };
        // What was forgotten must not be reported again.
        histories.retain(|source, _| registry.entry(source).is_some());
        for decision in decisions {
            enqueue_notifications(&receivers, &registry, &metrics, &decision);
        }
    }
}

fn decide_event(
    histories: &mut BTreeMap<SourceKey, NotificationHistory>,
    registry: &SourceRegistry,
    source_event: SourceEvent,
) -> Option<NotificationDecision> {
    let history = histories.entry(source_event.source.clone()).or_insert_with(|| {
        let state = registry.entry(&source_event.source).map(|entry| entry.state);
        NotificationHistory::new(state.and_then(|state| state.borrow().previous.clone()).as_ref())
    });
    history.observe_event(source_event)
}

fn enqueue_notifications(
    receivers: &ReceiverQueues,
    registry: &SourceRegistry,
    metrics: &Metrics,
    decision: &NotificationDecision,
) {
    let source = &decision.source_event.source;
    let environment = registry.entry(source).and_then(|entry| entry.state.borrow().environment.clone());
    let receivers = receivers.lock().unwrap_or_else(PoisonError::into_inner).get(source).cloned().unwrap_or_default();
    for receiver in receivers {
        let Some(event) = decision.matching_event(&receiver.target.events) else { continue };
        let message = NotificationMessage {
            event,
            environment: environment.clone(),
            source_event: decision.source_event.clone(),
        };
        if receiver.queue.try_send(message).is_err() {
            metrics.record_notification(receiver.target.kind, NotificationResult::Dropped);
            let receiver = receiver.target.name;
            tracing::warn!(%source, receiver, "a notification was dropped: too many are waiting for this receiver");
        }
    }
}
