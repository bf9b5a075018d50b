//! Which policies bind a source, and what they say of it as a whole.
//! What is known of that source is here too.

use super::compiled::CompiledFleetPolicy;
use super::document::FleetPolicy;
use crate::intent::TreeSize;
use crate::plan::{RepositoryOrigin, SourceClaim};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::Arc;

/// All policies of the administrators.
#[derive(Clone, Debug, Default)]
pub struct FleetPolicies {
    policies: Vec<Arc<CompiledFleetPolicy>>,
    unreadable: Vec<String>,
}

/// The policies of the administrators, and the source that is held to them, wherever it syncs to.
#[derive(Clone, Debug, Default)]
pub struct SourcePolicies {
    /// All policies.
    pub policies: FleetPolicies,
    /// The source.
    pub source: JudgedSource,
}

/// The policies that bind a source, and what they are held against.
#[derive(Clone, Debug, Default)]
pub struct BoundPolicies {
    pub(super) policies: Vec<Arc<CompiledFleetPolicy>>,
    pub(super) source: JudgedSource,
    pub(super) destination: String,
    unreadable: Vec<String>,
}

impl FleetPolicies {
    /// Of policies, and of what is known of those that could not be read.
    pub fn new(policies: impl IntoIterator<Item = FleetPolicy>, unreadable: Vec<String>) -> Self {
        let policies = policies.into_iter().map(|policy| Arc::new(CompiledFleetPolicy::new(policy))).collect();
        Self { policies, unreadable }
    }

    /// These and others.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.policies.extend(others.policies);
        self.unreadable.extend(others.unreadable);
        self
    }

    /// Whether there is neither a policy nor one that could not be read.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.unreadable.is_empty()
    }

    /// Those that bind a source which syncs to a namespace.
    pub fn bind(&self, source: &JudgedSource, destination: &str) -> BoundPolicies {
        let namespace = source.namespace.as_deref().unwrap_or(destination);
        let binds = |policy: &&Arc<CompiledFleetPolicy>| policy.binds(namespace, source.name.as_deref(), destination);
        BoundPolicies {
            policies: self.policies.iter().filter(binds).cloned().collect(),
            unreadable: self.unreadable.clone(),
            source: source.clone(),
            destination: destination.to_owned(),
        }
    }
}

impl FleetPolicies {
    /// Why policies cannot be read, of those that cannot.
    pub fn unreadable(&self) -> impl Iterator<Item = &str> {
        self.unreadable.iter().map(String::as_str)
    }

    /// Whether any policy has windows, whomever it binds.
    pub fn has_windows(&self) -> bool {
        self.policies.iter().any(|policy| !policy.document.spec.windows.is_empty())
    }

    /// The keys of each policy that requires signatures, whomever it binds.
    pub fn signing_keys(&self) -> BTreeSet<&[String]> {
        let signatures = self.policies.iter().filter_map(|policy| policy.document.spec.signatures.as_ref());
        let required = signatures.filter(|signatures| signatures.required && !signatures.keys.is_empty());
        required.map(|signatures| signatures.keys.as_slice()).collect()
    }

    /// All of them, whomever they bind.
    pub fn all(&self) -> BoundPolicies {
        BoundPolicies {
            policies: self.policies.clone(),
            unreadable: self.unreadable.clone(),
            ..BoundPolicies::default()
        }
    }
}

impl SourcePolicies {
    /// The same for a commit of a size.
    #[must_use]
    pub fn of_size(&self, size: TreeSize) -> Self {
        let source = JudgedSource { size: Some(size), ..self.source.clone() };
        Self { policies: self.policies.clone(), source }
    }

    /// The policies that bind the source where it syncs to a namespace.
    pub fn bind(&self, destination: &str) -> BoundPolicies {
        self.policies.bind(&self.source, destination)
    }

    /// Whether all models of the source have to be looked at together, wherever it syncs to.
    pub fn has_quotas(&self) -> bool {
        let quotas = self.policies.policies.iter().filter_map(|policy| policy.document.spec.quotas.as_ref());
        let mut of_models = quotas.map(|quotas| (&quotas.models, &quotas.gpus, &quotas.claims_size));
        of_models.any(|(models, gpus, claims)| models.is_some() || gpus.is_some() || claims.is_some())
    }

    /// A digest that is another one whenever something else may be judged.
    pub fn digest(&self) -> String {
        let mut digest = Sha256::new();
        for policy in &self.policies.policies {
            digest.update(serde_json::to_vec(&policy.document).unwrap_or_default());
        }
        // A commit is another size each time: what counts is whether that is too much.
        let of_size = |policy: &Arc<CompiledFleetPolicy>| self.source.size.map(|size| policy.exceeded_sizes(size));
        let too_large: Vec<_> = self.policies.policies.iter().map(of_size).collect();
        let source = JudgedSource { size: None, ..self.source.clone() };
        digest.update(format!("{:?}\n{source:?}\n{too_large:?}", self.policies.unreadable));
        hex::encode(digest.finalize())
    }
}

impl BoundPolicies {
    /// Whether nothing is asked of the source.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.unreadable.is_empty()
    }

    /// Why policies cannot be read, of those that cannot.
    pub fn unreadable(&self) -> impl Iterator<Item = &str> {
        self.unreadable.iter().map(String::as_str)
    }

    /// The policies, as they were written.
    pub fn documents(&self) -> impl Iterator<Item = &FleetPolicy> {
        self.policies.iter().map(|policy| &policy.document)
    }
}

/// What is known of a source that is held to policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgedSource {
    /// Its namespace. A repository that no source is known of is taken for one in the namespace that it is synced to.
    pub namespace: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Where its repository is, as [`crate::plan::RepositoryAddress`] writes it; `None` for a folder of this machine.
    pub repository: Option<String>,
    /// What the keys of policies say of its commit; `None` where nobody looked.
    pub signatures: Option<Vec<KeyVerdict>>,
    /// How much there is to read of its commit; `None` where nobody looked.
    pub size: Option<TreeSize>,
    /// The sources of its namespace that come before it; `None` where that is not known.
    pub earlier: Option<Vec<EarlierSource>>,
    /// When it is to be written, where nobody waits for the windows of policies.
    pub written_at: Option<Timestamp>,
}

/// What the keys of a policy say of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyVerdict {
    /// The keys, as the policy has them.
    pub keys: Vec<String>,
    /// Why the commit is not signed by any of them; `None` where it is.
    pub refusal: Option<String>,
}

/// A source of the same namespace that is older.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierSource {
    /// Its name.
    pub name: String,
    /// The namespace that it syncs to, where it says so.
    pub destination: Option<String>,
}

impl JudgedSource {
    /// What is known of whoever owns records, when it is no object of a cluster: where its repository is.
    pub fn of_claim(claim: &SourceClaim) -> Self {
        let repository = match claim.identity.origin() {
            RepositoryOrigin::Address { address, .. } => Some(address.to_string()),
            RepositoryOrigin::RootCommit { .. } | RepositoryOrigin::Path { .. } => None,
        };
        Self { repository, ..Self::default() }
    }
}
