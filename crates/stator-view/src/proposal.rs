//! A pull request that was opened from here.

use schemars::JsonSchema;
use serde::Serialize;

/// A pull request that is open.
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
