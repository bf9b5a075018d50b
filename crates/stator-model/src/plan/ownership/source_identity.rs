//! Whose records and objects are: known by where their content comes from, which no file of it can say.
//!
//! A name in `stator.yaml` is copied with the file. The address that a repository is fetched from is not, nor is the uid
//! of a `ModelSource`. What compares them is [`SourceIdentity::relation_to`].

use crate::plan::RepositoryAddress;
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// Where content comes from: a repository, and the folder in it that stator's root is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RepositoryOrigin {
    /// A repository of a git host. Every clone of it has this origin.
    Address {
        /// Where it is fetched from.
        address: RepositoryAddress,
        /// The folder, without slashes at its ends; empty for the repository's root.
        folder: String,
    },
    /// A repository that was cloned from no host.
    RootCommit {
        /// The commit that its history begins with, in hex.
        commit: String,
        /// As above.
        folder: String,
    },
    /// A folder that is in no repository.
    Path {
        /// The folder's real path on its machine.
        path: String,
    },
}

/// What a record and its objects belong to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SourceIdentity {
    /// A `ModelSource` object of a cluster.
    ModelSource {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its uid: another object of that name has another one.
        uid: String,
        /// What it follows.
        origin: RepositoryOrigin,
    },
    /// A repository as the command line, or a controller with a file of sources, reads it.
    Repository {
        /// Which.
        origin: RepositoryOrigin,
    },
}

/// What plans are made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceClaim {
    /// What records and objects are marked with.
    pub identity: SourceIdentity,
    /// What the same folder was called before it had that origin: its path while it was in no repository, its root
    /// commit while that was on no host.
    pub former_origins: Vec<RepositoryOrigin>,
}

/// What the owner that a record names is to a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerRelation {
    /// The source itself.
    Same,
    /// Another way to the same content: the command line on a clone of what a `ModelSource` follows, or the reverse.
    SameOrigin,
    /// The `ModelSource` of that name, before it was made again: deleted, or restored from a backup.
    Recreated,
    /// Somebody else.
    Foreign,
}

/// Text that names no owner that this version knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an owner that this version of stator knows")]
pub struct OwnerTextError {
    /// The text.
    pub text: String,
}

/// What stands between a repository and the folder in it.
const FOLDER_MARK: &str = "//";
/// How the texts of origins begin.
const ADDRESS_PREFIX: &str = "git:";
const COMMIT_PREFIX: &str = "commit:";
const PATH_PREFIX: &str = "path:";
/// The word for an owner that is no object.
const REPOSITORY_WORD: &str = "Repository";
const MODEL_SOURCE_WORD: &str = "ModelSource";

impl RepositoryOrigin {
    /// A folder of a repository that is fetched from there.
    pub fn at_address(address: RepositoryAddress, folder: &str) -> Self {
        Self::Address { address, folder: clean_folder(folder) }
    }

    /// A folder of a repository whose history begins with that commit.
    pub fn at_root_commit(commit: &str, folder: &str) -> Self {
        Self::RootCommit { commit: commit.to_ascii_lowercase(), folder: clean_folder(folder) }
    }

    /// A folder of this machine.
    pub fn at_path(path: &str) -> Self {
        let trimmed = path.trim_end_matches('/');
        Self::Path { path: if trimmed.is_empty() { "/".to_owned() } else { trimmed.to_owned() } }
    }

    /// A digest of it that fits a label: equal for equal origins.
    pub fn digest(&self) -> String {
        let mut digest = hex::encode(Sha256::digest(self.to_string().as_bytes()));
        digest.truncate(32);
        digest
    }

    /// Which file a path from the root is, wherever the root is: the same file read from two roots has one text.
    pub fn file(&self, source: &str) -> String {
        match self {
            Self::Address { address, folder } => format!("{ADDRESS_PREFIX}{address}//{}", join_paths(folder, source)),
            Self::RootCommit { commit, folder } => format!("{COMMIT_PREFIX}{commit}//{}", join_paths(folder, source)),
            Self::Path { path } => format!("{PATH_PREFIX}{}", join_paths(path, source)),
        }
    }

    /// For a person.
    pub fn describe(&self) -> String {
        let in_folder = |folder: &str| if folder.is_empty() { String::new() } else { format!(", folder {folder}") };
        match self {
            Self::Address { address, folder } => format!("repository {address}{}", in_folder(folder)),
            Self::RootCommit { commit, folder } => {
                let short: String = commit.chars().take(7).collect();
                format!("the repository that began with commit {short}{}", in_folder(folder))
            }
            Self::Path { path } => format!("folder {path}"),
        }
    }
}

