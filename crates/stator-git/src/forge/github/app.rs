//! A GitHub App's installation tokens: an hour each, minted with a claim that the App's key signs.

use crate::forge::client::{Answer, Client, Login};
use crate::forge::{ForgeError, Http, address};
use crate::source::credentials::{GithubApp, Installation};
use crate::source::model_source::ForgeKind;
use crate::source::url::RepositoryUrl;
use http::{Method, StatusCode};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use url::Url;

/// How long before its end a token is replaced, at least and at most. Spread, so that many processes do not come at once.
const EARLY: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(600));
/// How long a claim holds. GitHub takes at most ten minutes, and compares with its own clock.
const CLAIM: i64 = 540;
/// How far a claim is dated back, for clocks that run a little apart.
const SLACK: i64 = 30;

/// What tokens may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Fetch the repository.
    Fetch,
    /// Write commit statuses and comments on pull requests; read what is needed for that.
    Report,
    /// Report, and push a branch and open a pull request, for a rollback.
    Propose,
}

/// The installation tokens of an App, for one repository: minted when the first is asked for, kept, and replaced five to ten
/// minutes before they end.
pub struct Tokens {
    http: Http,
    api: Url,
    id: String,
    installation: Installation,
    key: EncodingKey,
    repository: String,
    rights: Rights,
    /// Seconds by which GitHub's clock is ahead of this machine's, as far as it matters.
    skew: AtomicI64,
    kept: tokio::sync::Mutex<Kept>,
    /// Claims and tokens of late, to be hidden where an answer repeats them.
    minted: Mutex<VecDeque<SecretString>>,
}

#[derive(Default)]
struct Kept {
    installation: Option<u64>,
    token: Option<(SecretString, Instant)>,
}

#[derive(Serialize)]
struct Claims<'a> {
    iat: i64,
    exp: i64,
    iss: &'a str,
}

#[derive(Serialize)]
struct Wanted<'a> {
    repositories: [&'a str; 1],
    permissions: Permissions,
}

#[derive(Serialize)]
struct Permissions {
    contents: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    statuses: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pull_requests: Option<&'static str>,
}

impl Permissions {
    fn of(rights: Rights) -> Self {
        match rights {
            Rights::Fetch => Self { contents: "read", statuses: None, pull_requests: None },
            Rights::Report => Self { contents: "read", statuses: Some("write"), pull_requests: Some("write") },
            Rights::Propose => Self { contents: "write", statuses: None, pull_requests: Some("write") },
        }
    }
}

#[derive(Deserialize)]
struct Token {
    token: String,
    expires_at: Timestamp,
}

#[derive(Deserialize)]
struct Found {
    id: u64,
}

#[derive(Deserialize)]
struct Itself {
    slug: Option<String>,
}

impl Tokens {
    /// Tokens for one repository. Nothing is asked yet.
    ///
    /// # Errors
    /// When the key is none that signs.
    pub fn new(http: Http, api: Url, app: &GithubApp, repository: &str, rights: Rights) -> Result<Self, ForgeError> {
        let key = EncodingKey::from_rsa_pem(app.key.expose_secret().as_bytes()).map_err(|_| unusable())?;
        Ok(Self {
            http,
            api,
            id: app.id.clone(),
            installation: app.installation.clone(),
            key,
            repository: repository.to_owned(),
            rights,
            skew: AtomicI64::new(0),
            kept: tokio::sync::Mutex::default(),
            minted: Mutex::default(),
        })
    }

    /// A token that holds for some minutes yet. Only one is minted however many ask.
    ///
    /// # Errors
    /// When GitHub gives none.
    pub async fn token(&self) -> Result<SecretString, ForgeError> {
        let mut kept = self.kept.lock().await;
        if let Some((token, until)) = &kept.token
            && Instant::now() < *until
        {
            return Ok(token.clone());
        }
        kept.token = None;
        let installation = match kept.installation {
            Some(id) => id,
            None => self.find().await?,
        };
        kept.installation = Some(installation);
        let id = installation.to_string();
        let wanted = Wanted { repositories: [self.repository.as_str()], permissions: Permissions::of(self.rights) };
        let wanted = serde_json::to_value(&wanted).unwrap_or_default();
        let what = format!("installation {id} of the App");
        let answer =
            self.ask(Method::POST, &["app", "installations", &id, "access_tokens"], Some(&wanted), &what).await?;
        let now = answer.header("date").and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
        let now = now.map_or_else(|| self.now(), |now| now.timestamp());
        let minted: Token = answer.checked()?.json()?;
        let token = SecretString::from(minted.token);
        // By how long it holds and not by when it ends: a clock that is wrong, or set right meanwhile, changes nothing.
        let left = minted.expires_at.as_second().saturating_sub(now.as_second()).clamp(0, 3600);
        let left = Duration::from_secs(u64::try_from(left).unwrap_or_default());
        let until = Instant::now() + left.saturating_sub(early());
        self.remember(&token);
        kept.token = Some((token.clone(), until));
        Ok(token)
    }

    /// Takes the kept token for worthless: GitHub did not know it.
    pub async fn forget(&self) {
        self.kept.lock().await.token = None;
    }

