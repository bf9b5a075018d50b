//! What libgit2 reads from and writes to, whatever carries it.

use std::io::{Read, Write};

/// Bytes to and from `git-upload-pack` on the host.
pub(in crate::source) trait GitStream: Read + Write + Send + 'static {}
impl<T: Read + Write + Send + 'static> GitStream for T {}

/// What a stream is opened for. Over SSH one stream serves both, over HTTP each is a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::source) enum GitOperation {
    /// The refs.
    ListRefs,
    /// Objects.
    Fetch,
}
