//! What every part of stator speaks in: Kubernetes objects as values, findings, masks of secrets, field sets, and what is
//! true of Dynamo. Pure: values in, values out.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests read data, and write it again when they are asked to")
)]

pub mod commit;
pub mod deployment_tools;
pub mod dynamo;
pub mod fields;
pub mod finding;
pub mod manual;
pub mod mask;
pub mod object;
pub mod outcome;
pub mod retry;
pub mod text;
