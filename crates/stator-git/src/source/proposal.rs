//! A commit that changes one file, for a branch that is pushed to a git host: nobody's work tree or branch changes.

use super::git;
use git2::build::TreeUpdateBuilder;
use git2::{Buf, ErrorCode, FileMode, Oid, Repository, Signature};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Before the backends that libgit2 brings along, so that what is written stays in memory.
const MEMORY_PRIORITY: i32 = 1000;
/// The most files of a folder that are read: a model has one, an overlay for each environment, and a lock.
const MAX_FOLDER_FILES: usize = 100;

/// One file that is to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedFile {
    /// Its path from the repository's root.
    pub path: String,
    /// What it is to hold.
    pub content: Vec<u8>,
    /// What the commit below has to hold there, so that nothing of others is lost; `None` for a file that is new.
    pub stored: Option<Vec<u8>>,
}

/// Whoever a commit is by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposalAuthor {
    /// Name.
    pub name: String,
    /// Address.
    pub email: String,
}

/// A commit, and what has to be sent so that a git host has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedCommit {
    /// In full.
    pub commit: String,
    /// Its objects.
    pub objects: ProposedObjects,
}

/// Where the objects of a commit are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProposedObjects {
    /// All that are new, packed.
    Packed(Vec<u8>),
    /// In the repository of this folder.
    Repository(PathBuf),
}

/// Why no commit was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposalError {
    /// The file is not what the change was made from.
    #[error("{path} is not the same in commit {commit}")]
    Stale {
        /// Which.
        path: String,
        /// Its first digits.
        commit: String,
    },
    /// There is no such commit here.
    #[error("commit {commit} is not in the repository")]
    NoCommit {
        /// Which.
        commit: String,
    },
    /// Git says something else.
    #[error("git: {0}")]
    Git(String),
}

impl From<git2::Error> for ProposalError {
    fn from(error: git2::Error) -> Self {
        Self::Git(error.message().to_owned())
    }
}

/// Makes a commit on top of `base` in the repository of this machine that `root` is in. `author` stands in for whoever git
/// is set up for here.
///
/// # Errors
/// Where the file is not what it was, or git refuses.
pub fn commit_in_checkout(
    root: &Path,
    base: &str,
    file: &ProposedFile,
    message: &str,
    author: &ProposalAuthor,
) -> Result<ProposedCommit, ProposalError> {
    let (repository, folder) = git::discover(root).map_err(|error| ProposalError::Git(error.to_string()))?;
    let author = match repository.signature() {
        Ok(own) => ProposalAuthor { name: git::printable(own.name_bytes()), email: git::printable(own.email_bytes()) },
        Err(_) => author.clone(),
    };
    let file =
        ProposedFile { path: format!("{folder}/{}", file.path).trim_start_matches('/').to_owned(), ..file.clone() };
    let commit = write_commit(&repository, base, &file, message, &author)?;
    Ok(ProposedCommit { commit, objects: ProposedObjects::Repository(repository.path().to_owned()) })
}

/// Makes a commit on top of `base` and keeps it in memory: `git_folder` stays as it is.
pub(super) fn commit_in_memory(
    git_folder: &Path,
    base: &str,
    file: &ProposedFile,
    message: &str,
    author: &ProposalAuthor,
) -> Result<ProposedCommit, ProposalError> {
    let repository = Repository::open(git_folder)?;
    let odb = repository.odb()?;
    let memory = odb.add_new_mempack_backend(MEMORY_PRIORITY)?;
    let commit = write_commit(&repository, base, file, message, author)?;
    let mut packed = Buf::new();
    memory.dump(&repository, &mut packed)?;
    Ok(ProposedCommit { commit, objects: ProposedObjects::Packed(packed.to_vec()) })
}

