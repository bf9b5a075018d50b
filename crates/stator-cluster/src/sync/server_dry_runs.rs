//! Asking the cluster what it would make of applies whose effect nobody else can tell.

use crate::cluster::{AnyCluster, ApplyRequest, Cluster, ClusterError};
use futures_util::{StreamExt as _, stream};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use stator_core::dynamo::kinds::FIELD_MANAGER;
use stator_core::object::{Object, ObjectIdentity, ObjectRef};
use stator_model::plan::{
    ApplyStep, DeleteStep, Plan, PlanDraft, PlanInput, PlannedWrite, ServerAnswers, UntriedCause,
};

/// Dry runs at a time.
const MAX_CONCURRENT_DRY_RUNS: usize = 16;

/// The plan of an input, once the cluster has explained what of it only the cluster can tell; the input gets its answers.
pub async fn build_explained_plan<C: Cluster>(cluster: &C, input: &mut PlanInput) -> Plan {
    let mut draft = PlanDraft::new(std::mem::take(input));
    let mut plan = draft.plan();
    let answers = answer_open_questions(cluster, &plan).await;
    if !answers.is_empty() {
        draft.answer(answers);
        plan = draft.plan();
    }
    *input = draft.into_input();
    plan
}

/// Has the cluster try what of a plan only it can tell; most plans ask nothing, and nothing is sent then.
///
/// What the cluster does not let us try has no answer, and is planned by what is known here: the plan says so.
pub async fn answer_open_questions<C: Cluster>(cluster: &C, plan: &Plan) -> ServerAnswers {
    let mut found = ServerAnswers::default();
    // Made first and driven then: a stream that makes them as it goes cannot be sent to another thread.
    let questions: Vec<_> = plan.unexplained_applies().map(|apply| dry_run(cluster, apply)).collect();
    let answers: Vec<_> = stream::iter(questions).buffered(MAX_CONCURRENT_DRY_RUNS).collect().await;
    let surplus = plan.surplus_updates().map(|apply| apply.object.reference().identity());
    found.untried = surplus.map(|identity| (identity, UntriedCause::TooMany)).collect();
    for (identity, answer) in answers {
        match answer {
            Ok(object) => drop(found.dry_runs.insert(identity, object)),
            Err(error) => drop(found.untried.insert(identity, UntriedCause::Failed(error.to_string()))),
        }
    }
    let replacements: Vec<_> =
        plan.replacements().map(|(apply, is_beside)| try_replacement(cluster, apply, is_beside)).collect();
    let replaced = stream::iter(replacements).buffered(MAX_CONCURRENT_DRY_RUNS).collect::<Vec<_>>().await;
    for (identity, trial) in replaced {
        match trial {
            ReplacementTrial::Accepted => {}
            ReplacementTrial::Refused(message) => drop(found.refused_replacements.insert(identity, message)),
            ReplacementTrial::Unanswered(message) => {
                found.untried.insert(identity, UntriedCause::Failed(message));
            }
        }
    }
    found
}

/// What the cluster says of something that is to take the place of an object.
enum ReplacementTrial {
    Accepted,
    /// It would refuse to create it.
    Refused(String),
    /// It gives no answer that tells.
    Unanswered(String),
}

/// Creates an object under a name that nothing has, dry: under its own the one that it replaces is still there, unless it is
/// to be created beside that.
async fn try_replacement<C: Cluster>(
    cluster: &C,
    apply: &ApplyStep,
    is_beside: bool,
) -> (ObjectIdentity, ReplacementTrial) {
    let identity = apply.object.reference().identity();
    let object = apply.object.parse();
    let object = if is_beside { Some(object) } else { under_free_name(&object) };
    // Another name cannot make an object malformed.
    let Some(object) = object else { return (identity, ReplacementTrial::Accepted) };
    let request = ApplyRequest { dry_run: true, ..ApplyRequest::new(object, FIELD_MANAGER) };
    let Err(error) = cluster.apply(&request).await else { return (identity, ReplacementTrial::Accepted) };
    let message = error.to_string().replace(request.object.name(), apply.object.name());
    // A quota counts what is there now, and what is replaced goes first. Only the words of the refusal say that it is one.
    let is_quota = message.contains("exceeded quota") && !is_beside;
    let trial = match error {
        ClusterError::Invalid { .. } | ClusterError::Denied { .. } | ClusterError::Forbidden { .. } if is_quota => {
            ReplacementTrial::Accepted
        }
        ClusterError::Invalid { .. } | ClusterError::Denied { .. } | ClusterError::Forbidden { .. } => {
            ReplacementTrial::Refused(message)
        }
        ClusterError::Conflict { .. }
        | ClusterError::Precondition { .. }
        | ClusterError::NamespaceUnavailable { .. }
        | ClusterError::UnknownKind { .. }
        | ClusterError::Damaged { .. }
        | ClusterError::Storage { .. }
        | ClusterError::Refused { .. }
        | ClusterError::Fenced
        | ClusterError::Unreachable { .. }
        | ClusterError::Transient { .. } => ReplacementTrial::Unanswered(message),
    };
    (identity, trial)
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

/// Has the cluster check every apply of a plan, without writing; those that it refuses. What waits for the deletion of another
/// object is not checked: that would refuse what comes after it.
pub async fn refused_applies(cluster: &AnyCluster, plan: &Plan) -> Vec<(ObjectRef, ClusterError)> {
    let mut refused = Vec::new();
    for change in &plan.changes {
        let apply = match change.step.write() {
            Some(PlannedWrite::Apply(apply)) => apply,
            Some(PlannedWrite::Replace { delete: DeleteStep { after: Some(_), .. }, apply }) => apply,
            Some(PlannedWrite::Replace { .. } | PlannedWrite::Delete(_)) | None => continue,
        };
        let request = ApplyRequest {
            force: apply.force,
            dry_run: true,
            transfer: apply.transfer.clone(),
            ..ApplyRequest::new(apply.object.parse(), FIELD_MANAGER)
        };
        if let Err(error) = cluster.apply(&request).await {
            refused.push((change.object.clone(), error));
        }
    }
    refused
}

async fn dry_run<C: Cluster>(cluster: &C, apply: &ApplyStep) -> (ObjectIdentity, Result<Object, ClusterError>) {
    let request = ApplyRequest {
        force: true,
        dry_run: true,
        transfer: apply.transfer.clone(),
        ..ApplyRequest::new(apply.leading_object(), FIELD_MANAGER)
    };
    let answer = cluster.apply(&request).await.map(|answer| answer.object);
    (apply.object.reference().identity(), answer)
}
