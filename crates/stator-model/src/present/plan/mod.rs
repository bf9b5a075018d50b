//! A plan as terminal text, HTML and JSON; as Markdown it is a [`preview`](super::preview).

mod html;
mod text;

pub use html::html;
pub use text::{text, totals_text};

use super::{Tone, escape};
use crate::plan::{
    Action, Change, ChangeReason, Cost, Disruption, GpuTotals, HoldKind, KeptBy, ModelTotals, Plan, abbreviate_revision,
};
use serde_json::Value;
use stator_core::dynamo::gpus::UNKNOWN_SKU;

/// The plan as `plan -o json` prints it.
///
/// # Errors
/// Only when the JSON cannot be written, which does not happen for values without odd map keys.
pub fn json(plan: &Plan) -> Result<String, serde_json::Error> {
    super::json(plan)
}

/// The sign of an action, as Terraform's users know them.
pub fn action_symbol(action: Action) -> &'static str {
    match action {
        Action::Create => "+",
        Action::Update => "~",
        Action::Replace => "-/+",
        Action::Delete | Action::Deleting => "-",
        Action::Adopt => "<=",
        Action::Keep => "=",
        Action::LeftBehind => "?",
        Action::Blocked => "!",
    }
}

fn action_tone(action: Action) -> Tone {
    match action {
        Action::Create | Action::Adopt => Tone::Good,
        Action::Update | Action::LeftBehind => Tone::Caution,
        Action::Replace | Action::Delete | Action::Deleting | Action::Blocked => Tone::Bad,
        Action::Keep => Tone::Faint,
    }
}

/// True when a sync would do nothing for the object.
pub fn is_unchanged(change: &Change) -> bool {
    matches!(change.action, Action::Keep | Action::LeftBehind)
}

/// True when people are shown the line although they do not ask for everything.
fn is_shown(change: &Change) -> bool {
    // Whoever removed it from git would look for its deletion.
    let stays = |reason: &ChangeReason| {
        matches!(
            reason,
            ChangeReason::Kept(KeptBy::StillUsed { .. } | KeptBy::PerhapsUsed { .. } | KeptBy::SuccessorFaulty { .. })
        )
    };
    change.action != Action::Keep || change.reasons.iter().any(stays)
}

/// The reasons that are listed for a change. Of a guard that judges the whole plan, one sentence tells all.
pub(super) fn listed_reasons(change: &Change) -> impl Iterator<Item = &ChangeReason> {
    change.reasons.iter().filter(|reason| {
        !matches!(reason, ChangeReason::Held(HoldKind::MassDelete | HoldKind::MaxGpus | HoldKind::Rollback))
    })
}

/// What it was compared with, in words.
pub(super) fn base_label(plan: &Plan) -> String {
    if plan.base == "live" || plan.base.is_empty() { "live".to_owned() } else { short_revision(&plan.base) }
}

/// A commit in seven characters, with a `-dirty` that it has.
pub fn short_revision(revision: &str) -> String {
    escape::line(&abbreviate_revision(revision))
}

/// A value of a field in one line: JSON, without the quotes where a word needs none.
pub(super) fn format_value(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain_word(text) => escape::line(text),
        Value::Null => "(none)".to_owned(),
        Value::String(_) | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            escape::line(&value.to_string())
        }
    }
}

fn is_plain_word(text: &str) -> bool {
    !text.is_empty()
        && text.parse::<f64>().is_err()
        && !matches!(text, "true" | "false" | "null" | "(none)")
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':' | '@' | '+'))
}

/// A difference with its sign: `+4`, `-2`, `0`.
pub(super) fn signed_delta(before: u64, after: u64) -> String {
    match after.cmp(&before) {
        std::cmp::Ordering::Greater => format!("+{}", after - before),
        std::cmp::Ordering::Less => format!("-{}", before - after),
        std::cmp::Ordering::Equal => "0".to_owned(),
    }
}

/// `12 → 16 h200_sxm (+4, peak 22)`, or `16 h200_sxm` where nothing moves; nothing when no GPU is involved.
fn format_gpus(totals: &GpuTotals, sku: Option<&str>) -> String {
    if *totals == GpuTotals::default() {
        return String::new();
    }
    let sku = sku.map(|sku| format!(" {}", escape::line(sku))).unwrap_or_default();
    let GpuTotals { before, after, peak } = *totals;
    let moves = (before != after).then(|| signed_delta(before, after));
    let peak = (peak > before.max(after)).then(|| format!("peak {peak}"));
    let notes: Vec<String> = moves.iter().chain(&peak).cloned().collect();
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
    let count = if before == after { after.to_string() } else { format!("{before} → {after}") };
    format!("{count}{sku}{notes}")
}

