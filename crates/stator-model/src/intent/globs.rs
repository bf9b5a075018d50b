//! Patterns of paths.

use globset::{Candidate, ErrorKind, Glob, GlobBuilder, GlobSet, GlobSetBuilder};

/// Patterns of paths, compiled.
#[derive(Clone, Debug)]
pub(crate) struct PathGlobs(Vec<GlobSet>);

impl PathGlobs {
    /// Patterns of which one that names a folder means everything below it. One that [`check_pattern`] refuses matches
    /// nothing.
    pub(super) fn of_folders(patterns: &[String]) -> Self {
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
pub(super) fn check_pattern(pattern: &str) -> Result<(), String> {
    let below = format!("{}/**", trim_pattern(pattern));
    let built = build_glob(&below).and_then(|glob| GlobSetBuilder::new().add(glob).build());
    built.map(drop).map_err(|error| {
        let is_too_large = matches!(error.kind(), ErrorKind::Regex(_));
        if is_too_large { "it is too large".to_owned() } else { error.kind().to_string() }
    })
}

/// The pattern that is matched, of one as it is written.
pub(super) fn trim_pattern(pattern: &str) -> &str {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Several thousand patterns are too large for one automaton, and once matched nothing: the environment was empty.
    #[test]
    fn a_long_list_of_patterns_matches_what_each_of_them_does() {
        let pattern = |n: usize| format!("models/x?-{n:05}-[a-z]*-suffix-{n}/b");
        let patterns: Vec<String> = (0..4000).map(pattern).chain(["models/**".to_owned()]).collect();
        let globs = PathGlobs::of_folders(&patterns);
        assert!(globs.0.len() > 1);
        assert!(globs.is_match("models/a/model.yaml"));
        assert!(globs.is_match("models/xy-00007-a-suffix-7/b/model.yaml"));
        assert!(!globs.is_match("other/a/model.yaml"));
        assert_eq!(check_pattern(&"?".repeat(1_000_000)), Err("it is too large".to_owned()));
    }
}
