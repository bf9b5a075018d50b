//! The comment on a pull request: what it would change, what that costs, and what is wrong with it.
//!
//! Everything from a repository is hostile here. A comment has a size that it must not pass, so the plan is written in
//! the richest of several forms that fits, and never cut: deletions, holds and findings go last.

mod face;
mod marker;
mod parts;

pub use marker::Marker;

use super::count;
use super::diff;
use super::plan::by_risk;
use crate::plan::{Change, Plan};
use face::Face;
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
/// folded part is left open. Empty where not even the marker fits.
pub fn comment(preview: &Preview<'_>, budget: Budget) -> String {
    let face = Face { html: budget.html };
    let mut marker =
        Marker { scope: preview.scope.to_owned(), head: preview.head.to_owned(), digest: "0".repeat(DIGEST) };
    let Some(room) = budget.bytes.checked_sub(marker.line(budget.html).len()) else { return String::new() };
    let body = match &preview.shown {
        Shown::Plan(plan) => of_plan(face, preview, plan, room),
        Shown::Failed { .. } | Shown::Merged | Shown::Closed | Shown::Moved => of_words(face, preview, room),
    };
    marker.digest = hex::encode(Sha256::digest(body.as_bytes())).chars().take(DIGEST).collect();
    marker.line(budget.html) + &body
}

/// A plan as a comment for any CI to post: one a repository and environment.
pub fn of(plan: &Plan) -> String {
    let scope = Marker::scope(["ci", &plan.repository, &plan.environment]);
    let preview = Preview {
        scope: &scope,
        environment: &plan.environment,
        head: &plan.revision,
        shown: Shown::Plan(plan),
        models: None,
        notes: &[],
        link: None,
    };
    comment(&preview, Budget::default())
}

/// A plan in one line, for a commit's status: `2 of 14 models change: +4 h200_sxm (12 → 16, peak 22)`. What will be held
/// back comes first.
pub fn summary(plan: &Plan, models: usize) -> String {
    let changed = parts::changed(plan).len();
    if changed == 0 {
        return "no changes".to_owned();
    }
    let verb = if changed == 1 { "changes" } else { "change" };
    let held: Vec<&str> =
        plan.holds.iter().filter(|hold| !hold.allowed).map(|hold| super::plan::hold_word(hold.kind)).collect();
    let held = if held.is_empty() { String::new() } else { format!("will be held back ({}); ", held.join(", ")) };
    let used = super::plan::gpu_summary(plan);
    let used = if used.is_empty() { String::new() } else { format!(": {used}") };
    format!("{held}{changed} of {} {verb}{used}", count(models.max(changed), "model", "models"))
}

/// Characters of a digest. It tells a comment from its next version, and nobody gains by a collision.
const DIGEST: usize = 12;

/// The part of the room that is kept free for the last lines when everything else is counted out: one in so many.
const RESERVED: usize = 10;

/// Rows of harmless changes in the shortest form that still has all of the others.
const TOP: usize = 50;

/// How much of each change is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    /// A unified diff with so many lines of context.
    Diff(usize),
    /// The list of fields.
    Fields,
    /// Of the most dangerous changes as much as there is room for.
    Some,
    /// A row in the table.
    Row,
    /// A row for everything dangerous, and for the first [`TOP`] others.
    TopRows,
}

/// Text that knows its limit, and takes a part whole or not at all.
struct Page {
    text: String,
    limit: usize,
}

