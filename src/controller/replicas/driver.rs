//! Drives the machine against an API server: one watch of all leases, and the writes that the machine asks for.

use super::machine::{LeaseEffect, LeaseEvent, LeaseMachine, LeaseTerms, LeaseWriteError};
use super::store::{self, LeaseStore};
use crate::controller::lease_watch::{LeaseWatchEvent, watch_leases};
use crate::controller::sources::owned_shards::OwnedShards;
use crate::controller::waiting::{jittered, send_if_new, sleep_until_some};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use k8s_openapi::api::coordination::v1::Lease as ApiLease;
use kube::Api;
use kube::runtime::watcher;
use stator_cluster::cluster::{ClockReading, Fence};
use stator_core::text::error_chain;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// How long after a watch that broke it is opened again. An hour of an API server that is gone is an hour of this.
const WATCH_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// What the rest of the process tells the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseCommand {
    /// Nothing works any more beside what was held at this turn.
    WorkSettled(u64),
    /// This replica takes nothing more, and lets go.
    Leave,
    /// Nothing works any more at all.
    WorkEnded,
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
    pub has_listed: bool,
    /// Why leases cannot be read or written; nothing where they can.
    pub problem: Option<String>,
}

/// What came of a request.
struct LeaseResponse {
    event: LeaseEvent,
    /// When it was asked for.
    requested_at: ClockReading,
    /// Why it failed, where that is worth saying.
    failure: Option<String>,
}

pub(super) struct LeaseDriver {
    pub machine: LeaseMachine,
    pub store: LeaseStore,
    pub terms: LeaseTerms,
    pub held: watch::Sender<OwnedShards>,
    pub facts: watch::Sender<LeaseFacts>,
    pub commands: mpsc::UnboundedReceiver<LeaseCommand>,
    /// Where the machine's clock begins.
    began: Instant,
    fences: BTreeMap<u32, Fence>,
    /// Shards that are let go, and the turn from which on they are not in what is held.
    ending: BTreeMap<u32, u64>,
    ended: bool,
    generation: u64,
    flights: FuturesUnordered<BoxFuture<'static, LeaseResponse>>,
}

impl LeaseDriver {
    pub(super) fn new(
        machine: LeaseMachine,
        store: LeaseStore,
        terms: LeaseTerms,
        held: watch::Sender<OwnedShards>,
        facts: watch::Sender<LeaseFacts>,
        commands: mpsc::UnboundedReceiver<LeaseCommand>,
    ) -> Self {
        Self {
            machine,
            store,
            terms,
            held,
            facts,
            commands,
            began: Instant::now(),
            fences: BTreeMap::new(),
            ending: BTreeMap::new(),
            ended: false,
            generation: 0,
            flights: FuturesUnordered::new(),
        }
    }

    /// Works until this replica has left, or nobody wants it any more.
    pub(super) async fn run(mut self) {
        let (seen, mut sight) = mpsc::channel(64);
        let mut watching = tokio::task::JoinSet::new();
        watching.spawn(watch_replica_leases(self.store.api.clone(), seen));
        while !self.machine.has_left() {
            let wake = self.machine.wake_at(self.began.elapsed()).map(|at| self.began + at);
            tokio::select! {
                Some(LeaseResponse { event, requested_at, failure }) = self.flights.next(), if !self.flights.is_empty() => {
                    self.count_write(&event);
                    self.report_problem(failure);
                    self.handle_event(event, requested_at);
                }
                Some(event) = sight.recv() => match event {
                    Ok(event) => {
                        self.report_problem(None);
                        self.handle_event(event, ClockReading::now());
                    }
                    Err(trouble) => self.report_problem(Some(trouble)),
                },
                word = self.commands.recv() => match word {
                    Some(word) => self.handle_command(word),
                    // Whoever held the leases is gone, and with him all that worked under them.
                    None => break,
                },
                shard = wait_for_closed_fence(&self.fences) => self.handle_event(LeaseEvent::FenceClosed(shard), ClockReading::now()),
                () = sleep_until_some(wake) => self.handle_event(LeaseEvent::Tick, ClockReading::now()),
            }
        }
        self.fences.values().for_each(Fence::close);
    }

    fn handle_command(&mut self, word: LeaseCommand) {
        let now = ClockReading::now();
        match word {
            LeaseCommand::WorkSettled(turn) => {
                let over: Vec<u32> =
                    self.ending.iter().filter(|(_, since)| **since <= turn).map(|(shard, _)| *shard).collect();
                over.into_iter().for_each(|shard| self.handle_event(LeaseEvent::WorkEnded(shard), now));
            }
            LeaseCommand::Leave => self.handle_event(LeaseEvent::Leave, now),
            LeaseCommand::WorkEnded => {
                self.ended = true;
                self.handle_event(LeaseEvent::Leave, now);
                self.end_all_shards(now);
            }
        }
    }

    fn end_all_shards(&mut self, now: ClockReading) {
        let over: Vec<u32> = self.ending.keys().copied().collect();
        over.into_iter().for_each(|shard| self.handle_event(LeaseEvent::WorkEnded(shard), now));
    }

