//! A worker's own command line, in which names in angle brackets stand for what the intent says elsewhere.

use super::{EngineSetting, WorkerInputs, format_argument};

/// The word that stands for a setting between `<` and `>`: the intent's own field name.
pub fn placeholder_name(setting: EngineSetting) -> Option<&'static str> {
    match setting {
        EngineSetting::Model => Some("model"),
        EngineSetting::ServedName => Some("servedName"),
        EngineSetting::TensorParallel
        | EngineSetting::PipelineParallel
        | EngineSetting::DataParallel
        | EngineSetting::ExpertParallel
        | EngineSetting::Dtype
        | EngineSetting::MaxSequences
        | EngineSetting::MaxLength
        | EngineSetting::MemoryFraction
        | EngineSetting::BlockSize
        | EngineSetting::DisaggregationMode
        | EngineSetting::AdapterRank => setting.worker_field(),
    }
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

    /// Whether a command line names a setting.
    pub fn names(&self, setting: EngineSetting, command_line: &[&String]) -> bool {
        placeholder_name(setting).is_some_and(|word| {
            let name = format!("<{word}>");
            command_line.iter().any(|argument| argument.contains(&name))
        })
    }
}
