//! A worker's own command line, in which names in angle brackets stand for what the intent says elsewhere: `<model>` for a
//! value, and `<--model>` for a flag with its value.

use super::flags::{self, FlagTable};
use super::{EngineRow, EngineSetting, EngineTable, WorkerInputs, format_argument};
use crate::intent::model::Worker;
use serde_json::{Map, Value};
use std::ops::Range;

/// The word that stands for a setting between `<` and `>`: the intent's own field name.
pub fn placeholder_name(setting: EngineSetting) -> Option<&'static str> {
    setting.field().filter(|_| setting != EngineSetting::AdapterRank)
}

/// The settings that a command line may name.
pub fn placeholder_settings() -> impl Iterator<Item = EngineSetting> {
    [EngineSetting::Model, EngineSetting::ServedName].into_iter().chain(EngineSetting::WORKER_SETTINGS.iter().copied())
}

impl WorkerInputs<'_> {
    /// A setting as it stands on a command line.
    pub fn setting_text(&self, setting: EngineSetting) -> Option<String> {
        self.setting_value(setting).map(|value| format_argument(&value))
    }

    /// Puts the settings' values in place of their names. A name without a value stays, and is reported.
    pub fn fill_placeholders(&self, text: &str, unknown: &mut Vec<&'static str>) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find('<') {
            let (before, after) = rest.split_at(start);
            filled.push_str(before);
            let named = placeholder_settings().find_map(|setting| {
                let word = placeholder_name(setting)?;
                let tail = after.strip_prefix('<')?.strip_prefix(word)?.strip_prefix('>')?;
                Some((setting, word, tail))
            });
            let (replacement, tail) = match named {
                Some((setting, word, tail)) => {
                    let value = self.setting_text(setting);
                    if value.is_none() {
                        unknown.push(word);
                    }
                    (value.unwrap_or_else(|| format!("<{word}>")), tail)
                }
                None => ("<".to_owned(), after.get(1..).unwrap_or_default()),
            };
            filled.push_str(&replacement);
            rest = tail;
        }
        filled.push_str(rest);
        filled
    }

    /// Whether a command line names a setting, by its value or by a flag that carries it.
    pub fn names(&self, table: &EngineTable, setting: EngineSetting, command_line: &[&String]) -> bool {
        let by_value = placeholder_name(setting).map(|word| format!("<{word}>"));
        command_line.iter().any(|argument| {
            by_value.as_ref().is_some_and(|name| argument.contains(name))
                || flag_names(argument).iter().any(|one| table.carries(one.flag, setting))
        })
    }
}

/// The name of a flag on a command line: `<--model>` for the flag and its value, `<--model=>` for both in one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagName<'a> {
    /// The flag as it is spelled: `--model`.
    pub flag: &'a str,
    /// Whether flag and value are one word.
    pub joined: bool,
    /// Where the name stands, with its brackets.
    pub range: Range<usize>,
}

/// The names of flags in an item of a command line: of an item that is nothing else, else those of long flags in its text.
pub fn flag_names(item: &str) -> Vec<FlagName<'_>> {
    only_flag_names(item).unwrap_or_else(|| {
        let is_certain = |name: &FlagName<'_>| {
            let before = item.get(..name.range.start).and_then(|before| before.chars().next_back());
            let is_long =
                name.flag.strip_prefix("--").is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()));
            is_long && before != Some('<')
        };
        let mut names = all_flag_names(item);
        names.retain(is_certain);
        names
    })
}

fn all_flag_names(item: &str) -> Vec<FlagName<'_>> {
    let mut found = Vec::new();
    for (start, _) in item.match_indices("<-") {
        let rest = item.get(start.saturating_add(1)..).unwrap_or_default();
        let Some((inside, _)) = rest.split_once('>') else { break };
        let flag = inside.strip_suffix('=').unwrap_or(inside);
        let name = flag.trim_start_matches('-');
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !name.is_empty() && flag.len() <= name.len().saturating_add(2) && name.chars().all(is_plain) {
            let end = start.saturating_add(inside.len()).saturating_add(2);
            found.push(FlagName { flag, joined: flag.len() < inside.len(), range: start..end });
        }
    }
    found
}

/// The names of flags of an item that is nothing else: each stands for words of its own.
pub fn only_flag_names(item: &str) -> Option<Vec<FlagName<'_>>> {
    let names = all_flag_names(item);
    let words: Vec<&str> = item.split_whitespace().collect();
    let is_same = |(name, word): (&FlagName<'_>, &&str)| item.get(name.range.clone()) == Some(*word);
    (!names.is_empty() && names.len() == words.len() && names.iter().zip(&words).all(is_same)).then_some(names)
}

