//! A worker's own command line, in which names in angle brackets stand for what the intent says elsewhere: `<model>` for a
//! value, and `<--model>` for a flag with its value.

use super::{EngineRow, EngineSetting, EngineTable, WorkerInputs, format_argument};
use serde_json::Value;

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
                || named_flag(argument).is_some_and(|flag| table.carries(flag, setting))
        })
    }
}

/// The flag that an argument stands for: `--model` of `<--model>`.
pub fn named_flag(argument: &str) -> Option<&str> {
    let flag = argument.strip_prefix('<')?.strip_suffix('>')?;
    let name = flag.trim_start_matches('-');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (flag.starts_with('-') && !name.is_empty() && name.chars().all(is_plain)).then_some(flag)
}

/// Whether arguments say where the flags of fields stand, and so are all arguments.
pub fn names_flags(args: &[String]) -> bool {
    args.iter().any(|argument| named_flag(argument).is_some())
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

    /// Arguments with the flags and values in place of their names. A name that stands for nothing stays.
    pub fn fill_args(&self, inputs: &WorkerInputs<'_>, args: &[String], unknown: &mut UnknownNames) -> Vec<String> {
        let mut filled = Vec::with_capacity(args.len());
        for argument in args {
            let Some(flag) = named_flag(argument) else {
                filled.push(inputs.fill_placeholders(argument, &mut unknown.fields));
                continue;
            };
            match self.flag_words(flag, inputs) {
                Some(words) => filled.extend(words),
                None => {
                    unknown.flags.push(flag.to_owned());
                    filled.push(argument.clone());
                }
            }
        }
        filled
    }
}
