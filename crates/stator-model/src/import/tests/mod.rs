//! Tests of importing: every manifest of upstream's there and back, stories, laws.

mod hostile;
mod laws;
mod round_trip;

use super::Input;
use round_trip::{data, oracle, rendered};

/// Upstream's files.
fn inputs() -> Vec<Input> {
    let read = |file: String| Input { content: fs_err::read(data().join(&file)).unwrap(), file };
    oracle().into_keys().map(read).collect()
}
