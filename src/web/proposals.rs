//! Pull requests that visitors open: checked and judged as a draft is, and sent to the git host of the source.

use super::request_scope::RequestScope;
use super::state::WebState;
use crate::observation::{Proposal, ProposalRefusal};
use stator_git::source::proposal::{ProposalError, ProposedFile};
use stator_model::plan::commit_of_revision;
use stator_model::present::{escape, preview};
use stator_view::draft::JudgedDraft;
use stator_view::facts::{ProposalAccess, SourceFacts};
use stator_view::problem::{ProblemDetails, ProblemKind};
use stator_view::pull_requests::ProposalView;

/// The longest title, which some hosts cut at less.
const MAX_TITLE_CHARACTERS: usize = 200;
/// The longest description, and the longest plan below it.
const MAX_DESCRIPTION_CHARACTERS: usize = 20_000;
const MAX_PLAN_BYTES: usize = 30_000;

/// What a person says of a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProposalWords<'a> {
    /// The title; empty for the usual one.
    pub(super) title: &'a str,
    /// Why.
    pub(super) description: &'a str,
}

/// Opens a pull request with a draft that has no errors.
pub(super) async fn open(
    state: &WebState,
    scope: &RequestScope,
    source: &SourceFacts,
    judged: &JudgedDraft,
    words: ProposalWords<'_>,
) -> Result<ProposalView, ProblemDetails> {
    let refused = |detail: String| ProblemDetails::new(ProblemKind::NotPossible).with_detail(detail);
    let (base, host) = match &source.proposals {
        ProposalAccess::Open { base, host } => (base.clone(), host.clone()),
        ProposalAccess::Closed { reason } => return Err(refused(format!("{}: {reason}.", source.label()))),
    };
    if judged.patch().is_empty() {
        return Err(ProblemDetails::new(ProblemKind::InvalidModel).with_detail("The file would not change."));
    }
    let desk = state.board.proposal_desk(&source.namespace, &source.name);
    let (Some(desk), Some(seen)) = (desk, &source.seen) else {
        return Err(refused(format!("No commit of {} was read yet.", source.label())));
    };
    let title = match escape::line(words.title).trim() {
        "" => judged.usual_title(),
        title => title.chars().take(MAX_TITLE_CHARACTERS).collect(),
    };
    let description: String = escape::lines(words.description).chars().take(MAX_DESCRIPTION_CHARACTERS).collect();
    let person = scope.visitor.name().map(escape::line);
    let plan = judged.plan.as_ref().map(|plan| preview::proposal_body(plan, MAX_PLAN_BYTES)).unwrap_or_default();
    let proposed_by = person.as_ref().map(|name| format!("Proposed by {}.", escape::markdown(name)));
    let parts = [Some(description.clone()), Some(plan), proposed_by];
    let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    let proposal = Proposal {
        model: judged.model.clone().unwrap_or_default(),
        base: commit_of_revision(&seen.commit).to_owned(),
        file: ProposedFile {
            path: judged.draft.file.clone(),
            content: judged.draft.text.clone().into_bytes(),
            stored: judged.stored.clone().map(String::into_bytes),
        },
        title: title.clone(),
        body: parts.join("\n\n"),
        message: description,
        person,
    };
    let opened = desk.propose(proposal).await.map_err(|refusal| {
        let kind = match &refusal {
            ProposalRefusal::Commit(ProposalError::Stale { .. }) => ProblemKind::Stale,
            ProposalRefusal::OutOfTime => ProblemKind::OutOfTime,
            ProposalRefusal::Commit(ProposalError::NoCommit { .. } | ProposalError::Git(_))
            | ProposalRefusal::Forge(_) => ProblemKind::NotProposed,
        };
        ProblemDetails::new(kind).with_detail(format!("{refusal}; {}.", refusal.help()))
    })?;
    tracing::info!(
        user = scope.visitor.name().unwrap_or("the holder of the link"),
        source = %source.label(),
        file = %judged.draft.file,
        pull_request = opened.number,
        new = opened.is_new,
        "a pull request was opened from the pages"
    );
    Ok(ProposalView {
        number: opened.number,
        url: opened.url,
        title,
        branch: opened.branch,
        base,
        host,
        file: judged.draft.file.clone(),
        is_new: opened.is_new,
    })
}
