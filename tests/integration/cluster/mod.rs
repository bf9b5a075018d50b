//! What every cluster must do. The scenarios of `conformance` and `whole` run on every implementation of a cluster; `embedded` and
//! `operator` hold what is particular to a folder of files.

mod conformance;
pub mod converting;
mod differential;
mod embedded;
mod frontend;
mod health;
mod live;
mod newest;
mod operator;
pub mod place;
mod program;
mod recipes;
mod record;
mod rights;
pub mod scenario;
mod sources;
mod upgrade;
mod ways;
mod whole;
