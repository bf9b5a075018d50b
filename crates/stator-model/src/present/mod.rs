//! One value, many faces: plans, findings and statuses as terminal text, Markdown, JSON, HTML and the formats of CI.
//!
//! Pure: every function takes values and gives a `String`. Text that comes from a repository or a cluster is hostile;
//! each face escapes it through [`escape`].

pub mod diff;
pub mod escape;
pub mod findings;
pub mod history;
pub mod origins;
pub mod patch;
pub mod plan;
pub mod preview;
pub mod status;
pub mod table;
pub mod tree;
pub mod upgrade;

#[cfg(test)]
mod samples;

use anstyle::{AnsiColor, Style};

/// How terminal text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerminalOptions {
    /// Whether to colour.
    pub color: bool,
    /// The terminal's width in columns; `None` when the output is no terminal, and nothing is cut.
    pub width: Option<usize>,
    /// Whether to show what is left out otherwise.
    pub verbose: bool,
    /// Whether tables are rows alone, for a program that reads them.
    pub rows_only: bool,
}

/// What a piece of text means; the colour follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Something good, or new.
    Good,
    /// Something that deserves a look, or changes.
    Caution,
    /// Something bad, or that goes.
    Bad,
    /// A name, a heading.
    Strong,
    /// A detail.
    Faint,
    /// Nothing special.
    Plain,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Self::Good => AnsiColor::Green.on_default(),
            Self::Caution => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
            Self::Strong => Style::new().bold(),
            Self::Faint => Style::new().dimmed(),
            Self::Plain => Style::new(),
        }
    }
}

impl TerminalOptions {
    /// Text in the colour of its meaning, or as it is when colour is off.
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        if !self.color || tone == Tone::Plain || text.is_empty() {
            return text.to_owned();
        }
        let style = tone.style();
        format!("{}{text}{}", style.render(), style.render_reset())
    }
}

/// A number of things, in words: `1 model`, `2 models`.
pub fn pluralize(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// The JSON of any report, indented, with a newline at its end.
///
/// # Errors
/// Only when the value has a map whose keys are no strings, which none of ours has.
pub fn json<T: serde::Serialize>(value: &T) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(value).map(|text| text + "\n")
}
