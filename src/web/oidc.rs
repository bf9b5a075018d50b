//! Signing in at an OpenID Connect provider, for people without a token of the cluster: the authorization code flow with PKCE
//! (OpenID Connect Core 1.0, section 3.1; RFC 7636). Who they are there becomes a user and groups of the cluster, as the API
//! server's own `--oidc-*` options have it, and the API server is asked what these may.
//!
//! The ID token comes from the provider itself, over TLS: that is what vouches for its issuer, and its signature is not checked
//! (section 3.1.3.7, rule 6).

use super::sessions::{is_equal, random_token};
use crate::fair_turns::FairTurns;
use crate::server::{Peer, ReviewedUser};
use aws_lc_rs::digest;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::UserInfo;
use reqwest::{Certificate, Client, redirect};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::{Host, Url};

/// How long the provider may take for an answer, and how long that may be.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// How long it holds where the provider is asked, and how long that this is not known.
const DISCOVERY_LIFETIME: Duration = Duration::from_secs(300);
const FAILURE_LIFETIME: Duration = Duration::from_secs(5);
/// For how long a browser may be at the provider, in seconds.
pub(super) const SIGN_IN_SECONDS: i64 = 600;
/// How far clocks may be apart, in seconds.
const CLOCK_SKEW: i64 = 60;
/// Codes that are redeemed at a time, and of one peer.
const MAX_REDEEMED: usize = 8;
const MAX_REDEEMED_OF_PEER: usize = 1;
/// The most groups of one person.
const MAX_GROUPS: usize = 5000;

/// A provider, and what its people are called in the cluster.
#[derive(Clone, Debug)]
pub struct OidcSettings {
    /// The provider: `https`, or `http` on this machine.
    pub issuer: Url,
    /// What these pages are called there.
    pub client: String,
    /// What proves that to the provider; a public client has none.
    pub secret: Option<SecretString>,
    /// Certificates to trust for the provider, as PEM, and no others.
    pub roots: Option<Vec<u8>>,
    /// The claim with a person's name.
    pub username_claim: String,
    /// What stands before it in the cluster.
    pub username_prefix: String,
    /// The claim with a person's groups; none: nobody has groups.
    pub groups_claim: Option<String>,
    /// What stands before each of them in the cluster.
    pub groups_prefix: String,
    /// Where the provider sends browsers back to.
    pub redirect: Url,
}

/// Why nobody is signed in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OidcFault {
    /// The provider could not be asked.
    #[error("The provider {0} cannot be reached: {1}.")]
    Provider(String, String),
    /// The provider refused.
    #[error("The provider refused: {0}.")]
    Refused(String),
    /// The answer belongs to no sign-in of this browser.
    #[error("This sign-in was not started in this browser, or took longer than ten minutes. Start again.")]
    State,
    /// The token is not what was asked for.
    #[error("The provider's ID token is not valid: {0}.")]
    Token(String),
    /// The person cannot be a user of the cluster.
    #[error("The provider does not say who you are: {0}.")]
    Identity(String),
}

/// Signs people in.
pub(super) struct OidcProvider {
    settings: OidcSettings,
    client: Client,
    redeeming: FairTurns<Peer>,
    /// Where the provider is asked, or why that is not known, and when it said so.
    known: Mutex<Option<(Instant, Result<Endpoints, OidcFault>)>>,
}

impl fmt::Debug for OidcProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OidcProvider").field("issuer", &self.settings.issuer.as_str()).finish_non_exhaustive()
    }
}

/// What a provider says of itself (OpenID Connect Discovery 1.0).
#[derive(Debug, Deserialize)]
struct Discovery {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
}

/// Where a provider is asked.
#[derive(Clone, Debug)]
struct Endpoints {
    authorization: Url,
    token: Url,
}

#[derive(Deserialize)]
struct TokenAnswer {
    id_token: String,
}

#[derive(Default, Deserialize)]
struct RefusedAnswer {
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
}

/// A sign-in that is under way, all of which its browser keeps: a secret, since when, and where it leads.
struct SignInCookie {
    text: String,
    to: String,
}

