//! What a cluster's controllers say of models, read now and then: a namespace may have thousands of Events.

use stator_cluster::cluster::AnyCluster;
use stator_cluster::cluster::kube::{KubeEvent, events_of_models};
use stator_model::plan::ModelStatus;
use stator_model::present::history::ClusterEvent;
use std::time::{Duration, Instant};

/// For so long what was read is new enough.
const MAX_AGE: Duration = Duration::from_secs(10);

/// The Events of a namespace, as they were read last.
#[derive(Debug, Default)]
pub struct RecentEvents {
    read: Option<Instant>,
    events: Vec<KubeEvent>,
}

impl RecentEvents {
    /// Those that are about these models, oldest first. None on a cluster that has no Events, or where they may not be read:
    /// everything else is known all the same.
    pub async fn of_models(
        &mut self,
        cluster: &AnyCluster,
        namespace: &str,
        models: &[ModelStatus],
    ) -> Vec<ClusterEvent> {
        let Some(kube) = cluster.as_kubernetes() else { return Vec::new() };
        if self.read.is_none_or(|read| read.elapsed() > MAX_AGE) {
            self.events = kube.list_events(namespace).await.unwrap_or_else(|error| {
                tracing::debug!(%error, "events of the cluster are not shown");
                Vec::new()
            });
            self.read = Some(Instant::now());
        }
        events_of_models(models, self.events.clone())
    }
}
