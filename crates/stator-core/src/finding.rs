//! A finding: one problem, with its place and its fix.
//!
//! Every module that judges input speaks through this type, so that `validate`, `plan` and `sync` report alike.

pub mod limit;

use crate::mask;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Severity {
    /// The model cannot be rendered or applied.
    Error,
    /// It can, and something about it deserves a look.
    Warning,
}

/// A kind of finding: a stable id (`yaml/duplicate-key`) and what it means in a sentence.
///
/// Each module lists its own in `rules::ALL`; `docs/rules.md` is generated from those lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// `area/name`, never renamed once released.
    pub id: &'static str,
    /// What the rule asks for, in one sentence.
    pub summary: &'static str,
}

impl Rule {
    /// The rule's place in the manual.
    pub fn page(&self) -> String {
        crate::manual::page("rules", self.id)
    }
}

/// Declares a module's rules, each as a constant with its sentence for documentation, and `ALL`, the list of them in the
/// order of declaration. What is written above a rule is where it comes from.
#[macro_export]
macro_rules! rules {
    ($($(#[$source:meta])* $name:ident = $id:literal, $summary:literal;)*) => {
        $(
            #[doc = $summary]
            $(#[doc = ""] #[$source])*
            pub const $name: $crate::finding::Rule = $crate::finding::Rule { id: $id, summary: $summary };
        )*
        /// Every rule of this module.
        pub const ALL: &[$crate::finding::Rule] = &[$($name),*];
    };
}

/// Where in the repository something stands. Lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Location {
    /// Path relative to the repository's root, with `/`.
    pub file: String,
    /// Line, from 1; 0 when the whole file is meant.
    pub line: u32,
    /// Column, from 1; 0 when the whole line or file is meant.
    pub column: u32,
    /// How many characters are marked, at least 1 when a column is given.
    #[serde(skip)]
    pub length: u32,
}

impl Location {
    /// A whole file.
    pub fn file(path: impl Into<String>) -> Self {
        Self { file: path.into(), ..Self::default() }
    }
}

/// Where the message and the help of a finding are cut, in bytes: longer than any sentence of stator's own.
const LONGEST_TEXT: usize = 4_000;

/// One problem.
///
/// It stands at a [`Location`] of a file once it is reported. Before that, what checks a document says it of the
/// document's own places: a span of its text, or a field of an object that has none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Finding<P = Location> {
    /// Where it stands.
    #[serde(flatten)]
    pub location: P,
    /// Which rule it breaks: the rule's id.
    #[serde(serialize_with = "rule_id")]
    pub rule: Rule,
    /// How much it weighs.
    pub severity: Severity,
    /// What was found and what is allowed, in a sentence.
    pub message: String,
    /// The fix, in a sentence.
    pub help: String,
    /// How many findings it stands for: one, or those that [`limit::LEFT_OUT`] counts.
    #[serde(skip)]
    pub stands_for: usize,
}

fn rule_id<S: serde::Serializer>(rule: &Rule, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(rule.id)
}

impl<P> Finding<P> {
    /// A finding that stops the model.
    pub fn error(rule: Rule, location: P, message: impl Into<String>, help: impl Into<String>) -> Self {
        // A message may quote the value that it is about, and ends up on a git host and in records.
        let fit = |text: String| {
            let mut shown = match mask::redact_tokens(&text) {
                Cow::Borrowed(_) => text,
                Cow::Owned(hidden) => hidden,
            };
            if shown.len() > LONGEST_TEXT {
                shown.truncate(shown.floor_char_boundary(LONGEST_TEXT));
                shown.push('…');
            }
            shown
        };
        let (message, help) = (fit(message.into()), fit(help.into()));
        Self { location, rule, severity: Severity::Error, message, help, stands_for: 1 }
    }

    /// A finding that does not.
    pub fn warning(rule: Rule, location: P, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(rule, location, message, help) }
    }

    /// True for an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// The same finding at a place of another kind.
    pub fn map_location<Q>(self, locate: impl FnOnce(P) -> Q) -> Finding<Q> {
        let Self { location, rule, severity, message, help, stands_for } = self;
        Finding { location: locate(location), rule, severity, message, help, stands_for }
    }
}

/// Sorts findings by file, line, column and rule, and drops exact repeats: the order every face shows them in.
pub fn sort_and_dedup(findings: &mut Vec<Finding>) {
    findings.sort_by(|a, b| {
        (&a.location, a.severity, a.rule.id, &a.message).cmp(&(&b.location, b.severity, b.rule.id, &b.message))
    });
    findings.dedup();
}

/// The nearest allowed word, when one is near enough to be what was meant ("did you mean `prefill`?").
pub fn closest_match<'a>(found: &str, allowed: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = found.to_lowercase();
    let allowed: Vec<&str> = allowed.into_iter().collect();
    let near = allowed
        .iter()
        .map(|word| (strsim::damerau_levenshtein(&lower, &word.to_lowercase()), word))
        .filter(|(distance, word)| *distance <= 1.max(word.chars().count().min(found.chars().count()) / 3))
        .min();
    // `h200` is too far from `h200_sxm` by letters, and still its beginning.
    let begun = || {
        let longer = allowed.iter().filter(|word| lower.len() > 1 && word.to_lowercase().starts_with(&lower));
        longer.min_by_key(|word| (word.len(), **word)).copied()
    };
    near.map(|(_, word)| *word).or_else(begun)
}

/// The question that leads on from a word that is not allowed: "did you mean `prefill`?". `None` where no word is near.
pub fn did_you_mean<'a>(found: &str, allowed: impl IntoIterator<Item = &'a str>) -> Option<String> {
    closest_match(found, allowed).map(|meant| format!("did you mean `{meant}`?"))
}
