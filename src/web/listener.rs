//! The listener of pages and API.

use super::access::AccessGate;
use super::routes::routes;
use super::state::WebState;
use crate::observation::ObservationBoard;
use crate::server::{ConnectionLimits, HttpListener, ListenError};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// All connections may be of one address: it is this machine.
const LIMITS: ConnectionLimits = ConnectionLimits { total: 256, per_address: 256 };
/// How long a connection may last, and a stream with it; a browser opens it again.
const MAX_CONNECTION_AGE: Duration = Duration::from_secs(15 * 60);
/// Uses of the link that wait to be told.
const ENTRY_CAPACITY: usize = 1;

/// Why there are no pages.
#[derive(Debug, thiserror::Error)]
pub enum WebListenError {
    /// Others could reach the address.
    #[error("{0} is not an address of this machine alone; pages have no sign-in yet")]
    NotLoopback(SocketAddr),
    /// The address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The system has no random numbers for the link.
    #[error("the system gives no random numbers, so no link can be made")]
    NoRandomNumbers,
}

/// A listener of pages and API that is bound, and does not answer yet.
#[derive(Debug)]
pub struct WebListener {
    socket: HttpListener,
    gate: Arc<AccessGate>,
}

impl WebListener {
    /// Binds it. Port 0 takes any that is free.
    ///
    /// # Errors
    /// See [`WebListenError`].
    pub async fn bind(address: SocketAddr) -> Result<Self, WebListenError> {
        if !address.ip().is_loopback() {
            return Err(WebListenError::NotLoopback(address));
        }
        let socket = HttpListener::bind(address).await?.with_limits(LIMITS).with_age(MAX_CONNECTION_AGE);
        let gate = AccessGate::new(socket.address()).ok_or(WebListenError::NoRandomNumbers)?;
        Ok(Self { socket, gate: Arc::new(gate) })
    }

    /// The link that opens the pages, once.
    pub fn link(&self) -> String {
        self.gate.link(self.socket.address())
    }

    /// Answers until `ending` is set. `tell_link` is given another link whenever one was used.
    pub async fn serve(self, board: ObservationBoard, ending: CancellationToken, tell_link: impl Fn(String)) {
        let Self { socket, gate } = self;
        let address = socket.address();
        let (entered, mut entries) = mpsc::channel(ENTRY_CAPACITY);
        let state = WebState::new(Arc::clone(&gate), board, entered, ending.clone());
        let serving = socket.serve(routes(state), ending);
        tokio::pin!(serving);
        loop {
            tokio::select! {
                () = &mut serving => return,
                Some(()) = entries.recv() => tell_link(gate.link(address)),
            }
        }
    }
}
