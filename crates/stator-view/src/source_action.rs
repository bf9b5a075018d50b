//! What a person may ask of a source beside what git says, each with a right of its own.

use crate::facts::{SourceControl, SourceFacts};
use crate::problem::{ProblemDetails, ProblemKind, RequestFault};
use crate::reader::RequiredRight;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is asked of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceAction {
    /// To look and to sync now.
    Sync,
    /// To sync nothing until it is resumed.
    Suspend,
    /// To go on.
    Resume,
    /// To let go what guards hold back.
    Approve,
}

/// What an action is about; nothing for most of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SourceActionRequest {
    /// For `approve`: the held commit, in full.
    #[schemars(length(max = 64), regex(pattern = "^[0-9a-f]*$"))]
    #[serde(default)]
    pub commit: String,
    /// For `approve`: the digest of what is held back of it.
    #[schemars(length(max = 64), regex(pattern = "^[0-9a-f]*$"))]
    #[serde(default)]
    pub plan: String,
}

/// That an action was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SourceActionResult")]
pub struct SourceActionView {
    /// The source, as lists name it.
    pub source: String,
    /// What was asked.
    pub action: SourceAction,
    /// What happens next, in a sentence.
    pub message: String,
}

impl SourceAction {
    /// Every action, in the order of pages.
    pub const ALL: [Self; 4] = [Self::Sync, Self::Approve, Self::Suspend, Self::Resume];

    /// Its word in addresses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::Approve => "approve",
        }
    }

    /// The action of a word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == word)
    }

    /// What it takes. Whoever may suspend may resume.
    pub fn right(self) -> RequiredRight {
        let verb = if self == Self::Resume { Self::Suspend } else { self }.as_str();
        RequiredRight { verb, group: "stator.dev", resource: "modelsources" }
    }

    /// What its button says.
    pub fn title(self) -> &'static str {
        match self {
            Self::Sync => "Sync now",
            Self::Suspend => "Suspend",
            Self::Resume => "Resume",
            Self::Approve => "Approve",
        }
    }

    /// What it does, for whoever confirms it.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::Sync => "stator looks for a new commit, and repairs drift, at once.",
            Self::Suspend => "stator goes on to look, and writes nothing to the cluster until the source is resumed.",
            Self::Resume => "stator syncs the newest commit again.",
            Self::Approve => "stator carries out exactly this plan of this commit. Another plan is held back again.",
        }
    }

    /// What was done, once it was.
    pub fn result(self) -> &'static str {
        match self {
            Self::Sync => "The sync was requested.",
            Self::Suspend => "Suspending it was requested.",
            Self::Resume => "Resuming it was requested.",
            Self::Approve => "The approval was sent.",
        }
    }

    /// Whether a source is in a state in which it means something, and is controlled by who can do it.
    ///
    /// # Errors
    /// Why not.
    pub fn check(self, source: &SourceFacts) -> Result<(), ProblemDetails> {
        let refused = |detail: String| Err(ProblemDetails::new(ProblemKind::NotPossible).with_detail(detail));
        match (&source.control, self) {
            (SourceControl::Command { reason }, _) => refused(format!("{}: {reason}.", source.label())),
            (SourceControl::File, Self::Suspend | Self::Resume) => {
                refused(format!("{} is of a file: set `spec.suspend` there.", source.label()))
            }
            (SourceControl::Object, Self::Suspend) if source.is_suspended => {
                refused(format!("{} is suspended already.", source.label()))
            }
            (SourceControl::Object, Self::Resume) if !source.is_suspended => {
                refused(format!("{} is not suspended.", source.label()))
            }
            (SourceControl::File | SourceControl::Object, Self::Approve) if source.held.is_none() => {
                refused(format!("{} holds nothing back.", source.label()))
            }
            (SourceControl::File | SourceControl::Object, _) => Ok(()),
        }
    }
}

impl SourceActionRequest {
    /// Reads what was sent: an object whose fields are as the schema has them, also where they are not needed.
    ///
    /// # Errors
    /// Where it is anything else.
    pub fn parse(text: &str) -> Result<Self, ProblemDetails> {
        let refused = |pointer: &str, detail: String| {
            let pointer = pointer.to_owned();
            ProblemDetails::of_parameters(vec![RequestFault { pointer, detail, ..RequestFault::default() }])
        };
        // Else serde would take a list of the values too.
        let map: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(text).map_err(|error| refused("#", error.to_string()))?;
        let request: Self = serde_json::from_value(map.into()).map_err(|error| refused("#", error.to_string()))?;
        for (name, value) in [("commit", &request.commit), ("plan", &request.plan)] {
            if value.len() > 64 || !value.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
                let detail = format!("`{name}` must have at most 64 digits of 0-9 and a-f");
                return Err(refused(&format!("#/{name}"), detail));
            }
        }
        Ok(request)
    }

    /// That what is held back is what the request names.
    ///
    /// # Errors
    /// Where it is something else by now, or nothing.
    pub fn check_held(&self, source: &SourceFacts) -> Result<(), ProblemDetails> {
        match &source.held {
            Some(held) if held.commit == self.commit && held.plan == self.plan && !held.plan.is_empty() => Ok(()),
            Some(held) => Err(ProblemDetails::new(ProblemKind::Stale).with_detail(format!(
                "{} holds back plan {} of commit {} now.",
                source.label(),
                held.plan,
                held.commit
            ))),
            None => Self::nothing_held(source),
        }
    }

    fn nothing_held(source: &SourceFacts) -> Result<(), ProblemDetails> {
        let detail = format!("{} holds nothing back.", source.label());
        Err(ProblemDetails::new(ProblemKind::Stale).with_detail(detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_as_its_schema_says() {
        for text in ["{}", r#"{"commit": "", "plan": "0a"}"#] {
            assert!(SourceActionRequest::parse(text).is_ok(), "{text}");
        }
        let long = format!(r#"{{"plan": "{}"}}"#, "0".repeat(65));
        for text in ["[]", r#"["a", "b"]"#, "null", r#"{"commit": "G"}"#, r#"{"comit": ""}"#, &long] {
            assert_eq!(SourceActionRequest::parse(text).map_err(|problem| problem.status), Err(400), "{text}");
        }
    }
}
