//! The parts of a comment, each whole in itself.

use super::dialect::{CalloutKind, CommentDialect, FooterPart, clip_masked};
use super::{PreviewComment, PreviewContent};
use crate::plan::{Action, Change, Disruption, GpuTotals, Hold, Plan};
use crate::present::plan::{
    action_symbol, approval_summary, base_label, by_risk, change_cost, format_value, gpu_summary, plan_cost,
    short_revision, signed_delta,
};
use crate::present::{findings, pluralize};
use stator_core::finding::{Finding, Severity};
use std::collections::BTreeSet;

/// The first line of the table.
pub(super) const TABLE_HEADER: &str =
    "\n| | Model | What changes | GPUs | Peak | Disruption |\n|--|--|--|--:|--:|--|\n";

/// The headline: what it is about, how many models change, GPUs and cost.
pub(super) fn header(face: CommentDialect, preview: &PreviewComment<'_>, longest: usize) -> String {
    let mut title = vec!["stator".to_owned(), face.text(&clip_masked(preview.environment, longest))];
    let mut headline = Vec::new();
    match &preview.content {
        PreviewContent::Plan(plan) => {
            title.extend(title_counts(plan, preview.models));
            headline = headline_numbers(face, plan, longest);
        }
        PreviewContent::Failed { .. } => title.push("could not be planned".to_owned()),
        PreviewContent::Merged => title.push("merged".to_owned()),
        PreviewContent::Closed => title.push("closed without merging".to_owned()),
        PreviewContent::Superseded => title.push("moved".to_owned()),
    }
    let headline = if headline.is_empty() { String::new() } else { format!("**{}**\n", headline.join(" · ")) };
    format!("### {}\n{headline}", title.join(" · "))
}

/// The models of which something changes.
pub(super) fn changed_models(plan: &Plan) -> BTreeSet<&str> {
    by_risk(plan).into_iter().map(|change| change.model.as_str()).collect()
}

fn title_counts(plan: &Plan, models: Option<usize>) -> Vec<String> {
    let all: BTreeSet<&str> = plan.changes.iter().map(|change| change.model.as_str()).collect();
    let changed = changed_models(plan);
    let errors = plan.findings.iter().filter(|finding| finding.is_error());
    // A model is a folder: all that is wrong with its files is one model with errors.
    let folder = |file: &str| {
        let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
        name.starts_with("model.").then(|| folder.to_owned())
    };
    let broken: BTreeSet<String> = errors.clone().filter_map(|finding| folder(&finding.location.file)).collect();
    let elsewhere = errors.filter(|finding| folder(&finding.location.file).is_none()).count();
    let warnings = plan.findings.iter().filter(|finding| !finding.is_error()).count();
    let mut parts = vec![if changed.is_empty() {
        "no changes".to_owned()
    } else {
        let verb = if changed.len() == 1 { "changes" } else { "change" };
        format!("{} of {} {verb}", changed.len(), pluralize(models.unwrap_or(0).max(all.len()), "model", "models"))
    }];
    if !broken.is_empty() {
        parts.push(pluralize(broken.len(), "model with errors", "models with errors"));
    }
    if elsewhere > 0 {
        parts.push(pluralize(elsewhere, "error", "errors"));
    }
    if warnings > 0 {
        parts.push(pluralize(warnings, "warning", "warnings"));
    }
    parts
}

fn headline_numbers(face: CommentDialect, plan: &Plan, longest: usize) -> Vec<String> {
    const CLIP: usize = 2_000;
    if by_risk(plan).is_empty() {
        return Vec::new();
    }
    let used = gpu_summary(plan);
    let mut parts =
        vec![if used.is_empty() { "no GPUs".to_owned() } else { face.text(&clip_masked(&used, longest.min(CLIP))) }];
    let approved = approval_summary(plan).map(|totals| format!("if approved: {totals}"));
    let totals = plan_cost(plan).into_iter().chain(approved);
    parts.extend(totals.map(|total| face.text(&clip_masked(&total, longest.min(CLIP)))));
    let worst = plan.changes.iter().map(|change| change.disruption).max().unwrap_or(Disruption::None);
    parts.push(format!("disruption: {}", worst.as_str()));
    parts
}

