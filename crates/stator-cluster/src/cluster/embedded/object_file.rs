//! One file as the cache knows it.

use super::file_format::{self, DecodedFile, ManualEdit};
use super::layout;
use crate::cluster::ClusterError;
use fs_err as fs;
use sha2::{Digest, Sha256};
use stator_core::object::ObjectText;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A file changed this shortly before it was read may change again without its times or size showing it.
const SETTLE_TIME: Duration = Duration::from_millis(50);

/// What is known of one file.
pub(super) struct ObjectFile {
    pub(super) stamp: ObjectFileStamp,
    pub(super) settled: bool,
    /// SHA-256 of the file's bytes: what did not change is not parsed again.
    pub(super) digest: [u8; 32],
    pub(super) body: ObjectFileBody,
}

pub(super) enum ObjectFileBody {
    /// The object.
    Intact(ObjectText),
    /// What is wrong with the file.
    Damaged(String),
}

impl ObjectFileBody {
    /// The object's resource version.
    pub(super) fn revision(&self) -> Option<u64> {
        match self {
            Self::Intact(text) => revision_of(text.resource_version()),
            Self::Damaged(_) => None,
        }
    }
}

/// A resource version of this cluster, which counts them.
pub(super) fn revision_of(text: Option<&str>) -> Option<u64> {
    text?.parse().ok()
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ObjectFileStamp {
    modified: SystemTime,
    length: u64,
    inode: u64,
}

/// What reading one file gave.
pub(super) enum ObjectFileRead {
    Gone,
    Unchanged,
    /// The same bytes under another time, or now old enough to be trusted by it.
    Touched(ObjectFileStamp, bool),
    Changed(ObjectFile, Option<ManualEdit>),
}

impl ObjectFileStamp {
    pub(super) fn of(data: &std::fs::Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(data);
        #[cfg(not(unix))]
        let inode = 0;
        ObjectFileStamp { modified: data.modified().unwrap_or(SystemTime::UNIX_EPOCH), length: data.len(), inode }
    }
}

/// Reads a file, where its times, size or bytes are not those that are known.
pub(super) fn read_object_file(
    root: &Path,
    path: &Path,
    known: Option<&ObjectFile>,
) -> Result<ObjectFileRead, ClusterError> {
    let full = root.join(path);
    let Some(reference) = layout::reference_of(path) else { return Ok(ObjectFileRead::Gone) };
    let now = SystemTime::now();
    let stamp = match fs::metadata(&full) {
        Ok(data) if data.is_file() => ObjectFileStamp::of(&data),
        Ok(_) => return Ok(ObjectFileRead::Gone),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ObjectFileRead::Gone),
        Err(error) => return Err(read_error(error)),
    };
    if known.is_some_and(|known| known.settled && known.stamp == stamp) {
        return Ok(ObjectFileRead::Unchanged);
    }
    let bytes = match fs::read(&full) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ObjectFileRead::Gone),
        Err(error) => return Err(read_error(error)),
    };
    let settled = now.duration_since(stamp.modified).is_ok_and(|age| age > SETTLE_TIME);
    let digest = Sha256::digest(&bytes).into();
    if known.is_some_and(|known| known.digest == digest) {
        return Ok(ObjectFileRead::Touched(stamp, settled));
    }
    let (body, edit) = match file_format::decode(&bytes, &reference) {
        Ok(DecodedFile { object, edit }) => (ObjectFileBody::Intact(object.into()), edit),
        Err(fault) => (ObjectFileBody::Damaged(fault), None),
    };
    Ok(ObjectFileRead::Changed(ObjectFile { stamp, settled, digest, body }, edit))
}

pub(super) fn read_error(error: std::io::Error) -> ClusterError {
    ClusterError::Storage { message: format!("cannot read the embedded cluster: {error}") }
}
