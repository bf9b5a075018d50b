//! Which part of a repository a command is about.

use std::collections::BTreeSet;

/// A part of a repository. Paths are from the root, with `/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScopePart {
    /// Every intent in this folder and below; empty for the whole repository.
    Folder(String),
    /// One intent, by the path of its `model.yaml`.
    Intent(String),
}

impl ScopePart {
    fn contains(&self, source: &str) -> bool {
        match self {
            Self::Folder(folder) if folder.is_empty() => true,
            Self::Folder(folder) => source.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/')),
            Self::Intent(path) => path == source,
        }
    }
}

/// The union of parts of a repository; of none, nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositoryScope(BTreeSet<ScopePart>);

impl RepositoryScope {
    /// The union of these.
    pub fn of(parts: impl IntoIterator<Item = ScopePart>) -> Self {
        Self(parts.into_iter().collect())
    }

    /// One intent, by the path of its `model.yaml`.
    pub fn intent(path: impl Into<String>) -> Self {
        Self::of([ScopePart::Intent(path.into())])
    }

    /// Its parts, sorted.
    pub fn parts(&self) -> impl Iterator<Item = &ScopePart> {
        self.0.iter()
    }

    /// Adds a part.
    pub fn add(&mut self, part: ScopePart) {
        self.0.insert(part);
    }

    /// True where it has no part at all.
    pub fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an intent at this path is in the scope.
    pub fn contains(&self, source: &str) -> bool {
        self.0.iter().any(|part| part.contains(source))
    }

    /// True where a part is the whole repository.
    pub fn is_everything(&self) -> bool {
        self.0.contains(&ScopePart::Folder(String::new()))
    }
}
