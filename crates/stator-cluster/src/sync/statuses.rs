//! The status of every model of an environment, with what only the cluster can tell of it.

use super::{answer_open_questions, ask_frontends, list_pods};
use crate::cluster::Cluster;
use stator_core::dynamo::kinds;
use stator_core::object::{ObjectRef, ObjectText};
use stator_model::plan::{self, ModelStatus, ModelStatusContext, Plan, PlanInput, Record};

/// How the models of an environment stand, and what that was read from.
#[derive(Clone, Debug)]
pub struct EnvironmentStatus {
    /// The models, sorted by name.
    pub models: Vec<ModelStatus>,
    /// What a sync would change.
    pub plan: Plan,
    /// The environment's records.
    pub records: Vec<Record>,
    /// Its live objects.
    pub live: Vec<ObjectText>,
}

/// Judges every model of an environment. Pods are read, and frontends asked, only where something is to be explained by them.
pub async fn read_environment_status<C: Cluster>(
    cluster: &C,
    mut input: PlanInput,
    now: jiff::Timestamp,
) -> EnvironmentStatus {
    let plan = plan::build_plan(&input);
    let plan = if answer_open_questions(cluster, &plan, &mut input).await { plan::build_plan(&input) } else { plan };
    let mut sight = ModelStatusContext { now: Some(now), ..ModelStatusContext::default() };
    let mut models = plan::model_statuses(&input, &plan, &sight);
    let waiting: Vec<ObjectRef> = models
        .iter()
        .flat_map(|model| &model.objects)
        .filter(|one| [kinds::GRAPH.kind, kinds::JOB.kind].contains(&one.object.kind.as_str()) && !one.health.is_good())
        .map(|one| one.object.clone())
        .collect();
    sight.pods = list_pods(cluster, &waiting).await;
    // Frontends are asked only what the status of an adapter leaves open.
    let frontends = plan::frontends_of_adapters(&input, &plan, &models);
    sight.frontends = ask_frontends(cluster, frontends).await;
    if !sight.pods.is_empty() || !sight.frontends.is_empty() {
        models = plan::model_statuses(&input, &plan, &sight);
    }
    models.sort_by(|a, b| a.name.cmp(&b.name));
    let records = plan::own_bookkeeping(&input).records;
    EnvironmentStatus { models, plan, records, live: input.live }
}
