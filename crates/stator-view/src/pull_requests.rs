//! Pull requests: what each open one would change, and the one that was opened from here.

use crate::changes::ChangeSet;
use crate::facts::{PreviewFacts, SourceFacts};
use crate::observation::FleetObservation;
use schemars::JsonSchema;
use serde::Serialize;
use serde_with::skip_serializing_none;

/// An open pull request of a source.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Preview")]
pub struct PreviewView {
    /// The source, as lists name it.
    pub source: String,
    /// Its number at the git host.
    pub number: u64,
    /// Its title.
    pub title: String,
    /// Its page; absent where it has none.
    pub url: Option<String>,
    /// The commit that was planned, in full.
    pub head: String,
    /// What was found, in a sentence.
    pub summary: String,
    /// What it would change.
    #[serde(flatten)]
    pub changes: ChangeSet,
}

/// A pull request that was opened from here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Proposal")]
pub struct ProposalView {
    /// Its number at the git host.
    pub number: u64,
    /// Its page.
    pub url: String,
    /// Its title.
    pub title: String,
    /// The branch with the change.
    pub branch: String,
    /// The branch that it goes into.
    pub base: String,
    /// The git host.
    pub host: String,
    /// The path of the changed file from the repository's root.
    pub file: String,
    /// False where the same change was proposed before.
    pub is_new: bool,
}

/// Every open pull request that was planned, sorted by source and number, the newest first.
pub fn previews(observation: &FleetObservation) -> Vec<PreviewView> {
    let of_source = |source: &SourceFacts| -> Vec<PreviewView> {
        let all = source.previews.iter().rev();
        let is_seen = observation.reader.details.objects;
        all.map(|(number, preview)| preview_view(source, *number, preview, is_seen)).collect()
    };
    observation.listed_sources().flat_map(of_source).collect()
}

/// Of a pull request; whoever may not see objects sees no fields of them.
fn preview_view(source: &SourceFacts, number: u64, preview: &PreviewFacts, is_seen: bool) -> PreviewView {
    let is_web = |url: &&String| url.starts_with("https://") || url.starts_with("http://");
    PreviewView {
        source: source.label(),
        number,
        title: preview.title.clone(),
        url: Some(&preview.url).filter(is_web).cloned(),
        head: preview.head.clone(),
        summary: preview.summary.clone(),
        changes: if is_seen { ChangeSet::new(&preview.changes) } else { ChangeSet::without_fields(&preview.changes) },
    }
}
