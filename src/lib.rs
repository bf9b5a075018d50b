//! stator: GitOps for NVIDIA Dynamo.
//!
//! The data goes one way: a commit's files become intents, intents become desired objects, desired and live objects
//! become a plan, and a sync carries the plan out. `docs/architecture.md` draws it.

pub mod cli;
pub mod controller;
pub mod daemon;
pub mod fair_turns;
pub mod observation;
pub mod server;
pub mod telemetry;
pub mod web;
