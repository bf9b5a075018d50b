//! What the program made of a draft.

use schemars::JsonSchema;
use serde::Serialize;
use stator_core::finding::Finding;
use stator_core::object::Object;
use stator_model::intent::FieldOrigins;
use stator_model::intent::model::Model;
use stator_model::plan::Plan;

/// A model that somebody is writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelDraft {
    /// The path of its file from the repository's root.
    pub file: String,
    /// The text of the file, as it is to be.
    pub text: String,
}

/// A draft, and what the program made of it.
#[derive(Clone, Debug)]
pub struct JudgedDraft {
    /// The source, as lists name it.
    pub source: String,
    /// The environment that it was judged for.
    pub environment: String,
    /// The namespace of its objects.
    pub namespace: String,
    /// What was judged.
    pub draft: ModelDraft,
    /// The text of the file, as the source has it; `None` for a file that is new.
    pub stored: Option<String>,
    /// The model's name, where it could be read.
    pub model: Option<String>,
    /// What is said of it.
    pub findings: Vec<Finding>,
    /// Whether the environment has no models at its path.
    pub is_left_out: bool,
    /// What it renders to; nothing where there are errors.
    pub objects: Vec<Object>,
    /// What would change; `None` where there are errors.
    pub plan: Option<Plan>,
    /// With defaults and overlay merged; `None` where there are errors.
    pub merged: Option<MergedModel>,
    /// The model of the file as the source has it, merged alike.
    pub stored_model: Option<Model>,
    /// The objects that the API server would refuse, with its reasons; `None` where it was not asked.
    pub refused: Option<Vec<RefusedObject>>,
}

/// An object that the API server would refuse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusedObject {
    /// Which: `DynamoGraphDeployment prod/llama`.
    pub object: String,
    /// Why.
    pub message: String,
}

/// A model with what defaults and overlay add.
#[derive(Clone, Debug)]
pub struct MergedModel {
    /// The model.
    pub model: Model,
    /// Where each field was written.
    pub origins: FieldOrigins,
}

impl JudgedDraft {
    /// What a pull request with it is called where nobody says.
    pub fn usual_title(&self) -> String {
        let name = self.model.as_deref().unwrap_or("a model");
        let verb = if self.stored.is_some() { "Change" } else { "Add" };
        format!("{verb} {}", stator_model::present::escape::line(name))
    }

    /// The change as a patch for `git apply`; empty where nothing changes.
    pub fn patch(&self) -> String {
        stator_model::present::patch::file_patch(&self.draft.file, self.stored.as_deref(), &self.draft.text)
    }
}
