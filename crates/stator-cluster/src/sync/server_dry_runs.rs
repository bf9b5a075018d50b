//! Asking the cluster what it would make of applies whose effect nobody else can tell.

use crate::cluster::{ApplyRequest, Cluster, ClusterError};
use futures_util::{StreamExt as _, stream};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use stator_core::dynamo::kinds::FIELD_MANAGER;
use stator_core::object::{Object, ObjectIdentity};
use stator_model::plan::{ApplyStep, Plan, PlanInput};

/// Dry runs at a time.
const MAX_CONCURRENT_DRY_RUNS: usize = 16;

/// Has the cluster try what of a plan only it can tell, and puts the answers into what the plan is made of. True when the plan
/// is to be made again; most plans ask nothing, and nothing is sent then.
///
/// An apply that the cluster refuses, or does not let us try, has no answer, and is planned by what is known here.
pub async fn answer_open_questions<C: Cluster>(cluster: &C, plan: &Plan, input: &mut PlanInput) -> bool {
    // Made first and driven then: a stream that makes them as it goes cannot be sent to another thread.
    let questions: Vec<_> = plan.unexplained_applies().map(|apply| dry_run(cluster, apply)).collect();
    let answers: Vec<Option<Object>> = stream::iter(questions).buffered(MAX_CONCURRENT_DRY_RUNS).collect().await;
    input.dry_runs = answers.into_iter().flatten().map(|object| (object.reference().identity(), object)).collect();
    let replacements: Vec<_> =
        plan.replacements().map(|(apply, is_beside)| try_replacement(cluster, apply, is_beside)).collect();
    let refusals = stream::iter(replacements).buffered(MAX_CONCURRENT_DRY_RUNS).collect::<Vec<_>>().await;
    input.refused_replacements = refusals.into_iter().flatten().collect();
    !input.dry_runs.is_empty() || !input.refused_replacements.is_empty()
}

/// Creates an object under a name that nothing has, dry: under its own the one that it replaces is still there, unless it is
/// to be created beside that. Gives the refusal, where there is one.
async fn try_replacement<C: Cluster>(
    cluster: &C,
    apply: &ApplyStep,
    is_beside: bool,
) -> Option<(ObjectIdentity, String)> {
    let identity = apply.object.reference().identity();
    let object = apply.object.parse();
    let object = if is_beside { object } else { under_free_name(&object)? };
    let request = ApplyRequest { dry_run: true, ..ApplyRequest::new(object, FIELD_MANAGER) };
    let error = cluster.apply(&request).await.err()?;
    let message = error.to_string().replace(request.object.name(), apply.object.name());
    // A quota counts what is there now, and what is replaced goes first. Only the words of the refusal say that it is one.
    let is_quota = message.contains("exceeded quota") && !is_beside;
    match error {
        ClusterError::Invalid { .. } | ClusterError::Denied { .. } | ClusterError::Forbidden { .. } if !is_quota => {
            Some((identity, message))
        }
        ClusterError::Invalid { .. }
        | ClusterError::Denied { .. }
        | ClusterError::Forbidden { .. }
        | ClusterError::Conflict { .. }
        | ClusterError::Precondition { .. }
        | ClusterError::NamespaceUnavailable { .. }
        | ClusterError::UnknownKind { .. }
        | ClusterError::Damaged { .. }
        | ClusterError::Storage { .. }
        | ClusterError::Refused { .. }
        | ClusterError::Fenced
        | ClusterError::Unreachable { .. }
        | ClusterError::Transient { .. } => None,
    }
}

/// The object under a name as long as its own, so that limits on names hold alike.
fn under_free_name(object: &Object) -> Option<Object> {
    let name = object.name();
    let digest = hex::encode(Sha256::digest(name.as_bytes()));
    let free: String = "x".chars().chain(digest.chars().cycle()).take(name.chars().count()).collect();
    let renamed = object.clone().map(|mut value| {
        value["metadata"]["name"] = Value::from(free);
        value
    });
    renamed.ok()
}

async fn dry_run<C: Cluster>(cluster: &C, apply: &ApplyStep) -> Option<Object> {
    let request = ApplyRequest {
        force: true,
        dry_run: true,
        transfer: apply.transfer.clone(),
        ..ApplyRequest::new(apply.object.parse(), FIELD_MANAGER)
    };
    match cluster.apply(&request).await {
        Ok(answer) => Some(answer.object),
        Err(error) => {
            tracing::debug!(%error, object = %request.object.reference(), "a dry run had no answer");
            None
        }
    }
}
