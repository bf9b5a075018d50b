//! What visitors ask of sources: in this process where it follows a file, else of the cluster, in their own name.

use super::access::Visitor;
use super::answer::{self, HTML, JSON, WebRequest};
use super::drafts::{self, FORM_TYPES};
use super::request_scope::RequestScope;
use super::state::WebState;
use super::token_gate::SignedInUser;
use crate::controller::sources::manual_requests::{
    ALLOW, ALLOWED_BY_ANNOTATION, HoldApproval, REQUESTED_AT_ANNOTATION, parse_hold_kind,
};
use crate::controller::sources::objects::MODEL_SOURCE;
use axum::body::Body;
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::json;
use stator_cluster::cluster::kube::KubeCluster;
use stator_cluster::cluster::{Cluster as _, ClusterError};
use stator_core::object::Object;
use stator_git::source::model_source::status::ModelSourceStatus;
use stator_view::facts::{SourceControl, SourceFacts};
use stator_view::page::{action_page, source_address};
use stator_view::problem::{ProblemDetails, ProblemKind};
use stator_view::source_action::{SourceAction, SourceActionRequest, SourceActionView};
use std::time::Duration;
use url::form_urlencoded;

/// The longest body: a commit and a digest.
pub(super) const MAX_ACTION_BYTES: usize = 4 << 10;
/// In whose name fields of a source are owned that people change from pages.
const FIELD_MANAGER: &str = "stator-pages";
/// How long the API server may take.
const ACTION_TIMEOUT: Duration = Duration::from_secs(20);
const JSON_TYPES: [&str; 1] = [JSON];

