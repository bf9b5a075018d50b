//! The status of every model of an environment, with what only the cluster can tell of it.
//! Frontends are asked once for a report, and pods are read only to say why something is not healthy.

use super::build_explained_plan;
use crate::cluster::Cluster;
use futures_util::StreamExt as _;
use stator_core::dynamo::health::pods::owner_label;
use stator_core::dynamo::kinds;
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use stator_core::object::{Object, ObjectRef, ObjectText};
use stator_model::plan::{self, ModelStatus, ModelStatusContext, Plan, PlanInput, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

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

/// Judges every model of an environment; `input` gets what the cluster answered. Pods are read, and frontends asked, only where something is to be explained by them.
pub async fn read_environment_status<C: Cluster>(
    cluster: &C,
    input: &mut PlanInput,
    now: jiff::Timestamp,
) -> EnvironmentStatus {
    let plan = build_explained_plan(cluster, input).await;
    let mut sight = ModelStatusContext { now: Some(now), ..ModelStatusContext::default() };
    let mut models = plan::model_statuses(input, &plan, &sight);
    let waiting: Vec<ObjectRef> = models
        .iter()
        .flat_map(|model| &model.objects)
        .filter(|one| [kinds::GRAPH.kind, kinds::JOB.kind].contains(&one.object.kind.as_str()) && !one.health.is_good())
        .map(|one| one.object.clone())
        .collect();
    sight.pods = list_pods(cluster, &waiting).await;
    // Frontends are asked only what the status of an adapter leaves open.
    let frontends = plan::frontends_of_adapters(input, &plan, &models);
    sight.frontends = ask_frontends(cluster, frontends).await;
    if !sight.pods.is_empty() || !sight.frontends.is_empty() {
        models = plan::model_statuses(input, &plan, &sight);
    }
    models.sort_by(|a, b| a.name.cmp(&b.name));
    let records = plan::own_bookkeeping(input).records;
    EnvironmentStatus { models, plan, records, live: input.live.clone() }
}

/// How many are asked at a time.
const FRONTENDS_AT_A_TIME: usize = 8;

/// How long a report waits for all of them together.
const FRONTENDS_DEADLINE: Duration = Duration::from_secs(60);

/// What frontends serve. Those that did not come to answer within a minute are not known.
pub async fn ask_frontends<C: Cluster>(
    cluster: &C,
    frontends: BTreeSet<FrontendService>,
) -> BTreeMap<FrontendService, FrontendAnswer> {
    let late = format!("the frontends that were asked took more than {} s", FRONTENDS_DEADLINE.as_secs());
    let mut answers: BTreeMap<FrontendService, FrontendAnswer> =
        frontends.iter().map(|frontend| (frontend.clone(), FrontendAnswer::unknown(late.as_str()))).collect();
    let questions = futures_util::stream::iter(frontends).map(|frontend| async move {
        let answer = cluster.served_models(&frontend).await;
        (frontend, answer)
    });
    let in_time = questions.buffer_unordered(FRONTENDS_AT_A_TIME).take_until(tokio::time::sleep(FRONTENDS_DEADLINE));
    let answered: Vec<(FrontendService, FrontendAnswer)> = in_time.collect().await;
    answers.extend(answered);
    answers
}

/// The most graphs and downloads whose pods are looked at for one report. Where more than that wait, it is not for a cause of each.
const MAX_POD_OWNERS: usize = 20;

/// The pods of graphs and Jobs, by the labels of those who make them. Reading pods is a courtesy that a cluster may refuse, and one
/// that has none has nothing to say: whatever goes wrong, there are just fewer of them.
pub async fn list_pods<C: Cluster>(cluster: &C, owners: &[ObjectRef]) -> Vec<Object> {
    let mut found = Vec::new();
    for owner in owners.iter().take(MAX_POD_OWNERS) {
        let labels = BTreeMap::from([(owner_label(owner).to_owned(), owner.name.clone())]);
        match cluster.list(&kinds::POD, Some(&owner.namespace), &labels).await {
            Ok(pods) => found.extend(pods),
            Err(error) => {
                tracing::debug!(%error, "pods are not checked");
                break;
            }
        }
    }
    found
}
