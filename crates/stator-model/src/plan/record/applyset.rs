//! ApplySet: labels and annotations by which any tool sees which objects belong together, and whose they are.
//!
//! The specification is KEP 3659; the names are those that kubectl ships (`applyset.kubernetes.io/…`), which are not the
//! ones of the KEP's text. A record is the parent, the model's objects are the members.

use super::Record;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use stator_core::dynamo::kinds::{FIELD_MANAGER, RECORD};
use std::collections::BTreeSet;

/// The label of a member: the id of its set.
pub const PART_OF: &str = "applyset.kubernetes.io/part-of";
/// The label of a parent: its own id.
pub const ID: &str = "applyset.kubernetes.io/id";
/// The label of a definition whose objects may be parents.
pub const IS_PARENT_TYPE: &str = "applyset.kubernetes.io/is-parent-type";
/// The annotation of a parent: which tool writes the set, `name/version`. Others keep their hands off it.
pub const TOOLING: &str = "applyset.kubernetes.io/tooling";
/// The annotation of a parent: the kinds among its members, `Kind.group`, sorted. Never fewer than there are.
pub const CONTAINS_GROUP_KINDS: &str = "applyset.kubernetes.io/contains-group-kinds";
/// The annotation of a parent: namespaces of members outside its own, sorted.
pub const ADDITIONAL_NAMESPACES: &str = "applyset.kubernetes.io/additional-namespaces";

/// The id of the set whose parent is that model's record.
pub fn id_of(model: &str, namespace: &str) -> String {
    hash_id(model, namespace, RECORD.kind, RECORD.group)
}

/// The id of a parent, as kubectl computes it: from nothing but its name, so that a copy under another name is no parent.
fn hash_id(name: &str, namespace: &str, kind: &str, group: &str) -> String {
    let hash = Sha256::digest(format!("{name}.{namespace}.{kind}.{group}").as_bytes());
    format!("applyset-{}-v1", URL_SAFE_NO_PAD.encode(hash))
}

/// What stator writes as its tool: `stator/1.2.3`.
pub(super) fn tooling() -> String {
    format!("{FIELD_MANAGER}/{}", env!("CARGO_PKG_VERSION"))
}

/// True when a tool's annotation names stator, at whatever version.
pub(super) fn is_own(tooling: &str) -> bool {
    tooling.rsplit_once('/').map_or(tooling, |(name, _)| name) == FIELD_MANAGER
}

/// The kinds of a record's objects, as the annotation has them.
pub(super) fn group_kinds(record: &Record) -> String {
    let kinds: BTreeSet<String> = record
        .inventory
        .iter()
        .map(|entry| match entry.object.group() {
            "" => entry.object.kind.clone(),
            group => format!("{}.{group}", entry.object.kind),
        })
        .collect();
    kinds.into_iter().collect::<Vec<_>>().join(",")
}

/// The namespaces of a record's objects besides its own, `None` when there are none.
pub(super) fn namespaces(record: &Record) -> Option<String> {
    let namespaces: BTreeSet<&str> = record.inventory.iter().map(|entry| entry.object.namespace.as_str()).collect();
    let others: Vec<&str> = namespaces.into_iter().filter(|namespace| *namespace != record.namespace).collect();
    (!others.is_empty()).then(|| others.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first is the id in kubectl's own test of `apply --applyset`, for a Secret `my-set` in namespace `test`.
    #[test]
    fn ids_are_kubectls() {
        assert_eq!(hash_id("my-set", "test", "Secret", ""), "applyset-0eFHV8ySqp7XoShsGvyWFQD3s96yqwHmzc4e0HR1dsY-v1");
        assert_eq!(id_of("llama", "prod"), "applyset-lzoS4ZzJabuf8heYbNtNhBn6fKJGsoW5XC-v_oNNnxs-v1");
        assert_ne!(id_of("llama", "prod"), id_of("llama", "staging"));
    }

    #[test]
    fn a_tool_is_known_by_its_name_whatever_its_version() {
        assert!(is_own(&tooling()) && is_own("stator/v9") && is_own("stator"));
        assert!(!is_own("kubectl/v1.36.3") && !is_own("stator/fork/1.0") && !is_own(""));
    }
}
