//! Field sets and server-side apply, as pure functions over JSON values.
//!
//! A Kubernetes API server remembers for every field of an object who set it (`metadata.managedFields`), and merges what
//! is applied by that record. This module does the same without a server: the embedded cluster stores objects through
//! [`apply`] and [`update`], and the plan reads owners and differences with [`managers`], [`owners_of`] and [`diff`].
//!
//! How fields merge follows from the kind's structural schema ([`bundled_schema`]): which lists are keyed, which containers
//! are atomic. [`validate`] judges an object as the schema and its rules do.

mod align;
mod apply;
mod bundled_schemas;
mod compare;
mod declared;
mod defaults;
mod diff;
mod field_set;
mod managers;
mod merge;
mod noop_apply;
mod normalization;
mod ownership;
mod packed;
mod remove;
mod schema;
mod server_normal_form;
mod transfer;
mod type_ref;
mod typecheck;
mod validate;

pub use align::{MayReorder, align_keyed_lists};
pub use apply::{ApplyError, ApplyInput, ApplyResult, apply, apply_as_api_server, update};
pub(crate) use bundled_schemas::bundled_document;
pub use bundled_schemas::{SchemaDocument, bundled_kinds, bundled_schema};
pub use declared::{DeclaredValue, visit_values};
pub use defaults::{apply_defaults, apply_defaults_after_merge, tidy_metadata};
pub use diff::{FieldDifference, diff};
pub use field_set::{FieldSet, FieldsV1Error};
pub use managers::{FieldManager, ManagedFieldsError, ManagerOperation, applied_fields, managers, owners_of};
pub use noop_apply::is_noop_apply;
pub use normalization::{normalize, sort_keyed_lists};
pub use packed::{PackedObject, fields_v1};
pub use remove::restrict_to;
pub use schema::StructuralSchema;
pub use server_normal_form::take_server_form;
pub use transfer::{LAST_APPLIED_ANNOTATION, OwnershipTransfer, TransferError, owns_only_replicas};
pub use type_ref::values_equal;
pub use typecheck::{ExpectedType, TypingError, TypingErrorKind, typing_errors, undeclared_fields};
pub use validate::{SchemaViolation, ViolationKind, validate, violations, violations_except};

#[cfg(test)]
mod tests;
