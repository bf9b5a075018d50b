//! Where intents come from: a folder on disk, or a commit in a git object database.
//!
//! Only files that stator understands are read, and nothing is ever checked out: no hooks, no filters, no links that
//! lead out of the repository. What cannot be read stays in the tree as an entry with its reason, because a file that
//! is silently missing would look like a model that was removed.

pub mod addresses;
pub mod commit_log;
pub mod credentials;
mod error;
mod git;
pub mod mirror;
pub mod model_source;
pub mod origin;
mod pattern;
pub mod proposal;
mod remote;
pub mod restore;
mod scope;
pub mod secret;
pub mod signature;
mod source_file;
mod ssh_keys;
pub mod transport;
pub mod url;
mod walk;
pub mod watch;

#[cfg(test)]
mod tests;

pub use error::SourceError;
pub use git::{path_in_work_tree, read_tree_at};
pub use scope::{RepositoryScope, ScopePart};
pub use source_file::MAX_FILE_BYTES;
pub use ssh_keys::new_deploy_key;

use source_file::relative_path;
use stator_model::intent::SourceTree;
use std::path::{Path, PathBuf};

/// A repository as it lies on disk.
#[derive(Debug)]
pub struct Checkout {
    /// The repository's root, absolute.
    pub root: PathBuf,
    /// Which part of it was asked for. The tree is always the whole repository.
    pub scope: RepositoryScope,
    /// Its files.
    pub tree: SourceTree,
    /// The commit, with `-dirty` when a file in the tree is not as the commit has it; empty outside git.
    pub revision: String,
    /// What a user should know and nothing fails over, one sentence each.
    pub notes: Vec<String>,
}

/// Reads the repository that `path` lies in. `path` is a folder of it, or a single `model.yaml`.
///
/// # Errors
/// A path that does not exist is an error and never an empty repository. So is a folder that cannot be listed: what
/// it holds is unknown, and unknown must not look like removed.
pub fn open(path: &Path) -> Result<Checkout, SourceError> {
    open_parts(path, &[])
}

/// The root of the repository that a folder lies in.
///
/// # Errors
/// When the folder, or a `stator.yaml` above it, cannot be read.
pub fn find_repository(folder: &Path) -> Result<PathBuf, SourceError> {
    locate(folder).map(|(root, _)| root)
}

/// As [`open`], with a scope that is the union of several paths of one repository.
///
/// # Errors
/// As those of [`open`], and when the paths lie in different repositories.
pub fn open_parts(first: &Path, others: &[PathBuf]) -> Result<Checkout, SourceError> {
    let (root, part) = locate(first)?;
    let mut parts = vec![part];
    for path in others {
        let (other_root, part) = locate(path)?;
        if other_root != root {
            return Err(SourceError::SeveralRepositories { first: first.to_owned(), other: path.clone() });
        }
        parts.push(part);
    }
    let (tree, mut notes) = walk::read_folder_tree(&root)?;
    let revision = git::describe_revision(&root, &tree, &mut notes);
    Ok(Checkout { root, scope: RepositoryScope::of(parts), tree, revision, notes })
}

/// The root of the repository that a path lies in, and the part of it that the path is.
fn locate(path: &Path) -> Result<(PathBuf, ScopePart), SourceError> {
    let absolute = fs_err::canonicalize(path).map_err(|error| {
        if error.kind() == std::io::ErrorKind::NotFound {
            SourceError::Missing { path: path.to_owned() }
        } else {
            SourceError::Unreadable { path: path.to_owned(), reason: error.to_string() }
        }
    })?;
    let metadata = fs_err::metadata(&absolute)
        .map_err(|error| SourceError::Unreadable { path: path.to_owned(), reason: error.to_string() })?;
    let (folder, file) = if metadata.is_dir() {
        (absolute, None)
    } else if metadata.is_file() && absolute.file_name().is_some_and(|name| name == "model.yaml") {
        match absolute.parent() {
            Some(parent) => (parent.to_owned(), Some("model.yaml")),
            None => return Err(SourceError::NotAnIntent { path: path.to_owned() }),
        }
    } else {
        return Err(SourceError::NotAnIntent { path: path.to_owned() });
    };

    let root = find_root(&folder)?;
    let below = relative_path(&root, &folder)
        .ok_or_else(|| SourceError::Unreadable { path: path.to_owned(), reason: "its path is not UTF-8".to_owned() })?;
    let part = match file {
        None => ScopePart::Folder(below),
        Some(name) if below.is_empty() => ScopePart::Intent(name.to_owned()),
        Some(name) => ScopePart::Intent(format!("{below}/{name}")),
    };
    Ok((root, part))
}

/// The nearest folder upwards whose `stator.yaml` says `kind: Repository`. Without one, the outermost folder that has
/// a `stator.yaml` at all, so that a root file that lost its kind is reported and not passed over; else `folder`.
fn find_root(folder: &Path) -> Result<PathBuf, SourceError> {
    let mut outermost = None;
    for candidate in folder.ancestors() {
        let file = candidate.join("stator.yaml");
        match fs_err::symlink_metadata(&file) {
            Ok(metadata) if metadata.is_file() => {
                if declares_repository(
                    &walk::read_file(&file).map_err(|reason| SourceError::Unreadable { path: file.clone(), reason })?,
                ) {
                    return Ok(candidate.to_owned());
                }
                outermost = Some(candidate);
            }
            // A link or a folder of that name: the walk reports it if this turns out to be the root.
            Ok(_) => outermost = Some(candidate),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(SourceError::Unreadable { path: file, reason: error.to_string() });
            }
        }
    }
    Ok(outermost.unwrap_or(folder).to_owned())
}

/// Whether a `stator.yaml` is a root file. By its lines and not by a parser, because a root file with a fault in it is
/// still the root: its fault is to be reported, and the folders above are not to be searched in its place.
fn declares_repository(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let unquote = |text: &str| text.trim().trim_matches(['"', '\'']).to_owned();
    let value_of_kind = |entry: &str| {
        let (key, value) = entry.split_once(':')?;
        let value = value.split(" #").next().unwrap_or(value);
        (unquote(key) == "kind").then(|| unquote(value))
    };
    let trimmed = text.trim_start_matches('\u{feff}').trim();
    if let Some(flow) = trimmed.strip_prefix('{') {
        // The whole file in flow style, as JSON is.
        return flow.split([',', '{', '}', '\n']).filter_map(value_of_kind).any(|kind| kind == "Repository");
    }
    text.lines()
        .filter(|line| !line.starts_with([' ', '\t', '#', '-']))
        .filter_map(value_of_kind)
        .any(|kind| kind == "Repository")
}
