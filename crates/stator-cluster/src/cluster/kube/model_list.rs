//! Asking a graph's frontend what it serves, through the API server: as whom the connection acts, whose rights decide.
//!
//! Whatever listens there may answer anything. So little of it is read, redirects are not followed, and nothing of it is
//! repeated in a message.

use super::api_client::{self, ApiPayload, ApiResponse, ApiUrl};
use super::api_error::parse_status;
use super::connection::KubeConnection;
use ::kube::core::Status;
use http::{Method, StatusCode};
use stator_core::dynamo::served_models::{FRONTEND_PORT, FrontendAnswer, FrontendService, MODELS_PATH};
use std::time::Duration;

/// How long a frontend may take. It answers from memory.
const DEADLINE: Duration = Duration::from_secs(5);
/// The most that a list of models may hold: some thousands of them.
const MAX_LIST_SIZE: usize = 1 << 20;

/// What a frontend serves, or why that cannot be told.
pub(super) async fn ask_frontend(connection: &KubeConnection, frontend: &FrontendService) -> FrontendAnswer {
    let FrontendService { namespace, name } = frontend;
    let service = ApiUrl::of("", "v1", "services", Some(namespace)).join(&format!("{name}:{FRONTEND_PORT}"));
    let url = MODELS_PATH.split('/').filter(|step| !step.is_empty()).fold(service.join("proxy"), ApiUrl::join);
    let request = match api_client::build_request(Method::GET, &url, ApiPayload::None, api_client::ACCEPT_JSON) {
        Ok(request) => request,
        Err(error) => return FrontendAnswer::unknown(error.to_string()),
    };
    let (client, server) = (&connection.client, &connection.server);
    match api_client::send_limited_request(client, server, request, DEADLINE, MAX_LIST_SIZE).await {
        Ok(answer) => judge_answer(frontend, &answer),
        Err(error) if error.retry_delay().is_some() => FrontendAnswer::unknown_now(error.to_string()),
        Err(error) => FrontendAnswer::unknown(error.to_string()),
    }
}

fn judge_answer(frontend: &FrontendService, answer: &ApiResponse) -> FrontendAnswer {
    if answer.status == StatusCode::OK {
        return FrontendAnswer::from_model_list(&answer.body);
    }
    let Status { message, reason, .. } = parse_status(answer);
    let code = answer.status.as_u16();
    match (code, reason.as_str()) {
        (403, "Forbidden") => FrontendAnswer::unknown(format!(
            "give stator the right `get` on `services/proxy` in namespace {}",
            frontend.namespace
        )),
        (404, "NotFound") => FrontendAnswer::unknown(format!("there is no {frontend}")),
        (503, "ServiceUnavailable") if message.starts_with("no endpoints available") => {
            FrontendAnswer::Serves(std::collections::BTreeSet::new())
        }
        (code, _) if code >= 500 => {
            FrontendAnswer::unknown_now(format!("{frontend} did not answer {MODELS_PATH} (HTTP {code})"))
        }
        (code, _) => FrontendAnswer::unknown(format!("{frontend} answers {MODELS_PATH} with HTTP {code}")),
    }
}