    /// What the App's comments are signed with: `<slug>[bot]`.
    pub(in crate::forge) async fn login(&self) -> Result<String, ForgeError> {
        let itself: Itself = self.ask(Method::GET, &["app"], None, "the App").await?.checked()?.json()?;
        let slug = itself.slug.filter(|slug| !slug.is_empty());
        let slug = slug.ok_or_else(|| ForgeError::Unreadable {
            host: self.api.host_str().unwrap_or_default().to_owned(),
            message: "the App has no name there".to_owned(),
        })?;
        Ok(format!("{slug}[bot]"))
    }

    /// The tokens that an answer must not repeat into a message.
    pub(in crate::forge) fn known(&self) -> Vec<SecretString> {
        self.minted.lock().map(|minted| minted.iter().cloned().collect()).unwrap_or_default()
    }

    fn remember(&self, secret: &SecretString) {
        if let Ok(mut minted) = self.minted.lock() {
            minted.push_back(secret.clone());
            while minted.len() > 8 {
                minted.pop_front();
            }
        }
    }

    async fn find(&self) -> Result<u64, ForgeError> {
        let owner = match &self.installation {
            Installation::Id(id) => return Ok(*id),
            Installation::Owner(owner) => owner,
        };
        let what = format!("installation of the App for {owner}");
        let of_organization = self.ask(Method::GET, &["orgs", owner, "installation"], None, &what).await?;
        if of_organization.status != StatusCode::NOT_FOUND {
            return Ok(of_organization.checked()?.json::<Found>()?.id);
        }
        let of_user = self.ask(Method::GET, &["users", owner, "installation"], None, &what).await?;
        Ok(of_user.checked()?.json::<Found>()?.id)
    }

    /// Asks as the App itself. Where GitHub refuses the claim and its clock is another, asks once more by GitHub's clock.
    async fn ask(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&serde_json::Value>,
        what: &str,
    ) -> Result<Answer, ForgeError> {
        let answer = self.ask_once(&method, path, body, what).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let theirs = answer.header("date").and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
        let Some(theirs) = theirs else { return Ok(answer) };
        let apart = theirs.timestamp().as_second().saturating_sub(Timestamp::now().as_second());
        if apart.saturating_sub(self.skew.load(Ordering::Relaxed)).abs() <= SLACK / 2 {
            return Ok(answer);
        }
        self.skew.store(apart, Ordering::Relaxed);
        self.ask_once(&method, path, body, what).await
    }

    async fn ask_once(
        &self,
        method: &Method,
        path: &[&str],
        body: Option<&serde_json::Value>,
        what: &str,
    ) -> Result<Answer, ForgeError> {
        let now = self.now().as_second();
        let claims = Claims { iat: now.saturating_sub(SLACK), exp: now.saturating_add(CLAIM), iss: &self.id };
        let claim = jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &self.key).map_err(|_| unusable())?;
        let claim = SecretString::from(claim);
        self.remember(&claim);
        let login = Login::bearer(&claim)?;
        let client = super::headers(Client::new(self.http.clone(), self.api.clone(), login));
        let mut request = client.request(method.clone(), path.iter().copied()).what(what);
        if let Some(body) = body {
            request = request.body(body);
        }
        // Not a recursion without end: the client made here has a fixed header, and mints nothing itself.
        Box::pin(request.ask()).await
    }

    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        let skew = self.skew.load(Ordering::Relaxed);
        Timestamp::from_second(now.as_second().saturating_add(skew)).unwrap_or(now)
    }
}

/// Five to ten minutes; the system's random hasher is random enough for spreading.
fn early() -> Duration {
    use std::hash::{BuildHasher as _, RandomState};
    let span = EARLY.1.saturating_sub(EARLY.0).as_secs().max(1);
    EARLY.0 + Duration::from_secs(RandomState::new().hash_one(0_u8) % span)
}

/// Tokens for threads that may wait, such as the one that fetches a repository.
pub struct Blocking {
    tokens: std::sync::Arc<Tokens>,
    runtime: tokio::runtime::Handle,
}

impl Blocking {
    /// From a runtime that goes on while the tokens are asked for. Call [`Tokens::token`] on its threads in place of this.
    pub fn new(tokens: std::sync::Arc<Tokens>, runtime: tokio::runtime::Handle) -> Self {
        Self { tokens, runtime }
    }

    /// The tokens of an App for fetching a repository, and for nothing else.
    ///
    /// # Errors
    /// When the address leads to no repository of GitHub, or the key is none that signs.
    pub fn for_fetching(
        app: &GithubApp,
        url: &RepositoryUrl,
        http: &Http,
        runtime: tokio::runtime::Handle,
    ) -> Result<Self, ForgeError> {
        let place = address::place(ForgeKind::Github, app.api.as_deref(), url)?;
        let tokens = Tokens::new(http.clone(), place.api, app, &place.name, Rights::Fetch)?;
        Ok(Self::new(std::sync::Arc::new(tokens), runtime))
    }
}

impl crate::source::credentials::Tokens for Blocking {
    fn token(&self) -> Result<SecretString, String> {
        self.runtime.block_on(self.tokens.token()).map_err(|error| format!("{error}; {}", error.help()))
    }
}

fn unusable() -> ForgeError {
    ForgeError::Misconfigured {
        field: "githubAppPrivateKey",
        message: "of the secret is no RSA private key in PEM".to_owned(),
        fix: "put the whole file there that GitHub gave when the App's key was generated",
    }
}