    /// `asked` is when the request went out whose answer this is.
    fn handle_event(&mut self, event: LeaseEvent, asked: ClockReading) {
        let now = ClockReading::now();
        let effects = self.machine.step(self.began.elapsed(), event);
        let mut moved = false;
        for effect in effects {
            match effect {
                LeaseEffect::Write(write) => {
                    let store = self.store.clone();
                    self.flights.push(Box::pin(async move {
                        let name = write.name.clone();
                        let (result, trouble) = match store.write(&write).await {
                            Ok(lease) => (Ok(lease), None),
                            // That somebody was faster is how it should be.
                            Err((refusal @ LeaseWriteError::Conflict, _)) => (Err(refusal), None),
                            Err((refusal @ LeaseWriteError::Other, trouble)) => (Err(refusal), Some(trouble)),
                        };
                        LeaseResponse { event: LeaseEvent::Written(name, result), requested_at: now, failure: trouble }
                    }));
                }
                LeaseEffect::Read(name) => {
                    let store = self.store.clone();
                    self.flights.push(Box::pin(async move {
                        let (result, trouble) = match store.read(&name).await {
                            Ok(lease) => (Ok(lease), None),
                            Err(trouble) => (Err(()), Some(trouble)),
                        };
                        LeaseResponse { event: LeaseEvent::Read(name, result), requested_at: now, failure: trouble }
                    }));
                }
                LeaseEffect::OpenFence(shard) => {
                    tracing::info!(shard, "this replica now owns the shard");
                    self.fences.insert(shard, Fence::open(asked, self.terms.renew_deadline));
                    moved = true;
                }
                LeaseEffect::ExtendFence(shard) => {
                    if let Some(fence) = self.fences.get(&shard) {
                        fence.extend(asked, self.terms.renew_deadline);
                    }
                }
                LeaseEffect::DrainShard(shard) => {
                    tracing::info!(shard, "this replica hands the shard over");
                    self.ending.insert(shard, self.generation + 1);
                    moved = true;
                }
                LeaseEffect::CloseFence(shard) => {
                    if let Some(fence) = self.fences.remove(&shard) {
                        fence.close();
                    }
                    if self.ending.remove(&shard).is_none() {
                        tracing::warn!(shard, "this replica no longer owns the shard");
                    }
                    moved = true;
                }
            }
        }
        if moved {
            self.publish_owned();
        }
        self.update_facts();
        if self.ended && !self.ending.is_empty() {
            self.end_all_shards(now);
        }
    }

    fn publish_owned(&mut self) {
        self.generation += 1;
        let held =
            self.machine.owned_shards().filter_map(|shard| Some((shard, self.fences.get(&shard)?.clone()))).collect();
        self.held.send_replace(OwnedShards::shards(self.generation, self.store.shards, held));
    }

    fn update_facts(&self) {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let held = count(self.machine.owned_shards().count());
        let members = count(self.machine.member_count(self.began.elapsed()));
        let (transitions, seen) = (self.machine.transitions(), self.machine.has_listed());
        let known = self.facts.borrow().clone();
        send_if_new(&self.facts, LeaseFacts { held, members, transitions, has_listed: seen, ..known });
    }

    fn count_write(&self, event: &LeaseEvent) {
        self.facts.send_if_modified(|facts| match event {
            LeaseEvent::Written(_, Ok(_)) => {
                facts.renewed += 1;
                true
            }
            LeaseEvent::Written(_, Err(LeaseWriteError::Other)) => {
                facts.failed += 1;
                true
            }
            LeaseEvent::Written(_, Err(LeaseWriteError::Conflict))
            | LeaseEvent::Listed(_)
            | LeaseEvent::Seen(_)
            | LeaseEvent::Deleted(_)
            | LeaseEvent::Read(..)
            | LeaseEvent::WorkEnded(_)
            | LeaseEvent::FenceClosed(_)
            | LeaseEvent::Leave
            | LeaseEvent::Tick => false,
        });
    }

    fn report_problem(&self, problem: Option<String>) {
        self.facts.send_if_modified(|facts| {
            let news = facts.problem != problem;
            if let (true, Some(problem)) = (news, &problem) {
                tracing::warn!("leases cannot be renewed: {problem}");
            }
            facts.problem = problem;
            news
        });
    }
}

/// Waits until a fence is found closed by somebody who asked.
async fn wait_for_closed_fence(fences: &BTreeMap<u32, Fence>) -> u32 {
    let mut waiting: FuturesUnordered<_> = fences
        .iter()
        .map(|(shard, fence)| async move {
            fence.wait_closed().await;
            *shard
        })
        .collect();
    match waiting.next().await {
        Some(shard) => shard,
        None => std::future::pending().await,
    }
}

/// Watches all leases, and tells the machine of stator's own.
async fn watch_replica_leases(api: Api<ApiLease>, seen: mpsc::Sender<Result<LeaseEvent, String>>) {
    let config = watcher::Config::default().labels(super::lease_names::LEASE_LABEL);
    let mut stream = std::pin::pin!(watch_leases(api, config));
    while let Some(event) = stream.next().await {
        let event = match event {
            Ok(LeaseWatchEvent::Listed(leases)) => {
                Some(Ok(LeaseEvent::Listed(leases.iter().filter_map(store::parse_lease).collect())))
            }
            Ok(LeaseWatchEvent::Set(lease)) => store::parse_lease(&lease).map(LeaseEvent::Seen).map(Ok),
            Ok(LeaseWatchEvent::Deleted(lease)) => store::parse_lease(&lease).map(LeaseEvent::Deleted).map(Ok),
            Err(error) => Some(Err(error_chain(&error))),
        };
        let Some(event) = event else { continue };
        let broke = event.is_err();
        if seen.send(event).await.is_err() {
            return;
        }
        if broke {
            tokio::time::sleep(jittered(WATCH_RETRY_INTERVAL)).await;
        }
    }
}
