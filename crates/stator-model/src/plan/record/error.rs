//! Why an object is no readable record.

use super::applyset;
use stator_core::object::ObjectRef;

/// Why an object is no readable record. Its model is then not pruned; unless another tool holds the record, the next sync
/// of the model writes it anew.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The object is of another kind.
    #[error("{0} is not a Model of stator.dev: leave it out")]
    OtherKind(Box<ObjectRef>),
    /// Another tool has it as the parent of its own ApplySet.
    #[error(
        "{object} is the parent of an ApplySet that `{tooling}` writes: two tools would prune each other's objects; \
         delete that ApplySet with its own tool, or give the model another name"
    )]
    OtherTool {
        /// Which record.
        object: Box<ObjectRef>,
        /// What it says.
        tooling: String,
    },
    /// Its ApplySet id belongs to another name: it was copied, and what it lists is not its own.
    #[error(
        "{object} carries the label `{}: {id}`, which is that of another object: it is a copy and is ignored; delete \
         it",
        applyset::ID
    )]
    Copied {
        /// Which record.
        object: Box<ObjectRef>,
        /// The label's value.
        id: String,
    },
    /// It names an owner in a way that only another version of stator understands.
    #[error(
        "{object} belongs to an owner that this version of stator cannot read (`{owner}`): use the version that wrote it, \
         or delete the record if that owner is gone"
    )]
    UnknownOwner {
        /// Which record.
        object: Box<ObjectRef>,
        /// What it says.
        owner: String,
    },
    /// A part of it cannot be read.
    #[error(
        "{object}: `{part}` cannot be read: {message}; correct it, or delete the record if the model is still in git"
    )]
    Unreadable {
        /// Which record.
        object: Box<ObjectRef>,
        /// The label or annotation, `spec`, `status`, or one entry of the inventory.
        part: String,
        /// What is wrong.
        message: String,
    },
}

impl RecordError {
    /// True when the record is another's: then it is not written over either.
    pub fn is_foreign(&self) -> bool {
        match self {
            Self::OtherTool { .. } | Self::UnknownOwner { .. } => true,
            Self::OtherKind(_) | Self::Copied { .. } | Self::Unreadable { .. } => false,
        }
    }
}
