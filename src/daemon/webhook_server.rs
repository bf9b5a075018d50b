//! A process that takes webhooks for sources that other processes run.

use super::{Daemon, DaemonStartError};
use crate::controller::metrics::Metrics;
use crate::controller::sources::objects::{ControllerRole, FeedSettings, SourceFeed};
use crate::controller::sources::registry::SourceRegistry;
use crate::controller::sources::tenancy::TenancyPolicy;
use crate::server::{ListenAddresses, ListenOptions, MetricsReviewer, ProcessListeners};
use stator_cluster::cluster::kube::KubeCluster;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What a [`WebhookServer`] works on.
#[derive(Debug)]
pub struct WebhookServerOptions {
    /// The cluster whose sources webhooks are taken for.
    pub kube: KubeCluster,
    /// The namespaces of the sources; all where there are none.
    pub namespaces: BTreeSet<String>,
    /// Where to listen.
    pub listen: ListenOptions,
    /// Whether the API server is asked who may read metrics.
    pub authorize_metrics: bool,
}

/// Takes webhooks, and writes what they hint at into the annotations of the sources.
#[derive(Debug)]
pub struct WebhookServer {
    registry: Arc<SourceRegistry>,
    feed: SourceFeed,
    addresses: ListenAddresses,
    serving: JoinHandle<()>,
    ending: CancellationToken,
}

impl WebhookServer {
    /// Listens, and starts to follow the sources.
    ///
    /// # Errors
    /// See [`DaemonStartError`].
    pub async fn start(options: WebhookServerOptions) -> Result<Self, DaemonStartError> {
        let WebhookServerOptions { kube, namespaces, listen, authorize_metrics } = options;
        let reviewer = authorize_metrics.then(|| MetricsReviewer::new(kube.client()));
        let listeners = ProcessListeners::bind(listen).await?.with_metrics_reviewer(reviewer);
        let settings = FeedSettings {
            role: ControllerRole::Server,
            namespaces,
            // What sources may do is for the controller to check that runs them.
            tenancy: TenancyPolicy { cross_namespace: true, insecure: true, ..TenancyPolicy::default() },
            identity: String::new(),
            webhooks: true,
        };
        let (registry, metrics, ending): (Arc<SourceRegistry>, Arc<Metrics>, _) =
            (Arc::default(), Arc::default(), CancellationToken::new());
        kube.observe_requests(metrics.kube_observer());
        let feed = SourceFeed::start(kube, settings, Arc::clone(&registry));
        let addresses = listeners.addresses();
        let serving = listeners.serve(&registry, &metrics, &ending);
        Ok(Self { registry, feed, addresses, serving, ending })
    }

    /// Where it listens.
    pub fn addresses(&self) -> ListenAddresses {
        self.addresses
    }
}

impl Daemon for WebhookServer {
    fn registry(&self) -> Arc<SourceRegistry> {
        Arc::clone(&self.registry)
    }

    async fn run(&mut self) -> bool {
        loop {
            // It runs no source: following them is all that there is to do.
            self.feed.next_desired().await;
        }
    }

    async fn shut_down(self) {
        self.ending.cancel();
        let _ = self.serving.await;
        self.feed.flush_relay().await;
    }
}
