//! The plan as a person reads it on a terminal.

use super::{
    action_symbol, action_tone, approval_summary, base_label, change_cost, change_gpus, format_value, gpu_summary,
    is_shown, listed_reasons, plan_cost, short_revision,
};
use crate::plan::{Action, Change, Disruption, FieldChange, Hold, Plan};
use crate::present::patch::line_changes;
use crate::present::{TerminalOptions, Tone, escape, findings, pluralize, upgrade};
use serde_json::Value;
use stator_core::finding::Finding;
use stator_core::object::json_type;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A value longer than this is cut, unless the look is verbose.
const MAX_VALUE_WIDTH: usize = 80;

/// The whole plan: each object that changes with its fields and reasons, what holds it back, findings, and the counts.
pub fn text(plan: &Plan, look: &TerminalOptions) -> String {
    let mut out = heading(plan, look);
    let mut model = None;
    for change in plan.changes.iter().filter(|change| look.verbose || is_shown(change)) {
        let key = (&change.model, &change.source);
        if model.replace(key) != Some(key) {
            out.push('\n');
            let name = look.paint(Tone::Strong, &escape::line(&change.model));
            let _ = writeln!(out, "{name}  {}", look.paint(Tone::Faint, &escape::line(&change.source)));
        }
        out.push_str(&change_text(change, look));
    }
    for hold in plan.holds.iter().filter(|hold| !hold.allowed) {
        out.push('\n');
        out.push_str(&hold_text(hold, look));
    }
    if !plan.findings.is_empty() {
        out.push('\n');
        out.push_str(&findings::brief(&plan.findings, look));
    }
    if let Some(foresight) = &plan.upgrade {
        out.push('\n');
        for sentence in upgrade::sentences(foresight) {
            let _ = writeln!(out, "{}", escape::line(&sentence));
        }
    }
    out.push('\n');
    out.push_str(&totals_text(plan));
    out
}

fn heading(plan: &Plan, look: &TerminalOptions) -> String {
    let revision =
        if plan.revision.is_empty() { String::new() } else { format!(" at {}", short_revision(&plan.revision)) };
    let line = format!(
        "{} / {}{revision} against {}",
        escape::line(&plan.repository),
        escape::line(&plan.environment),
        base_label(plan)
    );
    look.paint(Tone::Strong, &line) + "\n"
}

fn change_text(change: &Change, look: &TerminalOptions) -> String {
    let sign = look.paint(action_tone(change.action), action_symbol(change.action));
    let mut parts = vec![format!("{sign} {} {}", change.action.as_str(), escape::line(&change.object.to_string()))];
    if change.step.held_by().is_some() {
        parts.push("held".to_owned());
    }
    let said = change.action == Action::Delete || change.disruption == Disruption::None;
    if !said || change.action == Action::Update {
        parts.push(change.disruption.as_str().to_owned());
    }
    let used = change_gpus(change);
    if !used.is_empty() {
        parts.push(format!("GPUs {used}"));
    }
    parts.extend(change_cost(change));
    let mut out = format!("  {}\n", parts.join("   "));
    // Every field of a new object is new: the intent says it shorter, and `render` in full.
    if change.action != Action::Create || look.verbose {
        out.push_str(&fields_text(&change.fields, look));
    }
    for reason in listed_reasons(change) {
        let _ = writeln!(out, "      {} {}", look.paint(Tone::Caution, "·"), escape::line(&reason.to_string()));
    }
    out
}

fn fields_text(fields: &[FieldChange], look: &TerminalOptions) -> String {
    let paths: Vec<String> = fields.iter().map(|field| escape::line(&field.path.to_string())).collect();
    // One very long path does not push the values of all others away.
    let column = paths.iter().map(|path| escape::display_width(path)).max().unwrap_or(0).min(56);
    let mut out = String::new();
    for (field, path) in fields.iter().zip(&paths) {
        let (sign, mood, shown) = match (&field.old, &field.new) {
            (Value::Null, new) => ("+", Tone::Good, short_value(new, look)),
            (old, Value::Null) => ("-", Tone::Bad, short_value(old, look)),
            (old, new) => ("~", Tone::Caution, format!("{} → {}", short_value(old, look), short_value(new, look))),
        };
        let items = match (&field.old, &field.new) {
            (Value::Array(old), Value::Array(new)) if !(is_short(&field.old, look) && is_short(&field.new, look)) => {
                changed_items(old, new, look)
            }
            _ => String::new(),
        };
        let owner = if field.owner == "stator" || field.owner.is_empty() {
            String::new()
        } else {
            look.paint(Tone::Faint, &format!("   (owned by {})", escape::line(&field.owner)))
        };
        let gap = " ".repeat(column.saturating_sub(escape::display_width(path)));
        let _ = writeln!(out, "      {} {path}{gap}   {shown}{owner}", look.paint(mood, sign));
        out.push_str(&items);
    }
    out
}

