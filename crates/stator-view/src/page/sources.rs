//! The page of the sources.

use super::frame::{PageFrame, PageSection};
use super::text::{CommitText, ProseText, TimeText, number_text, print};
use crate::models::ModelQuery;
use crate::observation::{FleetObservation, NO_NAMESPACE};
use crate::query_string::encode;
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

/// A source as pages show it.
pub(super) struct SourceText {
    /// Its own page.
    pub(super) page: String,
    pub(super) label: String,
    pub(super) href: String,
    pub(super) origin: String,
    pub(super) environment: String,
    pub(super) phase: String,
    /// Seen, attempted and applied.
    pub(super) revisions: Vec<Option<RevisionText>>,
    pub(super) models: String,
    /// Where the changes are, and of how many models.
    pub(super) pending: Option<(String, String)>,
    pub(super) lines: Vec<ProseText>,
}

/// A commit, and when something became of it.
pub(super) struct RevisionText {
    pub(super) commit: CommitText,
    pub(super) time: Option<TimeText>,
}

/// The page at `/sources`.
pub fn sources_page(observation: &FleetObservation, now: Timestamp) -> String {
    print(&SourcesPage {
        frame: PageFrame::live("Sources", PageSection::Sources, observation, now),
        sources: sources(observation).iter().map(|source| source_text(source, now)).collect(),
    })
}

/// The path of a source's page.
pub(super) fn source_path(namespace: &str, name: &str) -> String {
    let namespace = if namespace.is_empty() { NO_NAMESPACE } else { namespace };
    format!("/sources/{}/{}", encode(namespace), encode(name))
}

impl SourceText {
    /// Its commits with what became of them.
    pub(super) fn named_revisions(&self) -> impl Iterator<Item = (&'static str, &Option<RevisionText>)> {
        ["Seen", "Attempted", "Applied"].into_iter().zip(&self.revisions)
    }
}

pub(super) fn source_text(source: &SourceView, now: Timestamp) -> SourceText {
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
        page: source_path(&source.namespace, &source.name),
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
