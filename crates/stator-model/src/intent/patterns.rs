//! `include` and `exclude`: which models they take, and which patterns take none.

use super::rules;
use super::workspace::Workspace;
use super::yaml::YamlNode;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use stator_core::finding::{Finding, closest_match};
use std::collections::BTreeSet;

/// Patterns of an environment that match no model, most often because a folder is spelled otherwise: every pattern of
/// `include`, and of `exclude` those that nearly match one, since to exclude what may come is no mistake.
pub(super) fn unmatched_patterns(workspace: &Workspace, environment: &str) -> Vec<Finding> {
    let Some(root) = workspace.root.as_ref().filter(|root| !root.broken) else { return Vec::new() };
    let settings = root.node.as_ref().and_then(|node| node.get("spec")?.get("environments")?.get(environment));
    let Some(settings) = settings else { return Vec::new() };
    let models: Vec<String> = workspace
        .models
        .iter()
        .map(|files| files.intent.path.clone())
        .chain(workspace.omitted_folders.iter().map(|folder| join_path(folder, "model.yaml")))
        .collect();
    let folders: BTreeSet<&str> =
        models.iter().flat_map(|path| path.match_indices('/').filter_map(|(end, _)| path.get(..end))).collect();
    let mut findings = Vec::new();
    for (field, is_always_said) in [("include", true), ("exclude", false)] {
        for node in YamlNode::items_of(settings.get(field)) {
            let Some(pattern) = node.as_str() else { continue };
            let globs = compile_globs(&[pattern.to_owned()]).unwrap_or_default();
            if models.iter().any(|path| globs.is_match(path)) {
                continue;
            }
            let nearest = closest_match(literal_start(pattern), folders.iter().copied());
            if nearest.is_some() || is_always_said {
                findings.push(unmatched_finding(&root.path, node, (field, pattern), nearest));
            }
        }
    }
    findings
}

fn unmatched_finding(file: &str, node: &YamlNode, (field, pattern): (&str, &str), nearest: Option<&str>) -> Finding {
    let meant = nearest.map(|folder| format!("; did you mean `{folder}`?")).unwrap_or_default();
    Finding::warning(
        rules::LAYOUT_PATTERN_UNMATCHED,
        node.span.location(file),
        format!("the pattern `{pattern}` of `{field}` matches no model{meant}"),
        "Correct it, or remove it. Patterns are matched against the paths of `model.yaml` files from the root.",
    )
}

fn join_path(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// The folders that a pattern names before its first wildcard.
fn literal_start(pattern: &str) -> &str {
    let pattern = pattern.trim_start_matches("./");
    let end = pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len());
    let start = pattern.get(..end).unwrap_or_default();
    let is_cut = end < pattern.len() && !start.ends_with('/');
    let start = if is_cut { start.rsplit_once('/').map_or("", |(folder, _)| folder) } else { start };
    start.trim_end_matches('/')
}

/// A glob that names a folder means everything below it.
pub(super) fn compile_globs(patterns: &[String]) -> Option<GlobSet> {
    if patterns.is_empty() {
        return None;
    }
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let pattern = pattern.trim_start_matches("./").trim_end_matches('/');
        let below = format!("{pattern}/**");
        for pattern in [pattern, below.as_str()] {
            // A pattern that does not compile has its finding already, and its file is broken.
            if let Ok(glob) = GlobBuilder::new(pattern).literal_separator(true).build() {
                set.add(glob);
            }
        }
    }
    Some(set.build().unwrap_or_default())
}
