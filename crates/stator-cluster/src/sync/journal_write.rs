//! Writing and deleting journals: each under a name that nothing else has, and by uid.

use super::machine::JournalWriteResult;
use crate::cluster::{
    ApplyOutcome, ApplyRequest, Cluster, ClusterError, DeleteOutcome, NO_OBJECTS_VERSION, Preconditions,
};
use stator_core::dynamo::kinds;
use stator_core::object::{Object, ObjectRef};
use stator_model::plan::Journal;

/// Creates a journal. One that is there and says the same is what an earlier try wrote whose answer was lost.
///
/// # Errors
/// When the cluster refuses it, and when something else has its name.
pub(super) async fn write_journal<C: Cluster>(
    cluster: &C,
    journal: &Journal,
) -> Result<JournalWriteResult, ClusterError> {
    let object = journal
        .to_object()
        .map_err(|error| ClusterError::Storage { message: format!("the journal {}: {error}", journal.name) })?;
    let new = object.clone().with_resource_version(NO_OBJECTS_VERSION);
    let request = ApplyRequest::new(new, kinds::FIELD_MANAGER);
    let refused = match cluster.apply(&request).await {
        Ok(applied) => {
            let writes = match applied.outcome {
                ApplyOutcome::Created | ApplyOutcome::Updated => 1,
                ApplyOutcome::Unchanged => 0,
            };
            return Ok(JournalWriteResult { writes, uid: applied.object.uid().map(str::to_owned) });
        }
        Err(refused @ ClusterError::Precondition { .. }) => refused,
        Err(error) => return Err(error),
    };
    let same = |live: &Object| live.spec() == object.spec() && live.labels() == object.labels();
    match cluster.get(&object.reference()).await?.filter(same) {
        Some(live) => Ok(JournalWriteResult { writes: 0, uid: live.uid().map(str::to_owned) }),
        None => Err(refused),
    }
}

/// Deletes a journal; one that is gone already, or another one of its name, counts as deleted.
///
/// # Errors
/// When the cluster refuses it.
pub(super) async fn delete_journal<C: Cluster>(
    cluster: &C,
    namespace: String,
    name: String,
    uid: Option<String>,
) -> Result<JournalWriteResult, ClusterError> {
    let journal =
        ObjectRef { api_version: kinds::JOURNAL.api_version(), kind: kinds::JOURNAL.kind.to_owned(), namespace, name };
    let writes = match cluster.delete(&journal, &Preconditions { uid, resource_version: None }).await {
        Ok(DeleteOutcome::Gone | DeleteOutcome::Pending(_)) => 1,
        Ok(DeleteOutcome::Absent) | Err(ClusterError::Precondition { .. }) => 0,
        Err(error) => return Err(error),
    };
    Ok(JournalWriteResult { writes, uid: None })
}
