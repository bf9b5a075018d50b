//! Notifications: what happens to sources, told to Slack and to webhooks by the rules of each source.
//!
//! One task listens to all that happens and [decides](decision) what of it is told; each receiver has a queue and a
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
use stator_git::source::model_source::NotificationKind;
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

/// Tells people what happens to sources. Without a source that has somebody to tell, nothing runs.
#[derive(Debug)]
pub struct Notifier {
    board: Arc<SourceRegistry>,
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
    /// Of the sources on a board.
    pub fn new(board: Arc<SourceRegistry>, metrics: Arc<Metrics>) -> Self {
        Self {
            board,
            metrics,
            receivers: ReceiverQueues::default(),
            tasks: TaskTracker::new(),
            listening: OnceLock::new(),
            shutdown: CancellationToken::new(),
            flush: CancellationToken::new(),
        }
    }

    /// Tells those whom a source names from now on, and no others of it. What waits for the others is still sent.
    pub fn set_receivers(&self, source: &ResolvedSource) {
        let mut lines = Vec::new();
        for (wanted, secret) in source.spec.notifications.iter().zip(&source.secrets.notifications) {
            match NotificationTarget::from_secret(wanted, secret, source.spec.allow_insecure) {
                Ok(target) => {
                    let target = NotificationTarget { addresses: source.access.addresses, ..target };
                    lines.push(self.open_queue(&source.key, target));
                }
                Err(fault) => tracing::warn!(
                    source = %source.key,
                    "no notifications are sent with the secret `{}`: it {fault}; {}", secret.name(), fault.help()
                ),
            }
        }
        if lines.is_empty() {
            self.remove_source(&source.key);
            return;
        }
        self.lock_receivers().insert(source.key.clone(), lines);
        self.listening.get_or_init(|| {
            let (news, board) = (self.board.subscribe_events(), Arc::clone(&self.board));
            let (lines, metrics, ending) =
                (Arc::clone(&self.receivers), Arc::clone(&self.metrics), self.shutdown.clone());
            self.tasks.spawn(run_listener(news, board, lines, metrics, ending));
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
    mut news: broadcast::Receiver<SourceEvent>,
    board: Arc<SourceRegistry>,
    lines: ReceiverQueues,
    metrics: Arc<Metrics>,
    ending: CancellationToken,
) {
    let mut memories: BTreeMap<SourceKey, NotificationHistory> = BTreeMap::new();
    loop {
        let due = memories.values().filter_map(NotificationHistory::next_due).min();
        let wait = due.map(|due| Duration::try_from(due.duration_since(Timestamp::now())).unwrap_or_default());
        let told: Vec<(SourceKey, NotificationDecision)> = tokio::select! {
            biased;
            heard = news.recv() => match heard {
                Ok(news) => decide_event(&mut memories, &board, news).into_iter().collect(),
                Err(RecvError::Lagged(missed)) => {
                    tracing::warn!(missed, "some events were not reported, because there were too many");
                    Vec::new()
                }
                Err(RecvError::Closed) => return,
            },
            () = ending.cancelled() => return,
            () = sleep_for_some(wait) => {
                let now = Timestamp::now();
                let ticked = memories.iter_mut().flat_map(|(source, memory)| {
                    let seen = board.entry(source).and_then(|entry| entry.state.borrow().seen.clone());
                    let told = memory.take_overdue(now, seen.as_ref().map(|seen| seen.commit.as_str()));
                    told.into_iter().map(|tell| (source.clone(), tell))
                });
                ticked.collect()
            }
        };
        // What was forgotten must not be reported again.
        memories.retain(|source, _| board.entry(source).is_some());
        for (source, tell) in told {
            enqueue_notifications(&lines, &board, &metrics, &source, &tell);
        }
    }
}

fn decide_event(
    memories: &mut BTreeMap<SourceKey, NotificationHistory>,
    board: &SourceRegistry,
    news: SourceEvent,
) -> Option<(SourceKey, NotificationDecision)> {
    let source = news.source.clone();
    let memory = memories.entry(source.clone()).or_insert_with(|| {
        let state = board.entry(&source).map(|entry| entry.state);
        NotificationHistory::new(state.and_then(|state| state.borrow().previous.clone()).as_ref())
    });
    memory.observe_event(news).map(|tell| (source, tell))
}

fn enqueue_notifications(
    lines: &ReceiverQueues,
    board: &SourceRegistry,
    metrics: &Metrics,
    source: &SourceKey,
    tell: &NotificationDecision,
) {
    let environment = board.entry(source).and_then(|entry| entry.state.borrow().environment.clone());
    let lines = lines.lock().unwrap_or_else(PoisonError::into_inner).get(source).cloned().unwrap_or_default();
    for line in lines {
        let Some(event) = tell.matching_event(&line.target.events) else { continue };
        let message =
            NotificationMessage { event, environment: environment.clone(), source_event: tell.source_event.clone() };
        if line.queue.try_send(message).is_err() {
            count_dropped(metrics, line.target.kind, source, &line.target.name);
        }
    }
}

fn count_dropped(metrics: &Metrics, kind: NotificationKind, source: &SourceKey, receiver: &str) {
    metrics.record_notification(kind, NotificationResult::Dropped);
    tracing::warn!(%source, receiver, "a notification was dropped: too many are waiting for this receiver");
}
