//! A worker's own command line, in which names in angle brackets stand for what the intent says elsewhere.

use super::{Inputs, Setting, argument};

/// The word that stands for a setting between `<` and `>`: the intent's own field name.
pub fn word(setting: Setting) -> Option<&'static str> {
    match setting {
        Setting::Model => Some("model"),
        Setting::ServedName => Some("servedName"),
        Setting::TensorParallel
        | Setting::PipelineParallel
        | Setting::DataParallel
        | Setting::ExpertParallel
        | Setting::Dtype
        | Setting::MaxSequences
        | Setting::MaxLength
        | Setting::MemoryFraction
        | Setting::BlockSize
        | Setting::DisaggregationMode
        | Setting::AdapterRank => setting.worker_field(),
    }
}

/// The settings that a command line may name.
pub fn settings() -> impl Iterator<Item = Setting> {
    [Setting::Model, Setting::ServedName].into_iter().chain(Setting::OF_WORKERS.iter().copied())
}

impl Inputs<'_> {
    /// A setting as it stands on a command line.
    pub fn text(&self, setting: Setting) -> Option<String> {
        self.value(setting).map(|value| argument(&value))
    }

    /// Puts the settings' values in place of their names. A name without a value stays, and is told.
    pub fn fill(&self, text: &str, unknown: &mut Vec<&'static str>) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find('<') {
            let (before, after) = rest.split_at(start);
            filled.push_str(before);
            let named = settings().find_map(|setting| {
                let word = word(setting)?;
                let tail = after.strip_prefix('<')?.strip_prefix(word)?.strip_prefix('>')?;
                Some((setting, word, tail))
            });
            let (replacement, tail) = match named {
                Some((setting, word, tail)) => {
                    let value = self.text(setting);
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
    pub fn names(&self, setting: Setting, command_line: &[&String]) -> bool {
        word(setting).is_some_and(|word| {
            let name = format!("<{word}>");
            command_line.iter().any(|argument| argument.contains(&name))
        })
    }
}
