//! What is reported of commits, pull requests and sources, and where.

pub mod commit_statuses;
pub mod kube_events;
pub mod notifications;
pub mod preview;
pub(in crate::controller) mod queued_forge;
mod retried_write;
pub mod source_status;
#[cfg(test)]
mod tests_forge;
