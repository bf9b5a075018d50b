//! Field sets and server-side apply, as pure functions over JSON values.
//!
//! A Kubernetes API server remembers for every field of an object who set it (`metadata.managedFields`), and merges what
//! is applied by that record. This room does the same without a server: the embedded cluster stores objects through
//! [`apply`] and [`update`], and the plan reads owners and differences with [`managers`], [`owner_of`] and [`diff`].
//!
//! How fields merge follows from the kind's structural schema ([`schema_of`]): which lists are keyed, which containers
//! are atomic. [`validate`] judges an object as the schema and its rules do.

mod apply;
mod bundle;
mod compare;
mod defaults;
mod diff;
mod managers;
mod merge;
mod normal;
mod owned;
mod remove;
mod schema;
mod set;
mod settled;
mod typed;
mod typing;
mod validate;

pub use apply::{ApplyFault, ApplyInput, ApplyResult, apply, serve, update};
pub use bundle::{bundled, schema_of};
pub use defaults::{default, default_merged, tidy_metadata};
pub use diff::{Difference, diff};
pub use managers::{MalformedManagers, Manager, Operation, managers, owner_of};
pub use normal::{normalize, sort_keyed};
pub use remove::restrict;
pub use schema::Schema;
pub use set::{FieldSet, MalformedFields};
pub use settled::is_settled;
pub use typed::same;
pub use typing::{TypingFault, TypingFaultKind, typing_faults, undeclared};
pub use validate::{validate, validate_form};

#[cfg(test)]
mod tests;
