//! Models that somebody sends: what may send them, how much is read and for how long, and the thread that they are judged on.

use super::answer::WebRequest;
use super::request_scope::RequestScope;
use super::state::WebState;
use crate::fair_turns::Turn;
use crate::server::BodyError;
use axum::body::Body;
use http::{HeaderMap, header};
use stator_cluster::cluster::ClusterError;
use stator_cluster::sync;
use stator_core::mask::star_tokens;
use stator_core::object::ObjectRef;
use stator_view::draft::{DraftTarget, JudgedDraft, MAX_DRAFT_BYTES, ModelDraft, RefusedObject};
use stator_view::facts::SourceFacts;
use stator_view::problem::{ProblemDetails, ProblemKind, RequestFault};
use std::time::Duration;

/// How long a draft may wait for its turn and be judged.
const JUDGE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the API server may take for all objects of a draft.
const SERVER_TIMEOUT: Duration = Duration::from_secs(20);
/// What a form sends: two texts of a model, percent-encoded, and little beside them. A model for which that is too little is
/// data rather than what a form is for.
pub(super) const MAX_FORM_BYTES: usize = 1 << 20;

/// What a model may be sent as.
const MODEL_TYPES: [&str; 4] = ["application/yaml", "application/json", "application/x-yaml", "text/yaml"];
/// What forms send.
pub(super) const FORM_TYPES: [&str; 1] = ["application/x-www-form-urlencoded"];

/// That a request comes from these pages, at the host that they were opened at: a cookie goes along with what other sites
/// have a browser send. Browsers say where it comes from; who says nothing is refused.
pub(super) fn check_origin(headers: &HeaderMap, own: &[String]) -> Result<(), ProblemDetails> {
    let single = |name: &str| {
        let mut values = headers.get_all(name).iter();
        let first = values.next().map(|value| value.to_str().unwrap_or_default());
        (first, values.next().is_none())
    };
    let (origin, origin_is_single) = single("origin");
    let (site, site_is_single) = single("sec-fetch-site");
    let is_stated = origin.is_some() || site.is_some();
    let is_own_origin = origin.is_none_or(|origin| own.iter().any(|own| own.eq_ignore_ascii_case(origin)));
    let is_own_site = site.is_none_or(|site| site == "same-origin");
    if is_stated && is_own_origin && is_own_site && origin_is_single && site_is_single {
        return Ok(());
    }
    Err(ProblemDetails::new(ProblemKind::CrossOrigin))
}

/// That a body is of one of these types; which one.
pub(super) fn check_media_type(headers: &HeaderMap, allowed: &[&'static str]) -> Result<&'static str, ProblemDetails> {
    let written = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = written.split(';').next().unwrap_or_default().trim();
    let found = allowed.iter().find(|one| one.eq_ignore_ascii_case(essence)).copied();
    found.ok_or_else(|| {
        let detail = match essence {
            "" => "`Content-Type` is missing".to_owned(),
            essence => format!("`Content-Type` is `{essence}`"),
        };
        ProblemDetails::new(ProblemKind::MediaType).with_errors(vec![RequestFault {
            pointer: "#/header/content-type".to_owned(),
            detail,
            allowed: allowed.iter().map(|one| (*one).to_owned()).collect(),
            ..RequestFault::default()
        }])
    })
}

/// Reads a body of at most so many bytes, and its part of the budget, to be kept for as long as anything of the body.
pub(super) async fn read_body(
    state: &WebState,
    question: &WebRequest<'_>,
    body: Body,
    most: usize,
) -> Result<(String, Option<Turn>), ProblemDetails> {
    let read = state.bodies.read(question.peer, question.headers, body, most).await;
    let (bytes, turn) = read.map_err(refuse_body)?.into_parts();
    let text = String::from_utf8(bytes.into())
        .map_err(|_| ProblemDetails::new(ProblemKind::MediaType).with_detail("The text is not UTF-8."))?;
    Ok((text, turn))
}

fn refuse_body(error: BodyError) -> ProblemDetails {
    ProblemDetails::new(match error {
        BodyError::TooLarge { .. } => ProblemKind::BodyTooLarge,
        BodyError::TooSlow | BodyError::Incomplete => ProblemKind::BodyLate,
        BodyError::Busy => ProblemKind::OutOfTime,
    })
}

/// Judges a model that a program sends.
pub(super) async fn judge_sent(
    state: &WebState,
    scope: &RequestScope,
    question: &WebRequest<'_>,
    body: Body,
    target: &DraftTarget,
) -> Result<JudgedDraft, ProblemDetails> {
    check_media_type(question.headers, &MODEL_TYPES)?;
    let source = target.find_source(&scope.observation)?;
    scope.check_propose(source).await?;
    let (text, turn) = read_body(state, question, body, MAX_DRAFT_BYTES).await?;
    let file = target.find_file(source, &text)?;
    judge(state, scope, source, ModelDraft { file, text }, turn).await
}

/// Judges a draft for a source, which whoever sends it may propose, on a thread that may take its time.
pub(super) async fn judge(
    state: &WebState,
    scope: &RequestScope,
    source: &SourceFacts,
    draft: ModelDraft,
    body_turn: Option<Turn>,
) -> Result<JudgedDraft, ProblemDetails> {
    let basis = state.board.draft_basis(&source.namespace, &source.name).await.ok_or_else(|| {
        ProblemDetails::new(ProblemKind::NotFound)
            .with_detail(format!("The files of {} were not read yet.", source.label()))
    })?;
    let out_of_time = || ProblemDetails::new(ProblemKind::OutOfTime);
    let reader = scope.visitor.name().map(str::to_owned);
    let judging = async {
        let turn = state.judging.wait(reader, 1).await;
        let thread = tokio::task::spawn_blocking(move || {
            // Held to the end, also where nobody waits any more.
            let _turns = (turn, body_turn);
            basis.judge(draft)
        });
        thread.await.map_err(|_| out_of_time())
    };
    tokio::time::timeout(JUDGE_TIMEOUT, judging).await.map_err(|_| out_of_time())?
}

/// What the API server would refuse of a draft's plan. It is asked as the source, whose syncs write it.
pub(super) async fn ask_server(
    state: &WebState,
    scope: &RequestScope,
    source: &SourceFacts,
    judged: &JudgedDraft,
) -> Result<Vec<RefusedObject>, ProblemDetails> {
    let out_of_time = |_| ProblemDetails::new(ProblemKind::OutOfTime);
    let cluster = state.board.target(&source.namespace, &source.name);
    let (Some(cluster), Some(plan)) = (cluster, &judged.plan) else { return Ok(Vec::new()) };
    let asking = async {
        let _turn = state.reading.wait(scope.visitor.name().map(str::to_owned), 1).await;
        sync::refused_applies(&cluster, plan).await
    };
    let refused = tokio::time::timeout(SERVER_TIMEOUT, asking).await.map_err(out_of_time)?;
    let view = |(object, error): (ObjectRef, ClusterError)| RefusedObject {
        object: object.to_string(),
        message: star_tokens(&error.to_string()).into_owned(),
    };
    Ok(refused.into_iter().map(view).collect())
}
