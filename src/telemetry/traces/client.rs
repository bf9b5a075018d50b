//! How spans travel: over the HTTP client that everything else uses, which has its roots, its proxy and a deadline.

use super::{FAILED_BATCHES, SENT_BATCHES};
use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpError, Request, Response};
use stator_git::source::transport::http::HttpClient;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// How long one batch may take.
pub(super) const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often is said that the collector takes nothing.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Sends batches.
#[derive(Debug)]
pub(super) struct OtlpHttpClient {
    http: HttpClient,
    /// The exporter has a thread without a runtime.
    runtime: Handle,
    /// When it was last said that nothing is taken.
    last_warning: Mutex<Option<Instant>>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct SpanExportError(String);

impl OtlpHttpClient {
    pub(super) fn new(http: HttpClient, runtime: Handle) -> Self {
        Self { http, runtime, last_warning: Mutex::default() }
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, SpanExportError> {
        let request =
            reqwest::Request::try_from(request).map_err(|_| SpanExportError("its address is invalid".to_owned()))?;
        let http = self.http.clone();
        let sent = self.runtime.spawn(async move { http.send(request).await });
        let ended = |_| SpanExportError("the process ends".to_owned());
        let answer = sent.await.map_err(ended)?.map_err(|error| SpanExportError(error.to_string()))?;
        let mut response = Response::new(answer.body);
        (*response.status_mut(), *response.headers_mut()) = (answer.status, answer.headers);
        Ok(response)
    }

    /// A line a minute, however many batches are refused.
    fn warn(&self, why: &str) {
        let mut said = self.last_warning.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL) {
            *said = Some(Instant::now());
            tracing::warn!("traces are lost: the collector does not accept them: {why}");
        }
    }
}

#[async_trait]
impl opentelemetry_http::HttpClient for OtlpHttpClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.send(request).await;
        match &answer {
            Ok(response) if response.status().is_success() => {
                SENT_BATCHES.fetch_add(1, Ordering::Relaxed);
            }
            Ok(response) => {
                FAILED_BATCHES.fetch_add(1, Ordering::Relaxed);
                self.warn(&format!("it responded with status {}", response.status().as_u16()));
            }
            Err(error) => {
                FAILED_BATCHES.fetch_add(1, Ordering::Relaxed);
                self.warn(&error.to_string());
            }
        }
        Ok(answer?)
    }
}
