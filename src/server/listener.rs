//! Accepting connections: few enough, none for long, and ended with grace.

use super::connection_places::{ConnectionLimits, ConnectionPlaces, Peer};
use super::refusal_log::{RefusalLog, RefusalReason};
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections beyond the limit that may be on their way out.
const MAX_ENDING_CONNECTIONS: usize = 64;
/// Connections that may wait for a place, of those who have many. Further ones are closed.
const MAX_WAITING_CONNECTIONS: usize = 512;
/// Connections that the system takes before this process does: as many as may come at the same moment. One more would be
/// tried again by its client, a second later.
const BACKLOG: u32 = 1024;
/// The head of a request has to be here within this time, the first and every further one; a TLS handshake as well.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection is asked to end after this long, and ended after as long again.
pub(super) const MAX_CONNECTION_AGE: Duration = Duration::from_secs(60);
/// What is under way when the process ends gets this long.
const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_secs(2);
/// The most bytes of a head.
const MAX_HEADER_BYTES: usize = 64 << 10;

/// Why there is nobody listening.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {reason}")]
pub struct ListenError {
    /// Where.
    pub address: String,
    /// In the system's words.
    pub reason: String,
}

/// A bound listener.
#[derive(Debug)]
pub struct HttpListener {
    socket: TcpListener,
    address: SocketAddr,
    limits: ConnectionLimits,
    age: Duration,
    tls: Option<Arc<ServerConfig>>,
}

impl HttpListener {
    /// Binds it. Port 0 takes any that is free.
    ///
    /// # Errors
    /// When the address is in use, or not this machine's.
    pub async fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        let failed = |error: std::io::Error| ListenError { address: address.to_string(), reason: error.to_string() };
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(failed)?;
        // A process that follows another one finds the port free.
        socket.set_reuseaddr(true).map_err(failed)?;
        socket.bind(address).map_err(failed)?;
        let socket = socket.listen(BACKLOG).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address, limits: ConnectionLimits::default(), age: MAX_CONNECTION_AGE, tls: None })
    }

    /// With other limits than the usual ones, and connections that are asked to end after `age`, in place of the usual
    /// minute.
    #[must_use]
    pub fn with_limits(self, limits: ConnectionLimits, age: Duration) -> Self {
        Self { limits, age, ..self }
    }

    /// Over TLS, where there is a configuration.
    #[must_use]
    pub fn with_tls(self, tls: Option<Arc<ServerConfig>>) -> Self {
        Self { tls, ..self }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `ending` is set, and then what is under way, but not for long.
    pub async fn serve(self, routes: Router, ending: CancellationToken) {
        let Self { socket, address: _, limits, age, tls } = self;
        let places = ConnectionPlaces::new(limits);
        let connections =
            Arc::new(Semaphore::new(limits.total.saturating_add(MAX_ENDING_CONNECTIONS + MAX_WAITING_CONNECTIONS)));
        let waiting = Arc::new(Semaphore::new(MAX_WAITING_CONNECTIONS));
        let tracker = TaskTracker::new();
        let routes = log_refusals(routes);
        loop {
            let there = tokio::select! {
                there = Arc::clone(&connections).acquire_owned() => there,
                () = ending.cancelled() => break,
            };
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                () = ending.cancelled() => break,
            };
            let (Ok(there), Ok((stream, peer))) = (there, accepted) else {
                // Out of file descriptors, most likely; they come back as connections end.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let peer = Peer::new(peer.ip());
            let place = places.admit(peer, Instant::now()).ok();
            // Who has to wait keeps nobody behind him waiting.
            let turn = if place.is_none() { Arc::clone(&waiting).try_acquire_owned().ok() } else { None };
            if place.is_none() && turn.is_none() {
                continue;
            }
            let places = Arc::clone(&places);
            let (routes, ending, tls) = (routes.clone().layer(Extension(peer)), ending.clone(), tls.clone());
            tracker.spawn(async move {
                let place = match place {
                    Some(place) => place,
                    None => tokio::select! {
                        place = places.wait_for_place(peer) => place,
                        () = ending.cancelled() => return,
                    },
                };
                drop(turn);
                // Answers are small; without this they may wait for more.
                let _ = stream.set_nodelay(true);
                tokio::select! {
                    () = serve_stream(stream, tls, routes, age, ending) => {}
                    () = place.evicted.cancelled() => {}
                }
                drop((place, there));
            });
        }
        drop(socket);
        tracker.close();
        let _ = tokio::time::timeout(SHUTDOWN_GRACE_PERIOD, tracker.wait()).await;
    }
}

/// The one place that logs what is refused, whatever answers here.
pub(super) fn log_refusals(routes: Router) -> Router {
    let refusals = Arc::new(RefusalLog::default());
    routes.layer(middleware::from_fn(move |request: Request, next: Next| {
        let refusals = Arc::clone(&refusals);
        async move {
            let peer = Peer::of(request.extensions());
            let mut response = next.run(request).await;
            if let Some(RefusalReason(reason)) = response.extensions_mut().remove() {
                refusals.warn(&format_args!("{reason}, from {peer}"));
            }
            response
        }
    }))
}

async fn serve_stream(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    routes: Router,
    age: Duration,
    ending: CancellationToken,
) {
    let Some(tls) = tls else { return serve_connection(stream, routes, age, ending).await };
    let shaken = tokio::time::timeout(HEADER_READ_TIMEOUT, TlsAcceptor::from(tls).accept(stream)).await;
    if let Ok(Ok(stream)) = shaken {
        serve_connection(stream, routes, age, ending).await;
    }
}

/// Answers one connection for as long as it may last.
pub(super) async fn serve_connection<S>(stream: S, routes: Router, age: Duration, ending: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // Webhooks and probes speak HTTP/1, and each protocol less is a way in less.
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_READ_TIMEOUT).max_buf_size(MAX_HEADER_BYTES);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = ending.cancelled() => {}
        () = tokio::time::sleep(age) => {}
    }
    connection.as_mut().graceful_shutdown();
    let patience = if ending.is_cancelled() { SHUTDOWN_GRACE_PERIOD } else { MAX_CONNECTION_AGE };
    let _ = tokio::time::timeout(patience, connection).await;
}
