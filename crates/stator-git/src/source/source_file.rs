//! Which files of a repository are read, and what they are called.

use stator_model::intent::FileRole;
use std::path::Path;

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
