//! Which policies bind a source, and what they say of it as a whole.

use super::compiled::CompiledFleetPolicy;
use super::document::FleetPolicy;
use super::rules;
use crate::plan::{RepositoryOrigin, SourceClaim};
use sha2::{Digest, Sha256};
use stator_core::finding::{Finding, Location, Rule};
use std::sync::Arc;

/// All policies of the administrators.
#[derive(Clone, Debug, Default)]
pub struct FleetPolicies {
    policies: Vec<Arc<CompiledFleetPolicy>>,
    unreadable: Vec<String>,
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
    /// Whether the signatures of its commits are verified, where that is known.
    pub verifies: Option<bool>,
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
    unreadable: Vec<String>,
    source: JudgedSource,
    destination: String,
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
    /// The policies that bind the source where it syncs to a namespace.
    pub fn bind(&self, destination: &str) -> BoundPolicies {
        self.policies.bind(&self.source, destination)
    }

    /// Whether all models of the source have to be looked at together, wherever it syncs to.
    pub fn has_quotas(&self) -> bool {
        self.policies.policies.iter().any(|policy| policy.document.spec.quotas.is_some())
    }

    /// A digest that is another one whenever something else may be judged.
    pub fn digest(&self) -> String {
        let mut digest = Sha256::new();
        for policy in &self.policies.policies {
            digest.update(serde_json::to_vec(&policy.document).unwrap_or_default());
        }
        digest.update(format!("{:?}\n{:?}", self.policies.unreadable, self.source));
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

    /// What keeps the whole source from being synced.
    pub fn refusals(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut refuse = |rule: Rule, message: String, help: &str| {
            findings.push(Finding::error(rule, Location::file("stator.yaml"), message, help));
        };
        for reason in &self.unreadable {
            let help = "Ask an administrator to correct the policies; until then, nothing is written.";
            refuse(rules::UNREADABLE, format!("the policies of the fleet cannot be read: {reason}"), help);
        }
        for policy in &self.policies {
            let name = &policy.name;
            if let Some(allowed) = policy.destinations.as_ref().filter(|allowed| !allowed.is_match(&self.destination)) {
                let message = format!(
                    "fleet policy `{name}`: objects would be written to namespace `{}`; allowed: {}",
                    self.destination,
                    allowed.describe()
                );
                let help = "Correct `namespace` of the environment in the root stator.yaml, or `targetNamespace` of the source.";
                refuse(rules::DESTINATION, message, help);
            }
            if let Some(allowed) = &policy.repositories {
                let address = self.source.repository.as_deref();
                if !address.is_some_and(|address| allowed.is_match(address)) {
                    let found = address.map_or("a local folder".to_owned(), |at| format!("`{at}`"));
                    let message =
                        format!("fleet policy `{name}`: the repository is {found}; allowed: {}", allowed.describe());
                    refuse(rules::REPOSITORY, message, "Follow a repository that the policy allows.");
                }
            }
            let required = policy.document.spec.signatures.is_some_and(|signatures| signatures.required);
            if required && self.source.verifies == Some(false) {
                let message =
                    format!("fleet policy `{name}`: the source does not verify signatures; they are required");
                refuse(rules::SIGNATURE, message, "Add `verify` to the source, with the keys that may sign.");
            }
        }
        findings
    }
}
