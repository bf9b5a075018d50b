//! A container's command line: which program it starts, and with which flags. Also where a shell starts it.

use super::shell;
use crate::intent::model::Engine;
use crate::render::engine::flags::{self, FlagType};
use crate::render::engine::{self, EngineSetting, EngineTable};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;

/// A container's `command` and `args`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// `command`; `None` when it is not there.
    pub command: Option<Vec<String>>,
    /// `args`.
    pub args: Vec<String>,
}

/// One word that the program gets.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CommandToken {
    /// Which item of `command` followed by `args` it stands in.
    item: usize,
    /// Where in that item.
    range: Range<usize>,
    /// As it is written, quotes included.
    raw: String,
    text: String,
    plain: bool,
    operator: bool,
}

/// A setting found on a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSetting {
    /// Which.
    pub setting: EngineSetting,
    /// Its value, with a variable of the container's put in.
    pub value: String,
    item: usize,
    range: Range<usize>,
    /// Whether the text is the value, so that a name may stand in its place.
    pub literal: bool,
    /// Whether the value is a variable's that the manifest does not say.
    pub unresolved: bool,
}

/// What a command line starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonProgram {
    /// The Python module, such as `dynamo.vllm`.
    pub module: String,
    /// Whether a shell starts it.
    pub in_shell: bool,
    tokens: Vec<CommandToken>,
    /// The flags that stand elsewhere in its script: what they are of is not certain.
    elsewhere: Vec<String>,
}

/// The engines that have a module.
const ENGINES_WITH_MODULE: [Engine; 4] = [Engine::Vllm, Engine::Sglang, Engine::Trtllm, Engine::Mocker];

/// The engine that a module is.
pub fn engine_of(module: &str) -> Option<Engine> {
    ENGINES_WITH_MODULE.into_iter().find(|engine| engine::table(*engine).is_some_and(|table| table.module == module))
}

impl CommandLine {
    fn items(&self) -> impl Iterator<Item = &String> {
        self.command.iter().flatten().chain(&self.args)
    }

    fn tokens(&self) -> (Vec<CommandToken>, bool) {
        let items: Vec<&String> = self.items().collect();
        let is_shell = |text: &str| matches!(text.rsplit('/').next(), Some("sh" | "bash" | "dash" | "zsh"));
        // The script is the item after the last option, which holds a `c`: `sh -c`, `bash -ec`.
        let script = items.iter().position(|item| item.starts_with('-') && item.ends_with('c'));
        if let (Some(first), Some(option)) = (items.first(), script)
            && is_shell(first)
            && let Some(script) = items.get(option.saturating_add(1))
        {
            let words = shell::split_words(script).into_iter().map(|word| CommandToken {
                item: option.saturating_add(1),
                raw: script.get(word.range.clone()).unwrap_or_default().to_owned(),
                range: word.range,
                text: word.text,
                plain: word.plain,
                operator: word.operator,
            });
            return (words.collect(), true);
        }
        let tokens = items.iter().enumerate().map(|(item, text)| CommandToken {
            item,
            range: 0..text.len(),
            raw: (*text).clone(),
            text: (*text).clone(),
            plain: true,
            operator: false,
        });
        (tokens.collect(), false)
    }

    /// The Python module that is started with `-m`, and what follows it up to the end of its command.
    pub fn program(&self) -> Option<PythonProgram> {
        let (tokens, in_shell) = self.tokens();
        let at = tokens.windows(2).position(|pair| match pair {
            [flag, module] => flag.text == "-m" && module.text.starts_with("dynamo."),
            _ => false,
        })?;
        let mut tokens = tokens;
        let mut rest = tokens.split_off(at.saturating_add(1)).into_iter();
        let module = rest.next()?.text;
        let own: Vec<CommandToken> = rest.by_ref().take_while(|token| !token.operator).collect();
        let others = tokens.into_iter().chain(rest).filter(|token| token.text.starts_with('-'));
        let elsewhere = others.map(|token| token.text.split('=').next().unwrap_or_default().to_owned()).collect();
        Some(PythonProgram { module, in_shell, tokens: own, elsewhere })
    }

    /// Whether it holds a text that an intent takes for the name of a setting or of a flag, such as `<model>`.
    pub fn has_placeholders(&self) -> bool {
        let names: Vec<String> = engine::placeholder_settings()
            .filter_map(engine::placeholder_name)
            .map(|word| format!("<{word}>"))
            .collect();
        self.items().any(|item| !engine::flag_names(item).is_empty() || names.iter().any(|name| item.contains(name)))
    }

