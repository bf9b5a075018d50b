//! From a request to its answer.

use super::access::AccessGate;
use super::answer::{self, HTML, JSON, WebRequest};
use super::link_gate::LinkGate;
use super::request_scope::RequestScope;
use super::state::WebState;
use super::{drafts, forms, sign_in, stream};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::{Method, StatusCode, header};
use jiff::Timestamp;
use stator_view::api::{ApiAnswer, ApiEndpoint, ApiRequest, ENDPOINTS, STREAM_PATH, openapi};
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
    let (policy, response) = match state.gate.check_host(&parts.headers, authority) {
        Ok(host) => (Some(state.gate.content_policy(host)), answer_checked(&state, &question, host, body).await),
        Err(problem) => (None, Err(problem)),
    };
    let response = response.unwrap_or_else(|problem| match &*state.gate {
        AccessGate::Tokens(gate) if problem.of == ProblemKind::TokenRequired => {
            sign_in::required(gate, &question, problem)
        }
        AccessGate::Tokens(_) | AccessGate::Link(_) => {
            answer::problem(&question, &problem, allowed_methods(&state.gate, &question))
        }
    });
    answer::finish(response, &question, policy)
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
    let allowed = || allowed_methods(&state.gate, question).split(", ").any(|one| one == question.method.as_str());
    match &*state.gate {
        AccessGate::Link(gate) if question.path == ENTER_PATH && question.method == Method::GET => {
            return enter(state, gate, question);
        }
        AccessGate::Tokens(gate) if sign_in::methods_of(question.path).is_some() && allowed() => {
            return sign_in::answer(gate, question, host, body).await;
        }
        AccessGate::Link(_) | AccessGate::Tokens(_) => {}
    }
    let visitor = state.gate.visitor(question.headers).await?;
    if !allowed() {
        return Err(ProblemDetails::new(ProblemKind::MethodNotAllowed));
    }
    if !is_read && !visitor.has_token() {
        drafts::check_origin(question.headers, &state.gate.origins(host))?;
    }
    if question.path == STREAM_PATH && question.method != Method::HEAD {
        return stream::open(state, visitor, question.headers).await;
    }
    let asked = find_endpoint(question).map(|(_, request)| request.path);
    let about = match asked.as_deref() {
        Some([namespace, name]) => Some((namespace.as_str(), name.as_str())),
        Some(_) | None => asked_page(question.path),
    };
    let scope = RequestScope::new(state, visitor, about).await?;
    if !is_read {
        return answer_sent(state, &scope, question, body).await;
    }
    if question.is_for_api() {
        answer_program(&scope, question)
    } else if let Some(place) = forms::place_of(question.path) {
        forms::open(state, &scope, question, place).await
    } else {
        answer_person(&scope.observation, question)
    }
}

/// The namespace and the name of the model whose page a path is.
fn asked_page(path: &str) -> Option<(&str, &str)> {
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    match segments.as_slice() {
        ["models", namespace, name] => Some((namespace, name)),
        _ => None,
    }
}

/// Takes the token of the link, and gives the cookie for it.
fn enter(state: &WebState, gate: &LinkGate, question: &WebRequest<'_>) -> Result<Response, ProblemDetails> {
    let cookie = question.parameter("token").and_then(|token| gate.redeem(token));
    if cookie.is_none() && !gate.has_session(question.headers) {
        return Err(ProblemDetails::new(ProblemKind::SignInRequired)
            .with_detail("The link was already used, or is incomplete."));
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
fn allowed_methods(gate: &AccessGate, question: &WebRequest<'_>) -> &'static str {
    if let (AccessGate::Tokens(_), Some(methods)) = (gate, sign_in::methods_of(question.path)) {
        return methods;
    }
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
async fn answer_sent(
    state: &WebState,
    scope: &RequestScope,
    question: &WebRequest<'_>,
    body: Body,
) -> Result<Response, ProblemDetails> {
    if let Some(place) = forms::place_of(question.path) {
        return forms::submit(state, scope, question, place, body).await;
    }
    let not_found = || ProblemDetails::new(ProblemKind::NotFound);
    let (endpoint, request) = find_endpoint(question).ok_or_else(not_found)?;
    let ApiAnswer::Draft { schema: _, body: document } = endpoint.answer else { return Err(not_found()) };
    let target = DraftTarget::parse(&request.query, &endpoint.query_names())?;
    let judged = drafts::judge_sent(state, scope, question.headers, body, &target).await?;
    Ok(answer::text(StatusCode::OK, JSON, document(&judged)?))
}

fn answer_program(scope: &RequestScope, question: &WebRequest<'_>) -> Result<Response, ProblemDetails> {
    let (endpoint, request) = find_endpoint(question).ok_or_else(|| ProblemDetails::new(ProblemKind::NotFound))?;
    match endpoint.answer {
        // Refused before.
        ApiAnswer::Draft { .. } => Err(ProblemDetails::new(ProblemKind::MethodNotAllowed)),
        ApiAnswer::Json { schema: _, body } => Ok(answer::tagged(question, JSON, body(&scope.observation, &request)?)),
        ApiAnswer::OpenApi => Ok(answer::tagged(question, JSON, openapi(ENDPOINTS).to_string())),
        // The rest of it is opened before.
        ApiAnswer::Stream => Ok(answer::text(StatusCode::OK, "text/event-stream", String::new())),
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
