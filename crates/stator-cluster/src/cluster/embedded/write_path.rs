//! Apply, create, update and delete: what an API server does between the request and the storage.

use super::layout;
use super::store::{EmbeddedStore, EmbeddedStoreState, internal_error};
use super::structured_merge::ObjectPart;
use super::{admission, claim_validation, config_map_validation, structured_merge};
use crate::cluster::api_conventions::{format_time, increment_generation};
use crate::cluster::{
    ApplyOutcome, ApplyRequest, ApplyResponse, ClusterError, DeleteOutcome, InvalidField, Preconditions,
};
use serde_json::{Map, Value, json};
use stator_core::dynamo::kinds::{CLAIM, CONFIG_MAP, ObjectKind};
use stator_core::fields::{self, StructuralSchema, TransferError};
use stator_core::object::{FieldPath, Object, ObjectRef};
use std::sync::atomic::Ordering;

/// What only the cluster writes; the values of a request are ignored.
const SYSTEM_FIELDS: &[&str] = &[
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];

/// One write under way: the kind, the object as it is, and the right to change it.
struct WriteTransaction<'a> {
    store: &'a EmbeddedStore,
    state: &'a mut EmbeddedStoreState,
    lock: &'a super::write_lock::WriteLock,
    kind: &'static ObjectKind,
    reference: ObjectRef,
    live: Option<Object>,
    now: jiff::Timestamp,
}

/// Runs one read-modify-write: no other process and no other task writes in between.
fn with_exclusive_write<T>(
    store: &EmbeddedStore,
    reference: ObjectRef,
    work: impl FnOnce(WriteTransaction<'_>) -> Result<T, ClusterError>,
) -> Result<T, ClusterError> {
    let kind = layout::served_kind(&reference)?;
    let path = layout::path_of(&reference)?;
    let mut state = store.state();
    let lock = store.lock()?;
    store.refresh(&mut state, vec![path.clone()], Some(&lock))?;
    let live = store.cached(&state, &path)?;
    let now = store.options.now();
    work(WriteTransaction { store, state: &mut state, lock: &lock, kind, reference, live, now })
}

/// Server-side apply.
pub(super) fn apply(store: &EmbeddedStore, request: ApplyRequest) -> Result<ApplyResponse, ClusterError> {
    let reference = request.object.reference();
    with_exclusive_write(store, reference, |write| write.apply(request))
}

/// A controller's or a person's update of one half of an object.
pub(super) fn update(
    store: &EmbeddedStore,
    reference: &ObjectRef,
    part: ObjectPart,
    manager: &str,
    change: impl FnOnce(&mut Value),
) -> Result<Option<ApplyResponse>, ClusterError> {
    with_exclusive_write(store, reference.clone(), |write| {
        let Some(live) = write.live.as_ref().map(Object::value) else { return Ok(None) };
        let mut value = live.clone();
        change(&mut value);
        let value = restore_other_part(value, live, part);
        let tracked = structured_merge::track_managers(write.schema(), Some(live), value, manager, part, write.now);
        write.finish(tracked, manager, false, Some(part)).map(Some)
    })
}

/// A controller's create.
pub(super) fn create(store: &EmbeddedStore, object: Object, manager: &str) -> Result<ApplyResponse, ClusterError> {
    with_exclusive_write(store, object.reference(), |write| {
        if let Some(live) = write.live {
            return Ok(ApplyResponse { object: live, outcome: ApplyOutcome::Unchanged });
        }
        let tracked = structured_merge::track_managers(
            write.schema(),
            None,
            object.into_value(),
            manager,
            ObjectPart::Main,
            write.now,
        );
        write.finish(tracked, manager, false, None)
    })
}

/// Delete, in the background.
pub(super) fn delete(
    store: &EmbeddedStore,
    reference: &ObjectRef,
    preconditions: &Preconditions,
) -> Result<DeleteOutcome, ClusterError> {
    with_exclusive_write(store, reference.clone(), |write| {
        let Some(live) = write.live else { return Ok(DeleteOutcome::Absent) };
        check_preconditions(reference, &live, preconditions.uid.as_deref(), preconditions.resource_version.as_deref())?;
        if live.finalizers().is_empty() {
            write.store.remove(write.state, write.lock, &live)?;
            return Ok(DeleteOutcome::Gone);
        }
        if live.is_deleting() {
            return Ok(DeleteOutcome::Pending(live));
        }
        let mut value = live.into_value();
        let metadata = metadata_mut(&mut value)?;
        metadata.insert("deletionTimestamp".to_owned(), json!(format_time(write.now)));
        metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(0));
        increment_generation(metadata);
        let object = Object::from_value(value).map_err(internal_error)?;
        write.store.write(write.state, write.lock, object).map(DeleteOutcome::Pending)
    })
}

