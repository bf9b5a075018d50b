//! Notifications: what happens to sources, told to Slack and to webhooks by the rules of each source.
//!
//! One task listens to all that happens and [decides](decide) what of it is told; each receiver has a queue and a
//! task of its own, so that one that hangs holds up nobody.

pub mod decide;
pub mod message;
mod sender;
pub mod target;

#[cfg(test)]
mod tests;

use super::board::Board;
use super::metrics::{Metrics, Notified, Queue};
use super::news::News;
use super::sources::{Source, SourceKey};
use decide::{Memory, Tell};
use jiff::Timestamp;
use message::Message;
use stator_git::source::model_source::NotificationKind;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use target::Target;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// One receiver's queue.
#[derive(Clone, Debug)]
struct Line {
    target: Target,
    queue: mpsc::Sender<Message>,
}

/// The receivers of each source.
type Lines = Arc<Mutex<BTreeMap<SourceKey, Vec<Line>>>>;

/// Tells people what happens to sources. Without a source that has somebody to tell, nothing runs.
#[derive(Debug)]
pub struct Notifier {
    board: Arc<Board>,
    metrics: Arc<Metrics>,
    lines: Lines,
    tasks: TaskTracker,
    listening: OnceLock<()>,
    /// Ends the listening.
    ending: CancellationToken,
    /// Ends the pauses of those that send.
    hurry: CancellationToken,
}

impl Notifier {
    /// Of the sources on a board.
    pub fn new(board: Arc<Board>, metrics: Arc<Metrics>) -> Self {
        Self {
            board,
            metrics,
            lines: Lines::default(),
            tasks: TaskTracker::new(),
            listening: OnceLock::new(),
            ending: CancellationToken::new(),
            hurry: CancellationToken::new(),
        }
    }

    /// Tells those whom a source names from now on, and no others of it. What waits for the others is still sent.
    pub fn put(&self, source: &Source) {
        let mut lines = Vec::new();
        for (wanted, secret) in source.spec.notifications.iter().zip(&source.secrets.notifications) {
            match Target::read(wanted, secret, source.spec.allow_insecure) {
                Ok(target) => lines.push(self.open(&source.key, target)),
                Err(fault) => tracing::warn!(
                    source = %source.key,
                    "nobody is told by the secret `{}`: it {fault}; {}", secret.name(), fault.help()
                ),
            }
        }
        if lines.is_empty() {
            self.remove(&source.key);
            return;
        }
        self.lines().insert(source.key.clone(), lines);
        self.listening.get_or_init(|| {
            let (news, board) = (self.board.listen(), Arc::clone(&self.board));
            let (lines, metrics, ending) = (Arc::clone(&self.lines), Arc::clone(&self.metrics), self.ending.clone());
            self.tasks.spawn(listen(news, board, lines, metrics, ending));
        });
    }

    /// A source is gone.
    pub fn remove(&self, source: &SourceKey) {
        self.lines().remove(source);
    }

    fn lines(&self) -> MutexGuard<'_, BTreeMap<SourceKey, Vec<Line>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, source: &SourceKey, target: Target) -> Line {
        self.metrics.receives(target.kind);
        let (queue, waiting) = mpsc::channel(sender::MOST);
        let weak = queue.downgrade();
        self.metrics.sample(Queue::Notifications, move || {
            let queue = weak.upgrade()?;
            Some(queue.max_capacity().saturating_sub(queue.capacity()))
        });
        let (metrics, hurry) = (Arc::clone(&self.metrics), self.hurry.clone());
        self.tasks.spawn(sender::run(source.clone(), target.clone(), waiting, metrics, hurry));
        Line { target, queue }
    }

    /// Waits until all that happened is told, but not for long.
    pub async fn ended(&self, deadline: Duration) {
        self.ending.cancel();
        self.hurry.cancel();
        self.tasks.close();
        self.lines().clear();
        if tokio::time::timeout(deadline, self.tasks.wait()).await.is_err() {
            tracing::warn!("not all notifications were sent in time");
        }
    }
}

/// Hears of everything, and tells what is to be told.
async fn listen(
    mut news: broadcast::Receiver<News>,
    board: Arc<Board>,
    lines: Lines,
    metrics: Arc<Metrics>,
    ending: CancellationToken,
) {
    let mut memories: BTreeMap<SourceKey, Memory> = BTreeMap::new();
    loop {
        let due = memories.values().filter_map(Memory::due).min();
        let wait = async {
            match due.map(|due| Duration::try_from(due.duration_since(Timestamp::now())).unwrap_or_default()) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        let told: Vec<(SourceKey, Tell)> = tokio::select! {
            biased;
            heard = news.recv() => match heard {
                Ok(news) => hear(&mut memories, &board, news).into_iter().collect(),
                Err(RecvError::Lagged(missed)) => {
                    tracing::warn!(missed, "more happened than could be told");
                    Vec::new()
                }
                Err(RecvError::Closed) => return,
            },
            () = ending.cancelled() => return,
            () = wait => {
                let now = Timestamp::now();
                let ticked = memories.iter_mut().flat_map(|(source, memory)| {
                    let seen = board.entry(source).and_then(|entry| entry.standing.borrow().seen.clone());
                    let told = memory.tick(now, seen.as_ref().map(|seen| seen.commit.as_str()));
                    told.into_iter().map(|tell| (source.clone(), tell))
                });
                ticked.collect()
            }
        };
        // What is forgotten is not to be told of again.
        memories.retain(|source, _| board.entry(source).is_some());
        for (source, tell) in told {
            pass_on(&lines, &board, &metrics, &source, &tell);
        }
    }
}

fn hear(memories: &mut BTreeMap<SourceKey, Memory>, board: &Board, news: News) -> Option<(SourceKey, Tell)> {
    let source = news.source.clone();
    let memory = memories.entry(source.clone()).or_insert_with(|| {
        let standing = board.entry(&source).map(|entry| entry.standing);
        Memory::new(standing.and_then(|standing| standing.borrow().recalled.clone()).as_ref())
    });
    memory.hear(news).map(|tell| (source, tell))
}

fn pass_on(lines: &Lines, board: &Board, metrics: &Metrics, source: &SourceKey, tell: &Tell) {
    let environment = board.entry(source).and_then(|entry| entry.standing.borrow().environment.clone());
    let lines = lines.lock().unwrap_or_else(PoisonError::into_inner).get(source).cloned().unwrap_or_default();
    for line in lines {
        let Some(event) = tell.wanted(&line.target.events) else { continue };
        let message = Message {
            event,
            reason: tell.news.what.word(),
            source: source.clone(),
            environment: environment.clone(),
            revision: tell.news.revision.clone(),
            text: tell.news.message.clone(),
            at: tell.news.at,
        };
        if line.queue.try_send(message).is_err() {
            dropped(metrics, line.target.kind, source, &line.target.name);
        }
    }
}

fn dropped(metrics: &Metrics, kind: NotificationKind, source: &SourceKey, receiver: &str) {
    metrics.notified(kind, Notified::Dropped);
    tracing::warn!(%source, receiver, "a notification is dropped: too many wait for this receiver");
}
