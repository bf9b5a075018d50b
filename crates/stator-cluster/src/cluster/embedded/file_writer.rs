//! Writing to the folder so that a kill at any moment leaves every object whole.

use fs_err as fs;
use std::io::{self, Write};
use std::path::Path;

/// Marks the temporary files of a write under way; they begin with it, so that no listing takes them for objects.
pub(super) const TEMPORARY_PREFIX: &str = ".stator-write-";

/// How files come and go. The one that counts is [`AtomicFileWriter`]; tests put a full disk in its place.
pub trait FileWriter: Send + Sync {
    /// Puts the bytes where the path says: after a kill at any moment the file holds the old bytes or the new ones.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Takes the file away.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// Temporary file in the same folder, then rename: the process may be killed at any moment. Nothing waits for the disk,
/// which would cost a first sync of ten thousand models minutes; `docs/performance.md` says what a power cut may do.
#[derive(Clone, Copy, Debug, Default)]
pub struct AtomicFileWriter;

impl FileWriter for AtomicFileWriter {
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let folder = parent_folder(path);
        fs::create_dir_all(folder)?;
        // Dropped on any error below, which takes the file away again.
        let mut temporary = tempfile::Builder::new().prefix(TEMPORARY_PREFIX).tempfile_in(folder)?;
        // Through the file itself, whose faults do not name the temporary path.
        temporary.as_file_mut().write_all(bytes)?;
        temporary.persist(path).map_err(|fault| fault.error)?;
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

fn parent_folder(path: &Path) -> &Path {
    path.parent().unwrap_or_else(|| Path::new("."))
}

/// Takes away what killed writers left behind. Called under the lock, so no live writer's file can be hit.
pub(super) fn remove_temporary_files(root: &Path) -> io::Result<()> {
    for namespace in fs::read_dir(root)? {
        let namespace = namespace?;
        if !namespace.file_type()?.is_dir() {
            continue;
        }
        for kind in fs::read_dir(namespace.path())? {
            let kind = kind?;
            if !kind.file_type()?.is_dir() {
                continue;
            }
            for file in fs::read_dir(kind.path())? {
                let file = file?;
                if file.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX) {
                    tracing::debug!(path = %file.path().display(), "removing what an interrupted write left");
                    fs::remove_file(file.path())?;
                }
            }
        }
    }
    Ok(())
}
