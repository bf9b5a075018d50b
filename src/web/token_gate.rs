//! Pages of a cluster belong to whoever its API server knows, each as far as they may list models there. A token signs in: a
//! program sends it with every request, a browser once and has a cookie that says nothing.

use super::oidc::{OidcProvider, OidcSettings, SIGN_IN_SECONDS};
use super::sessions::{SessionProof, SessionStore, cookie_values, random_token};
use crate::server::tls::CertificateFiles;
use crate::server::{AccessQuestion, AccessReviewer, Peer, ReviewError, ReviewedUser, bearer_token};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::{HeaderMap, header};
use secrecy::{ExposeSecret as _, SecretString};
use stator_cluster::cluster::kube::{ConnectError, KubeCluster};
use stator_core::dynamo::kinds::ObjectKind;
use stator_view::facts::SourceFacts;
use stator_view::model::object_kinds;
use stator_view::observation::{FleetObservation, FoundModel};
use stator_view::problem::{ProblemDetails, ProblemKind};
use stator_view::reader::{
    EVENTS_RIGHT, FleetReader, MODELS_RIGHT, ModelDetails, NODES_RIGHT, NamespaceSet, PROPOSE_RIGHT, RequiredRight,
    SOURCES_RIGHT,
};
use stator_view::source_action::SourceAction;
use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use url::Url;

/// How long the API server's answers hold.
const ANSWER_LIFETIME: Duration = Duration::from_secs(30);
/// Namespaces that are asked about at a time.
const CONCURRENT_NAMESPACES: usize = 16;
/// Observations that are kept as several readers see them.
const MAX_VIEWS: usize = 32;
/// The longest host.
const MAX_HOST_BYTES: usize = 255;

/// How tokens sign in.
pub struct TokenAccess {
    /// The cluster that knows whose they are.
    pub cluster: KubeCluster,
    /// What they have to be for, one of these.
    pub audiences: Vec<String>,
    /// The address that browsers open, where a proxy stands in front.
    pub url: Option<Url>,
    /// With which certificate is answered; none: without TLS.
    pub certificate: Option<CertificateFiles>,
    /// Where people sign in who have no token.
    pub oidc: Option<OidcSettings>,
}

/// Somebody whom the API server knows.
#[derive(Clone, Debug)]
pub(super) struct SignedInUser {
    pub(super) user: Arc<ReviewedUser>,
    /// Whether the request has the token, in place of a cookie.
    pub(super) has_token: bool,
}

/// Lets in whoever has a token.
pub(super) struct TokenGate {
    reviewer: AccessReviewer,
    cluster: KubeCluster,
    sessions: SessionStore,
    oidc: Option<OidcProvider>,
    /// What tokens have to be for, first of all.
    audience: String,
    url: Option<Url>,
    is_secure: bool,
    /// The newest observation as readers see it that may not see all of it.
    views: Mutex<Vec<ReaderView>>,
}

/// An observation as some readers see it.
struct ReaderView {
    /// The version of the whole.
    version: u64,
    sources: NamespaceSet,
    models: NamespaceSet,
    seen: Arc<FleetObservation>,
}

impl fmt::Debug for TokenAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster: _, audiences, url, certificate, oidc } = self;
        let url = url.as_ref().map(Url::as_str);
        f.debug_struct("TokenAccess")
            .field("audiences", audiences)
            .field("url", &url)
            .field("certificate", certificate)
            .field("oidc", oidc)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TokenGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenGate").field("reviewer", &self.reviewer).finish_non_exhaustive()
    }
}

impl TokenGate {
    pub(super) fn new(access: TokenAccess) -> Result<Self, reqwest::Error> {
        let TokenAccess { cluster, audiences, url, certificate, oidc } = access;
        let is_secure = certificate.is_some() || url.as_ref().is_some_and(|url| url.scheme() == "https");
        Ok(Self {
            oidc: oidc.map(OidcProvider::new).transpose()?,
            audience: audiences.first().cloned().unwrap_or_default(),
            reviewer: AccessReviewer::new(cluster.client(), Some(audiences), ANSWER_LIFETIME),
            cluster,
            sessions: SessionStore::default(),
            url,
            is_secure,
            views: Mutex::default(),
        })
    }