/// What a record keeps: `git:git.example.com/team/models//prod`, `commit:0a1b…//prod`, `path:/srv/models`.
impl fmt::Display for RepositoryOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = match self {
            Self::Address { address, folder } => {
                write!(f, "{ADDRESS_PREFIX}{address}")?;
                folder
            }
            Self::RootCommit { commit, folder } => {
                write!(f, "{COMMIT_PREFIX}{commit}")?;
                folder
            }
            Self::Path { path } => return write!(f, "{PATH_PREFIX}{path}"),
        };
        if folder.is_empty() { Ok(()) } else { write!(f, "{FOLDER_MARK}{folder}") }
    }
}

impl FromStr for RepositoryOrigin {
    type Err = OwnerTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || OwnerTextError { text: text.to_owned() };
        let split = |rest: &str| {
            let (base, folder) = rest.split_once(FOLDER_MARK).unwrap_or((rest, ""));
            (base.to_owned(), folder.to_owned())
        };
        let origin = if let Some(rest) = text.strip_prefix(ADDRESS_PREFIX) {
            let (address, folder) = split(rest);
            Self::Address { address: RepositoryAddress::from_normalized(&address).ok_or_else(unknown)?, folder }
        } else if let Some(rest) = text.strip_prefix(COMMIT_PREFIX) {
            let (commit, folder) = split(rest);
            Self::RootCommit { commit, folder }
        } else if let Some(path) = text.strip_prefix(PATH_PREFIX) {
            Self::Path { path: path.to_owned() }
        } else {
            return Err(unknown());
        };
        // Only what this version writes: anything else may mean more than it can tell.
        if origin.to_string() == text { Ok(origin) } else { Err(unknown()) }
    }
}

impl SourceIdentity {
    /// Where its content comes from.
    pub fn origin(&self) -> &RepositoryOrigin {
        match self {
            Self::ModelSource { origin, .. } | Self::Repository { origin } => origin,
        }
    }

    /// The label of its objects and records. It is made of the origin alone, so that two ways to one repository need not
    /// write every object when they take turns.
    pub fn owner_id(&self) -> String {
        self.origin().digest()
    }

    /// What an owner that a record names is to this source.
    pub fn relation_to(&self, recorded: &Self) -> OwnerRelation {
        if self == recorded {
            return OwnerRelation::Same;
        }
        if self.origin() != recorded.origin() {
            return OwnerRelation::Foreign;
        }
        match (self, recorded) {
            (
                Self::ModelSource { namespace, name, uid: _, origin: _ },
                Self::ModelSource { namespace: other_namespace, name: other_name, uid: _, origin: _ },
            ) => {
                if (namespace, name) == (other_namespace, other_name) {
                    OwnerRelation::Recreated
                } else {
                    // Two objects that follow one repository may follow two branches of it.
                    OwnerRelation::Foreign
                }
            }
            (Self::ModelSource { .. }, Self::Repository { .. })
            | (Self::Repository { .. }, Self::ModelSource { .. })
            | (Self::Repository { .. }, Self::Repository { .. }) => OwnerRelation::SameOrigin,
        }
    }

    /// For a person.
    pub fn describe(&self) -> String {
        match self {
            Self::ModelSource { namespace, name, uid: _, origin } => {
                format!("ModelSource {namespace}/{name} ({})", origin.describe())
            }
            Self::Repository { origin } => origin.describe(),
        }
    }

    /// The annotation that names the owner: `ModelSource team-a/models UID`, or `Repository`.
    pub fn owner_text(&self) -> String {
        match self {
            Self::ModelSource { namespace, name, uid, origin: _ } => {
                format!("{MODEL_SOURCE_WORD} {namespace}/{name} {uid}")
            }
            Self::Repository { origin: _ } => REPOSITORY_WORD.to_owned(),
        }
    }

    /// Reads what [`Self::owner_text`] and an origin's text say.
    ///
    /// # Errors
    /// When either is nothing that this version writes.
    pub fn from_texts(owner: &str, origin: &str) -> Result<Self, OwnerTextError> {
        let unknown = || OwnerTextError { text: owner.to_owned() };
        let origin: RepositoryOrigin = origin.parse()?;
        if owner == REPOSITORY_WORD {
            return Ok(Self::Repository { origin });
        }
        let mut words = owner.split(' ');
        let (Some(MODEL_SOURCE_WORD), Some(key), Some(uid), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(unknown());
        };
        let (namespace, name) = key.split_once('/').ok_or_else(unknown)?;
        if namespace.is_empty() || name.is_empty() || name.contains('/') || uid.is_empty() {
            return Err(unknown());
        }
        Ok(Self::ModelSource { namespace: namespace.to_owned(), name: name.to_owned(), uid: uid.to_owned(), origin })
    }
}

