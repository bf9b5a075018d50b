//! The page of the open pull requests, and the one after a pull request was opened.

use super::changes::ChangeSetText;
use super::frame::{PageFrame, PageSection};
use super::text::{ProseText, print};
use crate::observation::FleetObservation;
use crate::pull_requests::{PreviewView, ProposalView, previews};
use askama::Template;
use jiff::Timestamp;
use stator_core::commit::short_commit;

#[derive(Template)]
#[template(path = "previews.html")]
struct PreviewsPage {
    frame: PageFrame,
    previews: Vec<PreviewText>,
}

struct PreviewText {
    id: String,
    source: String,
    number: u64,
    title: String,
    url: Option<String>,
    head: String,
    summary: ProseText,
    set: ChangeSetText,
}

/// The page at `/previews`.
pub fn previews_page(observation: &FleetObservation, now: Timestamp) -> String {
    print(&PreviewsPage {
        frame: PageFrame::live("Previews", PageSection::Previews, observation, now),
        previews: previews(observation).iter().enumerate().map(|(at, one)| preview_text(at, one)).collect(),
    })
}

fn preview_text(at: usize, preview: &PreviewView) -> PreviewText {
    PreviewText {
        id: format!("preview-{at}"),
        source: preview.source.clone(),
        number: preview.number,
        title: preview.title.clone(),
        url: preview.url.clone(),
        head: short_commit(&preview.head).to_owned(),
        summary: ProseText::new(&preview.summary),
        set: ChangeSetText::new(&preview.changes, None),
    }
}

#[derive(Template)]
#[template(path = "proposed.html")]
struct ProposedPage<'a> {
    frame: PageFrame,
    proposal: &'a ProposalView,
    is_web: bool,
    model_href: Option<&'a str>,
}

/// The page after a pull request was opened. `model_href` is the page of its model, where there is one already.
pub fn proposed_page(proposal: &ProposalView, model_href: Option<&str>) -> String {
    let is_web = proposal.url.starts_with("https://") || proposal.url.starts_with("http://");
    let verb = if proposal.is_new { "is open" } else { "was open already" };
    let frame = PageFrame::fixed(format!("Pull request {} {verb}", proposal.number), None);
    print(&ProposedPage { frame, proposal, is_web, model_href })
}
