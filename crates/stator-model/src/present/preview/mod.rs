//! The comment on a pull request: what it would change, what that costs, and what is wrong with it.
//!
//! Everything from a repository is hostile here. A comment has a size that it must not pass, so the plan is written in
//! the richest of several forms that fits, and never cut: deletions, holds and findings go last.

mod dialect;
mod marker;
mod sections;

pub use marker::CommentMarker;

use super::diff;
use super::plan::by_risk;
use super::{pluralize, upgrade};
use crate::plan::{Change, Plan};
use dialect::CommentDialect;
use sha2::{Digest as _, Sha256};

/// How long a comment may be, and what it may be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommentLimits {
    /// The most bytes of UTF-8. No text has more UTF-16 units than bytes, so this holds for both, whichever a host counts.
    pub bytes: usize,
    /// Whether the host takes HTML: hidden markers, folded parts, line breaks in a table.
    pub html: bool,
}

impl Default for CommentLimits {
    /// GitHub refuses 65,536; the rest is for what a host puts around it.
    fn default() -> Self {
        Self { bytes: 60_000, html: true }
    }
}

/// A comment's content.
#[derive(Clone, Debug, PartialEq)]
pub struct PreviewComment<'a> {
    /// Who keeps the comment: see [`CommentMarker::scope`].
    pub scope: &'a str,
    /// The environment that is planned.
    pub environment: &'a str,
    /// The commit that is shown.
    pub head: &'a str,
    /// What is to be said.
    pub content: PreviewContent<'a>,
    /// How many models the environment has, those included that the plan leaves out since nothing of them changes.
    pub models: Option<usize>,
    /// What a reader has to know about how it was planned, a sentence each.
    pub notes: &'a [String],
    /// Where all of it is to be read: absolute, `http` or `https`.
    pub link: Option<&'a str>,
}

/// What a comment says.
#[derive(Clone, Debug, PartialEq)]
pub enum PreviewContent<'a> {
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
    /// The pull request is closed without merging.
    Closed,
    /// Another comment says it all; this one was written twice.
    Superseded,
}

/// The comment's text, its marker first. It fits the budget, whatever the plan holds, and is whole: no fence and no
/// folded part is left open. Empty where not even the marker fits.
pub fn render_comment(preview: &PreviewComment<'_>, budget: CommentLimits) -> String {
    let face = CommentDialect { html: budget.html };
    let mut marker = CommentMarker {
        scope: preview.scope.to_owned(),
        head: preview.head.to_owned(),
        digest: "0".repeat(DIGEST_LENGTH),
    };
    let Some(available) = budget.bytes.checked_sub(marker.to_line(budget.html).len()) else { return String::new() };
    let body = match &preview.content {
        PreviewContent::Plan(plan) => render_plan(face, preview, plan, available),
        PreviewContent::Failed { .. }
        | PreviewContent::Merged
        | PreviewContent::Closed
        | PreviewContent::Superseded => render_notice(face, preview, available),
    };
    marker.digest = hex::encode(Sha256::digest(body.as_bytes())).chars().take(DIGEST_LENGTH).collect();
    marker.to_line(budget.html) + &body
}

/// A plan as a comment for any CI to post: one a repository and environment.
pub fn ci_comment(plan: &Plan) -> String {
    let scope = CommentMarker::scope(["ci", &plan.repository, &plan.environment]);
    let preview = PreviewComment {
        scope: &scope,
        environment: &plan.environment,
        head: &plan.revision,
        content: PreviewContent::Plan(plan),
        models: None,
        notes: &[],
        link: None,
    };
    render_comment(&preview, CommentLimits::default())
}

/// A plan as the text of the pull request that proposes it, of at most so many bytes.
pub fn proposal_body(plan: &Plan, bytes: usize) -> String {
    let preview = PreviewComment {
        scope: "",
        environment: &plan.environment,
        head: "",
        content: PreviewContent::Plan(plan),
        models: None,
        notes: &[],
        link: None,
    };
    render_plan(CommentDialect { html: false }, &preview, plan, bytes)
}

