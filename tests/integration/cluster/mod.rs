//! What every cluster must do. The scenarios speak to the trait alone, so that a real API server can run them too;
//! `embedded` holds what is particular to a folder of files.

mod conformance;
mod embedded;
mod operator;
mod scenario;
