//! Who may read metrics: anybody who reaches them, or whoever the API server says may.

use aws_lc_rs::digest;
use http::{HeaderMap, StatusCode, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Client;
use kube::api::{Api, PostParams};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// What has to be allowed: `get` of this path, as Kubernetes' own components ask.
const METRICS_PATH: &str = "/metrics";
/// How long an answer holds.
const ANSWER_LIFETIME: Duration = Duration::from_secs(10);
/// Answers that are remembered.
const MAX_ANSWERS: usize = 1000;
/// Tokens that are asked about at a time; whoever is not known must not make this process ask without end.
const MAX_CONCURRENT_REVIEWS: usize = 4;
/// How long a token may take to be judged.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest token; Kubernetes' own have about a kilobyte.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// Asks the API server who a token belongs to (TokenReview), and whether they may `get` the path `/metrics`
/// (SubjectAccessReview).
pub struct MetricsReviewer {
    client: Client,
    answers: Mutex<HashMap<Vec<u8>, (Instant, bool)>>,
    turns: Semaphore,
}

impl fmt::Debug for MetricsReviewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsReviewer").finish_non_exhaustive()
    }
}

/// Why metrics are not given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricsRefusal {
    /// There is no bearer token.
    NoToken,
    /// The token is nobody's, or of somebody who may not.
    Denied,
    /// The API server did not say.
    Unanswered,
}

impl MetricsRefusal {
    /// As what it is answered.
    pub(super) fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Self::NoToken => (StatusCode::UNAUTHORIZED, "send a bearer token"),
            Self::Denied => (StatusCode::FORBIDDEN, "this token may not get /metrics"),
            Self::Unanswered => (StatusCode::SERVICE_UNAVAILABLE, "the API server does not answer"),
        }
    }
}

impl MetricsReviewer {
    /// Who asks there.
    pub fn new(client: Client) -> Self {
        Self { client, answers: Mutex::default(), turns: Semaphore::new(MAX_CONCURRENT_REVIEWS) }
    }

    /// Whether whoever sent these headers may read metrics.
    pub(super) async fn check(&self, headers: &HeaderMap) -> Result<(), MetricsRefusal> {
        let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let token = token.map(str::trim).filter(|token| !token.is_empty() && token.len() <= MAX_TOKEN_BYTES);
        let token = token.ok_or(MetricsRefusal::NoToken)?;
        let name = digest::digest(&digest::SHA256, token.as_bytes()).as_ref().to_vec();
        let known = self.answers.lock().unwrap_or_else(PoisonError::into_inner).get(&name).copied();
        let allowed = match known.filter(|(at, _)| at.elapsed() < ANSWER_LIFETIME) {
            Some((_, allowed)) => allowed,
            None => {
                let allowed = timeout(REVIEW_TIMEOUT, self.review(token)).await;
                let allowed = allowed.ok().flatten().ok_or(MetricsRefusal::Unanswered)?;
                self.remember(name, allowed);
                allowed
            }
        };
        if allowed { Ok(()) } else { Err(MetricsRefusal::Denied) }
    }

    fn remember(&self, name: Vec<u8>, allowed: bool) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= MAX_ANSWERS {
            answers.clear();
        }
        answers.insert(name, (Instant::now(), allowed));
    }

    /// Whether the API server lets the token's owner in; `None` where it does not say.
    async fn review(&self, token: &str) -> Option<bool> {
        let _turn = self.turns.acquire().await.ok()?;
        let (tokens, access): (Api<TokenReview>, Api<SubjectAccessReview>) =
            (Api::all(self.client.clone()), Api::all(self.client.clone()));
        let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let status = told(tokens.create(&PostParams::default(), &review).await)?.status?;
        let (true, Some(user)) = (status.authenticated.unwrap_or_default(), status.user) else { return Some(false) };
        let path = NonResourceAttributes { path: Some(METRICS_PATH.to_owned()), verb: Some("get".to_owned()) };
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            groups: user.groups,
            uid: user.uid,
            extra: user.extra,
            non_resource_attributes: Some(path),
            resource_attributes: None,
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        Some(told(access.create(&PostParams::default(), &review).await)?.status?.allowed)
    }
}

fn told<T>(answer: Result<T, kube::Error>) -> Option<T> {
    answer.inspect_err(|error| tracing::warn!("whether metrics may be read is not known: {error}")).ok()
}
