//! From a commit's files to a plan: models are read (`intent`), rendered (`render`), compared (`plan`), shown (`present`),
//! or made of existing manifests (`import`). Pure: values in, values out.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read data, and write it again when they are asked to")
)]

pub mod catalogue;
pub mod engine_tables;
pub mod fleet_policy;
pub mod import;
pub mod intent;
pub mod plan;
pub mod present;
pub mod render;
pub mod upgrade;
pub mod windows;
