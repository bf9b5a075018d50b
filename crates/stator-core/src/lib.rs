//! What every part of stator speaks in: Kubernetes objects as values, findings, masks of secrets, field sets, and what is
//! true of Dynamo. Pure: values in, values out.

pub mod dynamo;
pub mod fields;
pub mod finding;
pub mod mask;
pub mod object;
