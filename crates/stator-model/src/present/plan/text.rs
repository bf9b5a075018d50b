//! The plan as a person reads it on a terminal.

use super::{base, cost, cost_of, gpu_summary, gpus_of, hold_word, short_revision, symbol, tone, unchanged, value};
use crate::plan::{Action, Change, Disruption, FieldChange, Hold, Plan};
use crate::present::{Look, Tone, count, escape, findings};
use stator_core::object::json_type;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A value longer than this is cut, unless the look is verbose.
const LONGEST_VALUE: usize = 80;

/// The whole plan: each object that changes with its fields and reasons, what holds it back, findings, and the counts.
pub fn text(plan: &Plan, look: &Look) -> String {
    let mut out = heading(plan, look);
    let mut model = None;
    for change in plan.changes.iter().filter(|change| look.verbose || !unchanged(change)) {
        let key = (&change.model, &change.source);
        if model.replace(key) != Some(key) {
            out.push('\n');
            let name = look.paint(Tone::Strong, &escape::line(&change.model));
            let _ = writeln!(out, "{name}  {}", look.paint(Tone::Faint, &escape::line(&change.source)));
        }
        out.push_str(&object(change, look));
    }
    for hold in plan.holds.iter().filter(|hold| !hold.allowed) {
        out.push('\n');
        out.push_str(&held(hold, look));
    }
    if !plan.findings.is_empty() {
        out.push('\n');
        out.push_str(&findings::brief(&plan.findings, look));
    }
    out.push('\n');
    out.push_str(&closing(plan));
    out
}

fn heading(plan: &Plan, look: &Look) -> String {
    let revision =
        if plan.revision.is_empty() { String::new() } else { format!(" at {}", short_revision(&plan.revision)) };
    let line = format!(
        "{} / {}{revision} against {}",
        escape::line(&plan.repository),
        escape::line(&plan.environment),
        base(plan)
    );
    look.paint(Tone::Strong, &line) + "\n"
}

fn object(change: &Change, look: &Look) -> String {
    let sign = look.paint(tone(change.action), symbol(change.action));
    let mut parts = vec![format!("{sign} {} {}", change.action.word(), escape::line(&change.object.to_string()))];
    let said = change.action == Action::Delete || change.disruption == Disruption::None;
    if !said || change.action == Action::Update {
        parts.push(change.disruption.word().to_owned());
    }
    let used = gpus_of(change);
    if !used.is_empty() {
        parts.push(format!("GPUs {used}"));
    }
    parts.extend(cost_of(change));
    let mut out = format!("  {}\n", parts.join("   "));
    // Every field of a new object is new: the intent says it shorter, and `render` in full.
    if change.action != Action::Create || look.verbose {
        out.push_str(&fields(&change.fields, look));
    }
    for reason in &change.reasons {
        let _ = writeln!(out, "      {} {}", look.paint(Tone::Caution, "·"), escape::line(reason));
    }
    out
}

fn fields(fields: &[FieldChange], look: &Look) -> String {
    let paths: Vec<String> = fields.iter().map(|field| escape::line(&field.path.to_string())).collect();
    // One very long path does not push the values of all others away.
    let column = paths.iter().map(|path| escape::width(path)).max().unwrap_or(0).min(56);
    let mut out = String::new();
    for (field, path) in fields.iter().zip(&paths) {
        let (sign, mood, shown) = match (&field.old, &field.new) {
            (serde_json::Value::Null, new) => ("+", Tone::Good, short(new, look)),
            (old, serde_json::Value::Null) => ("-", Tone::Bad, short(old, look)),
            (old, new) => ("~", Tone::Caution, format!("{} → {}", short(old, look), short(new, look))),
        };
        let owner = if field.owner == "stator" || field.owner.is_empty() {
            String::new()
        } else {
            look.paint(Tone::Faint, &format!("   (owned by {})", escape::line(&field.owner)))
        };
        let gap = " ".repeat(column.saturating_sub(escape::width(path)));
        let _ = writeln!(out, "      {} {path}{gap}   {shown}{owner}", look.paint(mood, sign));
    }
    out
}

fn short(field: &serde_json::Value, look: &Look) -> String {
    let text = value(field);
    if look.verbose || escape::width(&text) <= LONGEST_VALUE {
        return text;
    }
    match field {
        serde_json::Value::Array(items) => format!("[{}]", count(items.len(), "item", "items")),
        serde_json::Value::Object(map) => format!("{{{}}}", count(map.len(), "field", "fields")),
        serde_json::Value::String(_) => escape::cut(&text, LONGEST_VALUE),
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {
            format!("{} {}", json_type(field), escape::cut(&text, LONGEST_VALUE))
        }
    }
}

fn held(hold: &Hold, look: &Look) -> String {
    let head = look.paint(Tone::Bad, &format!("held back[{}]", hold_word(hold.kind)));
    format!("{head}: {}\n  = help: {}\n", escape::line(&hold.message), escape::line(&hold.help))
}

/// The counts, the GPUs and the cost: the lines that a plan ends with.
pub fn closing(plan: &Plan) -> String {
    let summary = &plan.summary;
    let models: BTreeSet<&str> = plan.changes.iter().map(|change| change.model.as_str()).collect();
    let nothing =
        summary.create + summary.update + summary.replace + summary.delete + summary.adopt + summary.blocked == 0;
    let mut out = if nothing {
        // What git does not have and is there all the same is not as declared.
        let alone = |change: &&Change| change.inventory.is_none() && !change.reasons.is_empty();
        let left = plan.changes.iter().filter(alone).count();
        let declared = summary.keep.saturating_sub(left);
        let is = |number: usize| if number == 1 { "is" } else { "are" };
        // As declared, and still something is to be said: a record that is made again, a request that failed.
        let noted = |change: &&Change| change.inventory.is_some() && !change.reasons.is_empty();
        let noted = plan.changes.iter().filter(noted).count();
        let notes = [(left, "left alone"), (noted, "noted")].into_iter().filter(|(number, _)| *number > 0);
        let notes: Vec<String> = notes.map(|(number, what)| format!("{number} {} {what}", is(number))).collect();
        let rest =
            if notes.is_empty() { String::new() } else { format!("; {}, --verbose says why", notes.join(" and ")) };
        format!(
            "No changes: {} of {} {} as declared{rest}.\n",
            count(declared, "object", "objects"),
            count(models.len(), "model", "models"),
            is(declared)
        )
    } else {
        let mut parts = vec![format!("{} to create", summary.create), format!("{} to change", summary.update)];
        for (number, text) in [(summary.replace, "to replace"), (summary.adopt, "to adopt")] {
            if number > 0 {
                parts.push(format!("{number} {text}"));
            }
        }
        parts.push(format!("{} to delete", summary.delete));
        if summary.blocked > 0 {
            parts.push(format!("{} blocked", summary.blocked));
        }
        parts.push(format!("{} unchanged", summary.keep));
        format!("Plan: {}.\n", parts.join(", "))
    };
    let used = gpu_summary(plan);
    if !used.is_empty() && !nothing {
        let _ = writeln!(out, "GPUs: {used}");
    }
    if let Some(cost) = cost(plan).filter(|_| !nothing) {
        let _ = writeln!(out, "Cost: {cost}");
    }
    out
}
