//! One writer at a time, over all processes that share the folder, and the counter of resource versions.

use crate::cluster::ClusterError;
use fs_err as fs;
use std::fs::TryLockError;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The right to write, until dropped.
pub(super) struct WriteLock {
    // Closing the file ends the lock, also when the process is killed.
    _file: Option<fs::File>,
    counter: PathBuf,
}

impl WriteLock {
    /// For dry runs on a folder that is only looked at: nobody is kept from writing.
    pub(super) fn for_reading(root: &Path) -> Self {
        Self { _file: None, counter: root.join(".revision") }
    }

    /// Waits for the right to write, at most so long. The error names the holder.
    pub(super) fn acquire(root: &Path, wait: Duration) -> Result<Self, ClusterError> {
        let path = root.join(".lock");
        let storage = |error: std::io::Error| ClusterError::Storage {
            message: format!("cannot lock the embedded cluster: {error}"),
        };
        let mut file =
            fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(storage)?;
        let end = Instant::now() + wait;
        let mut pause = Duration::from_millis(1);
        loop {
            match file.file().try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(storage(error)),
                Err(TryLockError::WouldBlock) if Instant::now() >= end => {
                    let mut holder = String::new();
                    // The holder's own note; half of one is better than none.
                    let _ = Read::by_ref(&mut file).take(200).read_to_string(&mut holder);
                    let holder = if holder.trim().is_empty() { "another process" } else { holder.trim() };
                    return Err(ClusterError::transient(format!(
                        "{} has been locked by {holder} for more than {} ms; wait until it has ended, then run again",
                        path.display(),
                        wait.as_millis()
                    )));
                }
                Err(TryLockError::WouldBlock) => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(20));
                }
            }
        }
        let note = format!("process {} ({})\n", std::process::id(), process_name());
        file.seek(SeekFrom::Start(0)).map_err(storage)?;
        // A note that cannot be written (a full disk) must not stop a delete that would free space.
        if file.write_all(note.as_bytes()).is_ok() {
            let _ = file.set_len(note.len() as u64);
        }
        Ok(Self { _file: Some(file), counter: root.join(".revision") })
    }

    /// The last resource version given out, `None` when the counter is missing or damaged.
    pub(super) fn revision(&self) -> Result<Option<u64>, ClusterError> {
        match fs::read_to_string(&self.counter) {
            Ok(text) => Ok(text.trim().parse().ok()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Ok(None),
            Err(error) => Err(ClusterError::Storage { message: error.to_string() }),
        }
    }

    /// Keeps the counter. One small write of fixed width in place: a kill leaves the old number or the new one, and
    /// after a power cut the numbers in the objects themselves correct it.
    pub(super) fn set_revision(&self, revision: u64) -> Result<(), ClusterError> {
        let write = || -> std::io::Result<()> {
            let mut file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&self.counter)?;
            file.write_all(format!("{revision:020}\n").as_bytes())?;
            file.set_len(21)
        };
        write().map_err(|error| ClusterError::Storage { message: format!("cannot count resource versions: {error}") })
    }
}

fn process_name() -> String {
    std::env::current_exe()
        .ok()
        .and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()))
        .unwrap_or_else(|| "unknown program".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_writer_hears_who_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let first = WriteLock::acquire(dir.path(), Duration::from_secs(1)).unwrap();
        let Err(ClusterError::Transient { message, .. }) = WriteLock::acquire(dir.path(), Duration::from_millis(5))
        else {
            panic!("the lock was given twice");
        };
        assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
        drop(first);
        WriteLock::acquire(dir.path(), Duration::from_millis(5)).unwrap();
    }

    #[test]
    fn a_damaged_counter_is_no_counter() {
        let dir = tempfile::tempdir().unwrap();
        let lock = WriteLock::acquire(dir.path(), Duration::from_secs(1)).unwrap();
        assert_eq!(lock.revision().unwrap(), None);
        lock.set_revision(41).unwrap();
        assert_eq!(lock.revision().unwrap(), Some(41));
        fs::write(dir.path().join(".revision"), [0xff, 0xfe]).unwrap();
        assert_eq!(lock.revision().unwrap(), None);
    }
}
