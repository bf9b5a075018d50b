//! Where an object's file lies, and which names may become file names.

use crate::cluster::ClusterError;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::object::{FieldPath, ObjectRef};
use std::path::{Path, PathBuf};

/// The kind of a reference, when this cluster serves it at that version.
pub(super) fn served_kind(object: &ObjectRef) -> Result<&'static ObjectKind, ClusterError> {
    kinds::by_name(&object.kind)
        .filter(|kind| kind.api_version() == object.api_version)
        .ok_or_else(|| ClusterError::UnknownKind { api_version: object.api_version.clone(), kind: object.kind.clone() })
}

/// The file of an object, below the cluster's folder: `<namespace>/<plural>/<name>.yaml`.
///
/// The names are checked first, as an API server does: what passes holds no separator, no leading dot and no `..`.
pub(super) fn path_of(object: &ObjectRef) -> Result<PathBuf, ClusterError> {
    let kind = served_kind(object)?;
    let faults = [
        ("namespace", &object.namespace, is_label(&object.namespace), "a lowercase RFC 1123 label"),
        ("name", &object.name, is_subdomain(&object.name), "a lowercase RFC 1123 subdomain"),
    ];
    for (field, value, valid, want) in faults {
        if !valid {
            return Err(ClusterError::Invalid {
                object: object.clone(),
                causes: vec![crate::cluster::InvalidField {
                    path: FieldPath::from_fields(["metadata", field]),
                    message: format!("Invalid value: {value:?}: must be {want}"),
                }],
            });
        }
    }
    Ok(folder_of(kind, &object.namespace).join(format!("{}.yaml", object.name)))
}

/// The folder of a kind in a namespace, below the cluster's folder.
pub(super) fn folder_of(kind: &ObjectKind, namespace: &str) -> PathBuf {
    Path::new(namespace).join(kind.plural)
}

/// The object that a file below the cluster's folder must hold, `None` for files that are none of ours.
pub(super) fn reference_of(path: &Path) -> Option<ObjectRef> {
    let mut parts = path.iter().map(|part| part.to_str());
    let (Some(Some(namespace)), Some(Some(plural)), Some(Some(file)), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let kind = kinds::ALL.iter().find(|kind| kind.plural == plural)?;
    let name = file.strip_suffix(".yaml")?;
    (is_label(namespace) && is_subdomain(name)).then(|| kind.reference(namespace, name))
}

/// RFC 1123 label: what a namespace is called.
pub(super) fn is_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// RFC 1123 subdomain: what an object is called.
fn is_subdomain(text: &str) -> bool {
    // 253 is the API's limit; with `.yaml` it would pass the 255 bytes of a file name.
    (1..=250).contains(&text.len())
        && text.split('.').all(|part| {
            !part.is_empty()
                && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                && !part.starts_with('-')
                && !part.ends_with('-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(namespace: &str, name: &str) -> ObjectRef {
        ObjectRef {
            api_version: "nvidia.com/v1beta1".into(),
            kind: "DynamoGraphDeployment".into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    #[test]
    fn a_path_leads_back_to_its_object() {
        let object = graph("prod", "llama-3.1");
        let path = path_of(&object).unwrap();
        assert_eq!(path, Path::new("prod/dynamographdeployments/llama-3.1.yaml"));
        assert_eq!(reference_of(&path), Some(object));
    }

    #[test]
    fn names_that_would_leave_the_folder_are_refused() {
        for (namespace, name) in
            [("..", "x"), ("prod", "../x"), ("prod", ".."), ("prod", ".x"), ("a/b", "x"), ("", "x")]
        {
            assert!(
                matches!(path_of(&graph(namespace, name)), Err(ClusterError::Invalid { .. })),
                "{namespace}/{name}"
            );
        }
    }

    #[test]
    fn a_version_that_is_not_served_is_an_unknown_kind() {
        let old = ObjectRef { api_version: "nvidia.com/v1alpha1".into(), ..graph("prod", "x") };
        assert!(matches!(path_of(&old), Err(ClusterError::UnknownKind { .. })));
    }
}
