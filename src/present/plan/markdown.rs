//! The plan as a comment on a pull request.
//!
//! Everything from a repository is hostile here. A comment has a size that it must not pass, so the plan is written in
//! the richest of several forms that fits, and never cut: deletions, holds and findings go last.

use super::{base, by_risk, cost, cost_of, gpu_summary, hold_word, short_revision, signed, symbol, value};
use crate::finding::{Finding, Severity};
use crate::plan::{Action, Change, Disruption, GpuTotals, Hold, Plan};
use crate::present::{count, diff, escape, findings};
use std::collections::BTreeSet;

/// The most characters of a comment. GitHub refuses 65,536; the rest is for what a forge puts around it.
pub const LIMIT: usize = 60_000;

/// Characters kept free for the last lines when everything else is counted out.
const RESERVE: usize = 6_000;

/// Rows of harmless changes in the shortest form that still has all of the others.
const TOP: usize = 50;

/// How much of each change is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    /// A unified diff with so many lines of context.
    Diff(usize),
    /// The list of fields.
    Fields,
    /// A row in the table.
    Row,
    /// A row for everything dangerous, and for the first [`TOP`] others.
    TopRows,
}

/// The plan as Markdown of at most [`LIMIT`] characters.
pub fn markdown(plan: &Plan) -> String {
    [Detail::Diff(3), Detail::Diff(0), Detail::Fields, Detail::Row, Detail::TopRows]
        .into_iter()
        .find_map(|detail| page(plan, detail))
        .unwrap_or_else(|| shortest(plan))
}

/// Text that knows its length in characters, and refuses to pass the limit.
#[derive(Default)]
struct Page {
    text: String,
    length: usize,
}

impl Page {
    fn push(&mut self, part: &str, limit: usize) -> Option<()> {
        let length = self.length + part.chars().count();
        if length > limit {
            return None;
        }
        self.text.push_str(part);
        self.length = length;
        Some(())
    }
}

fn page(plan: &Plan, detail: Detail) -> Option<String> {
    let mut page = Page::default();
    page.push(&head(plan, usize::MAX), LIMIT)?;
    for hold in plan.holds.iter().filter(|hold| !hold.allowed) {
        page.push(&held(hold, usize::MAX), LIMIT)?;
    }
    let changes = by_risk(plan);
    let mut harmless = 0;
    let mut left_out = 0;
    for (position, change) in changes.iter().enumerate() {
        if position == 0 {
            page.push(TABLE, LIMIT)?;
        }
        if detail == Detail::TopRows && !dangerous(change) {
            harmless += 1;
            if harmless > TOP {
                left_out += 1;
                continue;
            }
        }
        page.push(&row(change), LIMIT)?;
    }
    if left_out > 0 {
        page.push(&format!("\n{left_out} more that replace or delete nothing.\n"), LIMIT)?;
    }
    for finding in &plan.findings {
        page.push(&callout(finding, usize::MAX), LIMIT)?;
    }
    for change in &changes {
        match detail {
            Detail::Diff(context) => page.push(&folded(change, &diff::hunks(change, context)), LIMIT)?,
            Detail::Fields => page.push(&folded(change, &field_list(change)), LIMIT)?,
            Detail::Row | Detail::TopRows => {}
        }
    }
    page.push(&foot(plan, detail), LIMIT)?;
    Some(page.text)
}