impl SourceClaim {
    /// An identity whose folder was never called anything else.
    pub fn new(identity: SourceIdentity) -> Self {
        Self { identity, former_origins: Vec::new() }
    }

    /// Every text of [`RepositoryOrigin::file`] by which records may name that file.
    pub fn files(&self, source: &str) -> impl Iterator<Item = String> {
        std::iter::once(self.identity.origin()).chain(&self.former_origins).map(|origin| origin.file(source))
    }
}

/// A folder without empty parts.
fn clean_folder(folder: &str) -> String {
    let parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    parts.join("/")
}

fn join_paths(folder: &str, path: &str) -> String {
    match folder {
        "" => path.to_owned(),
        folder => format!("{}/{path}", folder.trim_end_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn origin(text: &str) -> RepositoryOrigin {
        RepositoryOrigin::at_address(RepositoryAddress::parse(text).unwrap(), "prod")
    }

    fn model_source(name: &str, uid: &str, origin: RepositoryOrigin) -> SourceIdentity {
        SourceIdentity::ModelSource {
            namespace: "team-a".to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            origin,
        }
    }

    #[test]
    fn whoever_reads_the_same_content_is_the_same() {
        use OwnerRelation::{Foreign, Recreated, Same, SameOrigin};
        let (https, ssh) = (origin("https://git.example.com/team/fleet.git"), origin("git@git.example.com:team/fleet"));
        let fork = origin("https://git.example.com/me/fleet.git");
        let (source, clone) = (model_source("models", "u1", https), SourceIdentity::Repository { origin: ssh });
        assert_eq!(source.relation_to(&source), Same);
        assert_eq!((source.relation_to(&clone), clone.relation_to(&source)), (SameOrigin, SameOrigin));
        let again = model_source("models", "u2", clone.origin().clone());
        assert_eq!(again.relation_to(&source), Recreated);
        assert_eq!(model_source("others", "u2", clone.origin().clone()).relation_to(&source), Foreign);
        assert_eq!(SourceIdentity::Repository { origin: fork.clone() }.relation_to(&clone), Foreign);
        // The object is the same, and what it follows is not.
        assert_eq!(model_source("models", "u1", fork).relation_to(&source), Foreign);
    }

    #[test]
    fn a_file_is_the_same_from_every_root_above_it() {
        let whole = RepositoryOrigin::at_path("/srv/models/");
        let part = RepositoryOrigin::at_path("/srv/models/a");
        assert_eq!(whole.file("a/model.yaml"), part.file("model.yaml"));
        assert_ne!(whole.file("b/model.yaml"), part.file("model.yaml"));
        let (root, below) = (RepositoryOrigin::at_root_commit("ab", ""), RepositoryOrigin::at_root_commit("AB", "/x/"));
        assert_eq!(root.file("x/model.yaml"), below.file("model.yaml"));
    }

    fn any_origin() -> impl Strategy<Value = RepositoryOrigin> {
        let folder = "([a-z]{1,4}/){0,2}[a-z]{0,4}";
        prop_oneof![
            ("[a-z]{1,8}\\.[a-z]{2,3}", "[a-zA-Z0-9_-]{1,6}", folder).prop_filter_map(
                "an address",
                |(host, path, below)| {
                    Some(RepositoryOrigin::at_address(
                        RepositoryAddress::parse(&format!("https://{host}/{path}"))?,
                        &below,
                    ))
                }
            ),
            ("[0-9a-f]{40}", folder).prop_map(|(commit, below)| RepositoryOrigin::at_root_commit(&commit, &below)),
            "(/[a-zA-Z .]{1,5}){1,4}".prop_map(|path| RepositoryOrigin::at_path(&path)),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(origin in any_origin(), object in any::<bool>()) {
            let identity = match object {
                true => model_source("models", "0c5b-1", origin),
                false => SourceIdentity::Repository { origin },
            };
            let (owner, origin) = (identity.owner_text(), identity.origin().to_string());
            prop_assert_eq!(SourceIdentity::from_texts(&owner, &origin), Ok(identity.clone()));
            let id = identity.owner_id();
            prop_assert!(id.len() <= 63 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
        }

        #[test]
        fn any_text_is_read_or_refused(owner in ".{0,30}", origin in "(git:|commit:|path:)?.{0,30}") {
            if let Ok(identity) = SourceIdentity::from_texts(&owner, &origin) {
                prop_assert_eq!((identity.owner_text(), identity.origin().to_string()), (owner, origin));
            }
        }
    }
}
