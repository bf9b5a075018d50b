//! Asking the API server who a bearer token belongs to (TokenReview), and what they may (SubjectAccessReview). Answers hold for
//! a while, so that what is taken away is gone soon; and who sends one wrong token after the other soon makes this process ask
//! nothing more, and never keeps out whoever is known.

use super::connection_places::Peer;
use super::recent::Recent;
use super::refusal_log::RefusalLog;
use crate::fair_turns::FairTurns;
use aws_lc_rs::digest;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};
use stator_cluster::cluster::kube::ImpersonatedUser;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// Answers that are remembered, of each kind.
const MAX_ANSWERS: usize = 20_000;
/// Tokens that are asked about at a time, of those that were somebody's before.
const MAX_CONCURRENT_TOKENS: usize = 4;
/// Tokens that are asked about at a time, of those that nobody had before: of all peers, and of one.
const MAX_CONCURRENT_STRANGERS: usize = 4;
const MAX_CONCURRENT_STRANGERS_OF_PEER: usize = 1;
/// Tokens of one peer that may turn out to be nobody's within [`REFUSAL_WINDOW`]. After that its further ones are refused unasked.
const MAX_REFUSALS_OF_PEER: u32 = 30;
const REFUSAL_WINDOW: Duration = Duration::from_secs(60);
/// How long a token that was somebody's is asked about before those that never were.
const ACQUAINTANCE: Duration = Duration::from_hours(8);
/// Rights that are asked about at a time.
const MAX_CONCURRENT_RIGHTS: usize = 16;
/// How long one answer may take.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest token; Kubernetes' own have about a kilobyte.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// Why nobody knows whose a token is, or what its owner may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// The API server did not say.
    #[error("the API server does not say")]
    Unanswered,
    /// Too many tokens of the same peer were nobody's.
    #[error("too many tokens that nobody knows came from the same address")]
    TooManyRefused,
}

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
        group: Cow<'static, str>,
        /// The resource, in the plural; its subresource follows a `/`.
        resource: Cow<'static, str>,
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
    /// Whose tokens are, and when that was said last.
    users: Recent<Digest, (Instant, Arc<ReviewedUser>)>,
    /// Tokens that are nobody's: their own, so that no number of them makes anybody forgotten.
    nobodys: Recent<Digest, ()>,
    rights: Recent<(Digest, AccessQuestion), bool>,
    /// Since when which peer had how many tokens refused.
    refusals: Recent<Peer, (Instant, u32)>,
    user_turns: Semaphore,
    stranger_turns: FairTurns<Peer>,
    right_turns: Semaphore,
    failures: RefusalLog,
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
    /// The same, for a request in their name. What the API server adds for everybody is left out.
    pub fn impersonated(&self) -> ImpersonatedUser {
        let is_given =
            |group: &&String| *group == "system:authenticated" || group.starts_with("system:serviceaccounts");
        let groups = self.user.groups.iter().flatten().filter(|group| !is_given(group)).cloned().collect();
        ImpersonatedUser { user: self.name().to_owned(), groups }
    }

    /// Of a name and groups.
    pub fn new(user: UserInfo) -> Self {
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
            users: Recent::new(ACQUAINTANCE, MAX_ANSWERS),
            nobodys: Recent::new(lifetime, MAX_ANSWERS),
            rights: Recent::new(lifetime, MAX_ANSWERS),
            refusals: Recent::new(REFUSAL_WINDOW, MAX_ANSWERS),
            user_turns: Semaphore::new(MAX_CONCURRENT_TOKENS),
            stranger_turns: FairTurns::new(MAX_CONCURRENT_STRANGERS, MAX_CONCURRENT_STRANGERS_OF_PEER),
            right_turns: Semaphore::new(MAX_CONCURRENT_RIGHTS),
            failures: RefusalLog::default(),
        }
    }

    /// Who a token belongs to that a peer sent; `None` where it is nobody's, or not for here.
    ///
    /// # Errors
    /// See [`ReviewError`].
    pub async fn identify(&self, token: &str, peer: Peer) -> Result<Option<Arc<ReviewedUser>>, ReviewError> {
        if token.is_empty() || token.len() > MAX_TOKEN_BYTES {
            return Ok(None);
        }
        let (key, now) = (digest_of(token.as_bytes()), Instant::now());
        let known = self.users.get(&key, now);
        if let Some((at, user)) = &known
            && now.duration_since(*at) < self.lifetime
        {
            return Ok(Some(Arc::clone(user)));
        }
        if self.nobodys.get(&key, now).is_some() {
            return Ok(None);
        }
        let asking = async {
            if known.is_some() {
                let _turn = self.user_turns.acquire().await.map_err(|_| ReviewError::Unanswered)?;
                return self.review_token(token).await.ok_or(ReviewError::Unanswered);
            }
            let _turn = self.stranger_turns.wait(peer, 1).await;
            // Counted while others had their turn, too.
            if self.refused_tokens(peer).1 >= MAX_REFUSALS_OF_PEER {
                return Err(ReviewError::TooManyRefused);
            }
            let user = self.review_token(token).await.ok_or(ReviewError::Unanswered)?;
            if user.is_none() {
                let (since, refused) = self.refused_tokens(peer);
                self.refusals.insert(peer, (since, refused.saturating_add(1)), Instant::now());
            }
            Ok(user)
        };
        let user = timeout(REVIEW_TIMEOUT, asking).await.map_err(|_| ReviewError::Unanswered)??;
        let user = user.map(|user| Arc::new(ReviewedUser::new(user)));
        match &user {
            Some(user) => self.users.insert(key, (Instant::now(), Arc::clone(user)), Instant::now()),
            None => self.nobodys.insert(key, (), Instant::now()),
        }
        Ok(user)
    }

    /// How many tokens of a peer were refused, and since when they are counted.
    fn refused_tokens(&self, peer: Peer) -> (Instant, u32) {
        let now = Instant::now();
        let counted = self.refusals.get(&peer, now);
        counted.filter(|(since, _)| now.duration_since(*since) < REFUSAL_WINDOW).unwrap_or((now, 0))
    }

    /// Whether somebody may do something.
    ///
    /// # Errors
    /// Where the API server does not say.
    pub async fn may(&self, user: &ReviewedUser, question: AccessQuestion) -> Result<bool, ReviewError> {
        let key = (user.digest, question);
        if let Some(known) = self.rights.get(&key, Instant::now()) {
            return Ok(known);
        }
        let asking = async {
            let _turn = self.right_turns.acquire().await.ok()?;
            self.review_right(&user.user, &key.1).await
        };
        let is_allowed = timeout(REVIEW_TIMEOUT, asking).await.ok().flatten().ok_or(ReviewError::Unanswered)?;
        self.rights.insert(key, is_allowed, Instant::now());
        Ok(is_allowed)
    }

    fn note_answer<T>(&self, answer: Result<T, kube::Error>) -> Option<T> {
        answer.inspect_err(|error| self.failures.warn(&format_args!("an access review failed: {error}"))).ok()
    }

    async fn review_token(&self, token: &str) -> Option<Option<UserInfo>> {
        let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: self.audiences.clone() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let status = self.note_answer(api.create(&PostParams::default(), &review).await)?.status?;
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
                let (resource, subresource) = match resource.split_once('/') {
                    Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
                    None => (&**resource, None),
                };
                spec.resource_attributes = Some(ResourceAttributes {
                    verb: Some((*verb).to_owned()),
                    group: Some(group.clone().into_owned()),
                    resource: Some(resource.to_owned()),
                    subresource,
                    namespace: namespace.clone(),
                    name: name.clone(),
                    ..ResourceAttributes::default()
                });
            }
        }
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        Some(self.note_answer(api.create(&PostParams::default(), &review).await)?.status?.allowed)
    }
}

