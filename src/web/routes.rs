//! From a request to its answer.

use super::answer::{self, HTML, JSON, WebRequest};
use super::state::WebState;
use super::{drafts, forms, stream};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::{Method, StatusCode, header};
use jiff::Timestamp;
use stator_view::api::{ApiAnswer, ApiEndpoint, ApiRequest, ENDPOINTS, openapi};
use stator_view::draft::DraftTarget;
use stator_view::observation::FleetObservation;
use stator_view::page;
use stator_view::problem::{ProblemDetails, ProblemKind};

/// Where the link leads.
const ENTER_PATH: &str = "/enter";

/// The routes of the listener. There is one for everything, so that nothing is answered without the checks.
pub(super) fn routes(state: WebState) -> Router {
    Router::new().fallback(answer_request).with_state(state)
}

async fn answer_request(State(state): State<WebState>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let question = WebRequest {
        method: &parts.method,
        path: parts.uri.path(),
        query: parts.uri.query().unwrap_or_default(),
        headers: &parts.headers,
    };
    let authority = parts.uri.authority().map(|authority| authority.as_str());
    let (host, response) = match state.gate.check_host(&parts.headers, authority) {
        Ok(host) => (Some(host), answer_checked(&state, &question, host, body).await),
        Err(problem) => (None, Err(problem)),
    };
    let response = response.unwrap_or_else(|problem| answer::problem(&question, &problem, allowed_methods(&question)));
    answer::finish(response, &question, host)
}

/// Answers a request that names this host.
async fn answer_checked(
    state: &WebState,
    question: &WebRequest<'_>,
    host: &str,
    body: Body,
) -> Result<Response, ProblemDetails> {
    let is_read = matches!(*question.method, Method::GET | Method::HEAD);
    if let Some(asset) = page::find_asset(question.path).filter(|_| is_read) {
        // The same for everybody, and the page that asks to sign in needs it.
        let mut response = answer::text(StatusCode::OK, asset.media_type, asset.text.to_owned());
        answer::insert(&mut response, header::CACHE_CONTROL, "max-age=31536000, immutable");
        return Ok(response);
    }
    if question.path == ENTER_PATH && question.method == Method::GET {
        return enter(state, question);
    }
    if !state.gate.has_session(question.headers) {
        return Err(ProblemDetails::new(ProblemKind::SignInRequired));
    }
    if !allowed_methods(question).split(", ").any(|method| method == question.method.as_str()) {
        return Err(ProblemDetails::new(ProblemKind::MethodNotAllowed));
    }
    if !is_read {
        drafts::check_origin(question.headers, host)?;
        return answer_sent(state, question, body).await;
    }
    if question.is_for_api() {
        answer_program(state, question)
    } else if let Some(place) = forms::place_of(question.path) {
        forms::open(state, question, place).await
    } else {
        answer_person(&state.board.observation(), question)
    }
}

/// Takes the token of the link, and gives the cookie for it.
fn enter(state: &WebState, question: &WebRequest<'_>) -> Result<Response, ProblemDetails> {
    let cookie = question.parameter("token").and_then(|token| state.gate.redeem(token));
    if cookie.is_none() && !state.gate.has_session(question.headers) {
        return Err(ProblemDetails::new(ProblemKind::SignInRequired)
            .with_detail("The link was used before, or is not complete."));
    }
    let mut response = answer::text(StatusCode::SEE_OTHER, HTML, String::new());
    answer::insert(&mut response, header::LOCATION, "/");
    if let Some(cookie) = cookie {
        answer::insert(&mut response, header::SET_COOKIE, &cookie);
        // Full: somebody is told already.
        let _ = state.entered.try_send(());
    }
    Ok(response)
}

/// The methods of an address; what is not there would be read.
fn allowed_methods(question: &WebRequest<'_>) -> &'static str {
    match find_endpoint(question) {
        Some((endpoint, _)) if endpoint.answer.takes_body() => "POST",
        None if forms::place_of(question.path).is_some() => "GET, HEAD, POST",
        Some(_) | None => "GET, HEAD",
    }
}

fn find_endpoint(question: &WebRequest<'_>) -> Option<(&'static ApiEndpoint, ApiRequest)> {
    ENDPOINTS.iter().find_map(|one| Some((one, one.request(question.path, question.query)?)))
}

/// Answers what has a body, and comes from these pages.
async fn answer_sent(state: &WebState, question: &WebRequest<'_>, body: Body) -> Result<Response, ProblemDetails> {
    if let Some(place) = forms::place_of(question.path) {
        return forms::submit(state, question, place, body).await;
    }
    let not_found = || ProblemDetails::new(ProblemKind::NotFound);
    let (endpoint, request) = find_endpoint(question).ok_or_else(not_found)?;
    let ApiAnswer::Draft { schema: _, body: document } = endpoint.answer else { return Err(not_found()) };
    let target = DraftTarget::parse(&request.query, &endpoint.query_names())?;
    let judged = drafts::judge_sent(state, question.headers, body, &target).await?;
    Ok(answer::text(StatusCode::OK, JSON, document(&judged)?))
}

fn answer_program(state: &WebState, question: &WebRequest<'_>) -> Result<Response, ProblemDetails> {
    let (endpoint, request) = find_endpoint(question).ok_or_else(|| ProblemDetails::new(ProblemKind::NotFound))?;
    match endpoint.answer {
        // Refused before.
        ApiAnswer::Draft { .. } => Err(ProblemDetails::new(ProblemKind::MethodNotAllowed)),
        ApiAnswer::Json { schema: _, body } => {
            Ok(answer::tagged(question, JSON, body(&state.board.observation(), &request)?))
        }
        ApiAnswer::OpenApi => Ok(answer::tagged(question, JSON, openapi(ENDPOINTS).to_string())),
        ApiAnswer::Stream if question.method == Method::HEAD => {
            Ok(answer::text(StatusCode::OK, "text/event-stream", String::new()))
        }
        ApiAnswer::Stream => {
            stream::open(state.board.subscribe(), &state.streams, question.headers, state.ending.clone())
        }
    }
}

fn answer_person(observation: &FleetObservation, question: &WebRequest<'_>) -> Result<Response, ProblemDetails> {
    let now = Timestamp::now();
    let not_found = || ProblemDetails::new(ProblemKind::NotFound);
    let segments: Vec<&str> = question.path.split('/').skip(1).collect();
    let html = match segments.as_slice() {
        [""] => page::models_page(observation, question.query, now)?,
        ["models", namespace, name] => page::model_page(observation, namespace, name, now)?,
        ["sources"] => page::sources_page(observation, now),
        ["capacity"] => page::capacity_page(observation, now),
        ["api"] => page::api_page(),
        ["problems", slug] => page::problem_kind_page(slug).ok_or_else(not_found)?,
        _ => return Err(not_found()),
    };
    Ok(answer::text(StatusCode::OK, HTML, html))
}
