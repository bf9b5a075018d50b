//! Everything that a source is and was called.

use crate::plan::{PlanInput, Record, RepositoryOrigin, SourceClaim};

/// Where the content of a source comes from, first, and all that it came from before.
pub(super) fn origins(input: &PlanInput) -> Vec<RepositoryOrigin> {
    known_origins(input.owner.as_ref(), &input.records)
}

/// What it came from before: its folder before it was in a repository, the repository before it had an address, and what its
/// records say that they were taken over from.
pub(super) fn former_origins(input: &PlanInput) -> impl Iterator<Item = &RepositoryOrigin> {
    former(input.owner.as_ref(), &input.records)
}

/// Where the content of a source comes from, first, and all that it came from before, as its records in a namespace say.
pub fn known_origins(owner: Option<&SourceClaim>, records: &[Record]) -> Vec<RepositoryOrigin> {
    let own = owner.map(|claim| claim.identity.origin()).into_iter();
    let mut origins: Vec<RepositoryOrigin> = Vec::new();
    for origin in own.chain(former(owner, records)) {
        if !origins.contains(origin) {
            origins.push(origin.clone());
        }
    }
    origins
}

fn former<'a>(owner: Option<&'a SourceClaim>, records: &'a [Record]) -> impl Iterator<Item = &'a RepositoryOrigin> {
    let is_own = move |record: &&Record| {
        let recorded = record.owner.as_ref().map(crate::plan::SourceIdentity::origin);
        recorded.is_some() && recorded == owner.map(|claim| claim.identity.origin())
    };
    let recorded = records.iter().filter(is_own).filter_map(|record| record.former_origin.as_ref());
    owner.into_iter().flat_map(|claim| &claim.former_origins).chain(recorded)
}
