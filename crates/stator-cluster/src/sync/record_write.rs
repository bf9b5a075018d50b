//! Writing records: each over the object that was read, and over no other.

use super::machine::{ExpectedRecord, RecordWriteResult};
use crate::cluster::{
    ApplyOutcome, ApplyRequest, ApplyResponse, Cluster, ClusterError, DeleteOutcome, NO_OBJECTS_VERSION, Preconditions,
};
use serde_json::json;
use stator_core::dynamo::kinds;
use stator_core::object::{Object, ObjectRef};
use stator_model::plan::{Record, SourceIdentity};

/// How often a write is tried while what it must be over moves without becoming another: each try follows a look.
const MAX_TRIES: usize = 3;

/// Which half of a record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordPart {
    Object,
    Status,
}

/// Writes a record: the object, its status, or the one and then the other.
///
/// # Errors
/// When the cluster refuses it, and when what is there is not what was read: then nothing is written.
pub(super) async fn write_record<C: Cluster>(
    cluster: &C,
    mut record: Box<Record>,
    mut expected: ExpectedRecord,
    object: bool,
    status: bool,
) -> Result<RecordWriteResult, ClusterError> {
    let mut writes = 0;
    if !object {
        match apply_part(cluster, &record, RecordPart::Status, &mut expected).await {
            Ok(applied) => {
                let uid = applied.object.uid().map(str::to_owned);
                return Ok(RecordWriteResult { writes: count_write(&applied), generation: record.generation, uid });
            }
            // It was deleted in the meantime, and a status alone makes no object.
            Err(ClusterError::Precondition { .. }) if expected == ExpectedRecord::Absent => {}
            Err(error) => return Err(error),
        }
    }
    let applied = apply_part(cluster, &record, RecordPart::Object, &mut expected).await?;
    writes += count_write(&applied);
    record.generation = applied.object.generation();
    let uid = applied.object.uid().map(str::to_owned);
    if status {
        let mut written = ExpectedRecord::Present {
            uid: uid.clone(),
            resource_version: applied.object.resource_version().map(str::to_owned),
            owner: record.owner.clone(),
        };
        writes += count_write(&apply_part(cluster, &record, RecordPart::Status, &mut written).await?);
    }
    Ok(RecordWriteResult { writes, generation: record.generation, uid })
}

/// Deletes the record of a model that is gone, in the version that was read.
pub(super) async fn delete_record<C: Cluster>(cluster: &C, record: &Record) -> Result<RecordWriteResult, ClusterError> {
    let (object, _) = record_objects(record)?;
    let preconditions = Preconditions { uid: record.uid.clone(), resource_version: record.resource_version.clone() };
    let writes = match cluster.delete(&object.reference(), &preconditions).await? {
        DeleteOutcome::Gone | DeleteOutcome::Pending(_) => 1,
        DeleteOutcome::Absent => 0,
    };
    Ok(RecordWriteResult { writes, generation: None, uid: None })
}

fn count_write(applied: &ApplyResponse) -> usize {
    match applied.outcome {
        ApplyOutcome::Created | ApplyOutcome::Updated => 1,
        ApplyOutcome::Unchanged => 0,
    }
}

/// Applies a half of a record over what is expected. Where something else is there, a look tells whether it is the same
/// record, which somebody has touched, and the write goes ahead over that; or somebody else's, and it is not written.
async fn apply_part<C: Cluster>(
    cluster: &C,
    record: &Record,
    part: RecordPart,
    expected: &mut ExpectedRecord,
) -> Result<ApplyResponse, ClusterError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let request = build_request(record, part, expected)?;
        let reference = request.object.reference();
        let refused = match cluster.apply(&request).await {
            Ok(applied) => return check_answer(applied, reference, expected),
            Err(refused @ ClusterError::Precondition { .. }) => refused,
            Err(error) => return Err(error),
        };
        let found = cluster.get(&reference).await?;
        let is_gone = found.is_none();
        *expected = match found {
            None => ExpectedRecord::Absent,
            Some(live) => recheck(&live, record, expected)?,
        };
        if tries == MAX_TRIES || (is_gone && part == RecordPart::Status) {
            return Err(refused);
        }
    }
}

