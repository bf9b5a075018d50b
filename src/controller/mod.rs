//! What drives `sync` for every source.
//!
//! | Folder | What lives there |
//! |-|-|
//! | `sources` | sources as they are known: read from a file or from objects of a cluster, as whom they act, when they are due |
//! | `replicas` | which replica works on which sources: leases and shards |
//! | `cache` | informer caches of live objects, and the drift detector |
//! | `report` | what is reported: commit statuses, previews, events, notifications, statuses of sources |
//! | `status_wording` | what a commit and its models came to, and in which words |
//! | `metrics` | what is measured |
//! | `reconcile` | the reconciler of one source |
//! | `commit_reading`, `commit_trials` | what bounds one commit, and all at once, so that none ends the process |
//! | `supervisor` | starts, replaces and ends the tasks of all sources |
//! | `source_task` | runs the reconciler of one source, and again after a panic |

pub mod cache;
pub mod commit_reading;
pub mod commit_trials;
mod git_threads;
mod lease_watch;
pub mod metrics;
mod mirror_disk;
pub mod mirror_handle;
mod reconcile;
pub mod replicas;
pub mod report;
mod source_task;
pub mod sources;
pub mod status_wording;
pub mod supervisor;
pub(crate) mod waiting;
