//! What is reported of commits, pull requests and sources, and where.

pub mod commit_statuses;
pub mod kube_events;
pub mod notifications;
pub mod preview;
mod retried_write;
pub mod source_status;
#[cfg(test)]
mod tests_forge;
