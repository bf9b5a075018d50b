//! The form: opened from the file as the source has it, sent again and again, and downloaded as a patch in the end.

use super::answer::{self, HTML, WebRequest};
use super::drafts::{self, FORM_TYPES, MAX_FORM_BYTES};
use super::request_scope::RequestScope;
use super::state::WebState;
use crate::fair_turns::Turn;
use axum::body::Body;
use axum::response::Response;
use http::{StatusCode, header};
use stator_view::draft::{DraftTarget, JudgedDraft, ModelDraft};
use stator_view::facts::SourceFacts;
use stator_view::form::{FormAction, FormDraft, FormSubmission, NEW_MODEL, apply_submission};
use stator_view::observation::FleetObservation;
use stator_view::page::{FormInput, FormPlace, form_page, is_shown_as_it_is, text_digest};
use stator_view::problem::{ProblemDetails, ProblemKind, RequestFault};

const PATCH: &str = "text/x-diff; charset=utf-8";

/// What a form is about: its source, and the file as the source has it.
struct FormSubject<'a> {
    source: &'a SourceFacts,
    /// The file, for a model that is there.
    file: Option<String>,
    stored: Option<String>,
}

/// Opens the form.
pub(super) async fn open(
    state: &WebState,
    scope: &RequestScope,
    question: &WebRequest<'_>,
    place: FormPlace<'_>,
) -> Result<Response, ProblemDetails> {
    let observation = &scope.observation;
    let target = DraftTarget::parse(question.query, &["source"])?;
    let subject = find_subject(state, scope, place, target).await?;
    let text = subject.stored.clone().unwrap_or_else(|| NEW_MODEL.to_owned());
    let sent = FormSubmission {
        base: text.clone(),
        yaml: text,
        seen: subject.stored.as_deref().map(text_digest).unwrap_or_default(),
        ..FormSubmission::default()
    };
    let judged = judge(state, scope, &subject, &sent, (sent.yaml.clone(), None)).await?;
    Ok(page(StatusCode::OK, observation, place, &subject, &sent, &judged, &[]))
}

/// Shows what a form becomes that was sent, or gives the patch for it.
pub(super) async fn submit(
    state: &WebState,
    scope: &RequestScope,
    question: &WebRequest<'_>,
    place: FormPlace<'_>,
    body: Body,
) -> Result<Response, ProblemDetails> {
    drafts::check_media_type(question.headers, &FORM_TYPES)?;
    // Which source a new model is for stands in the body: before it is read, there has to be one that it may be for.
    find_subject(state, scope, place, DraftTarget::default()).await?;
    let (body, turn) = drafts::read_body(state, question, body, MAX_FORM_BYTES).await?;
    let sent = FormSubmission::parse(&body);
    drop(body);
    let observation = &scope.observation;
    let target = DraftTarget { source: Some(sent.source.clone()).filter(|source| !source.is_empty()), file: None };
    let subject = find_subject(state, scope, place, target).await?;
    let FormDraft { mut text, mut faults } = apply_submission(&sent);
    if subject.stored.as_ref().is_some_and(|stored| stored.contains("\r\n")) {
        // As its lines end in git; browsers do not tell.
        text = text.replace('\n', "\r\n");
    }
    let judged = judge(state, scope, &subject, &sent, (text, turn)).await?;
    if place == FormPlace::New && judged.stored.is_some() {
        faults.push(RequestFault {
            pointer: "#/file".to_owned(),
            detail: format!("{} already has a model", judged.draft.file),
            help: Some("give the new one another name or another file, or edit the existing one".to_owned()),
            ..RequestFault::default()
        });
    }
    let is_stale = place != FormPlace::New && subject.stored.as_deref().map(text_digest).as_ref() != Some(&sent.seen);
    if is_stale {
        faults.push(RequestFault {
            pointer: "#".to_owned(),
            detail: format!("{} was changed since this form was opened", judged.draft.file),
            help: Some("open the form again; it starts from the file as it is now".to_owned()),
            ..RequestFault::default()
        });
    }
    let checked = judged.check_change();
    let status = match (&checked, faults.is_empty()) {
        (_, false) if is_stale => StatusCode::CONFLICT,
        (Err(problem), _) => StatusCode::from_u16(problem.status).unwrap_or(StatusCode::UNPROCESSABLE_ENTITY),
        (Ok(()), false) => StatusCode::UNPROCESSABLE_ENTITY,
        (Ok(()), true) => StatusCode::OK,
    };
    if sent.action == FormAction::Patch && status == StatusCode::OK {
        return Ok(patch(&judged));
    }
    Ok(page(status, observation, place, &subject, &sent, &judged, &faults))
}

