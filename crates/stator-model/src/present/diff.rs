//! Unified diffs of objects as YAML, as `git diff` and `kubectl diff` print them.

use super::patch::{MissingNewline, diff_hunks};
use super::{TerminalOptions, Tone, escape};
use crate::plan::{Change, Plan};
use serde_json::Value;
use stator_core::dynamo::kinds::CONFIG_MAP;
use stator_core::object::JsonText;
use std::fmt::Write as _;

/// Lines around a change.
const CONTEXT_LINES: usize = 3;

/// Every object that changes, as one unified diff. Empty when there is no difference.
pub fn unified(plan: &Plan, look: &TerminalOptions) -> String {
    plan.changes.iter().map(|change| colorize_diff(&object_diff(change, &plan.base, CONTEXT_LINES), look)).collect()
}

/// One object's diff with so many lines of context; empty when both sides are equal.
pub fn object_diff(change: &Change, base: &str, context: usize) -> String {
    let body = hunks(change, context);
    if body.is_empty() {
        return String::new();
    }
    let object = &change.object;
    let name = escape::line(&format!("{}/{}/{}.yaml", object.namespace, object.kind, object.name));
    let base = if base.is_empty() { "live" } else { base };
    let old = if change.before.is_some() { format!("{}/{name}", escape::line(base)) } else { "/dev/null".to_owned() };
    let new = if change.after.is_some() { format!("desired/{name}") } else { "/dev/null".to_owned() };
    format!("--- {old}\n+++ {new}\n{body}")
}

/// The hunks alone, without the file headers.
pub fn hunks(change: &Change, context: usize) -> String {
    if change.before == change.after {
        return String::new();
    }
    // A file in it is read line by line.
    let has_files = change.object.kind == CONFIG_MAP.kind;
    let write =
        |side: &Option<JsonText>| side.as_ref().map(|text| to_yaml(&text.parse(), has_files)).unwrap_or_default();
    let (old, new) = (write(&change.before), write(&change.after));
    diff_hunks(&old, &new, context, MissingNewline::Unsaid)
}

/// A value as YAML, texts of several lines as such or not. JSON, which is YAML too, where the writer refuses a value.
fn to_yaml(value: &Value, as_blocks: bool) -> String {
    // Folded text would hide which word of a long line changed.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: as_blocks };
    let text = serde_saphyr::to_string_with_options(value, options)
        .or_else(|_| serde_json::to_string_pretty(value).map(|text| text + "\n"))
        .unwrap_or_default();
    escape::lines(&text)
}

fn colorize_diff(diff: &str, look: &TerminalOptions) -> String {
    if !look.color {
        return diff.to_owned();
    }
    let mut out = String::with_capacity(diff.len() * 2);
    for line in diff.lines() {
        let tone = if line.starts_with("+++") || line.starts_with("---") {
            Tone::Strong
        } else if line.starts_with("@@") {
            Tone::Faint
        } else if line.starts_with('+') {
            Tone::Good
        } else if line.starts_with('-') {
            Tone::Bad
        } else {
            Tone::Plain
        };
        let _ = writeln!(out, "{}", look.paint(tone, line));
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::plan::Action;
    use crate::present::{TerminalOptions, samples};

    #[test]
    fn each_object_is_a_file() {
        insta::assert_snapshot!(super::unified(&samples::plan(), &TerminalOptions::default()), @"
        --- live/prod/DynamoGraphDeployment/llama-3-70b.yaml
        +++ desired/prod/DynamoGraphDeployment/llama-3-70b.yaml
        @@ -1,4 +1,4 @@
         spec:
           components:
           - name: decode
        -    replicas: 2
        +    replicas: 3
        --- /dev/null
        +++ desired/prod/DynamoModel/qwen3-8b-sql-assist-v4.yaml
        @@ -0,0 +1,2 @@
        +spec:
        +  baseModelName: Qwen/Qwen3-8B
        --- live/prod/DynamoGraphDeployment/old.yaml
        +++ /dev/null
        @@ -1 +0,0 @@
        -spec: {}
        ");
    }

    /// A file in a ConfigMap is compared line by line.
    #[test]
    fn of_a_file_the_lines_are_shown_that_changed() {
        let side = |last: &str| {
            let lines: String = (1..=9).map(|number| format!("option_{number}: {number}\n")).collect();
            serde_json::json!({"data": {"decode.yaml": format!("{lines}last: {last}\n")}, "immutable": true}).into()
        };
        let mut change = samples::change("chat", "ConfigMap", "chat-engine-2", Action::Create);
        (change.before, change.after) = (Some(side("a long text of several words")), Some(side("another")));
        insta::assert_snapshot!(super::object_diff(&change, "live", 2), @"
        --- live/prod/ConfigMap/chat-engine-2.yaml
        +++ desired/prod/ConfigMap/chat-engine-2.yaml
        @@ -10,4 +10,4 @@
             option_8: 8
             option_9: 9
        -    last: a long text of several words
        +    last: another
         immutable: true
        ");
    }

    #[test]
    fn an_unchanged_plan_has_no_diff() {
        assert_eq!(super::unified(&samples::unchanged(), &TerminalOptions::default()), "");
    }
}
