//! Who may read: whoever opened the link that was printed, or whoever the API server of the cluster knows.

use super::link_gate::LinkGate;
use super::token_gate::{SignedInUser, TokenAccess, TokenGate};
use crate::server::tls::CertificateError;
use crate::server::{ListenError, Peer};
use http::HeaderMap;
use stator_view::page::{FORM_SCRIPT, FRAME_SCRIPT, LOG_SCRIPT, SCRIPT, STYLE};
use stator_view::problem::{ProblemDetails, ProblemKind};
use std::net::SocketAddr;
use std::sync::Arc;

/// Who may read.
#[derive(Debug)]
pub enum WebAccess {
    /// Whoever sees the terminal, on this machine.
    Link,
    /// Whoever has a token of a cluster, as far as they may list models there.
    Tokens(Box<TokenAccess>),
}

/// Why there are no pages.
#[derive(Debug, thiserror::Error)]
pub enum WebListenError {
    /// Others could reach the address.
    #[error("other machines can reach {0}, and anyone with the link sees everything")]
    NotLoopback(SocketAddr),
    /// The address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The certificates of the provider cannot be used.
    #[error("the certificates of the OpenID Connect provider cannot be used: {0}")]
    Provider(#[from] reqwest::Error),
    /// The system has no random numbers for the link.
    #[error("the system provides no random numbers, so no link can be made")]
    NoRandomNumbers,
}

/// Who is let in.
#[derive(Debug)]
pub(super) enum AccessGate {
    /// Whoever opened the link.
    Link(LinkGate),
    /// Whoever the API server knows.
    Tokens(Arc<TokenGate>),
}

impl AccessGate {
    /// For a listener at that address.
    ///
    /// # Errors
    /// Where the system has no random numbers, or the provider's certificates cannot be used.
    pub(super) fn new(access: WebAccess, address: SocketAddr) -> Result<Self, WebListenError> {
        Ok(match access {
            WebAccess::Link => Self::Link(LinkGate::new(address).ok_or(WebListenError::NoRandomNumbers)?),
            WebAccess::Tokens(access) => Self::Tokens(Arc::new(TokenGate::new(*access)?)),
        })
    }

    /// The address that opens the pages, of a listener at that address.
    pub(super) fn link(&self, address: SocketAddr, is_tls: bool) -> String {
        match self {
            Self::Link(gate) => gate.link(address),
            Self::Tokens(gate) => gate.address(address, is_tls),
        }
    }

    /// The host that a request names, where it may.
    pub(super) fn check_host<'a>(
        &'a self,
        headers: &'a HeaderMap,
        authority: Option<&str>,
    ) -> Result<&'a str, ProblemDetails> {
        match self {
            Self::Link(gate) => gate.check_host(headers, authority),
            Self::Tokens(gate) => gate.check_host(headers, authority),
        }
    }

    /// Who sends a request.
    ///
    /// # Errors
    /// Where nobody signed in, or that is not known.
    pub(super) async fn visitor(&self, headers: &HeaderMap, peer: Peer) -> Result<Visitor, ProblemDetails> {
        match self {
            Self::Link(gate) if gate.has_session(headers) => Ok(Visitor::LinkHolder),
            Self::Link(_) => Err(ProblemDetails::new(ProblemKind::SignInRequired)),
            Self::Tokens(gate) => Ok(Visitor::User(gate.signed_in_user(headers, peer).await?, Arc::clone(gate))),
        }
    }

    /// What pages at a host are opened as, where something was sent from them.
    pub(super) fn origins(&self, host: &str) -> Vec<String> {
        match self {
            Self::Link(_) => vec![format!("http://{host}")],
            Self::Tokens(gate) => gate.origins(host),
        }
    }

    /// The policy of contents of a page at a host: nothing but the assets of these pages.
    pub(super) fn content_policy(&self, host: &str) -> String {
        let sources = match self {
            Self::Link(_) => format!(
                "style-src http://{host}{}; script-src http://{host}{} http://{host}{} http://{host}{} http://{host}{}",
                STYLE.path, FRAME_SCRIPT.path, SCRIPT.path, FORM_SCRIPT.path, LOG_SCRIPT.path
            ),
            // Whether a proxy in front speaks TLS is not known; nothing else here is a script or a style.
            Self::Tokens(_) => "style-src 'self'; script-src 'self'".to_owned(),
        };
        format!(
            "default-src 'none'; {sources}; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; \
             frame-ancestors 'none'"
        )
    }
}

/// Somebody who was let in.
#[derive(Clone, Debug)]
pub(super) enum Visitor {
    /// Whoever opened the link.
    LinkHolder,
    /// Whoever the API server knows, and what asks it of them.
    User(SignedInUser, Arc<TokenGate>),
}

impl Visitor {
    /// What the API server calls them.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::LinkHolder => None,
            Self::User(signed_in, _) => Some(signed_in.user.name()),
        }
    }

    /// Whether each request has a token, so that no other site can have a browser send it.
    pub(super) fn has_token(&self) -> bool {
        match self {
            Self::LinkHolder => false,
            Self::User(signed_in, _) => signed_in.has_token,
        }
    }
}
