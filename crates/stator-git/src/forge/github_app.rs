//! A GitHub App's installation tokens: an hour each, minted with a claim that the App's key signs.

use crate::forge::auth::{AppTokens, ForgeAuth};
use crate::forge::client::ForgeClient;
use crate::forge::response::ForgeResponse;
use crate::forge::{ForgeError, ForgeHttp, endpoint};
use crate::source::credentials::{AppInstallation, GithubApp};
use crate::source::model_source::ForgeKind;
use crate::source::url::RepositoryUrl;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures_util::future::BoxFuture;
use http::{Method, StatusCode};
use jiff::Timestamp;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stator_core::retry::JitterSource;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use url::Url;

/// How long before its end a token is replaced, at least and at most. Spread, so that many processes do not come at once.
const RENEWAL_MARGIN: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(600));
/// How long a claim holds. GitHub takes at most ten minutes, and compares with its own clock.
const CLAIM_LIFETIME_SECONDS: i64 = 540;
/// How far a claim is dated back, for clocks that run a little apart.
const CLOCK_SLACK_SECONDS: i64 = 30;

/// What tokens may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GithubTokenScope {
    /// Fetch the repository.
    Fetch,
    /// Write commit statuses and comments on pull requests; read what is needed for that.
    Report,
    /// Report, and push a branch and open a pull request, for a rollback.
    Propose,
}

/// The installation tokens of an App, for one repository: minted when the first is asked for, kept, and replaced five to ten
/// minutes before they end.
pub struct InstallationTokens {
    http: ForgeHttp,
    api: Url,
    id: String,
    installation: AppInstallation,
    key: RsaKeyPair,
    repository: String,
    scope: GithubTokenScope,
    /// Seconds by which GitHub's clock is ahead of this machine's, as far as it matters.
    skew: AtomicI64,
    cache: tokio::sync::Mutex<InstallationTokenCache>,
    /// Claims and tokens of late, to be hidden where an answer repeats them.
    minted: Mutex<VecDeque<SecretString>>,
}

#[derive(Default)]
struct InstallationTokenCache {
    installation: Option<u64>,
    token: Option<(SecretString, Instant)>,
}

#[derive(Serialize)]
struct GithubAppClaims<'a> {
    iat: i64,
    exp: i64,
    iss: &'a str,
}

impl GithubTokenScope {
    /// The permissions to ask for, in GitHub's words.
    fn permissions(self) -> Value {
        match self {
            Self::Fetch => json!({"contents": "read"}),
            Self::Report => json!({"contents": "read", "statuses": "write", "pull_requests": "write"}),
            Self::Propose => json!({"contents": "write", "pull_requests": "write"}),
        }
    }
}

#[derive(Deserialize)]
struct AccessTokenResponse {
    token: String,
    expires_at: Timestamp,
}

#[derive(Deserialize)]
struct GithubInstallation {
    id: u64,
}

#[derive(Deserialize)]
struct GithubAppInfo {
    slug: Option<String>,
}

impl InstallationTokens {
    /// Tokens for one repository. Nothing is asked yet.
    ///
    /// # Errors
    /// When the key is none that signs.
    pub fn new(
        http: ForgeHttp,
        api: Url,
        app: &GithubApp,
        repository: &str,
        rights: GithubTokenScope,
    ) -> Result<Self, ForgeError> {
        let key = read_signing_key(app.key.expose_secret()).ok_or_else(unusable_key_error)?;
        Ok(Self {
            http,
            api,
            id: app.id.clone(),
            installation: app.installation.clone(),
            key,
            repository: repository.to_owned(),
            scope: rights,
            skew: AtomicI64::new(0),
            cache: tokio::sync::Mutex::default(),
            minted: Mutex::default(),
        })
    }

