//! What drives `sync` for every source: a file of sources, a task for each of them, and what is said of commits and pull
//! requests.

pub mod backoff;
pub mod board;
pub mod budget;
pub mod file;
pub mod git;
pub mod hints;
pub mod metrics;
pub mod poster;
pub mod preview;
mod report;
pub mod run;
pub mod schedule;
mod sentinel;
mod unit;
pub mod verdicts;
pub mod watch;
pub mod windows;

#[cfg(test)]
mod tests_forge;