/// GPUs by SKU: `12 → 16 h200_sxm (+4, peak 22)`, joined by commas; SKUs without any are left out.
fn format_gpus_by_sku(all: &std::collections::BTreeMap<String, GpuTotals>) -> String {
    let parts: Vec<String> = all
        .iter()
        .filter(|(_, totals)| **totals != GpuTotals::default())
        .map(|(sku, totals)| {
            let name = if sku == UNKNOWN_SKU { "of unknown SKU" } else { sku };
            format_gpus(totals, Some(name))
        })
        .collect();
    parts.join(", ")
}

/// GPUs of all models by SKU.
pub(super) fn gpu_summary(plan: &Plan) -> String {
    let parts = format_gpus_by_sku(&plan.summary.gpus_by_sku);
    if parts.is_empty() { format_gpus(&plan.summary.gpus, None) } else { parts }
}

/// The GPUs of one object: by SKU where it has several, with the range that somebody else may move it in.
fn change_gpus(change: &Change) -> String {
    let several = change.gpus_by_sku.len() > 1;
    let used = if several {
        format_gpus_by_sku(&change.gpus_by_sku)
    } else {
        format_gpus(&change.gpus, change.gpu_sku.as_deref())
    };
    match change.gpu_range {
        Some(range) if !used.is_empty() => format!("{used}, autoscaled from {} to {}", range.min, range.max),
        Some(_) | None => used,
    }
}

/// What a change costs more or saves: `+$14.00/h`; nothing where it stays what it was.
pub(super) fn change_cost(change: &Change) -> Option<String> {
    let cost = change.cost.as_ref().filter(|cost| cost.delta_hour != 0.0)?;
    let sign = if cost.delta_hour < 0.0 { "-" } else { "+" };
    Some(format!("{sign}{}{:.2}/h", escape::line(&cost.currency), cost.delta_hour.abs()))
}

/// The cost of a plan; `None` without prices.
pub(super) fn plan_cost(plan: &Plan) -> Option<String> {
    plan.summary.cost.as_ref().map(format_cost)
}

/// What approvals would change, GPUs and cost; `None` where they would change none.
pub(super) fn approval_summary(plan: &Plan) -> Option<String> {
    let ModelTotals { gpus: _, gpus_by_sku, cost } = plan.summary.if_approved.as_ref()?;
    let parts = [Some(format_gpus_by_sku(gpus_by_sku)), cost.as_ref().map(format_cost)];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// `≈ +$10,220/mo ($42.00/h → $56.00/h)`.
fn format_cost(cost: &Cost) -> String {
    let currency = escape::line(&cost.currency);
    let sign = if cost.delta_hour < 0.0 { "-" } else { "+" };
    let unpriced = if cost.unpriced.is_empty() {
        String::new()
    } else {
        format!("; no price for {}", escape::line(&cost.unpriced.join(", ")))
    };
    let now = format!("{currency}{:.2}/h → {currency}{:.2}/h", cost.before_hour, cost.after_hour);
    format!("≈ {sign}{currency}{}/mo ({now}{unpriced})", with_thousands_separators(cost.delta_month.abs().round()))
}

/// A whole number with commas between thousands.
fn with_thousands_separators(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, c) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// How much a change deserves to be read first: lower is worse.
fn risk_rank(change: &Change) -> (u8, std::cmp::Reverse<Disruption>) {
    let rank = match change.action {
        Action::Blocked => 0,
        Action::Delete | Action::Deleting => 1,
        Action::Replace => 2,
        Action::Adopt => 3,
        Action::Update => 4,
        Action::Create => 5,
        Action::LeftBehind => 6,
        Action::Keep => 7,
    };
    (rank, std::cmp::Reverse(change.disruption))
}

/// Lines that are not `keep`, worst first, then by model and object.
pub(super) fn by_risk(plan: &Plan) -> Vec<&Change> {
    let mut changes: Vec<&Change> = plan.changes.iter().filter(|change| is_shown(change)).collect();
    changes.sort_by(|a, b| (risk_rank(a), &a.model, &a.object).cmp(&(risk_rank(b), &b.model, &b.object)));
    changes
}

#[cfg(test)]
mod tests;
