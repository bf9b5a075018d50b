//! Who works on what, where several replicas run: sources are in shards, and each shard has one holder at a time.
//!
//! A steady state costs one watch, and a renewal every five seconds of a replica's own lease and of each shard that it
//! holds. `machine` decides, `driver` carries out, and whatever works under a shard asks its [`Fence`] before it writes.

mod api;
mod driver;
mod held;
mod machine;
mod names;
mod share;

pub use driver::LeaseFacts;
pub use held::Held;
pub use machine::Terms;
pub use names::identity;
pub use share::{shard_of, shares};

use api::Store;
use driver::{Driver, Word};
use kube::{Api, Client};
use machine::{Machine, Own};
use stator_cluster::cluster::kube::Fence;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Where leases are kept, and who this is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of all leases.
    pub namespace: String,
    /// What no other replica is called, and none was: see [`identity`].
    pub identity: String,
    /// How many shards there are; all replicas should be told the same.
    pub shards: u32,
    /// How long all of it takes.
    pub terms: Terms,
}

/// A replica's part in the leases, for as long as it lives. Dropped without [`Leases::release`], its leases are given up
/// by running out, and its fences are closed.
#[derive(Debug)]
pub struct Leases {
    held: watch::Receiver<Held>,
    facts: watch::Receiver<LeaseFacts>,
    words: mpsc::UnboundedSender<Word>,
    task: JoinHandle<()>,
}

impl Leases {
    /// Enters among the replicas. Nothing is held yet.
    pub fn start(client: Client, settings: Settings) -> Self {
        let Settings { namespace, identity, shards, terms } = settings;
        let shards = shards.max(1);
        let store = Store {
            api: Api::namespaced(client, &namespace),
            identity: identity.clone(),
            shards,
            lasts: terms.lasts,
            // Two tries before a holder's time is up.
            patience: (terms.valid - terms.renew.min(terms.valid)).mul_f64(0.6),
        };
        let machine = Machine::new(Own { identity: identity.clone(), shards, terms });
        let (publish, held) = watch::channel(Held::shards(0, shards, Default::default()));
        let (tell, facts) = watch::channel(LeaseFacts { identity, shards, ..LeaseFacts::default() });
        let (words, heard) = mpsc::unbounded_channel();
        let task = tokio::spawn(Driver::new(machine, store, terms, publish, tell, heard).run());
        Self { held, facts, words, task }
    }

    /// What this replica holds. Whoever works under it ends what is not in there any more, and says so with
    /// [`Leases::settled`].
    pub fn held(&self) -> watch::Receiver<Held> {
        self.held.clone()
    }

    /// What is known of leases, for metrics and probes.
    pub fn facts(&self) -> watch::Receiver<LeaseFacts> {
        self.facts.clone()
    }

    /// Nothing works any more but under what is held here: shards that were to be let go are handed over now.
    pub fn settled(&self, held: &Held) {
        let _ = self.words.send(Word::Settled(held.turn()));
    }

    /// This replica is about to end: it takes nothing more, and the others know. What it works on it has to end.
    pub fn leave(&self) {
        let _ = self.words.send(Word::Leaving);
    }

    /// Hands everything over, when nothing works any more. True when that was done within the time; else the leases run
    /// out by themselves.
    pub async fn release(mut self, deadline: Duration) -> bool {
        let _ = self.words.send(Word::Ended);
        let done = tokio::time::timeout(deadline, &mut self.task).await;
        self.task.abort();
        done.is_ok()
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        self.held.borrow().fences().for_each(Fence::close);
        self.task.abort();
    }
}