impl SignInCookie {
    fn new(to: &str, now: Timestamp) -> Option<Self> {
        let to_text = BASE64_URL_SAFE_NO_PAD.encode(to);
        Some(Self { text: format!("{}.{}.{to_text}", random_token()?, now.as_second()), to: to.to_owned() })
    }

    /// Reads one back; `None` where it is too old, or none.
    fn parse(text: &str, now: Timestamp) -> Option<Self> {
        let mut parts = text.split('.').skip(1);
        let since: i64 = parts.next()?.parse().ok()?;
        let to = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(parts.next()?).ok()?).ok()?;
        let is_recent = (0..=SIGN_IN_SECONDS).contains(&now.as_second().checked_sub(since)?);
        is_recent.then(|| Self { text: text.to_owned(), to })
    }

    /// A value that only who has the cookie knows; another one for each use.
    fn derived(&self, of: &str) -> String {
        let digest = digest::digest(&digest::SHA256, format!("{of}:{}", self.text).as_bytes());
        BASE64_URL_SAFE_NO_PAD.encode(digest)
    }
}

/// A sign-in that starts.
#[derive(Debug)]
pub(super) struct StartedSignIn {
    /// The provider's page.
    pub(super) address: String,
    /// What the browser keeps until it comes back.
    pub(super) cookie: String,
}

/// What the provider sends a browser back with.
#[derive(Debug, Default)]
pub(super) struct OidcAnswer {
    /// The code that the ID token is given for.
    pub(super) code: String,
    /// That the browser was sent from here.
    pub(super) state: String,
    /// The provider, where it names itself (RFC 9207).
    pub(super) issuer: Option<String>,
    /// Why there is no code.
    pub(super) error: Option<String>,
}

impl OidcProvider {
    /// Signs in at this provider.
    ///
    /// # Errors
    /// Where its certificates cannot be used.
    pub(super) fn new(settings: OidcSettings) -> Result<Self, reqwest::Error> {
        let mut client = Client::builder().timeout(ANSWER_TIMEOUT).redirect(redirect::Policy::none());
        if let Some(roots) = &settings.roots {
            client = client.tls_certs_only(Certificate::from_pem_bundle(roots)?);
        }
        let redeeming = FairTurns::new(MAX_REDEEMED, MAX_REDEEMED_OF_PEER);
        Ok(Self { settings, client: client.build()?, redeeming, known: Mutex::default() })
    }

    /// What people know the provider by.
    pub(super) fn host(&self) -> &str {
        self.settings.issuer.host_str().unwrap_or_default()
    }

    /// Sends a browser to the provider, to come back to `to`.
    pub(super) async fn start(&self, to: &str) -> Result<StartedSignIn, OidcFault> {
        let cookie = SignInCookie::new(to, Timestamp::now()).ok_or(OidcFault::State)?;
        let challenge = digest::digest(&digest::SHA256, cookie.derived("verifier").as_bytes());
        let mut scopes = vec!["openid", "profile", "email"];
        scopes.extend(self.settings.groups_claim.as_ref().map(|_| "groups"));
        let mut address = self.endpoints().await?.authorization;
        address.query_pairs_mut().extend_pairs([
            ("response_type", "code"),
            ("client_id", &self.settings.client),
            ("redirect_uri", self.settings.redirect.as_str()),
            ("scope", &scopes.join(" ")),
            ("state", &cookie.derived("state")),
            ("nonce", &cookie.derived("nonce")),
            ("code_challenge", &BASE64_URL_SAFE_NO_PAD.encode(challenge)),
            ("code_challenge_method", "S256"),
        ]);
        Ok(StartedSignIn { address: address.into(), cookie: cookie.text })
    }

