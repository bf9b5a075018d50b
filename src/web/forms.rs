//! The form: opened from the file as the source has it, sent again and again, and downloaded as a patch in the end.

use super::answer::{self, HTML, WebRequest};
use super::drafts::{self, FORM_TYPES, MAX_FORM_BYTES};
use super::proposals::{self, ProposalWords};
use super::request_scope::RequestScope;
use super::state::WebState;
use crate::fair_turns::Turn;
use axum::body::Body;
use axum::response::Response;
use http::{StatusCode, header};
use stator_core::commit::short_commit;
use stator_git::source::proposal::ProposalError;
use stator_model::plan::commit_of_revision;
use stator_view::draft::{DraftTarget, JudgedDraft, ModelDraft};
use stator_view::facts::SourceFacts;
use stator_view::form::{FormAction, FormDraft, FormStart, FormSubmission, NEW_MODEL, apply_submission, merge_fields};
use stator_view::observation::FleetObservation;
use stator_view::page::{
    FormInput, FormPlace, form_page, is_shown_as_it_is, model_address, proposed_page, text_digest,
};
use stator_view::problem::{ProblemDetails, ProblemKind, RequestFault};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a commit may take to be read, which may have to be fetched.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
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
    let (target, start) = match place {
        FormPlace::New => (DraftTarget::parse(question.query, &["source"])?, FormStart::default()),
        FormPlace::Edit { .. } => (DraftTarget::default(), FormStart::parse(question.query)?),
    };
    let subject = find_subject(state, scope, place, target).await?;
    let stored = subject.stored.clone().unwrap_or_else(|| NEW_MODEL.to_owned());
    let (text, notices) = match &start.revision {
        Some(revision) => text_at(state, &subject, revision).await?,
        None => (stored.clone(), Vec::new()),
    };
    let mut sent = FormSubmission {
        base: text.clone(),
        yaml: text,
        origin: if subject.stored.is_some() { stored } else { String::new() },
        seen: subject.stored.as_deref().map(text_digest).unwrap_or_default(),
        values: start.field.into_iter().collect(),
        ..FormSubmission::default()
    };
    if let Some(revision) = &start.revision {
        sent.title = format!("Revert {} to {}", subject.file.as_deref().unwrap_or_default(), short_commit(revision));
    }
    let FormDraft { text, faults, kept: _, is_unwritten } = apply_submission(&sent);
    let mut notices = notices;
    if let Some((pointer, _)) = sent.values.iter().next().filter(|_| text == sent.yaml) {
        let field = pointer.trim_start_matches('/').replace('/', ".");
        notices.push(format!("`{field}` is that already, or does not go with how the model is served now."));
    }
    let judged = judge(state, scope, &subject, &sent, (text, None)).await?;
    let answer = FormAnswer {
        status: StatusCode::OK,
        is_sent: false,
        is_unwritten,
        own_text: None,
        sent: &sent,
        judged: &judged,
        faults: &faults,
        notices: &notices,
    };
    Ok(page(&scope.observation, place, &subject, &answer))
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
    check_before_body(state, scope, place).await?;
    let (body, turn) = drafts::read_body(state, question, body, MAX_FORM_BYTES).await?;
    let mut sent = FormSubmission::parse(&body);
    drop(body);
    let source = Some(sent.source.clone()).filter(|source| !source.is_empty());
    let target = DraftTarget { source, ..DraftTarget::default() };
    let subject = match find_subject(state, scope, place, target.clone()).await {
        // What was typed for a model that is gone is not lost.
        Err(problem) if problem.of == ProblemKind::NotFound && place != FormPlace::New && !sent.file.is_empty() => {
            let source = target.find_source(&scope.observation)?;
            scope.check_propose(source).await?;
            FormSubject { source, file: Some(sent.file.clone()), stored: None }
        }
        found => found?,
    };
    let FormDraft { mut text, mut faults, kept, is_unwritten } = apply_submission(&sent);
    sent.kept = kept;
    let mut notices = Vec::new();
    let mut own_text = None;
    let is_stale = place != FormPlace::New && subject.stored.as_deref().map(text_digest).as_ref() != Some(&sent.seen);
    if let Some(stored) = subject.stored.clone().filter(|_| is_stale) {
        let file = subject.file.as_deref().unwrap_or_default();
        match merge_fields(&sent.origin, &text, &stored.replace("\r\n", "\n")) {
            Some(merged) => {
                notices.push(match merged.conflicts.as_slice() {
                    [] => format!(
                        "{file} was changed meanwhile. Your change was carried over to it: look at the plan again."
                    ),
                    _ => format!("{file} was changed meanwhile. Your change was carried over, but for what is listed."),
                });
                if !merged.conflicts.is_empty() {
                    own_text = Some(std::mem::replace(&mut text, merged.text));
                } else {
                    text = merged.text;
                }
                faults.extend(merged.conflicts);
                (sent.seen, sent.origin) = (text_digest(&stored), stored);
            }
            None => faults.push(RequestFault {
                pointer: "#".to_owned(),
                detail: format!("{file} was changed since this form was opened, and cannot be merged"),
                help: Some("copy your text, and open the form again".to_owned()),
                ..RequestFault::default()
            }),
        }
    }
    if place != FormPlace::New && subject.stored.is_none() {
        faults.push(RequestFault {
            pointer: "#".to_owned(),
            detail: "the file is not in git any more".to_owned(),
            help: Some("copy the text, and make a new model of it".to_owned()),
            ..RequestFault::default()
        });
    }
    if subject.stored.as_ref().is_some_and(|stored| has_windows_ends(stored)) {
        // As its lines end in git; browsers do not tell.
        text = text.replace('\n', "\r\n");
    }
    let named = subject.file.clone().or_else(|| Some(sent.file.clone()).filter(|file| !file.is_empty()));
    let named = DraftTarget { file: named, ..DraftTarget::default() };
    let file = match named.find_file(subject.source, &text) {
        Ok(file) => file,
        // The form stays, with what is wrong at its field.
        Err(problem) => {
            let at_field = |fault| RequestFault { pointer: "#/file".to_owned(), ..fault };
            faults.extend(problem.errors.into_iter().map(at_field));
            DraftTarget::default().find_file(subject.source, &text)?
        }
    };
    let judged = drafts::judge(state, scope, subject.source, ModelDraft { file, text }, turn).await?;
    if place == FormPlace::New && judged.stored.is_some() {
        faults.push(RequestFault {
            pointer: "#/file".to_owned(),
            detail: format!("{} already has a model", judged.draft.file),
            help: Some("give the new one another name or another file, or edit the existing one".to_owned()),
            ..RequestFault::default()
        });
    }
    let is_gone = place != FormPlace::New && subject.stored.is_none();
    let checked = judged.check_change();
    let mut status = match (&checked, faults.is_empty()) {
        (_, false) if is_stale || is_gone => StatusCode::CONFLICT,
        // What was merged is looked at before it goes anywhere.
        (Ok(()), true) if is_stale && sent.action != FormAction::Preview => StatusCode::CONFLICT,
        (Err(problem), _) => StatusCode::from_u16(problem.status).unwrap_or(StatusCode::UNPROCESSABLE_ENTITY),
        (Ok(()), false) => StatusCode::UNPROCESSABLE_ENTITY,
        (Ok(()), true) => StatusCode::OK,
    };
    if sent.action == FormAction::Patch && status == StatusCode::OK {
        return Ok(patch(&judged));
    }
    if sent.action == FormAction::Propose && status == StatusCode::OK {
        let words = ProposalWords { title: &sent.title, description: &sent.description };
        match proposals::open(state, scope, subject.source, &judged, words).await {
            Ok(proposal) => {
                let model = match place {
                    FormPlace::New => None,
                    FormPlace::Edit { namespace, name } => Some(model_address(namespace, name)),
                };
                let status = if proposal.is_new { StatusCode::CREATED } else { StatusCode::OK };
                return Ok(answer::text(status, HTML, proposed_page(&proposal, model.as_deref())));
            }
            // What was filled in stays.
            Err(problem) => {
                let detail = problem.detail.clone().unwrap_or_default();
                faults.push(RequestFault {
                    pointer: "#".to_owned(),
                    detail: format!("{}: {detail}", problem.title),
                    help: Some(problem.of.help().to_owned()),
                    ..RequestFault::default()
                });
                status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::BAD_GATEWAY);
            }
        }
    }
    let answer = FormAnswer {
        status,
        is_sent: true,
        is_unwritten,
        own_text: own_text.as_deref(),
        sent: &sent,
        judged: &judged,
        faults: &faults,
        notices: &notices,
    };
    Ok(page(&scope.observation, place, &subject, &answer))
}

