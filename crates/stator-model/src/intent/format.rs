//! `stator fmt`: keys in canonical order, one style, every comment kept.
//!
//! Two steps, each checked: whole entries are moved as they are written, then the style is set by `pretty_yaml`. The
//! result is read back, and it is refused when a value or a comment got lost on the way.

mod compact;
mod edit;
mod key_order;
mod layout;

pub use compact::compact_document;
pub use edit::{DocumentEdit, EditError, edit_document};

use layout::CommentedYaml;
use pretty_yaml::config::{FormatOptions, LanguageOptions, LayoutOptions, LineBreak, Quotes};
use thiserror::Error;

/// The widest line that a flow map or list may fill.
const PRINT_WIDTH: usize = 120;

/// The furthest that a value may be indented. The parser of `pretty_yaml` keeps the columns it has seen as bits of one
/// number, and goes wrong beyond its width.
const MAX_INDENT: usize = 60;

/// How often the style may be applied until it no longer changes anything.
const MAX_PASSES: usize = 4;

/// Why a file was not formatted. The file is then left as it is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    /// The text is not YAML, or not YAML that stator reads.
    #[error("line {line}, column {column}: {message}; run `stator validate` to see every error")]
    Syntax {
        /// Line, from 1.
        line: u32,
        /// Column, from 1, in characters.
        column: u32,
        /// What is wrong.
        message: String,
    },
    /// Formatting would have changed more than the looks.
    #[error("formatting would change {what}, so the file was not changed; simplify it")]
    Unsafe {
        /// What would change.
        what: &'static str,
    },
}

/// Formats one document: a model, an overlay or a `stator.yaml`.
///
/// Keys of known fields go into the order of the reference pages, unknown ones stay behind them, and comments move with
/// the key they stand above or beside. Indentation is two spaces, a line of blanks separates groups at most once, and the
/// text ends with one line feed. The result formats to itself. A file that is indented beyond column 60 is put into order
/// and otherwise left in its own style.
///
/// # Errors
///
/// When the text is not YAML that stator reads, or when formatting it would change its value or lose a comment.
pub fn format_document(text: &str) -> Result<String, FormatError> {
    let text = with_line_feeds(text);
    let text = without_trailing_blanks(&text, &layout::parse_layout(&text)?);
    let before = layout::parse_layout(&text)?;
    let Some(root) = &before.root else {
        return verify_unchanged(&before, apply_style(&text).trim_start_matches('\n').to_owned());
    };
    let document = key_order::document_kind(root);
    let mut formatted = apply_style(&key_order::reorder(&text, &before, document));
    // Moving entries changes which blank lines stand where, and the style changes where lines end: settle both.
    for _ in 0..MAX_PASSES {
        let parsed = layout::parse_layout(&formatted)?;
        let next = apply_style(&key_order::reorder(&formatted, &parsed, document));
        if next == formatted {
            return verify_unchanged(&before, formatted);
        }
        formatted = next;
    }
    Err(FormatError::Unsafe { what: "itself over and over" })
}

fn verify_unchanged(before: &CommentedYaml, formatted: String) -> Result<String, FormatError> {
    let after = layout::parse_layout(&formatted)?;
    if before.root.as_ref().map(|root| root.normalized()) != after.root.as_ref().map(|root| root.normalized()) {
        return Err(FormatError::Unsafe { what: "a value" });
    }
    if before.sorted_comments() != after.sorted_comments() {
        return Err(FormatError::Unsafe { what: "a comment" });
    }
    Ok(formatted)
}

/// YAML takes all three kinds of line ends; only line feeds are written. A byte order mark goes too.
fn with_line_feeds(text: &str) -> String {
    text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n")
}

/// Takes the blanks off the end of comments. Elsewhere they may be data, or go with the style.
fn without_trailing_blanks(text: &str, parsed: &CommentedYaml) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for (range, _) in &parsed.comments {
        out.push_str(text.get(from..range.end).unwrap_or_default().trim_end_matches([' ', '\t']));
        from = range.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

fn apply_style(text: &str) -> String {
    // Its printer takes all white space for indentation, and cuts as many bytes off each further line of a block.
    let is_odd = |line: &str| line.trim() != line.trim_end().trim_start_matches(' ');
    if text.lines().any(|line| content_column(line) > MAX_INDENT || is_odd(line)) {
        return text.to_owned();
    }
    let options = FormatOptions {
        layout: LayoutOptions { print_width: PRINT_WIDTH, indent_width: 2, line_break: LineBreak::Lf },
        language: LanguageOptions {
            quotes: Quotes::PreferDouble,
            trailing_comma: false,
            brace_spacing: false,
            prefer_single_line: true,
            indent_block_sequence_in_map: true,
            // Blanks at the end of a line are data inside a block scalar.
            trim_trailing_whitespaces: false,
            ..LanguageOptions::default()
        },
    };
    // What its grammar does not take is left alone, and so is what its parser stumbles over; the checks afterwards see to
    // it that nothing is lost.
    match std::panic::catch_unwind(|| pretty_yaml::format_text(text, &options)) {
        Ok(Ok(styled)) => styled,
        Ok(Err(_)) | Err(_) => text.to_owned(),
    }
}

/// The column that a line's first value starts in, dashes of lists passed over.
fn content_column(line: &str) -> usize {
    line.chars().take_while(|c| matches!(c, ' ' | '-' | '?' | '\t')).count()
}

#[cfg(test)]
mod tests;