    /// A token that holds for some minutes yet. Only one is minted however many ask.
    ///
    /// # Errors
    /// When GitHub gives none.
    pub async fn token(&self) -> Result<SecretString, ForgeError> {
        let mut kept = self.cache.lock().await;
        if let Some((token, until)) = &kept.token
            && Instant::now() < *until
        {
            return Ok(token.clone());
        }
        kept.token = None;
        let installation = match kept.installation {
            Some(id) => id,
            None => self.find_installation().await?,
        };
        kept.installation = Some(installation);
        let id = installation.to_string();
        let wanted = json!({"repositories": [self.repository], "permissions": self.scope.permissions()});
        let what = format!("installation {id} of the App");
        let path = ["app", "installations", &id, "access_tokens"];
        let answer = self.send_as_app(Method::POST, &path, Some(&wanted), &what).await?;
        let now = answer.host_time().unwrap_or_else(|| self.forge_time());
        let minted: AccessTokenResponse = answer.check_status()?.json()?;
        let token = SecretString::from(minted.token);
        // By how long it holds and not by when it ends: a clock that is wrong, or set right meanwhile, changes nothing.
        let left = minted.expires_at.as_second().saturating_sub(now.as_second()).clamp(0, 3600);
        let left = Duration::from_secs(u64::try_from(left).unwrap_or_default());
        let until = Instant::now() + left.saturating_sub(renewal_margin());
        self.remember_secret(&token);
        kept.token = Some((token.clone(), until));
        Ok(token)
    }

    fn remember_secret(&self, secret: &SecretString) {
        if let Ok(mut minted) = self.minted.lock() {
            minted.push_back(secret.clone());
            while minted.len() > 8 {
                minted.pop_front();
            }
        }
    }

    async fn find_installation(&self) -> Result<u64, ForgeError> {
        let owner = match &self.installation {
            AppInstallation::Id(id) => return Ok(*id),
            AppInstallation::Owner(owner) => owner,
        };
        let what = format!("installation of the App for {owner}");
        let of_organization = self.send_as_app(Method::GET, &["orgs", owner, "installation"], None, &what).await?;
        if of_organization.status != StatusCode::NOT_FOUND {
            return Ok(of_organization.check_status()?.json::<GithubInstallation>()?.id);
        }
        let of_user = self.send_as_app(Method::GET, &["users", owner, "installation"], None, &what).await?;
        Ok(of_user.check_status()?.json::<GithubInstallation>()?.id)
    }

    /// Asks as the App itself. Where GitHub refuses the claim and its clock is another, asks once more by GitHub's clock.
    async fn send_as_app(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
        what: &str,
    ) -> Result<ForgeResponse, ForgeError> {
        let answer = self.send_as_app_once(&method, path, body, what).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let Some(theirs) = answer.host_time() else { return Ok(answer) };
        let apart = theirs.as_second().saturating_sub(Timestamp::now().as_second());
        if apart.saturating_sub(self.skew.load(Ordering::Relaxed)).abs() <= CLOCK_SLACK_SECONDS / 2 {
            return Ok(answer);
        }
        self.skew.store(apart, Ordering::Relaxed);
        self.send_as_app_once(&method, path, body, what).await
    }

    async fn send_as_app_once(
        &self,
        method: &Method,
        path: &[&str],
        body: Option<&Value>,
        what: &str,
    ) -> Result<ForgeResponse, ForgeError> {
        let now = self.forge_time().as_second();
        let claims = GithubAppClaims {
            iat: now.saturating_sub(CLOCK_SLACK_SECONDS),
            exp: now.saturating_add(CLAIM_LIFETIME_SECONDS),
            iss: &self.id,
        };
        let claim = sign_claims(&self.key, &claims).ok_or_else(unusable_key_error)?;
        self.remember_secret(&claim);
        let login = ForgeAuth::bearer(&claim)?;
        let client =
            super::github_family::with_api_version(ForgeClient::new(self.http.clone(), self.api.clone(), login));
        let mut request = client.request(method.clone(), path.iter().copied()).resource(what);
        if let Some(body) = body {
            request = request.body(body.clone());
        }
        // Not a recursion without end: the client made here has a fixed header, and mints nothing itself.
        request.send_unchecked().await
    }

    fn forge_time(&self) -> Timestamp {
        let now = Timestamp::now();
        let skew = self.skew.load(Ordering::Relaxed);
        Timestamp::from_second(now.as_second().saturating_add(skew)).unwrap_or(now)
    }
}

