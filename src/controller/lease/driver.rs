//! Drives the machine against an API server: one watch of all leases, and the writes that the machine asks for.

use super::api::{self, Store};
use super::held::Held;
use super::machine::{Effect, Event, Lease, Machine, Refusal, Terms};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use k8s_openapi::api::coordination::v1::Lease as ApiLease;
use kube::Api;
use kube::runtime::watcher;
use stator_cluster::cluster::kube::{Fence, Moment};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// How long after a watch that broke it is opened again. An hour of an API server that is gone is an hour of this.
const REOPEN: Duration = Duration::from_secs(1);

/// What the rest of the process tells the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Nothing works any more beside what was held at this turn.
    Settled(u64),
    /// This replica takes nothing more, and lets go.
    Leaving,
    /// Nothing works any more at all.
    Ended,
}

/// What is known of leases, for metrics and probes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseFacts {
    /// What this replica is called in leases.
    pub identity: String,
    /// Of how many shards.
    pub shards: u32,
    /// How many of them are held here.
    pub held: u32,
    /// How many replicas there are, this one among them.
    pub members: u32,
    /// How often a shard was gained or lost since the start.
    pub transitions: u64,
    /// How often a lease was written since the start, and how often that failed; that another replica was faster is no
    /// failure.
    pub renewed: u64,
    /// As above.
    pub failed: u64,
    /// Whether the leases were read at least once.
    pub seen: bool,
    /// Why leases cannot be read or written; nothing where they can.
    pub problem: Option<String>,
}

/// What came of a request.
struct Answer {
    event: Event,
    /// When it was asked for.
    asked: Moment,
    /// Why it failed, where that is worth saying.
    trouble: Option<String>,
}

pub(super) struct Driver {
    pub machine: Machine,
    pub store: Store,
    pub terms: Terms,
    pub held: watch::Sender<Held>,
    pub facts: watch::Sender<LeaseFacts>,
    pub words: mpsc::UnboundedReceiver<Word>,
    /// Where the machine's clock begins.
    began: Instant,
    fences: BTreeMap<u32, Fence>,
    /// Shards that are let go, and the turn from which on they are not in what is held.
    ending: BTreeMap<u32, u64>,
    ended: bool,
    turn: u64,
    flights: FuturesUnordered<BoxFuture<'static, Answer>>,
}

impl Driver {
    pub(super) fn new(
        machine: Machine,
        store: Store,
        terms: Terms,
        held: watch::Sender<Held>,
        facts: watch::Sender<LeaseFacts>,
        words: mpsc::UnboundedReceiver<Word>,
    ) -> Self {
        Self {
            machine,
            store,
            terms,
            held,
            facts,
            words,
            began: Instant::now(),
            fences: BTreeMap::new(),
            ending: BTreeMap::new(),
            ended: false,
            turn: 0,
            flights: FuturesUnordered::new(),
        }
    }

    /// Works until this replica has left, or nobody wants it any more.
    pub(super) async fn run(mut self) {
        let (seen, mut sight) = mpsc::channel(64);
        let mut watching = tokio::task::JoinSet::new();
        watching.spawn(look(self.store.api.clone(), seen));
        while !self.machine.has_left() {
            let wake = self.machine.wake_at(self.began.elapsed()).map(|at| self.began + at);
            tokio::select! {
                Some(Answer { event, asked, trouble }) = self.flights.next(), if !self.flights.is_empty() => {
                    self.count(&event);
                    self.problem(trouble);
                    self.step(event, asked);
                }
                Some(event) = sight.recv() => match event {
                    Ok(event) => {
                        self.problem(None);
                        self.step(event, Moment::now());
                    }
                    Err(trouble) => self.problem(Some(trouble)),
                },
                word = self.words.recv() => match word {
                    Some(word) => self.hear(word),
                    // Whoever held the leases is gone, and with him all that worked under them.
                    None => break,
                },
                shard = closed(&self.fences) => self.step(Event::Closed(shard), Moment::now()),
                () = sleep_until(wake) => self.step(Event::Tick, Moment::now()),
            }
        }
        self.fences.values().for_each(Fence::close);
    }

    fn hear(&mut self, word: Word) {
        let now = Moment::now();
        match word {
            Word::Settled(turn) => {
                let over: Vec<u32> =
                    self.ending.iter().filter(|(_, since)| **since <= turn).map(|(shard, _)| *shard).collect();
                over.into_iter().for_each(|shard| self.step(Event::Ended(shard), now));
            }
            Word::Leaving => self.step(Event::Leave, now),
            Word::Ended => {
                self.ended = true;
                self.step(Event::Leave, now);
                self.end_all(now);
            }
        }
    }

    fn end_all(&mut self, now: Moment) {
        let over: Vec<u32> = self.ending.keys().copied().collect();
        over.into_iter().for_each(|shard| self.step(Event::Ended(shard), now));
    }

