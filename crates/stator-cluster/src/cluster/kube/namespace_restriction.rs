//! A connection that reaches one namespace only, whatever it is asked for.
//!
//! Whoever connects with rights in many namespaces, and works for somebody who has one, puts this around: it is looked at
//! before a request is made, so that nothing that a repository says leads out.

use crate::cluster::ClusterError;
use std::sync::Arc;

/// The only namespace that is reached; any, where there is none.
#[derive(Clone, Debug, Default)]
pub(super) struct NamespaceRestriction(Option<Arc<str>>);

impl NamespaceRestriction {
    pub(super) fn only(namespace: &str) -> Self {
        Self(Some(namespace.into()))
    }

    /// Whether an object of that namespace may be read or written.
    pub(super) fn check_namespace(&self, namespace: &str) -> Result<(), ClusterError> {
        match self.0.as_deref() {
            Some(only) if only != namespace => Err(ClusterError::Refused {
                message: format!("this source may not use namespace {namespace}, only {only}"),
                fix: "set `spec.serviceAccountName` of the source to an account that has rights there".to_owned(),
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// Where to list or watch: of all namespaces there is only the one.
    pub(super) fn resolve_namespace<'a>(&'a self, namespace: Option<&'a str>) -> Result<Option<&'a str>, ClusterError> {
        match namespace {
            Some(namespace) => self.check_namespace(namespace).map(|()| Some(namespace)),
            None => Ok(self.0.as_deref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out_of_the_namespace() {
        let one = NamespaceRestriction::only("a");
        assert_eq!(one.check_namespace("a"), Ok(()));
        insta::assert_snapshot!(one.check_namespace("b").unwrap_err(), @"this source may not use namespace b, only a");
        assert_eq!((one.resolve_namespace(None), one.resolve_namespace(Some("a"))), (Ok(Some("a")), Ok(Some("a"))));
        assert!(one.resolve_namespace(Some("b")).is_err());
        assert_eq!(
            (
                NamespaceRestriction::default().resolve_namespace(None),
                NamespaceRestriction::default().check_namespace("b")
            ),
            (Ok(None), Ok(()))
        );
    }
}