/// Whether arguments say where the flags of fields stand, and so are all arguments.
pub fn names_flags(args: &[String]) -> bool {
    args.iter().any(|argument| only_flag_names(argument).is_some())
}

/// What fills a command line.
pub trait LineValues {
    /// A flag as it is spelled, with its value, as words; `None` where nothing gives it.
    fn flag_words(&self, name: &FlagName<'_>) -> Option<Vec<String>>;

    /// A text with the values of fields in place of their names. A name without a value stays, and is reported.
    fn fill_text(&self, text: &str, unknown: &mut UnknownNames) -> String;

    /// The items of a command line with flags and values in place of their names. A name that stands for nothing stays.
    fn fill(&self, items: &[String], unknown: &mut UnknownNames) -> Vec<String> {
        let mut filled = Vec::with_capacity(items.len());
        for item in items {
            if let Some(names) = only_flag_names(item) {
                for name in names {
                    match self.flag_words(&name) {
                        Some(words) => filled.extend(words),
                        None => {
                            unknown.flags.push(name.flag.to_owned());
                            filled.extend(item.get(name.range).map(str::to_owned));
                        }
                    }
                }
                continue;
            }
            let mut text = String::with_capacity(item.len());
            let mut from = 0;
            for name in flag_names(item) {
                let words = self.flag_words(&name);
                // One word of a script keeps flag and value together, whatever is quoted.
                let quoted = words
                    .and_then(|words| words.iter().map(|word| flags::shell_word(word)).collect::<Option<Vec<_>>>());
                text.push_str(&self.fill_text(item.get(from..name.range.start).unwrap_or_default(), unknown));
                match quoted {
                    Some(words) => text.push_str(&words.join(" ")),
                    None => {
                        unknown.flags.push(name.flag.to_owned());
                        text.push_str(item.get(name.range.clone()).unwrap_or_default());
                    }
                }
                from = name.range.end;
            }
            text.push_str(&self.fill_text(item.get(from..).unwrap_or_default(), unknown));
            filled.push(text);
        }
        filled
    }
}

/// A worker's command line, filled from its engine's table.
struct WorkerValues<'a, 'b> {
    table: &'a EngineTable,
    inputs: &'a WorkerInputs<'b>,
}

impl LineValues for WorkerValues<'_, '_> {
    fn flag_words(&self, name: &FlagName<'_>) -> Option<Vec<String>> {
        let flags = &self.inputs.worker.flags;
        let table = flags::flag_table(self.table.module);
        match flags::value_of(table, flags, name.flag) {
            Some(value) => flags::flag_words(table, name.flag, value, name.joined),
            None => {
                let words = self.table.flag_words(name.flag, self.inputs)?;
                if !name.joined {
                    return Some(words);
                }
                let [flag, value] = words.as_slice() else { return None };
                Some(vec![format!("{flag}={value}")])
            }
        }
    }

    fn fill_text(&self, text: &str, unknown: &mut UnknownNames) -> String {
        self.inputs.fill_placeholders(text, &mut unknown.fields)
    }
}

/// What of a command line could not be filled in.
#[derive(Debug, Default)]
pub struct UnknownNames {
    /// Names of fields without a value.
    pub fields: Vec<&'static str>,
    /// Flags that no field carries, or whose field has no value.
    pub flags: Vec<String>,
}

impl EngineTable {
    /// Whether a flag says a setting, as its value, as a switch, or in the engine's options.
    fn carries(&self, flag: &str, setting: EngineSetting) -> bool {
        self.setting_of_flag(flag) == Some(setting)
            || self.switches().any(|(own, name, _)| own == setting && name == flag)
            || self.toggles().any(|(own, name)| own == setting && name == flag)
            || (self.options_flag == Some(flag) && self.option_of_setting(setting).is_some())
    }

    /// A flag as it is spelled, and its value, where a field or the worker's role gives it.
    pub fn flag_words(&self, flag: &str, inputs: &WorkerInputs<'_>) -> Option<Vec<String>> {
        if let Some(setting) = self.setting_of_flag(flag) {
            return Some(vec![flag.to_owned(), inputs.setting_text(setting)?]);
        }
        if self.options_flag == Some(flag) {
            let options = self.options(inputs);
            return (!options.is_empty()).then(|| vec![flag.to_owned(), Value::Object(options).to_string()]);
        }
        self.rows.iter().find_map(|row| match *row {
            EngineRow::Switch(setting, name, _) => {
                let size = inputs.setting_value(setting).and_then(|value| value.as_u64());
                (name == flag && size.is_some_and(|size| size > 1)).then(|| vec![flag.to_owned()])
            }
            EngineRow::Fixed(when, words) if inputs.matches_condition(when) => {
                let start = words.iter().position(|word| *word == flag)?;
                let (first, rest) = words.get(start..)?.split_first()?;
                let values = rest.iter().take_while(|word| !word.starts_with("--"));
                Some(std::iter::once(first).chain(values).map(|&word| word.to_owned()).collect())
            }
            EngineRow::Toggle(setting, name) => {
                let is_on = inputs.setting_value(setting) == Some(Value::Bool(true));
                (name == flag && is_on).then(|| vec![flag.to_owned()])
            }
            EngineRow::Flag(..) | EngineRow::OptionField(..) | EngineRow::Fixed(..) | EngineRow::FixedOptions(..) => {
                None
            }
        })
    }