    /// `asked` is when the request went out whose answer this is.
    fn step(&mut self, event: Event, asked: Moment) {
        let now = Moment::now();
        let effects = self.machine.step(self.began.elapsed(), event);
        let mut moved = false;
        for effect in effects {
            match effect {
                Effect::Write(write) => {
                    let store = self.store.clone();
                    self.flights.push(Box::pin(async move {
                        let name = write.name.clone();
                        let (result, trouble) = match store.write(&write).await {
                            Ok(lease) => (Ok(lease), None),
                            Err((refusal, trouble)) => (Err(refusal), Some((refusal, trouble))),
                        };
                        // That somebody was faster is how it should be.
                        let trouble = trouble.filter(|(refusal, _)| *refusal == Refusal::Other);
                        let trouble = trouble.map(|(_, trouble)| trouble);
                        Answer { event: Event::Written(name, result), asked: now, trouble }
                    }));
                }
                Effect::Read(name) => {
                    let store = self.store.clone();
                    self.flights.push(Box::pin(async move {
                        let (result, trouble) = match store.read(&name).await {
                            Ok(lease) => (Ok(lease), None),
                            Err(trouble) => (Err(()), Some(trouble)),
                        };
                        Answer { event: Event::Read(name, result), asked: now, trouble }
                    }));
                }
                Effect::Hold(shard) => {
                    tracing::info!(shard, "this replica holds the shard now");
                    self.fences.insert(shard, Fence::open(asked, self.terms.valid));
                    moved = true;
                }
                Effect::Extend(shard) => {
                    if let Some(fence) = self.fences.get(&shard) {
                        fence.extend(asked, self.terms.valid);
                    }
                }
                Effect::Drop(shard) => {
                    tracing::info!(shard, "this replica hands the shard over");
                    self.ending.insert(shard, self.turn + 1);
                    moved = true;
                }
                Effect::Close(shard) => {
                    if let Some(fence) = self.fences.remove(&shard) {
                        fence.close();
                    }
                    if self.ending.remove(&shard).is_none() {
                        tracing::warn!(shard, "this replica does not hold the shard any more");
                    }
                    moved = true;
                }
            }
        }
        if moved {
            self.publish();
        }
        self.tell();
        if self.ended && !self.ending.is_empty() {
            self.end_all(now);
        }
    }

    fn publish(&mut self) {
        self.turn += 1;
        let held = self.machine.held().filter_map(|shard| Some((shard, self.fences.get(&shard)?.clone()))).collect();
        self.held.send_replace(Held::shards(self.turn, self.store.shards, held));
    }

    fn tell(&self) {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let held = count(self.machine.held().count());
        let members = count(self.machine.member_count(self.began.elapsed()));
        let (transitions, seen) = (self.machine.transitions(), self.machine.has_listed());
        self.facts.send_if_modified(|facts| {
            let now = LeaseFacts { held, members, transitions, seen, ..facts.clone() };
            let news = now != *facts;
            *facts = now;
            news
        });
    }

    fn count(&self, event: &Event) {
        self.facts.send_if_modified(|facts| match event {
            Event::Written(_, Ok(_)) => {
                facts.renewed += 1;
                true
            }
            Event::Written(_, Err(Refusal::Other)) => {
                facts.failed += 1;
                true
            }
            Event::Written(_, Err(Refusal::Conflict))
            | Event::Listed(_)
            | Event::Seen(_)
            | Event::Deleted(_)
            | Event::Read(..)
            | Event::Ended(_)
            | Event::Closed(_)
            | Event::Leave
            | Event::Tick => false,
        });
    }

    fn problem(&self, problem: Option<String>) {
        self.facts.send_if_modified(|facts| {
            let news = facts.problem != problem;
            if let (true, Some(problem)) = (news, &problem) {
                tracing::warn!("leases cannot be kept: {problem}");
            }
            facts.problem = problem;
            news
        });
    }
}

/// Waits until a fence is found closed by somebody who asked.
async fn closed(fences: &BTreeMap<u32, Fence>) -> u32 {
    let mut waiting: FuturesUnordered<_> = fences
        .iter()
        .map(|(shard, fence)| async move {
            fence.closed().await;
            *shard
        })
        .collect();
    match waiting.next().await {
        Some(shard) => shard,
        None => std::future::pending().await,
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

/// Watches all leases. What is asked of the server is one list, and one watch that it ends and that is opened again.
async fn look(api: Api<ApiLease>, seen: mpsc::Sender<Result<Event, String>>) {
    let config = watcher::Config::default().labels(super::names::LABEL);
    let mut stream = std::pin::pin!(watcher::watcher(api, config));
    let mut listing: Vec<Lease> = Vec::new();
    while let Some(event) = stream.next().await {
        let event = match event {
            Ok(watcher::Event::Init) => {
                listing.clear();
                continue;
            }
            Ok(watcher::Event::InitApply(lease)) => {
                listing.extend(api::read(&lease));
                continue;
            }
            Ok(watcher::Event::InitDone) => Ok(Event::Listed(std::mem::take(&mut listing))),
            Ok(watcher::Event::Apply(lease)) => match api::read(&lease) {
                Some(lease) => Ok(Event::Seen(lease)),
                None => continue,
            },
            Ok(watcher::Event::Delete(lease)) => match api::read(&lease) {
                Some(lease) => Ok(Event::Deleted(lease)),
                None => continue,
            },
            Err(error) => Err(api::chain(&error)),
        };
        let broke = event.is_err();
        if seen.send(event).await.is_err() {
            return;
        }
        if broke {
            tokio::time::sleep(REOPEN.mul_f64(0.75 + fraction() / 2.0)).await;
        }
    }
}

/// Chance, from 0 to 1.
fn fraction() -> f64 {
    f64::from(u32::try_from(uuid::Uuid::new_v4().as_u128() & 0xffff).unwrap_or_default()) / f64::from(0xffff_u32)
}
