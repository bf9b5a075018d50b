//! A repository whose root `stator.yaml` is gone: it would be synced once more, as `default` and without its guards.

use super::{DesiredState, GatheredState};
use crate::cluster::Cluster;
use stator_core::dynamo::kinds;
use stator_core::finding::Finding;
use stator_model::plan::{self, Record};
use std::collections::BTreeMap;

/// Refuses everything of a folder without a `stator.yaml` when a repository with a name has synced the same models from
/// the same files: it is most likely that repository, which lost its settings. The cluster is asked only when a model is
/// new to it, so that a steady state costs no call. A cluster that lets nobody look into other namespaces is looked at
/// in the one that it does.
pub async fn refuse_lost_settings<C: Cluster>(cluster: &C, desired: &mut DesiredState, live: &GatheredState) {
    let is_known = |model: &str| live.records.iter().any(|record| record.model == model);
    if desired.rendered.iter().all(|one| is_known(&one.model)) {
        return;
    }
    let Some(records) = list_records(cluster, &desired.target.namespace).await else { return };
    let is_new = |record: &&Record| !is_known(&record.model);
    if let Some(finding) = plan::lost_settings_finding(&desired.rendered, records.iter().filter(is_new)) {
        desired.refuse(finding);
    }
}

/// The records that can be seen, whoever's they are.
async fn list_records<C: Cluster>(cluster: &C, namespace: &str) -> Option<Vec<Record>> {
    let all = BTreeMap::new();
    let listed = match cluster.list_texts(&kinds::RECORD, None, &all).await {
        Ok(listed) => Ok(listed),
        Err(_) => cluster.list_texts(&kinds::RECORD, Some(namespace), &all).await,
    };
    match listed {
        Ok(listed) => Some(listed.iter().filter_map(|object| Record::from_object(&object.parse()).ok()).collect()),
        Err(error) => {
            tracing::info!(%error, "records of other repositories are not checked");
            None
        }
    }
}

impl DesiredState {
    /// Takes everything back that was rendered: nothing is created, changed or pruned, for this reason.
    pub fn refuse(&mut self, finding: Finding) {
        let rendered = std::mem::take(&mut self.rendered);
        self.selection.break_all(rendered.into_iter().map(|one| (one.model, one.source)), &finding);
        self.findings.push(finding);
        stator_core::finding::sort_and_dedup(&mut self.findings);
    }
}
