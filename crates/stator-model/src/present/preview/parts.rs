//! The parts of a comment, each whole in itself.

use super::face::{Callout, Face, Part, clip};
use super::{Preview, Shown};
use crate::plan::{Action, Change, Disruption, GpuTotals, Hold, Plan};
use crate::present::plan::{
    base, by_risk, cost, cost_of, gpu_summary, hold_word, short_revision, signed, symbol, value,
};
use crate::present::{count, findings};
use stator_core::finding::{Finding, Severity};
use std::collections::BTreeSet;

/// The first line of the table.
pub(super) const TABLE: &str = "\n| | Model | What changes | GPUs | Peak | Disruption |\n|--|--|--|--:|--:|--|\n";

/// The headline: what it is about, how many models change, GPUs and cost.
pub(super) fn head(face: Face, preview: &Preview<'_>, longest: usize) -> String {
    let mut title = vec!["stator".to_owned(), face.text(&clip(preview.environment, longest))];
    let mut headline = Vec::new();
    match &preview.shown {
        Shown::Plan(plan) => {
            title.extend(counts(plan, preview.models));
            headline = numbers(face, plan, longest);
        }
        Shown::Failed { .. } => title.push("could not be planned".to_owned()),
        Shown::Merged => title.push("merged".to_owned()),
        Shown::Closed => title.push("closed without a merge".to_owned()),
        Shown::Moved => title.push("moved".to_owned()),
    }
    let headline = if headline.is_empty() { String::new() } else { format!("**{}**\n", headline.join(" · ")) };
    format!("### {}\n{headline}", title.join(" · "))
}

/// The models of which something changes.
pub(super) fn changed(plan: &Plan) -> BTreeSet<&str> {
    by_risk(plan).into_iter().map(|change| change.model.as_str()).collect()
}

fn counts(plan: &Plan, models: Option<usize>) -> Vec<String> {
    let all: BTreeSet<&str> = plan.changes.iter().map(|change| change.model.as_str()).collect();
    let changed = changed(plan);
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
        format!("{} of {} {verb}", changed.len(), count(models.unwrap_or(0).max(all.len()), "model", "models"))
    }];
    if !broken.is_empty() {
        parts.push(count(broken.len(), "model with errors", "models with errors"));
    }
    if elsewhere > 0 {
        parts.push(count(elsewhere, "error", "errors"));
    }
    if warnings > 0 {
        parts.push(count(warnings, "warning", "warnings"));
    }
    parts
}

fn numbers(face: Face, plan: &Plan, longest: usize) -> Vec<String> {
    const CLIP: usize = 2_000;
    if by_risk(plan).is_empty() {
        return Vec::new();
    }
    let used = gpu_summary(plan);
    let mut parts =
        vec![if used.is_empty() { "no GPUs".to_owned() } else { face.text(&clip(&used, longest.min(CLIP))) }];
    parts.extend(cost(plan).map(|cost| face.text(&clip(&cost, longest.min(CLIP)))));
    let worst = plan.changes.iter().map(|change| change.disruption).max().unwrap_or(Disruption::None);
    parts.push(format!("disruption: {}", worst.word()));
    parts
}

/// What is said where there is no plan.
pub(super) fn sentence(face: Face, preview: &Preview<'_>, longest: usize) -> String {
    match &preview.shown {
        Shown::Plan(_) => String::new(),
        Shown::Failed { reason, help } => face.callout(
            Callout::Caution,
            &[face.text(&clip(reason, longest)), format!("Next: {}", face.text(&clip(help, longest)))],
        ),
        Shown::Merged => {
            "\nNothing is previewed any more. What comes of it, the statuses of the branch's commits say.\n".to_owned()
        }
        Shown::Closed => "\nNothing is previewed any more, and nothing was synced.\n".to_owned(),
        Shown::Moved => "\nThis was written twice. An older comment on this page is kept up to date.\n".to_owned(),
    }
}

/// One line of the table.
pub(super) fn row(face: Face, change: &Change) -> String {
    const CLIP: usize = 200;
    let gpus = &change.gpus;
    let sku = change.gpu_sku.as_deref().map(|sku| format!(" {}", face.text(&clip(sku, CLIP)))).unwrap_or_default();
    let difference = |totals: &GpuTotals| match totals.before == totals.after {
        true => totals.after.to_string(),
        false => signed(totals.before, totals.after),
    };
    let of_sku =
        |(sku, totals): (&String, &GpuTotals)| format!("{} {}", difference(totals), face.text(&clip(sku, CLIP)));
    let mut parts = match change.gpus_by_sku.len() {
        _ if gpus.before == 0 && gpus.after == 0 => vec!["–".to_owned()],
        0 | 1 => vec![difference(gpus) + &sku],
        _ => change.gpus_by_sku.iter().map(of_sku).collect::<Vec<_>>(),
    };
    parts.extend(change.gpu_range.map(|range| format!("scaled {}–{}", range.min, range.max)));
    parts.extend(cost_of(change).map(|cost| face.text(&clip(&cost, CLIP))));
    let peak = if gpus.peak == 0 { "–".to_owned() } else { gpus.peak.to_string() };
    format!(
        "| {} | {} | {} | {} | {peak} | {} |\n",
        face.code(symbol(change.action)),
        face.text(&clip(&change.model, CLIP)),
        what(face, change, CLIP),
        parts.join(face.line_break()),
        change.disruption.word()
    )
}