/// A plan in one line, for a commit's status: `2 of 14 models change: 12 → 16 h200_sxm (+4, peak 22)`. What will be held
/// back comes first.
pub fn status_description(plan: &Plan, models: usize) -> String {
    let changed = sections::changed_models(plan).len();
    if changed == 0 {
        return "no changes".to_owned();
    }
    let verb = if changed == 1 { "changes" } else { "change" };
    let held: Vec<&str> = plan.holds.iter().filter(|hold| !hold.allowed).map(|hold| hold.kind.as_str()).collect();
    let held = if held.is_empty() { String::new() } else { format!("will be held back ({}); ", held.join(", ")) };
    let used = super::plan::gpu_summary(plan);
    let used = if used.is_empty() { String::new() } else { format!(": {used}") };
    format!("{held}{changed} of {} {verb}{used}", pluralize(models.max(changed), "model", "models"))
}

/// Characters of a digest. It tells a comment from its next version, and nobody gains by a collision.
const DIGEST_LENGTH: usize = 12;

/// The part of the space that is kept free for the last lines when everything else is counted out: one in so many.
const FOOTER_RESERVE_DIVISOR: usize = 10;

/// Rows of harmless changes in the shortest form that still has all of the others.
const MAX_HARMLESS_ROWS: usize = 50;

/// How much of each change is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DetailLevel {
    /// A unified diff with so many lines of context.
    Diff(usize),
    /// The list of fields.
    Fields,
    /// Of the most dangerous changes as much as there is space for.
    Riskiest,
    /// A row in the table.
    Rows,
    /// A row for everything dangerous, and for the first [`MAX_HARMLESS_ROWS`] others.
    TopRows,
}

/// Text that knows its limit, and takes a part whole or not at all.
struct BoundedText {
    text: String,
    limit: usize,
}

impl BoundedText {
    fn new(limit: usize) -> Self {
        Self { text: String::new(), limit }
    }

    fn left(&self) -> usize {
        self.limit.saturating_sub(self.text.len())
    }

    fn push(&mut self, part: &str) -> Option<()> {
        if part.len() > self.left() {
            return None;
        }
        self.text.push_str(part);
        Some(())
    }
}

fn render_notice(face: CommentDialect, preview: &PreviewComment<'_>, limit: usize) -> String {
    const CLIPS: [usize; 3] = [4_000, 400, 40];
    let whole = |clip: usize| {
        let mut page = BoundedText::new(limit);
        page.push(&sections::header(face, preview, clip))?;
        page.push(&sections::notice(face, preview, clip))?;
        page.push(&sections::footer(face, preview, ""))?;
        Some(page.text)
    };
    CLIPS.into_iter().find_map(whole).unwrap_or_default()
}

fn render_plan(face: CommentDialect, preview: &PreviewComment<'_>, plan: &Plan, limit: usize) -> String {
    [
        DetailLevel::Diff(3),
        DetailLevel::Diff(0),
        DetailLevel::Fields,
        DetailLevel::Riskiest,
        DetailLevel::Rows,
        DetailLevel::TopRows,
    ]
    .into_iter()
    .find_map(|detail| render_at_level(face, preview, plan, detail, limit))
    .unwrap_or_else(|| render_shortest(face, preview, plan, limit))
}

fn render_at_level(
    face: CommentDialect,
    preview: &PreviewComment<'_>,
    plan: &Plan,
    detail: DetailLevel,
    limit: usize,
) -> Option<String> {
    let mut page = BoundedText::new(limit);
    page.push(&sections::header(face, preview, usize::MAX))?;
    for hold in plan.holds.iter().filter(|hold| !hold.allowed) {
        page.push(&sections::hold_callout(face, hold, usize::MAX))?;
    }
    for finding in plan.findings.iter().filter(|finding| finding.is_error()) {
        page.push(&sections::finding_callout(face, finding, usize::MAX))?;
    }
    let changes = by_risk(plan);
    let mut harmless = 0;
    let mut left_out = 0;
    for (position, change) in changes.iter().enumerate() {
        if position == 0 {
            page.push(sections::TABLE_HEADER)?;
        }
        if detail == DetailLevel::TopRows && !sections::is_dangerous(change) {
            harmless += 1;
            if harmless > MAX_HARMLESS_ROWS {
                left_out += 1;
                continue;
            }
        }
        page.push(&sections::change_row(face, change))?;
    }
    if left_out > 0 {
        page.push(&format!("\n{left_out} more, none of which replaces or deletes anything.\n"))?;
    }
    for finding in plan.findings.iter().filter(|finding| !finding.is_error()) {
        page.push(&sections::finding_callout(face, finding, usize::MAX))?;
    }
    for note in all_notes(preview, plan) {
        page.push(&sections::note_callout(face, &note, usize::MAX))?;
    }
    let mut shortened = String::new();
    match detail {
        DetailLevel::Diff(context) => {
            for change in &changes {
                page.push(&sections::folded_change(face, change, &diff::hunks(change, context)))?;
            }
        }
        DetailLevel::Fields => {
            for change in &changes {
                page.push(&sections::folded_change(face, change, &sections::field_list(change)))?;
            }
            shortened = "too long for diffs".to_owned();
        }
        DetailLevel::Riskiest => {
            let shown = push_riskiest_details(face, preview, &changes, &mut page)?;
            shortened = format!("details of {shown} of {} changes", changes.len());
        }
        DetailLevel::Rows | DetailLevel::TopRows => shortened = "shortened".to_owned(),
    }
    page.push(&sections::footer(face, preview, &shortened))?;
    Some(page.text)
}