    /// Who comes back from the provider, and where that leads. `cookie` is what the browser kept.
    pub(super) async fn finish(
        &self,
        cookie: &str,
        answer: &OidcAnswer,
        peer: Peer,
    ) -> Result<(ReviewedUser, String), OidcFault> {
        let cookie = SignInCookie::parse(cookie, Timestamp::now()).ok_or(OidcFault::State)?;
        if !is_equal(&answer.state, &cookie.derived("state")) {
            return Err(OidcFault::State);
        }
        if let Some(issuer) = answer.issuer.as_ref().filter(|issuer| !self.is_issuer(issuer)) {
            return Err(OidcFault::Token(format!("the answer is from `{issuer}`")));
        }
        if let Some(error) = &answer.error {
            return Err(OidcFault::Refused(error.clone()));
        }
        let turn = tokio::time::timeout(ANSWER_TIMEOUT, self.redeeming.wait(peer, 1)).await;
        let _turn = turn.map_err(|_| self.unreachable("too many people sign in at once"))?;
        let token = self.redeem(&answer.code, &cookie.derived("verifier")).await?;
        let claims = read_claims(token.expose_secret())?;
        self.check_claims(&claims, &cookie.derived("nonce"), Timestamp::now())?;
        Ok((self.identify(&claims)?, cookie.to))
    }

    /// The issuer as it names itself, with or without a `/` at the end.
    fn is_issuer(&self, text: &str) -> bool {
        text.trim_end_matches('/') == self.settings.issuer.as_str().trim_end_matches('/')
    }

    fn unreachable(&self, reason: &str) -> OidcFault {
        OidcFault::Provider(self.host().to_owned(), reason.to_owned())
    }

    /// Where the provider is asked. It says so every few minutes, so that nobody who signs in, or does not, sends it more.
    async fn endpoints(&self) -> Result<Endpoints, OidcFault> {
        let locked = tokio::time::timeout(ANSWER_TIMEOUT, self.known.lock()).await;
        let mut known = locked.map_err(|_| self.unreachable("it does not answer"))?;
        if let Some((at, said)) = &*known
            && at.elapsed() < if said.is_ok() { DISCOVERY_LIFETIME } else { FAILURE_LIFETIME }
        {
            return said.clone();
        }
        let said = self.discover().await;
        *known = Some((Instant::now(), said.clone()));
        said
    }

    async fn discover(&self) -> Result<Endpoints, OidcFault> {
        let mut url = self.settings.issuer.clone();
        let path = format!("{}/.well-known/openid-configuration", url.path().trim_end_matches('/'));
        url.set_path(&path);
        let discovery: Discovery = self.read(self.client.get(url)).await?;
        if !self.is_issuer(&discovery.issuer) {
            return Err(self.unreachable("it says that it is another issuer"));
        }
        let address = |text: &str| {
            let url = Url::parse(text).ok().filter(is_protected);
            url.ok_or_else(|| self.unreachable("its addresses are not https"))
        };
        let (authorization, token) = (address(&discovery.authorization_endpoint)?, address(&discovery.token_endpoint)?);
        Ok(Endpoints { authorization, token })
    }

