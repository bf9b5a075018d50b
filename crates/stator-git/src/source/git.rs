//! Reading commits out of a git object database. No network, no hooks, no filters, no work tree.

use super::error::SourceError;
use super::source_file::{
    FOLDER_REASON, FileContent, LINK_REASON, MAX_FILE_BYTES, attach_mounted_files, is_hidden, is_manifest, is_read,
    missing_reason, relative_path, too_large_reason,
};
use git2::{ErrorCode, ObjectType, Oid, Repository};
use stator_model::intent::{SourceFile, SourceTree, UnreadCause, UnreadPlace};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Entries of git trees that are looked at before stator gives up. Trees may share subtrees, so a few kilobytes can
/// spell out billions of paths.
const MAX_TREE_ENTRIES: usize = 5_000_000;
/// Files of ours in one commit, by the same reasoning.
const MAX_FILES: usize = 1_000_000;
/// Bytes of one path: as many as Linux takes.
pub(super) const MAX_PATH_LENGTH: usize = 4096;
/// Blobs above this size are not loaded at all, not even to be cut short.
pub(super) const MAX_BLOB_BYTES: usize = 32 << 20;
/// File modes of git trees.
const MODE_LINK: i32 = 0o120_000;
const MODE_SUBMODULE: i32 = 0o160_000;
const MODE_KIND: i32 = 0o170_000;
const MODE_FILE: i32 = 0o100_000;

/// The files of the repository at `root` as a commit has them, and that commit in full.
///
/// `revision` is a branch, a tag, a commit, or anything relative to one (`HEAD~1`). `main...HEAD` is where the two
/// parted, and `main...` the same with `HEAD`: what a branch is compared with when `main` has gone on meanwhile.
///
/// # Errors
/// When there is no git repository, no such revision, or the commit does not have the folder `root`. A single file
/// that cannot be read is an entry with its reason.
pub fn read_tree_at(root: &Path, revision: &str) -> Result<(SourceTree, String), SourceError> {
    let root = fs_err::canonicalize(root).map_err(|_| SourceError::Missing { path: root.to_owned() })?;
    let (repository, folder) = discover(&root)?;
    let unknown = |error: git2::Error| {
        let names_none = [ErrorCode::NotFound, ErrorCode::InvalidSpec, ErrorCode::Ambiguous, ErrorCode::Peel];
        if !names_none.contains(&error.code()) {
            return git_error(&root, &error);
        }
        SourceError::UnknownRevision {
            revision: revision.to_owned(),
            path: root.clone(),
            reason: error.message().to_owned(),
        }
    };
    let commit = resolve_commit(&repository, revision).map_err(unknown)?;
    let CommittedFiles { files: entries, unread } = committed_files(&repository, commit, &folder, &root)?;
    let odb = repository.odb().map_err(|error| git_error(&root, &error))?;
    let files =
        entries.into_iter().map(|(path, entry)| SourceFile { content: read_blob(&odb, &entry), path }).collect();
    let mut tree = SourceTree { files, unread, ..SourceTree::default() };
    let top = find_folder(&repository, commit, &folder, &root)?;
    attach_mounted_files(&mut tree, |folder, path| {
        let found = find_mounted(&repository, top, folder, path).map_err(|error| git_error(&root, &error))?;
        Ok::<_, SourceError>(found.and_then(|oid| read_mounted_blob(&odb, oid)))
    })?;
    Ok((tree, commit.to_string()))
}

fn resolve_commit(repository: &Repository, revision: &str) -> Result<Oid, git2::Error> {
    let single = |name: &str| Ok(repository.revparse_single(name)?.peel(ObjectType::Commit)?.id());
    match revision.split_once("...") {
        Some((ours, theirs)) => {
            let or_head = |name: &str| single(if name.is_empty() { "HEAD" } else { name });
            repository.merge_base(or_head(ours)?, or_head(theirs)?)
        }
        None => single(revision),
    }
}

