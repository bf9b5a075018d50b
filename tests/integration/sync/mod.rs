//! The whole way: files become intents, a plan, writes on the embedded cluster, and health under the simulated operator.

mod adapters;
pub mod bench;
mod crash;
mod faults;
mod faulty;
mod folders;
mod held;
mod journals;
mod killed;
pub mod pipeline;
mod protected;
mod scenarios;
mod schedules;
mod steady;
mod stuck;
mod whole;
mod workloads;