/// What is left when nothing else fits: whole lines in order of risk while there is room, and the number of the rest.
fn shortest(plan: &Plan) -> String {
    const CLIP: usize = 120;
    let room = LIMIT - RESERVE;
    let mut page = Page::default();
    let mut missing = 0_usize;
    let mut add = |part: String, page: &mut Page| missing += usize::from(page.push(&part, room).is_none());
    add(head(plan, CLIP), &mut page);
    for hold in plan.holds.iter().filter(|hold| !hold.allowed) {
        add(held(hold, CLIP), &mut page);
    }
    for finding in plan.findings.iter().filter(|finding| finding.is_error()) {
        add(callout(finding, CLIP), &mut page);
    }
    for finding in plan.findings.iter().filter(|finding| !finding.is_error()) {
        add(callout(finding, CLIP), &mut page);
    }
    for (position, change) in by_risk(plan).into_iter().enumerate() {
        let title = if position == 0 { "\n" } else { "" };
        let name = clip(&change.object.to_string(), CLIP);
        add(format!("{title}- {} {}\n", change.action.word(), escape::code(&name)), &mut page);
    }
    let more = format!("\n{} did not fit into a comment.\n", count(missing, "line more", "lines more"));
    // Both parts are short by construction and lie within the reserve.
    let _ = page.push(&more, LIMIT);
    let _ = page.push(&foot(plan, Detail::TopRows), LIMIT);
    page.text
}

fn head(plan: &Plan, longest: usize) -> String {
    let all: BTreeSet<&str> = plan.changes.iter().map(|change| change.model.as_str()).collect();
    let changed: BTreeSet<&str> = by_risk(plan).into_iter().map(|change| change.model.as_str()).collect();
    let errors = plan.findings.iter().filter(|finding| finding.is_error()).count();
    let warnings = plan.findings.len() - errors;
    let mut title = vec!["stator".to_owned(), escape::markdown(&clip(&plan.environment, longest))];
    title.push(if changed.is_empty() {
        "no changes".to_owned()
    } else {
        let verb = if changed.len() == 1 { "changes" } else { "change" };
        format!("{} of {} {verb}", changed.len(), count(all.len(), "model", "models"))
    });
    if errors > 0 {
        title.push(count(errors, "error", "errors"));
    }
    if warnings > 0 {
        title.push(count(warnings, "warning", "warnings"));
    }
    let mut headline = Vec::new();
    if !changed.is_empty() {
        let used = gpu_summary(plan);
        headline.push(if used.is_empty() {
            "no GPUs".to_owned()
        } else {
            escape::markdown(&clip(&used, longest.min(2_000)))
        });
        headline.extend(cost(plan).map(|cost| escape::markdown(&clip(&cost, longest.min(2_000)))));
        let worst = plan.changes.iter().map(|change| change.disruption).max().unwrap_or(Disruption::None);
        headline.push(format!("disruption: {}", worst.word()));
    }
    let headline = if headline.is_empty() { String::new() } else { format!("**{}**\n", headline.join(" · ")) };
    format!("### {}\n{headline}", title.join(" · "))
}

const TABLE: &str = "\n| | Model | What changes | GPUs | Peak | Disruption |\n|--|--|--|--:|--:|--|\n";

fn row(change: &Change) -> String {
    const CLIP: usize = 200;
    let gpus = &change.gpus;
    let sku =
        change.gpu_sku.as_deref().map(|sku| format!(" {}", escape::markdown(&clip(sku, CLIP)))).unwrap_or_default();
    let difference = |totals: &GpuTotals| match totals.before == totals.after {
        true => totals.after.to_string(),
        false => signed(totals.before, totals.after),
    };
    let of_sku =
        |(sku, totals): (&String, &GpuTotals)| format!("{} {}", difference(totals), escape::markdown(&clip(sku, CLIP)));
    let mut difference = match change.gpus_by_sku.len() {
        _ if gpus.before == 0 && gpus.after == 0 => "–".to_owned(),
        0 | 1 => difference(gpus) + &sku,
        _ => change.gpus_by_sku.iter().map(of_sku).collect::<Vec<_>>().join("<br>"),
    };
    if let Some(range) = change.gpu_range {
        difference.push_str(&format!("<br>scaled {}–{}", range.min, range.max));
    }
    if let Some(cost) = cost_of(change) {
        difference.push_str(&format!("<br>{}", escape::markdown(&clip(&cost, CLIP))));
    }
    let peak = if gpus.peak == 0 { "–".to_owned() } else { gpus.peak.to_string() };
    format!(
        "| {} | {} | {} | {difference} | {peak} | {} |\n",
        escape::code(symbol(change.action)),
        escape::markdown(&clip(&change.model, CLIP)),
        what(change, CLIP),
        change.disruption.word()
    )
}

