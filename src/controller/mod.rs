//! What drives `sync` for every source.
//!
//! | Folder | What lives there |
//! |-|-|
//! | `sources` | sources as they are known: read from a file or from objects of a cluster, as whom they act, when they are due |
//! | `replicas` | which replica works on which sources: leases and shards |
//! | `cache` | informer caches of live objects, and the drift detector |
//! | `report` | what is reported: commit statuses, previews, events, notifications, statuses of sources |
//! | `metrics` | what is measured |
//! | `reconcile` | the reconciler of one source |
//! | `supervisor` | starts, restarts and ends the reconcilers |

pub mod cache;
mod git_threads;
mod lease_watch;
pub mod metrics;
pub mod mirror_handle;
mod reconcile;
pub mod replicas;
pub mod report;
pub mod sources;
pub mod supervisor;
pub(crate) mod waiting;
