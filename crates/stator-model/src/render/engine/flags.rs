//! Flags by their own names (`flags`): what a program's argument parser takes, as data, and how a value is written on a
//! command line.

use super::format_argument;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlagType {
    /// Nothing: it is there or not.
    Switch,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// A text.
    Text,
    /// One of some words.
    Choice,
    /// A map in JSON.
    Json,
    /// One word or several.
    Words,
    /// `true` or `false`.
    Boolean,
}

/// A flag of a program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FlagRow {
    #[serde(rename = "type")]
    takes: FlagType,
    /// Whether `--no-NAME` says the opposite.
    #[serde(default)]
    negatable: bool,
    #[serde(default)]
    choices: Vec<String>,
    /// Other spellings, with their dashes.
    #[serde(default)]
    aliases: Vec<String>,
    /// Whether a number may end in a letter for its thousands: `16k`.
    #[serde(default)]
    suffixes: bool,
    /// Words that it takes beside its type.
    #[serde(default)]
    also: Vec<String>,
}

/// Where the flags of a table are from: a project and its version.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FlagSource {
    name: String,
    version: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FlagFile {
    #[serde(rename = "program")]
    _program: String,
    #[serde(rename = "licence")]
    _licence: String,
    sources: Vec<FlagSource>,
    flags: BTreeMap<String, FlagRow>,
}

/// The flags of one program.
#[derive(Clone, Debug)]
pub struct FlagTable {
    /// Whose argument parsers they are from.
    sources: Vec<FlagSource>,
    flags: BTreeMap<String, FlagRow>,
    /// Names by other spellings.
    aliases: BTreeMap<String, String>,
}

/// A flag as it is spelled on a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpelledFlag<'a> {
    /// Its name, without dashes: the key in `flags`.
    pub name: &'a str,
    /// What it takes.
    pub takes: FlagType,
    /// Whether it is spelled as its opposite, `--no-NAME`.
    pub negated: bool,
}

static TABLES: LazyLock<BTreeMap<&'static str, FlagTable>> = LazyLock::new(|| {
    let files = [
        ("dynamo.vllm", include_str!("../../../data/flags/vllm.json")),
        ("dynamo.sglang", include_str!("../../../data/flags/sglang.json")),
        ("dynamo.trtllm", include_str!("../../../data/flags/trtllm.json")),
        ("dynamo.mocker", include_str!("../../../data/flags/mocker.json")),
        ("dynamo.frontend", include_str!("../../../data/flags/frontend.json")),
    ];
    let read = |(module, text): (&'static str, &str)| {
        let file: FlagFile = serde_json::from_str(text).ok()?;
        let spellings = file.flags.iter().flat_map(|(name, row)| row.aliases.iter().map(move |one| (one, name)));
        let aliases = spellings.map(|(spelled, name)| (spelled.clone(), name.clone())).collect();
        Some((module, FlagTable { sources: file.sources, flags: file.flags, aliases }))
    };
    files.into_iter().filter_map(read).collect()
});

/// The flags of a Python module; none where its argument parser is not known.
pub fn flag_table(module: &str) -> Option<&'static FlagTable> {
    TABLES.get(module)
}

