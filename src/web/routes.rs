//! From a request to its answer.

use super::access::AccessGate;
use super::answer::{self, HTML, JSON, WebRequest};
use super::link_gate::LinkGate;
use super::pods::Unbuffered;
use super::proposals::{self, ProposalWords};
use super::request_scope::RequestScope;
use super::route::WebRoute;
use super::state::WebState;
use super::{actions, drafts, forms, pods, sign_in, stream};
use crate::server::Peer;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::{Extensions, HeaderMap, Method, StatusCode, Version, header};
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use stator_view::api::{ApiAnswer, ApiEndpoint, ApiRequest, ENDPOINTS, openapi};
use stator_view::draft::{DraftCheck, DraftTarget};
use stator_view::page;
use stator_view::problem::{ProblemDetails, ProblemKind};
use stator_view::source_action::SourceAction;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, Predicate as _};

/// The methods of what is not there.
const READING_METHODS: &str = "GET, HEAD";

/// The routes of the listener. There is one for everything, so that nothing is answered without the checks.
pub(super) fn routes(state: WebState) -> Router {
    // Streams are not compressed: their events and lines go out one by one.
    let is_whole =
        |_: StatusCode, _: Version, _: &HeaderMap, extensions: &Extensions| extensions.get::<Unbuffered>().is_none();
    let compression = CompressionLayer::new().compress_when(DefaultPredicate::new().and(is_whole));
    Router::new().fallback(answer_request).with_state(state).layer(compression)
}

async fn answer_request(State(state): State<WebState>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let question = WebRequest {
        method: &parts.method,
        path: parts.uri.path(),
        query: parts.uri.query().unwrap_or_default(),
        headers: &parts.headers,
        peer: Peer::of(&parts.extensions),
    };
    let authority = parts.uri.authority().map(|authority| authority.as_str());
    let segments = path_segments(question.path);
    let route = WebRoute::find(&state.gate, question.path, &segments, question.query);
    let methods = route.as_ref().map_or(READING_METHODS, |route| route.rule().methods);
    let (policy, response) = match state.gate.check_host(&parts.headers, authority) {
        Ok(host) => {
            let answer = answer_checked(&state, &question, (route, methods), host, body).await;
            (Some(state.gate.content_policy(host)), answer)
        }
        Err(problem) => (None, Err(problem)),
    };
    let response = response.unwrap_or_else(|problem| match &*state.gate {
        AccessGate::Tokens(gate) if problem.of == ProblemKind::TokenRequired => {
            sign_in::required(gate, &question, problem)
        }
        AccessGate::Tokens(_) | AccessGate::Link(_) => answer::problem(&question, &problem, methods),
    });
    answer::finish(response, &question, policy)
}

/// What stands between the `/` of a path, decoded.
fn path_segments(path: &str) -> Vec<String> {
    let decode = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
    path.split('/').skip(1).map(decode).collect()
}

