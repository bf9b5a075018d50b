//! stator: GitOps for NVIDIA Dynamo.
//!
//! The data goes one way: a commit's files become intents, intents become desired objects, desired and live objects
//! become a plan, and a sync carries the plan out. `docs/architecture.md` draws it.

pub mod cli;
pub mod cluster;
pub mod controller;
pub mod dynamo;
pub mod fields;
pub mod finding;
pub mod forge;
pub mod import;
pub mod intent;
pub mod mask;
pub mod object;
pub mod plan;
pub mod present;
pub mod render;
pub mod server;
pub mod source;
pub mod sync;
pub mod telemetry;
