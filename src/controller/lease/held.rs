//! What this replica holds.

use super::share::shard_of;
use crate::controller::sources::SourceKey;
use stator_cluster::cluster::kube::Fence;
use std::collections::BTreeMap;

/// The shards whose sources this replica works on, each with the fence that its writes ask.
#[derive(Clone, Debug)]
pub struct Held(Option<Shards>);

#[derive(Clone, Debug)]
struct Shards {
    turn: u64,
    of: u32,
    fences: BTreeMap<u32, Fence>,
}

impl Held {
    /// Everything, and no lease: this works alone.
    pub fn everything() -> Self {
        Self(None)
    }

    /// Some of so many shards, as they are held at a turn: the next change is of the next turn.
    pub fn shards(turn: u64, of: u32, fences: BTreeMap<u32, Fence>) -> Self {
        Self(Some(Shards { turn, of, fences }))
    }

    pub(super) fn turn(&self) -> u64 {
        self.0.as_ref().map_or(0, |shards| shards.turn)
    }

    pub(super) fn fences(&self) -> impl Iterator<Item = &Fence> {
        self.0.iter().flat_map(|shards| shards.fences.values())
    }

    /// Whether a source is this replica's to work on.
    pub fn holds(&self, source: &SourceKey) -> bool {
        self.0.is_none() || self.fence(source).is_some()
    }

    /// What the writes of a source ask; nothing where this works alone, or where the source is not this replica's.
    pub fn fence(&self, source: &SourceKey) -> Option<&Fence> {
        let shards = self.0.as_ref()?;
        shards.fences.get(&shard_of(source, shards.of))
    }

    /// Whether a source that began under one of these may go on under the other: it is held by the same tenure.
    pub fn continues(&self, before: &Self, source: &SourceKey) -> bool {
        match (before.fence(source), self.fence(source)) {
            (Some(before), Some(now)) => before.is(now),
            (None, None) => self.holds(source) && before.holds(source),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// The numbers of the shards, sorted; none where this works alone.
    pub fn numbers(&self) -> Vec<u32> {
        self.0.iter().flat_map(|shards| shards.fences.keys().copied()).collect()
    }
}
