//! SARIF 2.1.0, as code scanning reads it (<https://docs.oasis-open.org/sarif/sarif/v2.1.0/>).

use crate::present::escape;
use serde_json::{Value, json};
use stator_core::finding::{Finding, Rule, Severity};
use std::collections::BTreeMap;

/// The findings as one SARIF run.
///
/// # Errors
/// Only when the JSON cannot be written, which does not happen for values without odd map keys.
pub fn sarif(findings: &[Finding], version: &str) -> Result<String, serde_json::Error> {
    let rules: BTreeMap<&str, Rule> = findings.iter().map(|finding| (finding.rule.id, finding.rule)).collect();
    let describe =
        |rule: &Rule| json!({"id": rule.id, "shortDescription": {"text": rule.summary}, "helpUri": rule.page()});
    let descriptors: Vec<Value> = rules.values().map(describe).collect();
    let results: Vec<Value> = findings.iter().map(sarif_result).collect();
    crate::present::json(&json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "stator", "version": version, "rules": descriptors}},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    }))
}

fn sarif_result(finding: &Finding) -> Value {
    let location = &finding.location;
    let mut physical =
        json!({"artifactLocation": {"uri": percent_encode_path(&location.file), "uriBaseId": "%SRCROOT%"}});
    if location.line > 0 {
        let mut region = json!({"startLine": location.line});
        if location.column > 0 {
            region["startColumn"] = location.column.into();
            region["endColumn"] = location.column.saturating_add(location.length.max(1)).into();
        }
        physical["region"] = region;
    }
    let text = if finding.help.is_empty() {
        escape::lines(&finding.message)
    } else {
        format!("{} ({})", escape::lines(&finding.message), escape::lines(&finding.help))
    };
    json!({
        "ruleId": finding.rule.id,
        "level": match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        "message": {"text": text},
        "locations": [{"physicalLocation": physical}],
    })
}

/// A path as a relative URI reference (RFC 3986 §2): everything but unreserved characters and `/` is percent-encoded.
fn percent_encode_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}
