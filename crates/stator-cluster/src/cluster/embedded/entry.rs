//! One file as the cache knows it.

use super::layout;
use super::text::{self, Content, Edit};
use crate::cluster::ClusterError;
use fs_err as fs;
use sha2::{Digest, Sha256};
use stator_core::object::Object;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A file changed this shortly before it was read may change again without its times or size showing it.
const UNSETTLED: Duration = Duration::from_millis(50);

/// What is known of one file.
pub(super) struct Entry {
    pub(super) stamp: Stamp,
    pub(super) settled: bool,
    /// SHA-256 of the file's bytes: what did not change is not parsed again.
    pub(super) digest: [u8; 32],
    pub(super) body: Body,
    /// The object as the file was just parsed, for whoever asks first.
    pub(super) fresh: Option<Object>,
}

pub(super) enum Body {
    /// The object as JSON text: a quarter of the memory of a value, and quick to read again.
    Whole(Box<str>),
    /// What is wrong with the file.
    Damaged(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    modified: SystemTime,
    length: u64,
    file: u64,
}

/// What reading one file gave.
pub(super) enum Read {
    Gone,
    Same,
    /// The same bytes under another time, or now old enough to be trusted by it.
    Touched(Stamp, bool),
    Found(Entry, Option<Edit>),
}

impl Stamp {
    pub(super) fn of(data: &std::fs::Metadata) -> Self {
        #[cfg(unix)]
        let file = std::os::unix::fs::MetadataExt::ino(data);
        #[cfg(not(unix))]
        let file = 0;
        Stamp { modified: data.modified().unwrap_or(SystemTime::UNIX_EPOCH), length: data.len(), file }
    }
}

/// Reads a file, where its times, size or bytes are not those that are known.
pub(super) fn read(root: &Path, path: &Path, known: Option<&Entry>) -> Result<Read, ClusterError> {
    let full = root.join(path);
    let Some(reference) = layout::reference_of(path) else { return Ok(Read::Gone) };
    let now = SystemTime::now();
    let stamp = match fs::metadata(&full) {
        Ok(data) if data.is_file() => Stamp::of(&data),
        Ok(_) => return Ok(Read::Gone),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Read::Gone),
        Err(error) => return Err(unreadable(error)),
    };
    if known.is_some_and(|known| known.settled && known.stamp == stamp) {
        return Ok(Read::Same);
    }
    let bytes = match fs::read(&full) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Read::Gone),
        Err(error) => return Err(unreadable(error)),
    };
    let settled = now.duration_since(stamp.modified).is_ok_and(|age| age > UNSETTLED);
    let digest = Sha256::digest(&bytes).into();
    if known.is_some_and(|known| known.digest == digest) {
        return Ok(Read::Touched(stamp, settled));
    }
    let (body, fresh, edit) = match text::decode(&bytes, &reference) {
        Ok(Content { object, edit }) => (Body::Whole(object.value().to_string().into()), Some(object), edit),
        Err(fault) => (Body::Damaged(fault), None, None),
    };
    Ok(Read::Found(Entry { stamp, settled, digest, body, fresh }, edit))
}

pub(super) fn unreadable(error: std::io::Error) -> ClusterError {
    ClusterError::Storage { message: format!("cannot read the embedded cluster: {error}") }
}
