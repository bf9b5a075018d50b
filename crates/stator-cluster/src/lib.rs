//! Where live objects are (`cluster`) and how a plan is carried out there (`sync`).

pub mod cluster;
pub mod fleet_policies;
pub mod random;
pub mod sync;
