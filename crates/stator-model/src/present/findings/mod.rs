//! Findings in the forms that people and CI systems read.

mod ci;
mod sarif;
mod snippets;

pub use ci::{github, gitlab, junit};
pub use sarif::sarif;
pub use snippets::with_snippets;

use super::{TerminalOptions, Tone, escape, pluralize};
use serde::Serialize;
use stator_core::finding::{Finding, Location, Severity};
use std::collections::BTreeSet;

/// Findings and what was looked at, as `validate -o json` prints them.
#[derive(Debug, Serialize)]
pub struct ValidationReport<'a> {
    /// The findings, sorted.
    pub findings: &'a [Finding],
    /// How many files were read.
    pub files: usize,
    /// How many models they hold.
    pub models: usize,
}

/// One line per finding: `models/a/model.yaml:3:5: error[yaml/type] message (fix)`.
pub fn concise(findings: &[Finding], look: &TerminalOptions) -> String {
    findings
        .iter()
        .map(|finding| {
            format!(
                "{}: {} {}\n",
                place(&finding.location),
                look.paint(severity_tone(finding.severity), &format!("{}[{}]", finding.severity, finding.rule.id)),
                concise_text(finding)
            )
        })
        .collect()
}

/// What was found, and the fix.
fn concise_text(finding: &Finding) -> String {
    let message = escape::line(&finding.message);
    if finding.help.is_empty() { message } else { format!("{message} ({})", escape::line(&finding.help)) }
}

/// A few lines a finding, without the source: what a plan shows. The first of each rule says where the manual has it.
pub fn brief(findings: &[Finding], look: &TerminalOptions) -> String {
    let mut seen = BTreeSet::new();
    findings.iter().map(|finding| brief_finding(finding, seen.insert(finding.rule.id), look)).collect()
}

fn brief_finding(finding: &Finding, is_first: bool, look: &TerminalOptions) -> String {
    let head = look.paint(severity_tone(finding.severity), &format!("{}[{}]", finding.severity, finding.rule.id));
    let mut out = format!("{head}: {}\n", escape::line(&finding.message));
    if !finding.location.file.is_empty() {
        out.push_str(&format!("  --> {}\n", place(&finding.location)));
    }
    if !finding.help.is_empty() {
        out.push_str(&format!("  = help: {}\n", escape::line(&finding.help)));
    }
    if is_first {
        out.push_str(&format!("  = rule: {}\n", finding.rule.page()));
    }
    out
}

/// The last line of a check: `2 errors and 1 warning in 14 models.`, or that all is well.
pub fn summary_line(findings: &[Finding], models: usize) -> String {
    let errors = findings.iter().filter(|finding| finding.is_error()).count();
    let warnings = findings.len() - errors;
    let models = pluralize(models, "model", "models");
    let counts: Vec<String> = [
        (errors > 0).then(|| pluralize(errors, "error", "errors")),
        (warnings > 0).then(|| pluralize(warnings, "warning", "warnings")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if counts.is_empty() {
        format!("All checks passed ({models}).")
    } else {
        format!("Found {} ({models} checked).", counts.join(" and "))
    }
}

fn severity_tone(severity: Severity) -> Tone {
    match severity {
        Severity::Error => Tone::Bad,
        Severity::Warning => Tone::Caution,
    }
}

/// `file:line:column`, as far as it is known.
pub fn place(location: &Location) -> String {
    let file = if location.file.is_empty() { "repository".to_owned() } else { escape::line(&location.file) };
    match (location.line, location.column) {
        (0, _) => file,
        (line, 0) => format!("{file}:{line}"),
        (line, column) => format!("{file}:{line}:{column}"),
    }
}

#[cfg(test)]
mod tests;
