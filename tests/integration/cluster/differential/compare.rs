//! What a step came to, without what no two clusters share: uids, times, resource versions and the object's name.

use serde_json::{Map, Value, json};
use stator_cluster::cluster::{ApplyOutcome, ApplyResponse, ClusterError, DeleteOutcome};
use stator_core::fields::fields_v1;
use stator_core::object::Object;
use std::collections::BTreeSet;

/// The finalizer of the API server's own that keeps a claim while a pod uses it.
pub const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// What a caller was told.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Applied(ApplyOutcome, Box<Shown>),
    Merged(Box<Shown>),
    Gone,
    /// It waits for its finalizers.
    Pending,
    Absent,
    /// Manager and field of each.
    Conflict(BTreeSet<String>),
    Precondition,
    /// The fields, without which item of a list it was: an API server counts where we name.
    Invalid(BTreeSet<String>),
    Denied,
    Other(String),
}

/// An object and its owners, made comparable.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    pub object: Value,
    /// Manager, operation, subresource, version and fields, sorted.
    pub owners: Vec<String>,
}

/// What a step came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub answer: Answer,
    /// The object afterwards.
    pub live: Option<Shown>,
    /// Whether anything was written.
    pub wrote: bool,
}

impl Answer {
    pub fn invalid(paths: impl Iterator<Item = String>) -> Self {
        let mut paths: BTreeSet<String> = paths.collect();
        // Beside the faults, an API server says that further rules were not checked.
        if paths.len() > 1 {
            paths.remove("");
        }
        Self::Invalid(paths)
    }
}

impl Seen {
    /// Whether a real API server's view is the same, where it says which field is invalid at all.
    pub fn agrees(&self, real: &Self) -> bool {
        let nowhere = Answer::Invalid(BTreeSet::from([String::new()]));
        let answers = match (&self.answer, &real.answer) {
            (Answer::Invalid(_), nameless) if *nameless == nowhere => true,
            (one, other) => one == other,
        };
        answers && self.live == real.live && self.wrote == real.wrote
    }
}

impl Shown {
    pub fn of(object: &Object) -> Self {
        let mut value = object.value().clone();
        let mut owners = Vec::new();
        // Whoever puts the protection of a claim back owns that and nothing else.
        let protection = json!({"f:metadata": {"f:finalizers": {".": {}, (format!("v:{PROTECTION:?}")): {}}}});
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            for entry in metadata.remove("managedFields").as_ref().and_then(Value::as_array).into_iter().flatten() {
                let fields = fields_v1(entry).unwrap_or_default();
                if *fields == protection {
                    continue;
                }
                let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
                owners.push(format!(
                    "{} {} {} {} {}",
                    text("manager"),
                    text("operation"),
                    text("subresource"),
                    text("apiVersion"),
                    fields
                ));
            }
            for field in ["uid", "resourceVersion", "creationTimestamp", "name", "namespace"] {
                metadata.remove(field);
            }
            // An API server protects claims that pods use with a finalizer of its own.
            if let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
                finalizers.retain(|name| name != PROTECTION);
                if finalizers.is_empty() {
                    metadata.remove("finalizers");
                }
            }
            if let Some(time) = metadata.get_mut("deletionTimestamp") {
                *time = json!("a time");
            }
        }
        owners.sort();
        Self { object: plain(value), owners }
    }
}

/// Numbers by value: a server in Go writes 1.0 as 1.
fn plain(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => json!(float as i64),
            Some(_) | None => Value::Number(number),
        },
        Value::Array(items) => Value::Array(items.into_iter().map(plain).collect()),
        Value::Object(map) => {
            Value::Object(map.into_iter().map(|(name, value)| (name, plain(value))).collect::<Map<String, Value>>())
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value,
    }
}

pub fn applied(result: Result<ApplyResponse, ClusterError>, manager: &str, status: bool) -> Answer {
    match result {
        Ok(ApplyResponse { object, outcome }) => {
            let shown = Shown::of(&object);
            let own = format!("{manager} Apply {} ", if status { "status" } else { "" });
            // An apply that leaves its manager without a field cannot be told from somebody else's write.
            let told = outcome == ApplyOutcome::Created || shown.owners.iter().any(|owner| owner.starts_with(&own));
            Answer::Applied(if told { outcome } else { ApplyOutcome::Updated }, Box::new(shown))
        }
        Err(error) => refused(&error),
    }
}

pub fn deleted(result: Result<DeleteOutcome, ClusterError>) -> Answer {
    match result {
        Ok(DeleteOutcome::Gone) => Answer::Gone,
        Ok(DeleteOutcome::Pending(_)) => Answer::Pending,
        Ok(DeleteOutcome::Absent) => Answer::Absent,
        Err(error) => refused(&error),
    }
}

pub fn refused(error: &ClusterError) -> Answer {
    if let ClusterError::Conflict { conflicts, .. } = error {
        let text = |path: String| {
            path.replace("[\"", ".").replace("\"]", "").replace('"', "").trim_start_matches('.').to_owned()
        };
        Answer::Conflict(
            conflicts.iter().map(|one| format!("{} {}", one.manager, text(one.path.to_string()))).collect(),
        )
    } else if let ClusterError::Precondition { .. } = error {
        Answer::Precondition
    } else if let ClusterError::Invalid { causes, .. } = error {
        Answer::invalid(causes.iter().map(|cause| without_items(&cause.path.to_string())))
    } else if let ClusterError::Denied { .. } = error {
        Answer::Denied
    } else {
        Answer::Other(error.to_string())
    }
}

/// A path without the brackets in it.
pub fn without_items(path: &str) -> String {
    let mut depth = 0_usize;
    path.chars()
        .filter(|letter| {
            depth += usize::from(*letter == '[');
            let kept = depth == 0;
            depth = depth.saturating_sub(usize::from(*letter == ']'));
            kept
        })
        .collect()
}
