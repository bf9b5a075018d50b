//! What a mirror knows of the host that it copies from.

use crate::source::transport::http::HttpClient;

/// How often a mirror has asked its host, and how much came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorTraffic {
    /// Requests sent.
    pub requests: u64,
    /// Bytes received, headers not counted.
    pub received: u64,
}

/// What a mirror knows of its host from one call to the next.
#[derive(Default)]
pub(super) struct RemoteHost {
    /// Kept for its connections.
    pub(super) http: Option<HttpClient>,
    /// What the host's git can do, from its last list of refs.
    pub(super) capabilities: Option<String>,
    /// Where the host's list of refs was found when it had moved.
    pub(super) base: Option<url::Url>,
    pub(super) traffic: MirrorTraffic,
}
