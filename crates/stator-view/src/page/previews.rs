//! The page of the open pull requests.

use super::changes::ChangeSetText;
use super::frame::{PageFrame, PageSection};
use super::text::{ProseText, print};
use crate::observation::FleetObservation;
use crate::previews::{PreviewView, previews};
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
