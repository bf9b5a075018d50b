//! Asking the API server who a bearer token belongs to (TokenReview), and what they may (SubjectAccessReview). Answers hold for
//! a while, so that what is taken away is gone soon and nobody makes this process ask without end.

use aws_lc_rs::digest;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// Answers that are remembered, of each kind.
const MAX_ANSWERS: usize = 20_000;
/// Tokens that are asked about at a time.
const MAX_CONCURRENT_TOKENS: usize = 4;
/// Rights that are asked about at a time.
const MAX_CONCURRENT_RIGHTS: usize = 16;
/// How long one answer may take.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest token; Kubernetes' own have about a kilobyte.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// That the API server did not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server does not say")]
pub struct Unanswered;

/// Somebody whom the API server knows.
#[derive(Clone, PartialEq)]
pub struct ReviewedUser {
    user: UserInfo,
    /// The same in a few bytes.
    digest: Digest,
}

/// A few bytes that no other text has.
type Digest = [u8; 32];

/// What somebody may or may not do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AccessQuestion {
    /// `get` a path that is no resource.
    Path(&'static str),
    /// Do something with a resource.
    Resource {
        /// What.
        verb: &'static str,
        /// The API group; empty for the core group.
        group: &'static str,
        /// The resource, in the plural.
        resource: &'static str,
        /// The namespace; `None` for all of them.
        namespace: Option<String>,
        /// The object; `None` for all of them.
        name: Option<String>,
    },
}

/// Asks, and remembers what was answered.
pub struct AccessReviewer {
    client: Client,
    /// What tokens have to be for; none for the API server's own audiences.
    audiences: Option<Vec<String>>,
    lifetime: Duration,
    users: AnswerMemory<Digest, Option<Arc<ReviewedUser>>>,
    rights: AnswerMemory<(Digest, AccessQuestion), bool>,
    token_turns: Semaphore,
    right_turns: Semaphore,
}

impl fmt::Debug for ReviewedUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReviewedUser").field(&self.name()).finish()
    }
}

impl fmt::Debug for AccessReviewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessReviewer").field("audiences", &self.audiences).finish_non_exhaustive()
    }
}

impl ReviewedUser {
    fn new(user: UserInfo) -> Self {
        // A user has a JSON form, and one alone: its maps are sorted.
        let digest = digest_of(&serde_json::to_vec(&user).unwrap_or_default());
        Self { user, digest }
    }

    /// What the API server calls them.
    pub fn name(&self) -> &str {
        self.user.username.as_deref().unwrap_or_default()
    }
}

impl AccessReviewer {
    /// Who asks there, and how long an answer holds.
    pub fn new(client: Client, audiences: Option<Vec<String>>, lifetime: Duration) -> Self {
        Self {
            client,
            audiences,
            lifetime,
            users: AnswerMemory::default(),
            rights: AnswerMemory::default(),
            token_turns: Semaphore::new(MAX_CONCURRENT_TOKENS),
            right_turns: Semaphore::new(MAX_CONCURRENT_RIGHTS),
        }
    }

    /// Who a token belongs to; `None` where it is nobody's, or not for here.
    ///
    /// # Errors
    /// Where the API server does not say.
    pub async fn identify(&self, token: &str) -> Result<Option<Arc<ReviewedUser>>, Unanswered> {
        if token.is_empty() || token.len() > MAX_TOKEN_BYTES {
            return Ok(None);
        }
        let key = digest_of(token.as_bytes());
        if let Some(known) = self.users.get(&key, self.lifetime) {
            return Ok(known);
        }
        let asking = async {
            let _turn = self.token_turns.acquire().await.ok()?;
            self.review_token(token).await
        };
        let user = timeout(REVIEW_TIMEOUT, asking).await.ok().flatten().ok_or(Unanswered)?;
        let user = user.map(|user| Arc::new(ReviewedUser::new(user)));
        self.users.insert(key, user.clone());
        Ok(user)
    }

    /// Whether somebody may do something.
    ///
    /// # Errors
    /// Where the API server does not say.
    pub async fn may(&self, user: &ReviewedUser, question: AccessQuestion) -> Result<bool, Unanswered> {
        let key = (user.digest, question);
        if let Some(known) = self.rights.get(&key, self.lifetime) {
            return Ok(known);
        }
        let asking = async {
            let _turn = self.right_turns.acquire().await.ok()?;
            self.review_right(&user.user, &key.1).await
        };
        let is_allowed = timeout(REVIEW_TIMEOUT, asking).await.ok().flatten().ok_or(Unanswered)?;
        self.rights.insert(key, is_allowed);
        Ok(is_allowed)
    }

    async fn review_token(&self, token: &str) -> Option<Option<UserInfo>> {
        let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: self.audiences.clone() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let status = told(api.create(&PostParams::default(), &review).await)?.status?;
        // An API server that knows no audiences answers without any; its tokens are for itself.
        let is_for_here = self
            .audiences
            .as_ref()
            .is_none_or(|wanted| status.audiences.iter().flatten().any(|audience| wanted.contains(audience)));
        Some(status.user.filter(|_| status.authenticated.unwrap_or_default() && is_for_here))
    }

    async fn review_right(&self, user: &UserInfo, question: &AccessQuestion) -> Option<bool> {
        let mut spec = SubjectAccessReviewSpec {
            user: user.username.clone(),
            groups: user.groups.clone(),
            uid: user.uid.clone(),
            extra: user.extra.clone(),
            ..SubjectAccessReviewSpec::default()
        };
        match question {
            AccessQuestion::Path(path) => {
                spec.non_resource_attributes =
                    Some(NonResourceAttributes { path: Some((*path).to_owned()), verb: Some("get".to_owned()) });
            }
            AccessQuestion::Resource { verb, group, resource, namespace, name } => {
                spec.resource_attributes = Some(ResourceAttributes {
                    verb: Some((*verb).to_owned()),
                    group: Some((*group).to_owned()),
                    resource: Some((*resource).to_owned()),
                    namespace: namespace.clone(),
                    name: name.clone(),
                    ..ResourceAttributes::default()
                });
            }
        }
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        Some(told(api.create(&PostParams::default(), &review).await)?.status?.allowed)
    }
}

fn told<T>(answer: Result<T, kube::Error>) -> Option<T> {
    answer.inspect_err(|error| tracing::warn!("an access review failed: {error}")).ok()
}

fn digest_of(bytes: &[u8]) -> Digest {
    let digest = digest::digest(&digest::SHA256, bytes);
    let mut own = Digest::default();
    // SHA-256 has as many bytes.
    own.copy_from_slice(digest.as_ref());
    own
}

/// Answers, and when they were given.
struct AnswerMemory<K, V> {
    answers: Mutex<HashMap<K, (Instant, V)>>,
}

impl<K, V> Default for AnswerMemory<K, V> {
    fn default() -> Self {
        Self { answers: Mutex::default() }
    }
}

impl<K: Eq + Hash, V: Clone> AnswerMemory<K, V> {
    fn get(&self, key: &K, lifetime: Duration) -> Option<V> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(key).filter(|(at, _)| at.elapsed() < lifetime).map(|(_, answer)| answer.clone())
    }

    fn insert(&self, key: K, answer: V) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= MAX_ANSWERS {
            answers.clear();
        }
        answers.insert(key, (Instant::now(), answer));
    }
}
