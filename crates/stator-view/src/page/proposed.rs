//! What to do next, once a pull request is open.

use super::frame::PageFrame;
use super::text::print;
use crate::proposal::ProposalView;
use askama::Template;

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
