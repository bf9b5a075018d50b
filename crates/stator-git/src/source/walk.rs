//! Finding and reading the files of a repository on disk, folder level by folder level, on all cores.

use super::error::SourceError;
use super::git::submodule_paths;
use super::source_file::{
    FOLDER_REASON, FileContent, LINK_REASON, MAX_FILE_BYTES, attach_mounted_files, is_hidden, is_manifest, is_read,
    missing_reason, relative_path,
};
use rayon::prelude::*;
use stator_model::intent::{SourceFile, SourceTree, UnreadCause, UnreadPlace};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Folders that are looked into before stator gives up: far above any repository of intents, and low enough that a
/// mistaken `stator plan /` ends.
const MAX_FOLDERS: usize = 200_000;
/// Files of ours that are read, by the same reasoning.
const MAX_TREE_FILES: usize = 1_000_000;

/// What one folder holds that matters.
#[derive(Default)]
struct FolderListing {
    folders: Vec<PathBuf>,
    files: Vec<FolderEntry>,
    unread: Vec<UnreadPlace>,
    notes: Vec<String>,
}

/// A file of ours: readable as far as its type goes, or not, and why.
struct FolderEntry {
    path: PathBuf,
    refused: Option<&'static str>,
}

/// Reads every file of ours under the root.
pub(super) fn read_folder_tree(root: &Path) -> Result<(SourceTree, Vec<String>), SourceError> {
    let mut level = vec![root.to_owned()];
    let (mut entries, mut unread, mut notes, mut seen) = (Vec::new(), Vec::new(), Vec::new(), 0);
    while !level.is_empty() {
        seen += level.len();
        if seen > MAX_FOLDERS {
            return Err(SourceError::TooMany { path: root.to_owned(), limit: MAX_FOLDERS, what: "folders" });
        }
        let listings: Result<Vec<FolderListing>, SourceError> =
            level.par_iter().map(|folder| list_folder(root, folder)).collect();
        level = Vec::new();
        for FolderListing { folders, files, unread: links, notes: more } in listings? {
            level.extend(folders);
            entries.extend(files);
            unread.extend(links);
            notes.extend(more);
        }
        if entries.len() + unread.len() > MAX_TREE_FILES {
            return Err(SourceError::TooMany { path: root.to_owned(), limit: MAX_TREE_FILES, what: "files to read" });
        }
    }
    let mut files: Vec<SourceFile> = entries.into_par_iter().map(|entry| load_file(root, entry)).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    notes.sort();
    // One that is checked out is read as the files that it is made of.
    let is_empty = |path: &String| {
        let below = format!("{path}/");
        !files.iter().any(|file| file.path.starts_with(&below))
    };
    let submodules = submodule_paths(root).into_iter().filter(is_empty);
    unread.extend(submodules.map(|path| UnreadPlace { path, cause: UnreadCause::Submodule }));
    unread.sort();
    let mut tree = SourceTree { files, unread, ..SourceTree::default() };
    let read = |folder: &str, path: &str| Ok(read_mounted_file(root, folder, path));
    attach_mounted_files(&mut tree, read).map(|()| (tree, notes))
}

fn list_folder(root: &Path, folder: &Path) -> Result<FolderListing, SourceError> {
    let unreadable = |error: std::io::Error| SourceError::Unreadable {
        path: relative_path(root, folder).filter(|path| !path.is_empty()).map_or(folder.to_owned(), PathBuf::from),
        reason: error.to_string(),
    };
    let mut listing = FolderListing::default();
    for entry in fs_err::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name();
        // The type of the entry itself: a link is a link, wherever it leads.
        let kind = entry.file_type().map_err(unreadable)?;
        let text = name.to_string_lossy();
        if is_manifest(&text) || (is_read(&text) && !kind.is_dir()) {
            let refused = if kind.is_file() {
                None
            } else if kind.is_symlink() {
                Some("it is a symbolic link, and links are not followed")
            } else if kind.is_dir() {
                Some("it is a folder")
            } else {
                Some("it is a pipe, a socket or a device")
            };
            listing.files.push(FolderEntry { path: entry.path(), refused });
        } else if kind.is_dir() && !is_hidden(name.as_bytes()) {
            listing.folders.push(entry.path());
        } else if kind.is_symlink() && !is_hidden(name.as_bytes()) {
            let path = display_path(root, &entry.path());
            if entry.path().is_dir() {
                listing.notes.push(format!("{path} is a symbolic link to a folder and is not followed"));
            }
            listing.unread.push(UnreadPlace { path, cause: UnreadCause::SymbolicLink });
        }
    }
    Ok(listing)
}

fn load_file(root: &Path, entry: FolderEntry) -> SourceFile {
    let FolderEntry { path, refused } = entry;
    let printable = relative_path(root, &path).filter(|path| !path.chars().any(char::is_control));
    let content = match (&printable, refused) {
        (None, _) => Err("its path is not UTF-8 or holds control characters".to_owned()),
        (Some(_), Some(reason)) => Err(reason.to_owned()),
        (Some(_), None) => read_file(&path).map(Into::into),
    };
    SourceFile { path: printable.unwrap_or_else(|| display_path(root, &path)), content }
}

/// A path for a message: from the root, with whatever a terminal should not get escaped.
fn display_path(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    super::git::printable(below.as_os_str().as_bytes())
}

/// At most [`MAX_FILE_BYTES`] bytes of a regular file, or why not.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let text = |error: std::io::Error| error.to_string();
    // `fs_err` would name the path a second time: whoever reports the reason names the file already.
    let file = std::fs::File::open(path).map_err(text)?;
    let metadata = file.metadata().map_err(text)?;
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let expected = usize::try_from(metadata.len()).unwrap_or(MAX_FILE_BYTES).min(MAX_FILE_BYTES);
    let mut bytes = Vec::with_capacity(expected);
    file.take(MAX_FILE_BYTES as u64).read_to_end(&mut bytes).map_err(text)?;
    Ok(bytes)
}

/// Reads a file that a model mounts. Every part of its path is looked at by itself: one may be a link.
fn read_mounted_file(root: &Path, folder: &str, path: &str) -> FileContent {
    let mut at = root.join(folder);
    for part in path.split('/') {
        let inside = at.clone();
        at.push(part);
        match fs_err::symlink_metadata(&at) {
            Ok(metadata) if metadata.is_symlink() => return Err(LINK_REASON.to_owned()),
            Ok(_) => {}
            Err(error) if is_missing(&error) => {
                let entries = fs_err::read_dir(&inside).into_iter().flatten().flatten();
                let names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
                return Err(missing_reason(part, names.iter().map(String::as_str)));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    if at.is_dir() { Err(FOLDER_REASON.to_owned()) } else { read_file(&at).map(Into::into) }
}

/// Whether nothing is there: also where a part of the path is a file.
fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}