async fn find_subject<'a>(
    state: &WebState,
    scope: &'a RequestScope,
    place: FormPlace<'_>,
    target: DraftTarget,
) -> Result<FormSubject<'a>, ProblemDetails> {
    let observation = &scope.observation;
    let FormPlace::Edit { namespace, name } = place else {
        // The first one stands there until another one is chosen.
        let source = match target.source {
            Some(source) => Some(source),
            None => first_source(scope).await?,
        };
        let source = DraftTarget { source, ..target }.find_source(observation)?;
        scope.check_propose(source).await?;
        return Ok(FormSubject { source, file: None, stored: None });
    };
    let found = observation.model(namespace, name)?;
    scope.check_propose(found.source).await?;
    let file = found.model.status.source.clone();
    let basis = state.board.draft_basis(&found.source.namespace, &found.source.name).await;
    let stored = basis.and_then(|basis| basis.stored_text(&file)).ok_or_else(|| {
        ProblemDetails::new(ProblemKind::NotFound)
            .with_detail(format!("{} has no file {file} to edit.", found.source.label()))
    })?;
    if !is_shown_as_it_is(&stored.replace("\r\n", "\n")) {
        let detail = format!("{file} has characters that a page does not show: change it in git.");
        return Err(ProblemDetails::new(ProblemKind::InvalidModel).with_detail(detail));
    }
    Ok(FormSubject { source: found.source, file: Some(file), stored: Some(stored) })
}

/// The first source that models may be written for, else the first of all.
async fn first_source(scope: &RequestScope) -> Result<Option<String>, ProblemDetails> {
    for source in scope.observation.listed_sources() {
        match scope.check_propose(source).await {
            Ok(()) => return Ok(Some(source.label())),
            Err(problem) if problem.of == ProblemKind::Forbidden => {}
            Err(problem) => return Err(problem),
        }
    }
    Ok(scope.observation.listed_sources().next().map(SourceFacts::label))
}

async fn judge(
    state: &WebState,
    scope: &RequestScope,
    subject: &FormSubject<'_>,
    sent: &FormSubmission,
    (text, turn): (String, Option<Turn>),
) -> Result<JudgedDraft, ProblemDetails> {
    let named = Some(sent.file.clone()).filter(|file| !file.is_empty());
    let file = match &subject.file {
        Some(file) => file.clone(),
        None => DraftTarget { source: None, file: named }.find_file(subject.source, &text)?,
    };
    drafts::judge(state, scope, subject.source, ModelDraft { file, text }, turn).await
}

fn page(
    status: StatusCode,
    observation: &FleetObservation,
    place: FormPlace<'_>,
    subject: &FormSubject<'_>,
    sent: &FormSubmission,
    judged: &JudgedDraft,
    faults: &[RequestFault],
) -> Response {
    let input = FormInput { place, source: subject.source, sent, judged, faults };
    answer::text(status, HTML, form_page(observation, &input))
}

fn patch(judged: &JudgedDraft) -> Response {
    let mut response = answer::text(StatusCode::OK, PATCH, judged.patch());
    answer::insert(&mut response, header::CONTENT_DISPOSITION, "attachment; filename=\"model.patch\"");
    response
}
