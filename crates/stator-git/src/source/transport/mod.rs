//! Talking to git hosts.
//!
//! libgit2 speaks git's protocol and knows nothing of the network here: it reads and writes a stream that this room opens,
//! over HTTP or SSH. What belongs to one conversation (the address, the login, the deadline, what stops it) is a
//! `Session`, which libgit2 knows by a number alone: no credential is ever global, and none is in an address.
//!
//! Everything here blocks. Waiting is done by `Session::wait`, which ends at the deadline and when somebody asks to
//! stop, whatever the other side does.

mod advert;
mod error;
pub mod http;
mod https;
mod register;
mod session;
pub(in crate::source) mod ssh;
mod wire;

pub(in crate::source) use advert::{Advertised, read as read_advert};
pub use error::TransportError;
pub(in crate::source) use session::{Session, client};
pub(in crate::source) use wire::{Wanted, enter};

use crate::source::url::Scheme;
use std::io::{Read, Write};
use std::sync::Arc;

/// Bytes to and from `git-upload-pack` on the host.
pub(in crate::source) trait Stream: Read + Write + Send + 'static {}
impl<T: Read + Write + Send + 'static> Stream for T {}

/// What a stream is opened for. Over SSH one stream serves both, over HTTP each is a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::source) enum Step {
    /// The refs.
    List,
    /// Objects.
    Fetch,
}

/// Whether every request stands for itself, as over HTTP.
fn is_stateless(scheme: Scheme) -> bool {
    match scheme {
        Scheme::Https | Scheme::Http => true,
        Scheme::Ssh | Scheme::Local => false,
    }
}

/// Opens a stream to the host of a session.
pub(in crate::source) fn open(session: &Arc<Session>, step: Step) -> Result<Box<dyn Stream>, TransportError> {
    match session.url().scheme() {
        Scheme::Https | Scheme::Http => https::open(session, step),
        Scheme::Ssh => ssh::open(session),
        Scheme::Local => Err(TransportError::Local { reason: "a path of this machine is read in place".to_owned() }),
    }
}