/// The page where an action is confirmed, or the action.
pub(super) async fn answer(
    state: &WebState,
    scope: &RequestScope,
    question: &WebRequest<'_>,
    (source, action): (&SourceFacts, SourceAction),
    body: Body,
) -> Result<Response, ProblemDetails> {
    scope.check_action(source, action).await?;
    if *question.method != Method::POST {
        action.check(source)?;
        return Ok(answer::text(StatusCode::OK, HTML, action_page(source, action)));
    }
    drafts::check_media_type(question.headers, &FORM_TYPES)?;
    let (body, _turn) = drafts::read_body(state, question, body, MAX_ACTION_BYTES).await?;
    let field = |name: &str| {
        let mut pairs = form_urlencoded::parse(body.as_bytes());
        pairs.find(|(own, _)| own == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
    };
    let request = SourceActionRequest { commit: field("commit"), plan: field("plan") };
    carry_out(state, scope, source, action, &request).await?;
    Ok(answer::redirect(&format!("{}?done={}", source_address(source), action.as_str()), None))
}

/// The action, as programs ask for it.
pub(super) async fn answer_api(
    state: &WebState,
    scope: &RequestScope,
    question: &WebRequest<'_>,
    (source, action): (&SourceFacts, SourceAction),
    body: Body,
) -> Result<Response, ProblemDetails> {
    scope.check_action(source, action).await?;
    let (body, _turn) = drafts::read_body(state, question, body, MAX_ACTION_BYTES).await?;
    let request = match body.trim() {
        "" => SourceActionRequest::default(),
        text => {
            drafts::check_media_type(question.headers, &JSON_TYPES)?;
            SourceActionRequest::parse(text)?
        }
    };
    carry_out(state, scope, source, action, &request).await?;
    let view = SourceActionView { source: source.label(), action, message: action.result().to_owned() };
    Ok(answer::text(StatusCode::ACCEPTED, JSON, serde_json::to_string(&view).unwrap_or_default()))
}

async fn carry_out(
    state: &WebState,
    scope: &RequestScope,
    source: &SourceFacts,
    action: SourceAction,
    request: &SourceActionRequest,
) -> Result<(), ProblemDetails> {
    let done = async {
        action.check(source)?;
        if action == SourceAction::Approve {
            request.check_held(source)?;
        }
        match (&source.control, &scope.visitor) {
            (SourceControl::Object, Visitor::User(SignedInUser { user, has_token: _ }, gate)) => {
                let cluster = gate.cluster_as(user).await.map_err(|error| refused(&error.to_string()))?;
                let asking = ask_cluster(&cluster, source, action, request, user.name());
                tokio::time::timeout(ACTION_TIMEOUT, asking)
                    .await
                    .map_err(|_| ProblemDetails::new(ProblemKind::OutOfTime))?
            }
            (SourceControl::File, _) => ask_process(state, source, action, request),
            (SourceControl::Object, Visitor::LinkHolder) | (SourceControl::Command { .. }, _) => {
                Err(refused("nobody can be asked from here"))
            }
        }
    }
    .await;
    let user = scope.visitor.name().unwrap_or("the holder of the link");
    let (source, action) = (source.label(), action.as_str());
    match &done {
        Ok(()) => tracing::info!(user, %source, action, commit = %request.commit, "an action from the pages"),
        Err(problem) => {
            tracing::warn!(user, %source, action, reason = %problem.title, "an action from the pages was refused");
        }
    }
    done
}

fn refused(detail: &str) -> ProblemDetails {
    ProblemDetails::new(ProblemKind::NotPossible).with_detail(format!("{detail}."))
}

fn ask_process(
    state: &WebState,
    source: &SourceFacts,
    action: SourceAction,
    request: &SourceActionRequest,
) -> Result<(), ProblemDetails> {
    let desk = state.board.request_desk(&source.namespace, &source.name);
    let desk = desk.ok_or_else(|| refused("the source is not followed any more"))?;
    match action {
        SourceAction::Sync => desk.0.sync_now(),
        SourceAction::Approve => desk.0.approve(&request.commit, &request.plan),
        SourceAction::Suspend | SourceAction::Resume => return Err(refused("the source is of a file")),
    }
    Ok(())
}

async fn ask_cluster(
    cluster: &KubeCluster,
    source: &SourceFacts,
    action: SourceAction,
    request: &SourceActionRequest,
    person: &str,
) -> Result<(), ProblemDetails> {
    let now = jiff::Timestamp::now().to_string();
    let patch = match action {
        SourceAction::Sync => json!({"metadata": {"annotations": {REQUESTED_AT_ANNOTATION: now}}}),
        SourceAction::Suspend => json!({"spec": {"suspend": true}}),
        SourceAction::Resume => json!({"spec": {"suspend": false}}),
        SourceAction::Approve => {
            let approval = approval_of(cluster, source, request, person).await?;
            json!({"metadata": {"annotations": {
                REQUESTED_AT_ANNOTATION: now,
                ALLOW: approval.to_annotation(),
                ALLOWED_BY_ANNOTATION: approval.by,
            }}})
        }
    };
    let changed = cluster.merge_patch(&MODEL_SOURCE, &source.namespace, &source.name, FIELD_MANAGER, &patch).await;
    match changed.map_err(|error| explain(&error))? {
        Some(_) => Ok(()),
        None => Err(ProblemDetails::new(ProblemKind::NotFound)),
    }
}

/// The approval, of what the source itself says that it holds back: that may be newer than what was shown.
async fn approval_of(
    cluster: &KubeCluster,
    source: &SourceFacts,
    request: &SourceActionRequest,
    person: &str,
) -> Result<HoldApproval, ProblemDetails> {
    let reference = MODEL_SOURCE.reference(&source.namespace, &source.name);
    let object: Object = cluster
        .get(&reference)
        .await
        .map_err(|error| explain(&error))?
        .ok_or_else(|| ProblemDetails::new(ProblemKind::NotFound))?;
    let held = ModelSourceStatus::read(object.value()).held;
    let held = held.filter(|held| held.revision == request.commit && held.plan == request.plan);
    let held = held.ok_or_else(|| {
        let detail = format!("{} holds back something else now: look at it again.", source.label());
        ProblemDetails::new(ProblemKind::Stale).with_detail(detail)
    })?;
    let kinds = held.guards.iter().filter_map(|one| parse_hold_kind(one.guard.as_str())).collect();
    let approval = HoldApproval { kinds, revision: held.revision, plan: held.plan, by: None };
    let annotations =
        object.annotations().into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Ok(approval.approved_by(person, &annotations))
}

fn explain(error: &ClusterError) -> ProblemDetails {
    let forbidden = matches!(error, ClusterError::Forbidden { .. });
    let kind = if forbidden { ProblemKind::Forbidden } else { ProblemKind::NotPossible };
    ProblemDetails::new(kind).with_detail(format!("The API server refused it: {error}."))
}
