//! Answers that say something: small JSON objects, the same for errors and for taken deliveries.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

/// A status and a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageResponse {
    pub(super) status: StatusCode,
    pub(super) message: &'static str,
}

impl MessageResponse {
    pub(super) fn new(status: StatusCode, message: &'static str) -> Self {
        Self { status, message }
    }
}

impl IntoResponse for MessageResponse {
    fn into_response(self) -> Response {
        let word = if self.status.is_success() { "status" } else { "error" };
        let mut response = (self.status, Json(json!({word: self.message}))).into_response();
        let headers = response.headers_mut();
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
            }
            // What is left of the body is not read, so nothing more can be said on the connection.
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}
