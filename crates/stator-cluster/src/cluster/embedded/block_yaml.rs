//! A small part of YAML that is quick to write and to read again: block maps and lists, one scalar a line.
//!
//! stator's own files are in it, and ten thousand of them are read at every start. [`read`] takes nothing but what
//! [`write`] may give, so whatever it takes means the same to every reader of YAML; anything else, such as a file that a
//! person edited, goes to the full parser.

use serde_json::{Map, Number, Value};

/// How deep values may be nested; deeper ones are left to the full parser and serializer.
const MAX_DEPTH: usize = 100;
/// YAML readers look only so far for the colon after a key (1024 characters).
const MAX_KEY_LENGTH: usize = 1000;

/// The text of a map; `None` where this part of YAML cannot say it.
pub(super) fn write(value: &Value) -> Option<String> {
    let map = value.as_object().filter(|map| !map.is_empty())?;
    let mut text = String::with_capacity(8 * 1024);
    write_map(map, 0, false, 0, &mut text)?;
    Some(text)
}

/// Entries of a map, each on a line of its own; the first one continues the line of a list's dash.
fn write_map(
    map: &Map<String, Value>,
    indent: usize,
    mut continues: bool,
    depth: usize,
    text: &mut String,
) -> Option<()> {
    for (key, value) in map {
        if !std::mem::take(&mut continues) {
            push_indent(indent, text);
        }
        let start = text.len();
        if is_plain_key(key) {
            text.push_str(key)
        } else {
            push_quoted(key, text)
        }
        if text.len() - start > MAX_KEY_LENGTH || depth >= MAX_DEPTH {
            return None;
        }
        text.push(':');
        match value {
            Value::Object(map) if !map.is_empty() => {
                text.push('\n');
                write_map(map, indent + 2, false, depth + 1, text)?;
            }
            Value::Array(items) if !items.is_empty() => {
                text.push('\n');
                write_list(items, indent, false, depth + 1, text)?;
            }
            scalar @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_)) => {
                text.push(' ');
                push_scalar(scalar, text);
            }
        }
    }
    Some(())
}

fn write_list(items: &[Value], indent: usize, mut continues: bool, depth: usize, text: &mut String) -> Option<()> {
    for item in items {
        if depth >= MAX_DEPTH {
            return None;
        }
        if !std::mem::take(&mut continues) {
            push_indent(indent, text);
        }
        text.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => write_map(map, indent + 2, true, depth + 1, text)?,
            Value::Array(items) if !items.is_empty() => write_list(items, indent + 2, true, depth + 1, text)?,
            scalar @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_)) => {
                push_scalar(scalar, text);
            }
        }
    }
    Some(())
}

fn push_indent(indent: usize, text: &mut String) {
    text.extend(std::iter::repeat_n(' ', indent));
}

/// A scalar or an empty container, and the end of its line.
fn push_scalar(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&number.to_string()),
        Value::String(string) if is_plain(string) => text.push_str(string),
        Value::String(string) => push_quoted(string, text),
        Value::Array(_) => text.push_str("[]"),
        Value::Object(_) => text.push_str("{}"),
    }
    text.push('\n');
}

/// A JSON string, which is a double-quoted scalar of YAML, with those characters escaped too that YAML does not print.
fn push_quoted(string: &str, text: &mut String) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            '\0'..' ' | '\u{7f}'..='\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            character => text.push(character),
        }
    }
    text.push('"');
}

/// Text that needs no quotes as a key: letters, digits and a few signs, and no word or number that YAML reads otherwise.
fn is_plain_key(text: &str) -> bool {
    let sign = |byte: u8| matches!(byte, b'_' | b'.' | b'/' | b'-');
    starts_plain(text) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || sign(byte)) && !is_reserved(text)
}

/// Text that needs no quotes as a value: like a key, with single spaces, and colons that end no word.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let next = |at: usize| bytes.get(at + 1).copied();
    let fits = |(at, byte): (usize, &u8)| match byte {
        b'_' | b'.' | b'/' | b'-' | b',' | b'=' | b'+' | b'(' | b')' => true,
        b':' => next(at).is_some_and(|next| next.is_ascii_alphanumeric() || next == b'/'),
        b' ' => next(at).is_some_and(|next| next.is_ascii_alphanumeric()),
        other => other.is_ascii_alphanumeric(),
    };
    starts_plain(text) && bytes.iter().enumerate().all(fits) && !is_reserved(text)
}

/// Starts with a letter or a slash, or with dashes before a letter, as options of a command do.
fn starts_plain(text: &str) -> bool {
    let letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphabetic);
    match text.as_bytes() {
        [b'-', b'-', rest @ ..] | [b'-', rest @ ..] => letter(rest.first()),
        [b'/', ..] => true,
        bytes => letter(bytes.first()),
    }
}

/// Words that some reader of YAML, of any age, takes for something else than text.
fn is_reserved(text: &str) -> bool {
    const RESERVED_WORDS: [&str; 12] =
        ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "inf", "nan", "infinity"];
    text.len() <= 9 && {
        let bare = text.trim_start_matches('-');
        RESERVED_WORDS.iter().any(|word| bare.eq_ignore_ascii_case(word))
    }
}