impl FlagTable {
    /// The flag that is spelled so: `--max-num-seqs`, `--no-enable-chunked-prefill`, `-tp`. Underscores are dashes.
    pub fn find<'a>(&'a self, spelled: &str) -> Option<SpelledFlag<'a>> {
        if let Some(name) = self.aliases.get(spelled) {
            return self.named(name, false);
        }
        let name = spelled.strip_prefix("--")?.replace('_', "-");
        let opposite = || self.named(name.strip_prefix("no-")?, true).filter(|found| self.is_negatable(found.name));
        self.named(&name, false).or_else(opposite)
    }

    fn named<'a>(&'a self, name: &str, negated: bool) -> Option<SpelledFlag<'a>> {
        let (name, row) = self.flags.get_key_value(name)?;
        Some(SpelledFlag { name, takes: row.takes, negated })
    }

    fn is_negatable(&self, name: &str) -> bool {
        self.flags.get(name).is_some_and(|row| row.negatable)
    }

    /// The newest version of each project whose argument parser it is, in words.
    pub fn newest_sources(&self) -> String {
        let mut newest: BTreeMap<&str, &str> = BTreeMap::new();
        for source in &self.sources {
            // The newest stands first.
            newest.entry(source.name.as_str()).or_insert(source.version.as_str());
        }
        newest.iter().map(|(name, version)| format!("{name} {version}")).collect::<Vec<_>>().join(" and ")
    }

    /// All names, without dashes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.flags.keys().map(String::as_str)
    }

    /// What a value should be where it is not what the flag takes.
    pub fn expected(&self, name: &str, value: &Value) -> Option<String> {
        let row = self.flags.get(name)?;
        let is_variable = value.as_str().is_some_and(|text| text.contains('$'));
        let text = format_argument(value);
        let fits = match row.takes {
            _ if is_variable && row.takes != FlagType::Switch => true,
            _ if row.also.contains(&text) => true,
            FlagType::Switch => *value == Value::Bool(true) || (row.negatable && value.is_boolean()),
            FlagType::Integer => text.parse::<i64>().is_ok() || (row.suffixes && is_short_integer(&text)),
            FlagType::Number => text.parse::<f64>().is_ok(),
            FlagType::Text => value.is_string() || value.is_number(),
            FlagType::Choice => row.choices.is_empty() || row.choices.contains(&text),
            FlagType::Json => !value.is_boolean(),
            FlagType::Words => !value.is_object() && !value.is_boolean(),
            // Some of these take a word of their own, such as a path.
            FlagType::Boolean => !value.is_object() && !value.is_array(),
        };
        (!fits).then(|| match row.takes {
            FlagType::Switch if row.negatable => "`true` or `false`".to_owned(),
            FlagType::Switch => "`true`".to_owned(),
            FlagType::Integer => "a whole number".to_owned(),
            FlagType::Number => "a number".to_owned(),
            FlagType::Text => "a text".to_owned(),
            FlagType::Choice => format!("one of `{}`", row.choices.join("`, `")),
            FlagType::Json => "a map".to_owned(),
            FlagType::Words => "a text, or a list of texts".to_owned(),
            FlagType::Boolean => "`true`, `false` or a word".to_owned(),
        })
    }
}

/// `16k` and `1M`.
fn is_short_integer(text: &str) -> bool {
    let digits = text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G', 't', 'T']);
    digits.len().saturating_add(1) == text.len() && digits.parse::<f64>().is_ok()
}

/// A flag and its value as words, spelled so and in one word or not. `None` where the value does not say that the flag is
/// there.
pub fn flag_words(table: Option<&FlagTable>, spelled: &str, value: &Value, joined: bool) -> Option<Vec<String>> {
    let found = table.and_then(|table| table.find(spelled));
    let takes = found.map(|found| found.takes);
    let is_negated = found.map_or_else(|| false, |found| found.negated);
    let texts = match (value, takes) {
        (Value::Bool(flag), Some(FlagType::Boolean)) => vec![flag.to_string()],
        (Value::Bool(flag), _) => return (*flag != is_negated).then(|| vec![spelled.to_owned()]),
        (Value::Array(items), _) => items.iter().map(format_argument).collect(),
        (Value::Null | Value::Number(_) | Value::String(_) | Value::Object(_), _) => vec![format_argument(value)],
    };
    match texts.as_slice() {
        [text] if joined => Some(vec![format!("{spelled}={text}")]),
        _ if joined => None,
        _ => Some(std::iter::once(spelled.to_owned()).chain(texts).collect()),
    }
}

/// How a flag is spelled by its name and its value: `--NAME`, or `--no-NAME` for false.
pub fn usual_spelling(table: Option<&FlagTable>, name: &str, value: &Value) -> String {
    let takes = table.and_then(|table| table.find(&format!("--{name}"))).map(|found| found.takes);
    if *value == Value::Bool(false) && takes != Some(FlagType::Boolean) {
        format!("--no-{name}")
    } else {
        format!("--{name}")
    }
}

/// All flags of a map as words, by name.
pub fn all_flag_words(table: Option<&FlagTable>, flags: &Map<String, Value>) -> Vec<String> {
    let words = |(name, value): (&String, &Value)| {
        let spelled = usual_spelling(table, name, value);
        if *value == Value::Bool(false) && spelled.starts_with("--no-") {
            return Some(vec![spelled]);
        }
        flag_words(table, &spelled, value, false)
    };
    flags.iter().filter_map(words).flatten().collect()
}

/// The value of a flag of a map, by a spelling of it.
pub fn value_of<'a>(table: Option<&FlagTable>, flags: &'a Map<String, Value>, spelled: &str) -> Option<&'a Value> {
    let found = table.and_then(|table| table.find(spelled)).map(|found| found.name.to_owned());
    let name = found.or_else(|| Some(spelled.strip_prefix("--")?.to_owned()))?;
    flags.get(&name)
}

/// A word as a shell reads it: as it is, in double quotes where it has variables, else in single quotes. `None` for what
/// would need more.
pub fn shell_word(word: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+^".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        Some(word.to_owned())
    } else if word.contains('$') {
        (!word.contains(['"', '`', '\\'])).then(|| format!("\"{word}\""))
    } else {
        (!word.contains('\'')).then(|| format!("'{word}'"))
    }
}