fn build_request(record: &Record, part: RecordPart, expected: &ExpectedRecord) -> Result<ApplyRequest, ClusterError> {
    let (main, status) = record_objects(record)?;
    let object = match part {
        RecordPart::Object => main,
        RecordPart::Status => status,
    };
    let (uid, version) = match expected {
        // A status makes no object, whatever it is asked for.
        ExpectedRecord::Absent => (None, (part == RecordPart::Object).then_some(NO_OBJECTS_VERSION)),
        ExpectedRecord::Present { uid, resource_version, owner: _ } => (uid.as_deref(), resource_version.as_deref()),
        ExpectedRecord::Unreadable => (None, None),
    };
    let conditional = object.map(|mut value| {
        for (field, condition) in [("uid", uid), ("resourceVersion", version)] {
            if let Some(condition) = condition {
                value["metadata"][field] = json!(condition);
            }
        }
        value
    });
    let object = conditional.map_err(|error| malformed(record, &error.to_string()))?;
    // The record is stator's own bookkeeping: an edit by hand must not stop every later sync of the model.
    Ok(ApplyRequest {
        force: true,
        status: part == RecordPart::Status,
        ..ApplyRequest::new(object, kinds::FIELD_MANAGER)
    })
}

/// What the answer shows that no precondition could: a status is written by name, and a server may take a condition for
/// granted.
fn check_answer(
    applied: ApplyResponse,
    reference: ObjectRef,
    expected: &ExpectedRecord,
) -> Result<ApplyResponse, ClusterError> {
    let refuse = |message: &str| Err(ClusterError::Precondition { object: reference, message: message.to_owned() });
    match expected {
        ExpectedRecord::Present { uid: Some(uid), .. } if applied.object.uid().is_some_and(|found| found != uid) => {
            refuse("it was deleted and created again by another client while the model was synced: sync again")
        }
        ExpectedRecord::Absent if applied.outcome == ApplyOutcome::Updated && applied.object.uid().is_some() => refuse(
            "another client created it while the model was synced, and its content was replaced: sync both again",
        ),
        ExpectedRecord::Present { .. } | ExpectedRecord::Absent | ExpectedRecord::Unreadable => Ok(applied),
    }
}

/// What to write over, where an object is there that is not as expected.
fn recheck(live: &Object, record: &Record, expected: &ExpectedRecord) -> Result<ExpectedRecord, ClusterError> {
    let refuse = |message: String| Err(ClusterError::Precondition { object: live.reference(), message });
    let found = match Record::from_object(live) {
        Ok(found) => found,
        Err(error) => return refuse(error.to_string()),
    };
    let is_known = match expected {
        // The answer to the first try was lost, and this is what it wrote.
        ExpectedRecord::Absent => found.has_same_object(record),
        ExpectedRecord::Present { uid, resource_version: _, owner } => {
            uid.as_deref().is_none_or(|uid| live.uid() == Some(uid))
                && (found.owner == *owner || found.owner == record.owner)
        }
        ExpectedRecord::Unreadable => true,
    };
    if !is_known {
        let owner = found.owner.as_ref().map_or_else(
            || format!("repository `{}`, environment `{}`", found.repository, found.environment),
            SourceIdentity::describe,
        );
        return refuse(format!("{owner} wrote it after it was planned: sync again to see who owns the model"));
    }
    Ok(ExpectedRecord::Present {
        uid: live.uid().map(str::to_owned),
        resource_version: live.resource_version().map(str::to_owned),
        owner: found.owner,
    })
}

fn record_objects(record: &Record) -> Result<(Object, Object), ClusterError> {
    record.to_object().map_err(|error| malformed(record, &error.to_string()))
}

fn malformed(record: &Record, error: &str) -> ClusterError {
    ClusterError::Storage { message: format!("the record of {}: {error}", record.model) }
}
