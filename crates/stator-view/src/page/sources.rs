//! The page of the sources.

use super::frame::{PageFrame, PageSection};
use super::text::{CommitText, ProseText, TimeText, number_text, print};
use crate::models::ModelQuery;
use crate::observation::FleetObservation;
use crate::sources::{RevisionView, SourceView, sources};
use askama::Template;
use jiff::Timestamp;
use std::collections::BTreeSet;

#[derive(Template)]
#[template(path = "sources.html")]
struct SourcesPage {
    frame: PageFrame,
    sources: Vec<SourceText>,
}

struct SourceText {
    label: String,
    href: String,
    origin: String,
    environment: String,
    phase: String,
    /// Seen, attempted and applied.
    revisions: Vec<Option<RevisionText>>,
    models: String,
    /// Where the changes are, and of how many models.
    pending: Option<(String, String)>,
    lines: Vec<ProseText>,
}

struct RevisionText {
    commit: CommitText,
    time: Option<TimeText>,
}

/// The page at `/sources`.
pub fn sources_page(observation: &FleetObservation, now: Timestamp) -> String {
    print(&SourcesPage {
        frame: PageFrame::live("Sources", PageSection::Sources, observation, now),
        sources: sources(observation).iter().map(|source| source_text(source, now)).collect(),
    })
}

fn source_text(source: &SourceView, now: Timestamp) -> SourceText {
    let mut models = ModelQuery::default();
    models.filter.source = BTreeSet::from([source.label.clone()]);
    let revision = |one: &Option<RevisionView>| {
        one.as_ref().map(|one| RevisionText {
            commit: CommitText::new(one),
            time: one.time.as_ref().map(|time| TimeText::ago(time, now)),
        })
    };
    let window = source.next_window.iter().map(|time| format!("waits for the sync window at {time}"));
    SourceText {
        label: source.label.clone(),
        href: models.address("/"),
        origin: source.origin.clone(),
        environment: source.environment.clone().unwrap_or_else(|| "–".to_owned()),
        phase: source.phase.clone(),
        revisions: vec![revision(&source.seen), revision(&source.attempted), revision(&source.applied)],
        models: number_text(source.models.all),
        pending: (source.pending_models > 0).then(|| (models.address("/changes"), number_text(source.pending_models))),
        lines: source
            .problems
            .iter()
            .chain(&source.held)
            .cloned()
            .chain(window)
            .map(|one| ProseText::new(&one))
            .collect(),
    }
}
