//! What was last seen of each object, so that an apply can be distinguished from a no-op without asking twice.
//!
//! An API server answers a server-side apply with the object, and says with 201 that it is new; between changed and
//! unchanged it makes no difference. What was seen before does: an object that comes back at the resource version at
//! which it was last seen was not written. Where somebody else wrote in between, the time in the manager's own entry of
//! `managedFields` decides: the server sets it whenever an apply changes anything, and puts it back when it did not.
//! They tell whether an apply wrote anything, which an API server does not say.

use crate::cluster::ApplyOutcome;
use serde_json::Value;
use stator_core::object::{Object, ObjectIdentity};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// More objects than any environment has; past that everything is forgotten, and asked for again.
const MAX_OBJECTS: usize = 1_000_000;

/// What is known of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KnownVersion {
    /// There was none.
    Absent,
    /// It was there.
    Present {
        /// At this resource version.
        resource_version: Box<str>,
        /// When each manager last applied something, by name and subresource.
        applied: Box<[ManagerApplyTime]>,
    },
}

/// When a manager last applied something to one half of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ManagerApplyTime {
    manager: Box<str>,
    subresource: Box<str>,
    time: Box<str>,
}

impl KnownVersion {
    pub(super) fn of(object: &Value) -> Self {
        let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
        let applied = entries
            .filter(|entry| entry.get("operation").and_then(Value::as_str) == Some("Apply"))
            .map(|entry| {
                let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().into();
                ManagerApplyTime { manager: text("manager"), subresource: text("subresource"), time: text("time") }
            })
            .collect();
        let resource_version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        Self::Present { resource_version: resource_version.into(), applied }
    }

    /// When a manager last applied something to that half of the object.
    pub(super) fn applied_at(&self, manager: &str, subresource: &str) -> Option<&str> {
        match self {
            Self::Absent => None,
            Self::Present { applied, .. } => applied
                .iter()
                .find(|entry| *entry.manager == *manager && *entry.subresource == *subresource)
                .map(|entry| entry.time.as_ref()),
        }
    }
}

/// What was seen, of everything that was looked at.
#[derive(Debug, Default)]
pub(super) struct ResourceVersionCache(Mutex<ResourceVersionState>);

#[derive(Debug, Default)]
struct ResourceVersionState {
    objects: HashMap<ObjectIdentity, KnownVersion>,
    /// Group, kind and namespace of lists that left nothing out: what they did not show was not there.
    complete_lists: HashSet<(String, String, String)>,
}

impl ResourceVersionCache {
    fn state(&self) -> std::sync::MutexGuard<'_, ResourceVersionState> {
        // Every change of the state is a single step, so a panic elsewhere leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, object: &ObjectIdentity) -> Option<KnownVersion> {
        let state = self.state();
        state.objects.get(object).cloned().or_else(|| {
            let list = (object.group.clone(), object.kind.clone(), object.namespace.clone());
            state.complete_lists.contains(&list).then_some(KnownVersion::Absent)
        })
    }

    pub(super) fn insert_object(&self, object: &Object) {
        self.insert(object.reference().identity(), KnownVersion::of(object.value()));
    }

    pub(super) fn insert_absent(&self, object: ObjectIdentity) {
        self.insert(object, KnownVersion::Absent);
    }

    /// Whether the object is there is not known any more.
    pub(super) fn forget(&self, object: &ObjectIdentity) {
        self.state().objects.remove(object);
    }

    pub(super) fn insert(&self, object: ObjectIdentity, known: KnownVersion) {
        let mut state = self.state();
        if state.objects.len() >= MAX_OBJECTS {
            *state = ResourceVersionState::default();
        }
        state.objects.insert(object, known);
    }

    /// Everything of a kind in a namespace was shown.
    pub(super) fn mark_list_complete(&self, group: &str, kind: &str, namespace: &str) {
        self.state().complete_lists.insert((group.to_owned(), kind.to_owned(), namespace.to_owned()));
    }
}

/// What an apply did to an object that was there: see [`super::seen`].
pub(super) fn infer_outcome(
    before: &KnownVersion,
    after: &KnownVersion,
    (manager, subresource): (&str, &str),
    date: Option<jiff::Timestamp>,
    took: Duration,
) -> ApplyOutcome {
    let (KnownVersion::Present { resource_version: old, .. }, KnownVersion::Present { resource_version: new, .. }) =
        (before, after)
    else {
        return ApplyOutcome::Updated;
    };
    if old == new {
        return ApplyOutcome::Unchanged;
    }
    let (was, is) = (before.applied_at(manager, subresource), after.applied_at(manager, subresource));
    if was != is {
        return ApplyOutcome::Updated;
    }
    let Some(is) = is else { return ApplyOutcome::Unchanged };
    // The same time as before: nothing of ours was written, unless both applies fall into one second. A time from
    // before this request began, by the server's own clock, settles it.
    let began = date.and_then(|date| date.checked_sub(took + Duration::from_secs(2)).ok());
    match (is.parse::<jiff::Timestamp>(), began) {
        (Ok(is), Some(began)) if is < began => ApplyOutcome::Unchanged,
        (Ok(_) | Err(_), Some(_) | None) => ApplyOutcome::Updated,
    }
}

/// Whether two answers hold the same object, the times of managers aside.
pub(super) fn equal_ignoring_times(a: &Value, b: &Value) -> bool {
    let plain = |value: &Value| {
        let mut value = value.clone();
        let entries = value.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten() {
            if let Some(entry) = entry.as_object_mut() {
                entry.remove("time");
            }
        }
        value
    };
    plain(a) == plain(b)
}
