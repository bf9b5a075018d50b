//! Who works on what, where several replicas run: sources are in shards, and each shard has one holder at a time.
//!
//! A steady state costs one watch, and a renewal every five seconds of a replica's own lease and of each shard that it
//! holds. `machine` decides, `driver` carries out, and whatever works under a shard asks its [`Fence`] before it writes.

mod driver;
mod lease_names;
mod machine;
mod shard_assignment;
mod store;

use crate::controller::sources::owned_shards::OwnedShards;
pub use driver::LeaseFacts;
use driver::{LeaseCommand, LeaseDriver};
use kube::{Api, Client};
pub use lease_names::unique_identity;
pub use machine::LeaseTerms;
use machine::{LeaseMachine, ReplicaConfig};
use stator_cluster::cluster::Fence;
use std::time::Duration;
use store::LeaseStore;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Where leases are kept, and who this is.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// The namespace of all leases.
    pub namespace: String,
    /// What no other replica is called, and none was: see [`unique_identity`].
    pub identity: String,
    /// How many shards there are; the same on all replicas.
    pub shards: u32,
    /// How long all of it takes.
    pub terms: LeaseTerms,
}

/// A replica's part in the leases, for as long as it lives. Dropped without [`LeaseManager::release`], its leases are given up
/// by running out, and its fences are closed.
#[derive(Debug)]
pub struct LeaseManager {
    held: watch::Receiver<OwnedShards>,
    facts: watch::Receiver<LeaseFacts>,
    commands: mpsc::UnboundedSender<LeaseCommand>,
    task: JoinHandle<()>,
}

impl LeaseManager {
    /// Enters among the replicas. Nothing is held yet.
    pub fn start(client: Client, settings: LeaseSettings) -> Self {
        let LeaseSettings { namespace, identity, shards, terms } = settings;
        let shards = shards.max(1);
        let store = LeaseStore {
            api: Api::namespaced(client, &namespace),
            identity: identity.clone(),
            shards,
            lease_duration: terms.lease_duration,
            // Two tries before a holder's time is up.
            request_timeout: (terms.renew_deadline - terms.renew_interval.min(terms.renew_deadline)).mul_f64(0.6),
        };
        let machine = LeaseMachine::new(ReplicaConfig { identity: identity.clone(), shards, terms });
        let (publish, held) = watch::channel(OwnedShards::shards(0, shards, Default::default()));
        let (facts_sender, facts) = watch::channel(LeaseFacts { identity, shards, ..LeaseFacts::default() });
        let (commands, heard) = mpsc::unbounded_channel();
        let task = tokio::spawn(LeaseDriver::new(machine, store, terms, publish, facts_sender, heard).run());
        Self { held, facts, commands, task }
    }

    /// What this replica holds. Whoever works under it ends what is not in there any more, and says so with
    /// [`LeaseManager::confirm_settled`].
    pub fn held(&self) -> watch::Receiver<OwnedShards> {
        self.held.clone()
    }

    /// What is known of leases, for metrics and probes.
    pub fn facts(&self) -> watch::Receiver<LeaseFacts> {
        self.facts.clone()
    }

    /// Nothing works any more but under what is held here: shards that were to be let go are handed over now.
    pub fn confirm_settled(&self, held: &OwnedShards) {
        let _ = self.commands.send(LeaseCommand::WorkSettled(held.generation()));
    }

    /// This replica is about to end: it takes nothing more, and the others know. What it works on it has to end.
    pub fn leave(&self) {
        let _ = self.commands.send(LeaseCommand::Leave);
    }

    /// Hands everything over, when nothing works any more. True when that was done within the time; else the leases run
    /// out by themselves.
    pub async fn release(mut self, deadline: Duration) -> bool {
        let _ = self.commands.send(LeaseCommand::WorkEnded);
        let done = tokio::time::timeout(deadline, &mut self.task).await;
        self.task.abort();
        done.is_ok()
    }
}

impl Drop for LeaseManager {
    fn drop(&mut self) {
        self.held.borrow().fences().for_each(Fence::close);
        self.task.abort();
    }
}
