//! Where live objects are (`cluster`) and how a plan is carried out there (`sync`).

pub mod cluster;
mod random;
pub mod sync;
