//! Files that models mount: read beside the models, from where those are read, and nothing else of the folder.

use super::source_file::MAX_FILE_BYTES;
use stator_core::finding::did_you_mean;
use stator_model::intent::{SourceFile, SourceTree, named_files};
use std::fmt::Write as _;
use std::sync::Arc;

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