/// Answers a request that names this host.
async fn answer_checked(
    state: &WebState,
    question: &WebRequest<'_>,
    (route, methods): (Option<WebRoute<'_>>, &str),
    host: &str,
    body: Body,
) -> Result<Response, ProblemDetails> {
    let is_read = matches!(*question.method, Method::GET | Method::HEAD);
    let is_allowed = methods.split(", ").any(|one| one == question.method.as_str());
    match (&route, &*state.gate) {
        (Some(WebRoute::Asset(asset)), _) if is_read => {
            // The same for everybody, and the page that asks to sign in needs it.
            let mut response = answer::text(StatusCode::OK, asset.media_type, asset.text.to_owned());
            answer::insert(&mut response, header::CACHE_CONTROL, "max-age=31536000, immutable");
            return Ok(response);
        }
        (Some(WebRoute::Enter), AccessGate::Link(gate)) if is_allowed => return enter(state, gate, question),
        (Some(WebRoute::SignIn | WebRoute::SignOut), AccessGate::Tokens(gate)) if is_allowed => {
            return sign_in::answer(state, gate, question, host, body).await;
        }
        (Some(WebRoute::SignInStart), AccessGate::Tokens(gate)) if is_allowed => {
            return Ok(sign_in::start(gate, question).await);
        }
        (Some(WebRoute::SignInCallback), AccessGate::Tokens(gate)) if is_allowed => {
            return Ok(sign_in::finish(gate, question).await);
        }
        (Some(_) | None, AccessGate::Link(_) | AccessGate::Tokens(_)) => {}
    }
    let visitor = state.gate.visitor(question.headers, question.peer).await?;
    if route.is_none() {
        return Err(ProblemDetails::new(ProblemKind::NotFound));
    }
    if !is_allowed {
        return Err(ProblemDetails::new(ProblemKind::MethodNotAllowed));
    }
    if !is_read && !visitor.has_token() {
        drafts::check_origin(question.headers, &state.gate.origins(host))?;
    }
    let route = route.ok_or_else(|| ProblemDetails::new(ProblemKind::NotFound))?;
    if matches!(route, WebRoute::Stream) && question.method != Method::HEAD {
        return stream::open(state, visitor, question).await;
    }
    let scope = RequestScope::new(state, visitor, route.model()).await?;
    if let Some(place) = route.form() {
        return match is_read {
            true => forms::open(state, &scope, question, place).await,
            false => forms::submit(state, &scope, question, place, body).await,
        };
    }
    let (observation, now) = (&scope.observation, Timestamp::now());
    let html = match route {
        WebRoute::SourceAction(namespace, name, action) => {
            let source = observation.source(namespace, name)?;
            return actions::answer(state, &scope, question, (source, action), body).await;
        }
        WebRoute::Action(action, request) => {
            let source = request.source(observation)?;
            request.refuse_query()?;
            return actions::answer_api(state, &scope, question, (source, action), body).await;
        }
        WebRoute::Source(namespace, name) => {
            let source = observation.source(namespace, name)?;
            let allowed = scope.allowed_actions(source).await?;
            let done = question.parameter("done").and_then(SourceAction::parse);
            page::source_page(observation, source, &allowed, done, now)
        }
        WebRoute::Draft(endpoint, request) => {
            return answer_draft(state, &scope, question, (endpoint, &request), body).await;
        }
        WebRoute::Document(endpoint, request) => {
            return answer_document(state, &scope, question, endpoint, &request).await;
        }
        WebRoute::Tree(namespace, name) => return pods::tree_page(state, &scope, (namespace, name)).await,
        WebRoute::Log(namespace, name) => return pods::log_page(state, &scope, question, (namespace, name)).await,
        // The rest of it is opened before.
        WebRoute::Stream => return Ok(answer::text(StatusCode::OK, "text/event-stream", String::new())),
        WebRoute::Models => page::models_page(observation, question.query, now)?,
        WebRoute::Model(namespace, name) => page::model_page(observation, namespace, name, now)?,
        WebRoute::Sources => page::sources_page(observation, now),
        WebRoute::Changes => page::changes_page(observation, question.query, now)?,
        WebRoute::Previews => page::previews_page(observation, now),
        WebRoute::Capacity => page::capacity_page(observation, now),
        WebRoute::ApiPage => page::api_page(),
        WebRoute::Problem(slug) => {
            page::problem_kind_page(slug).ok_or_else(|| ProblemDetails::new(ProblemKind::NotFound))?
        }
        // Answered before.
        WebRoute::Asset(_)
        | WebRoute::Enter
        | WebRoute::SignIn
        | WebRoute::SignInStart
        | WebRoute::SignInCallback
        | WebRoute::SignOut
        | WebRoute::NewModel
        | WebRoute::EditModel(..) => return Err(ProblemDetails::new(ProblemKind::NotFound)),
    };
    Ok(answer::text(StatusCode::OK, HTML, html))
}

/// Takes the token of the link, and gives the cookie for it.
fn enter(state: &WebState, gate: &LinkGate, question: &WebRequest<'_>) -> Result<Response, ProblemDetails> {
    let cookie = question.parameter("token").and_then(|token| gate.redeem(token));
    if cookie.is_none() && !gate.has_session(question.headers) {
        return Err(ProblemDetails::new(ProblemKind::SignInRequired)
            .with_detail("The link was already used, or is incomplete."));
    }
    if cookie.is_some() {
        // Full: somebody was notified already.
        let _ = state.entered.try_send(());
    }
    let to = question.parameter("to").and_then(sign_in::own_address).unwrap_or("/");
    Ok(answer::redirect(to, cookie.as_deref()))
}

/// Judges a model that a program sends.
async fn answer_draft(
    state: &WebState,
    scope: &RequestScope,
    question: &WebRequest<'_>,
    (endpoint, request): (&ApiEndpoint, &ApiRequest),
    body: Body,
) -> Result<Response, ProblemDetails> {
    let target = DraftTarget::parse(&request.query, &endpoint.query_names())?;
    if let ApiAnswer::Proposal { .. } = endpoint.answer {
        let judged = drafts::judge_sent(state, scope, question, body, &target).await?;
        judged.check_change()?;
        let source = target.find_source(&scope.observation)?;
        let (title, description) = (target.title.as_deref(), target.description.as_deref());
        let words = ProposalWords { title: title.unwrap_or_default(), description: description.unwrap_or_default() };
        let proposal = proposals::open(state, scope, source, &judged, words).await?;
        let status = if proposal.is_new { StatusCode::CREATED } else { StatusCode::OK };
        let mut response = answer::text(status, JSON, serde_json::to_string(&proposal).unwrap_or_default());
        answer::insert(&mut response, header::LOCATION, &proposal.url);
        return Ok(response);
    }
    let ApiAnswer::Draft { schema: _, body: document } = endpoint.answer else {
        return Err(ProblemDetails::new(ProblemKind::NotFound));
    };
    let mut judged = drafts::judge_sent(state, scope, question, body, &target).await?;
    if target.check == DraftCheck::Server {
        judged.refused =
            Some(drafts::ask_server(state, scope, target.find_source(&scope.observation)?, &judged).await?);
    }
    Ok(answer::text(StatusCode::OK, JSON, document(&judged)?))
}

async fn answer_document(
    state: &WebState,
    scope: &RequestScope,
    question: &WebRequest<'_>,
    endpoint: &ApiEndpoint,
    request: &ApiRequest,
) -> Result<Response, ProblemDetails> {
    match endpoint.answer {
        ApiAnswer::Json { schema: _, body } => Ok(answer::tagged(question, JSON, body(&scope.observation, request)?)),
        ApiAnswer::OpenApi => Ok(answer::tagged(question, JSON, openapi(ENDPOINTS).to_string())),
        ApiAnswer::Tree { .. } => {
            let found = request.model(&scope.observation)?;
            request.refuse_query()?;
            pods::tree_document(state, scope, &found).await
        }
        ApiAnswer::Log => pods::log_document(state, scope, question, &request.model(&scope.observation)?).await,
        // Routes of their own.
        ApiAnswer::Draft { .. } | ApiAnswer::Proposal { .. } | ApiAnswer::Action { .. } | ApiAnswer::Stream => {
            Err(ProblemDetails::new(ProblemKind::NotFound))
        }
    }
}