fn write_commit(
    repository: &Repository,
    base: &str,
    file: &ProposedFile,
    message: &str,
    author: &ProposalAuthor,
) -> Result<String, ProposalError> {
    let no_commit = || ProposalError::NoCommit { commit: base.to_owned() };
    let base = repository.find_commit(Oid::from_str(base).map_err(|_| no_commit())?).map_err(|_| no_commit())?;
    let tree = base.tree()?;
    let entry = match tree.get_path(Path::new(&file.path)) {
        Ok(entry) => Some(entry),
        Err(error) if error.code() == ErrorCode::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    let stored = entry.as_ref().map(|entry| Ok::<_, git2::Error>(repository.find_blob(entry.id())?.content().to_vec()));
    if stored.transpose()? != file.stored {
        let commit = stator_core::commit::short_commit(&base.id().to_string()).to_owned();
        return Err(ProposalError::Stale { path: file.path.clone(), commit });
    }
    let mode = match entry.map(|entry| entry.filemode()) {
        Some(mode) if mode == i32::from(FileMode::BlobExecutable) => FileMode::BlobExecutable,
        Some(_) | None => FileMode::Blob,
    };
    let blob = repository.blob(&file.content)?;
    let tree = TreeUpdateBuilder::new().upsert(&file.path, blob, mode).create_updated(repository, &tree)?;
    // Git ends names at these.
    let plain = |text: &str| text.replace(['<', '>', '\n', '\0'], " ").trim().to_owned();
    let who = Signature::now(&plain(&author.name), &plain(&author.email))?;
    let tree = repository.find_tree(tree)?;
    Ok(repository.commit(None, &who, &who, message, &tree, &[&base])?.to_string())
}

/// The files of a folder as a commit has them, by name; nothing where it has no such folder.
pub(super) fn files_of_folder(
    repository: &Repository,
    commit: &str,
    folder: &str,
) -> Result<BTreeMap<String, Vec<u8>>, ProposalError> {
    let no_commit = || ProposalError::NoCommit { commit: commit.to_owned() };
    let commit = repository.find_commit(Oid::from_str(commit).map_err(|_| no_commit())?).map_err(|_| no_commit())?;
    let root = commit.tree()?;
    let tree = match folder.trim_matches('/') {
        "" => root,
        path => match root.get_path(Path::new(path)) {
            Ok(entry) => repository.find_tree(entry.id())?,
            Err(error) if error.code() == ErrorCode::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(error.into()),
        },
    };
    let mut files = BTreeMap::new();
    for entry in &tree {
        let (Ok(name), Some(git2::ObjectType::Blob)) = (entry.name(), entry.kind()) else { continue };
        if !name.ends_with(".yaml") || files.len() >= MAX_FOLDER_FILES {
            continue;
        }
        let blob = repository.find_blob(entry.id())?;
        if blob.size() <= super::MAX_FILE_BYTES {
            files.insert(name.to_owned(), blob.content().to_vec());
        }
    }
    Ok(files)
}

/// The files of a folder of a repository of this machine as a commit has them; `folder` is relative to `root`.
///
/// # Errors
/// Where the repository does not have the commit.
pub fn read_files_at(root: &Path, commit: &str, folder: &str) -> Result<BTreeMap<String, Vec<u8>>, ProposalError> {
    let (repository, top) = git::discover(root).map_err(|error| ProposalError::Git(error.to_string()))?;
    files_of_folder(&repository, commit, &format!("{top}/{folder}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fs_err as fs;

    fn author() -> ProposalAuthor {
        ProposalAuthor { name: "stator".to_owned(), email: "stator@localhost".to_owned() }
    }

    fn objects_in(folder: &Path) -> usize {
        walkdir(folder).len()
    }

    fn walkdir(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { walkdir(&path) } else { vec![path] }).collect()
    }

    #[test]
    fn a_proposal_changes_one_file_and_nothing_here() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init(folder.path()).unwrap();
        fs::create_dir_all(folder.path().join("fleet/a")).unwrap();
        fs::write(folder.path().join("fleet/a/model.yaml"), "one").unwrap();
        fs::write(folder.path().join("fleet/a/other.yaml"), "stays").unwrap();
        let mut index = repository.index().unwrap();
        index.add_all(["*"], git2::IndexAddOption::DEFAULT, None).unwrap();
        let tree = repository.find_tree(index.write_tree().unwrap()).unwrap();
        let who = Signature::now("A", "a@example.com").unwrap();
        let base = repository.commit(Some("HEAD"), &who, &who, "first", &tree, &[]).unwrap().to_string();
        let file = ProposedFile {
            path: "fleet/a/model.yaml".to_owned(),
            content: b"two".to_vec(),
            stored: Some(b"one".to_vec()),
        };
        let before = objects_in(repository.path());
        let made = commit_in_memory(repository.path(), &base, &file, "Change a", &author()).unwrap();
        assert_eq!(objects_in(repository.path()), before, "nothing was written");
        let ProposedObjects::Packed(pack) = &made.objects else { panic!("{made:?}") };

        // Whoever has the base and gets the pack has the commit.
        let copy = tempfile::tempdir().unwrap();
        let other = Repository::clone(&format!("file://{}", folder.path().display()), copy.path()).unwrap();
        let odb = other.odb().unwrap();
        let mut writer = odb.packwriter().unwrap();
        std::io::Write::write_all(&mut writer, pack).unwrap();
        writer.commit().unwrap();
        drop(writer);
        let commit = other.find_commit(Oid::from_str(&made.commit).unwrap()).unwrap();
        assert_eq!((commit.message().ok(), commit.parent_id(0).unwrap().to_string()), (Some("Change a"), base.clone()));
        let files = files_of_folder(&other, &made.commit, "fleet/a").unwrap();
        let text = |name: &str| String::from_utf8(files[name].clone()).unwrap();
        assert_eq!((text("model.yaml"), text("other.yaml")), ("two".to_owned(), "stays".to_owned()));

        let inside = ProposedFile { path: "a/model.yaml".to_owned(), ..file.clone() };
        let here = commit_in_checkout(&folder.path().join("fleet"), &base, &inside, "Change a", &author()).unwrap();
        assert_eq!(files_of_folder(&repository, &here.commit, "fleet/a").unwrap(), files);
        assert_eq!(fs::read_to_string(folder.path().join("fleet/a/model.yaml")).unwrap(), "one");

        let stale = ProposedFile { stored: None, ..file.clone() };
        let refused = commit_in_memory(repository.path(), &base, &stale, "", &author()).unwrap_err();
        assert!(matches!(refused, ProposalError::Stale { .. }), "{refused}");
        let unknown = commit_in_memory(repository.path(), &"0".repeat(40), &file, "", &author()).unwrap_err();
        assert!(matches!(unknown, ProposalError::NoCommit { .. }), "{unknown}");
        assert_eq!(files_of_folder(&repository, &base, "nowhere").unwrap(), BTreeMap::new());
    }
}
