//! Which files of a repository are read, and what they are called.

use std::path::Path;

/// The most bytes that are kept of one file. One more than an intent may have, so that a file that is too long is
/// seen to be too long.
pub const MAX_FILE_BYTES: usize = (1 << 20) + 1;

/// What a file is to stator, by its name alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceFileKind {
    /// `stator.yaml`, `model.yaml` or `model.<environment>.yaml`.
    Manifest,
    /// `model.yml` and the like: not read, and worth a word.
    NearMiss,
    /// Anything else.
    Other,
}

pub(super) fn file_kind(name: &str) -> SourceFileKind {
    match name {
        "stator.yaml" | "model.yaml" => SourceFileKind::Manifest,
        "stator.yml" | "model.yml" => SourceFileKind::NearMiss,
        _ if name.starts_with("model.") && name.ends_with(".yaml") && name.len() > "model..yaml".len() => {
            SourceFileKind::Manifest
        }
        _ if name.starts_with("model.") && name.ends_with(".yml") => SourceFileKind::NearMiss,
        _ => SourceFileKind::Other,
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
