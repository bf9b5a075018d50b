//! What the next sync does: one table for a model, a draft, and each model of a source or a commit.

use super::frame::{PageFrame, PageSection};
use super::models::{FilterChoice, RowText, list_range, source_choice};
use super::text::{CommitText, ProseText, amount_text, print, value_text};
use crate::changes::{ChangeSet, PendingView, parse_changes_query, pending_changes};
use crate::observation::FleetObservation;
use crate::problem::ProblemDetails;
use askama::Template;
use jiff::Timestamp;
use stator_model::plan::GpuTotals;

/// Changes of one model, as pages show them.
pub(super) struct ChangeSetText {
    pub(super) sentence: String,
    pub(super) facts: Vec<(&'static str, String)>,
    pub(super) changes: Vec<ChangeText>,
}

/// One object that changes.
pub(super) struct ChangeText {
    pub(super) object: String,
    pub(super) action: &'static str,
    pub(super) disruption: &'static str,
    pub(super) gpus: String,
    pub(super) reasons: Vec<ProseText>,
    pub(super) fields: Vec<(String, String, String)>,
}

impl ChangeSetText {
    /// Of changes; `environment` are the GPUs of all models with them, where that is known.
    pub(super) fn new(set: &ChangeSet, environment: Option<GpuTotals>) -> Self {
        let sentence = match set.changed_objects() {
            0 => "Nothing would change in the cluster.".to_owned(),
            1 => "1 object would change.".to_owned(),
            count => format!("{count} objects would change."),
        };
        let by_sku: Vec<String> =
            set.gpus_by_sku.iter().map(|(sku, gpus)| format!("{sku}: {}", gpus_text(*gpus))).collect();
        let cost = set.cost.as_ref().map(|cost| {
            let amount = |value: f64| amount_text(&cost.currency, value);
            let sign = if cost.delta_hour < 0.0 { "−" } else { "+" };
            let unpriced = match cost.unpriced.as_slice() {
                [] => String::new(),
                skus => format!("; no price for {}", skus.join(", ")),
            };
            format!(
                "{} now, {} after ({sign}{}){unpriced}",
                amount(cost.before_hour),
                amount(cost.after_hour),
                amount(cost.delta_hour.abs())
            )
        });
        let facts = [
            ("GPUs", Some(if by_sku.is_empty() { gpus_text(set.gpus) } else { by_sku.join("; ") })),
            ("All of the environment", environment.map(gpus_text)),
            ("Cost", cost),
            ("Disruption", Some(set.disruption.as_str().to_owned())),
        ];
        let change = |change: &crate::changes::ObjectChange| ChangeText {
            object: change.object.clone(),
            action: change.action.as_str(),
            disruption: change.disruption.as_str(),
            gpus: format!("{} → {}", change.gpus.before, change.gpus.after),
            reasons: change.reasons.iter().map(|one| ProseText::new(one)).collect(),
            fields: change
                .fields
                .iter()
                .map(|field| (field.path.to_string(), value_text(&field.old), value_text(&field.new)))
                .collect(),
        };
        Self {
            sentence,
            facts: facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
            changes: set.changes.iter().map(change).collect(),
        }
    }
}

fn gpus_text(gpus: GpuTotals) -> String {
    format!("{} now, {} after, at most {} during the rollout", gpus.before, gpus.after, gpus.peak)
}

#[derive(Template)]
#[template(path = "changes.html")]
struct ChangesPage {
    frame: PageFrame,
    choices: Vec<FilterChoice>,
    kept: Vec<(&'static str, String)>,
    commit: String,
    api_address: String,
    range: String,
    models: Vec<ChangedModelText>,
    previous: Option<String>,
    next: Option<String>,
}

/// One model that the next sync changes.
struct ChangedModelText {
    row: RowText,
    commit: Option<CommitText>,
    is_uncommitted: bool,
    set: ChangeSetText,
}

/// The page at `/changes` with this query.
///
/// # Errors
/// Where the query has parameters that are not allowed, or a page of another list.
pub fn changes_page(observation: &FleetObservation, query: &str, now: Timestamp) -> Result<String, ProblemDetails> {
    let query = parse_changes_query(query)?;
    let list = pending_changes(observation, &query)?;
    let model = |one: &PendingView| ChangedModelText {
        row: RowText::new(&one.model, now),
        commit: one.commit.as_ref().map(CommitText::new),
        is_uncommitted: one.uncommitted,
        set: ChangeSetText::new(&one.changes, None),
    };
    let turned = |cursor: &Option<String>| cursor.as_ref().map(|cursor| query.page_address("/changes", cursor));
    let all = observation.rows().filter(|row| row.pending_objects > 0).count();
    let range = match all {
        0 => "No model has pending changes.".to_owned(),
        all => list_range(&list.metadata, list.items.len(), all),
    };
    let chosen = ["source", "commit", "pending", "limit"];
    Ok(print(&ChangesPage {
        frame: PageFrame::live("Changes", PageSection::Changes, observation, now),
        choices: vec![source_choice(observation, &query)],
        kept: query.parameters().into_iter().filter(|(name, _)| !chosen.contains(name)).collect(),
        commit: query.filter.commit.clone().unwrap_or_default(),
        api_address: query.address("/api/v1/changes"),
        range,
        models: list.items.iter().map(model).collect(),
        previous: turned(&list.metadata.previous),
        next: turned(&list.metadata.next),
    }))
}
