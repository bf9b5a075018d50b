//! Why a cluster said no, and what to do about it.

use stator_core::dynamo::kinds::RECORD;
use stator_core::object::{FieldPath, ObjectRef};
use std::borrow::Cow;
use std::time::Duration;

/// Why a cluster said no. What to do about it hangs from the variant: [`ClusterError::help`] says it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClusterError {
    /// Another manager owns fields that the apply would change (409).
    #[error("{object}: {}", conflict_text(.conflicts))]
    Conflict {
        /// Which object.
        object: ObjectRef,
        /// Manager and path of each field in dispute.
        conflicts: Vec<FieldConflict>,
    },
    /// The object is not the one that was meant, or was written since (409).
    #[error("{object}: {message}")]
    Precondition {
        /// Which object.
        object: ObjectRef,
        /// Which precondition failed, and how.
        message: String,
    },
    /// The schema or a validation rule refuses the object (422, or 400/500 for fields that are not declared).
    #[error("{object} is invalid: {}", .causes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid {
        /// Which object.
        object: ObjectRef,
        /// Each fault.
        causes: Vec<InvalidField>,
    },
    /// Admission refuses it (403).
    #[error("{object}: {message}")]
    Denied {
        /// Which object.
        object: ObjectRef,
        /// The reason given.
        message: String,
    },
    /// Whoever asks may not do this (403): the message names user, verb, resource and namespace.
    #[error("{message}")]
    Forbidden {
        /// In the API server's words.
        message: String,
        /// The rule that would allow it.
        fix: String,
    },
    /// The namespace is missing, or is being deleted: nothing can be created in it.
    #[error("{}", if *.terminating {
        format!("namespace {namespace} is being deleted, and nothing new can be created in it")
    } else {
        format!("namespace {namespace} does not exist")
    })]
    NamespaceUnavailable {
        /// Which.
        namespace: String,
        /// True when it is there, but on its way out.
        terminating: bool,
    },
    /// The kind is not served there (404 for the resource).
    #[error("the cluster does not serve {api_version} {kind}")]
    UnknownKind {
        /// Its group and version; another version of it may be served.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// What the cluster holds cannot be read: a damaged file of the embedded cluster, an answer that is no object.
    #[error("{path}: {message}")]
    Damaged {
        /// The file, or the request that was answered.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// The store cannot be read or written: permissions, a full disk.
    #[error("{message}")]
    Storage {
        /// What failed, with the path.
        message: String,
    },
    /// The way to the cluster is closed for good: certificates, credentials, a proxy, a plugin, or a request that the
    /// server does not take. Trying again changes nothing.
    #[error("{message}")]
    Refused {
        /// What happened.
        message: String,
        /// What to do.
        fix: String,
    },
    /// Whoever asks may not write any more: he has lost the lease that his work hangs from.
    #[error("this replica no longer holds the lease for this work, and writes nothing")]
    Fenced,
    /// The server cannot be reached: it is down, or there is no way there. It may be back in a moment.
    #[error("{message}")]
    Unreachable {
        /// What happened.
        message: String,
    },
    /// It may work in a moment: timeouts, 429, 5xx, a webhook that does not answer.
    #[error("{message}")]
    Transient {
        /// What happened.
        message: String,
        /// How long the server asks to be left alone.
        retry_after: Option<Duration>,
    },
}

impl ClusterError {
    /// Something that may work in a moment, without word from the server on when.
    pub fn transient(message: impl Into<String>) -> Self {
        Self::Transient { message: message.into(), retry_after: None }
    }

    /// Whether the same call may work in a moment, and how long the server asks to be left alone before.
    pub fn retry_delay(&self) -> Option<Duration> {
        match self {
            Self::Transient { retry_after, .. } => Some(retry_after.unwrap_or_default()),
            Self::Unreachable { .. } => Some(Duration::ZERO),
            Self::Conflict { .. }
            | Self::Precondition { .. }
            | Self::Invalid { .. }
            | Self::Denied { .. }
            | Self::Forbidden { .. }
            | Self::NamespaceUnavailable { .. }
            | Self::UnknownKind { .. }
            | Self::Damaged { .. }
            | Self::Storage { .. }
            | Self::Refused { .. }
            | Self::Fenced => None,
        }
    }

    /// What a user can do about it, as the end of a sentence.
    pub fn help(&self) -> Cow<'_, str> {
        Cow::Borrowed(match self {
            Self::Conflict { .. } => {
                "name the manager in `spec.takeOver` to take its fields back, or remove them from the intent"
            }
            Self::Precondition { .. } => "the object has changed: run the command again",
            Self::Invalid { .. } => "the cluster's schema refuses the object: `stator render` shows it in full",
            Self::Denied { .. } => "change the intent so that admission accepts the object: `stator render` shows it",
            Self::Forbidden { fix, .. } | Self::Refused { fix, .. } => fix,
            Self::NamespaceUnavailable { terminating: true, .. } => {
                "wait until it is gone and create it again, or use another one"
            }
            Self::NamespaceUnavailable { terminating: false, namespace } => {
                return Cow::Owned(format!(
                    "create it with `kubectl create namespace {namespace}`, or use another one"
                ));
            }
            Self::UnknownKind { api_version, .. } if api_version.split('/').next() == Some(RECORD.group) => {
                "install stator's definitions: `kubectl apply --server-side -f crds/stator.dev_models.yaml -f crds/stator.dev_syncjournals.yaml`"
            }
            Self::UnknownKind { .. } => "install Dynamo's custom resource definitions first",
            Self::Damaged { .. } => "fix the file, or remove it: a missing file counts as a deleted object",
            Self::Storage { .. } => "check the permissions and the free space of that folder",
            Self::Fenced => "another replica takes over and continues with the newest commit",
            Self::Unreachable { .. } => {
                "check that the cluster is running and can be reached: VPN, proxy, the kubeconfig's server"
            }
            Self::Transient { .. } => "run the command again in a moment",
        })
    }
}

/// One field that an apply would change and another manager owns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldConflict {
    /// The manager that owns it.
    pub manager: String,
    /// The field.
    pub path: FieldPath,
}

/// One field that the schema refuses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InvalidField {
    /// The field; the root when the fault is the object's as a whole.
    pub path: FieldPath,
    /// What is wrong, in the API server's words where it has some.
    pub message: String,
}

impl std::fmt::Display for InvalidField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.path.0.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}

fn conflict_text(conflicts: &[FieldConflict]) -> String {
    let list: Vec<String> = conflicts.iter().map(|c| format!("{} is owned by {}", c.path, c.manager)).collect();
    list.join("; ")
}