    async fn redeem(&self, code: &str, verifier: &str) -> Result<SecretString, OidcFault> {
        let OidcSettings { client, secret, redirect, .. } = &self.settings;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect.as_str()),
            ("code_verifier", verifier),
        ];
        let mut request = self.client.post(self.endpoints().await?.token);
        match secret {
            Some(secret) => request = request.basic_auth(encode(client), Some(encode(secret.expose_secret()))),
            None => form.push(("client_id", client)),
        }
        let answer: TokenAnswer = self.read(request.form(&form)).await?;
        Ok(SecretString::from(answer.id_token))
    }

    async fn read<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<T, OidcFault> {
        let unreachable = |reason: String| self.unreachable(&reason);
        let sent = request.header("accept", "application/json").send().await;
        // An address has the code in it, and is not shown.
        let mut answer = sent.map_err(|error| unreachable(error.without_url().to_string()))?;
        let status = answer.status();
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(|error| unreachable(error.without_url().to_string()))? {
            body.extend_from_slice(&part);
            if body.len() > MAX_ANSWER_BYTES {
                return Err(unreachable("its answer is too long".to_owned()));
            }
        }
        if status.is_success() {
            return serde_json::from_slice(&body)
                .map_err(|_| unreachable("its answer is not what it should be".to_owned()));
        }
        let RefusedAnswer { error, error_description } = serde_json::from_slice(&body).unwrap_or_default();
        match [error, error_description].into_iter().rfind(|text| !text.is_empty()) {
            Some(reason) => Err(OidcFault::Refused(reason)),
            None => Err(unreachable(format!("it answered {status}"))),
        }
    }

    fn check_claims(&self, claims: &Map<String, Value>, nonce: &str, now: Timestamp) -> Result<(), OidcFault> {
        let fault = |reason: &str| Err(OidcFault::Token(reason.to_owned()));
        let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default();
        let time = |name: &str| claims.get(name).and_then(Value::as_f64);
        let client = self.settings.client.as_str();
        let audiences = texts(claims.get("aud"));
        let now = now.as_second() as f64;
        let skew = CLOCK_SKEW as f64;
        if !self.is_issuer(text("iss")) {
            return fault("`iss` is another provider");
        }
        if !audiences.iter().any(|one| one == client) {
            return fault("`aud` is not for these pages");
        }
        if (audiences.len() > 1 || claims.contains_key("azp")) && text("azp") != client {
            return fault("`azp` is not these pages");
        }
        if time("exp").is_none_or(|exp| exp + skew <= now) {
            return fault("`exp` is over");
        }
        if time("iat").is_none_or(|iat| iat > now + skew) {
            return fault("`iat` is in the future");
        }
        if !is_equal(text("nonce"), nonce) {
            return fault("`nonce` is of another sign-in");
        }
        Ok(())
    }

    fn identify(&self, claims: &Map<String, Value>) -> Result<ReviewedUser, OidcFault> {
        let OidcSettings { username_claim, username_prefix, groups_claim, groups_prefix, .. } = &self.settings;
        let fault = |reason: String| Err(OidcFault::Identity(reason));
        let name = claims.get(username_claim).and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() {
            return fault(format!("there is no claim `{username_claim}`"));
        }
        // As the API server has it: an address that nobody confirmed is nobody's.
        if username_claim == "email" && claims.get("email_verified").is_some_and(|one| *one != Value::Bool(true)) {
            return fault("your email address is not verified".to_owned());
        }
        let user = format!("{username_prefix}{name}");
        if is_reserved(&user) {
            return fault(format!("`{username_claim}` begins with `system:`"));
        }
        let claimed = groups_claim.as_ref().map(|claim| texts(claims.get(claim))).unwrap_or_default();
        let groups = claimed.into_iter().take(MAX_GROUPS).map(|group| format!("{groups_prefix}{group}"));
        // A provider gives nobody a right that Kubernetes keeps for its own.
        let groups = groups.filter(|group| !is_reserved(group)).chain(["system:authenticated".to_owned()]);
        Ok(ReviewedUser::new(UserInfo { username: Some(user), groups: Some(groups.collect()), ..UserInfo::default() }))
    }
}

fn is_reserved(name: &str) -> bool {
    name.starts_with("system:")
}

/// Whether nobody reads along: TLS, or this machine.
pub fn is_protected(url: &Url) -> bool {
    let is_local = match url.host() {
        Some(Host::Ipv4(ip)) => IpAddr::V4(ip).is_loopback(),
        Some(Host::Ipv6(ip)) => IpAddr::V6(ip).is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && is_local)
}

/// As basic credentials of OAuth are written (RFC 6749, section 2.3.1).
fn encode(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// One text, or a list of them.
fn texts(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(items)) => items.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => Vec::new(),
    }
}

fn read_claims(token: &str) -> Result<Map<String, Value>, OidcFault> {
    let fault = || OidcFault::Token("it is no JWT".to_owned());
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next(), parts.next().ok_or_else(fault)?, parts.next().ok_or_else(fault)?);
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).map_err(|_| fault())?;
    serde_json::from_slice(&bytes).map_err(|_| fault())
}

#[cfg(test)]
mod tests;
