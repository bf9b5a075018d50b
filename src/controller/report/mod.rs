//! What is reported of commits, pull requests and sources, and where.

pub mod commit_ledger;
pub mod commit_reporter;
pub mod kube_events;
pub mod notifications;
pub mod preview;
pub mod source_status;
pub mod status_poster;
#[cfg(test)]
mod tests_forge;
pub mod write_budget;
