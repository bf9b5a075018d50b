//! A lease, and since when it is as it is.

use super::{LeaseTerms, MAX_LEASE_DURATION};
use stator_core::object::parse_resource_version;
use std::time::Duration;

/// What a lease is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseRole {
    /// A replica that lives.
    Member,
    /// A shard, by number.
    Shard(u32),
}

/// A lease, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseState {
    /// Its name.
    pub name: String,
    /// What it is about.
    pub role: LeaseRole,
    /// What tells it from one of the same name that was deleted.
    pub uid: String,
    /// Its resource version.
    pub version: String,
    /// Who has it.
    pub holder: Option<String>,
    /// How long it lasts.
    pub lease_duration: Duration,
    /// Of how many shards its holder knows.
    pub shards: u32,
    /// How often it went from one to another.
    pub transitions: i32,
}

impl LeaseState {
    /// Whether this is a later state than the other. Resource versions are numbers that go up, for all kinds that the API
    /// server keeps itself; where they are not, nothing is later than anything.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        let versions = parse_resource_version(&self.version).zip(parse_resource_version(&other.version));
        versions.is_some_and(|(own, other)| own > other)
    }
}

/// A lease that was seen.
#[derive(Clone, Debug)]
pub(super) struct ObservedLease {
    pub lease: LeaseState,
    /// When it was first seen in this state.
    pub since: Duration,
}

impl ObservedLease {
    /// How long it counts without a change: at least as long as this replica's own would, so that of two with
    /// different settings the more patient one is right.
    pub fn valid_for(&self, terms: &LeaseTerms) -> Duration {
        self.lease.lease_duration.min(MAX_LEASE_DURATION).max(terms.lease_duration)
    }

    /// When it counts no more.
    pub fn expires_at(&self, terms: &LeaseTerms) -> Duration {
        self.since + self.valid_for(terms)
    }

    /// Whether somebody has it who did not renew it for as long as it counts.
    pub fn is_given_up(&self, now: Duration, terms: &LeaseTerms) -> bool {
        self.lease.holder.is_some() && now >= self.expires_at(terms)
    }

    /// Whether somebody has it.
    pub fn is_held(&self, now: Duration, terms: &LeaseTerms) -> bool {
        self.lease.holder.is_some() && now < self.expires_at(terms)
    }
}
