//! What a browser sends.

use super::fields::{FORM_FIELDS, ServingLayout, ServingMode};
use crate::models::query::fault;
use crate::problem::ProblemDetails;
use crate::query_string;
use stator_core::finding::did_you_mean;
use std::collections::BTreeMap;

/// Pairs that are read; a form has fewer.
const MAX_PAIRS: usize = 512;

/// What somebody wants of the form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FormAction {
    /// To see what it would become.
    #[default]
    Preview,
    /// The change as a file, for `git apply`.
    Patch,
    /// A pull request with the change.
    Propose,
}

/// A form that was sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FormSubmission {
    /// The text that the fields were filled from.
    pub base: String,
    /// The text as it stands beside the fields, which may have been changed too.
    pub yaml: String,
    /// The file that all this started from; empty for a new one.
    pub origin: String,
    /// The digest of that file; empty for a new one.
    pub seen: String,
    /// What was taken out when another kind of serving was chosen, as JSON by pointer, to be put back.
    pub kept: String,
    /// The title of the pull request; empty for the usual one.
    pub title: String,
    /// Why, for whoever reviews the pull request.
    pub description: String,
    /// The source, as lists name it.
    pub source: String,
    /// The path of a new file; empty for the usual one.
    pub file: String,
    /// What is wanted.
    pub action: FormAction,
    /// Who is to decide how it runs, where that was sent.
    pub mode: Option<ServingMode>,
    /// How workers are to serve, where that was sent.
    pub layout: Option<ServingLayout>,
    /// What each field holds, by pointer.
    pub values: BTreeMap<String, String>,
}

impl FormSubmission {
    /// Reads a body of `application/x-www-form-urlencoded`. What no form has is passed over.
    pub fn parse(body: &str) -> Self {
        let mut sent = Self::default();
        for (name, value) in query_string::parse_form(body).take(MAX_PAIRS) {
            // Browsers write each end of a line in two characters.
            let value = value.replace("\r\n", "\n");
            match name.as_str() {
                "base" => sent.base = value,
                "yaml" => sent.yaml = value,
                "origin" => sent.origin = value,
                "seen" => sent.seen = value,
                "kept" => sent.kept = value,
                "title" => sent.title = value.lines().collect::<Vec<_>>().join(" ").trim().to_owned(),
                "description" => sent.description = value.trim().to_owned(),
                "source" => sent.source = value,
                "file" => sent.file = value.trim().to_owned(),
                "action" if value == "patch" => sent.action = FormAction::Patch,
                "action" if value == "propose" => sent.action = FormAction::Propose,
                "mode" => {
                    sent.mode = match value.as_str() {
                        "target" => Some(ServingMode::Target),
                        "direct" => Some(ServingMode::Direct),
                        _ => None,
                    }
                }
                "layout" => {
                    sent.layout = match value.as_str() {
                        "aggregated" => Some(ServingLayout::Aggregated),
                        "disaggregated" => Some(ServingLayout::Disaggregated),
                        _ => None,
                    }
                }
                pointer if FORM_FIELDS.iter().any(|field| field.pointer == pointer) => {
                    sent.values.insert(name, value);
                }
                _ => {}
            }
        }
        sent
    }
}

/// What the form of a model starts with, other than the file as it is in git.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormStart {
    /// The file as this commit has it.
    pub revision: Option<String>,
    /// A field of the form, by pointer, and what it is to hold.
    pub field: Option<(String, String)>,
}

impl FormStart {
    /// Reads a query string without its `?`.
    ///
    /// # Errors
    /// Every parameter that is unknown or has a value that is not allowed.
    pub fn parse(query: &str) -> Result<Self, ProblemDetails> {
        const KNOWN: [&str; 3] = ["field", "revision", "value"];
        let (mut start, mut errors) = (Self::default(), Vec::new());
        let (mut field, mut value) = (None, None);
        for (name, text) in query_string::parse(query).take(16) {
            match name.as_str() {
                "revision" if is_commit(&text) => start.revision = Some(text),
                "revision" => {
                    errors.push(fault("revision", format!("`revision` is `{text}`; use a whole commit"), &[], None))
                }
                "field" if FORM_FIELDS.iter().any(|one| one.pointer == text) => field = Some(text),
                "field" => errors.push(fault("field", format!("the form has no field `{text}`"), &[], None)),
                "value" => value = Some(text),
                other => {
                    let help = did_you_mean(other, KNOWN);
                    errors.push(fault(other, format!("there is no parameter `{other}`"), &KNOWN, help));
                }
            }
        }
        if errors.is_empty() && field.is_some() != value.is_some() {
            errors.push(fault("field", "`field` and `value` go together".to_owned(), &[], None));
        }
        start.field = field.zip(value);
        if errors.is_empty() { Ok(start) } else { Err(ProblemDetails::of_parameters(errors)) }
    }
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
