//! Which files of a repository are read, and what they are called; and files that models mount: read beside the models, from
//! where those are read, and nothing else of the folder.

use stator_core::finding::did_you_mean;
use stator_model::intent::{FileRole, SourceFile, SourceTree, named_files};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// The most bytes that are kept of one file. One more than an intent may have, so that a file that is too long is
/// seen to be too long.
pub const MAX_FILE_BYTES: usize = (1 << 20) + 1;

/// Whether a file is read, by its name alone: those of stator, and those whose name is nearly that of one.
pub(super) fn is_read(name: &str) -> bool {
    FileRole::of_name(name) != FileRole::Other
}

/// Whether a name is that of one of stator's files, so that a folder or a link of that name is a mistake.
pub(super) fn is_manifest(name: &str) -> bool {
    match FileRole::of_name(name) {
        FileRole::Settings | FileRole::Intent | FileRole::Overlay(_) | FileRole::Lock(_) => true,
        FileRole::Misnamed { .. } | FileRole::Other => false,
    }
}

/// Hidden folders are not looked into: `.git`, `.stator` (the embedded cluster), editors' folders.
pub(super) fn is_hidden(name: &[u8]) -> bool {
    name.first() == Some(&b'.')
}

/// `path` from `root` with `/`; `None` when a part of it is not UTF-8 or it is not below.
pub(super) fn relative_path(root: &Path, path: &Path) -> Option<String> {
    let parts: Option<Vec<&str>> =
        path.strip_prefix(root).ok()?.components().map(|part| part.as_os_str().to_str()).collect();
    Some(parts?.join("/"))
}

/// Why a link is not read.
pub(super) const LINK_REASON: &str = "it is a symbolic link, or in one, and links are not followed";
/// Why a folder is not read.
pub(super) const FOLDER_REASON: &str = "it is a folder; name each file of it";

/// The bytes of a file, or why they are not read.
pub(super) type FileContent = Result<Arc<[u8]>, String>;

/// Reads the files that models of a tree may mount. `read` gives one, by the folder of its model and its path from there.
pub(super) fn attach_mounted_files<E>(
    tree: &mut SourceTree,
    mut read: impl FnMut(&str, &str) -> Result<FileContent, E>,
) -> Result<(), E> {
    for (folder, paths) in named_files(tree) {
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            let below = path.strip_prefix(&folder).map_or(path.as_str(), |below| below.trim_start_matches('/'));
            files.push(SourceFile { content: read(&folder, below)?, path });
        }
        tree.mounted_files.insert(folder, files);
    }
    Ok(())
}

/// That there is no such file, and which one may have been meant: `names` are those of its folder.
pub(super) fn missing_reason<'a>(path: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    let mut reason = "there is no such file".to_owned();
    if let Some(meant) = did_you_mean(name, names) {
        let _ = write!(reason, "; {meant}");
    }
    reason
}

/// A blob's reason for being too large, where it is not even loaded.
pub(super) fn too_large_reason(size: usize) -> String {
    format!("it has {size} bytes, and a ConfigMap holds at most {}", MAX_FILE_BYTES - 1)
}
