//! An earlier state of a model's files, as a commit on a branch of its own.
//!
//! Everything happens in the object database: neither the work tree nor the index is looked at or changed, so a rollback is
//! made in the middle of other work and costs nobody anything.

mod error;
pub use error::RestoreError;

use super::{MAX_FILE_BYTES, git};
use git2::build::TreeUpdateBuilder;
use git2::{BranchType, Commit, ErrorCode, FileMode, ObjectType, Oid, Repository, Sort};
use stator_core::commit::short_commit;
use stator_model::intent::{SourceFile, SourceTree};
use std::collections::BTreeMap;
use std::path::Path;

/// How many commits are looked at for a model's newest change.
const MAX_HISTORY_DEPTH: usize = 100_000;
/// How many of the commits that a rollback undoes are named.
const MAX_LISTED_COMMITS: usize = 20;
/// The name of settings, at the root and below.
const SETTINGS_FILE: &str = "stator.yaml";

/// The files of a model in one commit, by their paths in its folder: `model.yaml`, overlays, locks, and files that pods mount.
pub type CommittedFiles = BTreeMap<String, CommittedFile>;

/// One file of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedFile {
    oid: Oid,
    executable: bool,
}

/// A commit that changed a model's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelCommit {
    /// The commit, in full.
    pub commit: String,
    /// Its first line.
    pub summary: String,
}

/// What a rollback undoes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndoneCommits {
    /// The commits, newest first; no more than twenty.
    pub commits: Vec<ModelCommit>,
    /// How many more there are.
    pub omitted: usize,
}

/// Where a branch is pushed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushRemote {
    /// Its name: `origin`.
    pub name: String,
    /// Its address, as git's configuration has it.
    pub url: String,
    /// What the branch that is checked out is called there.
    pub branch: String,
}

/// A repository that a rollback is made in.
pub struct RollbackRepository {
    repository: Repository,
    /// stator's root, from git's.
    folder: String,
    head: Oid,
    branch: String,
}

impl PushRemote {
    /// Of the repository that a folder is in; `None` outside git, on no branch, or without a remote.
    pub fn of(root: &Path) -> Option<Self> {
        RollbackRepository::open(root).ok()?.remote()
    }
}

impl RollbackRepository {
    /// Opens the git repository around `root`, which is stator's root.
    ///
    /// # Errors
    /// Outside git, without a commit, and where no branch is checked out.
    pub fn open(root: &Path) -> Result<Self, RestoreError> {
        let (repository, folder) = git::discover(root)?;
        let head = match repository.head() {
            Ok(head) => head,
            Err(error) if error.code() == ErrorCode::UnbornBranch => return Err(RestoreError::Unborn),
            Err(error) => return Err(error.into()),
        };
        if !head.is_branch() {
            return Err(RestoreError::Detached);
        }
        let branch = head.shorthand().map_err(|_| RestoreError::Detached)?.to_owned();
        let commit = head.peel_to_commit()?.id();
        drop(head);
        Ok(Self { repository, folder, head: commit, branch })
    }

    /// The commit that is checked out.
    pub fn head(&self) -> String {
        self.head.to_string()
    }

    /// The branch that is checked out.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// The git folder, for pushing from.
    pub fn git_folder(&self) -> &Path {
        self.repository.path()
    }

    /// A commit's time and first line, for people.
    ///
    /// # Errors
    /// When the commit cannot be read.
    pub fn describe(&self, commit: &str) -> Result<(jiff::Timestamp, String), RestoreError> {
        let commit = self.repository.find_commit(Oid::from_str(commit)?)?;
        let time = jiff::Timestamp::from_second(commit.time().seconds()).unwrap_or_default();
        Ok((time, summary(&commit)))
    }

    /// A model's files in a commit, from its folder (from stator's root, empty for the root itself). Empty where the commit
    /// has none.
    ///
    /// # Errors
    /// When one of them is a link or a submodule, which stator does not read either.
    pub fn files(&self, commit: &str, folder: &str) -> Result<CommittedFiles, RestoreError> {
        let commit = self.repository.find_commit(Oid::from_str(commit)?)?;
        self.files_of(&commit, folder)
    }