    /// The value of a flag of any program, where it is written out.
    pub fn value_of(&self, flag: &str) -> Option<String> {
        let (tokens, _) = self.tokens();
        let value = tokens.iter().enumerate().find_map(|(index, token)| {
            if token.text == flag {
                return tokens
                    .get(index.saturating_add(1))
                    .filter(|value| !value.operator)
                    .map(|value| value.text.as_str());
            }
            token.text.strip_prefix(flag)?.strip_prefix('=')
        })?;
        (!value.is_empty() && !value.starts_with('-') && !value.contains(['$', '<', '{'])).then(|| value.to_owned())
    }

    /// The command line with names in place of values, where the text of a value stands for itself, and in place of flags
    /// with their values.
    pub fn with_names(&self, values: &[&FoundSetting], flags: &[ScriptFlag]) -> Self {
        let mut items: Vec<String> = self.items().cloned().collect();
        let of_value = |found: &&FoundSetting| {
            Some((found.item, found.range.clone(), format!("<{}>", engine::placeholder_name(found.setting)?)))
        };
        let literal = values.iter().copied().filter(|found| found.literal);
        let mut named: Vec<(usize, Range<usize>, String)> = literal.filter_map(|found| of_value(&found)).collect();
        named.extend(flags.iter().map(|flag| (flag.item, flag.range.clone(), format!("<{}>", flag.spelled))));
        // From the back, so that places before stay where they are.
        named.sort_by_key(|(item, range, _)| std::cmp::Reverse((*item, range.start)));
        for (item, range, name) in named {
            if let Some(item) = items.get_mut(item).filter(|item| item.get(range.clone()).is_some()) {
                item.replace_range(range, &name);
            }
        }
        let args = items.split_off(self.command.as_ref().map_or(0, Vec::len));
        Self { command: self.command.as_ref().map(|_| items), args }
    }
}

impl ScriptFlag {
    /// Whether it is the flag of a setting, with its value.
    pub fn covers(&self, found: &FoundSetting) -> bool {
        self.item == found.item && self.range.contains(&found.range.start)
    }
}

/// A flag of a script, which `flags` can say.
#[derive(Clone, Debug)]
pub struct ScriptFlag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// What it says; `None` for a flag of a field.
    pub value: Option<Value>,
    /// As it is spelled.
    pub spelled: String,
    /// Which item of the line it stands in.
    item: usize,
    /// Where in that item, with its value.
    range: Range<usize>,
}

/// How many characters of quoting stand around a text that is written out; none where it is not.
fn quote_width(raw: &str, text: &str, plain: bool) -> Option<usize> {
    if raw == text {
        return plain.then_some(0);
    }
    let quoted = |quote: char| raw.strip_prefix(quote)?.strip_suffix(quote);
    let expanded = |text: &str| text.contains(['$', '`', '\\']);
    (quoted('\'') == Some(text) || (quoted('"') == Some(text) && !expanded(text))).then_some(1)
}

impl PythonProgram {
    /// The settings that an engine's flags carry, in the order they stand in. Of a flag given twice, both.
    pub fn settings(&self, table: &EngineTable, env: &BTreeMap<String, String>) -> Vec<FoundSetting> {
        let mut found = Vec::new();
        let mut tokens = self.tokens.iter().peekable();
        while let Some(token) = tokens.next() {
            if self.elsewhere.iter().any(|flag| token.text.split('=').next() == Some(flag)) {
                continue;
            }
            if let Some((flag, value)) = token.text.split_once('=')
                && let Some(setting) = table.setting_of_flag(flag)
            {
                let raw = token.raw.strip_prefix(flag).and_then(|rest| rest.strip_prefix('='));
                found.push(self.found_setting(setting, (value, raw), token, env));
            } else if let Some(setting) = table.setting_of_flag(&token.text)
                && let Some(value) = tokens.next_if(|value| !value.operator)
            {
                found.push(self.found_setting(setting, (&value.text, Some(&value.raw)), value, env));
            }
        }
        found
    }

