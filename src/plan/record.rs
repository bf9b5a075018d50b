//! The record of one synced model: what stator applied, written before the first write.
//!
//! It lives in the cluster as a `Model` object (`stator.dev/v1alpha1`), so that any stator finds it again.

mod crd;
mod object;
#[cfg(test)]
mod tests;

pub use crd::custom_resource_definition;
pub use object::RecordFault;

use crate::object::ObjectRef;
use serde::{Deserialize, Serialize};

/// One model's record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The model's name.
    pub model: String,
    /// Namespace of the record and of its objects.
    pub namespace: String,
    /// The repository that it came from.
    pub repository: String,
    /// The environment that it was rendered for.
    pub environment: String,
    /// Path of its `model.yaml`.
    pub source: String,
    /// The folder that it was last synced from, where its repository has no name of its own; see
    /// [`super::PlanInput::folder`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The commit of the last sync that changed anything; empty outside git.
    pub revision: String,
    /// What was applied, or is about to be.
    pub inventory: Vec<InventoryEntry>,
    /// The last ten outcomes, newest first.
    pub history: Vec<Outcome>,
}

/// One object that stator applied, or is about to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InventoryEntry {
    /// The object.
    #[serde(flatten)]
    pub object: ObjectRef,
    /// Its uid; `None` until the first apply came back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The generation that the last apply gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// SHA-256 of what was applied, in hex.
    pub digest: String,
    /// False for objects that are kept when the model goes.
    pub prune: bool,
}

/// How one sync of the model ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// When, RFC 3339 in UTC.
    pub time: String,
    /// The commit; empty outside git.
    pub revision: String,
    /// `Succeeded`, `Failed`, `Progressing` or `Superseded`.
    pub result: String,
    /// One sentence.
    pub message: String,
    /// What was done: `create DynamoGraphDeployment prod/llama (none)`.
    pub changes: Vec<String>,
}
