//! Who may read metrics: anybody who reaches them, or whoever the API server says may.

use super::access_review::{AccessQuestion, AccessReviewer, ReviewError};
use super::connection_places::Peer;
use http::{HeaderMap, StatusCode, header};
use kube::Client;
use std::time::Duration;

/// What has to be allowed: `get` of this path, as Kubernetes' own components ask.
const METRICS_PATH: &str = "/metrics";
/// How long an answer holds.
const ANSWER_LIFETIME: Duration = Duration::from_secs(10);

/// Asks the API server whether the owner of a token may `get` the path `/metrics`.
#[derive(Debug)]
pub struct MetricsReviewer {
    reviewer: AccessReviewer,
}

/// Why metrics are not given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricsRefusal {
    /// There is no bearer token.
    NoToken,
    /// The token is nobody's, or of somebody who may not.
    Denied,
    /// The API server was not asked, or did not say.
    Unknown(ReviewError),
}

impl MetricsRefusal {
    /// As what it is answered.
    pub(super) fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Self::NoToken => (StatusCode::UNAUTHORIZED, "send a bearer token"),
            Self::Denied => (StatusCode::FORBIDDEN, "this token may not get /metrics"),
            Self::Unknown(ReviewError::Unanswered) => {
                (StatusCode::SERVICE_UNAVAILABLE, "the API server does not answer")
            }
            Self::Unknown(ReviewError::TooManyRefused) => {
                (StatusCode::TOO_MANY_REQUESTS, "too many tokens that nobody knows came from this address")
            }
        }
    }
}

impl From<ReviewError> for MetricsRefusal {
    fn from(error: ReviewError) -> Self {
        Self::Unknown(error)
    }
}

impl MetricsReviewer {
    /// Who asks there.
    pub fn new(client: Client) -> Self {
        Self { reviewer: AccessReviewer::new(client, None, ANSWER_LIFETIME) }
    }

    /// Whether whoever sent these headers may read metrics.
    pub(super) async fn check(&self, headers: &HeaderMap, peer: Peer) -> Result<(), MetricsRefusal> {
        let token = bearer_token(headers).ok_or(MetricsRefusal::NoToken)?;
        let user = self.reviewer.identify(token, peer).await?.ok_or(MetricsRefusal::Denied)?;
        let is_allowed = self.reviewer.may(&user, AccessQuestion::Path(METRICS_PATH)).await?;
        if is_allowed { Ok(()) } else { Err(MetricsRefusal::Denied) }
    }
}

/// The token of `Authorization: Bearer`.
pub fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("Bearer") && !token.is_empty()).then_some(token)
}
