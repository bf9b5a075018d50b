//! What looks like a secret, and how it is made unreadable before anybody is shown it.
//!
//! stator never reads a Secret, but nothing keeps a person from writing one out: as the value of a variable, in an
//! argument, in an address. Whatever prints values (plans, drift, messages, quoted lines of a file) asks here first. What
//! is sent to the cluster is not touched.
//!
//! A value is a secret by the name that it stands under, or by its form: that of a token whose issuer is known.

mod token_forms;

pub use token_forms::{FoundToken, find_tokens, redact_tokens, star_tokens};

use regex::{Captures, Regex};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What stands for a secret that is the same on both sides.
pub const HIDDEN: &str = "***";
/// What stands for the old value of a secret that changes, as kubectl writes it.
pub const HIDDEN_BEFORE: &str = "*** (before)";
/// What stands for the new value of a secret that changes.
pub const HIDDEN_AFTER: &str = "*** (after)";

/// Words of a name that promise a secret.
const SECRET_WORDS: [&str; 14] = [
    "AUTHORIZATION",
    "BEARER",
    "COOKIE",
    "COOKIES",
    "CRED",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "JWT",
    "KEY",
    "PASSCODE",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORDS",
];
/// Words that do at the end of a name, before any number: `DB_PASS`, and not `PASS_THROUGH`.
const SECRET_LAST_WORDS: [&str; 3] = ["PASS", "PAT", "PWD"];
/// Names of a shell's working directory.
const WORKING_DIRECTORIES: [&str; 2] = ["PWD", "OLDPWD"];
/// Ends of a word that do, as in `HFTOKEN`.
const SECRET_SUFFIXES: [&str; 4] = ["APIKEY", "PASSWORD", "SECRET", "TOKEN"];
/// Last words of a name that is about a secret and holds none.
const NON_SECRET_LAST_WORDS: [&str; 16] = [
    "COUNT", "DIR", "DOMAIN", "ENABLED", "FILE", "LENGTH", "LIMIT", "MODE", "NAME", "PATH", "POLICY", "REF", "SECONDS",
    "SIZE", "TTL", "TYPE",
];
/// Fields of Kubernetes and of intents that name a key, a label or a Secret, by their whole name.
const NAMING_FIELDS: [&str; 3] = ["key", "secret", "topologyKey"];

/// True when a variable, flag or option of this name is likely to hold a secret: one of its words is `token`, `secret`,
/// `password`, `key` or the like, and it does not end in what is only about one (`TOKEN_PATH`, `key-file`).
pub fn names_secret(name: &str) -> bool {
    let words = split_words(name);
    let promises =
        |word: &String| SECRET_WORDS.contains(&word.as_str()) || SECRET_SUFFIXES.iter().any(|end| word.ends_with(end));
    let last_of = |list: &[&str], word: Option<&String>| word.is_some_and(|word| list.contains(&word.as_str()));
    let before_number = words.iter().rfind(|word| !word.bytes().all(|byte| byte.is_ascii_digit()));
    let ends_in_secret = last_of(&SECRET_LAST_WORDS, before_number) && !WORKING_DIRECTORIES.contains(&name);
    ends_in_secret || (words.iter().any(promises) && !last_of(&NON_SECRET_LAST_WORDS, words.last()))
}

