//! The step machine: (state, event) → (state, effects). No I/O, no clock, no chance of its own.
//!
//! Every model is a queue of tasks with at most one call to the cluster in flight, so models are independent: a fault
//! ends or shortens one queue and leaves the others alone. What they share is the number of calls at a time, and the
//! barrier before pruning: nothing is deleted before everything that can be applied has been.

mod adapter_wait;
mod call_results;
mod context;
mod deletion_confirmation;
mod download_wait;
mod frontend_questions;
mod health_wait;
mod journal_keeper;
mod model_outcome;
mod model_report;
mod model_sync;
mod outgoing_graphs;
mod plan_models;
mod protocol;
mod record_writer;
mod sync_machine;
mod tasks;
#[cfg(test)]
mod tests;
mod waiting;

pub use protocol::{
    CallResult, ClusterCall, ExpectedRecord, JournalWriteResult, MachineEffect, MachineEvent, MachineInput,
    MachineSettings, RecordWriteResult, SyncApproval,
};
pub use sync_machine::SyncMachine;