/// The commit that a work tree stands on, with `-dirty` when one of the files read differs from it. Empty outside git
/// and where git cannot be read: the revision is for people, and no plan hangs from it.
pub(super) fn describe_revision(root: &Path, tree: &SourceTree, notes: &mut Vec<String>) -> String {
    let known = discover(root).and_then(|(repository, folder)| {
        let head = match repository.head() {
            Ok(head) => head,
            // A fresh repository has no commit yet.
            Err(error) if error.code() == ErrorCode::UnbornBranch => return Ok(None),
            Err(error) => return Err(git_error(root, &error)),
        };
        let head = head.peel_to_commit().map_err(|error| git_error(root, &error))?.id();
        let committed = match committed_files(&repository, head, &folder, root) {
            Ok(committed) => committed.files,
            Err(SourceError::NoSuchFolder { .. }) => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        let is_dirty = is_dirty(tree, &committed) || are_mounted_dirty(&repository, head, &folder, root, tree)?;
        Ok(Some((head, is_dirty)))
    });
    match known {
        Ok(Some((head, true))) => format!("{head}-dirty"),
        Ok(Some((head, false))) => head.to_string(),
        Ok(None) | Err(SourceError::NoGit { .. }) => String::new(),
        Err(error) => {
            notes.push(format!("the revision is unknown: {error}; {}", error.help()));
            String::new()
        }
    }
}

/// Whether the files on disk are other than those of the commit. Files that git does not track count: what is planned
/// is then not what the commit says.
fn is_dirty(tree: &SourceTree, committed: &BTreeMap<String, TreeFile>) -> bool {
    if tree.files.len() != committed.len() {
        return true;
    }
    tree.files.iter().any(|file| match (committed.get(&file.path), &file.content) {
        // Cut short when it was read: an error in any case, and not to be distinguished here.
        (Some(TreeFile::Blob(_)), Ok(bytes)) if bytes.len() == MAX_FILE_BYTES => false,
        (Some(TreeFile::Blob(oid)), Ok(bytes)) => Oid::hash_object(ObjectType::Blob, bytes).ok().as_ref() != Some(oid),
        (Some(TreeFile::Refused(_)), Err(_)) => false,
        (Some(TreeFile::Blob(_)), Err(_)) | (Some(TreeFile::Refused(_)), Ok(_)) | (None, _) => true,
    })
}

/// Whether a file that a model mounts is on disk other than in the commit.
fn are_mounted_dirty(
    repository: &Repository,
    head: Oid,
    folder: &str,
    root: &Path,
    tree: &SourceTree,
) -> Result<bool, SourceError> {
    if tree.mounted_files.is_empty() {
        return Ok(false);
    }
    let top = match find_folder(repository, head, folder, root) {
        Ok(top) => top,
        Err(SourceError::NoSuchFolder { .. }) => return Ok(true),
        Err(error) => return Err(error),
    };
    for (model, files) in &tree.mounted_files {
        for file in files {
            let below = file.path.strip_prefix(model.as_str()).unwrap_or(&file.path).trim_start_matches('/');
            let committed = find_mounted(repository, top, model, below).map_err(|error| git_error(root, &error))?;
            let is_same = match (&file.content, &committed) {
                // Cut short when it was read, and an error in any case.
                (Ok(bytes), Ok(_)) if bytes.len() == MAX_FILE_BYTES => true,
                (Ok(bytes), Ok(oid)) => Oid::hash_object(ObjectType::Blob, bytes).ok().as_ref() == Some(oid),
                (Err(_), Err(_)) => true,
                (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
            };
            if !is_same {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// A file of ours in a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum TreeFile {
    /// Its content.
    Blob(Oid),
    /// Why it is not read.
    Refused(&'static str),
}

/// The git repository around a folder, and the folder's path in it.
pub(super) fn discover(root: &Path) -> Result<(Repository, String), SourceError> {
    let repository = Repository::discover(root).map_err(|error| {
        if error.code() == ErrorCode::NotFound {
            SourceError::NoGit { path: root.to_owned() }
        } else if error.code() == ErrorCode::Owner {
            SourceError::NotOwned { path: root.to_owned() }
        } else {
            git_error(root, &error)
        }
    })?;
    let Some(workdir) = repository.workdir() else {
        // A bare repository has no folders on disk: its own folder stands for the root of its commits.
        let bare = fs_err::canonicalize(repository.path()).is_ok_and(|path| path == root);
        return if bare { Ok((repository, String::new())) } else { Err(SourceError::NoGit { path: root.to_owned() }) };
    };
    let folder = fs_err::canonicalize(workdir).ok().and_then(|workdir| relative_path(&workdir, root));
    match folder {
        Some(folder) => Ok((repository, folder)),
        None => Err(SourceError::NoGit { path: root.to_owned() }),
    }
}

/// The path of a folder from the top of the work tree that it lies in, as CI and forges name files; empty at the top, and
/// outside git.
pub fn path_in_work_tree(folder: &Path) -> String {
    let canonical = fs_err::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    discover(&canonical).map(|(_, path)| path).unwrap_or_default()
}

/// What a commit holds below a folder.
#[derive(Debug, Default)]
pub(super) struct CommittedFiles {
    /// Every file of ours, by its path from that folder.
    pub(super) files: BTreeMap<String, TreeFile>,
    /// What may hold more of them and is not looked into, sorted.
    pub(super) unread: Vec<UnreadPlace>,
}

impl CommittedFiles {
    /// Takes in what one folder holds; `prefix` is its path with a `/`, and `plain` says whether that is as it is printed.
    pub(super) fn add_listing(&mut self, prefix: &str, listing: &TreeListing, plain: bool) {
        for (name, file) in &listing.files {
            let file = if plain { *file } else { TreeFile::Refused(UNSAFE_PATH_REASON) };
            insert_file(&mut self.files, format!("{prefix}{name}"), file);
        }
        let unread = listing.unread.iter();
        self.unread
            .extend(unread.map(|(name, cause)| UnreadPlace { path: format!("{prefix}{name}"), cause: cause.clone() }));
    }

    /// How much was found.
    pub(super) fn len(&self) -> usize {
        self.files.len() + self.unread.len()
    }
}

/// The tree of a folder of a commit.
fn find_folder(repository: &Repository, commit: Oid, folder: &str, root: &Path) -> Result<Oid, SourceError> {
    let git = |error: git2::Error| git_error(root, &error);
    let missing = || SourceError::NoSuchFolder { commit: commit.to_string(), folder: folder.to_owned() };
    let mut top = repository.find_commit(commit).and_then(|commit| commit.tree()).map_err(git)?.id();
    for part in folder.split('/').filter(|part| !part.is_empty()) {
        let tree = repository.find_tree(top).map_err(git)?;
        let entry = tree.get_name(part).filter(|entry| entry.kind() == Some(ObjectType::Tree));
        top = entry.ok_or_else(missing)?.id();
    }
    Ok(top)
}

/// A file that a model mounts, by the model's folder and its path from there: its blob, or why it is not read.
pub(super) fn find_mounted(
    repository: &Repository,
    top: Oid,
    folder: &str,
    path: &str,
) -> Result<Result<Oid, String>, git2::Error> {
    let mut at = top;
    let parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).chain(path.split('/')).collect();
    for (position, part) in parts.iter().enumerate() {
        let tree = repository.find_tree(at)?;
        let Some(entry) = tree.get_name(part) else {
            let names: Vec<String> = tree.iter().map(|entry| printable(entry.name_bytes())).collect();
            return Ok(Err(missing_reason(part, names.iter().map(String::as_str))));
        };
        let is_last = position + 1 == parts.len();
        at = entry.id();
        match (entry.filemode_raw(), entry.kind()) {
            (MODE_LINK, _) => return Ok(Err(LINK_REASON.to_owned())),
            (MODE_SUBMODULE, _) => return Ok(Err("it is in a submodule".to_owned())),
            (_, Some(ObjectType::Tree)) if is_last => return Ok(Err(FOLDER_REASON.to_owned())),
            (_, Some(ObjectType::Blob)) if !is_last => return Ok(Err("there is no such file".to_owned())),
            (_, Some(_) | None) => {}
        }
    }
    Ok(Ok(at))
}

/// The bytes of a file that a model mounts.
pub(super) fn read_mounted_blob(odb: &git2::Odb<'_>, oid: Oid) -> FileContent {
    match odb.read_header(oid) {
        Ok((size, ObjectType::Blob)) if size > MAX_BLOB_BYTES => Err(too_large_reason(size)),
        Ok(_) | Err(_) => read_blob(odb, &TreeFile::Blob(oid)),
    }
}

/// Every file of ours in a commit below a folder, by its path from that folder.
fn committed_files(
    repository: &Repository,
    commit: Oid,
    folder: &str,
    root: &Path,
) -> Result<CommittedFiles, SourceError> {
    let git = |error: git2::Error| git_error(root, &error);
    let top = find_folder(repository, commit, folder, root)?;

    let mut found = CommittedFiles::default();
    let mut looked_at = 0;
    // A list of folders still to look into, and not a recursion: how deep a tree goes is up to whoever wrote it.
    let mut open = vec![(String::new(), top, true)];
    while let Some((prefix, oid, plain)) = open.pop() {
        let listing = list_tree(&repository.find_tree(oid).map_err(git)?);
        looked_at += 1 + listing.entries;
        if looked_at > MAX_TREE_ENTRIES {
            return Err(SourceError::TooMany { path: root.to_owned(), limit: MAX_TREE_ENTRIES, what: "entries" });
        }
        if prefix.len() > MAX_PATH_LENGTH {
            return Err(SourceError::TooMany {
                path: root.to_owned(),
                limit: MAX_PATH_LENGTH,
                what: "bytes in one path",
            });
        }
        found.add_listing(&prefix, &listing, plain);
        open.extend(
            listing
                .folders
                .iter()
                .map(|folder| (format!("{prefix}{}/", folder.name), folder.oid, plain && folder.plain)),
        );
        if found.len() > MAX_FILES {
            return Err(SourceError::TooMany { path: root.to_owned(), limit: MAX_FILES, what: "files to read" });
        }
    }
    found.unread.sort();
    Ok(found)
}

/// What one git tree holds that matters.
#[derive(Debug, Default)]
pub(super) struct TreeListing {
    /// Files of ours by name.
    pub(super) files: Vec<(String, TreeFile)>,
    /// Folders to look into.
    pub(super) folders: Vec<TreeFolder>,
    /// What may be a folder with files of ours and is not looked into, by name.
    pub(super) unread: Vec<(String, UnreadCause)>,
    /// How many entries there are in all.
    pub(super) entries: usize,
}

/// A folder in a git tree.
#[derive(Debug)]
pub(super) struct TreeFolder {
    /// Safe to print.
    pub(super) name: String,
    /// Whether the name is as it is printed.
    pub(super) plain: bool,
    /// Its tree.
    pub(super) oid: Oid,
}

/// Why a file with such a path is not read.
pub(super) const UNSAFE_PATH_REASON: &str = "its path is not UTF-8 or holds control characters";

/// Looks through one git tree.
pub(super) fn list_tree(tree: &git2::Tree<'_>) -> TreeListing {
    let mut listing = TreeListing { entries: tree.len(), ..TreeListing::default() };
    for entry in tree {
        let name = entry.name_bytes();
        let text = String::from_utf8_lossy(name);
        let is_folder = entry.kind() == Some(ObjectType::Tree);
        let plain = std::str::from_utf8(name).is_ok_and(|name| !name.contains(is_terminal_control));
        if is_manifest(&text) || (is_read(&text) && !is_folder) {
            let file = match entry.filemode_raw() {
                _ if !plain => TreeFile::Refused(UNSAFE_PATH_REASON),
                MODE_LINK => TreeFile::Refused("it is a symbolic link, and links are not followed"),
                MODE_SUBMODULE => TreeFile::Refused("it is a submodule"),
                _ if is_folder => TreeFile::Refused("it is a folder"),
                mode if mode & MODE_KIND == MODE_FILE => TreeFile::Blob(entry.id()),
                _ => TreeFile::Refused("it is of a kind that git does not know"),
            };
            listing.files.push((printable(name), file));
        } else if is_folder && !is_hidden(name) {
            // A `/` inside a name would make another path of it, which git itself never writes.
            let plain = plain && !name.contains(&b'/');
            listing.folders.push(TreeFolder { name: printable(name), plain, oid: entry.id() });
        } else if let Some(cause) = unread_cause(entry.filemode_raw()).filter(|_| !is_hidden(name)) {
            listing.unread.push((printable(name), cause));
        }
    }
    listing
}

/// Why an entry may stand for a folder and is not looked into, by its file mode.
fn unread_cause(mode: i32) -> Option<UnreadCause> {
    match mode {
        MODE_LINK => Some(UnreadCause::SymbolicLink),
        MODE_SUBMODULE => Some(UnreadCause::Submodule),
        _ => None,
    }
}

/// The submodules of the repository around a folder, by their paths from that folder. None outside git, and none where
/// git cannot say.
pub(super) fn submodule_paths(root: &Path) -> Vec<String> {
    let Ok((repository, folder)) = discover(root) else { return Vec::new() };
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let found = repository.submodules().unwrap_or_default();
    let paths = found.iter().filter_map(|one| one.path().to_str()?.strip_prefix(&prefix).map(str::to_owned));
    paths.collect()
}

/// Adds a file. Of two with one path neither is read: git never writes such a tree, and which one counts would be a
/// matter of who reads it.
pub(super) fn insert_file(found: &mut BTreeMap<String, TreeFile>, path: String, file: TreeFile) {
    found
        .entry(path)
        .and_modify(|file| *file = TreeFile::Refused("the commit has two files of that path"))
        .or_insert(file);
}

pub(super) fn read_blob(odb: &git2::Odb<'_>, file: &TreeFile) -> Result<Arc<[u8]>, String> {
    let oid = match file {
        TreeFile::Blob(oid) => *oid,
        TreeFile::Refused(reason) => return Err((*reason).to_owned()),
    };
    let text = |error: git2::Error| error.message().to_owned();
    let (size, kind) = odb.read_header(oid).map_err(text)?;
    if kind != ObjectType::Blob {
        return Err("the git object is not a file".to_owned());
    }
    if size > MAX_BLOB_BYTES {
        return Err(format!("it has {size} bytes; an intent has at most 1 MiB"));
    }
    let object = odb.read(oid).map_err(text)?;
    let data = object.data();
    Ok(data.get(..MAX_FILE_BYTES).unwrap_or(data).into())
}

/// A name from a file system or a git tree as text that is safe to print: what is not UTF-8 or would steer a terminal
/// is escaped.
pub(super) fn printable(name: &[u8]) -> String {
    String::from_utf8_lossy(name)
        .chars()
        .flat_map(|c| if is_terminal_control(c) { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
        .collect()
}

/// Characters that steer a terminal, or turn the order in which a line is read.
fn is_terminal_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn git_error(root: &Path, error: &git2::Error) -> SourceError {
    SourceError::Git { path: root.to_owned(), reason: error.message().to_owned() }
}
