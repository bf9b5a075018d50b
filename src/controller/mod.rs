//! What drives `sync` for every source: a file of sources, a task for each of them, and what is said of commits and pull
//! requests.

pub mod board;
pub mod budget;
pub mod file;
pub mod hints;
pub mod metrics;
pub mod poster;
pub mod preview;
pub mod schedule;
pub mod verdicts;

#[cfg(test)]
mod tests_forge;
