//! What is known of a source that is held to policies.

use crate::plan::{RepositoryOrigin, SourceClaim};
use jiff::Timestamp;

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
