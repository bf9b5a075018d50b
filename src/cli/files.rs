//! Writing files so that a reader, or a kill at any moment, never meets half of one.

use super::error::CliError;
use stator_git::source::MAX_FILE_BYTES;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

/// Writes a file whole: into a temporary one beside it, flushed to the disk, then renamed over it. Folders are made.
///
/// # Errors
/// When the folder or the file cannot be written; the old file is then untouched.
pub fn write_atomically(path: &Path, content: &[u8]) -> Result<(), CliError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs_err::create_dir_all(folder)?;
    let fail = |error: std::io::Error| {
        CliError::from(std::io::Error::new(error.kind(), format!("{} cannot be written: {error}", path.display())))
    };
    let mut file = tempfile::Builder::new().prefix(".stator-").tempfile_in(folder).map_err(fail)?;
    file.write_all(content).map_err(fail)?;
    file.as_file().sync_all().map_err(fail)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // A temporary file is private; a file that exists keeps its mode, a new one gets the usual one.
        let mode = fs_err::metadata(path).map_or(0o644, |old| old.permissions().mode() & 0o777);
        file.as_file().set_permissions(std::fs::Permissions::from_mode(mode)).map_err(fail)?;
    }
    file.persist(path).map_err(|error| fail(error.error))?;
    Ok(())
}

/// What is piped in, of at most as many bytes as a file of a repository may have; else why it cannot be used.
pub fn read_standard_input() -> Result<Arc<[u8]>, String> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    std::io::stdin()
        .lock()
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("it cannot be read: {error}"))?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err(format!("it has more than {MAX_FILE_BYTES} bytes"));
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.yaml");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(fs_err::read(&path).unwrap(), b"two");
        assert_eq!(fs_err::read_dir(folder.path().join("a")).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_in_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = write_atomically(folder.path(), b"x").unwrap_err();
        assert!(error.to_string().contains("cannot be written"), "{error}");
    }
}
