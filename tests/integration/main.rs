//! Every integration test in one binary: one link, shared helpers.

mod cli;
mod cluster;
mod examples;
#[expect(dead_code, reason = "a test helper: not every scenario needs every part of it")]
mod workbench;
