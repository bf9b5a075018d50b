//! Which models a list shows.

use super::row::ModelRow;
use stator_core::dynamo::health::Health;
use stator_model::plan::SyncState;
use std::collections::BTreeSet;

/// What rows have to be like. An empty set lets everything through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFilter {
    /// One of these.
    pub health: BTreeSet<Health>,
    /// One of these.
    pub sync: BTreeSet<SyncState>,
    /// One of these namespaces.
    pub namespace: BTreeSet<String>,
    /// One of these sources.
    pub source: BTreeSet<String>,
    /// GPUs of one of these SKUs.
    pub gpu: BTreeSet<String>,
    /// Fields that drifted, or none.
    pub drift: Option<bool>,
    /// Changes that the next sync makes, or none.
    pub pending: Option<bool>,
    /// The first digits of the commit that changed it last, or is about to.
    pub commit: Option<String>,
    /// Words that a row has to have, all of them, in any case.
    pub search: Option<String>,
}

impl ModelFilter {
    pub(super) fn has_health(&self, row: &ModelRow) -> bool {
        self.health.is_empty() || self.health.contains(&row.health)
    }

    pub(super) fn has_sync(&self, row: &ModelRow) -> bool {
        self.sync.is_empty() || self.sync.contains(&row.sync)
    }

    pub(super) fn has_drift(&self, row: &ModelRow) -> bool {
        self.drift.is_none_or(|wanted| wanted == (row.drifted_fields > 0))
    }

    /// Everything that no count is offered of: place, GPUs and words. `words` are those of the row, in small letters.
    pub(super) fn has_rest(&self, row: &ModelRow, words: &str) -> bool {
        let is_one = |set: &BTreeSet<String>, value: &String| set.is_empty() || set.contains(value);
        let has_gpu = self.gpu.is_empty() || row.gpus.iter().any(|one| self.gpu.contains(&one.sku));
        let has_words = self
            .search
            .as_ref()
            .is_none_or(|search| search.to_lowercase().split_whitespace().all(|word| words.contains(word)));
        let has_pending = self.pending.is_none_or(|wanted| wanted == (row.pending_objects > 0));
        let has_commit = self.commit.as_ref().is_none_or(|commit| {
            row.revision.starts_with(commit) || row.pending_commit.as_ref().is_some_and(|of| of.starts_with(commit))
        });
        has_pending
            && has_commit
            && is_one(&self.namespace, &row.namespace)
            && is_one(&self.source, &row.source)
            && has_gpu
            && has_words
    }
}

/// What a search looks at: everything of a row that people know it by, in small letters.
pub(crate) fn search_words(row: &ModelRow) -> String {
    let skus: Vec<&str> = row.gpus.iter().map(|one| one.sku.as_str()).collect();
    [
        row.name.as_str(),
        &row.namespace,
        &row.source,
        row.health.as_str(),
        row.sync.as_str(),
        &row.message,
        &row.revision,
        row.pending_commit.as_deref().unwrap_or_default(),
        &skus.join(" "),
    ]
    .join("\n")
    .to_lowercase()
}
