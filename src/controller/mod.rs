//! What drives `sync` for every source: statuses and previews of commits, and what decides of them.

pub mod budget;
pub mod poster;
pub mod verdicts;

#[cfg(test)]
mod tests_forge;
