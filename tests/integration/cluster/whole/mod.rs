//! Plan and sync, the whole way, on every implementation of a cluster. Each scenario ends with an empty plan, and with one more sync
//! that writes nothing.

mod admission;
mod adopting;
mod drift;
mod files;
mod identity;
mod lasting;
mod manifests;
mod pruning;
mod replacing;
mod routes;
mod serving;
mod taking_over;
pub mod weights;
pub mod words;
