//! The queue between a watch and its reader. It keeps the last state of each object and not each event: a slow reader misses
//! states in between, and does not have to list again.

use super::WatchEvent;
use futures_util::task::AtomicWaker;
use stator_core::object::{Object, ObjectRef, ObjectText};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::Notify;

/// The most objects that wait in a queue. Only where more come and go than a cluster holds, while nobody reads, it is full.
const MAX_WAITING_OBJECTS: usize = 1_000_000;

/// Makes a queue.
pub fn watch_queue() -> (WatchSender, WatchReceiver) {
    let queue = Arc::new(WatchQueue::default());
    (WatchSender(Arc::new(SendingEnd(Arc::clone(&queue)))), WatchReceiver(queue))
}

#[derive(Debug, Default)]
struct WatchQueue {
    waiting: Mutex<WaitingEvents>,
    reader: AtomicWaker,
    reader_gone: Notify,
}

#[derive(Debug, Default)]
struct WaitingEvents {
    objects: BTreeMap<ObjectRef, WaitingObject>,
    /// The objects, in the order in which the first of their waiting events came.
    order: VecDeque<ObjectRef>,
    /// Events were lost, which has to be told.
    is_lost: bool,
    /// Nothing comes any more.
    is_ended: bool,
    /// Nobody reads any more.
    is_unread: bool,
}

/// What the reader has not heard of one object.
#[derive(Debug, Default)]
struct WaitingObject {
    /// It went, after which it may have been created again: the first and the last that did, which may be one.
    deleted: Vec<ObjectText>,
    /// As it is now, where it is there.
    applied: Option<ObjectText>,
}

/// An event and its object; `None` where events were lost.
type WaitingEvent = Option<(fn(Object) -> WatchEvent, ObjectText)>;

/// The end that events go in. Clones fill one queue, which ends with the last of them.
#[derive(Clone, Debug)]
pub struct WatchSender(Arc<SendingEnd>);

#[derive(Debug)]
struct SendingEnd(Arc<WatchQueue>);

/// The end that events come out. The watch ends when it is dropped.
#[derive(Debug)]
pub struct WatchReceiver(Arc<WatchQueue>);

/// Why there is no event at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEvent {
    /// None waits.
    Waiting,
    /// None will come.
    Ended,
}

impl WatchQueue {
    fn lock(&self) -> MutexGuard<'_, WaitingEvents> {
        // Every change is made by one call that does not panic half-way.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what waits, and wakes the reader.
    fn change(&self, change: impl FnOnce(&mut WaitingEvents)) {
        change(&mut self.lock());
        self.reader.wake();
    }
}

impl WaitingEvents {
    /// What waits of an object. `None` where there is no place any more.
    fn of(&mut self, object: &ObjectRef) -> Option<&mut WaitingObject> {
        if self.is_ended || self.is_unread {
            return None;
        }
        if !self.objects.contains_key(object) {
            if self.objects.len() >= MAX_WAITING_OBJECTS {
                self.lose();
                return None;
            }
            self.order.push_back(object.clone());
        }
        Some(self.objects.entry(object.clone()).or_default())
    }

    /// Ends after what waits, and with the word that more was to come.
    fn lose(&mut self) {
        if !self.is_ended {
            (self.is_lost, self.is_ended) = (true, true);
        }
    }

    /// The next event, with its object as text: it is parsed once nobody else waits.
    fn next(&mut self) -> Result<WaitingEvent, NoEvent> {
        let none = if self.is_ended { NoEvent::Ended } else { NoEvent::Waiting };
        let Some(first) = self.order.front() else {
            return if std::mem::take(&mut self.is_lost) { Ok(None) } else { Err(none) };
        };
        let waiting = self.objects.get_mut(first).ok_or(none)?;
        let event: WaitingEvent = if waiting.deleted.is_empty() {
            waiting.applied.take().map(|object| (WatchEvent::Applied as fn(Object) -> WatchEvent, object))
        } else {
            Some((WatchEvent::Deleted, waiting.deleted.remove(0)))
        };
        if waiting.deleted.is_empty()
            && waiting.applied.is_none()
            && let Some(first) = self.order.pop_front()
        {
            self.objects.remove(&first);
        }
        if event.is_some() { Ok(event) } else { Err(none) }
    }
}

impl WaitingObject {
    /// Adds that an object went: who reads has heard of the first, and the last may be followed by another.
    fn push_deleted(&mut self, object: ObjectText) {
        let is_known = self.deleted.last().is_some_and(|last| last.uid() == object.uid());
        if is_known || self.deleted.len() > 1 {
            self.deleted.pop();
        }
        self.deleted.push(object);
    }
}

impl WatchSender {
    /// Something happened.
    pub fn send(&self, event: WatchEvent) {
        match event {
            WatchEvent::Applied(object) => self.send_applied(object.into()),
            WatchEvent::Deleted(object) => self.send_deleted(object.into()),
            WatchEvent::Resync => self.lose(),
        }
    }

    /// An object was created or changed.
    pub fn send_applied(&self, object: ObjectText) {
        self.0.0.change(|events| {
            if let Some(waiting) = events.of(object.reference()) {
                // One of another uid is another object: that the one before went is told as well.
                if let Some(before) = waiting.applied.take_if(|before| before.uid() != object.uid()) {
                    waiting.push_deleted(before);
                }
                waiting.applied = Some(object);
            }
        });
    }

