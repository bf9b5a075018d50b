//! A connection that reaches one namespace only, whatever it is asked for.
//!
//! Whoever connects with rights in many namespaces, and works for somebody who has one, puts this around: it is looked at
//! before a request is made, so that nothing that a repository says leads out.

use crate::cluster::ClusterError;
use std::sync::Arc;

/// The only namespace that is reached; any, where there is none.
#[derive(Clone, Debug, Default)]
pub(super) struct Confined(Option<Arc<str>>);

impl Confined {
    pub(super) fn to(namespace: &str) -> Self {
        Self(Some(namespace.into()))
    }

    /// Whether an object of that namespace may be read or written.
    pub(super) fn reach(&self, namespace: &str) -> Result<(), ClusterError> {
        match self.0.as_deref() {
            Some(only) if only != namespace => Err(ClusterError::Refused {
                message: format!("namespace {namespace} is not this source's, which may touch only {only}"),
                fix: "set `spec.serviceAccountName` of the source to an account that has rights there".to_owned(),
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// Where to list or watch: of all namespaces there is only the one.
    pub(super) fn within<'a>(&'a self, namespace: Option<&'a str>) -> Result<Option<&'a str>, ClusterError> {
        match namespace {
            Some(namespace) => self.reach(namespace).map(|()| Some(namespace)),
            None => Ok(self.0.as_deref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out_of_the_namespace() {
        let one = Confined::to("a");
        assert_eq!(one.reach("a"), Ok(()));
        insta::assert_snapshot!(one.reach("b").unwrap_err(), @"namespace b is not this source's, which may touch only a");
        assert_eq!((one.within(None), one.within(Some("a"))), (Ok(Some("a")), Ok(Some("a"))));
        assert!(one.within(Some("b")).is_err());
        assert_eq!((Confined::default().within(None), Confined::default().reach("b")), (Ok(None), Ok(())));
    }
}
