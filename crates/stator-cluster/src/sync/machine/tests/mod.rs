//! The machine against a cluster in a map: stories, and laws that hold in whatever order things happen.

mod adapters;
mod deletions;
mod downloads;
mod drive;
mod interrupted;
mod laws;
mod observing;
mod replacing;
mod rivals;
mod schedules;
mod stories;
mod world;
