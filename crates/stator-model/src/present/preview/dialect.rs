//! The two dialects of comments: Markdown with some HTML in it, and Markdown where HTML is shown as text.

use crate::present::escape;
use serde_json::Value;
use stator_core::mask;

/// How a host reads comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommentDialect {
    /// Whether HTML is read.
    pub(super) html: bool,
}

impl CommentDialect {
    /// Somebody's words: no markup, no mention, no link. Where entities are not read, only a code span is safe.
    pub(super) fn text(self, text: &str) -> String {
        if self.html { escape::markdown(text) } else { escape::code(text) }
    }

    /// A name or a value.
    pub(super) fn code(self, text: &str) -> String {
        escape::code(text)
    }

    /// Between two parts of a table's cell.
    pub(super) fn line_break(self) -> &'static str {
        if self.html { "<br>" } else { "; " }
    }

    /// A part that is folded away, or follows a bold line where nothing can be folded.
    pub(super) fn folded(self, title: &str, block: &str) -> String {
        if self.html {
            // Inside the summary Markdown is not read, HTML is; a mention would still be one.
            format!("\n<details><summary>{}</summary>\n\n{block}\n</details>\n", escape::comment_markup(title))
        } else {
            format!("\n{}\n\n{block}", escape::code(title))
        }
    }

    /// A paragraph that stands out.
    pub(super) fn callout(self, kind: CalloutKind, lines: &[String]) -> String {
        let body: String = lines.iter().filter(|line| !line.is_empty()).map(|line| format!("> {line}\n")).collect();
        match (self.html, kind) {
            (true, CalloutKind::Caution) => format!("\n> [!CAUTION]\n{body}"),
            (true, CalloutKind::Warning) => format!("\n> [!WARNING]\n{body}"),
            (true, CalloutKind::Note) => format!("\n> [!NOTE]\n{body}"),
            // Alerts are a dialect of hosts that read HTML as well.
            (false, CalloutKind::Caution | CalloutKind::Warning | CalloutKind::Note) => format!("\n{body}"),
        }
    }

    /// The last line: parts of stator's own, and texts of others as code.
    pub(super) fn footer(self, parts: &[FooterPart<'_>]) -> String {
        let part = |part: &FooterPart<'_>| match (part, self.html) {
            (FooterPart::Text(text), _) => (*text).to_owned(),
            // Between two tags of one line Markdown is read.
            (FooterPart::Code(text), _) => escape::code(text),
            (FooterPart::Link(url), true) => format!("<a href=\"{}\">show all</a>", escape::markup(url)),
            (FooterPart::Link(url), false) => escape::code(url),
        };
        let line = parts.iter().map(part).collect::<Vec<_>>().join(" · ");
        if self.html { format!("\n<sub>{line}</sub>\n") } else { format!("\n{line}\n") }
    }
}

/// How loud a paragraph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CalloutKind {
    Caution,
    Warning,
    Note,
}

/// A part of the last line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FooterPart<'a> {
    /// stator's own words.
    Text(&'a str),
    /// A command, a commit: somebody's, perhaps.
    Code(String),
    /// Where there is more.
    Link(&'a str),
}

/// At most so many characters of a text, with what looks like a secret hidden.
pub(super) fn clip_masked(text: &str, longest: usize) -> String {
    let mut value = Value::String(text.to_owned());
    mask::redact_value(&mut value);
    let text = value.as_str().unwrap_or_default();
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