    /// The flags of a script that stand there as `flags` and fields are rendered, each once: with one blank before the value,
    /// and quoted no more than is needed.
    pub fn script_flags(&self, line: &CommandLine, table: &EngineTable, found: &[FoundSetting]) -> Vec<ScriptFlag> {
        let Some(flag_table) = flags::flag_table(&self.module) else { return Vec::new() };
        let items: Vec<&String> = line.items().collect();
        let mut all: Vec<ScriptFlag> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        let mut rest = self.tokens.as_slice();
        while let [first, after @ ..] = rest {
            rest = after;
            let (spelled, joined) = match first.text.split_once('=') {
                Some((spelled, _)) => (spelled, true),
                None => (first.text.as_str(), false),
            };
            if !spelled.starts_with("--") {
                continue;
            }
            names.push(spelled.to_owned());
            let Some(flag) = flag_table.find(spelled).filter(|_| !self.elsewhere.iter().any(|one| one == spelled))
            else {
                continue;
            };
            let values: Vec<&CommandToken> = match flag.takes {
                FlagType::Switch => Vec::new(),
                _ if joined => Vec::new(),
                FlagType::Words => after.iter().take_while(|token| !token.text.starts_with('-')).collect(),
                FlagType::Integer
                | FlagType::Number
                | FlagType::Text
                | FlagType::Choice
                | FlagType::Json
                | FlagType::Boolean => {
                    after.first().into_iter().filter(|token| !token.text.starts_with("--")).collect()
                }
            };
            rest = after.get(values.len()..).unwrap_or_default();
            let words: Vec<String> = match first.text.split_once('=') {
                Some((_, value)) => vec![value.to_owned()],
                None => values.iter().map(|token| token.text.clone()).collect(),
            };
            let end = values.last().map_or(first.range.end, |token| token.range.end);
            let range = first.range.start..end;
            let own =
                found.iter().find(|one| one.literal && one.item == first.item && range.contains(&one.range.start));
            let is_role = table.setting_of_flag(spelled).is_some() || table.toggles().any(|(_, name)| name == spelled);
            if is_role && own.is_none() {
                continue;
            }
            let value = flag_table.value_of_words(flag, &words);
            let rendered = value.as_ref().and_then(|value| {
                let words = flags::flag_words(Some(flag_table), spelled, value, joined)?;
                words.iter().map(|word| flags::shell_word(word)).collect::<Option<Vec<_>>>()
            });
            let written = items.get(first.item).and_then(|item| item.get(range.clone()));
            if rendered.is_some_and(|words| Some(words.join(" ").as_str()) == written) {
                let spelled = if joined { format!("{spelled}=") } else { spelled.to_owned() };
                let value = value.filter(|_| own.is_none());
                all.push(ScriptFlag { name: flag.name, value, spelled, item: first.item, range });
            }
        }
        let is_once =
            |one: &ScriptFlag| names.iter().filter(|name| one.spelled.trim_end_matches('=') == **name).count() == 1;
        let again: Vec<&'static str> = all.iter().map(|one| one.name).collect();
        all.retain(|one| is_once(one) && again.iter().filter(|name| **name == one.name).count() == 1);
        all
    }

    /// A setting whose value stands at the end of a token: what it is, and how it is written there.
    fn found_setting(
        &self,
        setting: EngineSetting,
        (text, raw): (&str, Option<&str>),
        token: &CommandToken,
        env: &BTreeMap<String, String>,
    ) -> FoundSetting {
        let variable = self.variable_name(text);
        let resolved = variable.and_then(|name| env.get(name));
        let inside = raw.filter(|_| variable.is_none()).and_then(|raw| quote_width(raw, text, token.plain));
        let end = token.range.end;
        let range = inside.map(|quotes| {
            let end = end.saturating_sub(quotes);
            end.saturating_sub(text.len())..end
        });
        FoundSetting {
            setting,
            value: resolved.cloned().unwrap_or_else(|| text.to_owned()),
            item: token.item,
            literal: range.is_some(),
            range: range.unwrap_or(end..end),
            unresolved: variable.is_some() && resolved.is_none(),
        }
    }

    /// The variable that a text stands for: a shell's `$NAME` and `${NAME}`, elsewhere Kubernetes' `$(NAME)`.
    fn variable_name<'a>(&self, text: &'a str) -> Option<&'a str> {
        let rest = text.strip_prefix('$')?;
        let name = if self.in_shell {
            rest.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(rest)
        } else {
            rest.strip_prefix('(')?.strip_suffix(')')?
        };
        (!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some(name)
    }

    /// The value of any flag that is given as two words, or as one with `=`.
    pub fn value_of(&self, flag: &str) -> Option<&str> {
        self.tokens.iter().enumerate().find_map(|(index, token)| {
            if token.text == flag {
                return self.tokens.get(index.saturating_add(1)).map(|value| value.text.as_str());
            }
            token.text.strip_prefix(flag)?.strip_prefix('=')
        })
    }

    /// Whether a flag is there.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.tokens.iter().any(|token| token.text == flag)
    }
}

impl FoundSetting {
    /// Its place in `args`, behind a command of so many items.
    pub fn args_index(&self, command: usize) -> usize {
        self.item.saturating_sub(command)
    }
}
