//! Accepting connections: few enough, none for long, and ended with grace.

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections at a time. More wait to be accepted, which the deadlines below keep short.
const MAX_CONNECTIONS: usize = 512;
/// The head of a request has to be here within this time, the first and every further one.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection is asked to end after this long, and ended after as long again.
const MAX_CONNECTION_AGE: Duration = Duration::from_secs(60);
/// What is under way when the process ends gets this long.
const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_secs(5);
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
}

impl HttpListener {
    /// Binds it. Port 0 takes any that is free.
    ///
    /// # Errors
    /// When the address is in use, or not this machine's.
    pub async fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        let failed = |error: std::io::Error| ListenError { address: address.to_string(), reason: error.to_string() };
        let socket = TcpListener::bind(address).await.map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `ending` is set, and then what is under way, but not for long.
    pub async fn serve(self, routes: Router, ending: CancellationToken) {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let tracker = TaskTracker::new();
        loop {
            let place = tokio::select! {
                place = Arc::clone(&places).acquire_owned() => place,
                () = ending.cancelled() => break,
            };
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                () = ending.cancelled() => break,
            };
            let (Ok(place), Ok((stream, _))) = (place, accepted) else {
                // Out of file descriptors, most likely; they come back as connections end.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let (routes, ending) = (routes.clone(), ending.clone());
            tracker.spawn(async move {
                // Answers are small; without this they may wait for more.
                let _ = stream.set_nodelay(true);
                serve_connection(stream, routes, ending).await;
                drop(place);
            });
        }
        drop(self.socket);
        tracker.close();
        let _ = tokio::time::timeout(SHUTDOWN_GRACE_PERIOD, tracker.wait()).await;
    }
}

/// Answers one connection for as long as it may last.
pub(super) async fn serve_connection<S>(stream: S, routes: Router, ending: CancellationToken)
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
        () = tokio::time::sleep(MAX_CONNECTION_AGE) => {}
    }
    connection.as_mut().graceful_shutdown();
    let patience = if ending.is_cancelled() { SHUTDOWN_GRACE_PERIOD } else { MAX_CONNECTION_AGE };
    let _ = tokio::time::timeout(patience, connection).await;
}
