//! The two dialects of comments: Markdown with some HTML in it, and Markdown where HTML is shown as text.

use crate::present::escape;
use serde_json::Value;
use stator_core::mask;

/// How a host reads comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Face {
    /// Whether HTML is read.
    pub(super) html: bool,
}

impl Face {
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
            format!("\n<details><summary>{}</summary>\n\n{block}\n</details>\n", summary(title))
        } else {
            format!("\n{}\n\n{block}", escape::code(title))
        }
    }

    /// A paragraph that stands out.
    pub(super) fn callout(self, kind: Callout, lines: &[String]) -> String {
        let body: String = lines.iter().filter(|line| !line.is_empty()).map(|line| format!("> {line}\n")).collect();
        match (self.html, kind) {
            (true, Callout::Caution) => format!("\n> [!CAUTION]\n{body}"),
            (true, Callout::Warning) => format!("\n> [!WARNING]\n{body}"),
            (true, Callout::Note) => format!("\n> [!NOTE]\n{body}"),
            // Alerts are a dialect of hosts that read HTML as well.
            (false, Callout::Caution | Callout::Warning | Callout::Note) => format!("\n{body}"),
        }
    }

    /// The last line: parts of stator's own, and texts of others as code.
    pub(super) fn foot(self, parts: &[Part<'_>]) -> String {
        let part = |part: &Part<'_>| match (part, self.html) {
            (Part::Own(text), _) => (*text).to_owned(),
            // Between two tags of one line Markdown is read.
            (Part::Code(text), _) => escape::code(text),
            (Part::Link(url), true) => format!("<a href=\"{}\">all of it</a>", escape::markup(url)),
            (Part::Link(url), false) => escape::code(url),
        };
        let line = parts.iter().map(part).collect::<Vec<_>>().join(" · ");
        if self.html { format!("\n<sub>{line}</sub>\n") } else { format!("\n{line}\n") }
    }
}

/// How loud a paragraph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Callout {
    Caution,
    Warning,
    Note,
}

/// A part of the last line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part<'a> {
    /// stator's own words.
    Own(&'a str),
    /// A command, a commit: somebody's, perhaps.
    Code(String),
    /// Where there is more.
    Link(&'a str),
}

/// Text inside HTML, in which a host still looks for mentions and references.
fn summary(text: &str) -> String {
    let text = escape::markup(&escape::line(text));
    text.replace('@', "@&#8203;").replace("://", ":&#8203;//").replace('`', "&#96;")
}

/// At most so many characters of a text, with what looks like a secret hidden.
pub(super) fn clip(text: &str, longest: usize) -> String {
    let mut value = Value::String(text.to_owned());
    mask::one(&mut value);
    let text = value.as_str().unwrap_or_default();
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