/// That there is a model to edit, or at least a source that its editor may propose to: whoever may not is not read.
async fn check_before_body(state: &WebState, scope: &RequestScope, place: FormPlace<'_>) -> Result<(), ProblemDetails> {
    match find_subject(state, scope, place, DraftTarget::default()).await {
        Err(problem) if problem.of == ProblemKind::NotFound => match first_source(scope).await? {
            Some(label) => {
                let target = DraftTarget { source: Some(label), ..DraftTarget::default() };
                scope.check_propose(target.find_source(&scope.observation)?).await.map_err(|_| problem)
            }
            None => Err(problem),
        },
        found => found.map(drop),
    }
}

/// Whether most lines end as they do on Windows.
fn has_windows_ends(text: &str) -> bool {
    text.matches("\r\n").count() * 2 > text.matches('\n').count()
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
        None => DraftTarget { file: named, ..DraftTarget::default() }.find_file(subject.source, &text)?,
    };
    drafts::judge(state, scope, subject.source, ModelDraft { file, text }, turn).await
}

/// What a form is answered with.
struct FormAnswer<'a> {
    status: StatusCode,
    is_sent: bool,
    is_unwritten: bool,
    own_text: Option<&'a str>,
    sent: &'a FormSubmission,
    judged: &'a JudgedDraft,
    faults: &'a [RequestFault],
    notices: &'a [String],
}