    /// Items of a worker's command line with values in place of names, and behind them the flags that no item names: but for
    /// a shell's script, which they are no part of.
    pub fn fill_args(&self, inputs: &WorkerInputs<'_>, args: &[String], unknown: &mut UnknownNames) -> Vec<String> {
        let mut filled = self.fill_names(inputs, args, unknown);
        if !runs_script(inputs.worker.own_command().as_deref()) {
            let table = flags::flag_table(self.module);
            filled.extend(flags::all_flag_words(table, &self.unnamed_flags(inputs.worker)));
        }
        filled
    }

    /// Items of a worker's command line with values in place of names.
    pub fn fill_names(&self, inputs: &WorkerInputs<'_>, items: &[String], unknown: &mut UnknownNames) -> Vec<String> {
        WorkerValues { table: self, inputs }.fill(items, unknown)
    }

    /// The flags of a worker that its own command line does not name.
    pub fn unnamed_flags(&self, worker: &Worker) -> Map<String, Value> {
        let items: Vec<String> =
            worker.own_command().into_iter().flatten().chain(worker.args.iter().cloned()).collect();
        unnamed_flags(flags::flag_table(self.module), &worker.flags, &items)
    }
}

/// Whether a command is a shell that runs a script.
pub fn runs_script(command: Option<&[String]>) -> bool {
    let Some([program, options @ ..]) = command else { return false };
    program.rsplit('/').next().is_some_and(|name| name.ends_with("sh"))
        && options.iter().any(|word| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c'))
}

fn unnamed_flags(table: Option<&FlagTable>, flags: &Map<String, Value>, items: &[String]) -> Map<String, Value> {
    let named: Vec<FlagName<'_>> = items.iter().flat_map(|item| flag_names(item)).collect();
    let is_named = |name: &str| {
        named.iter().any(|one| {
            let found = table.and_then(|table| table.find(one.flag)).map(|found| found.name);
            found == Some(name) || (found.is_none() && one.flag.strip_prefix("--") == Some(name))
        })
    };
    flags.iter().filter(|(name, _)| !is_named(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// A frontend's command line, filled from its flags.
pub struct FrontendValues<'a>(pub &'a Map<String, Value>);

/// What the operator starts for a frontend.
pub const FRONTEND_MODULE: &str = "dynamo.frontend";

impl LineValues for FrontendValues<'_> {
    fn flag_words(&self, name: &FlagName<'_>) -> Option<Vec<String>> {
        let table = flags::flag_table(FRONTEND_MODULE);
        flags::flag_words(table, name.flag, flags::value_of(table, self.0, name.flag)?, name.joined)
    }

    fn fill_text(&self, text: &str, _unknown: &mut UnknownNames) -> String {
        text.to_owned()
    }
}

impl FrontendValues<'_> {
    /// The program of a frontend that has flags and no command of its own, and its arguments: those that are written, behind
    /// the module unless they start it themselves, and the flags that no argument names.
    pub fn args(&self, args: &[String], is_script: bool, unknown: &mut UnknownNames) -> Vec<String> {
        let mut filled = self.fill(args, unknown);
        if !is_script {
            let table = flags::flag_table(FRONTEND_MODULE);
            filled.extend(flags::all_flag_words(table, &unnamed_flags(table, self.0, args)));
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::{flag_names, names_flags};

    #[test]
    fn names_of_flags_are_those_that_nothing_else_is() {
        let names = |item: &str| flag_names(item).iter().map(|name| name.flag.to_owned()).collect::<Vec<_>>();
        assert_eq!(names("<--model> <-tp> <--max-model-len=>"), ["--model", "-tp", "--max-model-len"]);
        assert_eq!(names("exec x <--model> \\\n <--max-model-len=>"), ["--model", "--max-model-len"]);
        assert_eq!(names("cat <<-EOF>/tmp/x"), Vec::<String>::new());
        assert_eq!(names("cat <<--EOF>/tmp/x"), Vec::<String>::new());
        assert_eq!(names("--regex=a<-b>c"), Vec::<String>::new());
        assert!(!names_flags(&["echo <--model>".to_owned()]) && names_flags(&["<--model>".to_owned()]));
    }
}
