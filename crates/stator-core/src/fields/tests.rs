//! What this module promises, told by scenario, by law, and against what the reference implementations did.

mod differential;
mod laws;
mod oracle;
mod small;
mod stories;
mod validation;