/// A flag of arguments.
#[derive(Clone, Copy, Debug)]
pub struct GivenFlag<'a> {
    /// As it is spelled.
    pub spelled: &'a str,
    /// What it is.
    pub flag: SpelledFlag<'a>,
}

/// The flags of arguments that a table knows, with the words of their values.
pub fn split_flags<'a>(table: &'a FlagTable, args: &'a [String]) -> Vec<(GivenFlag<'a>, Vec<String>)> {
    let mut found = Vec::new();
    let mut rest = args;
    while let [first, after @ ..] = rest {
        rest = after;
        let (spelled, joined) =
            first.split_once('=').map_or((first.as_str(), None), |(name, value)| (name, Some(value)));
        if !spelled.starts_with('-') {
            continue;
        }
        let Some(flag) = table.find(spelled) else { continue };
        let count = match flag.takes {
            FlagType::Switch => 0,
            _ if joined.is_some() => 0,
            FlagType::Words => after.iter().take_while(|word| !word.starts_with('-')).count(),
            FlagType::Integer
            | FlagType::Number
            | FlagType::Text
            | FlagType::Choice
            | FlagType::Json
            | FlagType::Boolean => after.iter().take(1).filter(|word| !word.starts_with("--")).count(),
        };
        let (values, behind) = after.split_at(count);
        rest = behind;
        let words = joined.map_or_else(|| values.to_vec(), |value| vec![value.to_owned()]);
        found.push((GivenFlag { spelled, flag }, words));
    }
    found
}

impl FlagTable {
    /// What words say of a flag, as a value that renders to exactly these, and that the flag takes.
    pub fn value_of_words(&self, flag: SpelledFlag<'_>, words: &[String]) -> Option<Value> {
        read_value(flag.takes, flag.negated, words).filter(|value| self.expected(flag.name, value).is_none())
    }
}

/// What words say of a flag, as a value that renders to exactly these.
fn read_value(takes: FlagType, negated: bool, words: &[String]) -> Option<Value> {
    let [text] = words else {
        return match (words, takes) {
            ([], FlagType::Switch) => Some(Value::Bool(!negated)),
            ([], _) => None,
            (_, FlagType::Words) => Some(words.iter().map(|word| Value::from(word.as_str())).collect()),
            (_, _) => None,
        };
    };
    let read = match takes {
        FlagType::Switch => return None,
        FlagType::Integer | FlagType::Number | FlagType::Json => serde_json::from_str(text).ok(),
        FlagType::Boolean => text.parse::<bool>().ok().map(Value::Bool),
        FlagType::Text | FlagType::Choice | FlagType::Words => None,
    };
    let same = read.filter(|value: &Value| !value.is_null() && !value.is_string() && format_argument(value) == *text);
    Some(same.unwrap_or_else(|| Value::from(text.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_table_of_every_program_is_read() {
        for module in ["dynamo.vllm", "dynamo.sglang", "dynamo.trtllm", "dynamo.mocker", "dynamo.frontend"] {
            let table = flag_table(module).unwrap();
            assert!(table.names().count() > 100 && !table.newest_sources().is_empty(), "{module}");
        }
    }

    /// What is read of words renders to these words, and what is rendered of a value is read as it.
    #[test]
    fn a_value_is_read_as_it_is_rendered() {
        let table = flag_table("dynamo.vllm");
        let lines = [
            ("--max-num-batched-tokens", &["8192"][..]),
            ("--enable-prefix-caching", &[]),
            ("--no-enable-prefix-caching", &[]),
            ("--gpu-memory-utilization", &["0.90"]),
            ("--kv-transfer-config", &["{\"kv_role\":\"kv_both\"}"]),
            ("--kv-transfer-config", &["{\"kv_role\": \"kv_both\"}"]),
            ("--max-model-len", &["128k"]),
            ("--served-model-name", &["a", "b"]),
        ];
        for (spelled, words) in lines {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let flag = table.unwrap().find(spelled).unwrap();
            let value = read_value(flag.takes, flag.negated, &words).unwrap();
            let rendered = flag_words(table, spelled, &value, false).unwrap();
            assert_eq!(rendered, [vec![spelled.to_owned()], words].concat());
            assert_eq!(table.unwrap().expected(flag.name, &value), None, "{spelled}");
        }
        assert_eq!(flag_words(table, "--async-scheduling", &json!(false), false), None);
        assert_eq!(usual_spelling(table, "async-scheduling", &json!(false)), "--no-async-scheduling");
    }
}
