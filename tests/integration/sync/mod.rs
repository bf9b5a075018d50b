//! The whole way: files become intents, a plan, writes on the embedded cluster, and health under the simulated operator.

mod crash;
mod pipeline;
mod scenarios;