    fn files_of(&self, commit: &Commit<'_>, folder: &str) -> Result<CommittedFiles, RestoreError> {
        let root = commit.tree()?;
        let path = self.path(folder, "");
        let path = path.trim_matches('/');
        let tree = if path.is_empty() {
            root
        } else {
            match root.get_path(Path::new(path)) {
                Ok(entry) if entry.kind() == Some(ObjectType::Tree) => self.repository.find_tree(entry.id())?,
                Ok(_) => return Ok(CommittedFiles::new()),
                Err(error) if error.code() == ErrorCode::NotFound => return Ok(CommittedFiles::new()),
                Err(error) => return Err(error.into()),
            }
        };
        let mut files = CommittedFiles::new();
        for entry in &tree {
            let Ok(name) = std::str::from_utf8(entry.name_bytes()) else { continue };
            if !is_of_model(name) {
                continue;
            }
            let executable = match entry.filemode() {
                mode if mode == i32::from(FileMode::BlobExecutable) => true,
                mode if mode == i32::from(FileMode::Blob) => false,
                _ => {
                    return Err(RestoreError::NoFile {
                        path: git::printable(self.path(folder, name).as_bytes()),
                        commit: short_commit(&commit.id().to_string()).to_owned(),
                    });
                }
            };
            files.insert(name.to_owned(), CommittedFile { oid: entry.id(), executable });
        }
        self.add_mounted_files(commit, folder, &tree, &mut files)?;
        Ok(files)
    }

    /// Adds the files that a model mounts, where they can be read. What settings above it name is looked up too.
    fn add_mounted_files(
        &self,
        commit: &Commit<'_>,
        folder: &str,
        tree: &git2::Tree<'_>,
        files: &mut CommittedFiles,
    ) -> Result<(), RestoreError> {
        let mut named = SourceTree::default();
        for (name, file) in files.iter() {
            let content = self.read(file).map(Into::into).map_err(|error| error.to_string());
            named.files.push(SourceFile { path: join(folder, name), content });
        }
        let root = commit.tree()?;
        let ends = folder.match_indices('/').map(|(end, _)| end).chain([folder.len()]);
        for above in std::iter::once("").chain(ends.filter(|end| *end > 0).filter_map(|end| folder.get(..end))) {
            let Ok(entry) = root.get_path(Path::new(&self.path(above, SETTINGS_FILE))) else { continue };
            let file = CommittedFile { oid: entry.id(), executable: false };
            let content = self.read(&file).map(Into::into).map_err(|error| error.to_string());
            named.files.push(SourceFile { path: join(above, SETTINGS_FILE), content });
        }
        for path in stator_model::intent::named_files(&named).remove(folder).into_iter().flatten() {
            let below = path.strip_prefix(folder).unwrap_or(&path).trim_start_matches('/');
            if let Ok(oid) = git::find_mounted(&self.repository, tree.id(), "", below)? {
                files.insert(below.to_owned(), CommittedFile { oid, executable: false });
            }
        }
        Ok(())
    }

    /// A file's bytes.
    ///
    /// # Errors
    /// When git has lost it, or it is larger than any file of a model.
    pub fn read(&self, blob: &CommittedFile) -> Result<Vec<u8>, RestoreError> {
        let (size, _) = self.repository.odb()?.read_header(blob.oid)?;
        if size > MAX_FILE_BYTES {
            return Err(RestoreError::TooLarge { size });
        }
        Ok(self.repository.find_blob(blob.oid)?.content().to_vec())
    }

    /// The newest commit that changed the model's files, and the one before it. Merges count as one step, by what they
    /// brought to the branch. `None` where no commit did, which is so for a model that is not committed.
    ///
    /// # Errors
    /// When history cannot be read, or ends before the change: a shallow clone.
    pub fn newest_change(
        &self,
        from: &str,
        folder: &str,
    ) -> Result<Option<(ModelCommit, Option<String>)>, RestoreError> {
        let mut commit = self.repository.find_commit(Oid::from_str(from)?)?;
        let mut here = self.files_of(&commit, folder)?;
        for _ in 0..MAX_HISTORY_DEPTH {
            let parent = match commit.parent(0) {
                Ok(parent) => parent,
                Err(_) if commit.parent_count() > 0 => return Err(RestoreError::Shallow),
                Err(_) if self.repository.is_shallow() => return Err(RestoreError::Shallow),
                Err(_) => return Ok((!here.is_empty()).then(|| (model_commit(&commit), None))),
            };
            let before = self.files_of(&parent, folder)?;
            if before != here {
                return Ok(Some((model_commit(&commit), (!before.is_empty()).then(|| parent.id().to_string()))));
            }
            here = before;
            commit = parent;
        }
        Ok(None)
    }

