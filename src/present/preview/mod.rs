//! The comment on a pull request: what it would change, what that costs, and what is wrong with it.

mod marker;

pub use marker::Marker;

use crate::plan::Plan;
use sha2::{Digest as _, Sha256};

/// How long a comment may be, and what it may be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The most bytes of UTF-8. No text has more UTF-16 units than bytes, so this holds for both, whichever a host counts.
    pub bytes: usize,
    /// Whether the host takes HTML: hidden markers, folded parts, line breaks in a table.
    pub html: bool,
}

impl Default for Budget {
    /// GitHub refuses 65,536; the rest is for what a host puts around it.
    fn default() -> Self {
        Self { bytes: 60_000, html: true }
    }
}

/// A comment's content.
#[derive(Clone, Debug, PartialEq)]
pub struct Preview<'a> {
    /// Who keeps the comment: see [`Marker::scope`].
    pub scope: &'a str,
    /// The environment that is planned.
    pub environment: &'a str,
    /// The commit that is shown.
    pub head: &'a str,
    /// What is to be said.
    pub shown: Shown<'a>,
    /// How many models the environment has, those included that the plan leaves out since nothing of them changes.
    pub models: Option<usize>,
    /// What a reader has to know about how it was planned, a sentence each.
    pub notes: &'a [String],
    /// Where all of it is to be read: absolute, `http` or `https`.
    pub link: Option<&'a str>,
}

/// What a comment says.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown<'a> {
    /// What would change.
    Plan(&'a Plan),
    /// Nothing could be planned.
    Failed {
        /// Why, in a sentence.
        reason: &'a str,
        /// What to do about it.
        help: &'a str,
    },
    /// The pull request is merged: what comes of it is said by the statuses of the branch.
    Merged,
    /// The pull request is closed without a merge.
    Closed,
    /// Another comment says it all; this one was written twice.
    Moved,
}

/// The comment's text, its marker first. It fits the budget, whatever the plan holds, and is whole: no fence and no
/// folded part is left open.
pub fn comment(preview: &Preview<'_>, budget: Budget) -> String {
    let body = match &preview.shown {
        Shown::Plan(plan) => super::plan::markdown(plan),
        Shown::Failed { .. } | Shown::Merged | Shown::Closed | Shown::Moved => String::new(),
    };
    let digest: String = hex::encode(Sha256::digest(body.as_bytes())).chars().take(12).collect();
    let marker = Marker { scope: preview.scope.to_owned(), head: preview.head.to_owned(), digest };
    marker.line(budget.html) + &body
}