impl WriteTransaction<'_> {
    fn schema(&self) -> &'static StructuralSchema {
        structured_merge::schema_of(self.kind, self.store.release())
    }

    fn apply(self, request: ApplyRequest) -> Result<ApplyResponse, ClusterError> {
        let moved = self.transfer_ownership(&request)?;
        let mut config = request.object.into_value();
        let own = metadata_mut(&mut config)?;
        let (uid, revision) = (own.remove("uid"), own.remove("resourceVersion"));
        let text = |value: &Option<Value>| value.as_ref().and_then(Value::as_str).map(str::to_owned);
        let (uid, revision) = (text(&uid), text(&revision));
        let part = if request.status { ObjectPart::Status } else { ObjectPart::Main };
        let live = moved.as_ref().or(self.live.as_ref()).map(Object::value);
        let merged = structured_merge::apply(&structured_merge::ServerSideApply {
            release: self.store.release(),
            kind: self.kind,
            live,
            config: &config,
            manager: &request.manager,
            force: request.force,
            part,
            now: self.now,
        })
        .map_err(|fault| structured_merge::apply_error(&self.store.root, &self.reference, fault))?;
        let unreadable = if *self.kind == CLAIM {
            claim_validation::malformed_quantities(&merged)
        } else if *self.kind == CONFIG_MAP {
            config_map_validation::malformed_bytes(&merged)
        } else {
            Vec::new()
        };
        if !unreadable.is_empty() {
            return Err(ClusterError::Invalid { object: self.reference, causes: unreadable });
        }
        match (&self.live, uid.as_deref()) {
            // The status endpoint takes all metadata from the live object, the uid included.
            (Some(live), uid) => {
                check_preconditions(&self.reference, live, uid.filter(|_| !request.status), revision.as_deref())?;
            }
            // A resource version says nothing where there is no object; a uid says that there must be one.
            (None, Some(uid)) => {
                return Err(ClusterError::Precondition {
                    object: self.reference,
                    message: format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    ),
                });
            }
            (None, None) => {}
        }
        self.finish(merged, &request.manager, request.dry_run, Some(part))
    }

    /// The live object with the ownership moved that the request asks for; `None` where nothing moves.
    fn transfer_ownership(&self, request: &ApplyRequest) -> Result<Option<Object>, ClusterError> {
        let (Some(transfer), Some(live)) = (&request.transfer, &self.live) else { return Ok(None) };
        transfer.carry_out(self.schema(), live, &request.manager).map_err(|fault| match fault {
            TransferError::MalformedManagedFields(fault) => {
                structured_merge::apply_error(&self.store.root, &self.reference, fault.into())
            }
            TransferError::MalformedObject(fault) => internal_error(fault),
        })
    }

    /// From a merged object to the stored one: defaults, admission, validation, system fields, and the write, unless
    /// nothing changed.
    fn finish(
        self,
        mut value: Value,
        manager: &str,
        dry_run: bool,
        part: Option<ObjectPart>,
    ) -> Result<ApplyResponse, ClusterError> {
        let operated = self.store.running_operators.load(Ordering::SeqCst) > 0;
        let live = self.live.as_ref().map(Object::value);
        if live.is_none() {
            // A status in a create is dropped: it has a subresource of its own.
            if part.is_some()
                && let Some(map) = value.as_object_mut()
            {
                map.remove("status");
            }
        }
        if operated {
            admission::mutate(self.kind.kind, self.store.release(), live.is_none(), &mut value);
        }
        structured_merge::fill_defaults(self.kind, self.store.release(), &mut value);
        self.reject_new_finalizers(&value)?;
        self.set_system_fields(&mut value)?;
        if part != Some(ObjectPart::Status) {
            admission::validate(&self.reference, live, &value, manager, operated.then(|| self.store.release()))?;
        }
        let causes = structured_merge::validate(self.kind, self.store.release(), &value, live, &[]);
        if !causes.is_empty() {
            return Err(ClusterError::Invalid { object: self.reference, causes });
        }
        if let Some(live) = self.live.as_ref()
            && fields::values_equal(live.value(), &value)
        {
            return Ok(ApplyResponse { object: live.clone(), outcome: ApplyOutcome::Unchanged });
        }
        let outcome = if self.live.is_some() { ApplyOutcome::Updated } else { ApplyOutcome::Created };
        let object = Object::from_value(value).map_err(internal_error)?;
        if dry_run {
            return Ok(ApplyResponse { object, outcome });
        }
        // The last finalizer of a deleted object takes the object along.
        let object = if object.is_deleting() && object.finalizers().is_empty() {
            self.store.remove(self.state, self.lock, &object)?
        } else {
            self.store.write(self.state, self.lock, object)?
        };
        Ok(ApplyResponse { object, outcome })
    }

    /// An object on its way out takes no more finalizers.
    fn reject_new_finalizers(&self, value: &Value) -> Result<(), ClusterError> {
        let Some(live) = self.live.as_ref().filter(|live| live.is_deleting()) else { return Ok(()) };
        let wanted = value.pointer("/metadata/finalizers").and_then(Value::as_array).into_iter().flatten();
        let new: Vec<&str> =
            wanted.filter_map(Value::as_str).filter(|name| !live.finalizers().contains(name)).collect();
        if new.is_empty() {
            return Ok(());
        }
        Err(ClusterError::Invalid {
            object: self.reference.clone(),
            causes: vec![InvalidField {
                path: FieldPath::from_fields(["metadata", "finalizers"]),
                message: format!(
                    "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {new:?}"
                ),
            }],
        })
    }

    fn set_system_fields(&self, value: &mut Value) -> Result<(), ClusterError> {
        let Some(live) = self.live.as_ref() else {
            let has_generation = structured_merge::has_generation(self.kind);
            let own = metadata_mut(value)?;
            for field in SYSTEM_FIELDS {
                own.remove(*field);
            }
            own.insert("uid".to_owned(), json!((self.store.options.new_uid)()));
            own.insert("creationTimestamp".to_owned(), json!(format_time(self.now)));
            if has_generation {
                own.insert("generation".to_owned(), json!(1));
            }
            return Ok(());
        };
        let changed = structured_merge::main_differs(live.value(), value);
        let old = live.value().get("metadata").and_then(Value::as_object);
        let own = metadata_mut(value)?;
        for field in SYSTEM_FIELDS {
            match old.and_then(|old| old.get(*field)) {
                Some(kept) => own.insert((*field).to_owned(), kept.clone()),
                None => own.remove(*field),
            };
        }
        if changed {
            increment_generation(own);
        }
        Ok(())
    }
}

