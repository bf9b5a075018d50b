//! Findings as CI systems want them: JUnit XML, GitHub workflow commands, GitLab code quality.

use super::place;
use crate::present::{TerminalOptions, escape};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use stator_core::finding::{Finding, Severity};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// JUnit XML: a test case a finding, and one that passed when there is none. Warnings are in the output of a case that
/// passed, because JUnit knows only failures.
pub fn junit(findings: &[Finding], models: usize) -> String {
    let errors = findings.iter().filter(|finding| finding.is_error()).count();
    let cases = findings.len().max(1);
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"stator validate\" tests=\"{cases}\" \
         failures=\"{errors}\">\n  <testsuite name=\"stator validate\" tests=\"{cases}\" failures=\"{errors}\">\n"
    );
    if findings.is_empty() {
        let text = format!("    <testcase classname=\"stator\" name=\"{models} models\"/>\n");
        out.push_str(&text);
    }
    for finding in findings {
        out.push_str(&junit_case(finding));
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn junit_case(finding: &Finding) -> String {
    let (open, close) = match finding.severity {
        Severity::Error => (
            format!("<failure type=\"{}\" message=\"{}\">", finding.rule.id, escape::markup(&finding.message)),
            "</failure>",
        ),
        Severity::Warning => ("<system-out>".to_owned(), "</system-out>"),
    };
    let body = super::brief(std::slice::from_ref(finding), &TerminalOptions::default());
    format!(
        "    <testcase classname=\"{}\" name=\"{}\" file=\"{}\">\n      {open}{}{close}\n    </testcase>\n",
        escape::markup(&finding.location.file),
        escape::markup(&format!("{} {}", finding.rule.id, place(&finding.location))),
        escape::markup(&finding.location.file),
        escape::markup(body.trim_end()),
    )
}

/// GitHub workflow commands: each becomes an annotation of the changed file.
pub fn github(findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings {
        let location = &finding.location;
        let mut properties = format!("file={}", escape_property(&location.file));
        if location.line > 0 {
            let _ = write!(properties, ",line={}", location.line);
        }
        if location.column > 0 {
            let _ = write!(properties, ",col={}", location.column);
        }
        let _ = writeln!(
            out,
            "::{} {properties},title={}::{}",
            finding.severity,
            escape_property(finding.rule.id),
            escape_data(&format!("{}\n{}", finding.message, finding.help))
        );
    }
    out
}

/// Escapes the text of a workflow command (`@actions/core`, `command.ts`), so that a message cannot start another one.
fn escape_data(text: &str) -> String {
    escape::lines(text.trim_end()).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn escape_property(text: &str) -> String {
    escape_data(&escape::line(text)).replace(':', "%3A").replace(',', "%2C")
}

/// A GitLab code quality report.
///
/// # Errors
/// Only when the JSON cannot be written, which does not happen for values without odd map keys.
pub fn gitlab(findings: &[Finding]) -> Result<String, serde_json::Error> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let issues: Vec<Value> = findings
        .iter()
        .map(|finding| {
            // The line is left out, so that GitLab knows the finding again when lines above it move.
            let key = format!("{}\0{}\0{}", finding.location.file, finding.rule.id, finding.message);
            let number = seen.entry(key.clone()).and_modify(|number| *number += 1).or_insert(0);
            let fingerprint = hex::encode(Sha256::digest(format!("{key}\0{number}")));
            json!({
                "description": escape::line(&finding.message),
                "check_name": finding.rule.id,
                "fingerprint": fingerprint,
                "severity": match finding.severity {
                    Severity::Error => "major",
                    Severity::Warning => "minor",
                },
                "location": {
                    "path": finding.location.file,
                    "lines": {"begin": finding.location.line.max(1)},
                },
            })
        })
        .collect();
    crate::present::json(&issues)
}