/// The words of a name in capitals: `hf_token`, `apiKey` and `--api-key` are two each.
fn split_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut small = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || (small && c.is_ascii_uppercase()) {
            words.push(String::new());
        }
        small = c.is_ascii_lowercase() || c.is_ascii_digit();
        if let Some(last) = words.last_mut().filter(|_| c.is_ascii_alphanumeric()) {
            last.push(c.to_ascii_uppercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn field_names_secret(field: &str) -> bool {
    !NAMING_FIELDS.contains(&field) && names_secret(field)
}

/// The shortest text that is looked for in messages.
const MIN_SECRET_LENGTH: usize = 4;

/// A switch says nothing about the secret; neither does an empty string.
fn is_secret_value(text: &str) -> bool {
    !matches!(text, "" | "true" | "false")
}

/// Hides the secrets of an object, or of a part of one, on both sides of a change. `field` names what the values stand
/// under, where that is known: the name of a variable, or of a field.
pub fn redact_change(field: Option<&str>, old: &mut Value, new: &mut Value) {
    let secret = field.is_some_and(field_names_secret);
    if !holds_secret(old, secret) && !holds_secret(new, secret) {
        return;
    }
    let other = old.clone();
    redact_in_place(old, Some(new), secret, HIDDEN_BEFORE);
    redact_in_place(new, Some(&other), secret, HIDDEN_AFTER);
}

/// Hides the secrets of a value that is shown alone.
pub fn redact_value(value: &mut Value) {
    redact_in_place(value, None, false, HIDDEN);
}

fn holds_secret(value: &Value, secret: bool) -> bool {
    let mut found = false;
    visit_secrets(value, secret, &mut |_| found = true);
    found
}

/// A message without the secrets of the object that it is about: an API server likes to quote the value it refuses.
pub fn redact_message(message: &str, object: &Value) -> String {
    let mut secrets = Vec::new();
    // A text of a few characters is no secret, and replacing it would garble the message.
    visit_secrets(object, false, &mut |secret| {
        secrets.extend((secret.len() >= MIN_SECRET_LENGTH).then(|| secret.to_owned()))
    });
    // The longest first: one secret may be a part of another.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let hidden = secrets.iter().fold(message.to_owned(), |text, secret| text.replace(secret.as_str(), HIDDEN));
    // A message may well begin with `secret: `, and is not a setting for that.
    redact_parts(&hidden, false).unwrap_or(hidden)
}

/// Shows every secret of a value to `see`: whole texts, and the parts of a text that are one.
fn visit_secrets(value: &Value, secret: bool, see: &mut dyn FnMut(&str)) {
    match value {
        Value::String(whole) if secret && is_secret_value(whole) => see(whole),
        Value::String(whole) => {
            if redact_text(whole).is_some() {
                see(whole);
            }
        }
        Value::Number(number) if secret => see(&number.to_string()),
        Value::Array(items) => {
            let mut after_flag = false;
            for item in items {
                visit_secrets(item, secret || after_flag, see);
                after_flag = is_secret_flag(item);
            }
        }
        Value::Object(map) => {
            let variable = is_secret_variable(map);
            for (field, value) in map {
                visit_secrets(value, (field == "value" && variable) || field_names_secret(field), see);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn redact_in_place(value: &mut Value, other: Option<&Value>, secret: bool, mark: &str) {
    let changes = other.is_some_and(|other| other != value);
    match value {
        Value::String(whole) if secret && is_secret_value(whole) => {
            *whole = if changes { mark } else { HIDDEN }.to_owned();
        }
        Value::String(whole) => {
            if let Some(hidden) = redact_text(whole) {
                // Only a part is hidden: the rest tells whether it is the same, or else the mark does.
                let same_rest =
                    changes && other.and_then(Value::as_str).and_then(redact_text).as_ref() == Some(&hidden);
                *whole = if same_rest { hidden.replace(HIDDEN, mark) } else { hidden };
            }
        }
        Value::Number(_) if secret => *value = Value::from(if changes { mark } else { HIDDEN }),
        Value::Array(items) => {
            let partners = CounterpartItems::of(other);
            let mut after_flag = false;
            for (index, item) in items.iter_mut().enumerate() {
                let flag = is_secret_flag(item);
                redact_in_place(item, partners.find(index, item), secret || after_flag, mark);
                after_flag = flag;
            }
        }
        Value::Object(map) => {
            let variable = is_secret_variable(map);
            for (field, value) in map {
                let partner = other.map(|other| other.get(field).unwrap_or(&Value::Null));
                redact_in_place(value, partner, (field == "value" && variable) || field_names_secret(field), mark);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// True for `{name: HF_TOKEN, value: …}`.
fn is_secret_variable(map: &serde_json::Map<String, Value>) -> bool {
    map.get("name").and_then(Value::as_str).is_some_and(names_secret)
}

/// True for `--api-key`, whose value is the next item of the list.
fn is_secret_flag(item: &Value) -> bool {
    item.as_str().is_some_and(|text| text.starts_with('-') && !text.contains('=') && names_secret(text))
}

/// The items of the other side's list: by name where they have one, else by place.
struct CounterpartItems<'a> {
    list: Option<&'a Vec<Value>>,
    named: BTreeMap<&'a str, &'a Value>,
    without_counterpart: bool,
}

impl<'a> CounterpartItems<'a> {
    fn of(other: Option<&'a Value>) -> Self {
        let list = other.and_then(Value::as_array);
        let named = list.into_iter().flatten().filter_map(|item| Some((item.get("name")?.as_str()?, item))).collect();
        Self { list, named, without_counterpart: other.is_none() }
    }

    fn find(&self, index: usize, item: &Value) -> Option<&'a Value> {
        if self.without_counterpart {
            return None;
        }
        let partner = match item.get("name").and_then(Value::as_str) {
            Some(name) => self.named.get(name).copied(),
            None => self.list.and_then(|list| list.get(index)),
        };
        Some(partner.unwrap_or(&Value::Null))
    }
}

/// `NAME=value`, the value quoted or up to a blank.
static ASSIGNMENT_REGEX: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"([A-Za-z_-][A-Za-z0-9_.-]*)=("[^"]*"|'[^']*'|[^\s;&|"']+)"#).ok());
/// `--flag value` inside one text.
static FLAG_VALUE_REGEX: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(--[A-Za-z0-9_-]+)(\s+)([^\s;&|-]\S*)").ok());
/// The password of an address in the form of Go's drivers: `user:password@tcp(host)`.
static DRIVER_PASSWORD_REGEX: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"([^\s/:@"'=]+):([^\s@]+)@(tcp|unix)\("#).ok());
/// The password of an address.
static URL_PASSWORD_REGEX: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"://([^\s/:@]*):([^\s/@]+)@").ok());

/// `name: value` and nothing else: a file of settings that has one.
static SETTING_REGEX: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"^\s*["']?[A-Za-z_][A-Za-z0-9_.-]*["']?\s*:\s+\S"#).ok());

/// A text with the secrets in it hidden; none when it has none. Tokens are, and settings as JSON or YAML, assignments, flags
/// and addresses are looked into.
fn redact_text(whole: &str) -> Option<String> {
    redact_parts(whole, SETTING_REGEX.as_ref().is_some_and(|form| form.is_match(whole)))
}

/// The same, where it is known whether the text is one setting.
fn redact_parts(whole: &str, is_setting: bool) -> Option<String> {
    if whole.trim_start().starts_with('{')
        && let Ok(mut value @ Value::Object(_)) = serde_json::from_str::<Value>(whole)
    {
        let before = value.clone();
        redact_value(&mut value);
        return (value != before).then(|| value.to_string());
    }
    // A file of settings, in YAML or near it.
    let is_file = is_setting || (whole.contains('\n') && whole.contains(": "));
    let mut hidden = redact_tokens(whole).into_owned();
    if is_file {
        hidden = redact_lines(&hidden);
    }
    if hidden.contains('=')
        && let Some(form) = ASSIGNMENT_REGEX.as_ref()
    {
        hidden = form.replace_all(&hidden, |found: &Captures<'_>| redact_capture(found, 1, "=")).into_owned();
    }
    if hidden.contains("--")
        && let Some(form) = FLAG_VALUE_REGEX.as_ref()
    {
        hidden = form.replace_all(&hidden, |found: &Captures<'_>| redact_capture(found, 1, &found[2])).into_owned();
    }
    if hidden.contains("://")
        && let Some(form) = URL_PASSWORD_REGEX.as_ref()
    {
        hidden = form.replace_all(&hidden, |found: &Captures<'_>| format!("://{}:{HIDDEN}@", &found[1])).into_owned();
    }
    if (hidden.contains("@tcp(") || hidden.contains("@unix("))
        && let Some(form) = DRIVER_PASSWORD_REGEX.as_ref()
    {
        hidden = form.replace_all(&hidden, format!("$1:{HIDDEN}@$3(")).into_owned();
    }
    (hidden != whole).then_some(hidden)
}

/// Each line of a file with the values of secrets hidden.
fn redact_lines(whole: &str) -> String {
    whole.split_inclusive('\n').map(|line| replace_secrets(line, |_| HIDDEN.to_owned())).collect()
}

fn redact_capture(found: &Captures<'_>, name: usize, between: &str) -> String {
    let value = found.get(found.len() - 1).map_or("", |value| value.as_str());
    if names_secret(&found[name]) && is_secret_value(value) {
        format!("{}{between}{HIDDEN}", &found[name])
    } else {
        found[0].to_owned()
    }
}

/// `name: value` in YAML of either style, the value quoted or up to where it ends.
static YAML_ENTRY_REGEX: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"["']?([A-Za-z_][A-Za-z0-9_.-]*)["']?\s*:\s+("(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s{\[,}\]#][^,}\]#]*)"#)
        .ok()
});

/// A line of a YAML file with tokens and the values of secrets starred out, one star a character, so that columns stay. A
/// key in several lines is recognised only in their whole text, by [`star_tokens`].
pub fn redact_source_line(line: &str) -> String {
    replace_secrets(&star_tokens(line), |text| text.chars().map(|_| '*').collect())
}

/// Whether a value has been hidden before.
fn is_hidden(text: &str) -> bool {
    let value = text.split(',').next().unwrap_or_default().trim_end();
    value.starts_with(HIDDEN) && value.bytes().all(|byte| byte == b'*')
}

/// A line of a YAML file with other text in place of the values of secrets.
fn replace_secrets(line: &str, replacement: impl Fn(&str) -> String) -> String {
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

#[cfg(test)]
mod tests;
