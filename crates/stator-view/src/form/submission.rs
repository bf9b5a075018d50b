//! What a browser sends.

use super::fields::{FORM_FIELDS, ServingLayout, ServingMode};
use crate::query_string;
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
}

/// A form that was sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FormSubmission {
    /// The text that the fields were filled from.
    pub base: String,
    /// The text as it stands beside the fields, which may have been changed too.
    pub yaml: String,
    /// The digest of the file that all this started from; empty for a new one.
    pub seen: String,
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
                "seen" => sent.seen = value,
                "source" => sent.source = value,
                "file" => sent.file = value.trim().to_owned(),
                "action" if value == "patch" => sent.action = FormAction::Patch,
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
