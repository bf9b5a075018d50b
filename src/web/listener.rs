//! The listener of pages and API.

use super::access::{AccessGate, WebAccess, WebListenError};
use super::routes::routes;
use super::state::WebState;
use crate::observation::ObservationBoard;
use crate::server::tls::ReloadedCertificate;
use crate::server::{ConnectionLimits, HttpListener};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// All connections may be of one address: it is this machine.
const LINK_LIMITS: ConnectionLimits = ConnectionLimits { total: 512, per_address: 512 };
/// All connections may be of one address: that of a proxy.
const TOKEN_LIMITS: ConnectionLimits = ConnectionLimits { total: 512, per_address: 512 };
/// How long a connection may last, and a stream with it; a browser opens it again.
const MAX_CONNECTION_AGE: Duration = Duration::from_secs(15 * 60);
/// Uses of the link that wait to be reported.
const ENTRY_CAPACITY: usize = 1;

/// A listener of pages and API that is bound, and does not answer yet.
#[derive(Debug)]
pub struct WebListener {
    socket: HttpListener,
    gate: Arc<AccessGate>,
    certificate: Option<Arc<ReloadedCertificate>>,
}

impl WebListener {
    /// Binds it. Port 0 takes any that is free.
    ///
    /// # Errors
    /// See [`WebListenError`].
    pub async fn bind(address: SocketAddr, access: WebAccess) -> Result<Self, WebListenError> {
        let (limits, certificate) = match &access {
            WebAccess::Link if !address.ip().is_loopback() => return Err(WebListenError::NotLoopback(address)),
            WebAccess::Link => (LINK_LIMITS, None),
            WebAccess::Tokens(tokens) => (TOKEN_LIMITS, tokens.certificate.clone()),
        };
        let certificate = certificate.map(ReloadedCertificate::read).transpose()?;
        let tls = certificate.as_ref().map(ReloadedCertificate::server_config).transpose()?;
        let socket = HttpListener::bind(address).await?.with_limits(limits, MAX_CONNECTION_AGE).with_tls(tls);
        let gate = AccessGate::new(access, socket.address())?;
        Ok(Self { socket, gate: Arc::new(gate), certificate })
    }

    /// The address that opens the pages: a link, which does so once, or the page where one signs in.
    pub fn link(&self) -> String {
        self.gate.link(self.socket.address(), self.certificate.is_some())
    }

    /// Answers until `ending` is set. `report_link` is given another link whenever one was used.
    pub async fn serve(self, board: ObservationBoard, ending: CancellationToken, report_link: impl Fn(String)) {
        let Self { socket, gate, certificate } = self;
        let address = socket.address();
        let (entered, mut entries) = mpsc::channel(ENTRY_CAPACITY);
        let state = WebState::new(Arc::clone(&gate), board, entered, ending.clone());
        let is_tls = certificate.is_some();
        if let Some(certificate) = certificate {
            tokio::spawn(certificate.follow(ending.clone()));
        }
        let serving = socket.serve(routes(state), ending);
        tokio::pin!(serving);
        loop {
            tokio::select! {
                () = &mut serving => return,
                Some(()) = entries.recv() => report_link(gate.link(address, is_tls)),
            }
        }
    }
}
