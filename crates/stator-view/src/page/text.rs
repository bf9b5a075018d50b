//! How values are written on pages: with the words and units of the command line.

use crate::sources::RevisionView;
use askama::Template;
use jiff::Timestamp;
use serde_json::Value;
use stator_model::plan::abbreviate_revision;
use stator_model::present::escape;
use stator_model::present::status::format_age;

/// The longest value of a field that a page shows.
const MAX_VALUE_COLUMNS: usize = 200;

/// A moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TimeText {
    /// RFC 3339 in UTC.
    pub(super) datetime: String,
    /// How long ago.
    pub(super) text: String,
}

impl TimeText {
    pub(super) fn ago(datetime: &str, now: Timestamp) -> Self {
        Self { datetime: datetime.to_owned(), text: format_age(datetime, now) }
    }
}

/// A sentence of ours, in which code stands between backticks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Template)]
#[template(
    source = "{% for (text, is_code) in parts %}{% if *is_code %}<code>{{ text }}</code>{% else %}{{ text }}{% endif %}{% endfor %}",
    ext = "html"
)]
pub(super) struct ProseText {
    parts: Vec<(String, bool)>,
}

// Its template escapes every part.
impl askama::filters::HtmlSafe for ProseText {}

impl ProseText {
    pub(super) fn new(text: &str) -> Self {
        let parts: Vec<&str> = text.split('`').collect();
        if parts.len().is_multiple_of(2) {
            // One of them has no other.
            return Self { parts: vec![(text.to_owned(), false)] };
        }
        let parts = parts.into_iter().enumerate().filter(|(_, part)| !part.is_empty());
        Self { parts: parts.map(|(at, part)| (part.to_owned(), !at.is_multiple_of(2))).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

/// A commit, with what git tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommitText {
    pub(super) commit: String,
    pub(super) page: Option<String>,
    pub(super) title: String,
    pub(super) author: String,
}

impl CommitText {
    pub(super) fn new(commit: &RevisionView) -> Self {
        Self {
            commit: abbreviate_revision(&commit.commit),
            page: commit.page.clone(),
            title: commit.title.clone().unwrap_or_default(),
            author: commit.author.clone().unwrap_or_default(),
        }
    }
}

/// Prints a page. What hides inside text, turns its direction or steers a terminal is written as an escape, wherever it
/// stands: no template has any of it.
pub(super) fn print(page: &impl Template) -> String {
    // Writing to a string cannot fail, and the templates call nothing else that can.
    escape::lines(&page.render().unwrap_or_default())
}

/// Whether a page shows a text as it is, so that a form gives it back.
pub fn is_shown_as_it_is(text: &str) -> bool {
    escape::lines(text) == text
}

/// A value of a field.
pub(super) fn value_text(value: &Value) -> String {
    escape::truncate(&value.to_string(), MAX_VALUE_COLUMNS)
}

/// An amount of money, as plans write it.
pub(super) fn amount_text(currency: &str, amount: f64) -> String {
    format!("{currency}{amount:.2}/h")
}

/// A whole number with commas.
pub(super) fn number_text(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