impl AppTokens for InstallationTokens {
    fn current_token(&self) -> BoxFuture<'_, Result<SecretString, ForgeError>> {
        Box::pin(self.token())
    }

    fn discard_token(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.cache.lock().await.token = None })
    }

    /// `<slug>[bot]`.
    fn account_login(&self) -> BoxFuture<'_, Result<String, ForgeError>> {
        Box::pin(async {
            let answer = self.send_as_app(Method::GET, &["app"], None, "the App").await?.check_status()?;
            let slug = answer.json::<GithubAppInfo>()?.slug.filter(|slug| !slug.is_empty());
            let slug = slug.ok_or_else(|| answer.host.unreadable_error("the App has no name there"))?;
            Ok(format!("{slug}[bot]"))
        })
    }

    fn recent_secrets(&self) -> Vec<SecretString> {
        self.minted.lock().map(|minted| minted.iter().cloned().collect()).unwrap_or_default()
    }
}

/// Five to ten minutes; the system's random hasher is random enough for spreading.
fn renewal_margin() -> Duration {
    use std::hash::{BuildHasher as _, RandomState};
    let mut jitter = JitterSource::new(RandomState::new().hash_one(0_u8));
    RENEWAL_MARGIN.0 + jitter.duration_up_to(RENEWAL_MARGIN.1.saturating_sub(RENEWAL_MARGIN.0))
}

/// Tokens for threads that may wait, such as the one that fetches a repository.
pub struct BlockingTokenProvider {
    tokens: std::sync::Arc<InstallationTokens>,
    runtime: tokio::runtime::Handle,
}

impl BlockingTokenProvider {
    /// From a runtime that goes on while the tokens are asked for. Never ask for a token on one of its threads.
    pub fn new(tokens: std::sync::Arc<InstallationTokens>, runtime: tokio::runtime::Handle) -> Self {
        Self { tokens, runtime }
    }

    /// The tokens of an App for fetching a repository, and for nothing else.
    ///
    /// # Errors
    /// When the address leads to no repository of GitHub, or the key is none that signs.
    pub fn for_fetching(
        app: &GithubApp,
        url: &RepositoryUrl,
        http: &ForgeHttp,
        runtime: tokio::runtime::Handle,
    ) -> Result<Self, ForgeError> {
        let place = endpoint::resolve_endpoint(ForgeKind::Github, app.api.as_deref(), url)?;
        let tokens = InstallationTokens::new(http.clone(), place.api, app, &place.name, GithubTokenScope::Fetch)?;
        Ok(Self::new(std::sync::Arc::new(tokens), runtime))
    }
}

impl crate::source::credentials::TokenProvider for BlockingTokenProvider {
    fn token(&self) -> Result<SecretString, String> {
        self.runtime.block_on(self.tokens.token()).map_err(|error| format!("{error}; {}", error.help()))
    }
}

fn unusable_key_error() -> ForgeError {
    ForgeError::Misconfigured {
        field: "githubAppPrivateKey",
        message: "of the secret is not an RSA private key in PEM".to_owned(),
        fix: "put the complete file there that GitHub created with the App's key",
    }
}

/// The key of an App, as GitHub gives it out (PKCS #1) or as OpenSSL converts it (PKCS #8).
fn read_signing_key(pem: &str) -> Option<RsaKeyPair> {
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).ok()?;
    if let PrivateKeyDer::Pkcs8(der) = &key {
        return RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).ok();
    }
    RsaKeyPair::from_der(key.secret_der()).ok()
}

/// A JSON web token by RS256 (RFC 7515, 3.1 and RFC 7518, 3.3), the one algorithm that GitHub takes of an App.
fn sign_claims(key: &RsaKeyPair, claims: &GithubAppClaims<'_>) -> Option<SecretString> {
    let header = BASE64_URL_SAFE_NO_PAD.encode(r#"{"typ":"JWT","alg":"RS256"}"#);
    let claims = BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims).ok()?);
    let signed = format!("{header}.{claims}");
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).ok()?;
    Some(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)).into())
}
