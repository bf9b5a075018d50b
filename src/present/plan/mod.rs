//! A plan as terminal text, Markdown, HTML and JSON.

mod html;
mod markdown;
mod text;

pub use html::html;
pub use markdown::{LIMIT, markdown};
pub use text::{closing, text};

use super::{Tone, escape};
use crate::plan::{Action, Change, Disruption, GpuTotals, HoldKind, Plan, short_commit};
use serde_json::Value;

/// The plan as `plan -o json` prints it.
///
/// # Errors
/// Only when the JSON cannot be written, which does not happen for values without odd map keys.
pub fn json(plan: &Plan) -> Result<String, serde_json::Error> {
    super::json(plan)
}

/// The sign of an action, as Terraform's users know them.
pub fn symbol(action: Action) -> &'static str {
    match action {
        Action::Create => "+",
        Action::Update => "~",
        Action::Replace => "-/+",
        Action::Delete => "-",
        Action::Adopt => "<=",
        Action::Keep => "=",
        Action::Blocked => "!",
    }
}

/// The word of a guard, as JSON and `--allow` have it.
pub fn hold_word(kind: HoldKind) -> &'static str {
    match kind {
        HoldKind::Replace => "replace",
        HoldKind::Delete => "delete",
        HoldKind::Adopt => "adopt",
        HoldKind::MassDelete => "mass-delete",
        HoldKind::MaxGpus => "max-gpus",
    }
}

fn tone(action: Action) -> Tone {
    match action {
        Action::Create | Action::Adopt => Tone::Good,
        Action::Update => Tone::Caution,
        Action::Replace | Action::Delete | Action::Blocked => Tone::Bad,
        Action::Keep => Tone::Faint,
    }
}

/// True when a sync would do nothing for the object.
pub fn unchanged(change: &Change) -> bool {
    change.action == Action::Keep
}

/// What it was compared with, in words.
fn base(plan: &Plan) -> String {
    if plan.base == "live" || plan.base.is_empty() { "live".to_owned() } else { short_revision(&plan.base) }
}

/// A commit in seven characters, with a `-dirty` that it has.
pub fn short_revision(revision: &str) -> String {
    escape::line(&short_commit(revision))
}

/// A value of a field in one line: JSON, without the quotes where a word needs none.
fn value(value: &Value) -> String {
    match value {
        Value::String(text) if plain_word(text) => escape::line(text),
        Value::Null => "(none)".to_owned(),
        Value::String(_) | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            escape::line(&value.to_string())
        }
    }
}

fn plain_word(text: &str) -> bool {
    !text.is_empty()
        && text.parse::<f64>().is_err()
        && !matches!(text, "true" | "false" | "null" | "(none)")
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':' | '@' | '+'))
}

/// A difference with its sign: `+4`, `-2`, `0`.
fn signed(before: u64, after: u64) -> String {
    match after.cmp(&before) {
        std::cmp::Ordering::Greater => format!("+{}", after - before),
        std::cmp::Ordering::Less => format!("-{}", before - after),
        std::cmp::Ordering::Equal => "0".to_owned(),
    }
}

/// `+4 h200_sxm (12 → 16, peak 22)`; nothing when no GPU is involved.
fn gpus(totals: &GpuTotals, sku: Option<&str>) -> String {
    if *totals == GpuTotals::default() {
        return String::new();
    }
    let sku = sku.map(|sku| format!(" {}", escape::line(sku))).unwrap_or_default();
    let peak =
        if totals.peak > totals.before.max(totals.after) { format!(", peak {}", totals.peak) } else { String::new() };
    if totals.before == totals.after && peak.is_empty() {
        return format!("{}{sku}", totals.after);
    }
    format!("{}{sku} ({} → {}{peak})", signed(totals.before, totals.after), totals.before, totals.after)
}

/// GPUs of all models by SKU: `+4 h200_sxm (12 → 16, peak 22)`, joined by commas; SKUs without any are left out.
fn gpu_summary(plan: &Plan) -> String {
    let parts: Vec<String> = plan
        .summary
        .gpus_by_sku
        .iter()
        .filter(|(_, totals)| **totals != GpuTotals::default())
        .map(|(sku, totals)| {
            let name = if sku == "unknown" { "of unknown SKU" } else { sku };
            gpus(totals, Some(name))
        })
        .collect();
    if parts.is_empty() { gpus(&plan.summary.gpus, None) } else { parts.join(", ") }
}

/// Hours in a month, as cloud price lists count: 365 × 24 / 12.
const HOURS_A_MONTH: f64 = 730.0;

/// `+$14.00/h (≈ +$10,220/mo)`; `None` without prices.
fn cost(plan: &Plan) -> Option<String> {
    let cost = plan.summary.cost.as_ref()?;
    let currency = escape::line(&cost.currency);
    let delta = cost.after_hour - cost.before_hour;
    let sign = if delta < 0.0 { "-" } else { "+" };
    let unpriced = if cost.unpriced.is_empty() {
        String::new()
    } else {
        format!("; no price for {}", escape::line(&cost.unpriced.join(", ")))
    };
    let now = format!("{currency}{:.2}/h → {currency}{:.2}/h", cost.before_hour, cost.after_hour);
    Some(format!("≈ {sign}{currency}{}/mo ({now}{unpriced})", thousands((delta.abs() * HOURS_A_MONTH).round())))
}

/// A whole number with commas between thousands.
fn thousands(number: f64) -> String {
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
fn risk(change: &Change) -> (u8, std::cmp::Reverse<Disruption>) {
    let rank = match change.action {
        Action::Blocked => 0,
        Action::Delete => 1,
        Action::Replace => 2,
        Action::Adopt => 3,
        Action::Update => 4,
        Action::Create => 5,
        Action::Keep => 6,
    };
    (rank, std::cmp::Reverse(change.disruption))
}

/// Changes that are not `keep`, worst first, then by model and object.
fn by_risk(plan: &Plan) -> Vec<&Change> {
    let mut changes: Vec<&Change> = plan.changes.iter().filter(|change| !unchanged(change)).collect();
    changes.sort_by(|a, b| (risk(a), &a.model, &a.object).cmp(&(risk(b), &b.model, &b.object)));
    changes
}

#[cfg(test)]
mod tests;
