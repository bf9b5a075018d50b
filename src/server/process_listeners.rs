//! The one or two addresses that a process listens on.

use super::{HttpListener, ListenError, RouteOptions, routes_with};
use crate::controller::metrics::Metrics;
use crate::controller::sources::registry::SourceRegistry;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Where a process listens, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// For probes, for webhooks where they are taken, and for metrics where they have no address of their own.
    pub main: SocketAddr,
    /// For metrics and probes alone.
    pub metrics: Option<SocketAddr>,
    /// Whether webhooks are taken.
    pub webhooks: bool,
}

/// Which of its addresses a process cannot listen on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// [`ListenOptions::main`].
    #[error(transparent)]
    Main(ListenError),
    /// [`ListenOptions::metrics`].
    #[error(transparent)]
    Metrics(ListenError),
}

/// The bound addresses of a process: with port 0, these have the port that was free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddresses {
    /// That of [`ListenOptions::main`].
    pub main: SocketAddr,
    /// That of [`ListenOptions::metrics`].
    pub metrics: Option<SocketAddr>,
}

/// The bound listeners of a process.
#[derive(Debug)]
pub struct ProcessListeners {
    main: HttpListener,
    metrics: Option<HttpListener>,
    webhooks: bool,
}

impl ProcessListeners {
    /// Binds the addresses; nothing is answered yet.
    ///
    /// # Errors
    /// When one of them is in use, or not this machine's.
    pub async fn bind(options: ListenOptions) -> Result<Self, BindError> {
        let main = HttpListener::bind(options.main).await.map_err(BindError::Main)?;
        let metrics = match options.metrics {
            Some(address) => Some(HttpListener::bind(address).await.map_err(BindError::Metrics)?),
            None => None,
        };
        Ok(Self { main, metrics, webhooks: options.webhooks })
    }

    /// Where it listens.
    pub fn addresses(&self) -> ListenAddresses {
        ListenAddresses { main: self.main.address(), metrics: self.metrics.as_ref().map(HttpListener::address) }
    }

    /// Answers until `ending` is set, in a task of its own.
    pub fn serve(
        self,
        registry: &Arc<SourceRegistry>,
        metrics: &Arc<Metrics>,
        ending: &CancellationToken,
    ) -> JoinHandle<()> {
        let routes = |parts| routes_with(Arc::clone(registry), Arc::clone(metrics), ending.clone(), parts);
        let parts = RouteOptions { webhooks: self.webhooks, metrics: self.metrics.is_none() };
        let main = self.main.serve(routes(parts), ending.clone());
        let metrics_only = self
            .metrics
            .map(|listener| listener.serve(routes(RouteOptions { webhooks: false, metrics: true }), ending.clone()));
        tokio::spawn(async move {
            match metrics_only {
                Some(metrics_only) => drop(tokio::join!(main, metrics_only)),
                None => main.await,
            }
        })
    }
}