/// The change in a few words: its first fields, or the object and what happens to it.
fn what(change: &Change, longest: usize) -> String {
    const SHOWN: usize = 3;
    let object = escape::code(&clip(&format!("{} {}", change.object.kind, change.object.name), longest));
    let mut parts = vec![format!("{} {object}", change.action.word())];
    if change.action == Action::Update {
        parts.extend(change.fields.iter().take(SHOWN).map(|field| {
            let text = format!("{}: {} → {}", field.path, value(&field.old), value(&field.new));
            escape::code(&clip(&text, longest))
        }));
        if change.fields.len() > SHOWN {
            parts.push(format!("and {} more", change.fields.len() - SHOWN));
        }
    }
    parts.extend(change.reasons.iter().take(2).map(|reason| escape::markdown(&clip(reason, longest))));
    parts.join("<br>")
}

fn held(hold: &Hold, longest: usize) -> String {
    format!(
        "\n> [!CAUTION]\n> **Held back: {}.** {}\n> {}\n",
        hold_word(hold.kind),
        escape::markdown(&clip(&hold.message, longest)),
        escape::markdown(&clip(&hold.help, longest))
    )
}

fn callout(finding: &Finding, longest: usize) -> String {
    let kind = match finding.severity {
        Severity::Error => "CAUTION",
        Severity::Warning => "WARNING",
    };
    format!(
        "\n> [!{kind}]\n> **{}** {} — {}\n> Fix: {}\n",
        escape::markdown(&clip(finding.rule.id, longest)),
        escape::code(&clip(&findings::place(&finding.location), longest)),
        escape::markdown(&clip(&finding.message, longest)),
        escape::markdown(&clip(&finding.help, longest))
    )
}

fn folded(change: &Change, body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    let fields = if change.fields.is_empty() {
        String::new()
    } else {
        format!(" — {}", count(change.fields.len(), "field", "fields"))
    };
    // Inside the summary Markdown is not read, HTML is; a mention would still be one.
    let title = escape::markup(&escape::line(&change.object.to_string())).replace('@', "@&#8203;");
    format!(
        "\n<details><summary>{} {title}{fields}</summary>\n\n{}\n</details>\n",
        escape::markup(symbol(change.action)),
        escape::fence("diff", body)
    )
}

fn field_list(change: &Change) -> String {
    change
        .fields
        .iter()
        .map(|field| {
            let text = format!("{}: {} → {}", field.path, value(&field.old), value(&field.new));
            format!("! {}\n", clip(&escape::line(&text), 300))
        })
        .collect()
}

fn foot(plan: &Plan, detail: Detail) -> String {
    const CLIP: usize = 100;
    let revision = if plan.revision.is_empty() { "work tree".to_owned() } else { short_revision(&plan.revision) };
    let shortened = match detail {
        Detail::Diff(_) => "",
        Detail::Fields => " · too long for diffs",
        Detail::Row | Detail::TopRows => " · shortened",
    };
    let html = |text: &str| escape::markup(&clip(text, CLIP)).replace('@', "@&#8203;");
    format!(
        "\n<sub>{} against {} · digest {}{shortened} · <code>stator plan -e {}</code></sub>\n",
        html(&revision),
        html(&base(plan)),
        html(&plan.digest.chars().take(12).collect::<String>()),
        html(&escape::line(&plan.environment))
    )
}

/// Changes that are in every form of the table.
fn dangerous(change: &Change) -> bool {
    match change.action {
        Action::Delete | Action::Replace | Action::Blocked | Action::Adopt => true,
        Action::Create | Action::Update | Action::Keep => {
            matches!(change.disruption, Disruption::Recreate | Disruption::NativeRoll | Disruption::Delete)
        }
    }
}

/// At most so many characters of a text.
fn clip(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