/// The change in a few words: its first fields, or the object and what happens to it.
fn what(face: Face, change: &Change, longest: usize) -> String {
    const SHOWN: usize = 3;
    let object = face.code(&clip(&format!("{} {}", change.object.kind, change.object.name), longest));
    let mut parts = vec![format!("{} {object}", change.action.word())];
    if change.action == Action::Update {
        parts.extend(change.fields.iter().take(SHOWN).map(|field| {
            let text = format!("{}: {} → {}", field.path, value(&field.old), value(&field.new));
            face.code(&clip(&text, longest))
        }));
        if change.fields.len() > SHOWN {
            parts.push(format!("and {} more", change.fields.len() - SHOWN));
        }
    }
    parts.extend(change.reasons.iter().take(2).map(|reason| face.text(&clip(reason, longest))));
    parts.join(face.line_break())
}

/// A line of a list, where there is no room for a table.
pub(super) fn item(face: Face, change: &Change, longest: usize) -> String {
    format!("- {} {}\n", change.action.word(), face.code(&clip(&change.object.to_string(), longest)))
}

/// What will hold the sync back.
pub(super) fn held(face: Face, hold: &Hold, longest: usize) -> String {
    face.callout(
        Callout::Caution,
        &[
            format!("**Held back: {}.** {}", hold_word(hold.kind), face.text(&clip(&hold.message, longest))),
            face.text(&clip(&hold.help, longest)),
        ],
    )
}

/// A fault or a warning, with its place and its fix.
pub(super) fn callout(face: Face, finding: &Finding, longest: usize) -> String {
    let (kind, word) = match finding.severity {
        Severity::Error => (Callout::Caution, "error"),
        Severity::Warning => (Callout::Warning, "warning"),
    };
    let word = if face.html { String::new() } else { format!("{word}: ") };
    face.callout(
        kind,
        &[
            format!(
                "**{word}{}** {} — {}",
                finding.rule.id,
                face.code(&clip(&findings::place(&finding.location), longest)),
                face.text(&clip(&finding.message, longest))
            ),
            format!("Fix: {}", face.text(&clip(&finding.help, longest))),
        ],
    )
}

/// What a reader has to know about how it was planned.
pub(super) fn note(face: Face, note: &str, longest: usize) -> String {
    face.callout(Callout::Note, &[face.text(&clip(note, longest))])
}

/// The change in full, folded away.
pub(super) fn folded(face: Face, change: &Change, body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    let fields = if change.fields.is_empty() {
        String::new()
    } else {
        format!(" — {}", count(change.fields.len(), "field", "fields"))
    };
    let title = format!("{} {}{fields}", symbol(change.action), change.object);
    face.folded(&title, &crate::present::escape::fence("diff", body))
}

/// The fields that change, one a line.
pub(super) fn field_list(change: &Change) -> String {
    change
        .fields
        .iter()
        .map(|field| {
            let text = format!("{}: {} → {}", field.path, value(&field.old), value(&field.new));
            format!("! {}\n", clip(&crate::present::escape::line(&text), 300))
        })
        .collect()
}

/// Which commits were compared, what was left out, and the command that shows it all.
pub(super) fn foot(face: Face, preview: &Preview<'_>, shortened: &str) -> String {
    const CLIP: usize = 100;
    let short = |text: &str| clip(&short_revision(text), CLIP);
    let mut parts = Vec::new();
    let compared = match &preview.shown {
        Shown::Plan(plan) => {
            let revision = if plan.revision.is_empty() { "work tree".to_owned() } else { short(&plan.revision) };
            vec![Part::Code(revision), Part::Code(format!("against {}", clip(&base(plan), CLIP)))]
        }
        Shown::Failed { .. } | Shown::Merged | Shown::Closed => vec![Part::Code(short(preview.head))],
        Shown::Moved => Vec::new(),
    };
    parts.extend(compared);
    if !shortened.is_empty() {
        parts.push(Part::Own(shortened));
    }
    if let Shown::Plan(plan) = &preview.shown {
        let environment = clip(&plan.environment, CLIP);
        parts.push(Part::Code(if plan.base == "live" || plan.base.is_empty() {
            format!("stator plan -e {environment}")
        } else {
            let to = if plan.revision.is_empty() { String::new() } else { format!(" --to {}", short(&plan.revision)) };
            format!("stator plan -e {environment} --from {}{to}", short(&plan.base))
        }));
    }
    parts.extend(preview.link.map(Part::Link));
    if parts.is_empty() { String::new() } else { face.foot(&parts) }
}

/// Changes that are in every form of the table.
pub(super) fn dangerous(change: &Change) -> bool {
    match change.action {
        Action::Delete | Action::Replace | Action::Blocked | Action::Adopt => true,
        Action::Create | Action::Update | Action::Keep => {
            matches!(change.disruption, Disruption::Recreate | Disruption::NativeRoll | Disruption::Delete)
        }
    }
}