    /// The commits since `since` that changed the model's files.
    ///
    /// # Errors
    /// When history cannot be read.
    pub fn undone_commits(&self, since: &str, folder: &str) -> Result<UndoneCommits, RestoreError> {
        let mut walk = self.repository.revwalk()?;
        walk.push(self.head)?;
        walk.hide(Oid::from_str(since)?)?;
        walk.simplify_first_parent()?;
        walk.set_sorting(Sort::TOPOLOGICAL)?;
        let mut undone = UndoneCommits::default();
        for oid in walk.take(MAX_HISTORY_DEPTH) {
            let commit = self.repository.find_commit(oid?)?;
            let before = match commit.parent(0) {
                Ok(parent) => self.files_of(&parent, folder)?,
                Err(_) => CommittedFiles::new(),
            };
            if before == self.files_of(&commit, folder)? {
                continue;
            }
            if undone.commits.len() < MAX_LISTED_COMMITS {
                undone.commits.push(model_commit(&commit));
            } else {
                undone.omitted += 1;
            }
        }
        Ok(undone)
    }

    /// The model's files that are on disk otherwise than in the checked-out commit, sorted.
    ///
    /// # Errors
    /// When the commit or the folder cannot be read.
    pub fn uncommitted_files(&self, folder: &str) -> Result<Vec<String>, RestoreError> {
        let Some(workdir) = self.repository.workdir() else { return Ok(Vec::new()) };
        let place = workdir.join(self.path(folder, ""));
        let mut committed = self.files(&self.head.to_string(), folder)?;
        let mut differing = Vec::new();
        let entries = match fs_err::read_dir(&place) {
            Ok(entries) => entries,
            // Removed as a whole.
            Err(_) => return Ok(committed.into_keys().map(|name| self.path(folder, &name)).collect()),
        };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if !is_of_model(&name) {
                continue;
            }
            let known = committed.remove(&name).map(|blob| blob.oid);
            let there = Oid::hash_file(ObjectType::Blob, entry.path()).ok();
            if known.is_none() || known != there {
                differing.push(self.path(folder, &name));
            }
        }
        let is_otherwise = |(name, file): &(String, CommittedFile)| {
            Oid::hash_file(ObjectType::Blob, place.join(name)).ok() != Some(file.oid)
        };
        let rest = committed.into_iter().filter(is_otherwise);
        differing.extend(rest.map(|(name, _)| self.path(folder, &name)));
        differing.sort();
        Ok(differing)
    }

    /// Whether a branch of that name may be made. `Ok(true)` when it is there and has exactly these files and nothing else
    /// on top of what is checked out: then it was made by a rollback before.
    ///
    /// # Errors
    /// For a name that git does not take, or of another branch.
    pub fn find_rollback_branch(
        &self,
        branch: &str,
        folder: &str,
        files: &CommittedFiles,
    ) -> Result<Option<String>, RestoreError> {
        let invalid = || RestoreError::BranchName { branch: git::printable(branch.as_bytes()) };
        if branch.starts_with('-') || !git2::Branch::name_is_valid(branch).map_err(|_| invalid())? {
            return Err(invalid());
        }
        let there = match self.repository.find_branch(branch, BranchType::Local) {
            Ok(there) => there.into_reference().peel_to_commit()?,
            Err(error) if error.code() == ErrorCode::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let on_top = there.parent_count() == 1 && there.parent_id(0)? == self.head;
        if on_top && there.tree_id() == self.write_tree(folder, files)? {
            return Ok(Some(there.id().to_string()));
        }
        Err(RestoreError::BranchExists { branch: branch.to_owned() })
    }

    /// The tree of the commit that is checked out with these files in the model's folder, and no other of the model's.
    fn write_tree(&self, folder: &str, files: &CommittedFiles) -> Result<Oid, RestoreError> {
        let base = self.repository.find_commit(self.head)?;
        let mut update = TreeUpdateBuilder::new();
        // A file that pods mount may be there for somebody else as well.
        let goes = |name: &&String| is_of_model(name) && !files.contains_key(*name);
        for name in self.files_of(&base, folder)?.keys().filter(goes) {
            update.remove(self.path(folder, name));
        }
        for (name, blob) in files {
            let mode = if blob.executable { FileMode::BlobExecutable } else { FileMode::Blob };
            update.upsert(self.path(folder, name), blob.oid, mode);
        }
        Ok(update.create_updated(&self.repository, &base.tree()?)?)
    }

    /// Makes the commit on top of what is checked out, and the branch that points to it. Gives the commit. No hook runs and
    /// nothing is signed; who made it is as git is configured.
    ///
    /// # Errors
    /// When git does not know who commits, or cannot write.
    pub fn commit_branch(
        &self,
        branch: &str,
        folder: &str,
        files: &CommittedFiles,
        message: &str,
    ) -> Result<String, RestoreError> {
        let who = self.repository.signature().map_err(|_| RestoreError::Nobody)?;
        let base = self.repository.find_commit(self.head)?;
        let tree = self.repository.find_tree(self.write_tree(folder, files)?)?;
        let commit = self.repository.commit(None, &who, &who, message, &tree, &[&base])?;
        let name = format!("refs/heads/{branch}");
        match self.repository.reference(&name, commit, false, "stator rollback") {
            Ok(_) => Ok(commit.to_string()),
            Err(error) if error.code() == ErrorCode::Exists => {
                Err(RestoreError::BranchExists { branch: branch.to_owned() })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether commits are signed here, which a rollback's is not.
    pub fn signs_commits(&self) -> bool {
        self.repository.config().and_then(|config| config.get_bool("commit.gpgsign")).unwrap_or(false)
    }

    /// Where the branch that is checked out is pushed to: its own remote, or `origin`, or the only one.
    pub fn remote(&self) -> Option<PushRemote> {
        let upstream = self.repository.branch_upstream_remote(&format!("refs/heads/{}", self.branch)).ok();
        let upstream = upstream.and_then(|name| name.as_str().ok().map(str::to_owned));
        let names = self.repository.remotes().ok()?;
        let all: Vec<&str> = names.iter().flatten().flatten().collect();
        let fallback =
            if all.contains(&"origin") { Some("origin") } else { all.first().copied().filter(|_| all.len() == 1) };
        let name = upstream.as_deref().or(fallback)?;
        let remote = self.repository.find_remote(name).ok()?;
        let url = remote.url().ok()?.to_owned();
        let merge =
            self.repository.config().and_then(|config| config.get_string(&format!("branch.{}.merge", self.branch)));
        let branch = merge.ok().and_then(|name| name.strip_prefix("refs/heads/").map(str::to_owned));
        Some(PushRemote { name: name.to_owned(), url, branch: branch.unwrap_or_else(|| self.branch.clone()) })
    }

    /// A path from git's root, for one from stator's.
    pub fn path(&self, folder: &str, name: &str) -> String {
        join(&join(&self.folder, folder), name)
    }
}

/// Whether a file in an intent's folder belongs to the intent: itself, an overlay or a lock.
fn is_of_model(name: &str) -> bool {
    name == "model.yaml" || name.starts_with("model.") && name.ends_with(".yaml") && name.len() > "model..yaml".len()
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() || name.is_empty() { format!("{folder}{name}") } else { format!("{folder}/{name}") }
}

fn model_commit(commit: &Commit<'_>) -> ModelCommit {
    ModelCommit { commit: commit.id().to_string(), summary: summary(commit) }
}

/// A commit's first line, safe to print.
fn summary(commit: &Commit<'_>) -> String {
    let first = commit.message_bytes().split(|byte| *byte == b'\n').next().unwrap_or_default();
    git::printable(first).chars().take(100).collect()
}
