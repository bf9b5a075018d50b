//! The addresses that a process listens on.

use super::tls::{CertificateError, CertificateFiles, ReloadedCertificate};
use super::{HttpListener, ListenError, MetricsReviewer, ProbeDetail, RouteOptions, routes_with};
use crate::controller::metrics::Metrics;
use crate::controller::sources::registry::SourceRegistry;
use futures_util::future::{OptionFuture, join3};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Where a process listens, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// For webhooks where they are taken, and for what has no address of its own.
    pub main: SocketAddr,
    /// For probes alone.
    pub probes: Option<SocketAddr>,
    /// For metrics, and probes as well.
    pub metrics: Option<SocketAddr>,
    /// Whether webhooks are taken.
    pub webhooks: bool,
    /// With which certificate [`ListenOptions::main`] is answered; none: without TLS.
    pub certificate: Option<CertificateFiles>,
}

impl ListenOptions {
    /// What is answered on [`ListenOptions::main`]. Where outsiders may be let in, and probes or metrics have an address
    /// of their own, no source is named.
    fn main_routes(&self) -> RouteOptions {
        let probes = match (self.probes, self.metrics) {
            (Some(_), _) => ProbeDetail::Absent,
            (None, Some(_)) if self.webhooks => ProbeDetail::Terse,
            (None, Some(_) | None) => ProbeDetail::Full,
        };
        RouteOptions { webhooks: self.webhooks, probes, metrics: self.metrics.is_none(), metrics_reviewer: None }
    }
}

/// Which of its addresses a process cannot listen on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// [`ListenOptions::main`].
    #[error(transparent)]
    Main(ListenError),
    /// [`ListenOptions::probes`].
    #[error(transparent)]
    Probes(ListenError),
    /// [`ListenOptions::metrics`].
    #[error(transparent)]
    Metrics(ListenError),
    /// [`ListenOptions::certificate`].
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// The bound addresses of a process: with port 0, these have the port that was free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddresses {
    /// That of [`ListenOptions::main`].
    pub main: SocketAddr,
    /// Whether it is answered over TLS.
    pub is_tls: bool,
    /// That of [`ListenOptions::probes`].
    pub probes: Option<SocketAddr>,
    /// That of [`ListenOptions::metrics`].
    pub metrics: Option<SocketAddr>,
}

/// The bound listeners of a process.
#[derive(Debug)]
pub struct ProcessListeners {
    main: HttpListener,
    probes: Option<HttpListener>,
    metrics: Option<HttpListener>,
    certificate: Option<Arc<ReloadedCertificate>>,
    main_routes: RouteOptions,
    metrics_reviewer: Option<Arc<MetricsReviewer>>,
}

impl ProcessListeners {
    /// Binds the addresses; nothing is answered yet.
    ///
    /// # Errors
    /// When one of them is in use, or not this machine's; when the certificate cannot be used.
    pub async fn bind(options: ListenOptions) -> Result<Self, BindError> {
        let main_routes = options.main_routes();
        let certificate = options.certificate.map(ReloadedCertificate::read).transpose()?;
        let tls = certificate.as_ref().map(ReloadedCertificate::server_config).transpose()?;
        let main = HttpListener::bind(options.main).await.map_err(BindError::Main)?.with_tls(tls);
        let bind = async |address: Option<SocketAddr>| match address {
            Some(address) => HttpListener::bind(address).await.map(Some),
            None => Ok(None),
        };
        let probes = bind(options.probes).await.map_err(BindError::Probes)?;
        let metrics = bind(options.metrics).await.map_err(BindError::Metrics)?;
        Ok(Self { main, probes, metrics, certificate, main_routes, metrics_reviewer: None })
    }

    /// Gives metrics only to whom the reviewer lets in.
    #[must_use]
    pub fn with_metrics_reviewer(self, reviewer: Option<MetricsReviewer>) -> Self {
        Self { metrics_reviewer: reviewer.map(Arc::new), ..self }
    }

    /// Where it listens.
    pub fn addresses(&self) -> ListenAddresses {
        ListenAddresses {
            main: self.main.address(),
            is_tls: self.certificate.is_some(),
            probes: self.probes.as_ref().map(HttpListener::address),
            metrics: self.metrics.as_ref().map(HttpListener::address),
        }
    }

    /// Answers until `ending` is set, in a task of its own.
    pub fn serve(
        self,
        registry: &Arc<SourceRegistry>,
        metrics: &Arc<Metrics>,
        ending: &CancellationToken,
    ) -> JoinHandle<()> {
        let reviewer = self.metrics_reviewer.clone();
        let routes = |parts: RouteOptions| {
            let parts = RouteOptions { metrics_reviewer: reviewer.clone(), ..parts };
            routes_with(Arc::clone(registry), Arc::clone(metrics), ending.clone(), &parts)
        };
        // Who asks probes is nowhere asked for a token, so with other places for names they are told none.
        let (has_metrics, reviewed) = (self.metrics.is_some(), self.metrics_reviewer.is_some());
        let inside = |metrics: bool| RouteOptions {
            webhooks: false,
            probes: if reviewed || (has_metrics && !metrics) { ProbeDetail::Terse } else { ProbeDetail::Full },
            metrics,
            metrics_reviewer: None,
        };
        if let Some(certificate) = self.certificate {
            tokio::spawn(certificate.follow(ending.clone()));
        }
        let main = self.main.serve(routes(self.main_routes), ending.clone());
        let serve = |listener: Option<HttpListener>, metrics: bool| {
            OptionFuture::from(listener.map(|listener| listener.serve(routes(inside(metrics)), ending.clone())))
        };
        let (probes, metrics_only) = (serve(self.probes, false), serve(self.metrics, true));
        tokio::spawn(async move {
            join3(main, probes, metrics_only).await;
        })
    }
}