/// What is said where there is no plan.
pub(super) fn notice(face: CommentDialect, preview: &PreviewComment<'_>, longest: usize) -> String {
    match &preview.content {
        PreviewContent::Plan(_) => String::new(),
        PreviewContent::Failed { reason, help } => face.callout(
            CalloutKind::Caution,
            &[face.text(&clip_masked(reason, longest)), format!("Next: {}", face.text(&clip_masked(help, longest)))],
        ),
        PreviewContent::Merged => {
            "\nThis preview has ended. The commit statuses of the base branch show the result.\n".to_owned()
        }
        PreviewContent::Closed => "\nThis preview has ended; nothing was synced.\n".to_owned(),
        PreviewContent::Superseded => {
            "\nThis is a duplicate. An older comment on this page is kept up to date.\n".to_owned()
        }
    }
}

/// One line of the table.
pub(super) fn change_row(face: CommentDialect, change: &Change) -> String {
    const CLIP: usize = 200;
    let gpus = &change.gpus;
    let sku =
        change.gpu_sku.as_deref().map(|sku| format!(" {}", face.text(&clip_masked(sku, CLIP)))).unwrap_or_default();
    let difference = |totals: &GpuTotals| match totals.before == totals.after {
        true => totals.after.to_string(),
        false => signed_delta(totals.before, totals.after),
    };
    let of_sku =
        |(sku, totals): (&String, &GpuTotals)| format!("{} {}", difference(totals), face.text(&clip_masked(sku, CLIP)));
    let mut parts = match change.gpus_by_sku.len() {
        _ if gpus.before == 0 && gpus.after == 0 => vec!["–".to_owned()],
        0 | 1 => vec![difference(gpus) + &sku],
        _ => change.gpus_by_sku.iter().map(of_sku).collect::<Vec<_>>(),
    };
    parts.extend(change.gpu_range.map(|range| format!("scaled {}–{}", range.min, range.max)));
    parts.extend(change_cost(change).map(|cost| face.text(&clip_masked(&cost, CLIP))));
    let peak = if gpus.peak == 0 { "–".to_owned() } else { gpus.peak.to_string() };
    format!(
        "| {} | {} | {} | {} | {peak} | {} |\n",
        face.code(action_symbol(change.action)),
        face.text(&clip_masked(&change.model, CLIP)),
        change_cell(face, change, CLIP),
        parts.join(face.line_break()),
        change.disruption.as_str()
    )
}

/// The change in a few words: its first fields, or the object and what happens to it.
fn change_cell(face: CommentDialect, change: &Change, longest: usize) -> String {
    const SHOWN: usize = 3;
    let object = face.code(&clip_masked(&format!("{} {}", change.object.kind, change.object.name), longest));
    let mut parts = vec![format!("{} {object}", change.action.as_str())];
    if change.action == Action::Update {
        parts.extend(change.fields.iter().take(SHOWN).map(|field| {
            let text = format!("{}: {} → {}", field.path, format_value(&field.old), format_value(&field.new));
            face.code(&clip_masked(&text, longest))
        }));
        if change.fields.len() > SHOWN {
            parts.push(format!("and {} more", change.fields.len() - SHOWN));
        }
    }
    parts.extend(change.reasons.iter().take(2).map(|reason| face.text(&clip_masked(&reason.to_string(), longest))));
    parts.join(face.line_break())
}

/// A line of a list, where there is no space for a table.
pub(super) fn change_item(face: CommentDialect, change: &Change, longest: usize) -> String {
    format!("- {} {}\n", change.action.as_str(), face.code(&clip_masked(&change.object.to_string(), longest)))
}

/// What will hold the sync back.
pub(super) fn hold_callout(face: CommentDialect, hold: &Hold, longest: usize) -> String {
    face.callout(
        CalloutKind::Caution,
        &[
            format!("**Held back: {}.** {}", hold.kind.as_str(), face.text(&clip_masked(&hold.message, longest))),
            face.text(&clip_masked(&hold.help, longest)),
        ],
    )
}