/// Reads what [`write`] gave; `None` for anything else.
pub(super) fn read(text: &str) -> Option<Value> {
    let mut lines = YamlLineReader { rest: text, line: None };
    lines.advance();
    let map = lines.read_map(0, None, 0)?;
    (lines.line.is_none() && lines.rest.is_empty()).then_some(Value::Object(map))
}

/// One line without its indentation.
#[derive(Clone, Copy)]
struct YamlLine<'a> {
    indent: usize,
    content: &'a str,
}

struct YamlLineReader<'a> {
    rest: &'a str,
    /// The line that is looked at; `None` after the last one, or where the text is none of ours.
    line: Option<YamlLine<'a>>,
}

impl<'a> YamlLineReader<'a> {
    fn advance(&mut self) {
        self.line = self.rest.split_once('\n').map(|(line, rest)| {
            self.rest = rest;
            let content = line.trim_start_matches(' ');
            YamlLine { indent: line.len() - content.len(), content }
        });
    }

    /// The line that is looked at, if it is indented so far, and is or is not a list's item.
    fn line_at(&self, indent: usize, item: bool) -> Option<&'a str> {
        let line = self.line.filter(|line| line.indent == indent)?;
        (line.content.starts_with("- ") == item).then_some(line.content)
    }

    /// A map; `first` is its first entry where that stands behind a dash.
    fn read_map(&mut self, indent: usize, first: Option<&'a str>, depth: usize) -> Option<Map<String, Value>> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut map = Map::new();
        let mut entry = first.or_else(|| self.line_at(indent, false));
        while let Some(content) = entry {
            let (key, value) = split_key(content)?;
            self.advance();
            let value = match value {
                Some(scalar) => read_scalar(scalar)?,
                None if self.line_at(indent, true).is_some() => {
                    Value::Array(self.read_list(indent, None, depth + 1)?)
                }
                None => Value::Object(self.read_map(indent + 2, None, depth + 1)?),
            };
            if map.insert(key, value).is_some() {
                return None;
            }
            entry = self.line_at(indent, false);
        }
        (!map.is_empty()).then_some(map)
    }

    /// A list; `first` is its first item where that stands behind another list's dash.
    fn read_list(&mut self, indent: usize, first: Option<&'a str>, depth: usize) -> Option<Vec<Value>> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut items = Vec::new();
        let mut item = first.or_else(|| self.line_at(indent, true));
        while let Some(content) = item {
            let content = content.strip_prefix("- ")?;
            items.push(if content.starts_with("- ") {
                Value::Array(self.read_list(indent + 2, Some(content), depth + 1)?)
            } else if split_key(content).is_some() {
                Value::Object(self.read_map(indent + 2, Some(content), depth + 1)?)
            } else {
                self.advance();
                read_scalar(content)?
            });
            item = self.line_at(indent, true);
        }
        Some(items)
    }
}

/// A key, and the scalar behind it if there is one on the line.
fn split_key(content: &str) -> Option<(String, Option<&str>)> {
    let (key, rest) = if content.starts_with('"') {
        let end = closing_quote(content)?;
        let (quoted, rest) = content.split_at_checked(end + 1)?;
        (unquote(quoted)?, rest.strip_prefix(':')?)
    } else {
        let (key, rest) = content.split_once(':')?;
        if !is_plain_key(key) {
            return None;
        }
        (key.to_owned(), rest)
    };
    match rest.strip_prefix(' ') {
        Some(scalar) => Some((key, Some(scalar))),
        None => rest.is_empty().then_some((key, None)),
    }
}

/// Where the string ends that the text starts with.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    let mut bytes = text.bytes().enumerate().skip(1);
    bytes.find_map(|(at, byte)| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends.then_some(at)
    })
}

fn unquote(quoted: &str) -> Option<String> {
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    let plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'\\' && byte != b'"';
    if inner.bytes().all(plain) {
        return Some(inner.to_owned());
    }
    let text: String = serde_json::from_str(quoted).ok()?;
    // Only what would be written so: a folded line or a character that YAML does not print is not ours.
    let mut again = String::with_capacity(quoted.len());
    push_quoted(&text, &mut again);
    (again == quoted).then_some(text)
}

fn read_scalar(text: &str) -> Option<Value> {
    Some(match text {
        "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "{}" => Value::Object(Map::new()),
        "[]" => Value::Array(Vec::new()),
        _ if text.starts_with('"') => Value::String(unquote(text)?),
        _ if is_plain(text) => Value::String(text.to_owned()),
        _ => Value::Number(number(text)?),
    })
}

/// A number as JSON writes it.
fn number(text: &str) -> Option<Number> {
    let number = if let Ok(whole) = text.parse::<i64>() {
        Number::from(whole)
    } else if let Ok(whole) = text.parse::<u64>() {
        Number::from(whole)
    } else {
        Number::from_f64(text.parse().ok()?)?
    };
    // `+1`, `007` and `.5` are not ours.
    (number.to_string() == text).then_some(number)
}
