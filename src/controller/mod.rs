//! What drives `sync` for every source: a file of sources, a task for each of them, and what is said of commits and pull
//! requests.

pub mod access;
pub mod backoff;
pub mod board;
pub mod budget;
pub mod events;
pub mod file;
pub mod git;
pub mod hints;
pub mod lease;
pub mod live;
pub mod metrics;
pub mod news;
pub mod notify;
pub mod poster;
pub mod preview;
mod report;
pub mod requests;
pub mod resources;
pub mod run;
pub mod schedule;
mod sentinel;
pub mod sources;
pub mod standing;
pub mod status;
mod unit;
pub mod verdicts;
pub mod watch;
pub mod windows;

#[cfg(test)]
mod tests_forge;
