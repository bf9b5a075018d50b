//! Which file of which source a draft is for.

use crate::facts::SourceFacts;
use crate::models::query::{fault, one_of};
use crate::observation::FleetObservation;
use crate::problem::{ProblemDetails, ProblemKind, RequestFault};
use crate::query_string;
use stator_core::finding::did_you_mean;
use stator_model::intent::FileRole;
use stator_model::intent::yaml::parse_yaml;
use std::collections::BTreeMap;

/// The longest draft: the longest file that is read from a repository.
pub const MAX_DRAFT_BYTES: usize = 1 << 20;

/// The longest path of a file, in characters.
pub(crate) const MAX_FILE_LENGTH: usize = 1000;
/// How a draft is planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DraftCheck {
    /// Against what was last seen of the cluster.
    #[default]
    Client,
    /// The same, and the API server is asked whether it would take each object.
    Server,
}

impl DraftCheck {
    pub(crate) const ALL: [Self; 2] = [Self::Client, Self::Server];

    /// The word for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// What a draft is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftTarget {
    /// The source, as lists name it; may be left out where there is one.
    pub source: Option<String>,
    /// The path of the `model.yaml` from the repository's root; where it is left out, that of the model of this name, or the
    /// usual place of a new one.
    pub file: Option<String>,
    /// The title of a pull request.
    pub title: Option<String>,
    /// Why, for whoever reviews it.
    pub description: Option<String>,
    /// How it is planned.
    pub check: DraftCheck,
}

impl DraftTarget {
    /// Reads a query string without its `?`, which may have these parameters.
    ///
    /// # Errors
    /// Every parameter that is unknown or has a value that is not allowed.
    pub fn parse(query: &str, known: &[&str]) -> Result<Self, ProblemDetails> {
        let (mut target, mut errors) = (Self::default(), Vec::new());
        for (name, value) in query_string::parse(query).take(16) {
            match name.as_str() {
                "source" => target.source = Some(value),
                "file" => target.file = Some(value),
                "title" if known.contains(&"title") => target.title = Some(value),
                "description" if known.contains(&"description") => target.description = Some(value),
                "dryRun" if known.contains(&"dryRun") => {
                    match one_of("dryRun", &value, &DraftCheck::ALL, DraftCheck::as_str) {
                        Ok(check) => target.check = check,
                        Err(error) => errors.push(*error),
                    }
                }
                other => {
                    let help = did_you_mean(other, known.iter().copied());
                    errors.push(fault(other, format!("there is no parameter `{other}`"), known, help));
                }
            }
        }
        if errors.is_empty() { Ok(target) } else { Err(ProblemDetails::of_parameters(errors)) }
    }
}

impl DraftTarget {
    /// The source that is meant.
    ///
    /// # Errors
    /// Where there is none of that name, or several and none is named.
    pub fn find_source<'a>(&self, observation: &'a FleetObservation) -> Result<&'a SourceFacts, ProblemDetails> {
        let sources: Vec<&SourceFacts> = observation.listed_sources().collect();
        let labels: Vec<String> = sources.iter().map(|source| source.label()).collect();
        let words: Vec<&str> = labels.iter().map(String::as_str).collect();
        let refused = |detail: String, help: Option<String>| {
            ProblemDetails::of_parameters(vec![fault("source", detail, &words, help)])
        };
        match (&self.source, sources.as_slice()) {
            (Some(label), _) => {
                let found = sources.iter().find(|source| source.label() == *label);
                let help = did_you_mean(label, words.iter().copied());
                found.copied().ok_or_else(|| refused(format!("there is no source `{label}`"), help))
            }
            (None, [one]) => Ok(one),
            (None, []) => Err(ProblemDetails::new(ProblemKind::NotFound).with_detail("There is no source.")),
            (None, _) => {
                Err(refused("there are several sources".to_owned(), Some("name the source of the model".to_owned())))
            }
        }
    }

    /// The file that is meant, of a source and of a draft's text.
    ///
    /// # Errors
    /// Where it is no path of a model.
    pub fn find_file(&self, source: &SourceFacts, text: &str) -> Result<String, ProblemDetails> {
        if let Some(file) = &self.file {
            return match check_file(file) {
                None => Ok(file.clone()),
                Some(error) => Err(ProblemDetails::of_parameters(vec![error])),
            };
        }
        let root = parse_yaml(text.as_bytes(), 0, "").root;
        let name = root.as_ref().and_then(|root| root.get("metadata")?.get("name")?.as_str()).unwrap_or_default();
        let known = source.models.iter().find(|model| model.status.name == name && !model.status.source.is_empty());
        Ok(known.map_or_else(|| usual_file(source, name), |model| model.status.source.clone()))
    }
}

/// Where a new model of that name would be, as the others of its source are: in a folder of its own beside most of them.
pub(crate) fn usual_file(source: &SourceFacts, name: &str) -> String {
    let mut folders = BTreeMap::<&str, usize>::new();
    for model in source.models.iter() {
        let folder = model.status.source.strip_suffix("/model.yaml").map(|folder| folder.rsplit_once('/'));
        if let Some(folder) = folder {
            *folders.entry(folder.map_or("", |(above, _)| above)).or_default() += 1;
        }
    }
    let most = folders.into_iter().max_by_key(|(folder, count)| (*count, std::cmp::Reverse(*folder)));
    let above = most.map_or("models", |(folder, _)| folder);
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let name = if !name.is_empty() && name.chars().all(is_name) { name } else { "new-model" };
    if above.is_empty() { format!("{name}/model.yaml") } else { format!("{above}/{name}/model.yaml") }
}

/// Why a path is none that a `model.yaml` of a repository can have.
fn check_file(file: &str) -> Option<RequestFault> {
    let refused = |what: &str| {
        Some(fault("file", format!("`file` {what}"), &[], Some("use `models/NAME/model.yaml`".to_owned())))
    };
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.chars().any(is_odd);
    if !file.split('/').all(is_part) || file.chars().count() > MAX_FILE_LENGTH {
        return refused("is not a path from the repository's root");
    }
    match FileRole::of_name(file.rsplit('/').next().unwrap_or_default()) {
        FileRole::Intent => None,
        FileRole::Settings | FileRole::Overlay(_) | FileRole::Lock(_) | FileRole::Misnamed { .. } | FileRole::Other => {
            refused("does not end in `model.yaml`")
        }
    }
}

fn is_odd(c: char) -> bool {
    c.is_control() || c == '\\'
}
