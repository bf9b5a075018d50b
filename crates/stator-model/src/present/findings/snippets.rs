//! Findings with the line of source that they are about, as the Rust compiler shows them.

use super::{brief_finding, place};
use crate::present::{TerminalOptions, escape};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use stator_core::finding::{Finding, Severity};
use stator_core::mask;
use std::collections::BTreeSet;
use std::ops::Range;

/// A line longer than this is not shown: a person cannot find the mark in it.
const MAX_LINE_LENGTH: usize = 400;

/// Every finding with its line of source. `source` gives a file's text by its path from the root; a file that it does
/// not know, or a finding without a line, is shown without.
pub fn with_snippets(findings: &[Finding], source: &dyn Fn(&str) -> Option<String>, look: &TerminalOptions) -> String {
    let mut cached: Option<(&str, Option<String>)> = None;
    let mut out = String::new();
    let mut seen = BTreeSet::new();
    for finding in findings {
        let is_first = seen.insert(finding.rule.id);
        let file = finding.location.file.as_str();
        // Findings are sorted by file: one file at a time is enough to keep.
        let text = match &cached {
            Some((known, text)) if *known == file => text.as_deref(),
            Some(_) | None => cached.insert((file, source(file).map(star_tokens))).1.as_deref(),
        };
        match text.and_then(|text| marked_line(finding, text)) {
            Some((line, span)) => out.push_str(&snippet(finding, is_first, &line, span, look)),
            None => out.push_str(&brief_finding(finding, is_first, look)),
        }
        out.push('\n');
    }
    out
}

/// A key in several lines is recognised from their whole text only.
fn star_tokens(text: String) -> String {
    mask::star_tokens(&text).into_owned()
}

/// The line of a finding, made harmless, and the bytes of it that are marked.
fn marked_line(finding: &Finding, text: &str) -> Option<(String, Range<usize>)> {
    let location = &finding.location;
    let number = usize::try_from(location.line).ok()?.checked_sub(1)?;
    let raw = mask::redact_source_line(text.lines().nth(number)?);
    let column = usize::try_from(location.column).ok()?.saturating_sub(1);
    let length = usize::try_from(location.length).ok()?.max(1);
    // Escaping makes a line longer, so the mark is measured in the escaped text.
    let head = escape::line(&raw.chars().take(column).collect::<String>());
    let marked = escape::line(&raw.chars().skip(column).take(length).collect::<String>());
    let tail = escape::line(&raw.chars().skip(column.saturating_add(length)).collect::<String>());
    let line = format!("{head}{marked}{tail}");
    if line.chars().count() > MAX_LINE_LENGTH {
        return None;
    }
    let span = if location.column == 0 { 0..line.len() } else { head.len()..head.len() + marked.len() };
    Some((line, span))
}

fn snippet(finding: &Finding, is_first: bool, line: &str, span: Range<usize>, look: &TerminalOptions) -> String {
    let level = match finding.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let path = escape::line(&finding.location.file);
    let message = escape::line(&finding.message);
    let help = escape::line(&finding.help);
    let number = usize::try_from(finding.location.line).unwrap_or(1);
    let title = level.primary_title(message.as_str()).id(finding.rule.id);
    let shown =
        Snippet::source(line).line_start(number).path(path.as_str()).annotation(AnnotationKind::Primary.span(span));
    let mut group: Group<'_> = title.element(shown);
    if !help.is_empty() {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    let page = finding.rule.page();
    if is_first {
        group = group.element(Level::NOTE.with_name("rule").message(page.as_str()));
    }
    let renderer = if look.color { Renderer::styled() } else { Renderer::plain() };
    // Messages are never wrapped or cut here: a terminal wraps, and a log must be complete.
    let text = renderer.term_width(MAX_LINE_LENGTH * 2).render(&[group]);
    if text.is_empty() { place(&finding.location) + "\n" } else { text + "\n" }
}
