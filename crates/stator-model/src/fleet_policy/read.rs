//! Documents → policies, as strictly as intents are read, every fault at its place.

use super::document::FleetPolicy;
use super::rules;
use crate::intent::SchemaTree;
use crate::intent::check::check_against;
use crate::intent::policy::compile_expression;
use crate::intent::schema::strict_schema;
use crate::intent::yaml::{YamlNode, YamlSpan, parse_yaml_documents};
use crate::present::escape;
use crate::windows::{self, CronSchedule, ScheduleError};
use stator_core::finding::{self, Finding, Location};
use std::collections::BTreeSet;
use std::sync::LazyLock;

static SCHEMA: LazyLock<SchemaTree> = LazyLock::new(|| SchemaTree::new(&strict_schema::<FleetPolicy>()));

/// Reads one document, which may be an object of a cluster: `P` is what a place in it is.
///
/// # Errors
/// Everything that is wrong with it, each at its place; never empty.
pub fn read_policy<P: Copy>(node: &YamlNode<P>) -> Result<FleetPolicy, Vec<Finding<P>>> {
    let mut findings = check_against(&SCHEMA, node);
    let rules = node.get("spec").and_then(|spec| spec.get("rules"));
    for expression in rules.into_iter().flat_map(YamlNode::items).filter_map(|rule| rule.get("expression")) {
        let Some(text) = expression.as_str() else { continue };
        if let Err(reason) = compile_expression(text) {
            let message = format!("not a CEL expression: {reason}");
            let help = "Correct it; `stator explain policy` shows the variables of an expression.";
            findings.push(Finding::error(crate::intent::rules::POLICY_COMPILE, expression.span, message, help));
        }
    }
    let windows = node.get("spec").and_then(|spec| spec.get("windows"));
    findings.extend(windows.into_iter().flat_map(YamlNode::items).flat_map(window_faults));
    if !findings.is_empty() {
        return Err(findings);
    }
    serde_json::from_value(node.to_json()).map_err(|error| {
        let help = "Compare the document with the reference of FleetPolicy.";
        vec![Finding::error(rules::DOCUMENT, node.span, error.to_string(), help)]
    })
}

/// What is wrong with a window that its schema does not say.
fn window_faults<P: Copy>(window: &YamlNode<P>) -> Vec<Finding<P>> {
    let (schedule, zone) = (window.get("schedule"), window.get("timeZone"));
    let text =
        |node: Option<&YamlNode<P>>| node.and_then(|node| node.as_str().map(|text| (text.to_owned(), node.span)));
    let mut findings = Vec::new();
    if let Some((schedule, span)) = text(schedule) {
        let zone = text(zone);
        if let Err(error) = CronSchedule::parse(&schedule, zone.as_ref().map(|(zone, _)| zone.as_str())) {
            let span = match &error {
                ScheduleError::Zone { .. } => zone.map_or(span, |(_, span)| span),
                ScheduleError::Fields { .. } | ScheduleError::Field { .. } | ScheduleError::Never { .. } => span,
            };
            let help = "Correct it: `0 22 * * *` means every evening at ten.";
            findings.push(Finding::error(rules::DOCUMENT, span, error.to_string(), help));
        }
    }
    if let Some((duration, span)) = text(window.get("duration"))
        && windows::parse_duration(&duration).is_none()
    {
        let message =
            format!("`duration` is `{}`; expected a duration from one second to a year", escape::line(&duration));
        findings.push(Finding::error(rules::DOCUMENT, span, message, "Write it as `30s`, `5m` or `1h30m`."));
    }
    findings
}

/// Reads the policies of a file; `path` is what the file is called in findings.
///
/// # Errors
/// Every fault of the file, sorted: a file with a fault has no policy that anything may be judged by.
pub fn read_policies(path: &str, bytes: &[u8]) -> Result<Vec<FleetPolicy>, Vec<Finding>> {
    let documents = parse_yaml_documents(bytes, 0, path);
    let mut findings = documents.findings;
    let mut policies: Vec<FleetPolicy> = Vec::new();
    let mut names = BTreeSet::new();
    for node in &documents.roots {
        match read_policy(node) {
            Ok(policy) => {
                let name = policy.metadata.name.to_string();
                if !names.insert(name.clone()) {
                    let message = format!("a second policy `{name}`");
                    findings.push(Finding::error(rules::DOCUMENT, place(node, path), message, "Rename one of them."));
                }
                policies.push(policy);
            }
            Err(faults) => {
                findings.extend(faults.into_iter().map(|one| one.map_location(|span: YamlSpan| span.location(path))));
            }
        }
    }
    if documents.roots.is_empty() && findings.is_empty() {
        let message = "there is no `FleetPolicy` in the file";
        let help = "Write one, or leave the file out; docs/how-to/hold-tenants-to-a-policy.md has an example.";
        findings.push(Finding::error(rules::DOCUMENT, Location::file(path), message, help));
    }
    if findings.is_empty() {
        return Ok(policies);
    }
    finding::sort_and_dedup(&mut findings);
    Err(findings)
}

fn place(node: &YamlNode, path: &str) -> Location {
    let name = node.get("metadata").and_then(|metadata| metadata.get("name"));
    name.map_or(node.span, |name| name.span).location(path)
}
