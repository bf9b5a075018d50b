//! As whom a source acts, and which namespaces it may touch: the one place where tenants are kept apart.
//!
//! A source is written by a tenant, and so is the repository that it leads to. What either of them names (a target
//! namespace, an environment's namespace, a namespace in an override) is judged here before anything is read or written.

/// As whom a source acts, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The service account of the source's own namespace that it acts as; as the controller itself where there is none.
    pub account: Option<String>,
    /// The only namespace that it may read and write. Where there is none, what its account may do decides.
    pub only: Option<String>,
}

/// What a controller lets tenants do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tenancy {
    /// The service account, of each source's own namespace, that sources act as that name none.
    pub default_account: Option<String>,
    /// Whether sources that name no account of their own may write into namespaces other than theirs.
    pub cross_namespace: bool,
}

/// A namespace that a source may not touch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is for namespace `{namespace}`, and this source may touch only its own, `{only}`")]
pub struct Foreign {
    /// The one that was asked for.
    pub namespace: String,
    /// The only one that it may touch.
    pub only: String,
}

impl Foreign {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        "set `spec.serviceAccountName` to an account that has rights there, or `spec.targetNamespace` to the source's own namespace"
    }
}

impl Tenancy {
    /// What a source of that namespace may do that names that account, or none.
    pub fn access(&self, namespace: &str, account: Option<&str>) -> Access {
        let free = account.is_some() || self.cross_namespace;
        Access {
            account: account.map(str::to_owned).or_else(|| self.default_account.clone()),
            only: (!free).then(|| namespace.to_owned()),
        }
    }
}

impl Access {
    /// Whether a namespace may be read and written.
    ///
    /// # Errors
    /// When it is not the only one that may.
    pub fn judge(&self, namespace: &str) -> Result<(), Foreign> {
        match &self.only {
            Some(only) if only != namespace => Err(Foreign { namespace: namespace.to_owned(), only: only.clone() }),
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_without_an_account_of_its_own_stays_in_its_namespace() {
        let strict = Tenancy { default_account: Some("stator".into()), cross_namespace: false };
        let confined = strict.access("a", None);
        assert_eq!(confined, Access { account: Some("stator".into()), only: Some("a".into()) });
        assert_eq!(confined.judge("a"), Ok(()));
        insta::assert_snapshot!(confined.judge("b").unwrap_err(), @"it is for namespace `b`, and this source may touch only its own, `a`");
        // With an account of its own, what that account may do decides; and it is always one of its own namespace.
        let own = strict.access("a", Some("deployer"));
        assert_eq!(own, Access { account: Some("deployer".into()), only: None });
        let open = Tenancy { default_account: None, cross_namespace: true };
        assert_eq!(open.access("a", None), Access::default());
    }
}