impl Page {
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

fn of_words(face: Face, preview: &Preview<'_>, limit: usize) -> String {
    const CLIPS: [usize; 3] = [4_000, 400, 40];
    let whole = |clip: usize| {
        let mut page = Page::new(limit);
        page.push(&parts::head(face, preview, clip))?;
        page.push(&parts::sentence(face, preview, clip))?;
        page.push(&parts::foot(face, preview, ""))?;
        Some(page.text)
    };
    CLIPS.into_iter().find_map(whole).unwrap_or_default()
}

fn of_plan(face: Face, preview: &Preview<'_>, plan: &Plan, limit: usize) -> String {
    [Detail::Diff(3), Detail::Diff(0), Detail::Fields, Detail::Some, Detail::Row, Detail::TopRows]
        .into_iter()
        .find_map(|detail| page(face, preview, plan, detail, limit))
        .unwrap_or_else(|| shortest(face, preview, plan, limit))
}

fn page(face: Face, preview: &Preview<'_>, plan: &Plan, detail: Detail, limit: usize) -> Option<String> {
    let mut page = Page::new(limit);
    page.push(&parts::head(face, preview, usize::MAX))?;
    for hold in plan.holds.iter().filter(|hold| !hold.allowed) {
        page.push(&parts::held(face, hold, usize::MAX))?;
    }
    for finding in plan.findings.iter().filter(|finding| finding.is_error()) {
        page.push(&parts::callout(face, finding, usize::MAX))?;
    }
    let changes = by_risk(plan);
    let mut harmless = 0;
    let mut left_out = 0;
    for (position, change) in changes.iter().enumerate() {
        if position == 0 {
            page.push(parts::TABLE)?;
        }
        if detail == Detail::TopRows && !parts::dangerous(change) {
            harmless += 1;
            if harmless > TOP {
                left_out += 1;
                continue;
            }
        }
        page.push(&parts::row(face, change))?;
    }
    if left_out > 0 {
        page.push(&format!("\n{left_out} more that replace or delete nothing.\n"))?;
    }
    for finding in plan.findings.iter().filter(|finding| !finding.is_error()) {
        page.push(&parts::callout(face, finding, usize::MAX))?;
    }
    for note in preview.notes {
        page.push(&parts::note(face, note, usize::MAX))?;
    }
    let mut shortened = String::new();
    match detail {
        Detail::Diff(context) => {
            for change in &changes {
                page.push(&parts::folded(face, change, &diff::hunks(change, context)))?;
            }
        }
        Detail::Fields => {
            for change in &changes {
                page.push(&parts::folded(face, change, &parts::field_list(change)))?;
            }
            shortened = "too long for diffs".to_owned();
        }
        Detail::Some => {
            let shown = some(face, preview, &changes, &mut page)?;
            shortened = format!("details of {shown} of {} changes", changes.len());
        }
        Detail::Row | Detail::TopRows => shortened = "shortened".to_owned(),
    }
    page.push(&parts::foot(face, preview, &shortened))?;
    Some(page.text)
}

/// The details of as many changes as there is room for, in order of risk, and how many these are. None may take more
/// than half of what is left, so that one long object does not hide all others.
fn some(face: Face, preview: &Preview<'_>, changes: &[&Change], page: &mut Page) -> Option<usize> {
    const LEAST: usize = 400;
    let foot = parts::foot(face, preview, &format!("details of {0} of {0} changes", changes.len())).len();
    let mut shown = 0;
    for change in changes {
        let left = page.left().checked_sub(foot)?;
        if left < LEAST {
            break;
        }
        let forms =
            [|change: &Change| diff::hunks(change, 3), |change: &Change| diff::hunks(change, 0), parts::field_list];
        let fitting = forms.iter().map(|form| parts::folded(face, change, &form(change)));
        if let Some(part) = fitting.into_iter().find(|part| !part.is_empty() && part.len() <= left / 2) {
            page.push(&part)?;
            shown += 1;
        }
    }
    Some(shown)
}

/// What is left when nothing else fits: whole lines in order of risk while there is room, and the number of the rest.
fn shortest(face: Face, preview: &Preview<'_>, plan: &Plan, limit: usize) -> String {
    const CLIP: usize = 120;
    let mut page = Page::new(limit - limit / RESERVED);
    let mut missing = 0_usize;
    let mut add = |part: String, page: &mut Page| missing += usize::from(page.push(&part).is_none());
    add(parts::head(face, preview, CLIP), &mut page);
    for hold in plan.holds.iter().filter(|hold| !hold.allowed) {
        add(parts::held(face, hold, CLIP), &mut page);
    }
    for finding in plan.findings.iter().filter(|finding| finding.is_error()) {
        add(parts::callout(face, finding, CLIP), &mut page);
    }
    for finding in plan.findings.iter().filter(|finding| !finding.is_error()) {
        add(parts::callout(face, finding, CLIP), &mut page);
    }
    for note in preview.notes {
        add(parts::note(face, note, CLIP), &mut page);
    }
    for (position, change) in by_risk(plan).into_iter().enumerate() {
        let before = if position == 0 { "\n" } else { "" };
        add(format!("{before}{}", parts::item(face, change, CLIP)), &mut page);
    }
    page.limit = limit;
    let more = format!("\n{} did not fit into a comment.\n", count(missing, "line more", "lines more"));
    // Where there is no room for these either, what stands is whole all the same.
    let _ = page.push(&more);
    let _ = page.push(&parts::foot(face, preview, "shortened"));
    page.text
}

#[cfg(test)]
mod tests;