/// What is to know beside the changes: of how it was planned, and of an upgrade of Dynamo that it names.
fn all_notes(preview: &PreviewComment<'_>, plan: &Plan) -> Vec<String> {
    let upgrade = plan.upgrade.as_deref().map(upgrade::sentences).unwrap_or_default();
    preview.notes.iter().cloned().chain(upgrade).collect()
}

/// The details of as many changes as there is space for, in order of risk, and how many these are. None may take more
/// than half of what is left, so that one long object does not hide all others.
fn push_riskiest_details(
    face: CommentDialect,
    preview: &PreviewComment<'_>,
    changes: &[&Change],
    page: &mut BoundedText,
) -> Option<usize> {
    const MIN_DETAIL_BYTES: usize = 400;
    let foot = sections::footer(face, preview, &format!("details of {0} of {0} changes", changes.len())).len();
    let mut shown = 0;
    for change in changes {
        let left = page.left().checked_sub(foot)?;
        if left < MIN_DETAIL_BYTES {
            break;
        }
        let forms =
            [|change: &Change| diff::hunks(change, 3), |change: &Change| diff::hunks(change, 0), sections::field_list];
        let fitting = forms.iter().map(|form| sections::folded_change(face, change, &form(change)));
        if let Some(part) = fitting.into_iter().find(|part| !part.is_empty() && part.len() <= left / 2) {
            page.push(&part)?;
            shown += 1;
        }
    }
    Some(shown)
}

/// What is left when nothing else fits: whole lines in order of risk while there is space, and the number of the rest.
fn render_shortest(face: CommentDialect, preview: &PreviewComment<'_>, plan: &Plan, limit: usize) -> String {
    const CLIP: usize = 120;
    let mut page = BoundedText::new(limit - limit / FOOTER_RESERVE_DIVISOR);
    let mut missing = 0_usize;
    let mut add = |part: String, page: &mut BoundedText| missing += usize::from(page.push(&part).is_none());
    add(sections::header(face, preview, CLIP), &mut page);
    for hold in plan.holds.iter().filter(|hold| !hold.allowed) {
        add(sections::hold_callout(face, hold, CLIP), &mut page);
    }
    for finding in plan.findings.iter().filter(|finding| finding.is_error()) {
        add(sections::finding_callout(face, finding, CLIP), &mut page);
    }
    for finding in plan.findings.iter().filter(|finding| !finding.is_error()) {
        add(sections::finding_callout(face, finding, CLIP), &mut page);
    }
    for note in all_notes(preview, plan) {
        add(sections::note_callout(face, &note, CLIP), &mut page);
    }
    for (position, change) in by_risk(plan).into_iter().enumerate() {
        let before = if position == 0 { "\n" } else { "" };
        add(format!("{before}{}", sections::change_item(face, change, CLIP)), &mut page);
    }
    page.limit = limit;
    let more = format!("\n{} did not fit into a comment.\n", pluralize(missing, "line more", "lines more"));
    // Where there is no space for these either, what stands is whole all the same.
    let _ = page.push(&more);
    let _ = page.push(&sections::footer(face, preview, "shortened"));
    page.text
}

#[cfg(test)]
mod tests;
