//! Who owns which fields: `metadata.managedFields`, read and written.

use super::field_set::{FieldSet, FieldsV1Error};
use super::packed::fields_v1;
use crate::object::{FieldPath, Object};
use serde_json::{Value, json};
use std::cmp::Ordering;

/// How a manager came to own its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr)]
pub enum ManagerOperation {
    /// By server-side apply: it gives up what it no longer applies.
    Apply,
    /// By any other write.
    Update,
}

impl ManagerOperation {
    /// As `managedFields` writes it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// One entry of `metadata.managedFields`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldManager {
    /// The field manager's name.
    pub name: String,
    /// How it owns them.
    pub operation: ManagerOperation,
    /// `status`, when it wrote through that endpoint.
    pub subresource: Option<String>,
    /// The version that the fields are written in.
    pub api_version: String,
    /// When it last changed anything, RFC 3339. An API server leaves it out for one that only joined in a value.
    pub time: Option<String>,
    /// What it owns.
    pub fields: FieldSet,
}

/// Why `metadata.managedFields` cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metadata.managedFields{}: {reason}", .entry.map(|entry| format!("[{entry}]")).unwrap_or_default())]
pub struct ManagedFieldsError {
    /// Which entry, from 0; `None` when the list itself is wrong.
    pub entry: Option<usize>,
    /// What is wrong with it.
    pub reason: String,
}

impl FieldManager {
    /// What makes two entries the same: all but the fields and the time, and for an Apply also not the version.
    pub fn identity(&self) -> (&str, ManagerOperation, Option<&str>, &str) {
        let version = match self.operation {
            ManagerOperation::Apply => "",
            ManagerOperation::Update => &self.api_version,
        };
        (&self.name, self.operation, self.subresource.as_deref(), version)
    }

    fn from_entry(entry: &Value) -> Result<Self, String> {
        let text = |name: &str| match entry.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                Err(format!("`{name}` is not a string"))
            }
        };
        let operation = match text("operation")?.as_deref() {
            Some("Apply") => ManagerOperation::Apply,
            Some("Update") => ManagerOperation::Update,
            Some(_) | None => return Err("`operation` must be `Apply` or `Update`".to_owned()),
        };
        if text("fieldsType")?.as_deref() != Some("FieldsV1") {
            return Err("`fieldsType` must be `FieldsV1`".to_owned());
        }
        let fields = match fields_v1(entry).filter(|fields| !fields.is_null()) {
            None => FieldSet::new(),
            Some(fields) => FieldSet::from_fields_v1(&fields).map_err(|error: FieldsV1Error| error.to_string())?,
        };
        Ok(Self {
            name: text("manager")?.unwrap_or_default(),
            operation,
            subresource: text("subresource")?.filter(|name| !name.is_empty()),
            api_version: text("apiVersion")?
                .filter(|version| !version.is_empty())
                .ok_or_else(|| "`apiVersion` must not be empty".to_owned())?,
            time: text("time")?,
            fields,
        })
    }

    fn to_entry(&self) -> Value {
        let mut entry = json!({
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_fields_v1(),
            "manager": self.name,
            "operation": self.operation.name(),
        });
        if let Some(subresource) = &self.subresource {
            entry["subresource"] = json!(subresource);
        }
        if let Some(time) = &self.time {
            entry["time"] = json!(time);
        }
        entry
    }

    /// The order that an API server writes entries in: operation, time in seconds, name, version, subresource.
    fn serialization_order(&self, other: &Self) -> Ordering {
        let second = |manager: &Self| {
            let time = manager.time.as_deref().and_then(|time| time.parse::<jiff::Timestamp>().ok());
            time.map_or(0, |time| time.as_second())
        };
        self.operation
            .cmp(&other.operation)
            .then_with(|| second(self).cmp(&second(other)))
            .then_with(|| self.name.cmp(&other.name))
            .then_with(|| self.api_version.cmp(&other.api_version))
            .then_with(|| self.subresource.cmp(&other.subresource))
    }
}

/// The entries of `metadata.managedFields` for what a manager applied to the object itself, as they stand.
pub(super) fn apply_entries<'a>(object: &'a Value, manager: &str) -> impl Iterator<Item = &'a Value> {
    let is = |entry: &Value, name: &str, text: &str| entry.get(name).and_then(Value::as_str) == Some(text);
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    entries.into_iter().flatten().filter(move |entry| {
        is(entry, "manager", manager)
            && is(entry, "operation", ManagerOperation::Apply.name())
            && entry.get("subresource").is_none()
    })
}

/// The fields that a manager applied to an object, where its entry reads and is of the version that the object is read at.
pub fn applied_fields(object: &Object, manager: &str) -> Option<FieldSet> {
    let entry = apply_entries(object.value(), manager).next()?;
    let same_version = entry.get("apiVersion").and_then(Value::as_str) == Some(object.api_version());
    FieldSet::from_fields_v1(fields_v1(entry).filter(|_| same_version)?.as_ref()).ok()
}

/// Reads `metadata.managedFields`; an object without any has no managers. Entries that are the same manager's are
/// folded into one, the last one standing, as an API server reads them.
pub fn managers(object: &Object) -> Result<Vec<FieldManager>, ManagedFieldsError> {
    read_managers(object.value())
}

pub(super) fn read_managers(object: &Value) -> Result<Vec<FieldManager>, ManagedFieldsError> {
    let entries = match object.pointer("/metadata/managedFields") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(entries)) => entries,
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            return Err(ManagedFieldsError { entry: None, reason: "not a list".to_owned() });
        }
    };
    let mut found: Vec<FieldManager> = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let manager =
            FieldManager::from_entry(entry).map_err(|reason| ManagedFieldsError { entry: Some(index), reason })?;
        found.retain(|other| other.identity() != manager.identity());
        found.push(manager);
    }
    Ok(found)
}

pub(super) fn write_managers(mut managers: Vec<FieldManager>) -> Value {
    managers.sort_by(FieldManager::serialization_order);
    managers.iter().map(FieldManager::to_entry).collect()
}

/// The names of the managers that own a field: itself, parts of it, or something atomic that it is part of. Sorted.
pub fn owners_of<'a>(managers: &'a [FieldManager], path: &FieldPath) -> Vec<&'a str> {
    let owners = managers.iter().filter(|manager| manager.fields.overlaps(path));
    let mut names: Vec<&str> = owners.map(|manager| manager.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}
