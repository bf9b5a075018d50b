//! Telling libgit2 that addresses with `stator://` are ours to open.

use super::TransportError;
use git2::Remote;
use git2::transport::Transport;
use std::sync::OnceLock;

/// Registers what opens `stator://` addresses, once.
pub(super) fn register_transport(
    open: impl Fn(&Remote<'_>) -> Result<Transport, git2::Error> + Send + Sync + 'static,
) -> Result<(), TransportError> {
    static REGISTERED: OnceLock<Result<(), String>> = OnceLock::new();
    #[expect(
        unsafe_code,
        reason = "libgit2's list of transports has no lock of its own: it is written here once, under the lock of the \
                  cell, and read only by fetches, which all come here first"
    )]
    let done = REGISTERED.get_or_init(|| {
        // SAFETY: see the reason above.
        unsafe { git2::transport::register("stator", open) }.map_err(|error| error.message().to_owned())
    });
    done.clone().map_err(|reason| TransportError::Local { reason })
}
