//! A quoted line of a file.

use super::{HIDDEN, field_names_secret, is_secret_value, star_tokens};
use regex::Regex;
use std::sync::LazyLock;

/// `name: value` in YAML of either style, the value quoted or up to where it ends.
static YAML_ENTRY_REGEX: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"["']?([A-Za-z_][A-Za-z0-9_.-]*)["']?\s*:\s+("(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s{\[,}\]#][^,}\]#]*)"#)
        .ok()
});

/// A line of a YAML file with tokens and the values of secrets starred out, one star a character, so that columns stay. A
/// key in several lines is told only in their whole text, by [`star_tokens`].
pub fn redact_source_line(line: &str) -> String {
    replace_secrets(&star_tokens(line), |text| text.chars().map(|_| '*').collect())
}

/// Whether a value has been hidden before.
fn is_hidden(text: &str) -> bool {
    let value = text.split(',').next().unwrap_or_default().trim_end();
    value.starts_with(HIDDEN) && value.bytes().all(|byte| byte == b'*')
}

/// A line of a YAML file with other text in place of the values of secrets.
pub(super) fn replace_secrets(line: &str, replacement: impl Fn(&str) -> String) -> String {
    let Some(form) = YAML_ENTRY_REGEX.as_ref() else { return line.to_owned() };
    let mut hidden = String::with_capacity(line.len());
    let mut from = 0;
    for found in form.captures_iter(line) {
        let (Some(name), Some(value)) = (found.get(1), found.get(2)) else { continue };
        // Outside of `{…}` a plain value goes on to the comment, commas and all.
        let in_map = line.get(..value.start()).is_some_and(|head| head.contains('{'));
        let rest = line.get(value.start()..).unwrap_or_default();
        let plain = rest.split_once(" #").map_or(rest, |(text, _)| text);
        let after = rest.get(value.len()..).unwrap_or_default().trim_start();
        let is_end = after.is_empty() || after.starts_with([',', '}', ']', '#']);
        let quoted = rest.starts_with(['"', '\'']) && is_end;
        let text = if in_map || quoted { value.as_str() } else { plain }.trim_end();
        let is_shown = is_secret_value(text.trim_matches(['"', '\''])) && !is_hidden(text);
        if value.start() >= from && is_shown && field_names_secret(name.as_str()) {
            hidden.push_str(line.get(from..value.start()).unwrap_or_default());
            hidden.push_str(&replacement(text));
            from = value.start() + text.len();
        }
    }
    hidden.push_str(line.get(from..).unwrap_or_default());
    hidden
}
