//! Talking to git hosts.
//!
//! libgit2 speaks git's protocol and knows nothing of the network here: it reads and writes a stream that this module opens,
//! over HTTP or SSH. What belongs to one conversation (the address, the login, the deadline, what stops it) is a
//! `GitSession`, which libgit2 knows by a number alone: no credential is ever global, and none is in an address.
//!
//! Everything here blocks. Waiting is done by `GitSession::wait`, which ends at the deadline and when somebody asks to
//! stop, whatever the other side does.

mod error;
pub(crate) mod git_stream;
pub mod http;
mod pack_inspector;
pub(crate) mod ref_advertisement;
pub mod retry_after;
mod session;
mod smart_http;
pub(in crate::source) mod ssh;
mod subtransport;

pub use error::TransportError;
pub(in crate::source) use git_stream::{GitOperation, GitStream};
pub(in crate::source) use ref_advertisement::{RefAdvertisement, read_advertisement as read_advert};
pub(in crate::source) use session::{GitSession, http_client};
pub(in crate::source) use subtransport::{FetchRequest, register_fetch};

use crate::source::url::UrlScheme;
use std::sync::Arc;

/// Whether every request stands for itself, as over HTTP.
fn is_stateless(scheme: UrlScheme) -> bool {
    match scheme {
        UrlScheme::Https | UrlScheme::Http => true,
        UrlScheme::Ssh | UrlScheme::Local => false,
    }
}

/// Opens a stream to the host of a session.
pub(in crate::source) fn open_stream(
    session: &Arc<GitSession>,
    step: GitOperation,
) -> Result<Box<dyn GitStream>, TransportError> {
    match session.url().scheme() {
        UrlScheme::Https | UrlScheme::Http => smart_http::open_exchange(session, step),
        UrlScheme::Ssh => ssh::open_channel(session),
        UrlScheme::Local => Err(TransportError::Local { reason: "a local path is read in place".to_owned() }),
    }
}

/// What hosts answer, for a fuzzer to make up (`tests/fuzz`).
#[cfg(fuzzing)]
pub mod fuzzing {
    use super::pack_inspector::{PackInspector, PackLimits};

    /// Reads a list of refs: how many, or why not.
    pub fn read_refs(mut bytes: &[u8]) -> Result<usize, String> {
        let redact = |text: &[u8]| super::http::sanitize_text(text, 200);
        let list = super::ref_advertisement::read_ref_list(&mut bytes, "git.example.com", 1000, redact);
        list.map(|list| list.refs.len()).map_err(|error| error.to_string())
    }

    /// Reads along an answer to a fetch, so many bytes at a time: why it must not reach libgit2, if so.
    pub fn inspect_pack(bytes: &[u8], step: usize) -> Option<String> {
        let limits = PackLimits { max_objects: 100, max_object_bytes: 1 << 20, max_unpacked_bytes: 4 << 20 };
        let mut inspector = PackInspector::new(limits);
        bytes.chunks(step).find_map(|chunk| inspector.observe(chunk).err()).map(|fault| format!("{fault:?}"))
    }
}
