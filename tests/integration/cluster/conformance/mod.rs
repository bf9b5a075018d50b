//! Scenarios that hold on every implementation of a cluster. Each is two tests: on the embedded cluster, and on a real API server.

mod deletion;
mod objects;
mod ownership;
mod schema;
mod watching;
