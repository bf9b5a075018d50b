//! Every integration test in one binary: one link, shared helpers.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on must stop, in its helpers too"
)]

#[path = "../support/browser.rs"]
mod browser;
mod canaries;
mod chaos;
mod cli;
mod cluster;
mod code_size;
mod compatibility;
mod controller;
mod docs;
mod english;
mod examples;
mod fidelity;
mod file_circles;
mod forge;
#[path = "../support/forge/mod.rs"]
mod forge_fake;
mod formats;
mod git;
#[path = "../support/git_server/mod.rs"]
mod git_server;
#[path = "../support/gitea/mod.rs"]
mod gitea;
mod install;
mod integrations;
mod layering;
mod links;
mod mirror;
#[path = "../support/node/mod.rs"]
mod node;
mod node_itself;
mod performance;
mod reference;
mod replicas;
#[path = "../support/schedules.rs"]
mod schedule_seeds;
mod sync;
#[path = "../support/testbed/mod.rs"]
mod testbed;
mod testbed_itself;
mod threats;
mod web;
mod workbench;
