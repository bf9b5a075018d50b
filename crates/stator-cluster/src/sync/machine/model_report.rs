//! What a model's sync did and what went wrong, as it adds up.

use stator_core::outcome::SyncOutcome;
use stator_model::render::ApplyStage;

/// What there is to report of a model so far. Everything only grows: what failed once has failed for this sync.
#[derive(Debug, Default)]
pub(super) struct ModelReport {
    /// What failed, a sentence each.
    faults: Vec<String>,
    /// How many of the faults are about health alone: what they are about is applied.
    health_faults: usize,
    /// What must not be touched, a sentence each.
    blocked: Vec<String>,
    /// What waits for an approval, a sentence each.
    held: Vec<String>,
    /// What is being deleted and not gone, a sentence each.
    going: Vec<String>,
    /// What was put off, a sentence each.
    deferred: Vec<String>,
    /// Something to say that is no fault.
    notes: Vec<String>,
    /// The earliest stage in which an apply failed: later ones are left out, and nothing of the model is pruned.
    failed_stage: Option<ApplyStage>,
    /// The graph is left as it is, since what it is to serve is not downloaded.
    awaits_download: bool,
    /// Objects created or changed.
    applied: usize,
    /// Objects deleted for good.
    pruned: usize,
    /// Everything that was waited for became Healthy.
    became_healthy: bool,
}

impl ModelReport {
    /// Before anything is done: what the plan says must not be touched, and what it holds back.
    pub(super) fn new(blocked: Vec<String>, held: Vec<String>) -> Self {
        Self { blocked, held, ..Self::default() }
    }

    pub(super) fn add_fault(&mut self, message: String) {
        self.faults.push(message);
    }

    /// Something is applied, and is not or will not become Healthy.
    pub(super) fn add_health_fault(&mut self, message: String) {
        self.faults.push(message);
        self.health_faults += 1;
    }

    pub(super) fn add_blocked(&mut self, message: String) {
        self.blocked.push(message);
    }

    /// The deletion of something was asked for, and nobody waits for its end.
    pub(super) fn add_going(&mut self, message: String) {
        self.going.push(message);
    }

    pub(super) fn add_deferred(&mut self, message: String) {
        self.deferred.push(message);
    }

    pub(super) fn add_note(&mut self, message: String) {
        self.notes.push(message);
    }

    /// An apply of that stage, or the delete before it, failed.
    pub(super) fn fail_stage(&mut self, stage: ApplyStage) {
        self.failed_stage = Some(self.failed_stage.map_or(stage, |earlier| earlier.min(stage)));
    }

    /// The graph is left as it is, since what it is to serve is not downloaded.
    pub(super) fn mark_awaiting_download(&mut self) {
        self.awaits_download = true;
    }

    pub(super) fn awaits_download(&self) -> bool {
        self.awaits_download
    }

    pub(super) fn count_applied(&mut self) {
        self.applied += 1;
    }

    pub(super) fn count_pruned(&mut self) {
        self.pruned += 1;
    }

    /// The wait is over, and everything is Healthy.
    pub(super) fn mark_healthy(&mut self) {
        self.became_healthy = true;
    }

    pub(super) fn failed_stage(&self) -> Option<ApplyStage> {
        self.failed_stage
    }

    pub(super) fn applied(&self) -> usize {
        self.applied
    }

    pub(super) fn pruned(&self) -> usize {
        self.pruned
    }

    pub(super) fn has_blocked(&self) -> bool {
        !self.blocked.is_empty() || !self.held.is_empty()
    }

    /// Whether something that git says was not done, and will not be by waiting.
    pub(super) fn differs_from_git(&self) -> bool {
        !self.faults.is_empty() || self.has_blocked()
    }

    /// Whether a wait for health came to an end, good or bad.
    pub(super) fn has_waited(&self) -> bool {
        self.became_healthy || self.health_faults > 0
    }

    /// Whether whatever failed is about health alone, and nothing was put off.
    pub(super) fn is_applied_whole(&self) -> bool {
        self.deferred.is_empty() && self.going.is_empty() && self.has_no_sync_fault() && !self.awaits_download
    }

    /// Whether the model failed, by its health alone.
    fn is_unhealthy(&self) -> bool {
        !self.faults.is_empty() && self.has_no_sync_fault()
    }

    fn has_no_sync_fault(&self) -> bool {
        self.faults.len() == self.health_faults && self.failed_stage.is_none()
    }

    /// How the model ends if nothing more happens. The worst decides.
    pub(super) fn result(&self) -> SyncOutcome {
        if self.is_unhealthy() {
            SyncOutcome::Unhealthy
        } else if !self.faults.is_empty() {
            SyncOutcome::Failed
        } else if !self.blocked.is_empty() {
            SyncOutcome::Blocked
        } else if !self.held.is_empty() {
            SyncOutcome::Held
        } else if !self.going.is_empty() {
            SyncOutcome::Deleting
        } else if !self.deferred.is_empty() {
            SyncOutcome::Deferred
        } else if self.became_healthy {
            SyncOutcome::Healthy
        } else if self.applied + self.pruned == 0 {
            SyncOutcome::Unchanged
        } else {
            SyncOutcome::Synced
        }
    }

    /// What is said of a model that ends so, the worst first. What is no fault is only said beside what is.
    pub(super) fn sentences(&self, result: SyncOutcome) -> impl Iterator<Item = &str> {
        let notes: &[String] = match result {
            SyncOutcome::Unhealthy | SyncOutcome::Failed | SyncOutcome::Cancelled | SyncOutcome::Superseded => {
                &self.notes
            }
            SyncOutcome::Synced
            | SyncOutcome::Unchanged
            | SyncOutcome::Healthy
            | SyncOutcome::Deferred
            | SyncOutcome::Deleting
            | SyncOutcome::Deleted
            | SyncOutcome::Invalid
            | SyncOutcome::Unsigned
            | SyncOutcome::Held
            | SyncOutcome::Blocked => &[],
        };
        [&self.faults, &self.blocked, &self.held, &self.going, &self.deferred]
            .into_iter()
            .flatten()
            .chain(notes)
            .map(String::as_str)
    }
}