fn digest_of(bytes: &[u8]) -> Digest {
    let digest = digest::digest(&digest::SHA256, bytes);
    let mut own = Digest::default();
    // SHA-256 has as many bytes.
    own.copy_from_slice(digest.as_ref());
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tower::service_fn;

    /// An API server that knows the tokens which begin with `good`, and takes that long for each.
    fn reviewer(takes: Duration) -> (AccessReviewer, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let service = service_fn(move |request: http::Request<kube::client::Body>| {
            counter.fetch_add(1, Ordering::SeqCst);
            async move {
                tokio::time::sleep(takes).await;
                let body = request.into_body().collect_bytes().await.unwrap_or_default();
                let mut review: TokenReview = serde_json::from_slice(&body).unwrap();
                let token = review.spec.token.clone().unwrap_or_default();
                review.status = Some(k8s_openapi::api::authentication::v1::TokenReviewStatus {
                    authenticated: Some(token.starts_with("good")),
                    user: Some(UserInfo { username: Some(token), ..UserInfo::default() }),
                    ..Default::default()
                });
                let answer = http::Response::new(Body::from(serde_json::to_vec(&review).unwrap()));
                Ok::<_, std::io::Error>(answer)
            }
        });
        let client = Client::new(service, "default");
        (AccessReviewer::new(client, None, Duration::from_secs(30)), asked)
    }

    fn peer(number: u8) -> Peer {
        Peer::new([10, 0, 0, number].into())
    }

    /// N6: wrong tokens without end made the API server be asked without end, and whoever signed in wait for that.
    #[tokio::test(start_paused = true)]
    async fn wrong_tokens_of_one_peer_are_soon_refused_unasked() {
        let (reviewer, asked) = reviewer(Duration::from_millis(10));
        assert!(reviewer.identify("good", peer(1)).await.unwrap().is_some());
        let mut refused = 0;
        for number in 0..1000 {
            match reviewer.identify(&format!("evil-{number}"), peer(1)).await {
                Ok(None) => {}
                Err(ReviewError::TooManyRefused) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((asked.load(Ordering::SeqCst), refused), (1 + 30, 970));
        // What was refused is remembered, and costs nothing again.
        assert_eq!(reviewer.identify("evil-0", peer(2)).await, Ok(None));
        assert_eq!(asked.load(Ordering::SeqCst), 31);
        // Whoever is known stays known, from there too; and others are not counted with it.
        assert!(reviewer.identify("good", peer(1)).await.unwrap().is_some());
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(reviewer.identify("good", peer(1)).await.unwrap().is_some());
        assert!(reviewer.identify("good-other", peer(2)).await.unwrap().is_some());
        tokio::time::advance(REFUSAL_WINDOW).await;
        assert_eq!(reviewer.identify("evil-new", peer(1)).await, Ok(None));
    }

    /// N6: four turns, first come, first served: 512 connections with random tokens were 503 for everybody.
    #[tokio::test(start_paused = true)]
    async fn strangers_keep_neither_the_known_nor_each_other_waiting() {
        let (reviewer, _) = reviewer(Duration::from_secs(1));
        let reviewer = Arc::new(reviewer);
        assert!(reviewer.identify("good", peer(1)).await.unwrap().is_some());
        tokio::time::advance(Duration::from_secs(31)).await;
        let mut flood = tokio::task::JoinSet::new();
        for number in 0..500 {
            let reviewer = Arc::clone(&reviewer);
            flood.spawn(async move { reviewer.identify(&format!("evil-{number}"), peer(9)).await.map(drop) });
        }
        tokio::task::yield_now().await;
        let start = Instant::now();
        let both = tokio::join!(reviewer.identify("good", peer(1)), reviewer.identify("good-new", peer(2)));
        assert!(both.0.unwrap().is_some() && both.1.unwrap().is_some());
        assert!(start.elapsed() <= Duration::from_secs(2), "{:?}", start.elapsed());
        while flood.join_next().await.is_some() {}
    }
}