    /// Where people sign in who have no token.
    pub(super) fn oidc(&self) -> Option<&OidcProvider> {
        self.oidc.as_ref()
    }

    /// The address that opens the pages, of a listener at that address.
    pub(super) fn address(&self, address: SocketAddr, is_tls: bool) -> String {
        let scheme = if is_tls { "https" } else { "http" };
        self.url.as_ref().map_or_else(|| format!("{scheme}://{address}/"), Url::to_string)
    }

    /// What a token has to be for.
    pub(super) fn audience(&self) -> &str {
        &self.audience
    }

    /// The host that a request names. Any may be named: who asks is known by a token or by a cookie, which browsers send to
    /// the host alone that set it.
    pub(super) fn check_host<'a>(
        &self,
        headers: &'a HeaderMap,
        authority: Option<&str>,
    ) -> Result<&'a str, ProblemDetails> {
        let mut named = headers.get_all(header::HOST).iter();
        let host = named.next().and_then(|host| host.to_str().ok());
        let is_host = |host: &&str| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
            !host.is_empty() && host.len() <= MAX_HOST_BYTES && host.chars().all(is_part)
        };
        let host = host.filter(is_host).filter(|host| authority.is_none_or(|one| one.eq_ignore_ascii_case(host)));
        host.filter(|_| named.next().is_none()).ok_or_else(|| ProblemDetails::new(ProblemKind::WrongHost))
    }

    /// Where pages that are opened at a host send from.
    pub(super) fn origins(&self, host: &str) -> Vec<String> {
        let own = self.url.as_ref().map(|url| url.origin().ascii_serialization());
        match own {
            Some(own) if own.split_once("//").is_some_and(|(_, own)| own.eq_ignore_ascii_case(host)) => vec![own],
            Some(_) | None if self.is_secure && self.url.is_none() => vec![format!("https://{host}")],
            Some(_) | None => vec![format!("http://{host}"), format!("https://{host}")],
        }
    }

    /// Who sends a request: by its token, else by its cookie.
    pub(super) async fn signed_in_user(&self, headers: &HeaderMap, peer: Peer) -> Result<SignedInUser, ProblemDetails> {
        let required = |detail: &str| ProblemDetails::new(ProblemKind::TokenRequired).with_detail(detail);
        if headers.contains_key(header::AUTHORIZATION) {
            let token = bearer_token(headers).ok_or_else(|| required("`Authorization` must be `Bearer TOKEN`."))?;
            let user = self.identify(token, peer).await?.ok_or_else(|| required(&self.refused_token()))?;
            return Ok(SignedInUser { user, has_token: true });
        }
        for cookie in cookie_values(headers, self.cookie_name()) {
            let token = match self.sessions.proof(cookie) {
                Some(SessionProof::Token(token)) => token,
                Some(SessionProof::Person(user)) => return Ok(SignedInUser { user, has_token: false }),
                None => continue,
            };
            if let Some(user) = self.identify(token.expose_secret(), peer).await? {
                return Ok(SignedInUser { user, has_token: false });
            }
            self.sessions.remove(cookie);
            return Err(required("The token that you signed in with is no longer valid."));
        }
        Err(ProblemDetails::new(ProblemKind::TokenRequired))
    }

    /// Why a token signs nobody in.
    pub(super) fn refused_token(&self) -> String {
        format!("The API server does not know this token, or it is not for the audience `{}`.", self.audience)
    }

    async fn identify(&self, token: &str, peer: Peer) -> Result<Option<Arc<ReviewedUser>>, ProblemDetails> {
        self.reviewer.identify(token, peer).await.map_err(review_failed)
    }

    /// Signs in: the cookie for who has a token; `None` where it is nobody's.
    pub(super) async fn sign_in(&self, token: SecretString, peer: Peer) -> Result<Option<String>, ProblemDetails> {
        let Some(user) = self.identify(token.expose_secret(), peer).await? else { return Ok(None) };
        Ok(self.start_session(SessionProof::Token(token), user.name()))
    }

    /// Starts a session, and gives its cookie.
    pub(super) fn start_session(&self, proof: SessionProof, user: &str) -> Option<String> {
        // Without random numbers there was no listener.
        let cookie = random_token()?;
        tracing::info!(user, "signed in to the pages");
        self.sessions.insert(&cookie, proof, user);
        let (name, attributes) = (self.cookie_name(), self.cookie_attributes());
        Some(format!("{name}={cookie}; Max-Age={}; {attributes}", SessionStore::LIFETIME.as_secs()))
    }

    /// What a browser keeps while it is at the provider; an empty text is what it keeps no longer.
    pub(super) fn sign_in_cookie(&self, value: &str) -> String {
        let lifetime = if value.is_empty() { 0 } else { SIGN_IN_SECONDS };
        format!("{}={value}; Max-Age={lifetime}; {}", self.sign_in_cookie_name(), self.cookie_attributes())
    }

    /// The name of that cookie.
    pub(super) fn sign_in_cookie_name(&self) -> &'static str {
        if self.is_secure { "__Host-stator-sign-in" } else { "stator-sign-in" }
    }

    /// Signs out whoever sends this, and gives what ends the cookie.
    pub(super) fn sign_out(&self, headers: &HeaderMap) -> String {
        for cookie in cookie_values(headers, self.cookie_name()) {
            self.sessions.remove(cookie);
        }
        format!("{}=; Max-Age=0; {}", self.cookie_name(), self.cookie_attributes())
    }

    fn cookie_name(&self) -> &'static str {
        if self.is_secure { "__Host-stator-session" } else { "stator-session" }
    }

    /// `Lax`, as links from commit statuses and comments lead here; what is sent has to say its origin beside it.
    fn cookie_attributes(&self) -> &'static str {
        if self.is_secure { "Path=/; HttpOnly; SameSite=Lax; Secure" } else { "Path=/; HttpOnly; SameSite=Lax" }
    }

    /// What a user sees of an observation.
    pub(super) async fn shown_to(
        &self,
        user: &ReviewedUser,
        whole: &FleetObservation,
    ) -> Result<FleetObservation, ProblemDetails> {
        let of = whole.namespaces();
        let (sources, models, nodes) = tokio::try_join!(
            self.namespaces(user, SOURCES_RIGHT, &of.sources),
            self.namespaces(user, MODELS_RIGHT, &of.models),
            self.may(user, NODES_RIGHT, None, None)
        )?;
        let seen = self.view(whole, &sources, &models);
        let details = ModelDetails { objects: false, events: false };
        let reader = FleetReader { name: Some(user.name().to_owned()), sources, models, nodes, details };
        let mut seen = (*seen).clone();
        seen.reader = reader;
        Ok(seen)
    }

    fn view(&self, whole: &FleetObservation, sources: &NamespaceSet, models: &NamespaceSet) -> Arc<FleetObservation> {
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        views.retain(|view| view.version == whole.version);
        let known = views.iter().find(|view| (&view.sources, &view.models) == (sources, models));
        if let Some(known) = known {
            // Looked at again since, and found the same.
            return Arc::new(known.seen.seen_again(whole.as_of));
        }
        let (sources, models) = (sources.clone(), models.clone());
        let reader = FleetReader { sources: sources.clone(), models: models.clone(), ..FleetReader::EVERYTHING };
        let seen = Arc::new(whole.shown_to(reader));
        if views.len() >= MAX_VIEWS {
            views.clear();
        }
        views.push(ReaderView { version: whole.version, sources, models, seen: Arc::clone(&seen) });
        seen
    }

    /// What a user sees of one model.
    pub(super) async fn details(
        &self,
        user: &ReviewedUser,
        found: &FoundModel<'_>,
    ) -> Result<ModelDetails, ProblemDetails> {
        let namespace = found.model.status.namespace.as_str();
        let events = self.may(user, EVENTS_RIGHT, Some(namespace), None).await?;
        let Some(kinds) = object_kinds(found) else { return Ok(ModelDetails { objects: false, events }) };
        let mut objects = true;
        for ObjectKind { group, plural, .. } in kinds {
            let right = RequiredRight { verb: "get", group, resource: plural };
            objects &= self.may(user, right, Some(namespace), None).await?;
        }
        Ok(ModelDetails { objects, events })
    }

    /// Whether a user may write models of a source in the form, and have them planned.
    pub(super) async fn may_propose(&self, user: &ReviewedUser, source: &SourceFacts) -> Result<bool, ProblemDetails> {
        self.may(user, PROPOSE_RIGHT, Some(&source.namespace), Some(&source.name)).await
    }

    /// Whether a user may ask something of a source.
    pub(super) async fn may_act(
        &self,
        user: &ReviewedUser,
        source: &SourceFacts,
        action: SourceAction,
    ) -> Result<bool, ProblemDetails> {
        self.may(user, action.right(), Some(&source.namespace), Some(&source.name)).await
    }

    /// The cluster in the name of a user, whose rights hold then.
    pub(super) async fn cluster_as(&self, user: &ReviewedUser) -> Result<KubeCluster, ConnectError> {
        self.cluster.connect_as(user.impersonated()).await
    }

    /// The namespaces of these in which a user has a right.
    async fn namespaces(
        &self,
        user: &ReviewedUser,
        right: RequiredRight,
        of: &BTreeSet<String>,
    ) -> Result<NamespaceSet, ProblemDetails> {
        if self.may(user, right, None, None).await? {
            return Ok(NamespaceSet::All);
        }
        let asked = stream::iter(of.clone()).map(async |namespace| {
            let is_allowed = self.may(user, right, Some(&namespace), None).await?;
            Ok::<_, ProblemDetails>(is_allowed.then_some(namespace))
        });
        let allowed: Vec<Option<String>> = asked.buffer_unordered(CONCURRENT_NAMESPACES).try_collect().await?;
        Ok(NamespaceSet::These(allowed.into_iter().flatten().collect()))
    }

    /// Whether somebody may list a resource of a namespace, named as rights name it: `pods`, `podcliques.grove.io`.
    pub(super) async fn may_list(
        &self,
        user: &ReviewedUser,
        resource: &str,
        namespace: &str,
    ) -> Result<bool, ProblemDetails> {
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        let (resource, group) = (resource.to_owned().into(), group.to_owned().into());
        let namespace = Some(namespace.to_owned());
        let question = AccessQuestion::Resource { verb: "list", group, resource, namespace, name: None };
        self.reviewer.may(user, question).await.map_err(review_failed)
    }

    pub(super) async fn may(
        &self,
        user: &ReviewedUser,
        right: RequiredRight,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<bool, ProblemDetails> {
        let RequiredRight { verb, group, resource } = right;
        let (namespace, name) = (namespace.map(str::to_owned), name.map(str::to_owned));
        let question =
            AccessQuestion::Resource { verb, group: group.into(), resource: resource.into(), namespace, name };
        self.reviewer.may(user, question).await.map_err(review_failed)
    }
}

fn review_failed(error: ReviewError) -> ProblemDetails {
    ProblemDetails::new(match error {
        ReviewError::Unanswered => ProblemKind::ReviewFailed,
        ReviewError::TooManyRefused => ProblemKind::TooManyAttempts,
    })
}
