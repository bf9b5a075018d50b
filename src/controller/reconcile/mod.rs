//! One source at work: its repository is polled, and the cluster is brought to the newest commit.
//!
//! The state that counts is outside: what git says, and what the cluster holds. A reconciler may be dropped and started anew
//! at any time, and ends where an undisturbed one would have.
//!
//! | File | |
//! |-|-|
//! | [`machine`] | decides what is done next: pure, with laws over random histories |
//! | [`runner`], [`triggers`] | carries out what it decides, and tells it what happens |
//! | [`poller`], [`signature_check`] | finds the newest commit, and verifies its signature |
//! | [`window_gate`] | asks the sync windows |
//! | [`attempt`] | one attempt at a commit, a value that grows: [`gather`] (read, render, look), [`planned`], [`executed`] |
//! | [`attempt_cache`] | what the next attempt need not look at again |
//! | [`verdict`], [`failure`], [`unhealed_drift`] | what an attempt came to |
//! | [`drift_repairs`], [`repair_choice`] | how often drift of one object is put back, and what an attempt leaves of it |
//! | [`last_known_good`] | what drifted of models that the newest commit does not cover |
//! | [`publish`], [`manual_requests`], [`progress`] | what is said of it: state, events, commit statuses, log |
//! | [`measure`] | spans and latencies |
//! | [`observe`] | looks at the models for pages, beside all that |
//!
//! Nothing is waited for without an end:
//!
//! | What is waited for | At most |
//! |-|-|
//! | the mirror: listing, fetching, reading (`mirror_handle`) | 20 minutes, the wait for its turn included; each conversation 5 |
//! | what the git host shows of a commit after a start (`report::commit_statuses`) | 20 seconds |
//! | what the cluster has installed, and what is live (`gather`) | 1 and 5 minutes; each request 10 to 60 seconds |
//! | a sync (`sync`) | `spec.timeout`; 30 minutes without progress of a model; each request 30 seconds |
//! | a poll that a request asks for (`machine`) | that of the mirror |
//! | rights or kinds that the cluster lacks (`machine`) | 10 minutes, then the next try |
//! | a sync window (`machine`) | an hour, then the windows are asked again |
//! | the last statuses at the end | 10 seconds |
//!
//! What waits for something to change (a commit, a request, drift) ends when the process does.

mod attempt;
mod attempt_cache;
mod attempt_report;
mod commit;
mod context;
mod drift_repairs;
mod executed;
mod failure;
mod fleet_policies;
mod gather;
mod last_known_good;
mod lineage;
mod machine;
mod manual_requests;
mod measure;
mod observe;
mod planned;
mod poller;
mod previews;
mod progress;
mod proposal_desk;
mod publish;
mod repair_choice;
mod runner;
mod signature_check;
mod source_board;
mod source_run;
mod triggers;
mod unhealed_drift;
mod verdict;
mod verified_commits;
mod window_gate;

pub(super) use context::{AdministratorRules, ReconcileContext, SourceRepository, TargetCluster};
pub(super) use machine::ReconcileResult;
pub(super) use source_board::{SourceBoard, SpanParent};
pub(super) use verified_commits::VerifiedCommits;

use stator_core::dynamo::kinds;
use stator_core::object::Object;

/// The labels by which a source knows its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceLabels {
    /// The repository's name.
    repository: String,
    /// The environment's name.
    environment: String,
    /// What tells it from another repository of that name.
    owner_id: Option<String>,
}

/// Whether an object has the labels of this source. What is from before there were owners is known by its names.
fn is_ours(object: &Object, labels: Option<&SourceLabels>) -> bool {
    let found = object.labels();
    labels.is_some_and(|SourceLabels { repository, environment, owner_id }| {
        found.get(kinds::LABEL_MANAGED_BY) == Some(&kinds::FIELD_MANAGER)
            && found.get(kinds::LABEL_REPOSITORY) == Some(&repository.as_str())
            && found.get(kinds::LABEL_ENVIRONMENT) == Some(&environment.as_str())
            && found.get(kinds::LABEL_OWNER_ID).is_none_or(|found| Some(*found) == owner_id.as_deref())
    })
}

/// Where the jitter of retries comes from.
pub(super) fn jitter_seed() -> u64 {
    u64::try_from(uuid::Uuid::new_v4().as_u128() & u128::from(u64::MAX)).unwrap_or_default()
}
