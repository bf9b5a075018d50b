//! The whole way: files become intents, a plan, writes on the embedded cluster, and health under the simulated operator.

mod bench;
mod crash;
mod folders;
mod pipeline;
mod scenarios;