    /// An object is gone; its last state.
    pub fn send_deleted(&self, object: ObjectText) {
        self.0.0.change(|events| {
            if let Some(waiting) = events.of(object.reference()) {
                waiting.applied = None;
                waiting.push_deleted(object);
            }
        });
    }

    /// Ends the watch, as events were lost.
    pub fn lose(&self) {
        self.0.0.change(WaitingEvents::lose);
    }

    /// Whether nothing that is sent is read any more.
    pub fn is_closed(&self) -> bool {
        let events = self.0.0.lock();
        events.is_unread || events.is_ended
    }

    /// Whether everything that was sent is read.
    pub fn is_read(&self) -> bool {
        let events = self.0.0.lock();
        events.order.is_empty() && !events.is_lost
    }

    /// Waits until nobody reads any more.
    pub async fn closed(&self) {
        let queue = &self.0.0;
        loop {
            let gone = queue.reader_gone.notified();
            if queue.lock().is_unread {
                return;
            }
            gone.await;
        }
    }
}

impl Drop for SendingEnd {
    fn drop(&mut self) {
        self.0.change(|events| events.is_ended = true);
    }
}

impl WatchReceiver {
    /// The next event, `None` once the watch has ended. May be dropped while it waits.
    pub async fn recv(&mut self) -> Option<WatchEvent> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// The same for who waits for several.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        self.0.reader.register(context.waker());
        match self.try_recv() {
            Ok(event) => Poll::Ready(Some(event)),
            Err(NoEvent::Ended) => Poll::Ready(None),
            Err(NoEvent::Waiting) => Poll::Pending,
        }
    }

    /// The next event, where one waits.
    ///
    /// # Errors
    /// Where none does.
    pub fn try_recv(&mut self) -> Result<WatchEvent, NoEvent> {
        let next = self.0.lock().next()?;
        Ok(next.map_or(WatchEvent::Resync, |(event, object)| event(object.parse())))
    }
}

impl Drop for WatchReceiver {
    fn drop(&mut self) {
        self.0.change(|events| {
            events.is_unread = true;
            events.objects.clear();
            events.order.clear();
        });
        self.0.reader_gone.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use std::collections::BTreeSet;

    fn object(name: u8, uid: u32, version: usize) -> ObjectText {
        let metadata = json!({
            "name": format!("object-{name}"), "namespace": "models", "uid": uid.to_string(),
            "resourceVersion": version.to_string(),
        });
        let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        ObjectText::from(&Object::from_value(value).unwrap())
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Write(u8),
        Delete(u8),
        Read,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![(0..4u8).prop_map(Step::Write), (0..4u8).prop_map(Step::Delete), Just(Step::Read)]
    }

    proptest! {
        /// However slow it is, a reader ends at what is there, and hears that an object went before another of its name came.
        #[test]
        fn a_slow_reader_ends_at_what_is_there(steps in prop::collection::vec(step(), 0..60)) {
            let (sender, mut receiver) = watch_queue();
            let (mut there, mut seen) = (BTreeMap::<u8, ObjectText>::new(), BTreeMap::<ObjectRef, Object>::new());
            let mut read = |receiver: &mut WatchReceiver| match receiver.try_recv() {
                Ok(WatchEvent::Applied(object)) => {
                    let before = seen.insert(object.reference(), object.clone());
                    assert!(before.is_none_or(|before| before.uid() == object.uid()), "nobody told that it went");
                    true
                }
                Ok(WatchEvent::Deleted(object)) => {
                    let known = seen.remove(&object.reference());
                    assert!(known.is_none_or(|known| known.uid() == object.uid()), "another one went");
                    true
                }
                Ok(WatchEvent::Resync) => panic!("nothing is lost"),
                Err(none) => {
                    assert_eq!(none, NoEvent::Waiting);
                    false
                }
            };
            let mut uids = 0;
            for (version, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Write(name) => {
                        uids += 1;
                        let uid = there.get(&name).map_or(uids, |known| known.uid().unwrap().parse().unwrap());
                        let written = object(name, uid, version);
                        there.insert(name, written.clone());
                        sender.send_applied(written);
                    }
                    Step::Delete(name) => {
                        if let Some(gone) = there.remove(&name) {
                            sender.send_deleted(gone);
                        }
                    }
                    Step::Read => drop(read(&mut receiver)),
                }
            }
            while read(&mut receiver) {}
            let expected: BTreeSet<String> = there.values().map(ObjectText::to_json).collect();
            let ended: BTreeSet<String> = seen.values().map(|object| object.value().to_string()).collect();
            prop_assert_eq!(ended, expected);
        }
    }

    #[tokio::test]
    async fn a_queue_ends_with_its_last_sender_and_its_reader() {
        let (sender, mut receiver) = watch_queue();
        let other = sender.clone();
        sender.send_applied(object(1, 1, 1));
        drop(sender);
        assert!(matches!(receiver.recv().await, Some(WatchEvent::Applied(_))));
        assert_eq!(receiver.try_recv(), Err(NoEvent::Waiting));
        other.send_applied(object(1, 1, 2));
        other.lose();
        other.send_applied(object(1, 1, 3));
        other.lose();
        assert_eq!(receiver.recv().await, Some(WatchEvent::Applied(object(1, 1, 2).parse())));
        assert_eq!(receiver.recv().await, Some(WatchEvent::Resync));
        assert_eq!(receiver.recv().await, None);

        let (sender, receiver) = watch_queue();
        assert!(!sender.is_closed());
        let (closed, ()) = tokio::join!(sender.closed(), async { drop(receiver) });
        assert_eq!(closed, ());
        assert!(sender.is_closed());
    }
}