/// A fault or a warning, with its place and its fix.
pub(super) fn finding_callout(face: CommentDialect, finding: &Finding, longest: usize) -> String {
    let (kind, word) = match finding.severity {
        Severity::Error => (CalloutKind::Caution, "error"),
        Severity::Warning => (CalloutKind::Warning, "warning"),
    };
    let word = if face.html { String::new() } else { format!("{word}: ") };
    face.callout(
        kind,
        &[
            format!(
                "**{word}{}** {} — {}",
                finding.rule.id,
                face.code(&clip_masked(&findings::place(&finding.location), longest)),
                face.text(&clip_masked(&finding.message, longest))
            ),
            format!("Fix: {}", face.text(&clip_masked(&finding.help, longest))),
        ],
    )
}

/// What a reader has to know about how it was planned.
pub(super) fn note_callout(face: CommentDialect, note: &str, longest: usize) -> String {
    face.callout(CalloutKind::Note, &[face.text(&clip_masked(note, longest))])
}

/// The change in full, folded away.
pub(super) fn folded_change(face: CommentDialect, change: &Change, body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    let fields = if change.fields.is_empty() {
        String::new()
    } else {
        format!(" — {}", pluralize(change.fields.len(), "field", "fields"))
    };
    let title = format!("{} {}{fields}", action_symbol(change.action), change.object);
    face.folded(&title, &crate::present::escape::fence("diff", body))
}

/// The fields that change, one a line.
pub(super) fn field_list(change: &Change) -> String {
    change
        .fields
        .iter()
        .map(|field| {
            let text = format!("{}: {} → {}", field.path, format_value(&field.old), format_value(&field.new));
            format!("! {}\n", clip_masked(&crate::present::escape::line(&text), 300))
        })
        .collect()
}

/// Which commits were compared, what was left out, and the command that shows it all.
pub(super) fn footer(face: CommentDialect, preview: &PreviewComment<'_>, shortened: &str) -> String {
    const CLIP: usize = 100;
    let short = |text: &str| clip_masked(&short_revision(text), CLIP);
    let mut parts = Vec::new();
    let compared = match &preview.content {
        PreviewContent::Plan(plan) => {
            let revision = if plan.revision.is_empty() { "work tree".to_owned() } else { short(&plan.revision) };
            vec![
                FooterPart::Code(revision),
                FooterPart::Code(format!("against {}", clip_masked(&base_label(plan), CLIP))),
            ]
        }
        PreviewContent::Failed { .. } | PreviewContent::Merged | PreviewContent::Closed => {
            vec![FooterPart::Code(short(preview.head))]
        }
        PreviewContent::Superseded => Vec::new(),
    };
    parts.extend(compared);
    if !shortened.is_empty() {
        parts.push(FooterPart::Text(shortened));
    }
    if let PreviewContent::Plan(plan) = &preview.content {
        let environment = clip_masked(&plan.environment, CLIP);
        parts.push(FooterPart::Code(if plan.base == "live" || plan.base.is_empty() {
            format!("stator plan -e {environment}")
        } else {
            let to = if plan.revision.is_empty() { String::new() } else { format!(" --to {}", short(&plan.revision)) };
            format!("stator plan -e {environment} --from {}{to}", short(&plan.base))
        }));
    }
    parts.extend(preview.link.map(FooterPart::Link));
    if parts.is_empty() { String::new() } else { face.footer(&parts) }
}

/// Changes that are in every form of the table.
pub(super) fn is_dangerous(change: &Change) -> bool {
    match change.action {
        Action::Delete | Action::Deleting | Action::Replace | Action::Blocked | Action::Adopt => true,
        Action::Create | Action::Update | Action::LeftBehind | Action::Keep => {
            matches!(change.disruption, Disruption::Recreate | Disruption::NativeRoll | Disruption::Delete)
        }
    }
}
