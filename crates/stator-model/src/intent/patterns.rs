//! `include` and `exclude`: which models they take, and which patterns take none.

use super::rules;
use super::workspace::{ModelFiles, Workspace};
use super::yaml::YamlNode;
use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use stator_core::finding::{Finding, closest_match};
use std::collections::BTreeSet;
use std::ops::{Bound, Range};

/// How many paths are compared with patterns that may match none: a warning is not worth more.
const MAX_COMPARISONS: usize = 10_000_000;

/// How many comparisons with a glob one with a misspelled name takes the time of.
const SPELLING_COMPARISONS: usize = 16;

/// Patterns of paths, compiled.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathGlobs(Vec<GlobSet>);

impl PathGlobs {
    /// Patterns of which one that names a folder means everything below it. One that [`check_pattern`] refuses matches
    /// nothing.
    fn of_folders(patterns: &[String]) -> Self {
        let texts = patterns.iter().flat_map(|pattern| {
            let pattern = trim_pattern(pattern);
            [pattern.to_owned(), format!("{pattern}/**")]
        });
        Self::of(texts)
    }

    /// Patterns as they are written, however many.
    pub(crate) fn of(patterns: impl IntoIterator<Item = String>) -> Self {
        Self(build_sets(&patterns.into_iter().filter_map(|pattern| build_glob(&pattern).ok()).collect::<Vec<_>>()))
    }

    pub(crate) fn is_match(&self, path: &str) -> bool {
        let candidate = Candidate::new(path);
        self.0.iter().any(|set| set.is_match_candidate(&candidate))
    }
}

/// What is wrong with a pattern, alone.
pub(super) fn check_pattern(pattern: &str) -> Result<(), globset::Error> {
    GlobSetBuilder::new().add(build_glob(trim_pattern(pattern))?).build().map(drop)
}

fn trim_pattern(pattern: &str) -> &str {
    pattern.trim_start_matches("./").trim_end_matches('/')
}

fn build_glob(pattern: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(pattern).literal_separator(true).build()
}

/// As few sets as hold the globs: the size of one is bounded, and those of a long list are together too large for it.
fn build_sets(globs: &[Glob]) -> Vec<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(glob.clone());
    }
    match set.build() {
        Ok(set) => vec![set],
        Err(_) if globs.len() > 1 => {
            let (first, second) = globs.split_at(globs.len() / 2);
            [build_sets(first), build_sets(second)].concat()
        }
        Err(_) => Vec::new(),
    }
}

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

    /// Several thousand patterns are too large for one automaton, and once matched nothing: every model was to be deleted.
    #[test]
    fn a_long_list_of_patterns_matches_what_each_of_them_does() {
        let pattern = |n: usize| format!("models/x?-{n:05}-[a-z]*-suffix-{n}/b");
        let patterns: Vec<String> = (0..4000).map(pattern).chain(["models/**".to_owned()]).collect();
        let globs = PathGlobs::of_folders(&patterns);
        assert!(globs.0.len() > 1);
        assert!(globs.is_match("models/a/model.yaml"));
        assert!(globs.is_match("models/xy-00007-a-suffix-7/b/model.yaml"));
        assert!(!globs.is_match("other/a/model.yaml"));
        assert!(check_pattern(&"?".repeat(1_000_000)).is_err());
    }
}