/// A write to one half of an object cannot change the other.
fn restore_other_part(mut value: Value, live: &Value, part: ObjectPart) -> Value {
    let (mut written, status) = match part {
        ObjectPart::Main => (value, live.get("status").cloned()),
        ObjectPart::Status => (live.clone(), value.get_mut("status").map(Value::take)),
    };
    if let Some(map) = written.as_object_mut() {
        match status {
            Some(status) => map.insert("status".to_owned(), status),
            None => map.remove("status"),
        };
    }
    written
}

fn check_preconditions(
    reference: &ObjectRef,
    live: &Object,
    uid: Option<&str>,
    revision: Option<&str>,
) -> Result<(), ClusterError> {
    let failed = |message: String| ClusterError::Precondition { object: reference.clone(), message };
    let own = live.uid().unwrap_or_default();
    if let Some(uid) = uid
        && uid != own
    {
        return Err(failed(format!(
            "the UID in the precondition ({uid}) does not match the UID of the object ({own})"
        )));
    }
    let own = live.resource_version().unwrap_or_default();
    if let Some(revision) = revision
        && revision != own
    {
        return Err(failed(format!(
            "the object has been modified: resourceVersion {revision} was expected, but it is {own}; read it again"
        )));
    }
    Ok(())
}

/// The metadata of an object, which every object has.
fn metadata_mut(value: &mut Value) -> Result<&mut Map<String, Value>, ClusterError> {
    value.get_mut("metadata").and_then(Value::as_object_mut).ok_or_else(|| internal_error("an object without metadata"))
}
