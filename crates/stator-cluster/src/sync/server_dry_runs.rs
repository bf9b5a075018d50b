//! Asking the cluster what it would make of applies whose effect nobody else can tell.

use crate::cluster::{ApplyRequest, Cluster};
use futures_util::{StreamExt as _, stream};
use stator_core::dynamo::kinds::FIELD_MANAGER;
use stator_core::object::{Object, ObjectIdentity};
use stator_model::plan::{ApplyStep, Plan};
use std::collections::BTreeMap;

/// Dry runs at a time.
const MAX_CONCURRENT_DRY_RUNS: usize = 16;

/// The answers to dry runs of a plan's [`Plan::unexplained_applies`]; empty for most plans, and nothing is sent then. An
/// apply that the cluster refuses, or does not let us try, has no answer, and is planned by what is known here.
pub async fn run_unexplained<C: Cluster>(cluster: &C, plan: &Plan) -> BTreeMap<ObjectIdentity, Object> {
    // Made first and driven then: a stream that makes them as it goes cannot be sent to another thread.
    let questions: Vec<_> = plan.unexplained_applies().map(|apply| dry_run(cluster, apply)).collect();
    let answers: Vec<Option<Object>> = stream::iter(questions).buffered(MAX_CONCURRENT_DRY_RUNS).collect().await;
    answers.into_iter().flatten().map(|object| (object.reference().identity(), object)).collect()
}

async fn dry_run<C: Cluster>(cluster: &C, apply: &ApplyStep) -> Option<Object> {
    let request = ApplyRequest {
        force: true,
        dry_run: true,
        transfer: apply.transfer.clone(),
        ..ApplyRequest::new(apply.object.clone(), FIELD_MANAGER)
    };
    match cluster.apply(&request).await {
        Ok(answer) => Some(answer.object),
        Err(error) => {
            tracing::debug!(%error, object = %request.object.reference(), "a dry run had no answer");
            None
        }
    }
}
