//! `include` and `exclude`: which models they take, and which patterns take none.

use super::globs::{PathGlobs, trim_pattern};
use super::rules;
use super::workspace::{ModelFiles, Workspace};
use super::yaml::YamlNode;
use stator_core::finding::{Finding, closest_match};
use std::collections::BTreeSet;
use std::ops::{Bound, Range};

/// How many paths are compared with patterns that may match none: a warning is not worth more.
const MAX_COMPARISONS: usize = 10_000_000;

/// How many comparisons with a glob one with a misspelled name takes the time of.
const SPELLING_COMPARISONS: usize = 16;

/// The models of an environment: those that `include` takes, or all, and `exclude` does not.
pub(super) fn included_models<'a>(
    models: &'a [ModelFiles],
    include: &[String],
    exclude: &[String],
) -> Vec<&'a ModelFiles> {
    let excluded = PathGlobs::of_folders(exclude);
    let is_left = |files: &&ModelFiles| !excluded.is_match(&files.intent.path);
    if include.is_empty() {
        return models.iter().filter(is_left).collect();
    }
    let included = PathGlobs::of_folders(include);
    let mut ranges: Vec<Range<usize>> = include.iter().flat_map(|pattern| candidate_ranges(models, pattern)).collect();
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut end = 0;
    let mut found = Vec::new();
    for range in ranges {
        let unseen = models.get(range.start.max(end)..range.end).unwrap_or_default();
        end = end.max(range.end);
        found.extend(unseen.iter().filter(|files| included.is_match(&files.intent.path)).filter(is_left));
    }
    found
}

/// The text before a pattern's first wildcard, with which every path that it matches begins, and the folder that it
/// ends in.
fn literal_start(pattern: &str) -> (&str, &str) {
    let pattern = trim_pattern(pattern);
    let start = pattern.split(['*', '?', '[', '{', '\\']).next().unwrap_or_default();
    (start, start.rsplit_once('/').map_or("", |(folder, _)| folder))
}

/// Where models are that a pattern may take, among all sorted by folder: in folders that begin with its literal start,
/// or in the one that this ends in.
fn candidate_ranges(models: &[ModelFiles], pattern: &str) -> [Range<usize>; 2] {
    let (start, folder) = literal_start(pattern);
    let first = models.partition_point(|files| files.folder.as_str() < start);
    let below = models.get(first..).unwrap_or_default().partition_point(|files| files.folder.starts_with(start));
    let own = models.binary_search_by(|files| files.folder.as_str().cmp(folder)).map_or(0..0, |at| at..at + 1);
    [own, first..first + below]
}

/// Patterns of an environment that match no model, most often because a folder is spelled otherwise: every pattern of
/// `include`, and of `exclude` those that nearly match one, since to exclude what may come is no mistake.
pub(super) fn unmatched_patterns(workspace: &Workspace, environment: &str) -> Vec<Finding> {
    let Some(root) = workspace.root.as_ref().filter(|root| !root.broken) else { return Vec::new() };
    let settings = root.node.as_ref().and_then(|node| node.get("spec")?.get("environments")?.get(environment));
    let Some(settings) = settings else { return Vec::new() };
    let mut folders: Option<BTreeSet<&str>> = None;
    let mut comparisons = 0;
    let mut findings = Vec::new();
    for (field, is_always_said) in [("include", true), ("exclude", false)] {
        for node in YamlNode::items_of(settings.get(field)) {
            let Some(pattern) = node.as_str() else { continue };
            let globs = PathGlobs::of_folders(&[pattern.to_owned()]);
            let mut matches = |path: &str| {
                comparisons += 1;
                comparisons > MAX_COMPARISONS || globs.is_match(path)
            };
            let (start, folder) = literal_start(pattern);
            let models = candidate_ranges(&workspace.models, pattern);
            let mut models = models.into_iter().filter_map(|range| workspace.models.get(range)).flatten();
            let omitted = &workspace.omitted_folders;
            let below = omitted
                .range::<str, _>((Bound::Included(start), Bound::Unbounded))
                .take_while(|folder| folder.starts_with(start));
            if models.any(|files| matches(&files.intent.path))
                || omitted.get(folder).into_iter().chain(below).any(|one| matches(&join_path(one, "model.yaml")))
            {
                continue;
            }
            let folders = folders.get_or_insert_with(|| all_folders(workspace));
            comparisons += folders.len() * SPELLING_COMPARISONS;
            if comparisons > MAX_COMPARISONS {
                return findings;
            }
            let is_cut = start.len() < trim_pattern(pattern).len();
            let nearest = closest_match(if is_cut { folder } else { start }, folders.iter().copied());
            if nearest.is_some() || is_always_said {
                findings.push(unmatched_finding(&root.path, node, (field, pattern), nearest));
            }
        }
    }
    findings
}

fn all_folders(workspace: &Workspace) -> BTreeSet<&str> {
    let folders = workspace.models.iter().map(|files| &files.folder).chain(&workspace.omitted_folders);
    let ends = folders.flat_map(|folder| {
        let ends = folder.match_indices('/').map(|(end, _)| end).chain([folder.len()]);
        ends.filter_map(|end| folder.get(..end))
    });
    ends.filter(|folder| !folder.is_empty()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::tests::workspace;
    use proptest::prelude::*;

    fn pattern() -> impl Strategy<Value = String> {
        let begin = prop::sample::select(vec!["", "", "", "./"]);
        let parts = ["a", "a", "a", "a", "b", "b", "/", "/", "/", "-", r"\-", "*", "**/", "?", "{a,b}", "[ab]"];
        let middle = prop::collection::vec(prop::sample::select(parts.to_vec()), 0..5);
        let end = prop::sample::select(vec!["", "/", "/**", "/model.yaml"]);
        (begin, middle, end).prop_map(|(begin, middle, end)| format!("{begin}{}{end}", middle.concat()))
    }

    proptest! {
        /// The law of the short way: models are those that the patterns match, each once and in order, wherever they are.
        #[test]
        fn models_are_those_that_the_patterns_match(
            folders in prop::collection::btree_set("([ab-]{1,2}(/[ab-]){0,2})?", 8..16),
            include in prop::collection::vec(pattern(), 0..4),
            exclude in prop::collection::vec(pattern(), 0..2),
        ) {
            let files: Vec<String> = folders.iter().map(|folder| join_path(folder, "model.yaml")).collect();
            let workspace = workspace(&files.iter().map(|file| (file.as_str(), "kind: Model")).collect::<Vec<_>>());
            let (included, excluded) = (PathGlobs::of_folders(&include), PathGlobs::of_folders(&exclude));
            let paths = workspace.models.iter().map(|files| files.intent.path.as_str());
            let expected: Vec<&str> = paths
                .filter(|path| include.is_empty() || included.is_match(path))
                .filter(|path| !excluded.is_match(path))
                .collect();
            let found = included_models(&workspace.models, &include, &exclude);
            prop_assert_eq!(found.iter().map(|files| files.intent.path.as_str()).collect::<Vec<_>>(), expected);
        }
    }
}