fn page(
    observation: &FleetObservation,
    place: FormPlace<'_>,
    subject: &FormSubject<'_>,
    answer: &FormAnswer<'_>,
) -> Response {
    let FormAnswer { status, is_sent, is_unwritten, own_text, sent, judged, faults, notices } = *answer;
    let input =
        FormInput { place, source: subject.source, sent, judged, faults, notices, is_sent, is_unwritten, own_text };
    answer::text(status, HTML, form_page(observation, &input))
}

/// The model's file as a commit has it, and what else of the model is other there.
async fn text_at(
    state: &WebState,
    subject: &FormSubject<'_>,
    revision: &str,
) -> Result<(String, Vec<String>), ProblemDetails> {
    let unknown = |detail: String| ProblemDetails::new(ProblemKind::NotFound).with_detail(detail);
    let source = subject.source;
    let file = subject.file.as_deref().unwrap_or_default();
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    let desk = state.board.proposal_desk(&source.namespace, &source.name);
    let (Some(desk), Some(seen)) = (desk, &source.seen) else {
        return Err(unknown(format!("No commit of {} was read yet.", source.label())));
    };
    let reading = async {
        let then = desk.files_at(revision, folder).await?;
        let now = desk.files_at(commit_of_revision(&seen.commit), folder).await?;
        Ok::<_, ProposalError>((then, now))
    };
    let read =
        tokio::time::timeout(READ_TIMEOUT, reading).await.map_err(|_| ProblemDetails::new(ProblemKind::OutOfTime))?;
    let (mut then, mut now) = read.map_err(|error| unknown(format!("{error}.")))?;
    let text = then.remove(name).and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.ok_or_else(|| unknown(format!("Commit {} has no {file}.", short_commit(revision))))?;
    now.remove(name);
    let of_model = |name: &&String| name.starts_with("model.") && name.ends_with(".yaml");
    let names: BTreeSet<&String> = then.keys().chain(now.keys()).filter(of_model).collect();
    let other: Vec<&str> =
        names.into_iter().filter(|name| then.get(*name) != now.get(*name)).map(String::as_str).collect();
    let notices = (!other.is_empty()).then(|| {
        format!(
            "{} differs in {} too, and is not reverted here: `stator rollback` restores all files of a model.",
            other.join(", "),
            short_commit(revision)
        )
    });
    Ok((text, notices.into_iter().collect()))
}

fn patch(judged: &JudgedDraft) -> Response {
    let mut response = answer::text(StatusCode::OK, PATCH, judged.patch());
    answer::insert(&mut response, header::CONTENT_DISPOSITION, "attachment; filename=\"model.patch\"");
    response
}
