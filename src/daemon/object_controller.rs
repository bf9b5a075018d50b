//! One replica of a controller whose sources are `ModelSource` objects of a Kubernetes cluster.

use super::{Daemon, DaemonStartError};
use crate::controller::replicas::{LeaseManager, LeaseSettings};
use crate::controller::report::kube_events;
use crate::controller::report::source_status::status_writer;
use crate::controller::sources::objects::{FeedSettings, SourceFeed};
use crate::controller::sources::registry::SourceRegistry;
use crate::controller::supervisor::{Controller, ControllerOptions};
use crate::server::{ListenAddresses, ListenOptions, MetricsReviewer, ProcessListeners};
use stator_cluster::cluster::kube::KubeCluster;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long leases may take to be handed over at the end; they run out by themselves after that.
const LEASE_RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// What an [`ObjectController`] works on.
#[derive(Debug)]
pub struct ObjectControllerOptions {
    /// The cluster whose objects are followed.
    pub kube: KubeCluster,
    /// The same cluster, and how sources are synced to it.
    pub controller: ControllerOptions,
    /// Where to listen.
    pub listen: ListenOptions,
    /// Whether the API server is asked who may read metrics.
    pub authorize_metrics: bool,
    /// Whose sources are followed, and what they may do.
    pub feed: FeedSettings,
    /// How sources are divided among replicas.
    pub leases: LeaseSettings,
}

/// One replica of a controller whose sources are objects of a cluster.
#[derive(Debug)]
pub struct ObjectController {
    controller: Controller,
    feed: SourceFeed,
    leases: LeaseManager,
    addresses: ListenAddresses,
    serving: JoinHandle<()>,
}

impl ObjectController {
    /// Makes the folder for mirrors, listens, enters among the replicas, and starts to follow objects. No source is synced
    /// before [`Daemon::run`].
    ///
    /// # Errors
    /// See [`DaemonStartError`].
    pub async fn start(options: ObjectControllerOptions) -> Result<Self, DaemonStartError> {
        let ObjectControllerOptions { kube, controller, listen, authorize_metrics, feed, leases } = options;
        fs_err::create_dir_all(&controller.data_dir)?;
        let reviewer = authorize_metrics.then(|| MetricsReviewer::new(kube.client()));
        let listeners = ProcessListeners::bind(listen).await?.with_metrics_reviewer(reviewer);
        let controller = Controller::new(controller);
        let (registry, ending) = (controller.registry(), controller.shutdown_token());
        let (client, identity) = (kube.client(), feed.identity.clone());
        let leases = LeaseManager::start(kube.client(), leases);
        let feed = SourceFeed::start(kube, feed, Arc::clone(&registry));
        let resources = feed.resources();
        let controller = controller.with_resources(Arc::clone(&resources));
        tokio::spawn(status_writer::run_status_writer(
            client.clone(),
            Arc::clone(&registry),
            Arc::clone(&resources),
            ending.clone(),
        ));
        let events = Arc::clone(&registry);
        tokio::spawn(kube_events::run_event_writer(client, events, resources, identity, ending.clone()));
        let addresses = listeners.addresses();
        let serving = listeners.serve(&registry, &controller.metrics(), &ending);
        Ok(Self { controller, feed, leases, addresses, serving })
    }

    /// Where it listens.
    pub fn addresses(&self) -> ListenAddresses {
        self.addresses
    }
}

impl Daemon for ObjectController {
    fn registry(&self) -> Arc<SourceRegistry> {
        self.controller.registry()
    }

    async fn run(&mut self) -> bool {
        let Self { controller, feed, leases, .. } = self;
        let (mut held, mut facts) = (leases.held(), leases.facts());
        held.mark_changed();
        facts.mark_changed();
        // Renewals that are counted already, and those that failed.
        let mut counted = (0, 0);
        loop {
            tokio::select! {
                desired = feed.next_desired() => controller.apply_desired(desired),
                Ok(()) = held.changed() => {
                    let now = held.borrow_and_update().clone();
                    feed.set_owned_shards(now.clone());
                    controller.set_owned_shards(now.clone()).await;
                    leases.confirm_settled(&now);
                }
                Ok(()) = facts.changed() => {
                    let facts = facts.borrow_and_update().clone();
                    let (metrics, count) =
                        (controller.metrics(), |number: u32| usize::try_from(number).unwrap_or(usize::MAX));
                    metrics.set_shards(count(facts.shards), count(facts.held), count(facts.members));
                    (counted.0..facts.renewed).for_each(|_| metrics.record_lease_renewal(true));
                    (counted.1..facts.failed).for_each(|_| metrics.record_lease_renewal(false));
                    counted = (facts.renewed, facts.failed);
                    let unread = || (!facts.has_listed).then(|| "the leases of the replicas were not read yet".to_owned());
                    controller.registry().set_not_ready("leases", facts.problem.clone().or_else(unread));
                }
            }
        }
    }

    async fn shut_down(mut self) {
        self.leases.leave();
        self.controller.shutdown_token().cancel();
        self.controller.wait_until_ended().await;
        self.leases.release(LEASE_RELEASE_TIMEOUT).await;
        let _ = self.serving.await;
        self.feed.flush_relay().await;
    }
}
