//! The page of one source, with what can be asked of it, and the page where that is confirmed.

use super::frame::{PageFrame, PageSection};
use super::sources::{SourceText, source_path, source_text};
use super::text::{ProseText, print};
use crate::facts::SourceFacts;
use crate::observation::FleetObservation;
use crate::source_action::SourceAction;
use crate::sources::source_view;
use askama::Template;
use jiff::Timestamp;

#[derive(Template)]
#[template(path = "source.html")]
struct SourcePage {
    frame: PageFrame,
    source: SourceText,
    done: &'static str,
    actions: Vec<(String, &'static str)>,
    api_address: String,
}

#[derive(Template)]
#[template(path = "action.html")]
struct ActionPage<'a> {
    frame: PageFrame,
    source_href: String,
    label: String,
    action: &'static str,
    title: &'static str,
    explanation: &'static str,
    held: Option<HeldText<'a>>,
}

/// What an approval is about, in full.
struct HeldText<'a> {
    reasons: Vec<ProseText>,
    commit: &'a str,
    plan: &'a str,
}

/// The page of a source.
pub fn source_address(source: &SourceFacts) -> String {
    source_path(&source.namespace, &source.name)
}

/// The page at [`source_address`]. `allowed` are the actions that whoever looks may ask for, `done` the one that was asked a
/// moment ago.
pub fn source_page(
    observation: &FleetObservation,
    source: &SourceFacts,
    allowed: &[SourceAction],
    done: Option<SourceAction>,
    now: Timestamp,
) -> String {
    let address = source_address(source);
    let offered = allowed.iter().filter(|action| action.check(source).is_ok());
    print(&SourcePage {
        frame: PageFrame::live(source.label(), PageSection::Sources, observation, now),
        source: source_text(&source_view(source), now),
        done: done.map_or("", SourceAction::result),
        actions: offered.map(|action| (format!("{address}/{}", action.as_str()), action.title())).collect(),
        api_address: format!("/api/v1{address}"),
    })
}

/// The page where an action of a source is confirmed.
pub fn action_page(source: &SourceFacts, action: SourceAction) -> String {
    let held = source.held.as_ref().filter(|_| action == SourceAction::Approve);
    print(&ActionPage {
        frame: PageFrame::fixed(format!("{}: {}", action.title(), source.label()), None),
        source_href: source_address(source),
        label: source.label(),
        action: action.as_str(),
        title: action.title(),
        explanation: action.explanation(),
        held: held.map(|held| HeldText {
            reasons: held.reasons.iter().map(|reason| ProseText::new(reason)).collect(),
            commit: &held.commit,
            plan: &held.plan,
        }),
    })
}
