//! Talking to git hosts: over HTTP, and the parts that every way of talking shares.

mod error;
pub mod http;

pub use error::TransportError;
