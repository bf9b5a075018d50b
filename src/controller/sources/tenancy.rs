//! As whom a source acts, and which namespaces it may touch: the one place where tenants are kept apart.
//!
//! A source is written by a tenant, and so is the repository that it leads to. What either of them names (a target
//! namespace, an environment's namespace, a namespace in an override) is judged here before anything is read or written.

use stator_git::source::addresses::AddressPolicy;

/// As whom a source acts, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantAccess {
    /// The service account of the source's own namespace that it acts as; as the controller itself where there is none.
    pub service_account: Option<String>,
    /// The only namespace that it may read and write. Where there is none, what its account may do decides.
    pub only_namespace: Option<String>,
    /// Which addresses it may have the controller connect to.
    pub addresses: AddressPolicy,
}

/// What a controller lets tenants do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenancyPolicy {
    /// Service account, in each source's own namespace, for sources that name none.
    pub default_account: Option<String>,
    /// Whether sources that name no account of their own may write into namespaces other than theirs.
    pub cross_namespace: bool,
    /// Whether sources may ask for connections that are not encrypted, with `allowInsecure`.
    pub insecure: bool,
    /// Whether sources may name hosts on the controller's own machine and link.
    pub local_addresses: bool,
}

/// A namespace that a source may not touch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is for namespace `{namespace}`, but this source may use only its own, `{only_namespace}`")]
pub struct ForeignNamespaceError {
    /// The one that was asked for.
    pub namespace: String,
    /// The only one that it may touch.
    pub only_namespace: String,
}

impl ForeignNamespaceError {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        "set `spec.serviceAccountName` to an account that has rights there, or `spec.targetNamespace` to the source's own namespace"
    }
}

impl TenancyPolicy {
    /// What a source of that namespace may do that names that account, or none.
    pub fn access_for(&self, namespace: &str, account: Option<&str>) -> TenantAccess {
        let free = account.is_some() || self.cross_namespace;
        TenantAccess {
            service_account: account.map(str::to_owned).or_else(|| self.default_account.clone()),
            only_namespace: (!free).then(|| namespace.to_owned()),
            addresses: if self.local_addresses { AddressPolicy::Any } else { AddressPolicy::NoLocal },
        }
    }
}

impl TenantAccess {
    /// Whether a namespace may be read and written.
    ///
    /// # Errors
    /// When it is not the only one that may.
    pub fn check_namespace(&self, namespace: &str) -> Result<(), ForeignNamespaceError> {
        match &self.only_namespace {
            Some(only) if only != namespace => {
                Err(ForeignNamespaceError { namespace: namespace.to_owned(), only_namespace: only.clone() })
            }
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_without_an_account_of_its_own_stays_in_its_namespace() {
        let strict = TenancyPolicy { default_account: Some("stator".into()), ..TenancyPolicy::default() };
        let confined = strict.access_for("a", None);
        let addresses = AddressPolicy::NoLocal;
        let expected =
            TenantAccess { service_account: Some("stator".into()), only_namespace: Some("a".into()), addresses };
        assert_eq!(confined, expected);
        assert_eq!(confined.check_namespace("a"), Ok(()));
        insta::assert_snapshot!(confined.check_namespace("b").unwrap_err(), @"it is for namespace `b`, but this source may use only its own, `a`");
        // With an account of its own, what that account may do decides; and it is always one of its own namespace.
        let own = strict.access_for("a", Some("deployer"));
        assert_eq!(own, TenantAccess { service_account: Some("deployer".into()), only_namespace: None, addresses });
        let open =
            TenancyPolicy { default_account: None, cross_namespace: true, insecure: true, local_addresses: true };
        assert_eq!(open.access_for("a", None), TenantAccess::default());
    }
}
