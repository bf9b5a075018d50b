//! The machine against a cluster in a map: stories, and laws that hold in whatever order things happen.

mod adapters;
mod drive;
mod laws;
mod replacing;
mod schedules;
mod stories;
mod world;