/// The items of a list that differ, each change with the item before it: of arguments that is the flag.
fn changed_items(old: &[Value], new: &[Value], look: &TerminalOptions) -> String {
    let texts = |items: &[Value]| -> Vec<String> {
        items.iter().map(|item| escape::truncate(&format_value(item), MAX_VALUE_WIDTH)).collect()
    };
    let (old_texts, new_texts) = (texts(old), texts(new));
    // Items are compared and not their texts, which may be cut: each is a line that names the first one that equals it.
    let all: Vec<&Value> = old.iter().chain(new).collect();
    let lines = |items: &[Value]| -> String {
        items.iter().map(|item| format!("{:?}\n", all.iter().position(|other| *other == item))).collect()
    };
    let operations = line_changes(&lines(old), &lines(new));
    let mut out = String::new();
    let mut line = |mood, sign, text: Option<&String>| {
        if let Some(text) = text {
            let _ = writeln!(out, "          {} {text}", look.paint(mood, sign));
        }
    };
    for operation in operations.iter().filter(|one| one.tag() != similar::DiffTag::Equal) {
        let before = operation.old_range().start.checked_sub(1);
        line(Tone::Faint, " ", before.and_then(|at| old_texts.get(at)));
        operation.old_range().for_each(|at| line(Tone::Bad, "-", old_texts.get(at)));
        operation.new_range().for_each(|at| line(Tone::Good, "+", new_texts.get(at)));
    }
    out
}

/// Whether a value is shown as it is.
fn is_short(value: &Value, look: &TerminalOptions) -> bool {
    look.verbose || escape::display_width(&format_value(value)) <= MAX_VALUE_WIDTH
}

fn short_value(field: &Value, look: &TerminalOptions) -> String {
    let text = format_value(field);
    if is_short(field, look) {
        return text;
    }
    match field {
        Value::Array(items) => format!("[{}]", pluralize(items.len(), "item", "items")),
        Value::Object(map) => format!("{{{}}}", pluralize(map.len(), "field", "fields")),
        Value::String(_) => escape::truncate(&text, MAX_VALUE_WIDTH),
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            format!("{} {}", json_type(field), escape::truncate(&text, MAX_VALUE_WIDTH))
        }
    }
}

fn hold_text(hold: &Hold, look: &TerminalOptions) -> String {
    let head = look.paint(Tone::Bad, &format!("held back[{}]", hold.kind.as_str()));
    format!("{head}: {}\n  = help: {}\n", escape::line(&hold.message), escape::line(&hold.help))
}

/// The counts, the GPUs and the cost: the lines that a plan ends with.
pub fn totals_text(plan: &Plan) -> String {
    let summary = &plan.summary;
    let declared = || plan.changes.iter().filter(|change| change.action != Action::LeftBehind);
    let models: BTreeSet<&str> = declared().map(|change| change.model.as_str()).collect();
    let writes = summary.create + summary.update + summary.replace + summary.delete + summary.adopt;
    let nothing = writes + summary.deleting + summary.blocked + summary.held == 0;
    let has_errors = plan.findings.iter().any(Finding::is_error);
    let mut out = if nothing && has_errors && plan.changes.is_empty() {
        "No plan: the selected models have errors.\n".to_owned()
    } else if nothing {
        // What git does not have and is there all the same is not as declared.
        let alone = |change: &&Change| change.inventory.is_none() && !change.reasons.is_empty();
        let left = declared().filter(alone).count();
        let declared = summary.keep.saturating_sub(left);
        let is = |number: usize| if number == 1 { "is" } else { "are" };
        // As declared, and still something is to be said: a record that is made again, a request that failed.
        let noted = |change: &&Change| change.inventory.is_some() && !change.reasons.is_empty();
        let noted = plan.changes.iter().filter(noted).count();
        let notes = [(left, "not changed"), (noted, "noted")].into_iter().filter(|(number, _)| *number > 0);
        let notes: Vec<String> = notes.map(|(number, what)| format!("{number} {} {what}", is(number))).collect();
        let rest =
            if notes.is_empty() { String::new() } else { format!("; {}, --verbose shows why", notes.join(" and ")) };
        format!(
            "No changes: {} of {} {} in the desired state{rest}.\n",
            pluralize(declared, "object", "objects"),
            pluralize(models.len(), "model", "models"),
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
        if summary.deleting > 0 {
            parts.push(format!("{} being deleted", summary.deleting));
        }
        for (number, text) in [(summary.blocked, "blocked"), (summary.held, "held")] {
            if number > 0 {
                parts.push(format!("{number} {text}"));
            }
        }
        parts.push(format!("{} unchanged", summary.keep));
        format!("Plan: {}.\n", parts.join(", "))
    };
    if summary.left_behind > 0 {
        let gpus: u64 =
            plan.changes.iter().filter(|one| one.action == Action::LeftBehind).map(|one| one.gpus.before).sum();
        let held = if gpus > 0 {
            format!(" with {}", pluralize(usize::try_from(gpus).unwrap_or(usize::MAX), "GPU", "GPUs"))
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "Left behind: {}{held}; no sync changes or deletes them.",
            pluralize(summary.left_behind, "object", "objects")
        );
    }
    let used = gpu_summary(plan);
    if !used.is_empty() && !nothing {
        let _ = writeln!(out, "GPUs: {used}");
    }
    if let Some(cost) = plan_cost(plan).filter(|_| !nothing) {
        let _ = writeln!(out, "Cost: {cost}");
    }
    if let Some(totals) = approval_summary(plan) {
        let _ = writeln!(out, "If approved: {totals}");
    }
    out
}
