//! Tests of importing: every manifest of upstream's there and back, stories, laws.

mod hostile;
mod laws;
mod layers;
mod recipes;
mod round_trip;

use super::ManifestFile;
use round_trip::{data, oracle, rendered};

/// Upstream's files.
fn inputs() -> Vec<ManifestFile> {
    let read = |file: String| ManifestFile { content: fs_err::read(data().join(&file)).unwrap(), file };
    oracle().into_keys().map(read).collect()
}
